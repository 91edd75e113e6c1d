"""Comparison of tensors, numbers and containers of them within tolerances."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torchlette import _C

__all__ = ["assert_close"]

# dtype -> (relative, absolute) tolerance, PyTorch's defaults; other dtypes must be equal.
_TOLERANCES: dict[Any, tuple[float, float]] = {
    _C.float16: (1e-3, 1e-5),
    _C.bfloat16: (1.6e-2, 1e-5),
    _C.float32: (1.3e-6, 1e-5),
    _C.float64: (1e-7, 1e-7),
}

Message = str | Callable[[str], str] | None


def _tolerances(actual: Any, expected: Any, rtol: float | None, atol: float | None) -> tuple[float, float]:
    if (rtol is None) != (atol is None):
        missing = "atol" if atol is None else "rtol"
        raise ValueError(f"rtol and atol must both be specified or both be unspecified, but got no {missing}")
    if rtol is not None and atol is not None:
        return rtol, atol
    defaults = [_TOLERANCES.get(t.dtype, (0.0, 0.0)) for t in (actual, expected)]
    return max(d[0] for d in defaults), max(d[1] for d in defaults)


def _index(position: int, shape: Sequence[int]) -> tuple[int, ...]:
    index = []
    for size in reversed(shape):
        position, i = divmod(position, size)
        index.append(i)
    return tuple(reversed(index))


def _close(a: Any, b: Any, rtol: float, atol: float, equal_nan: bool) -> bool:
    if a == b:
        return True
    if math.isnan(a) or math.isnan(b):
        return equal_nan and math.isnan(a) and math.isnan(b)
    return math.isfinite(a) and math.isfinite(b) and abs(a - b) <= atol + rtol * abs(b)


def _difference(a: Any, b: Any) -> float:
    return math.nan if math.isnan(a) or math.isnan(b) else abs(a - b)


def _compare(actual: Any, expected: Any, rtol: float, atol: float, equal_nan: bool) -> str | None:
    """Return a description of the difference between two tensors of one shape."""
    shape = tuple(expected.shape)
    got, want = (t.detach().cpu().reshape(-1).tolist() for t in (actual, expected))
    wrong = [i for i, (a, b) in enumerate(zip(got, want, strict=True)) if not _close(a, b, rtol, atol, equal_nan)]
    if not wrong:
        return None
    absolute = max(wrong, key=lambda i: _difference(got[i], want[i]))
    relative = max(wrong, key=lambda i: _difference(got[i], want[i]) / abs(want[i]) if want[i] else math.inf)
    largest = _difference(got[relative], want[relative]) / abs(want[relative]) if want[relative] else math.inf
    exact = rtol == atol == 0.0
    limits = ("", "") if exact else (f" (up to {atol} allowed)", f" (up to {rtol} allowed)")
    return (
        f"Tensor-likes are not {'equal' if exact else 'close'}!\n\n"
        f"Mismatched elements: {len(wrong)} / {len(want)} ({len(wrong) / len(want):.1%})\n"
        f"Greatest absolute difference: {_difference(got[absolute], want[absolute])} at index "
        f"{_index(absolute, shape)}{limits[0]}\n"
        f"Greatest relative difference: {largest} at index {_index(relative, shape)}{limits[1]}"
    )


def _tensor_mismatch(actual: Any, expected: Any, options: dict[str, Any]) -> str | None:
    if actual.shape != expected.shape:
        return f"The values for attribute 'shape' do not match: {actual.shape} != {expected.shape}."
    if options["check_device"] and actual.device != expected.device:
        return f"The values for attribute 'device' do not match: {actual.device} != {expected.device}."
    if options["check_dtype"] and actual.dtype != expected.dtype:
        return f"The values for attribute 'dtype' do not match: {actual.dtype} != {expected.dtype}."
    if options["check_stride"] and actual.stride() != expected.stride():
        return f"The values for attribute 'stride()' do not match: {actual.stride()} != {expected.stride()}."
    rtol, atol = _tolerances(actual, expected, options["rtol"], options["atol"])
    return _compare(actual, expected, rtol, atol, options["equal_nan"])


def _mismatch(actual: Any, expected: Any, where: str, options: dict[str, Any]) -> str | None:
    """Return a description of the difference between two values; containers are compared item by item."""

    def at(item: Any) -> str:
        return f"{where}[{item!r}]"

    if isinstance(actual, Mapping) and isinstance(expected, Mapping):
        if set(actual) != set(expected):
            return f"The keys of the mappings do not match: {sorted(map(str, actual))} != {sorted(map(str, expected))}"
        pairs = [(at(key), actual[key], expected[key]) for key in expected]
    elif isinstance(actual, (list, tuple)) and isinstance(expected, (list, tuple)):
        if len(actual) != len(expected):
            return f"The length of the sequences do not match: {len(actual)} != {len(expected)}"
        pairs = [(at(i), a, b) for i, (a, b) in enumerate(zip(actual, expected, strict=True))]
    elif actual is None or expected is None:
        return None if actual is expected else f"{actual} is not {expected}"
    else:
        if isinstance(actual, _C.Tensor) != isinstance(expected, _C.Tensor) and not isinstance(actual, type(expected)):
            return f"No comparison pair was able to handle inputs of type {type(actual)} and {type(expected)}."
        a, b = _C.as_tensor(actual), _C.as_tensor(expected)
        problem = _tensor_mismatch(a, b, options)
        return problem if problem is None or not where else f"{problem}\n\nThe failure occurred for item {where}"
    return next((problem for item, a, b in pairs if (problem := _mismatch(a, b, item, options)) is not None), None)


def assert_close(
    actual: Any,
    expected: Any,
    *,
    allow_subclasses: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    msg: Message = None,
) -> None:
    """Raise AssertionError unless ``|actual - expected| <= atol + rtol * |expected|`` everywhere.

    Args:
        actual: A tensor, a number, or a container of them.
        expected: The expected value.
        allow_subclasses: Accepted for compatibility.
        rtol: Relative tolerance; by default that of the dtype.
        atol: Absolute tolerance; given together with ``rtol``.
        equal_nan: Count NaN as equal to NaN.
        check_device: Compare devices.
        check_dtype: Compare dtypes.
        check_layout: Accepted for compatibility: all tensors are strided.
        check_stride: Compare strides.
        msg: The message, or a function of the message made here.
    """
    options = {
        "rtol": rtol,
        "atol": atol,
        "equal_nan": equal_nan,
        "check_device": check_device,
        "check_dtype": check_dtype,
        "check_stride": check_stride,
    }
    problem = _mismatch(actual, expected, "", options)
    if problem is not None:
        raise AssertionError(problem if msg is None else msg(problem) if callable(msg) else msg)
