"""Tensors in nested lists, tuples and dicts."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from torchlette import _C

__all__ = ["replaced", "tensors_in"]


def replaced(value: Any, kind: type, fn: Callable[[Any], Any]) -> Any:
    """Return a copy of nested containers with ``fn`` applied to every object of type ``kind``."""
    if isinstance(value, kind):
        return fn(value)
    if isinstance(value, dict):
        items = {k: replaced(v, kind, fn) for k, v in value.items()}
        return OrderedDict(items) if isinstance(value, OrderedDict) else items
    if isinstance(value, (list, tuple)):
        parts = [replaced(v, kind, fn) for v in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    return value


def tensors_in(value: Any) -> list[_C.Tensor]:
    """Return the tensors of nested containers in order."""
    found: list[_C.Tensor] = []

    def note(t: _C.Tensor) -> _C.Tensor:
        found.append(t)
        return t

    replaced(value, _C.Tensor, note)
    return found
