"""Linear algebra: the operators of ``torch.linalg``."""

from __future__ import annotations

from torchlette import _C
from torchlette._runtime.errors import LinAlgError

__all__ = ["LinAlgError"]

_PLACE = 16
_PREFIX = "linalg_"

_names = {
    name.removeprefix(_PREFIX): getattr(_C, name)
    for name, places in _C._where.items()
    if places & _PLACE and name.startswith(_PREFIX)
}
globals().update(_names)
__all__ += sorted(_names)
