"""The names of ``torch.types``: types of arguments, for annotations."""

from torchlette import _C

__all__ = ["Device", "Number", "SymBool", "SymFloat", "SymInt"]


class SymInt:
    """The class of unknown sizes, of which there are none: for ``isinstance``."""


class SymFloat:
    """The class of unknown numbers, of which there are none: for ``isinstance``."""


class SymBool:
    """The class of unknown conditions, of which there are none: for ``isinstance``."""


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
