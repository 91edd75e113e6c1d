"""Linear algebra: the operators of ``torch.linalg``."""

from __future__ import annotations

from torchlette import _C

_PLACE = 16
_PREFIX = "linalg_"

globals().update({name.removeprefix(_PREFIX): getattr(_C, name) for name, places in _C._where.items() if places & _PLACE and name.startswith(_PREFIX)})
