"""Random tensors for tests."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from torchlette import _C
from torchlette._runtime.api import finfo, iinfo

__all__ = ["make_tensor"]


def _range(dtype: Any, low: float | None, high: float | None) -> tuple[float, float]:
    """Return the bounds of the values, clamped to what the dtype can hold."""
    least: float
    beyond: float
    if dtype == _C.bool:
        least, beyond, usual = 0, 2, (0, 2)
    elif dtype.is_floating_point or dtype.is_complex:
        limits = finfo(dtype)
        least, beyond, usual = limits.min, limits.max, (-9, 9)
    else:
        whole = iinfo(dtype)
        least, beyond, usual = whole.min, whole.max + (dtype != _C.int64), (0 if whole.min == 0 else -9, 10)
    low, high = usual[0] if low is None else low, usual[1] if high is None else high
    if math.isnan(low) or math.isnan(high):
        raise ValueError(f"`low` and `high` cannot be NaN, but got low={low!r} and high={high!r}")
    if low > high or low == high and not (dtype.is_floating_point or dtype.is_complex):
        raise ValueError(f"`low` must be less than `high`, but got {low} >= {high}")
    if low >= beyond or high < least:
        raise ValueError(
            f"The value interval specified by `low` and `high` is [{low}, {high}), but {dtype} only supports "
            f"[{least}, {beyond})"
        )
    low, high = max(low, least), min(high, beyond)
    if dtype == _C.bool or not (dtype.is_floating_point or dtype.is_complex):
        return math.ceil(low), math.ceil(high)
    return low, high


def _uniform(t: Any, low: float, high: float) -> None:
    """Fill a tensor; a range wider than the dtype's largest number is drawn at half its width."""
    if high - low >= finfo(t.dtype).max:
        t.uniform_(low / 2, high / 2).mul_(2)
    else:
        t.uniform_(low, high)


def make_tensor(
    *shape: int | Sequence[int],
    dtype: Any,
    device: Any,
    low: float | None = None,
    high: float | None = None,
    requires_grad: bool = False,
    noncontiguous: bool = False,
    exclude_zero: bool = False,
    memory_format: Any = None,
) -> _C.Tensor:
    """Return a tensor of values drawn uniformly from ``[low, high)``.

    Args:
        shape: Sizes, or one sequence of sizes.
        dtype: Any dtype of values; complex numbers draw both parts.
        device: Device of the result.
        low: Least value; default 0 for bool and unsigned, else -9. Clamped to the range of the dtype.
        high: End of the range; default 2 for bool, 10 for integers, else 9. Clamped to the range of the dtype.
        requires_grad: Whether gradients are recorded; floating and complex dtypes only.
        noncontiguous: Take every second element of a larger tensor.
        exclude_zero: Replace zeros: by 1 for integers and bool, else by the smallest normal number.
        memory_format: Accepted, as there is one memory format; not with ``noncontiguous``.

    Raises:
        ValueError: Contradictory bounds or options.
        TypeError: A dtype without random values.
    """
    given: Any = shape[0] if len(shape) == 1 and isinstance(shape[0], Sequence) else shape
    sizes: tuple[int, ...] = tuple(given)
    inexact = dtype.is_floating_point or dtype.is_complex
    if noncontiguous and memory_format is not None:
        raise ValueError(
            f"The parameters `noncontiguous` and `memory_format` are mutually exclusive, but got "
            f"{noncontiguous=} and {memory_format=}"
        )
    if requires_grad and not inexact:
        raise ValueError(
            f"`requires_grad=True` is not supported for boolean and integral dtypes, but got dtype={dtype}"
        )
    low, high = _range(dtype, low, high)
    drawn = (*sizes[:-1], 2 * sizes[-1]) if noncontiguous and math.prod(sizes) > 1 else sizes
    result = _C.empty(drawn, dtype=dtype, device=device)
    if dtype.is_complex:
        _uniform(_C.view_as_real(result), low, high)
    elif inexact:
        _uniform(result, low, high)
    elif dtype == _C.bool:
        result = _C.randint(int(low), int(high), drawn, device=device, dtype=dtype)
    else:
        result.random_(int(low), int(high))
    if drawn is not sizes:
        result = result[..., ::2]
    if exclude_zero:
        tiny: Any = finfo(dtype).tiny if inexact else 1
        least: Any = complex(tiny, tiny) if dtype.is_complex else tiny
        result[result == 0] = least
    return result.requires_grad_(requires_grad) if inexact else result
