"""Promotion of dtypes, numbers beside tensors and numbers that a dtype cannot hold, beside PyTorch."""

from __future__ import annotations

import itertools
import operator
from typing import Any

import oracle
import pytest
import torch

import torchlette
import torchlette.torch as facade

DTYPES = ("bool", "int32", "int64", "float16", "bfloat16", "float32", "float64")
NUMBERS = (True, 2, 2.5)


def both(f: Any) -> tuple[Any, Any]:
    """Return what ``f`` gives under our library and under PyTorch."""
    return f(facade), f(torch)


@pytest.mark.parametrize("a", DTYPES)
def test_result_types_and_casts_are_pytorchs(a: str) -> None:
    """result_type, promote_types and can_cast answer as in PyTorch for every pair, 0-dim tensors and numbers too."""
    for b in DTYPES:
        for shape in ((), (2,)):
            got, want = both(
                lambda L, b=b, s=shape: L.result_type(L.ones(s, dtype=getattr(L, a)), L.ones(2, dtype=getattr(L, b)))
            )
            assert str(got) == str(want)
        got, want = both(lambda L, b=b: L.promote_types(getattr(L, a), getattr(L, b)))
        assert str(got) == str(want)
        got, want = both(lambda L, b=b: L.can_cast(getattr(L, a), getattr(L, b)))
        assert got is want
    for number in NUMBERS:
        got, want = both(lambda L, n=number: L.result_type(L.ones(2, dtype=getattr(L, a)), n))
        assert str(got) == str(want)
    got, want = both(lambda L: L.ones((), dtype=getattr(L, a)).is_signed())
    assert got is want


@pytest.mark.parametrize("number", [2**40, -(2**40), 1e6, 1e40, float("inf"), float("nan"), -1, 2.5])
@pytest.mark.parametrize("dtype", DTYPES)
def test_numbers_that_do_not_fit(dtype: str, number: float) -> None:
    """A number beyond the dtype raises where it would be stored."""
    calls = (
        lambda L: L.full((2,), number, dtype=getattr(L, dtype)),
        lambda L: L.ones(2, dtype=getattr(L, dtype)).fill_(number),
        lambda L: L.ones(2, dtype=getattr(L, dtype)).masked_fill(L.tensor([True, False]), number),
    )
    for f in calls:
        try:
            want = f(torch)
        except RuntimeError:
            with pytest.raises(RuntimeError, match="without overflow"):
                f(facade)
            continue
        oracle.assert_equal(f(facade), want)


def test_numbers_beyond_64_bits() -> None:
    with pytest.raises(OverflowError):
        torchlette.ones(2, dtype=torchlette.int64) + 2**70


@pytest.mark.parametrize("name", ["lshift", "rshift", "ilshift", "irshift"])
def test_shift_operators(name: str) -> None:
    f = getattr(operator, name)
    for other in (0, 1, 5, 31, 40):
        got, want = both(lambda L, n=other: f(L.tensor([1, -7, 1000], dtype=L.int32), n))
        oracle.assert_equal(got, want)
    if not name.startswith("i"):
        oracle.assert_equal(*both(lambda L: f(100, L.tensor([0, 1, 2]))))


@pytest.mark.parametrize("dtype", ["int32", "float64", "bool"])
def test_out_of_another_dtype(dtype: str) -> None:
    """Functions that keep the dtype want it of ``out=`` too; others cast upwards."""
    for lib in (facade, torch):
        with pytest.raises(RuntimeError, match="Found dtype|expected"):
            lib.abs(lib.ones(3), out=lib.empty(3, dtype=getattr(lib, dtype)))
    oracle.assert_equal(*both(lambda L: L.exp(L.zeros(3), out=L.empty(3, dtype=L.float64))))


def test_operators_that_refuse() -> None:
    for lib in (facade, torch):
        with pytest.raises(TypeError):
            ~lib.ones(2)
        with pytest.raises(NotImplementedError):
            +lib.tensor([True])
        with pytest.raises(TypeError):
            lib.ones(2) @ 2


def test_names_of_layouts() -> None:
    for name in ("contiguous_format", "preserve_format", "channels_last", "channels_last_3d", "strided"):
        assert repr(getattr(facade, name)) == repr(getattr(torch, name))
    x = facade.ones(2, 3).t()
    assert x.contiguous(memory_format=facade.contiguous_format).is_contiguous()
    assert x.to(facade.float64, memory_format=facade.preserve_format).dtype is facade.float64


@pytest.mark.parametrize(
    "name", ("add", "sub", "mul", "div", "true_divide", "floor_divide", "multiply", "subtract", "divide")
)
def test_arithmetic_of_two_numbers_is_a_tensor(name: str) -> None:
    for a, b in itertools.product(
        (7, -7.5) if name.startswith("sub") else (True, 7, -7.5), (2, 2.5)
    ):  # no truth is subtracted from
        for _ in range(3):  # the third like call is recorded without the rule
            oracle.assert_equal(*both(lambda L, a=a, b=b: getattr(L, name)(a, b)))
    oracle.assert_equal(*both(lambda L: getattr(L, name)(7, 2, out=L.empty(()))))


def test_arithmetic_of_two_numbers_takes_its_options() -> None:
    oracle.assert_equal(*both(lambda L: L.div(-7, 2, rounding_mode="floor")))
    oracle.assert_equal(*both(lambda L: L.div(-7, 2, rounding_mode="trunc")))
    oracle.assert_equal(*both(lambda L: L.add(1, 2, alpha=3)))
    for name in ("pow", "maximum", "remainder", "eq", "bitwise_and"):
        for lib in (facade, torch):
            with pytest.raises(TypeError):
                getattr(lib, name)(3, 2)
