"""``torch._higher_order_ops``: values, gradients and errors are those of PyTorch's loops and branches."""

from __future__ import annotations

import importlib
from typing import Any

import pytest
import torch

import torchlette
import torchlette.torch as ours
from torchlette import lax

NAMES = ("associative_scan", "cond", "map", "scan", "switch", "while_loop")


def operator(lib: Any, name: str) -> Any:
    package = "torch" if lib is torch else "torchlette.torch"
    return getattr(importlib.import_module(f"{package}._higher_order_ops.{name}"), name)


def tensor(lib: Any, *shape: int, seed: int = 0) -> Any:
    return lib.tensor(torch.rand(*shape, generator=torch.Generator().manual_seed(seed)).tolist())


def close(a: Any, b: Any) -> None:
    assert list(a.shape) == list(b.shape)
    torch.testing.assert_close(torch.tensor(a.tolist()), torch.tensor(b.tolist()), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_scans_stack_their_results_along_the_dim_of_the_elements(dim: int, reverse: bool) -> None:
    def run(lib: Any) -> Any:
        xs = tensor(lib, 2, 3, 4)

        def step(carry: Any, x: Any) -> Any:
            return carry * 0.5 + x, (x * carry, carry.sum())

        return operator(lib, "scan")(step, lib.zeros(xs.select(dim, 0).shape), xs, dim=dim, reverse=reverse)

    def plain() -> Any:
        xs, rows, sums = tensor(torch, 2, 3, 4), [], []
        carry = torch.zeros(xs.select(dim, 0).shape)
        for i in reversed(range(xs.shape[dim])) if reverse else range(xs.shape[dim]):
            x = xs.select(dim, i)
            rows.append(x * carry)
            sums.append(carry.sum())
            carry = carry * 0.5 + x
        order = slice(None, None, -1) if reverse else slice(None)
        return carry, (torch.stack(rows[order], dim), torch.stack(sums[order]))

    (last, (rows, sums)), (want, (stacked, totals)) = run(ours), plain()
    for a, b in ((last, want), (rows, stacked), (sums, totals)):
        close(a, b)


def test_scans_without_elements() -> None:
    scan = operator(ours, "scan")
    init = ours.ones(2)
    assert scan(lambda c, x: (c, x), init, None) == (init, [])
    last, ys = scan(lambda c, x: (c * 2, c + (0 if x is None else 100)), init, None, length=3)
    assert (last.tolist(), ys.tolist()) == ([8.0, 8.0], [[1.0, 1.0], [2.0, 2.0], [4.0, 4.0]])


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("dim", [0, 1, 2])
def test_generic_associative_scans_combine_elements(dim: int, reverse: bool) -> None:
    """In the mode "generic" the function sees elements without the dim: here it multiplies matrices and sums rows."""

    def combine(x: Any, y: Any) -> Any:
        assert x.dim() == 2
        return x @ y

    got = operator(ours, "associative_scan")(
        combine, tensor(ours, 3, 3, 3), dim, reverse=reverse, combine_mode="generic"
    )
    xs = [tensor(torch, 3, 3, 3).select(dim, i) for i in range(3)]
    if reverse:
        xs = xs[::-1]
    rows = [xs[0], xs[0] @ xs[1], xs[0] @ xs[1] @ xs[2]]
    close(got, torch.stack(rows[::-1] if reverse else rows, dim))


def test_pointwise_associative_scans_combine_stacks() -> None:
    x = tensor(ours, 2, 5)
    seen: list[list[int]] = []

    def combine(a: Any, b: Any) -> Any:
        seen.append(list(a.shape))
        return a + b

    got = operator(ours, "associative_scan")(combine, x, dim=-1)
    close(got, x.cumsum(1))
    assert all(shape[1] == 2 for shape in seen)


def test_switches_clamp_their_index() -> None:
    switch, x = operator(ours, "switch"), ours.ones(2)
    branches = [lambda v: v * 2, lambda v: v * 3, lambda v: v * 5]
    for index, want in ((-4, 2.0), (1, 3.0), (ours.tensor([2]), 5.0), (ours.tensor(9), 5.0)):
        assert switch(index, branches, (x,)).tolist() == [want] * 2


def _errors() -> dict[str, Any]:
    one = lambda lib: lib.ones(1)  # noqa: E731
    pair = lambda c, x: (c, x)  # noqa: E731
    return {
        "scan of no function": lambda lib: operator(lib, "scan")(3, one(lib), one(lib)),
        "scan along a word": lambda lib: operator(lib, "scan")(pair, one(lib), one(lib), dim=2),
        "scan in a direction": lambda lib: operator(lib, "scan")(pair, one(lib), one(lib), reverse="yes"),
        "scan without a carry": lambda lib: operator(lib, "scan")(pair, {}, one(lib)),
        "scan with a number as carry": lambda lib: operator(lib, "scan")(pair, 1.0, one(lib)),
        "scan over numbers": lambda lib: operator(lib, "scan")(pair, one(lib), (one(lib), 2.0)),
        "scan over other sizes": lambda lib: operator(lib, "scan")(pair, one(lib), (lib.ones(2), lib.ones(3))),
        "scan of another length": lambda lib: operator(lib, "scan")(pair, one(lib), lib.ones(2), length=3),
        "scan of a negative length": lambda lib: operator(lib, "scan")(pair, one(lib), None, length=-1),
        "associative scan of no function": lambda lib: operator(lib, "associative_scan")(None, one(lib), 0),
        "associative scan in a mode": lambda lib: operator(lib, "associative_scan")(
            max, one(lib), 0, combine_mode="fast"
        ),
        "associative scan of few dims": lambda lib: operator(lib, "associative_scan")(
            max, (lib.ones(2, 2), lib.ones(2)), 1
        ),
        "map over numbers": lambda lib: operator(lib, "map")(pair, (one(lib), 1.0)),
        "map over nothing": lambda lib: operator(lib, "map")(pair, lib.ones(0, 2)),
        "map over other sizes": lambda lib: operator(lib, "map")(pair, (lib.ones(2), lib.ones(3))),
        "map over a tensor without dims": lambda lib: operator(lib, "map")(abs, lib.tensor(1.0)),
        "map over one without dims": lambda lib: operator(lib, "map")(pair, (lib.ones(2), lib.tensor(1.0))),
        "cond of a word": lambda lib: operator(lib, "cond")("yes", one, one, ()),
        "cond of a vector": lambda lib: operator(lib, "cond")(lib.ones(3) > 0, one, one, ()),
        "cond of no function": lambda lib: operator(lib, "cond")(lib.tensor(True), 3, one, ()),
        "cond of numbers": lambda lib: operator(lib, "cond")(lib.tensor(True), abs, abs, (1.0,)),
        "switch by a word": lambda lib: operator(lib, "switch")("a", [abs], (one(lib),)),
        "switch by a vector": lambda lib: operator(lib, "switch")(lib.zeros(2).long(), [abs, abs], (one(lib),)),
        "switch of nothing": lambda lib: operator(lib, "switch")(0, [], (one(lib),)),
        "switch of no function": lambda lib: operator(lib, "switch")(0, [abs, 3], (one(lib),)),
        "switch of numbers": lambda lib: operator(lib, "switch")(0, [abs, abs], (1.0,)),
        "while_loop of no function": lambda lib: operator(lib, "while_loop")(3, abs, (one(lib),)),
    }


@pytest.mark.parametrize("case", _errors())
def test_errors_are_those_of_pytorch(case: str) -> None:
    call = _errors()[case]
    with pytest.raises((RuntimeError, ValueError, TypeError, IndexError)) as want:
        call(torch)
    with pytest.raises((RuntimeError, ValueError, TypeError, IndexError)) as got:
        call(ours)
    kinds = (RuntimeError, ValueError, TypeError, IndexError)
    assert [isinstance(got.value, k) for k in kinds] == [isinstance(want.value, k) for k in kinds], str(got.value)
    if "without dims" in case:  # PyTorch's message is "tuple index out of range"
        return
    assert str(got.value).partition("\n")[0][:30] == str(want.value).partition("\n")[0][:30]


def _types() -> dict[str, Any]:
    def loop(lib: Any, body: Any) -> Any:
        return operator(lib, "while_loop")(lambda i, x: i < 3, body, (lib.tensor(0), lib.ones(2)))

    def scan(lib: Any, step: Any) -> Any:
        return operator(lib, "scan")(step, lib.zeros(2), lib.ones(3, 2))

    def branch(lib: Any, other: Any) -> Any:
        return operator(lib, "cond")(lib.tensor(True), lambda x: x.sin(), other, (lib.ones(2),))

    return {
        "scan: dtype": lambda lib: scan(lib, lambda c, x: (c.double(), x)),
        "scan: shape": lambda lib: scan(lib, lambda c, x: (lib.cat([c, c]), x)),
        "scan: structure": lambda lib: scan(lib, lambda c, x: ((c, c), x)),
        "scan: no pair": lambda lib: scan(lib, lambda c, x: c),
        "while_loop: dtype": lambda lib: loop(lib, lambda i, x: (i + 1, x.double())),
        "while_loop: structure": lambda lib: loop(lib, lambda i, x: (i + 1,)),
        "cond: structure": lambda lib: branch(lib, lambda x: (x, x)),
        "associative_scan: dtype": lambda lib: operator(lib, "associative_scan")(
            lambda a, b: (a + b).double(), lib.ones(4), 0
        ),
    }


@pytest.mark.parametrize("case", _types())
def test_a_body_of_other_types_is_an_error_of_pytorchs_class(case: str) -> None:
    call = _types()[case]
    with pytest.raises(torch._dynamo.exc.UncapturedHigherOrderOpError):
        call(torch)
    with pytest.raises(ours._dynamo.exc.UncapturedHigherOrderOpError, match="equal types|structure|pair|of the types"):
        call(ours)


def test_paths_of_pytorchs_modules() -> None:
    """Each operator is in the module of its name; ``torch._higher_order_ops`` has the functions."""
    package = importlib.import_module("torchlette.torch._higher_order_ops")
    for name in NAMES:
        assert getattr(package, name) is operator(ours, name)
    assert ours.cond is package.cond
    assert torchlette.cond is package.cond


@pytest.mark.parametrize("n", [0, 1, 2, 3, 4, 5, 8, 13])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_associative_scans_group_elements_as_pytorch_does(n: int, axis: int) -> None:
    """The difference is not associative, so values tell the groups; all rounds together combine less than 2n."""
    combined = 0

    def difference(a: Any, b: Any) -> Any:
        nonlocal combined
        combined += a.shape[axis]
        return a - b

    generic = importlib.import_module("torch._higher_order_ops.associative_scan").generic_associative_scan
    x = torch.rand(2, 3, 2, generator=torch.Generator().manual_seed(n)).movedim(1, axis)
    x = x.narrow(axis, 0, 1).expand([n if i == axis % 3 else 2 for i in range(3)]) * 1.0
    x = x + torch.arange(float(x.numel())).reshape(x.shape) ** 2
    (want,) = generic(lambda a, b: [a - b], [x], axis % 3)
    got = lax.associative_scan(difference, ours.tensor(x.tolist()).reshape(x.shape), axis=axis)
    assert got.tolist() == want.tolist()
    assert combined <= 2 * n
