"""Nests of arguments and results, as the plain data of a saved program."""

from __future__ import annotations

import dataclasses
import keyword
from collections import namedtuple
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from torchlette import _C
from torchlette.export.fitting import check_expression, value_of

__all__ = ["checked", "filled", "flattened", "matched", "register_dataclass"]

#: The deepest nest of arguments.
MAX_DEPTH = 50
_PLAIN = (bool, int, float, str, type(None))
#: Classes of named tuples and of dataclasses by the names that they have in files. A file makes no class known.
_NAMED_TUPLES: dict[str, type] = {}
_DATACLASSES: dict[str, type] = {}


def _type_name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def register_dataclass(cls: type, *, serialized_type_name: str | None = None) -> None:
    """Let programs take and give instances of a dataclass.

    The process that loads such a program has to register the class under the same name.

    Args:
        cls: The class.
        serialized_type_name: Its name in files; ``None`` for the module's and the class's name.

    Raises:
        TypeError: It is no dataclass.
        ValueError: Another class has the name.
    """
    if not isinstance(cls, type) or not dataclasses.is_dataclass(cls):
        raise TypeError(f"register_dataclass: cls is wrong: got {cls!r}, want a dataclass")
    name = serialized_type_name or _type_name(cls)
    if _DATACLASSES.setdefault(name, cls) is not cls and _type_name(_DATACLASSES[name]) != _type_name(cls):
        raise ValueError(f"register_dataclass: the name {name!r} is already that of {_DATACLASSES[name]}")
    _DATACLASSES[name] = cls


def registered_name(value: Any) -> str | None:
    """Return the name under which the class of a dataclass's instance is registered, or None."""
    return next((name for name, cls in _DATACLASSES.items() if cls is type(value)), None)


def parts(value: Any) -> Iterator[tuple[str, Any]] | None:
    """Give the fields of a named tuple, or of an instance of a registered dataclass; None for other values."""
    if isinstance(value, tuple) and hasattr(type(value), "_fields"):
        names: tuple[str, ...] = getattr(type(value), "_fields")  # noqa: B009
        return zip(names, value, strict=True)
    if registered_name(value) is not None:
        return ((f.name, getattr(value, f.name)) for f in dataclasses.fields(value) if f.init)
    return None


def flattened(value: Any, leaves: list[_C.Tensor], names: list[str], name: str, depth: int = 0) -> Any:
    """Return a nest as plain data, tensors by their numbers; add its tensors and their names to the lists.

    Args:
        value: The nest.
        leaves: Receives the tensors.
        names: Receives a name for each tensor.
        name: The nest's own name.
        depth: How deep the nest is in another one.

    Raises:
        TypeError: The nest has something other than tensors, tuples, lists, dicts, registered dataclasses, numbers,
            strings and None.
    """
    if depth > MAX_DEPTH:
        raise TypeError(f"export: {name} is nested more than {MAX_DEPTH} deep")
    if isinstance(value, _C.Tensor):
        leaves.append(value)
        names.append(name)
        return {"tensor": len(leaves) - 1}
    if (fields := parts(value)) is not None:
        kind = "namedtuple" if isinstance(value, tuple) else "dataclass"
        label = registered_name(value) or _type_name(type(value))
        if kind == "namedtuple":
            _NAMED_TUPLES[label] = type(value)
        return {kind: [label, [[k, flattened(v, leaves, names, f"{name}_{k}", depth + 1)] for k, v in fields]]}
    if isinstance(value, (list, tuple)):
        kind = "list" if isinstance(value, list) else "tuple"
        return {kind: [flattened(v, leaves, names, f"{name}_{i}", depth + 1) for i, v in enumerate(value)]}
    if isinstance(value, Mapping):
        if not all(isinstance(key, (str, int)) for key in value):
            raise TypeError(f"export: {name} has keys other than strings and integers")
        return {"dict": [[key, flattened(v, leaves, names, f"{name}_{key}", depth + 1)] for key, v in value.items()]}
    if isinstance(value, _PLAIN):
        return {"plain": value}
    hint = "; register its class by export.register_dataclass" if dataclasses.is_dataclass(value) else ""
    raise TypeError(
        f"export: {name} is of type {type(value).__name__}, want a tensor, or a nest of tuples, lists and dicts{hint}"
    )


def _fields(kind: str, part: Any) -> list[Any] | None:
    """Return the pairs of name and nest of a named tuple or dataclass in a file; None where they are damaged."""
    if not (isinstance(part, list) and len(part) == 2 and isinstance(part[0], str) and isinstance(part[1], list)):
        return None
    label, pairs = part
    if not all(isinstance(e, list) and len(e) == 2 and isinstance(e[0], str) for e in pairs):
        return None
    names = [label.rpartition(".")[2], *(name for name, _ in pairs)]
    words = all(n.isidentifier() and not keyword.iskeyword(n) and len(n) < 256 for n in names)
    private = kind == "namedtuple" and any(n.startswith("_") for n in names[1:])
    return pairs if words and not private and len(set(names[1:])) == len(names) - 1 else None


def checked(nest: Any, count: int, dims: Sequence[str] | None = None, depth: int = 0) -> None:
    """Check that data of a file describe a nest of at most ``count`` tensors.

    Args:
        nest: The data.
        count: The number of tensors.
        dims: Names of sizes that numbers may depend on; None where they may not.
        depth: How deep the nest is in another one.

    Raises:
        ValueError: They do not.
    """
    if not isinstance(nest, dict) or len(nest) != 1 or depth > MAX_DEPTH:
        raise ValueError(f"export.load: the file is damaged: a nest is wrong, or deeper than {MAX_DEPTH}")
    (kind, part), *_ = nest.items()
    good, inner = isinstance(part, list), part
    if kind == "tensor":
        good = type(part) is int and 0 <= part < count
    elif kind == "plain":
        good = isinstance(part, _PLAIN)
    elif kind == "size":
        good = dims is not None and isinstance(part, str) and check_expression(part, dims)
    elif kind == "dict" and good:
        good = all(isinstance(e, list) and len(e) == 2 and isinstance(e[0], (str, int)) for e in part)
    elif kind in ("namedtuple", "dataclass"):
        inner = _fields(kind, part)
        good = inner is not None
    elif kind not in ("list", "tuple"):
        good = False
    if not good:
        raise ValueError("export.load: the file is damaged: a nest of arguments or results is wrong")
    for v in inner if isinstance(inner, list) else ():
        checked(v if kind in ("list", "tuple") else v[1], count, dims, depth + 1)


def filled(nest: Any, leaves: Sequence[Any], sizes: Mapping[str, int] | None = None) -> Any:
    """Return the nest that :func:`flattened` described, with other tensors.

    Args:
        nest: The description.
        leaves: The tensors.
        sizes: Those of the named dims, for numbers that depend on them.

    Raises:
        ValueError: It has a dataclass that is not registered, or a number that is divided by 0.
    """
    (kind, part), *_ = nest.items()
    match kind:
        case "tensor":
            return leaves[part]
        case "size":
            try:
                return int(value_of(part, dict(sizes or {})))
            except ArithmeticError:
                raise ValueError(f"the program gives a number that has no value: {part} at {sizes}") from None
        case "list":
            return [filled(v, leaves, sizes) for v in part]
        case "tuple":
            return tuple([filled(v, leaves, sizes) for v in part])
        case "dict":
            return {key: filled(v, leaves, sizes) for key, v in part}
        case "namedtuple" | "dataclass":
            return _instance(kind, part[0], {key: filled(v, leaves, sizes) for key, v in part[1]})
    return part


def _instance(kind: str, label: str, fields: dict[str, Any]) -> Any:
    if kind == "dataclass":
        if label not in _DATACLASSES:
            raise ValueError(
                f"the program has the dataclass {label}: register it by torchlette.export.register_dataclass"
            )
        return _DATACLASSES[label](**fields)
    cls: Any = _NAMED_TUPLES.get(label)
    if cls is None or cls._fields != tuple(fields):
        return namedtuple(label.rpartition(".")[2], list(fields))(*fields.values())
    return cls(*fields.values())


def _mismatch(where: str, value: Any, want: str) -> TypeError:
    return TypeError(f"{where} is wrong: got {type(value).__name__}, want {want}, as in the exported call")


def matched(nest: Any, value: Any, leaves: list[Any], where: str) -> None:
    """Add the tensors of ``value`` to ``leaves``; it must be like the nest that was exported.

    Args:
        nest: The exported nest as data.
        value: The nest of a call.
        leaves: Receives the tensors.
        where: The name of the argument, for errors.

    Raises:
        TypeError: It has other containers or other types.
        ValueError: It has other lengths, keys or numbers.
    """
    (kind, part), *_ = nest.items()
    if kind == "tensor":
        if not isinstance(value, _C.Tensor):
            raise _mismatch(where, value, "a tensor")
        leaves.append(value)
    elif kind == "plain":
        if value != part or type(value) is not type(part):
            raise ValueError(f"{where} is wrong: got {value!r}, want {part!r}: numbers are constants of the program")
    elif kind == "dict":
        if not isinstance(value, Mapping):
            raise _mismatch(where, value, "a dict")
        if set(value) != {key for key, _ in part}:
            raise ValueError(f"{where} is wrong: got keys {list(value)}, want {[key for key, _ in part]}")
        for key, inner in part:
            matched(inner, value[key], leaves, f"{where}[{key!r}]")
    elif kind in ("namedtuple", "dataclass"):
        names = [name for name, _ in part[1]]
        if [name for name, _ in parts(value) or ()] != names or (kind == "namedtuple") != isinstance(value, tuple):
            raise _mismatch(where, value, f"a {part[0]} with the fields {names}")
        for name, inner in part[1]:
            matched(inner, getattr(value, name), leaves, f"{where}.{name}")
    else:
        if not isinstance(value, (list, tuple)):
            raise _mismatch(where, value, f"a {kind}")
        if len(value) != len(part):
            raise ValueError(f"{where} is wrong: got {len(value)} items, want {len(part)}")
        for i, inner in enumerate(part):
            matched(inner, value[i], leaves, f"{where}[{i}]")


def joined(nests: Sequence[Any], number: Any) -> Any:
    """Return the nest of results for all sizes; ``number`` makes an expression of an integer that differs.

    Raises:
        ValueError: The nests differ in more than integers.
    """
    first = nests[0]
    if all(type(n) is type(first) and n == first for n in nests):
        return first
    if isinstance(first, dict) and all(isinstance(n, dict) and n.keys() == first.keys() for n in nests):
        values = [n.get("plain") for n in nests]
        if "plain" in first and all(type(v) is int for v in values):
            return {"size": number(values)}
        if "plain" not in first:
            return {k: joined([n[k] for n in nests], number) for k in first}
    if isinstance(first, list) and all(isinstance(n, list) and len(n) == len(first) for n in nests):
        return [joined([n[i] for n in nests], number) for i in range(len(first))]
    raise ValueError
