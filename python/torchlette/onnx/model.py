"""The messages of an ONNX file as Python objects; onnx.proto names their fields."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torchlette._import.files import damaged, unsupported
from torchlette.onnx.wire import Budget, doubles, fields, floats, signed, varints

__all__ = ["Function", "Graph", "Model", "Node", "TensorData", "ValueInfo", "read_model"]

#: Of one file: fields, nested graphs, elements of one list.
FIELDS, DEPTH = 1_000_000, 24


def _text(value: Any) -> str:
    if not isinstance(value, memoryview):
        raise damaged("a field that wants a text has a number")
    try:
        return bytes(value).decode()
    except UnicodeDecodeError as exc:
        raise damaged(f"a text is no UTF-8: {exc}") from exc


def _int(value: Any) -> int:
    if not isinstance(value, int):
        raise damaged("a field that wants a number has bytes")
    return signed(value)


def _message(value: Any) -> memoryview:
    if not isinstance(value, memoryview):
        raise damaged("a field that wants a message has a number")
    return value


class TensorData:
    """A TensorProto: dtype, sizes, and where the elements are."""

    def __init__(self, data: memoryview, budget: Budget) -> None:
        self.dims: list[int] = []
        self.dtype, self.name, self.location = 0, "", 0
        self.raw: memoryview | None = None
        #: Pieces of the fields float_data (4), int32_data (5), int64_data (7), double_data (10), uint64_data (11).
        self.pieces: list[tuple[int, int, Any]] = []
        self.external: dict[str, str] = {}
        for number, kind, value in fields(_message(data), budget):
            if number == 1:
                self.dims += varints(kind, value)
            elif number == 2:
                self.dtype = _int(value)
            elif number in (4, 5, 7, 10, 11):
                self.pieces.append((number, kind, value))
            elif number == 8:
                self.name = _text(value)
            elif number == 9:
                self.raw = _message(value)
            elif number == 13:
                entry = dict(_texts(value, budget))
                self.external[entry.get(1, "")] = entry.get(2, "")
            elif number == 14:
                self.location = _int(value)
        if len(self.dims) > 64 or any(n < 0 or n >= 1 << 48 for n in self.dims):
            raise damaged(f"the tensor {self.name!r} has the sizes {self.dims[:64]}")

    def elements(self) -> Iterator[tuple[int, Any]]:
        """Give field numbers and lists of numbers that are not raw bytes."""
        for number, kind, value in self.pieces:
            if number == 4:
                yield number, floats(value)
            elif number == 10:
                yield number, doubles(value)
            else:
                yield number, varints(kind, value)


def _texts(value: Any, budget: Budget) -> Iterator[tuple[int, str]]:
    for number, kind, item in fields(_message(value), budget):
        if kind == 2:
            yield number, _text(item)


class Attribute:
    """An AttributeProto: a name and a value.

    Args:
        data: The message.
        budget: Counts its fields.
        depth: How deep its graph is nested.
    """

    def __init__(self, data: memoryview, budget: Budget, depth: int) -> None:
        self.name, self.refers, self.kind = "", "", 0
        found: dict[int, list[Any]] = {}
        for number, kind, value in fields(_message(data), budget):
            if number == 1:
                self.name = _text(value)
            elif number == 21:
                self.refers = _text(value)
            elif number == 20:
                self.kind = _int(value)
            elif number in (2, 7):
                found.setdefault(number, []).extend(floats(value))
            elif number in (3, 8):
                found.setdefault(number, []).extend(varints(kind, value))
            elif number in (4, 9):
                found.setdefault(number, []).append(_text(value))
            elif number in (5, 10):
                found.setdefault(number, []).append(TensorData(value, budget))
            elif number in (6, 11):
                found.setdefault(number, []).append(Graph(value, budget, depth + 1))
            elif number in (22, 23):
                raise unsupported(f"the attribute {self.name!r} is a sparse tensor")
        self._found = found

    _FIELD = {1: 2, 2: 3, 3: 4, 4: 5, 5: 6, 6: 7, 7: 8, 8: 9, 9: 10, 10: 11}
    _DEFAULT = {2: 0.0, 3: 0, 4: ""}

    def value(self) -> Any:
        """Return the number, text, tensor or graph, or the list of them."""
        number = self._FIELD.get(self.kind)
        if number is None:
            if self.kind in (13, 14):
                return None  # a type
            if self.kind or len(self._found) != 1:
                raise unsupported(f"the attribute {self.name!r} has the type {self.kind}")
            (number,) = self._found
        values = self._found.get(number, [])
        if number >= 7:
            return values
        if not values and number in self._DEFAULT:
            return self._DEFAULT[number]
        if len(values) != 1:
            raise damaged(f"the attribute {self.name!r} has {len(values)} values, want one")
        return values[0]


class Node:
    """A NodeProto.

    Args:
        data: The message.
        budget: Counts its fields.
        depth: How deep its graph is nested.
    """

    def __init__(self, data: memoryview, budget: Budget, depth: int) -> None:
        self.inputs: list[str] = []
        self.outputs: list[str] = []
        self.name = self.op = self.domain = ""
        self.attributes: dict[str, Attribute] = {}
        for number, _, value in fields(_message(data), budget):
            if number == 1:
                self.inputs.append(_text(value))
            elif number == 2:
                self.outputs.append(_text(value))
            elif number == 3:
                self.name = _text(value)
            elif number == 4:
                self.op = _text(value)
            elif number == 7:
                self.domain = _text(value)
            elif number == 5:
                attribute = Attribute(value, budget, depth)
                self.attributes[attribute.name] = attribute


class ValueInfo:
    """A ValueInfoProto: a name, and the type where the value is a tensor.

    ``shape`` is None where the file does not tell it. A size is an int, the name of a dim, or None.
    """

    def __init__(self, data: memoryview, budget: Budget) -> None:
        self.name, self.dtype, self.kind = "", 0, "tensor"
        self.shape: list[int | str | None] | None = None
        for number, _, value in fields(_message(data), budget):
            if number == 1:
                self.name = _text(value)
            elif number == 2:
                self._type(value, budget)

    def _type(self, data: Any, budget: Budget) -> None:
        for number, _, value in fields(_message(data), budget):
            if number != 1:
                self.kind = {4: "sequence", 5: "map", 8: "sparse tensor", 9: "optional"}.get(number, self.kind)
                continue
            for part, _, inner in fields(_message(value), budget):
                if part == 1:
                    self.dtype = _int(inner)
                elif part == 2:
                    self.shape = [_dim(dim, budget) for n, _, dim in fields(_message(inner), budget) if n == 1]
        if self.shape is not None and len(self.shape) > 64:
            raise damaged(f"{self.name!r} has {len(self.shape)} dims")


def _dim(data: Any, budget: Budget) -> int | str | None:
    for number, _, value in fields(_message(data), budget):
        if number == 1:
            size = _int(value)
            return size if size > 0 else None if size < 0 else 0
        if number == 2:
            return _text(value) or None
    return None


class Graph:
    """A GraphProto.

    Args:
        data: The message.
        budget: Counts its fields.
        depth: How deep its graph is nested.
    """

    def __init__(self, data: memoryview, budget: Budget, depth: int = 0) -> None:
        if depth > DEPTH:
            raise damaged(f"graphs are nested deeper than {DEPTH}")
        self.name = ""
        self.nodes: list[Node] = []
        self.initializers: list[TensorData] = []
        self.inputs: list[ValueInfo] = []
        self.outputs: list[ValueInfo] = []
        for number, _, value in fields(_message(data), budget):
            if number == 1:
                self.nodes.append(Node(value, budget, depth))
            elif number == 2:
                self.name = _text(value)
            elif number == 5:
                self.initializers.append(TensorData(value, budget))
            elif number == 11:
                self.inputs.append(ValueInfo(value, budget))
            elif number == 12:
                self.outputs.append(ValueInfo(value, budget))
            elif number == 15:
                raise unsupported("the graph has sparse tensors")


class Function:
    """A FunctionProto: nodes that a node of its name stands for."""

    def __init__(self, data: memoryview, budget: Budget) -> None:
        self.name = self.domain = ""
        self.inputs: list[str] = []
        self.outputs: list[str] = []
        self.nodes: list[Node] = []
        self.defaults: dict[str, Attribute] = {}
        self.opsets: dict[str, int] = {}
        for number, _, value in fields(_message(data), budget):
            if number == 1:
                self.name = _text(value)
            elif number == 4:
                self.inputs.append(_text(value))
            elif number == 5:
                self.outputs.append(_text(value))
            elif number == 7:
                self.nodes.append(Node(value, budget, 1))
            elif number == 9:
                self.opsets.update([_opset(value, budget)])
            elif number == 10:
                self.domain = _text(value)
            elif number == 11:
                attribute = Attribute(value, budget, 1)
                self.defaults[attribute.name] = attribute


def _opset(data: Any, budget: Budget) -> tuple[str, int]:
    domain, version = "", 0
    for number, _, value in fields(_message(data), budget):
        if number == 1:
            domain = _text(value)
        elif number == 2:
            version = _int(value)
    return domain, version


class Model:
    """A ModelProto."""

    def __init__(self, data: memoryview, budget: Budget) -> None:
        self.version = 0
        self.opsets: dict[str, int] = {}
        self.graph: Graph | None = None
        self.functions: dict[tuple[str, str], Function] = {}
        for number, _, value in fields(data, budget):
            if number == 1:
                self.version = _int(value)
            elif number == 7:
                self.graph = Graph(value, budget)
            elif number == 8:
                self.opsets.update([_opset(value, budget)])
            elif number == 25:
                function = Function(value, budget)
                self.functions[function.domain, function.name] = function


def read_model(data: memoryview) -> Model:
    """Return the model of an ONNX file.

    Args:
        data: The bytes of the file.

    Raises:
        ValueError: They are no such file.
    """
    return Model(data, Budget(FIELDS))
