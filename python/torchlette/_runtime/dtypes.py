"""Numeric limits and promotion of dtypes."""

from __future__ import annotations

from torchlette import _C

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["can_cast", "finfo", "iinfo", "promote_types", "result_type"]

# dtype -> (bits, eps, max, smallest normal, decimal resolution)
_FLOATS: dict[Any, tuple[int, float, float, float, float]] = {
    _C.float64: (64, 2.0**-52, (2 - 2.0**-52) * 2.0**1023, 2.0**-1022, 1e-15),
    _C.float32: (32, 2.0**-23, (2 - 2.0**-23) * 2.0**127, 2.0**-126, 1e-6),
    _C.float16: (16, 2.0**-10, (2 - 2.0**-10) * 2.0**15, 2.0**-14, 1e-3),
    _C.bfloat16: (16, 2.0**-7, (2 - 2.0**-7) * 2.0**127, 2.0**-126, 1e-2),
    # No tensor has the types below; programs ask for their limits to round to them in a wider type.
    _C.float8_e4m3fn: (8, 2.0**-3, 448.0, 2.0**-6, 1.0),
    _C.float8_e4m3fnuz: (8, 2.0**-3, 240.0, 2.0**-7, 1.0),
    _C.float8_e5m2: (8, 2.0**-2, 57344.0, 2.0**-14, 1.0),
    _C.float8_e5m2fnuz: (8, 2.0**-2, 57344.0, 2.0**-15, 1.0),
}

# dtype -> (bits, min, max)
_INTS: dict[Any, tuple[int, int, int]] = {
    _C.int64: (64, -(2**63), 2**63 - 1),
    _C.int32: (32, -(2**31), 2**31 - 1),
    _C.int16: (16, -(2**15), 2**15 - 1),
    _C.int8: (8, -(2**7), 2**7 - 1),
    _C.uint32: (32, 0, 2**32 - 1),
    _C.uint8: (8, 0, 2**8 - 1),
    _C.uint16: (16, 0, 2**16 - 1),
    _C.uint64: (64, 0, 2**64 - 1),
}


def _short_name(dtype: Any) -> str:
    return str(dtype).rpartition(".")[2]


class finfo:
    """Limits of a floating point dtype, the default one if none is given."""

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
        if dtype not in _FLOATS:
            raise TypeError(
                f"torch.finfo() requires a floating point input type. Use torch.iinfo to handle 'torch.finfo': got "
                f"{dtype}"
            )
        self.bits, self.eps, self.max, self.tiny, self.resolution = _FLOATS[dtype]
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
        if type not in _INTS:
            raise TypeError(
                f"torch.iinfo() requires an integer input type. Use torch.finfo to handle 'torch.iinfo': got {type}"
            )
        self.bits, self.min, self.max = _INTS[type]
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
    """Return the smallest dtype that holds the values of both, as PyTorch's table has it."""
    return result_type(_C.empty(1, dtype=type1), _C.empty(1, dtype=type2))


def _kind(dtype: Any) -> int:
    """Return 0 for bool, 1 for integers, 2 for floating point types."""
    return 2 if dtype.is_floating_point else int(dtype is not _C.bool)


def can_cast(from_: Any, to: Any) -> bool:
    """Return whether a result of dtype ``from_`` may be written to a tensor of dtype ``to``."""
    return _kind(from_) <= _kind(to)
