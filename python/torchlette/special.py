"""Special functions: the operators of ``torch.special``."""

from __future__ import annotations

from torchlette import _C

_PLACE = 32
_PREFIX = "special_"

globals().update({name.removeprefix(_PREFIX): getattr(_C, name) for name, places in _C._where.items() if places & _PLACE and name.startswith(_PREFIX)})
