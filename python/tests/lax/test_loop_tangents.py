"""Forward mode of loops, beside PyTorch's of the same loops in Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import torchlette.torch as facade
from torchlette import lax

SCAN = Callable[..., Any]


def unrolled(f: Any, init: Any, xs: Any, reverse: bool = False) -> Any:
    """``lax.scan`` under PyTorch."""
    ys = []
    for x in reversed(xs.unbind()) if reverse else xs.unbind():
        init, y = f(init, x)
        ys.append(y)
    return init, torch.stack(ys[::-1] if reverse else ys)


def recurrent(mod: Any, scan: SCAN, w: Any, h: Any, xs: Any, reverse: bool = False) -> Any:
    """A recurrence whose weight comes from outside of the body."""
    last, ys = scan(lambda c, x: (mod.tanh(c @ w + x), (c * x).sum()), h, xs, reverse=reverse)
    return last * ys.sum()


def double(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64) * 0.5


def same(got: Any, want: Any) -> None:
    torch.testing.assert_close(torch.tensor(got.tolist(), dtype=torch.float64), want.detach())


def both(program: Callable[[Any, SCAN, list[Any]], list[Any]], data: list[torch.Tensor]) -> None:
    """Compare the results of a program under both libraries."""
    want = program(torch, unrolled, data)
    got = program(facade, lax.scan, [facade.tensor(d.tolist(), dtype=facade.float64) for d in data])
    assert len(got) == len(want)
    for a, b in zip(got, want, strict=True):
        same(a, b)


@pytest.mark.parametrize("reverse", [False, True])
def test_tangents_of_carries_xs_and_values_from_outside(reverse: bool) -> None:
    """Each alone and all together, also nested, mapped, and with reverse mode on either side."""

    def program(mod: Any, scan: SCAN, data: list[Any]) -> list[Any]:
        func, (w, h, xs, tw, th, tx) = mod.func, data
        f = lambda w, h, xs: recurrent(mod, scan, w, h, xs, reverse)  # noqa: E731
        tangent = lambda h: func.jvp(lambda w: f(w, h, xs), (w,), (tw,))[1]  # noqa: E731
        return [
            *func.jvp(f, (w, h, xs), (tw, th, tx)),
            *func.jvp(lambda w: f(w, h, xs), (w,), (tw,)),
            *func.jvp(lambda xs: f(w, h, xs), (xs,), (tx,)),
            *func.jvp(tangent, (h,), (th,)),
            func.jacfwd(f)(w, h, xs),
            func.hessian(lambda h: f(w, h, xs).sum())(h),
            func.jacrev(tangent)(h),
            func.jacfwd(func.jacfwd(f, 1), 1)(w, h, xs),
            func.vmap(tangent)(mod.stack([h, th])),
            func.linearize(lambda w: f(w, h, xs), w)[1](tw),
        ]

    both(program, [double(3, 3), double(3), double(4, 3), double(3, 3), double(3), double(4, 3)])


def test_tangents_without_gradients_and_of_detached_values() -> None:
    """``no_grad`` stops gradients, not tangents; ``detach`` stops both, in a body and in bodies that come from it."""

    def program(mod: Any, scan: SCAN, data: list[Any]) -> list[Any]:
        func, (w, h, xs) = mod.func, data

        def f(h: Any) -> Any:
            step = lambda c, x: (c.detach() * x + (c * w).sin(), c)  # noqa: E731
            last, ys = scan(step, h, xs)
            return last + ys[1].detach() * ys[2]

        def g(h: Any) -> Any:
            return scan(lambda c, x: ((c * c * x).detach(), c * x), h, xs)[1].sum(0)

        with mod.no_grad():
            plain = func.jvp(f, (h,), (w,))[1]
        return [plain, func.jvp(f, (h,), (w,))[1], func.jvp(g, (h,), (w,))[1],
                func.jvp(func.grad(lambda h: f(h).sum()), (h,), (w,))[1]]  # fmt: skip

    both(program, [double(3), double(3), double(4, 3)])


def test_dual_levels_around_a_loop() -> None:
    """``forward_ad`` reads a dual tensor from outside, and gives the tangents of stacked results."""
    w, t, h, xs = double(3), double(3), double(3), double(4, 3)

    def program(mod: Any, scan: SCAN, data: list[Any]) -> list[Any]:
        ad, (w, t, h, xs) = mod.autograd.forward_ad, data
        with ad.dual_level():
            dual = ad.make_dual(w, t)
            last, ys = scan(lambda c, x: (mod.sin(c * dual) + x, c), h, xs)
            return [*ad.unpack_dual(last), *ad.unpack_dual(ys)]

    both(program, [w, t, h, xs])


def test_tangents_of_loops_that_a_condition_ends() -> None:
    """As in JAX, forward mode goes through ``while_loop``, and through ``fori_loop`` with tensors as bounds."""
    x = facade.tensor([1.1, 1.3], dtype=facade.float64)
    k = facade.tensor(1.5, dtype=facade.float64)

    def grown(x: Any, k: Any) -> Any:
        return lax.while_loop(lambda c: c.sum() < 20, lambda c: c * 1.5 + c.cos().exp() * k, x)

    def python(x: Any, k: Any) -> Any:
        while x.sum() < 20:
            x = x * 1.5 + x.cos().exp() * k
        return x

    p, q = torch.tensor(x.tolist(), dtype=torch.float64), torch.tensor(1.5, dtype=torch.float64)
    one, ones = torch.ones_like(q), torch.ones_like(p)
    for a, b in zip(
        facade.func.jvp(grown, (x, k), (facade.ones_like(x), facade.ones_like(k))),
        torch.func.jvp(python, (p, q), (ones, one)),
        strict=True,
    ):
        same(a, b)
    columns = [torch.func.jvp(lambda p: python(p, q), (p,), (e,))[1] for e in torch.eye(2, dtype=torch.float64)]
    same(facade.func.jacfwd(grown)(x, k), torch.stack(columns, 1))
    power = lambda v: lax.fori_loop(facade.tensor(0), facade.tensor(4), lambda i, c: c * v, v)  # noqa: E731
    same(facade.func.jvp(power, (k,), (facade.ones_like(k),))[1], 5 * q**4)
    rows = facade.func.vmap(lambda k: facade.func.jvp(lambda k: grown(x, k), (k,), (k,))[1])(facade.stack([k, k * 2]))
    for row, scale in zip(rows, (1, 2), strict=True):
        same(row, torch.func.jvp(lambda k: python(p, k), (q * scale,), (q * scale,))[1])


def test_one_loop_computes_values_and_tangents() -> None:
    """The loop of values alone is in no program that has this one."""

    def last(v: Any) -> Any:
        return lax.scan(lambda c, _: ((c[0] * 0.5, c[1] * v, c[2] + c[1]), None), (v * 0, v, v * 0), length=3)[0][2]

    text = facade.func.make_program(lambda v: facade.func.jvp(last, (v,), (v,)))(facade.ones(2))
    assert text.count(" = loop{") == 1, text


def test_a_program_shows_the_bodies_of_its_loops() -> None:
    def f(x):
        return lax.scan(lambda c, r: (c + lax.fori_loop(0, 3, lambda i, y: y.cos(), r), c.sin()), x[0], x)

    text = str(facade.func.make_program(f)(facade.ones(4, 2)))
    head, *bodies = text.split("\nbody ")
    assert len(bodies) == 2
    assert "loop{" + bodies[0].split("\n")[0] + "," in head
    assert "  %0 = " in bodies[0]
    assert "sin" in bodies[0]
    assert "cos" in bodies[1]


def symmetric(q: Any) -> Any:
    return q[:, None] * q[None] + 2 * facade.eye(3, dtype=q.dtype)


#: Operators that compute less where nothing differentiates by their operand.
CLOSED: dict[str, Callable[[Any], Any]] = {
    "solve": lambda q: facade.linalg.solve(symmetric(q), q),
    "inverse": lambda q: facade.linalg.inv(symmetric(q)),
    "factors": lambda q: facade.linalg.lu_solve(*facade.linalg.lu_factor(symmetric(q)), q[:, None]),
    "logarithm of a determinant": lambda q: facade.linalg.slogdet(symmetric(q))[1],
    "pseudo-inverse": lambda q: facade.linalg.pinv(symmetric(q)),
    "exponential": lambda q: facade.linalg.matrix_exp(symmetric(q)),
    "product with a zero": lambda q: (q * facade.tensor([0.0, 1, 1], dtype=q.dtype)).prod(),
    "running product with a zero": lambda q: (q * facade.tensor([1.0, 0, 1], dtype=q.dtype)).cumprod(0),
    "largest": lambda q: facade.linalg.vector_norm(q, float("inf")) * q,
    "norm of 3": lambda q: facade.linalg.vector_norm(q, 3) * q,
    "sorted": lambda q: q.sort().values * q,
    "top": lambda q: q.topk(2).values * q[:2],
    "median": lambda q: q.median() * q,
    "distances": lambda q: facade.cdist(symmetric(q), symmetric(q * q), p=float("inf")),
    "renormalized": lambda q: facade.renorm(symmetric(q), 2, 0, 1.0),
    "absolute": lambda q: q.abs() * q,
    "lookup": lambda q: facade.nn.functional.embedding(facade.tensor([0, 2]), symmetric(q), padding_idx=2) ** 2,
}


@pytest.mark.parametrize("op", CLOSED)
def test_tangents_of_tensors_from_outside_at_two_levels(op: str) -> None:
    """A body, and a body derived from it, computes what tangents at each level around the loop need."""
    func, f = facade.func, CLOSED[op]
    x, y = (facade.tensor(v, dtype=facade.float64) for v in ([0.3, -0.4, 0.7], [0.5, 0.2, -0.1]))
    loops: list[Callable[[Callable[[], Any]], Any]] = [
        lambda b: b().sum(),
        lambda b: lax.cond(x[0] > 0, lambda: b().sum(), lambda: b().sum() * 0),
        lambda b: lax.scan(lambda c, _: (c + b().sum(), None), facade.zeros_like(x[0]), None, length=1)[0],
    ]

    def derivatives(g: Callable[[Any], Any]) -> list[Any]:
        return [
            func.jvp(g, (x,), (y,))[1],
            func.jvp(lambda z: func.jvp(g, (z.sin(),), (z,))[1], (x,), (y,))[1],
            func.jacfwd(lambda z: func.jvp(g, (z,), (z,))[1])(x),
            func.hessian(g)(x),
        ]

    want, *found = [derivatives(lambda q, k=k: k(lambda: f(q))) for k in loops]
    for got in found:
        for a, b in zip(got, want, strict=True):
            torch.testing.assert_close(torch.from_numpy(a.numpy()), torch.from_numpy(b.numpy()))


@pytest.mark.parametrize("f", [lambda a: a.exp(), lambda a: a.sin() * a], ids=["a result", "an operand"])
def test_a_body_differentiates_what_a_checkpoint_computes_again(f: Callable[[Any], Any]) -> None:
    """Each walk through a checkpoint computes its saved values anew: all of them have the history of the first."""
    func, checkpoint = facade.func, facade.utils.checkpoint.checkpoint
    x, w = (facade.tensor(v, dtype=facade.float64) for v in ([0.3, -0.4, 0.7], [1.0, 2.0, 3.0]))

    def pulled_twice(v: Any) -> Any:
        out, pull = func.vjp(lambda q: checkpoint(f, q, use_reentrant=False), v)
        return pull(w)[0] + pull(out.cos())[0]

    def looped(v: Any) -> Any:
        return lax.scan(lambda c, _: (pulled_twice(c), None), v, None, length=1)[0]

    got, want = (func.jacrev(g)(x) for g in (looped, pulled_twice))
    torch.testing.assert_close(torch.from_numpy(got.numpy()), torch.from_numpy(want.numpy()))
