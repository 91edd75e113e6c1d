"""Loops under ``vmap`` whose bodies read the point of a transform around them through views, in a batch of their own;
beside PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from test_loops_in_transforms import both, branch, scan, until

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
