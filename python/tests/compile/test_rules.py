"""Rules for compiled calls: keys, order of effects, commits, state. docs/internals/regions.md lists them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import torchlette as tl

WRAPS: dict[str, Callable[..., Any]] = {
    "plain": lambda f: f,
    "compile": tl.compile,
    "jit": tl.jit,
    "reuse_trace": lambda f: tl.compile(f, reuse_trace=True),
}
wraps = pytest.mark.parametrize("wrap", WRAPS.values(), ids=list(WRAPS))


@wraps
def test_calls_compute_nothing(wrap: Any) -> None:
    """A call that writes state, draws, and gives a first gradient forces no window: a pending value becomes state."""
    w, total = tl.ones(3, requires_grad=True), tl.zeros(3)

    def f(x: tl.Tensor) -> tl.Tensor:
        total.add_(tl.rand(3) * 0 + x)
        (w * x).sum().backward()
        return total * 2

    call = wrap(f)
    tl.mark_step()
    windows = tl.stats()["windows"]
    for i in range(4):
        w.grad = None
        out = call(tl.full((3,), float(i)) * 1)
    assert tl.stats()["windows"] == windows
    assert out.tolist() == [12.0] * 3
    assert w.grad is not None
    assert w.grad.tolist() == [3.0] * 3


@wraps
def test_writes_inside_of_a_call_are_one_commit(wrap: Any) -> None:
    """Reads inside see each write; afterwards there is the last value. A program commits it once, Python each write."""
    state = tl.zeros(2)

    def f(x: tl.Tensor) -> Any:
        state.add_(x)
        first = state * 1
        state[0] = 7.0
        second = state * 1
        state.mul_(2)
        return first, second

    call = wrap(f)
    call(tl.ones(2)), call(tl.ones(2))
    before, version = state.tolist(), state._version
    first, second = call(tl.ones(2))
    assert first.tolist() == [before[0] + 1, before[1] + 1]
    assert second.tolist() == [7.0, before[1] + 1]
    assert state.tolist() == [14.0, 2 * (before[1] + 1)]
    assert state._version - version == (1 if wrap in (WRAPS["jit"], WRAPS["reuse_trace"]) else 3)


@wraps
def test_effects_of_a_call_are_between_those_around_it(wrap: Any) -> None:
    """Nothing is computed until the end: the order is that of the calls."""
    state, seen = tl.ones(2), []
    call = wrap(lambda x: state.mul_(x).sum())
    for i in range(4):
        state.add_(1)
        seen.append(state * 1)
        seen.append(call(tl.full((2,), 2.0)))
        seen.append(state * 1)
        state.sub_(i)
    plain, want = 1.0, []
    for i in range(4):
        plain += 1
        want += [[plain] * 2, plain * 4, [plain * 2] * 2]
        plain = plain * 2 - i
    assert [t.tolist() for t in seen] == want


class _Runs:
    """Counts where no key looks."""

    __slots__ = ("count",)


@pytest.mark.parametrize("wrap", [tl.jit, WRAPS["reuse_trace"]])
def test_a_nan_is_one_number(wrap: Any) -> None:
    """Numbers are known by their bits, wherever they come from: a NaN, which equals nothing, is found again."""
    box, runs = {"k": 0.0}, _Runs()
    runs.count = 0

    def fn(x: tl.Tensor, k: float) -> tl.Tensor:
        runs.count += 1
        return x * k + box["k"]

    f = wrap(fn)
    for _ in range(8):
        box["k"] = float("nan")
        assert f(tl.ones(1), float("nan")).isnan().item()
    assert runs.count == 2


@pytest.mark.parametrize("wrap", [tl.jit, WRAPS["reuse_trace"]])
def test_programs_know_layouts_and_views(wrap: Any) -> None:
    """Shapes, strides and offsets of arguments: transposed, sliced and expanded tensors of one shape."""
    f = wrap(lambda x: (x * 2 + 1).t())
    base = tl.arange(12.0).reshape(3, 4)
    for _ in range(3):
        for x in (base, base.t().contiguous().t(), tl.arange(24.0).reshape(6, 4)[::2], tl.ones(4).expand(3, 4)):
            assert f(x).tolist() == (x * 2 + 1).t().tolist()
