"""Data types of the array API: their promotion, kinds and limits."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from torchlette._runtime.dtype_table import DTYPES

Array = Any
DType = Any
Device = Any
Axes = int | tuple[int, ...] | None

#: The namespace that does the work. ``bool(t)`` of its tensors reads the value, as the standard asks.
torch: Any = importlib.import_module("torchlette.torch")
Tensor: Any = torch.Tensor


def _ordered(dtypes: Iterable[DType]) -> tuple[DType, ...]:
    return tuple(sorted(dtypes, key=lambda d: d.itemsize))


_FLOATING = [d for d in DTYPES if d.is_floating_point and d.itemsize >= 4]  # the standard has no halves
_INTEGRAL = [d for d in DTYPES if not d.is_floating_point and not d.is_complex and d is not torch.bool]
SIGNED = _ordered(d for d in _INTEGRAL if d.is_signed)
UNSIGNED = _ordered(d for d in _INTEGRAL if not d.is_signed)
REAL = _ordered(_FLOATING)
COMPLEX = _ordered(d for d in DTYPES if d.is_complex)
KINDS: dict[str, tuple[DType, ...]] = {
    "bool": (torch.bool,),
    "signed integer": SIGNED,
    "unsigned integer": UNSIGNED,
    "integral": SIGNED + UNSIGNED,
    "real floating": REAL,
    "complex floating": COMPLEX,
    "numeric": SIGNED + UNSIGNED + REAL + COMPLEX,
}
_SCALARS = (bool, int, float, complex)


def is_floating(dtype: DType) -> bool:
    """Return whether a dtype has fractions: real or complex."""
    return bool(dtype.is_floating_point or dtype.is_complex)


def _promoted(a: DType, b: DType) -> DType:
    """Return the dtype of an operation on two dtypes, by the standard's table.

    Raises:
        TypeError: uint64 meets a signed integer: no integer holds both.
    """
    if a is b:
        return a
    signed, unsigned = [d for d in (a, b) if d in SIGNED], [d for d in (a, b) if d in UNSIGNED]
    if len(unsigned) == 2:
        return max(unsigned, key=UNSIGNED.index)
    if unsigned and signed:
        if unsigned[0] is torch.uint64:
            raise TypeError(f"result_type: no integer dtype holds the values of {a} and of {b}: convert one of them")
        return SIGNED[max(SIGNED.index(signed[0]), UNSIGNED.index(unsigned[0]) + 1)]
    return torch.promote_types(a, b)


def _with_scalar(dtype: DType, scalar: complex) -> DType:
    """Return the dtype of an operation on a tensor and a number: the tensor's, unless the number's kind is higher."""
    if isinstance(scalar, complex) and not dtype.is_complex:
        return torch.promote_types(dtype, torch.complex64)
    if isinstance(scalar, float) and not is_floating(dtype):
        return torch.get_default_dtype()
    if isinstance(scalar, int) and not isinstance(scalar, bool) and dtype is torch.bool:
        return torch.int64
    return dtype


def result_type(*arrays_and_dtypes: Any) -> DType:
    """Return the dtype of an operation on tensors, dtypes and Python numbers.

    Raises:
        ValueError: There is neither a tensor nor a dtype.
        TypeError: uint64 meets a signed integer.
    """
    found = [a for a in arrays_and_dtypes if not isinstance(a, _SCALARS)]
    if not found:
        raise ValueError("result_type: expected at least one array or dtype")
    dtype = functools.reduce(_promoted, [a if isinstance(a, torch.dtype) else a.dtype for a in found])
    return functools.reduce(_with_scalar, [a for a in arrays_and_dtypes if isinstance(a, _SCALARS)], dtype)


def promote(*values: Any) -> list[Array]:
    """Return tensors and Python numbers as tensors of their common dtype, on the tensors' device."""
    dtype = result_type(*values)
    device = next(v.device for v in values if isinstance(v, Tensor))
    return [v.to(dtype) if isinstance(v, Tensor) else torch.asarray(v, dtype=dtype, device=device) for v in values]


def isdtype(dtype: DType, kind: Any) -> bool:
    """Return whether ``dtype`` is of a kind: a dtype, the standard's name of a kind, or a tuple of these.

    Raises:
        ValueError: The standard has no kind of that name.
    """
    if isinstance(kind, tuple):
        return any(isdtype(dtype, k) for k in kind)
    if not isinstance(kind, str):
        return bool(dtype == kind)
    if kind not in KINDS:
        raise ValueError(f"isdtype: expected kind to be one of {', '.join(KINDS)}, got {kind!r}")
    return dtype in KINDS[kind]


def can_cast(from_: Any, to: DType, /) -> bool:
    """Return whether the dtype ``from_``, or that of a tensor, converts to ``to`` by the promotion rules."""
    return bool(torch.can_cast(from_ if isinstance(from_, torch.dtype) else from_.dtype, to))


def astype(x: Array, dtype: DType, /, *, copy: bool = True, device: Device | None = None) -> Array:
    """Return ``x`` with another dtype; without ``copy``, ``x`` itself where nothing changes.

    Args:
        x: The array.
        dtype: The dtype.
        copy: Whether ``x`` is copied where nothing changes.
        device: Where the result is; None: where ``x`` is.
    """
    return x.to(device=x.device if device is None else device, dtype=dtype, copy=copy)


@dataclass(frozen=True)
class FloatInfo:
    """Limits of a floating dtype, as Python floats, of the parts where it is complex; ``dtype`` is a dtype."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: DType


@dataclass(frozen=True)
class IntegerInfo:
    """Limits of an integer dtype, as Python integers; ``dtype`` is a dtype."""

    bits: int
    max: int
    min: int
    dtype: DType


def finfo(type: Any, /) -> FloatInfo:
    """Return the limits of a floating dtype, or of a tensor's."""
    dtype = type if isinstance(type, torch.dtype) else type.dtype
    real = REAL[COMPLEX.index(dtype)] if dtype.is_complex else dtype
    info = torch.finfo(real)
    return FloatInfo(info.bits, info.eps, info.max, info.min, info.smallest_normal, real)


def iinfo(type: Any, /) -> IntegerInfo:
    """Return the limits of an integer dtype, or of a tensor's."""
    dtype = type if isinstance(type, torch.dtype) else type.dtype
    info = torch.iinfo(dtype)
    return IntegerInfo(info.bits, info.max, info.min, dtype)


class NamespaceInfo:
    """What the namespace offers: its capabilities, devices and dtypes."""

    def capabilities(self) -> dict[str, Any]:
        """Return which optional parts of the standard are there."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> Device:
        """Return the device of tensors that are made without one."""
        return torch.get_default_device()

    def devices(self) -> tuple[Device, ...]:
        """Return the devices of this machine."""
        accelerators = range(torch.cuda.device_count()) if torch.cuda.is_available() else ()
        return (torch.device("cpu"), *(torch.device("cuda", i) for i in accelerators))

    def default_dtypes(self, *, device: Device | None = None) -> dict[str, DType]:
        """Return the dtypes of tensors that are made without one."""
        real = torch.get_default_dtype()
        complex_ = torch.complex128 if real is torch.float64 else torch.complex64
        return {
            "real floating": real,
            "complex floating": complex_,
            "integral": torch.int64,
            "indexing": torch.int64,
        }

    def dtypes(self, *, device: Device | None = None, kind: Any = None) -> dict[str, DType]:
        """Return the dtypes of a kind, or of several; all where ``kind`` is None."""
        known = [d for name in ("bool", "numeric") for d in KINDS[name]]
        return {str(d).rpartition(".")[2]: d for d in known if kind is None or isdtype(d, kind)}
