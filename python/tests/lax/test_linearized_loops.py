"""``func.linearize`` of loops: the linear function computes tangents alone, from values that are kept."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from test_loops_in_transforms import both

import torchlette.torch as facade
from torchlette import lax


def scan(mod: Any, f: Callable[[Any, Any], tuple[Any, Any]], init: Any, xs: Any, reverse: bool = False) -> Any:
    """Return the last carry and the stacked results of a loop, which is one in Python under PyTorch."""
    if mod is facade:
        return lax.scan(f, init, xs, reverse=reverse)
    ys = []
    for x in reversed(xs.unbind()) if reverse else xs.unbind():
        init, y = f(init, x)
        ys.append(y)
    return init, mod.stack(ys[::-1] if reverse else ys)


def _carries(mod: Any, v: Any, y: Any) -> Any:
    last, ys = scan(mod, lambda c, u: ((c * v).tanh() + u, c.exp() * u), v, mod.stack([y, v * y, y * 2]))
    return last + ys.sum(0)


def _backwards(mod: Any, v: Any, y: Any) -> Any:
    step = lambda c, u: ((c[0] + 1, (c[1] * u).sin()), mod.where(u > c[1], c[1], u * c[0]))  # noqa: E731
    (_, last), ys = scan(mod, step, (mod.tensor(0), y), mod.stack([v, y]), reverse=True)
    return last * ys[0] + ys[1]


def _weights(mod: Any, v: Any, y: Any) -> Any:
    w = mod.outer(y, y)
    return scan(mod, lambda c, u: ((w.sin() @ c * v.detach()).tanh(), u * c[:1]), v, mod.stack([y, y]))[0]


def _detached(mod: Any, v: Any, y: Any) -> Any:
    last, ys = scan(mod, lambda c, u: (c * u.detach(), c + v.detach()), y, mod.stack([y, v]))
    return last * ys.sum(0) + v.sin()


def _linear(mod: Any, v: Any, y: Any) -> Any:
    return scan(mod, lambda c, u: (c * 2 + u, c), v, mod.stack([y, y]))[1].sum(0)


def _nested(mod: Any, v: Any, y: Any) -> Any:
    inner = lambda c, u: scan(mod, lambda d, q: ((d * q * u).sin(), d), c, mod.stack([y, v]))[0]  # noqa: E731
    return scan(mod, lambda c, u: (inner(c, u).tanh(), c * u), v, mod.stack([y, v]))[0]


def _mapped(mod: Any, v: Any, y: Any) -> Any:
    return mod.func.vmap(lambda u: scan(mod, lambda c, x: ((c * u).sin(), c * x), v * u, mod.stack([y, v]))[0])(
        mod.stack([y, v])
    ).sum(0)


def _gradient(mod: Any, v: Any, y: Any) -> Any:
    return mod.func.grad(lambda u: _carries(mod, u, y).sum())(v)


LOOPS = {f.__name__[1:]: f for f in (_carries, _backwards, _weights, _detached, _linear, _nested, _mapped, _gradient)}


def carries(push: Callable[[Any], Any], like: Any) -> list[int]:
    """Return how many carries each outer loop in the program of a linear function has."""
    program, *_ = facade.func.make_program(push)(like).split("\nbody ")
    return [int(n) for n in re.findall(r"= loop\{\d+,(\d+),", program)]


@pytest.mark.parametrize("name", LOOPS)
def test_linearize_of_a_loop(name: str) -> None:
    def program(mod: Any, x: Any, y: Any) -> list[Any]:
        value, push = mod.func.linearize(lambda v: LOOPS[name](mod, v, y), x)
        found = [push(y), push(x), value, mod.func.vmap(push)(mod.stack([x, y]))]
        if mod is facade and name != "gradient":  # which has more than one tangent
            assert carries(push, y) == ([] if name == "detached" else [1])
        return found

    both(program)


def test_the_linear_function_of_a_loop_runs_one_loop_without_values() -> None:
    x = facade.linspace(0.1, 0.9, 5)
    calls = []

    def f(v: Any) -> Any:
        calls.append(1)
        return lax.scan(lambda c, _: ((c * v).tanh(), None), v, None, length=50)[0]

    value, push = facade.func.linearize(f, x)
    want = torch.func.jvp(lambda v: _steps(v, 50), (torch.linspace(0.1, 0.9, 5),), (torch.ones(5),))
    torch.testing.assert_close(torch.tensor(value.tolist()), want[0])
    torch.testing.assert_close(torch.tensor(push(facade.ones(5)).tolist()), want[1])
    assert len(calls) == 1
    text = facade.func.make_program(push)(x)
    assert "constant $1 : f32[50,5]" in text, text
    assert carries(push, x) == [1]


def _steps(v: Any, n: int) -> Any:
    c = v
    for _ in range(n):
        c = (c * v).tanh()
    return c


def test_a_loop_that_would_keep_much_computes_its_values_again() -> None:
    """Values of up to 32 MiB are kept, as for a gradient."""
    for length, count in ((1_000, 1), (2_000, 2)):
        f = lambda v, n=length: lax.fori_loop(0, n, lambda i, c: c.tanh(), v)  # noqa: E731
        _, push = facade.func.linearize(f, facade.ones(8_000))
        assert carries(push, facade.ones(8_000)) == [count]


def test_tangents_that_draw_repeat_the_draws() -> None:
    f = lambda v: lax.fori_loop(0, 3, lambda i, c: facade.nn.functional.dropout((c * v).sin()), v)  # noqa: E731
    x = facade.linspace(0.1, 0.9, 64)
    value, push = facade.func.linearize(f, x)
    first = push(facade.ones(64))
    assert first.tolist() == push(facade.ones(64)).tolist()
    assert [a == 0 for a in first.tolist()] == [a == 0 for a in value.tolist()]
