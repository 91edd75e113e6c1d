"""Classes of the named results of operators: ``max(x, 0)`` is a ``return_types.max`` of ``values`` and ``indices``."""

from __future__ import annotations

from torchlette import _C

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = sorted(_C._return_types)


def _text(self: Any) -> str:
    """PyTorch's text: a line for each field."""
    names = type(self).__match_args__
    return (
        f"torch.return_types.{type(self).__name__}(\n"
        + ",\n".join(f"{n}={v!r}" for n, v in zip(names, self, strict=True))
        + ")"
    )


for _name, _class in _C._return_types.items():
    _class.__repr__ = _text
    globals()[_name] = _class
