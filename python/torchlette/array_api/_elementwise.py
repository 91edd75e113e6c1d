"""Elementwise functions of the array API. Two operands take their common dtype; either may be a Python number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torchlette.array_api._dtypes import UNSIGNED, Array, Tensor, is_floating, promote, torch

#: Functions of one operand, by the standard's names, and PyTorch's where it is another.
_UNARY = {
    name: name
    for name in (
        "abs acos acosh asin asinh atan atanh ceil cos cosh exp expm1 floor isfinite isinf isnan log log1p log2 log10 "
        "logical_not negative positive reciprocal round signbit sin sinh square sqrt tan tanh trunc"
    ).split()
} | {"bitwise_invert": "bitwise_not", "conj": "conj_physical", "real": "real"}

#: Functions of two operands.
_BINARY = {
    name: name
    for name in (
        "add atan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor copysign divide "
        "greater greater_equal hypot less less_equal logaddexp logical_and logical_or logical_xor maximum minimum "
        "multiply nextafter not_equal pow subtract"
    ).split()
} | {"equal": "eq"}

__all__ = [*_UNARY, *_BINARY, "clip", "floor_divide", "imag", "remainder", "sign"]


def signed_order(x: Array) -> Array:
    """Return int64 values in the order of the unsigned integers ``x``."""
    if x.dtype is torch.uint64:
        return x.view(torch.int64) ^ torch.iinfo(torch.int64).min
    return x.to(torch.int64)


def unsigned_value(x: Array, dtype: Any) -> Array:
    """Return the unsigned integers that :func:`signed_order` made ``x`` of."""
    if dtype is torch.uint64:
        return (x ^ torch.iinfo(torch.int64).min).view(torch.uint64)
    return x.to(dtype)


def _named(f: Callable[..., Array], name: str, theirs: str) -> Callable[..., Array]:
    f.__name__ = f.__qualname__ = name
    f.__doc__ = f"Return ``torch.{theirs}`` of each element, under the standard's promotion of dtypes."
    return f


def _unary(name: str, theirs: str) -> Callable[..., Array]:
    kernel = getattr(torch, theirs)

    def f(x: Array, /) -> Array:
        return kernel(x)

    return _named(f, name, theirs)


def _binary(name: str, theirs: str) -> Callable[..., Array]:
    kernel = getattr(torch, theirs)

    def f(x1: Array | complex, x2: Array | complex, /) -> Array:
        return kernel(*promote(x1, x2))

    return _named(f, name, theirs)


globals().update({name: _unary(name, theirs) for name, theirs in _UNARY.items()})
globals().update({name: _binary(name, theirs) for name, theirs in _BINARY.items()})


def imag(x: Array, /) -> Array:
    """Return the imaginary part of each element, 0 of a real one."""
    return torch.imag(x) if x.dtype.is_complex else torch.zeros_like(x)


def sign(x: Array, /) -> Array:
    """Return -1, 0 or 1 by the sign of each element, NaN of a NaN; a complex element divided by its absolute value."""
    signs = torch.where(x == 0, torch.zeros_like(x), torch.sgn(x))
    return torch.where(torch.isnan(x), x, signs) if x.dtype.is_floating_point else signs


def floor_divide(x1: Array | complex, x2: Array | complex, /) -> Array:
    """Return the quotient of two real operands, rounded towards minus infinity.

    Where one operand is infinite the result is the quotient itself, an infinity or a zero; ``torch.floor_divide``
    gives NaN or -1 there.
    """
    x1, x2 = promote(x1, x2)
    floor = torch.floor_divide(x1, x2)
    if not is_floating(floor.dtype):
        return floor
    return torch.where(torch.isinf(x1) != torch.isinf(x2), x1 / x2, floor)


def remainder(x1: Array | complex, x2: Array | complex, /) -> Array:
    """Return the remainder of a division of two real operands, with the sign of ``x2`` even where it is zero."""
    x1, x2 = promote(x1, x2)
    rest = torch.remainder(x1, x2)
    return torch.where(rest == 0, torch.copysign(rest, x2), rest) if is_floating(rest.dtype) else rest


def clip(x: Array, /, min: Array | float | None = None, max: Array | float | None = None) -> Array:
    """Return ``x`` with values below ``min`` and above ``max`` replaced by these; the dtype is that of ``x``.

    Args:
        x: The array.
        min: The least value, a number or an array; None: none.
        max: The greatest value, likewise.
    """

    def bound(value: Array | float | None) -> Array | None:
        if value is None or isinstance(value, Tensor):
            return value
        if not is_floating(x.dtype):
            limits = torch.iinfo(x.dtype)
            value = limits.min if value < limits.min else limits.max if value > limits.max else value
        return torch.asarray(value, dtype=x.dtype, device=x.device)

    least, most = bound(min), bound(max)
    values, dtype = x, x.dtype
    if dtype in UNSIGNED:
        values, least, most = (None if v is None else signed_order(v) for v in (values, least, most))
    for limit, choose in ((least, torch.maximum), (most, torch.minimum)):
        values = values if limit is None else choose(values, limit.to(values.dtype))
    if values is x:
        return x.clone()
    return unsigned_value(values, dtype) if dtype in UNSIGNED else values
