"""Tensors in nested lists, tuples and dicts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torchlette import _C

__all__ = ["replaced", "tensors_in"]


def replaced(value: Any, kind: type, fn: Callable[[Any], Any]) -> Any:
    """Return a copy of nested containers with ``fn`` applied to what is of ``kind``."""
    if isinstance(value, kind):
        return fn(value)
    if isinstance(value, dict):
        return {k: replaced(v, kind, fn) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        items = [replaced(v, kind, fn) for v in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return value


def tensors_in(value: Any) -> list[_C.Tensor]:
    """Return the tensors of nested containers in order."""
    found: list[_C.Tensor] = []

    def note(t: _C.Tensor) -> _C.Tensor:
        found.append(t)
        return t

    replaced(value, _C.Tensor, note)
    return found
