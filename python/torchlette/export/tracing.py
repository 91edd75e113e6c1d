"""Recording of functions as steps of a saved program, and nests of arguments and results."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torchlette import _C
from torchlette._runtime.captured import capturing

__all__ = ["checked", "filled", "flattened", "matched", "parameter_names", "record"]

#: The deepest nest of arguments.
MAX_DEPTH = 50
_PLAIN = (bool, int, float, str, type(None))


def record(
    run: Callable[[list[_C.Tensor]], list[_C.Tensor]], inputs: Sequence[_C.Tensor], known: Sequence[_C.Tensor]
) -> tuple[dict[str, Any], list[_C.Tensor]]:
    """Run a function on placeholders of ``inputs`` and record the operators that it calls. Nothing is computed.

    Args:
        run: Takes the placeholders and returns its results.
        inputs: Tensors with the dtypes, devices and shapes of the arguments.
        known: Tensors that the function may read or write, and that have names.

    Returns:
        The recorded ``steps``, ``outputs``, and which inputs and constants ``changed``; and the tensors that the
        function read besides ``known``: the program's constants are those of ``known`` and these.
    """
    stand_ins = _C._export_begin(inputs, known)
    try:
        with capturing():
            results = run(stand_ins)
    except BaseException:
        _C._export_end(None)
        raise
    text, found = _C._export_end(results)
    return json.loads(text), found


def flattened(value: Any, leaves: list[_C.Tensor], names: list[str], name: str, depth: int = 0) -> Any:
    """Return a nest as plain data, tensors by their numbers; add its tensors and their names to the lists.

    Args:
        value: The nest.
        leaves: Receives the tensors.
        names: Receives a name for each tensor.
        name: The nest's own name.
        depth: How deep the nest is in another one.

    Raises:
        TypeError: The nest has something other than tensors, tuples, lists, dicts, numbers, strings and None.
    """
    if depth > MAX_DEPTH:
        raise TypeError(f"export: {name} is nested more than {MAX_DEPTH} deep")
    if isinstance(value, _C.Tensor):
        leaves.append(value)
        names.append(name)
        return {"tensor": len(leaves) - 1}
    if isinstance(value, (list, tuple)):
        kind = "list" if isinstance(value, list) else "tuple"
        return {kind: [flattened(v, leaves, names, f"{name}_{i}", depth + 1) for i, v in enumerate(value)]}
    if isinstance(value, Mapping):
        if not all(isinstance(key, (str, int)) for key in value):
            raise TypeError(f"export: {name} has keys other than strings and integers")
        return {"dict": [[key, flattened(v, leaves, names, f"{name}_{key}", depth + 1)] for key, v in value.items()]}
    if isinstance(value, _PLAIN):
        return {"plain": value}
    raise TypeError(
        f"export: {name} is of type {type(value).__name__}, want a tensor, or a nest of tuples, lists and dicts"
    )


def checked(nest: Any, count: int, depth: int = 0) -> None:
    """Check that data of a file describe a nest of at most ``count`` tensors.

    Args:
        nest: The data.
        count: The number of tensors.
        depth: How deep the nest is in another one.

    Raises:
        ValueError: They do not.
    """
    if not isinstance(nest, dict) or len(nest) != 1 or depth > MAX_DEPTH:
        raise ValueError(f"export.load: the file is damaged: a nest is wrong, or deeper than {MAX_DEPTH}")
    (kind, part), *_ = nest.items()
    good = isinstance(part, list)
    if kind == "tensor":
        good = type(part) is int and 0 <= part < count
    elif kind == "plain":
        good = isinstance(part, _PLAIN)
    elif kind == "dict" and good:
        good = all(isinstance(e, list) and len(e) == 2 and isinstance(e[0], (str, int)) for e in part)
    elif kind not in ("list", "tuple"):
        good = False
    if not good:
        raise ValueError("export.load: the file is damaged: a nest of arguments or results is wrong")
    for inner in part if isinstance(part, list) else ():
        checked(inner[1] if kind == "dict" else inner, count, depth + 1)


def filled(nest: Any, leaves: Sequence[Any]) -> Any:
    """Return the nest that :func:`flattened` described, with other tensors."""
    (kind, part), *_ = nest.items()
    match kind:
        case "tensor":
            return leaves[part]
        case "list":
            return [filled(v, leaves) for v in part]
        case "tuple":
            return tuple([filled(v, leaves) for v in part])
        case "dict":
            return {key: filled(v, leaves) for key, v in part}
    return part


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
            raise TypeError(f"{where} is wrong: got {type(value).__name__}, want a tensor, as in the exported call")
        leaves.append(value)
    elif kind == "plain":
        if value != part or type(value) is not type(part):
            raise ValueError(f"{where} is wrong: got {value!r}, want {part!r}: numbers are constants of the program")
    elif kind == "dict":
        if not isinstance(value, Mapping):
            raise TypeError(f"{where} is wrong: got {type(value).__name__}, want a dict, as in the exported call")
        if set(value) != {key for key, _ in part}:
            raise ValueError(f"{where} is wrong: got keys {list(value)}, want {[key for key, _ in part]}")
        for key, inner in part:
            matched(inner, value[key], leaves, f"{where}[{key!r}]")
    else:
        if not isinstance(value, (list, tuple)):
            raise TypeError(f"{where} is wrong: got {type(value).__name__}, want a {kind}, as in the exported call")
        if len(value) != len(part):
            raise ValueError(f"{where} is wrong: got {len(value)} items, want {len(part)}")
        for i, inner in enumerate(part):
            matched(inner, value[i], leaves, f"{where}[{i}]")


def parameter_names(fn: Callable[..., Any], count: int) -> list[str]:
    """Return names for ``count`` positional arguments of a function."""
    try:
        parameters = list(inspect.signature(fn).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    names: list[str] = []
    for p in parameters:
        if p.kind is p.VAR_POSITIONAL:
            names += [f"{p.name}_{i}" for i in range(count - len(names))]
        elif p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD):
            names.append(p.name)
    return names[:count] + [f"args_{i}" for i in range(len(names), count)]
