"""Tensors in nested lists, tuples, dicts and dataclasses."""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from torchlette import _C

__all__ = ["each", "replaced", "tensors_in"]


def replaced(value: Any, kind: type, fn: Callable[[Any], Any]) -> Any:
    """Return a copy of nested containers with ``fn`` applied to every object of type ``kind``."""
    if isinstance(value, kind):
        return fn(value)
    if isinstance(value, dict):
        items = {k: replaced(v, kind, fn) for k, v in value.items()}
        if type(value) is dict or type(value) is OrderedDict:
            return type(value)(items)
        return _copied(value, items, kind, fn)
    if isinstance(value, (list, tuple)):
        parts = [replaced(v, kind, fn) for v in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    if hasattr(type(value), "__dataclass_fields__"):
        return _copied(value, {}, kind, fn)
    return value


def _copied(value: Any, items: dict[Any, Any], kind: type, fn: Callable[[Any], Any]) -> Any:
    """Return a copy of a dict with new items, or of a dataclass with new fields; or a dataclass without any
    ``kind`` itself.
    """
    import dataclasses  # slow to import

    found: list[Any] = []

    def note(x: Any) -> Any:
        found.append(x)
        return fn(x)

    fields = dataclasses.fields(value) if dataclasses.is_dataclass(value) else ()
    parts = {f.name: replaced(getattr(value, f.name), kind, note) for f in fields if hasattr(value, f.name)}
    if not found and not isinstance(value, dict):
        return value
    out = copy.copy(value)
    for key, item in items.items():
        dict.__setitem__(out, key, item)
    for name, part in parts.items():
        object.__setattr__(out, name, part)
    return out


def tensors_in(value: Any) -> list[_C.Tensor]:
    """Return the tensors of nested containers in order."""
    found: list[_C.Tensor] = []

    def note(t: _C.Tensor) -> _C.Tensor:
        found.append(t)
        return t

    replaced(value, _C.Tensor, note)
    return found


def each(value: Any, fn: Callable[[Any], Any]) -> Any:
    """Return nested lists, tuples and dicts with ``fn`` applied to each object in them."""
    if isinstance(value, dict):
        items = {k: each(v, fn) for k, v in value.items()}
        return OrderedDict(items) if isinstance(value, OrderedDict) else items
    if isinstance(value, (list, tuple)):
        parts = [each(v, fn) for v in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    return fn(value)
