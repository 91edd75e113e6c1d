"""The names of ``torch.types``: types of arguments, for annotations."""

from torchlette import _C

__all__ = ["Device", "Number"]

Number = int | float | bool
Device = _C.device | str | int | None
# PyTorch's names with an underscore, which scripts import too.
_dtype, _device, _size, _int, _float, _bool = (
    _C.dtype,
    _C.device,
    _C.Size | list[int] | tuple[int, ...],
    int,
    float,
    bool,
)
