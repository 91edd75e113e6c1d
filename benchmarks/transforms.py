"""Transforms beside torch.func: per-sample gradients, Jacobians, Hessians, and a model under many seeds.

``python benchmarks/transforms.py [--record]`` prints a row for each. Ratios below 1 say that torchlette is faster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from measure import Row, main, race

import torchlette
import torchlette.torch as facade


def _model(lib: Any, layers: Callable[[Any], list[Any]]) -> tuple[Any, dict[str, Any]]:
    lib.manual_seed(0)
    model = lib.nn.Sequential(*layers(lib.nn))
    return model, {k: p.detach() for k, p in model.named_parameters()}


def _mlp(nn: Any) -> list[Any]:
    return [nn.Linear(64, 128), nn.Tanh(), nn.Linear(128, 128), nn.Tanh(), nn.Linear(128, 10)]


def _cnn(nn: Any) -> list[Any]:
    first = [nn.Conv2d(1, 8, 3), nn.ReLU(), nn.MaxPool2d(2)]
    return [*first, nn.Conv2d(8, 16, 3), nn.ReLU(), nn.Flatten(), nn.Linear(400, 10)]


def per_sample(lib: Any, layers: Callable[[Any], list[Any]], shape: tuple[int, ...]) -> Callable[[], Any]:
    """Gradients of each of 256 samples by all parameters."""
    model, params = _model(lib, layers)
    x, y = lib.randn(256, *shape), lib.arange(256) % 10

    def loss(p: Any, row: Any, target: Any) -> Any:
        return lib.nn.functional.cross_entropy(lib.func.functional_call(model, p, (row[None],)), target[None])

    f = lib.func.vmap(lib.func.grad(loss), in_dims=(None, 0, 0))
    return lambda: list(f(params, x, y).values())


def hessian(lib: Any) -> Callable[[], Any]:
    """The Hessian of a function of 50 parameters."""
    a, x = lib.randn(50, 50), lib.randn(50)
    f = lib.func.hessian(lambda v: ((a @ v).tanh() * v.sin()).sum())
    return lambda: [f(x)]


def jacobian(lib: Any, name: str) -> Callable[[], Any]:
    """The Jacobian of a function from 4 to 4,096 numbers."""
    a, x = lib.randn(4096, 4), lib.randn(4)
    f = getattr(lib.func, name)(lambda v: (a @ v).sin())
    return lambda: [f(x)]


def seeds(lib: Any, mapped: bool) -> Callable[[], Any]:
    """A model over 100 batches of 32 samples: by vmap, or as one batch of 3,200."""
    model, params = _model(lib, _mlp)
    x = lib.randn(100, 32, 64)

    def call(rows: Any) -> Any:
        return lib.func.functional_call(model, params, (rows,))

    if mapped:
        return lambda: [lib.func.vmap(call)(x)]
    return lambda: [call(x.reshape(3200, 64))]


def _done(f: Callable[[], Any]) -> Callable[[], None]:
    """Return ``f`` with its results computed."""
    return lambda: torchlette.realize(*f())


def rows() -> Iterable[Row]:
    """Race the rows."""
    pairs = {
        "per-sample gradients, MLP": lambda lib: per_sample(lib, _mlp, (64,)),
        "per-sample gradients, CNN": lambda lib: per_sample(lib, _cnn, (1, 16, 16)),
        "hessian of 50 parameters": hessian,
        "jacfwd from 4 to 4096": lambda lib: jacobian(lib, "jacfwd"),
        "jacrev from 4096 results": lambda lib: jacobian(lib, "jacrev"),
    }
    for name, make in pairs.items():
        ours, theirs = race(_done(make(facade)), make(torch), rounds=15, warm=4)
        yield Row(name, ours, theirs)
    ours, one = race(_done(seeds(facade, True)), _done(seeds(facade, False)))
    yield Row("vmap over 100 seeds, to one call", ours, one)


if __name__ == "__main__":
    main("transforms", rows)
