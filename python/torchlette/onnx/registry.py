"""The table of ONNX's operators, and how one is called."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

from torchlette._import.files import damaged, unsupported

__all__ = ["OPERATORS", "Operator", "check_call", "operator"]


class Operator(NamedTuple):
    """How an operator is computed."""

    call: Callable[..., Any]
    #: Places of inputs that are taken as Python numbers, as sizes and axes.
    host: tuple[int, ...]
    #: Places of inputs that may also be Host values; -1 for all.
    raw: tuple[int, ...]
    #: What differs from ONNX, or "".
    note: str
    #: Names of attributes.
    attributes: frozenset[str]
    #: The least and greatest number of inputs; -1 for any number.
    inputs: tuple[int, int]
    #: Whether the function takes the number of outputs, the version of the operators, the device.
    wants: frozenset[str]


#: By ONNX's name.
OPERATORS: dict[str, Operator] = {}
_EXTRA = frozenset(("n_outputs", "opset", "device"))


def operator(
    *names: str, host: tuple[int, ...] = (), raw: tuple[int, ...] = (), note: str = ""
) -> Callable[[Any], Any]:
    """Return a decorator that puts a function in the table.

    The function's positional parameters are the inputs, its keyword-only ones the attributes. Those named
    ``n_outputs``, ``opset`` and ``device`` are the caller's.

    Args:
        names: ONNX's names.
        host: Places of inputs that the function takes as lists of numbers, or as a number.
        raw: Places of inputs that the function also takes as Host values; -1 for all.
        note: For the documentation.
    """

    def add(function: Any) -> Any:
        parameters = inspect.signature(function).parameters.values()
        positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        variadic = any(p.kind is p.VAR_POSITIONAL for p in parameters)
        least = sum(p.default is p.empty for p in positional)
        keyed = {p.name for p in parameters if p.kind is p.KEYWORD_ONLY}
        entry = Operator(
            function,
            host,
            raw,
            note,
            frozenset(keyed - _EXTRA),
            (least, -1 if variadic else len(positional)),
            frozenset(keyed & _EXTRA),
        )
        for name in names:
            OPERATORS[name] = entry
        return function

    return add


def check_call(name: str, entry: Operator, inputs: int, attributes: dict[str, Any]) -> None:
    """Check the number of inputs and the names of attributes of a node.

    Args:
        name: Of the operator.
        entry: How it is computed.
        inputs: The number of inputs of the node.
        attributes: Of the node, by name.

    Raises:
        ValueError: There are too few or too many inputs.
        NotImplementedError: There is an attribute that is not supported.
    """
    least, most = entry.inputs
    if inputs < least or most >= 0 and inputs > most:
        raise damaged(f"{name} has {inputs} inputs, want {least if least == most else f'{least} to {most}'}")
    for attribute in attributes:
        if attribute not in entry.attributes:
            raise unsupported(f"{name} has an attribute that is not supported: {attribute}")
