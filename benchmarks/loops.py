"""Loops with a body beside the same loop in Python under PyTorch, and beside ``jax.lax.scan`` where JAX is installed.

``python benchmarks/loops.py [--record]`` prints a row for each. Ratios below 1 say that torchlette is faster. Beside
PyTorch the loop is recorded in each call. Beside JAX both sides compile a function before it is timed: ``jax.jit`` and
``torchlette.jit``; subnormal numbers are 0 on both sides, as ``jax.jit`` makes them.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch
from measure import Row, main, race

import torchlette
import torchlette.torch as facade
from torchlette import lax

#: A carry's shape and the step of a loop, by the namespace of array functions.
Body = tuple[tuple[int, ...], Callable[[Any, Any], Any]]


def _kalman(mod: Any, state: Any) -> Any:
    """One step of a filter of two states: the carry is the mean in a row above the covariance."""
    mean, cov = state[0], state[1:]
    step = mod.stack([mod.stack([cov[0, 0] + 0.1 * cov[1, 0], cov[0, 1]]), mod.stack([cov[1, 0], cov[1, 1] + 0.01])])
    gain = step[:, 0] / (step[0, 0] + 0.5)
    error = 1.0 - mean[0]
    return mod.stack([mean + gain * error, *(step - gain[:, None] * step[0][None, :])])


BODIES: dict[str, Body] = {
    "scalar sum": ((), lambda mod, x: x * 0.999 + 0.1),
    "4 maps of 4 floats": ((4,), lambda mod, x: mod.tanh(x * 0.9 + 0.1) - 0.05),
    "product 4x4": ((4, 4), lambda mod, x: x @ x * 0.5),
    "product 16x16": ((16, 16), lambda mod, x: x @ x * 0.1),
    "product 64x64": ((64, 64), lambda mod, x: x @ x * 0.02),
    "Kalman filter of 2 states": ((3, 2), _kalman),
}


def start(shape: tuple[int, ...]) -> Any:
    """Return the first carry as a NumPy array."""
    return np.random.default_rng(0).uniform(0.1, 0.5, shape).astype("float32")


def ours(name: str, length: int, gradient: bool) -> Callable[[], None]:
    """Return the loop under torchlette."""
    shape, step = BODIES[name]

    def last(x: Any) -> Any:
        return lax.scan(lambda c, _: (step(facade, c), None), x, None, length=length)[0]

    def run() -> None:
        x = facade.tensor(start(shape), requires_grad=gradient)
        out = last(x)
        torchlette.realize(facade.autograd.grad(out.sum(), x)[0] if gradient else out)

    return run


def captured(name: str, length: int, gradient: bool) -> Callable[[], None]:
    """Return the loop under torchlette, captured once."""
    shape, step = BODIES[name]

    def last(x: Any) -> Any:
        return lax.scan(lambda c, _: (step(facade, c), None), x, None, length=length)[0]

    f = torchlette.jit(facade.func.grad(lambda x: last(x).sum()) if gradient else last)
    x = facade.tensor(start(shape))
    return lambda: torchlette.realize(f(x))


def eager(name: str, length: int, gradient: bool) -> Callable[[], None]:
    """Return the loop in Python under PyTorch."""
    shape, step = BODIES[name]

    def run() -> None:
        x = torch.tensor(start(shape), requires_grad=gradient)
        out = x
        with torch.set_grad_enabled(gradient):
            for _ in range(length):
                out = step(torch, out)
        if gradient:
            torch.autograd.grad(out.sum(), x)

    return run


def compiled(name: str, length: int, gradient: bool) -> Callable[[], None]:
    """Return the loop under JAX, compiled."""
    jax = importlib.import_module("jax")
    jax.config.update("jax_platforms", "cpu")
    shape, step = BODIES[name]
    jnp = jax.numpy

    def last(x: Any) -> Any:
        return jax.lax.scan(lambda c, _: (step(jnp, c), None), x, None, length=length)[0]

    f = jax.jit(jax.grad(lambda x: last(x).sum()) if gradient else last)
    x = jnp.asarray(start(shape))
    return lambda: f(x).block_until_ready()


def rows() -> Iterable[Row]:
    """Race the rows."""
    rivals = {"PyTorch": (ours, eager)}
    if importlib.util.find_spec("jax"):
        rivals["JAX"] = (captured, compiled)
    for (name, gradient), (rival, sides) in (
        (row, r) for row in [(n, g) for n in BODIES for g in (False, True)] for r in rivals.items()
    ):
        length = 1_000 if "64" in name or rival == "PyTorch" else 10_000 if gradient else 100_000
        facade.set_flush_denormal(rival == "JAX")
        pair = [functools.partial(f, name, length, gradient)() for f in sides]
        mine, theirs = race(*pair, rounds=9, warm=12)  # loops are compiled when they are hot
        title = f"{name}{', gradient' if gradient else ''}: {length:,} iterations, to {rival}"
        yield Row(title, mine, theirs)


if __name__ == "__main__":
    main("loops", rows)
