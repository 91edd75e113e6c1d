"""Special functions: the operators of ``torch.special``."""

from __future__ import annotations

from typing import Any

from torchlette import _C

_PLACE = 32
_PREFIX = "special_"

globals().update(
    {
        name.removeprefix(_PREFIX): getattr(_C, name)
        for name, places in _C._where.items()
        if places & _PLACE and name.startswith(_PREFIX)
    }
)


def __getattr__(name: str) -> Any:
    """Import the polynomials when one is used."""
    from torchlette._ops import polynomials

    if name not in polynomials.__all__:
        raise AttributeError(f"module 'torchlette.special' has no attribute {name!r}")
    return getattr(polynomials, name)
