"""Loops and branches of complex numbers: values, gradients, tangents and batches of PyTorch's plain loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import torchlette
import torchlette.torch as ours
from torchlette import lax

N = 4


def numbers(lib: Any, seed: int, *shape: int, device: str = "cpu") -> Any:
    drawn = torch.randn(*shape, dtype=torch.complex64, generator=torch.Generator().manual_seed(seed))
    return lib.tensor(drawn.tolist(), device=device)


class Plain:
    """The functions of ``lax`` as plain loops of PyTorch."""

    @staticmethod
    def scan(f: Any, init: Any, xs: Any, reverse: bool = False) -> Any:
        ys = []
        for i in reversed(range(len(xs))) if reverse else range(len(xs)):
            init, y = f(init, xs[i])
            ys.append(y)
        return init, torch.stack(ys[::-1] if reverse else ys)

    @staticmethod
    def while_loop(cond: Any, body: Any, value: Any) -> Any:
        while cond(value):
            value = body(value)
        return value

    @staticmethod
    def cond(pred: Any, f: Any, g: Any, *operands: Any) -> Any:
        return f(*operands) if pred else g(*operands)

    @staticmethod
    def map(f: Any, xs: Any) -> Any:
        return torch.stack([f(x) for x in xs])

    @staticmethod
    def fori_loop(begin: int, end: int, f: Any, value: Any) -> Any:
        for i in range(begin, end):
            value = f(i, value)
        return value


def _step(w: Any) -> Callable[[Any, Any], Any]:
    return lambda c, x: ((c * w + x).tanh(), (c * x.conj()).abs())


PROGRAMS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "scan": lambda lx, w, xs: lx.scan(_step(w), xs[0] * 0, xs),
    "scan backward": lambda lx, w, xs: lx.scan(lambda c, x: (c * w + x, c * x), xs[0], xs, reverse=True),
    "scan of a real carry": lambda lx, w, xs: lx.scan(lambda c, x: (c + (w * x).abs(), x / (1 + c)), w.abs(), xs),
    "unchanged carry": lambda lx, w, xs: lx.scan(lambda c, x: (c, x), w, xs),
    "views as results": lambda lx, w, xs: lx.scan(lambda c, x: (x.flip(0), c.real), w, xs),
    "fori_loop": lambda lx, w, xs: (lx.fori_loop(0, 3, lambda i, v: v * w + xs.sum(0), w),),
    "map": lambda lx, w, xs: (lx.map(lambda x: x * w.conj() + x.imag, xs),),
    "map of a product": lambda lx, w, xs: (lx.map(lambda x: (x[:, None] * w) @ x, xs),),
    "cond": lambda lx, w, xs: (lx.cond(w.real.sum() > 0, lambda v: v * v, lambda v: v.conj() * 3, w),),
    "cond of itself": lambda lx, w, xs: (lx.cond(w.real.sum() < 9, lambda v: v, lambda v: v * 2, w),),
    "scan of conds": lambda lx, w, xs: lx.scan(
        lambda c, x: (lx.cond(x.real.sum() > 0, lambda v: v * w, lambda v: v + w, c), c), w, xs
    ),
    "strides": lambda lx, w, xs: lx.scan(lambda c, x: (c + x, x * c), w[:2], xs[:, ::2]),
    "one row for all": lambda lx, w, xs: lx.scan(lambda c, x: (c * x, x), w, xs[:1].expand(3, N)),
}


def size(outs: Any) -> Any:
    return sum((o.abs() ** 2).sum() for o in outs)


def run(lib: Any, lx: Any, name: str, device: str) -> list[Any]:
    f = PROGRAMS[name]
    w, xs = numbers(lib, 1, N, device=device), numbers(lib, 2, 5, N, device=device)
    tw, tx = numbers(lib, 3, N, device=device), numbers(lib, 4, 5, N, device=device)
    outs = f(lx, w, xs)
    gradients = lib.func.grad(lambda w, xs: size(f(lx, w, xs)), argnums=(0, 1))(w, xs)
    _, tangent = lib.func.jvp(lambda w, xs: size(f(lx, w, xs)), (w, xs), (tw, tx))
    return [*outs, *gradients, tangent]


def close(got: Any, want: Any) -> None:
    assert str(got.dtype).rpartition(".")[2] == str(want.dtype).rpartition(".")[2]
    torch.testing.assert_close(torch.tensor(got.tolist(), dtype=want.dtype), want, rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("name", PROGRAMS)
def test_complex_loops(device: str, name: str) -> None:
    for got, want in zip(run(ours, lax, name, device), run(torch, Plain, name, "cpu"), strict=True):
        close(got, want.detach())


@pytest.mark.parametrize("name", [n for n in PROGRAMS if "cond" not in n])
def test_batches_of_complex_loops(device: str, name: str) -> None:
    f = PROGRAMS[name]
    ws, xs = numbers(ours, 1, 3, N, device=device), numbers(ours, 2, 3, 5, N, device=device)
    got = ours.func.vmap(lambda w, x: f(lax, w, x))(ws, xs)
    gradients = ours.func.vmap(ours.func.grad(lambda w, x: size(f(lax, w, x))))(ws, xs)
    for i in range(3):
        want = f(Plain, numbers(torch, 1, 3, N)[i], numbers(torch, 2, 3, 5, N)[i])
        for a, b in zip(got, want, strict=True):
            close(a[i], b)
        w = numbers(torch, 1, 3, N)[i].requires_grad_()
        size(f(Plain, w, numbers(torch, 2, 3, 5, N)[i])).backward()
        close(gradients[i], w.grad)


def test_complex_loops_end_by_data_and_in_captured_functions(device: str) -> None:
    w = numbers(ours, 1, N, device=device)
    double = lambda v: lax.while_loop(lambda c: c.abs().sum() < 50, lambda c: c * (1 + 1j) + 0.5, v)  # noqa: E731
    want = Plain.while_loop(lambda c: c.abs().sum() < 50, lambda c: c * (1 + 1j) + 0.5, numbers(torch, 1, N))
    close(double(w), want)
    close(torchlette.jit(double)(w), want)
    for element in (w, w.to(ours.complex64) * 2):
        close(lax.switch(1, [lambda v: v, lambda v: v * 2j], element), torch.tensor(element.tolist()) * 2j)
    last, ys = lax.scan(lambda c, x: (c + x, c), w, ours.empty(0, N, dtype=ours.complex64, device=device))
    assert (last.tolist(), list(ys.shape), ys.dtype) == (w.tolist(), [0, N], ours.complex64)
    with pytest.raises(TypeError, match=r"complex64\[4\].*\n?.*float32\[4\]"):
        lax.scan(lambda c, x: (c.abs(), None), w, None, 2)
