"""Types of arguments, for annotations."""

from torchlette import _C

__all__ = ["Device", "Number"]

Number = int | float | bool
Device = _C.device | str | int | None
_dtype, _device, _size, _int, _float, _bool = (
    _C.dtype,
    _C.device,
    _C.Size | list[int] | tuple[int, ...],
    int,
    float,
    bool,
)
