"""Numeric limits and promotion of dtypes; dtype_table.py has the engine's table."""

from __future__ import annotations

from torchlette import _C

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["can_cast", "finfo", "iinfo", "promote_types", "result_type"]

# Tensors cannot have the dtypes below. Programs query their limits to round values to them in a wider dtype.
# dtype -> (stored bits of the mantissa, greatest value, smallest normal number)
_ABSENT_FLOATS: dict[Any, tuple[int, float, float]] = {
    _C.float8_e4m3fn: (3, 448.0, 2.0**-6),
    _C.float8_e4m3fnuz: (3, 240.0, 2.0**-7),
    _C.float8_e5m2: (2, 57344.0, 2.0**-14),
    _C.float8_e5m2fnuz: (2, 57344.0, 2.0**-15),
}
#: log10(2)
_DIGITS_PER_BIT = 0.30102999566398120


def _float_limits(dtype: Any) -> tuple[int, float, float]:
    """Return the stored bits of the mantissa, the greatest value and the smallest normal number."""
    from torchlette._runtime.dtype_table import MANTISSAS

    if dtype in _ABSENT_FLOATS:
        return _ABSENT_FLOATS[dtype]
    mantissa = MANTISSAS[dtype]
    greatest = 2 ** (8 * dtype.itemsize - mantissa - 2) - 1  # exponent; its smallest normal counterpart is 1 - greatest
    return mantissa, (2 - 2.0**-mantissa) * 2.0**greatest, 2.0 ** (1 - greatest)


def _short_name(dtype: Any) -> str:
    return str(dtype).rpartition(".")[2]


class finfo:
    """Limits of a floating point dtype; without an argument, of the default dtype."""

    bits: int
    eps: float
    max: float
    min: float
    tiny: float
    smallest_normal: float
    resolution: float
    dtype: str

    def __init__(self, type: Any = None) -> None:
        """Look the dtype up."""
        dtype = _C.get_default_dtype() if type is None else type
        dtype = {_C.complex64: _C.float32, _C.complex128: _C.float64}.get(dtype, dtype)
        if not (isinstance(dtype, _C.dtype) and dtype.is_floating_point):
            raise TypeError(
                f"torch.finfo() requires a floating point input type. Use torch.iinfo to handle 'torch.finfo': got "
                f"{dtype}"
            )
        mantissa, self.max, self.tiny = _float_limits(dtype)
        self.bits = 8 * dtype.itemsize
        self.eps = 2.0**-mantissa
        self.resolution = float(f"1e-{int(mantissa * _DIGITS_PER_BIT)}")
        self.min = -self.max
        self.smallest_normal = self.tiny
        self.dtype = _short_name(dtype)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, finfo) and self.dtype == other.dtype

    def __hash__(self) -> int:
        return hash(("finfo", self.dtype))

    def __repr__(self) -> str:
        return (
            f"finfo(resolution={self.resolution:g}, min={self.min:g}, max={self.max:g}, eps={self.eps:g}, "
            f"smallest_normal={self.smallest_normal:g}, tiny={self.tiny:g}, dtype={self.dtype})"
        )


class iinfo:
    """Limits of an integer dtype."""

    bits: int
    min: int
    max: int
    dtype: str

    def __init__(self, type: Any) -> None:
        """Look the dtype up."""
        if not isinstance(type, _C.dtype) or _category(type) != _category(_C.int64):
            raise TypeError(
                f"torch.iinfo() requires an integer input type. Use torch.finfo to handle 'torch.iinfo': got {type}"
            )
        self.bits = 8 * type.itemsize
        self.min = -(1 << self.bits - 1) if type.is_signed else 0
        self.max = (1 << self.bits - type.is_signed) - 1
        self.dtype = _short_name(type)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, iinfo) and self.dtype == other.dtype

    def __hash__(self) -> int:
        return hash(("iinfo", self.dtype))

    def __repr__(self) -> str:
        return f"iinfo(min={self.min:g}, max={self.max:g}, dtype={self.dtype})"


def result_type(tensor1: Any, tensor2: Any) -> Any:
    """Return the dtype that an operation of two tensors or numbers gives."""
    return _C._result_type(tensor1, tensor2).dtype


def promote_types(type1: Any, type2: Any) -> Any:
    """Return the dtype to which PyTorch's promotion table takes the two."""
    return result_type(_C.empty(1, dtype=type1), _C.empty(1, dtype=type2))


def _category(dtype: Any) -> tuple[bool, bool, bool]:
    """Return the rank of the dtype's category: bool, integer, floating point, complex."""
    return dtype.is_complex, dtype.is_floating_point, dtype is not _C.bool


def can_cast(from_: Any, to: Any) -> bool:
    """Return whether PyTorch lets a result of dtype ``from_`` be written to a tensor of dtype ``to``."""
    return _category(from_) <= _category(to)
