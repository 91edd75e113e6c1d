"""Loops of many iterations: captured, with bool carries, in sessions, and with loops in the segments of gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import torchlette
import torchlette.torch as facade
from torchlette import lax
from torchlette.export import export, load, save

LENGTH = 10_000
#: Calls after which a function is captured, and its loops have machine code where the processor has a form for it.
CALLS = 6


def small_parts(mod: Any, loop: Any, w: Any, c: Any, xs: Any) -> Any:
    """A loop over rows whose body is a loop of three iterations, which reads a weight and the row."""

    def inner(row: Any) -> Any:
        return lambda v, x: (mod.sin(v * w) + row * x, v.mean())

    def outer(v: Any, row: Any) -> Any:
        v, means = loop(inner(row), v, mod.stack([row, row * 2, row - 1]))
        return v, means.sum()

    return loop(outer, c, xs)


def unrolled(f: Any, carry: Any, xs: Any) -> Any:
    ys = []
    for x in xs:
        carry, y = f(carry, x)
        ys.append(y)
    return carry, torch.stack(ys)


@pytest.mark.parametrize("captured", [False, True])
def test_segments_of_a_loop_with_a_loop_in_its_body(captured: bool) -> None:
    """A gradient does not keep 50 carries of 1 MiB. So it runs each segment, with its inner loops, again."""
    n, length = 1 << 17, 50
    data = [torch.tensor(0.9, dtype=torch.float64), torch.linspace(-1, 1, n, dtype=torch.float64)]
    data.append(torch.linspace(-0.5, 0.7, length, dtype=torch.float64))

    def loss(mod: Any, loop: Any, *args: Any) -> Any:
        last, ys = small_parts(mod, loop, *args)
        return (last * last).mean() + (ys * ys).sum()

    def gradients(*args: Any) -> Any:
        return facade.func.grad(lambda *a: loss(facade, lax.scan, *a), argnums=(0, 1, 2))(*args)

    f = torchlette.jit(gradients) if captured else gradients
    args = [facade.tensor(d.tolist(), dtype=facade.float64) for d in data]
    rounds = [[g.tolist() for g in f(*args)] for _ in range(3 if captured else 1)]
    leaves = [d.clone().requires_grad_() for d in data]
    want = torch.autograd.grad(loss(torch, unrolled, *leaves), leaves)
    for got in rounds:
        for g, w in zip(got, want, strict=True):
            torch.testing.assert_close(torch.tensor(g, dtype=torch.float64), w)


@pytest.mark.parametrize("gradient", [False, True])
def test_long_loops_of_captured_functions(gradient: bool) -> None:
    """The values of float64 in each call, and the same bits in calls by kernels and by machine code."""

    def last(x: Any) -> Any:
        return lax.scan(lambda c, k: (facade.sin(c * 0.9995 + k), None), x, ks)[0]

    ks = facade.linspace(-0.1, 0.1, LENGTH)
    x = facade.tensor([0.1, 0.2, 0.3, 0.4])
    f = torchlette.jit(facade.func.grad(lambda x: last(x).sum()) if gradient else last)
    found = [f(x).tolist() for _ in range(CALLS)]
    assert all(r == found[0] for r in found)
    leaf = torch.tensor(x.tolist(), dtype=torch.float64, requires_grad=True)
    v = leaf
    for k in torch.tensor(ks.tolist(), dtype=torch.float64):
        v = torch.sin(v * 0.9995 + k)
    want = torch.autograd.grad(v.sum(), leaf)[0] if gradient else v.detach()
    torch.testing.assert_close(torch.tensor(found[0], dtype=torch.float64), want, rtol=1e-3, atol=1e-5)


def latches(c: Any, x: Any) -> Any:
    """Bools that stay, that turn, and that an ``and`` ends; a count of one of them; y is a bool, too."""
    seen, odd, quiet, count = c
    seen = seen | (x > 0.999)
    odd = odd ^ (x > 0.5)
    quiet = quiet & (x < 0.9995)
    return (seen, odd, quiet, count + odd.to(facade.int32)), odd & seen


def start() -> Any:
    return (facade.tensor([False, True]), facade.tensor([True, False]), facade.tensor([True, True]),
            facade.zeros(2, dtype=facade.int32))  # fmt: skip


def random_rows() -> np.ndarray:
    return np.random.default_rng(3).random((LENGTH, 2), dtype="float32")


def expected(rows: np.ndarray) -> list[Any]:
    high = rows > 0.5
    seen = np.logical_or.accumulate(rows > 0.999) | [False, True]
    odd = np.logical_xor.accumulate(high) ^ [True, False]
    quiet = np.logical_and.reduce(rows < 0.9995)
    return [seen[-1], odd[-1], quiet, odd.sum(0), odd & seen]


@pytest.mark.parametrize("captured", [False, True])
def test_bool_carries_of_a_long_loop(captured: bool) -> None:
    rows = random_rows()

    def run(xs: Any) -> Any:
        return lax.scan(latches, start(), xs)

    f = torchlette.jit(run) if captured else run
    for _ in range(CALLS):
        carry, ys = f(facade.from_numpy(rows))
        for got, want in zip((*carry, ys), expected(rows), strict=True):
            assert got.tolist() == want.tolist()


def test_a_session_runs_a_long_loop_with_bool_carries(tmp_path: Any) -> None:
    """A program from a file: all runs give the values, those that find machine code, too."""
    rows = random_rows()

    def f(xs: Any) -> Any:
        (seen, odd, quiet, count), ys = lax.scan(latches, start(), xs)
        return seen, odd, quiet, count, ys

    path = tmp_path / "loop.tl"
    with torchlette.device("cpu"):
        save(export(f, (facade.from_numpy(rows),)), path)
        s = torchlette.InferenceSession(load(path))
        for _ in range(CALLS):
            for got, want in zip(s.run(None, {s.get_inputs()[0].name: rows}), expected(rows), strict=True):
                assert np.asarray(got).tolist() == want.tolist()
