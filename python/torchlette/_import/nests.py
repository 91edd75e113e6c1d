"""Nests of values in files: the JSON text that PyTorch writes for a tree of tuples, lists and dictionaries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from torchlette._import.files import damaged, parse_json

__all__ = ["Nest"]

_DEPTH = 64


class Nest:
    """The structure of a value: a leaf, or a container of nests.

    Args:
        kind: "leaf", "tuple", "list", "dict" or "none".
        keys: Of a dictionary.
        children: What a container holds.
    """

    def __init__(self, kind: str, keys: Sequence[Any] = (), children: Sequence[Nest] = ()) -> None:
        self.kind, self.keys, self.children = kind, list(keys), list(children)

    @classmethod
    def parse(cls, text: str) -> Nest:
        """Return the nest of PyTorch's text.

        Args:
            text: ``[1, {"type": ..., "context": ..., "children_spec": [...]}]``.
        """
        version, spec = parse_json(text.encode(), "a nest of arguments")
        if version != 1:
            raise damaged(f"the version of a nest is {version}, want 1")
        return cls._read(spec, 0)

    @classmethod
    def _read(cls, spec: dict[str, Any], depth: int) -> Nest:
        if depth > _DEPTH:
            raise damaged(f"arguments are nested deeper than {_DEPTH}")
        kind, context = spec["type"], spec["context"]
        if kind is None:
            return cls("leaf")
        children = [cls._read(child, depth + 1) for child in spec["children_spec"]]
        if kind in ("builtins.tuple", "builtins.list"):
            return cls(kind[9:], (), children)
        found = parse_json(context.encode(), "a nest of arguments") if isinstance(context, str) else context
        keys = _keys(found, len(children))
        if keys is not None:
            return cls("dict", keys, children)
        if not children:
            return cls("none")
        return cls("tuple", (), children)  # a named tuple, or a class of the program's own

    def leaves(self) -> Iterator[Nest]:
        """Give the leaves in order."""
        if self.kind == "leaf":
            yield self
        for child in self.children:
            yield from child.leaves()

    def build(self, values: Iterator[Any]) -> Any:
        """Return the nest with values as its leaves."""
        if self.kind == "leaf":
            return next(values)
        if self.kind == "none":
            return None
        items = [child.build(values) for child in self.children]
        if self.kind == "dict":
            return dict(zip(self.keys, items, strict=True))
        return items if self.kind == "list" else tuple(items)

    def described(self, leaves: Iterator[Any]) -> dict[str, Any]:
        """Return the nest as saved programs describe it, with these descriptions of the leaves."""
        if self.kind == "leaf":
            return next(leaves)
        if self.kind == "none":
            return {"plain": None}
        items = [child.described(leaves) for child in self.children]
        return (
            {"dict": list(map(list, zip(self.keys, items, strict=True)))} if self.kind == "dict" else {self.kind: items}
        )

    def flatten(self, value: Any) -> list[Any]:
        """Return the leaves of a value of this structure.

        Raises:
            ValueError: The value has another structure.
        """
        if self.kind == "leaf":
            return [value]
        if self.kind == "none":
            return []
        if self.kind == "dict":
            if not hasattr(value, "keys") or set(value.keys()) != set(self.keys):
                raise ValueError(f"expected a dictionary with the keys {self.keys}, got {_described(value)}")
            items = [value[key] for key in self.keys]
        else:
            if not isinstance(value, (tuple, list)) or len(value) != len(self.children):
                raise ValueError(f"expected a {self.kind} of {len(self.children)}, got {_described(value)}")
            items = list(value)
        return [leaf for child, item in zip(self.children, items, strict=True) for leaf in child.flatten(item)]


def _described(value: Any) -> str:
    if hasattr(value, "keys"):
        return f"one with {list(value.keys())}"
    return f"{type(value).__name__} of {len(value)}" if hasattr(value, "__len__") else type(value).__name__


def _keys(context: Any, count: int) -> list[Any] | None:
    """Return the keys in a container's context, None where it has none.

    A dictionary's context is the list of its keys; that of a defaultdict, or of a class derived from OrderedDict, has
    the list among other things.
    """
    if isinstance(context, list):
        if len(context) == count and all(isinstance(key, (str, int)) for key in context):
            return context
        for part in context:
            if isinstance(part, list) and len(part) == count and all(isinstance(key, (str, int)) for key in part):
                return part
    return None
