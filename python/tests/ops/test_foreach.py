"""``torch._foreach_*``: every name gives PyTorch's values, in both forms."""

from __future__ import annotations

import numpy as np
import oracle
import pytest
import torch

import torchlette.torch as facade
from torchlette._ops import foreach

SHAPES = ((2, 3), (4,), ())
BINARY = {"add", "sub", "mul", "div", "pow", "maximum", "minimum", "clamp_max", "clamp_min"}
OTHERS = {"copy", "zero", "norm", "max", "powsum", "clone", "mm"}
NAMES = sorted({n.removeprefix("_foreach_").rstrip("_") for n in dir(torch) if n.startswith("_foreach_")} - OTHERS)


def lists(lib, seed: int) -> list:
    """Positive numbers, so that every function is defined."""
    rng = np.random.default_rng(seed)
    return [lib.tensor(rng.uniform(0.2, 0.9, shape).astype("float32")) for shape in SHAPES]


def operands(lib, name: str) -> list[tuple]:
    """The calls of a name: lists, numbers, lists of numbers."""
    if name in BINARY:
        return [(lists(lib, 1),), (1.5,), ([1.5, 2.0, 2.5],)]
    if name == "lerp":
        return [(lists(lib, 1), 0.25), (lists(lib, 1), lists(lib, 2))]
    if name in ("addcmul", "addcdiv"):
        return [
            (lists(lib, 1), lists(lib, 2)),
            (lists(lib, 1), lists(lib, 2), 0.5),
            (lists(lib, 1), lists(lib, 2), [0.5, 2.0, 3.0]),
        ]
    return [()]


@pytest.mark.parametrize("name", NAMES)
def test_as_in_pytorch(name: str) -> None:
    for theirs, ours in zip(operands(torch, name), operands(facade, name), strict=True):
        want = getattr(torch, "_foreach_" + name)(lists(torch, 0), *theirs)
        got = getattr(facade, "_foreach_" + name)(lists(facade, 0), *ours)
        written = lists(facade, 0)
        assert getattr(facade, f"_foreach_{name}_")(written, *ours) is None
        for a, b, c in zip(want, got, written, strict=True):
            oracle.assert_equal(b, a, name)
            oracle.assert_equal(c, a, name + "_")


def test_the_others() -> None:
    """Norms, extrema, copies, named operands and scalars as tensors."""
    theirs, ours = lists(torch, 0), lists(facade, 0)
    for name, options in (
        ("norm", {}),
        ("norm", {"ord": 1}),
        ("max", {}),
        ("powsum", {}),
        ("powsum", {"ord": 3}),
        ("clone", {}),
    ):
        for a, b in zip(
            getattr(torch, "_foreach_" + name)(theirs, **options),
            getattr(facade, "_foreach_" + name)(ours, **options),
            strict=True,
        ):
            oracle.assert_equal(b, a, name)
    for a, b in zip(
        torch._foreach_mm([t[:, :2] for t in theirs[:1]], theirs[:1]),
        facade._foreach_mm([t[:, :2] for t in ours[:1]], ours[:1]),
        strict=True,
    ):
        oracle.assert_equal(b, a, "mm")
    for lib, ts in ((torch, theirs), (facade, ours)):
        lib._foreach_add_(ts, lists(lib, 3), alpha=-0.5)
        lib._foreach_addcdiv_(ts, lists(lib, 1), lists(lib, 2), lib.tensor([1.0, 2.0, 3.0]))
        lib._foreach_mul_(ts, lib.tensor(2.0))
        lib._foreach_lerp_(ts, lists(lib, 4), weight=0.1)
    for a, b in zip(theirs, ours, strict=True):
        oracle.assert_equal(b, a, "chain")
    for a, b in zip(torch._foreach_pow(2.0, theirs), facade._foreach_pow(2.0, ours), strict=True):
        oracle.assert_equal(b, a, "base")
    facade._foreach_copy_(ours, lists(facade, 1))
    assert facade.equal(ours[0], lists(facade, 1)[0])
    facade._foreach_zero_(ours)
    assert all(not t.any() for t in ours)


def test_errors() -> None:
    with pytest.raises(RuntimeError, match="same number of tensors"):
        facade._foreach_add(lists(facade, 0), lists(facade, 1)[:2])
    assert foreach.find("_foreach_nothing") is None
    assert not hasattr(facade, "_foreach_nothing")
