"""Loops under ``vmap`` whose bodies read the point of a transform around them through views, in a batch of their own;
beside PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from test_loops_in_transforms import both, branch, scan, until

import torchlette.torch as facade
from torchlette import jit, lax

VIEWS: dict[str, Callable[[Any, Any], Any]] = {
    "all": lambda mod, x: x,
    "slices": lambda mod, x: x[1:].sum() * x,
    "integers": lambda mod, x: x[2] - x * x[0],
    "transposed": lambda mod, x: (x.expand(2, 3).t() * mod.arange(2)).select(1, 1),
    "expanded": lambda mod, x: (x[:, None] * x[None]).diagonal() + x.expand(3, 3)[1],
    "flipped": lambda mod, x: x.flip(0),
    "strided": lambda mod, x: x.as_strided((3,), (1,), 0),
    "without history": lambda mod, x: (x > 0) * x * x.detach()[1:].sum(),
    "product": lambda mod, x: mod.ones(3, 3, dtype=mod.float64) @ x,
    "folded": lambda mod, x: mod.nn.functional.conv1d(
        x.view(1, 1, 3), mod.ones(1, 1, 3, dtype=mod.float64), padding=1
    ).view(3),
}


def loops(mod: Any, read: Callable[[Any, Any], Any], x: Any, t: Any) -> dict[str, Callable[[], Any]]:
    """Return functions of a point x and a vector t with a loop, whose body has a batch."""

    def body(c: Any) -> Any:
        return mod.func.vmap(lambda q: (read(mod, x) * q + t).sin())(mod.stack([c, c * 2])).sum(0)

    return {
        "scan": lambda: scan(mod, lambda c, r: (body(c) * r, c), x * 0.5, mod.stack([t, x])).sum(),
        "branch": lambda: branch(mod, x.detach()[0] > 0, lambda: body(t * x), lambda: body(t)).sum(),
    }


@pytest.mark.parametrize("kind", ["scan", "branch"])
@pytest.mark.parametrize("view", VIEWS)
def test_gradients_by_a_point_that_a_body_reads(view: str, kind: str) -> None:
    def program(mod: Any, x: Any, y: Any) -> list[Any]:
        def f(v: Any, t: Any) -> Any:
            return loops(mod, VIEWS[view], v, t)[kind]()

        slope = mod.func.grad(f)
        rows, jvp = mod.stack([y, y + 1]), mod.func.jvp
        return [
            mod.func.vmap(lambda t: slope(x, t))(rows),
            mod.func.vmap(lambda t: jvp(lambda s: slope(x, s), (t,), (x,))[1])(rows),
            mod.func.vmap(lambda t: mod.func.hessian(lambda v: f(v, t))(x))(rows),
        ]

    both(program)


@pytest.mark.parametrize("view", VIEWS)
def test_tangents_of_a_point_that_a_body_reads(view: str) -> None:
    def program(mod: Any, x: Any, y: Any) -> list[Any]:
        def f(v: Any, t: Any) -> Any:
            batch = mod.func.vmap(lambda q: (VIEWS[view](mod, v) * q).sin())
            return until(mod, lambda c: batch(mod.stack([c, c * t])).sum(0), t)

        return [mod.func.vmap(lambda t: mod.func.jvp(lambda v: f(v, t), (x,), (t,))[1])(mod.stack([y, y + 1]))]

    both(program)


def test_a_point_whose_batches_a_rule_joins() -> None:
    """The body reads a copy, because dense strides cannot join the batch around the loop with that in the body."""

    def program(mod: Any, x: Any, y: Any) -> list[Any]:
        def f(v: Any, t: Any) -> Any:
            def conv(q: Any) -> Any:
                return mod.nn.functional.conv1d(v.view(1, 1, 3), (q * t).view(1, 1, 3), padding=1).view(3)

            return scan(
                mod, lambda c, r: (mod.func.vmap(conv)(mod.stack([c, r])).sum(0), c), t, mod.stack([y, y])
            ).sum()

        return [mod.func.vmap(lambda t: mod.func.grad(f)(x, t))(mod.stack([y, y + 1]))]

    both(program)


def test_a_view_made_before_the_loop_and_nested_batches() -> None:
    def program(mod: Any, x: Any, y: Any) -> list[Any]:
        def f(v: Any, t: Any, s: Any) -> Any:
            w = v.expand(2, 3).t()[:, 1:]
            last = scan(
                mod, lambda c, r: (mod.func.vmap(lambda q: q * w[:, 0] * s)(mod.stack([c, r])).sum(0), c), t, w.t()
            )
            return (last * v).sum()

        inner = mod.func.vmap(mod.func.grad(f), (None, 0, None))
        outer = mod.func.vmap(lambda s: inner(x, mod.stack([y, y * s[0]]), s))
        return [outer(mod.stack([x, y])), mod.func.grad(lambda s: outer(mod.stack([x * s, y])).sum())(y)]

    both(program)


CLOSED: dict[str, Callable[[Any], Any]] = {
    "reshape": lambda x: x.view(3, 1),
    "slice": lambda x: x[1:],
    "expanded": lambda x: x.expand(2, 3),
    "transposed": lambda x: (x[:, None] * x).t(),
    "steps": lambda x: (x * 2)[::2],
    "all": lambda x: x.view(3),
}


@pytest.mark.parametrize("kind", ["scan", "branch", "function"])
@pytest.mark.parametrize("view", CLOSED)
def test_a_view_from_outside_has_gradients_and_hooks(view: str, kind: str) -> None:
    """A loop, or a captured function at each of its calls, reads the view and not its base."""

    def program(mod: Any, x: Any, y: Any) -> list[Any]:
        base = x.requires_grad_()
        v, seen = CLOSED[view](base), []
        v.retain_grad()
        v.register_hook(seen.append)
        weights = mod.arange(v.numel(), dtype=mod.float64).view(v.shape)
        c = mod.zeros((), dtype=mod.float64)
        if kind == "scan":
            out = scan(mod, lambda c, r: (c + (v * v * weights).sum() * r.sum(), c), c, mod.stack([y, y + 1]))
        elif kind == "branch":
            out = branch(mod, y[0] > 0, lambda: (v * v * weights).sum(), lambda: (v * weights).sum())
        else:
            f = (jit if mod is facade else lambda f: f)(lambda r: (r * (v * v * weights).sum()).sum())
            f(y)
            out = f(y)
        (wanted,) = mod.autograd.grad(out, v, retain_graph=True)
        out.backward()
        return [wanted, v.grad, *seen, base.grad]

    both(program)


@pytest.mark.parametrize("kind", ["scan", "branch"])
def test_a_body_has_the_gradients_of_a_point_that_a_batch_shares(kind: str) -> None:
    """The point is a view of a tensor of the body, expanded to a batch that its elements do not depend on."""
    x = facade.tensor([[0.3, -0.4, 0.7], [1.0, 0.5, -0.2]], dtype=facade.float64)

    def slopes(row: Any) -> Any:
        slope = facade.func.grad(lambda v: loops(facade, VIEWS["slices"], v, row)[kind]())
        return facade.func.vmap(lambda d: facade.func.vmap(slope)(row[None]) * d)(facade.arange(2))

    want = facade.stack([slopes(row) for row in x.unbind()])
    torch.testing.assert_close(torch.from_numpy(lax.map(slopes, x).numpy()), torch.from_numpy(want.numpy()))
    assert want.abs().max() > 0.1
