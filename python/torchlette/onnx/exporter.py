"""Programs as ONNX files."""

from __future__ import annotations

import ast
import os
import struct
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from torchlette import _C
from torchlette._runtime.errors import NotSupportedError
from torchlette._version import __version__
from torchlette.onnx.tensors import CODES, letter
from torchlette.onnx.wire import Writer

__all__ = ["OPSET", "RULES", "Exporter", "Step", "dtype_named", "graph_of", "rule", "write_program"]

Tensor = _C.Tensor

#: The version of ONNX's operators in files, and that of the format.
OPSET, IR_VERSION = 20, 9
#: What a file of protocol buffers may take.
LIMIT = (1 << 31) - (1 << 20)

#: By the operator's name without its overload: writes the nodes of a step and returns the name of its result, or names.
RULES: dict[str, Callable[[Exporter, Step], Any]] = {}


def rule(*names: str) -> Callable[[Any], Any]:
    """Return a decorator that puts a function in the table."""

    def add(function: Any) -> Any:
        RULES.update(dict.fromkeys(names, function))
        return function

    return add


def dtype_named(name: str) -> _C.dtype:
    """Return the dtype of a name in a program."""
    return getattr(_C, name)


class Step:
    """A step of a program: its operator, arguments and results."""

    def __init__(self, spec: dict[str, Any], first: int) -> None:
        self.op, self.args, self.first = spec["op"], spec["args"], first
        self.body: dict[str, Any] = spec.get("body") or {}
        self.in_place = spec.get("mode") == "in_place" or not spec["out"]
        self.at = spec.get("at", "")
        self.out = [(dtype_named(o["dtype"]), o["shape"]) for o in spec["out"]]

    def __getitem__(self, name: str) -> Any:
        return self.args[name]

    def get(self, name: str, usual: Any = None) -> Any:
        """Return an argument, or another value where there is none."""
        found = self.args.get(name)
        return usual if found is None else found

    @property
    def operand(self) -> str:
        """The first operand."""
        return self.args.get("self", self.args.get("input"))

    @property
    def dtype(self) -> _C.dtype:
        """The dtype of the first result."""
        return self.out[0][0]

    @property
    def shape(self) -> list[Any]:
        """The sizes of the first result: ints, and texts of expressions."""
        return self.out[0][1]


class Exporter:
    """Collects the nodes of a graph.

    Args:
        program: What :func:`torchlette.export.export` returned.
        name: Of its function.
        input_names: Names of the inputs in place of the program's.
    """

    def __init__(self, program: Any, name: str, input_names: list[str] | None) -> None:
        given = program.spec["functions"][name]
        labels = input_names or [v["name"] for v in given["inputs"]]
        inputs = [{**v, "name": label} for v, label in zip(given["inputs"], labels, strict=True)]
        self.function: dict[str, Any] = {**given, "inputs": inputs}
        self.nodes: list[Writer] = []
        self.tensors: list[Writer] = []
        self.count = 0
        self.names: dict[int, str] = {}
        self.types: dict[int, tuple[_C.dtype, list[Any]]] = {}
        self._constants: dict[Any, str] = {}
        self._dims: dict[str, str] = {}
        self._given = list(program.constants)
        self._listed = program.spec["constants"]
        # Of each view: the value of which it is one, its step, and its place among the step's results.
        self._views: dict[int, tuple[int, Step, int]] = {}
        self._made: dict[int, str] = {}
        #: The first value that may be written in place.
        self._own = len(inputs)
        taken = {v["name"] for v in self.function["inputs"]}
        for i, v in enumerate(self.function["inputs"]):
            self.names[i], self.types[i] = v["name"], (dtype_named(v["dtype"]), v["shape"])
        for k, entry in enumerate(self._listed):
            i = len(self.function["inputs"]) + k
            label = entry["name"] if entry["name"] not in taken else f"{entry['name']}#{k}"
            self.names[i], self.types[i] = label, (dtype_named(entry["dtype"]), entry["shape"])
        self._used: set[int] = set()
        taken |= set(self.names.values())
        #: Begins the names of values and constants that the program has no names for.
        self.prefix = "_"
        while any(name.startswith(self.prefix) for name in taken):
            self.prefix += "_"

    # Nodes ---------------------------------------------------------------------------------

    def fresh(self) -> str:
        """Return a new name."""
        self.count += 1
        return f"{self.prefix}{self.count - 1}"

    @contextmanager
    def nested(self, first: int) -> Iterator[None]:
        """Collect the nodes of a graph within a node. Values of that graph are unknown after it.

        Args:
            first: The number of its first value.
        """
        kept = self.nodes, self._own, self._dims, self.names, self.types, self._views, self._made
        self.nodes, self._own = [], first
        self._dims, self.names, self.types = dict(self._dims), dict(self.names), dict(self.types)
        self._views, self._made = dict(self._views), dict(self._made)
        try:
            yield
        finally:
            self.nodes, self._own, self._dims, self.names, self.types, self._views, self._made = kept

    def set_value(self, number: int, name: str, dtype: _C.dtype, shape: list[Any]) -> None:
        """Give a value its name, dtype and sizes.

        Args:
            number: The value's number in the program.
            name: Its name in the graph.
            dtype: Its dtype.
            shape: Its sizes.
        """
        self.names[number], self.types[number] = name, (dtype, shape)

    def node(self, kind: str, inputs: Sequence[str | None], outputs: int = 1, **attributes: Any) -> Any:
        """Add a node; return the name of its result, or a list of names.

        Args:
            kind: ONNX's operator.
            inputs: Names of values; None for one that is left out.
            outputs: The number of results.
            attributes: By name; None for one that is left out.
        """
        names = [self.fresh() for _ in range(outputs)]
        self.named_node(kind, inputs, names, **attributes)
        return names[0] if outputs == 1 else names

    def named_node(self, kind: str, inputs: Sequence[str | None], outputs: Sequence[str], **attributes: Any) -> None:
        """Add a node.

        Args:
            kind: ONNX's operator.
            inputs: Names of values; None for one that is left out.
            outputs: Names of the results.
            attributes: By name; None for one that is left out.
        """
        w = Writer()
        for name in inputs:
            w.add_text(1, name or "")
        for name in outputs:
            w.add_text(2, name)
        w.add_text(3, f"{kind}_{len(self.nodes)}")
        w.add_text(4, kind)
        for key, value in attributes.items():
            if value is not None:
                w.add_message(5, _attribute(key, value))
        self.nodes.append(w)

    def constant(self, values: Sequence[Any] | Any, dtype: _C.dtype) -> str:
        """Return the name of a constant: a number, or a vector of numbers."""
        shape = [len(values)] if isinstance(values, (list, tuple)) else []
        flat = list(values) if shape or isinstance(values, (list, tuple)) else [values]
        key = repr((flat, shape, dtype))
        if key not in self._constants:
            name = self._constants[key] = f"{self.prefix}constant_{len(self._constants)}"
            w = Writer()
            for n in shape:
                w.add_int(1, n)
            w.add_int(2, CODES[dtype])
            w.add_text(8, name)
            w.add_bytes(9, _bytes(flat, dtype))
            self.tensors.append(w)
        return self._constants[key]

    # Values --------------------------------------------------------------------------------

    def number_of(self, ref: Any) -> int | None:
        """Return the number of a value, None for another argument."""
        return int(ref[1:]) if isinstance(ref, str) and ref[:1] == "%" else None

    def type_of(self, ref: Any) -> _C.dtype:
        """Return the dtype of an argument."""
        i = self.number_of(ref)
        if i is not None:
            return self.types[i][0]
        if isinstance(ref, bool):
            return _C.bool
        integer = isinstance(ref, int) or isinstance(ref, str) and ref[:1] == "=" and not ref.startswith("=float:")
        return _C.int64 if integer else _C.float32

    def shape_of(self, ref: Any) -> list[Any]:
        """Return the sizes of a value."""
        i = self.number_of(ref)
        return [] if i is None else self.types[i][1]

    def rank(self, ref: Any) -> int:
        """Return the number of dims of a value."""
        return len(self.shape_of(ref))

    def made_by(self, ref: Any) -> str:
        """Return the operator that a value is the result of; none for an input or a constant."""
        i = self.number_of(ref)
        return "" if i is None else self._made.get(i, "")

    def value(self, ref: Any) -> str:
        """Return the name of a value."""
        i = self.number_of(ref)
        assert i is not None, ref
        self._used.add(i)
        return self.names[i]

    def cast(self, name: str, have: _C.dtype, want: _C.dtype) -> str:
        """Return the name of a value in another dtype.

        Args:
            name: Of the value.
            have: Its dtype.
            want: The other one.
        """
        return name if have is want else self.node("Cast", [name], to=CODES[want])

    def as_type(self, ref: Any, dtype: _C.dtype) -> str:
        """Return an argument, a value or a number, in a dtype."""
        if self.number_of(ref) is not None:
            return self.cast(self.value(ref), self.type_of(ref), dtype)
        if isinstance(ref, str) and ref[:1] == "=":
            is_float = ref.startswith("=float:")
            name = self.expression(ref.removeprefix("=").removeprefix("float:"), is_float)
            return self.cast(name, _C.float64 if is_float else _C.int64, dtype)
        return self.constant(_plain(ref, dtype), dtype)

    def size(self, size: Any) -> str:
        """Return a size as a number."""
        return (
            self.constant(size, _C.int64) if isinstance(size, int) else self.expression(size.removeprefix("="), False)
        )

    def sizes(self, sizes: Sequence[Any]) -> str:
        """Return sizes as a vector."""
        if all(isinstance(n, int) for n in sizes):
            return self.constant(list(sizes), _C.int64)
        one = self.constant([1], _C.int64)
        parts = [
            self.constant([n], _C.int64) if isinstance(n, int) else self.node("Reshape", [self.size(n), one])
            for n in sizes
        ]
        return self.node("Concat", parts, axis=0)

    def static(self, sizes: Any, what: str) -> list[int]:
        """Return sizes that must be known.

        Raises:
            NotImplementedError: One depends on a dim.
        """
        values = sizes if isinstance(sizes, list) else [sizes]
        if not all(isinstance(n, int) for n in values):
            raise NotSupportedError(f"onnx.export: {what} depends on a dim that is not fixed: {values}")
        return list(values)

    def expression(self, text: str, is_float: bool) -> str:
        """Return a number that is computed from the dims."""
        return self._term(ast.parse(text, mode="eval").body, is_float)

    def _term(self, term: Any, is_float: bool) -> str:
        kind = _C.float64 if is_float else _C.int64
        match term:
            case ast.Constant(value=v):
                return self.constant(float(v) if is_float else v, kind)
            case ast.Name(id=name):
                return self.cast(self._dim(name), _C.int64, kind)
            case ast.UnaryOp(op=ast.USub(), operand=inner):
                return self.node("Neg", [self._term(inner, is_float)])
            case ast.Call(args=[inner]):
                return self.node("Sqrt", [self._term(inner, is_float)])
            case ast.BinOp(left=left, op=op, right=right):
                a, b = self._term(left, is_float), self._term(right, is_float)
                names = {ast.Add: "Add", ast.Sub: "Sub", ast.Mult: "Mul", ast.Div: "Div", ast.Pow: "Pow"}
                if type(op) in names:
                    return self.node(names[type(op)], [a, b])
                if is_float:
                    return self.node("Floor", [self.node("Div", [a, b])])
                return self.node("Div", [self.node("Sub", [a, self.node("Mod", [a, b])]), b])
        raise NotSupportedError(f"onnx.export: a size of the kind {ast.dump(term)}")

    def _dim(self, name: str) -> str:
        if name not in self._dims:
            for v in self.function["inputs"]:
                if f"={name}" in v["shape"] or name in v["shape"]:
                    at = v["shape"].index(f"={name}" if f"={name}" in v["shape"] else name)
                    vector = self.node("Shape", [v["name"]], start=at, end=at + 1)
                    self._dims[name] = self.node("Squeeze", [vector, self.constant([0], _C.int64)])
                    break
        return self._dims[name]

    # Steps ---------------------------------------------------------------------------------

    def run(self) -> None:
        """Write the nodes of all steps."""
        self.steps(self.function["steps"], len(self.names))

    def steps(self, steps: Sequence[dict[str, Any]], first: int) -> None:
        """Write the nodes of steps, the results of which are numbered from ``first``."""
        for k, spec in enumerate(steps):
            step = Step(spec, first)
            base = step.op.partition(".")[0]
            for i, out in enumerate(step.out):
                self.types[first + i] = out
                self._made[first + i] = base
            write = RULES.get(step.op) or RULES.get(base)
            if step.in_place:
                self._in_place(step, base)
                continue
            if write is None:
                raise NotSupportedError(f"onnx.export: step {k}: the operator {step.op} has no form in ONNX here")
            found = write(self, step)
            operand = self.number_of(step.operand)
            for i, name in enumerate([found] if isinstance(found, str) else found):
                self.names[first + i] = name
                if base in VIEWS and operand is not None:
                    self._views[first + i] = operand, step, i
            first += len(step.out)

    def _in_place(self, step: Step, base: str) -> None:
        """Write through a value: what it is a view of gets new elements, and all views of that are taken anew."""
        target = self.number_of(step.operand)
        write = RULES.get(base) or RULES.get(base.removesuffix("_"))
        chain = [] if target is None else self._chain(target)
        root = chain[-1] if chain else -1
        copies = [v for v in chain[:-1] if self._views[v][1].op in ("reshape", "flatten") and self._views[v][0] != root]
        if write is None:
            raise NotSupportedError(f"onnx.export: the operator {step.op} has no form in ONNX here {step.at}")
        if root < self._own or copies:
            raise NotSupportedError(
                f"onnx.export: {step.op} writes in place to an input, to a value from outside of a loop's body, or "
                f"through a reshaped view: use the operator that returns its result {step.at}"
            )
        step.out = [self.types[target]]
        value = write(self, step)
        if len(chain) > 1:
            value = self._written(chain, value)
        self.names[root] = value
        for view in sorted(self._views):
            if self._chain(view)[-1] == root:
                self.names[view] = self._view(view)

    def _chain(self, i: int) -> list[int]:
        """Return a value, what it is a view of, and so on."""
        found = [i]
        while found[-1] in self._views:
            found.append(self._views[found[-1]][0])
        return found

    def _view(self, i: int) -> str:
        _, step, place = self._views[i]
        found = (RULES.get(step.op) or RULES[step.op.partition(".")[0]])(self, step)
        return found if isinstance(found, str) else found[place]

    def _written(self, chain: list[int], value: str) -> str:
        """Return the base of a chain of views with other elements at the places of the first view."""
        root = chain[-1]
        dtype, shape = self.types[root]
        flat, zero, one = self.constant([-1], _C.int64), self.constant(0, _C.int64), self.constant(1, _C.int64)
        count = self.node("ReduceProd", [self.sizes(shape), None], keepdims=0) if shape else one
        kept = {i: self.names[i] for i in chain}
        base, self.types[root] = kept[root], (_C.int64, shape)
        self.names[root] = self.node("Reshape", [self.node("Range", [zero, count, one]), self.sizes(shape)])
        for view in reversed(chain[:-1]):
            self.names[view] = self._view(view)
        places = self.node("Reshape", [self.names[chain[0]], flat])
        self.names.update(kept)
        self.types[root] = dtype, shape
        rows = [self.node("Reshape", [base, flat]), places, self.node("Reshape", [value, flat])]
        return self.node("Reshape", [self.node("ScatterElements", rows, axis=0), self.sizes(shape)])


#: Operators whose results may be views of their first operand.
VIEWS = frozenset(
    "_index alias as_strided chunk detach diagonal expand flatten movedim narrow permute reshape select slice split "
    "squeeze split_with_sizes swapaxes t transpose unbind unflatten unfold unsqueeze view".split()
)


def _plain(value: Any, dtype: _C.dtype) -> Any:
    if isinstance(value, str):
        value = float(value)
    if dtype.is_floating_point:
        return float(value)
    return bool(value) if dtype is _C.bool else int(value)


def _bytes(values: Sequence[Any], dtype: _C.dtype) -> bytes:
    if dtype is _C.float16:
        return struct.pack(f"<{len(values)}e", *values)
    if dtype is _C.bfloat16:
        return b"".join(struct.pack("<f", v)[2:] for v in values)
    if dtype is _C.bool:
        return bytes(map(bool, values))
    return array(letter(dtype), values).tobytes()


def graph_of(
    nodes: Sequence[Writer],
    inputs: Sequence[tuple[str, _C.dtype, list[Any]]],
    outputs: Sequence[tuple[str, _C.dtype, list[Any]]],
) -> Writer:
    """Return a graph within a node.

    Args:
        nodes: Its nodes.
        inputs: The names, dtypes and sizes of what it gets.
        outputs: The same of what it gives.
    """
    graph = Writer()
    for node in nodes:
        graph.add_message(1, node)
    graph.add_text(2, "body")
    for number, values in ((11, inputs), (12, outputs)):
        for value in values:
            graph.add_message(number, _value_info(*value))
    return graph


def _attribute(name: str, value: Any) -> Writer:
    w = Writer()
    w.add_text(1, name)
    if isinstance(value, Writer):
        w.add_message(6, value)
        w.add_int(20, 5)
        return w
    items = value if isinstance(value, (list, tuple)) else [value]
    first = items[0] if items else 0
    several = isinstance(value, (list, tuple))
    if isinstance(first, str):
        kind, number, add = (8, 9, w.add_text) if several else (3, 4, w.add_text)
    elif isinstance(first, float):
        kind, number, add = (6, 7, w.add_float) if several else (1, 2, w.add_float)
    else:
        kind, number, add = (7, 8, w.add_int) if several else (2, 3, w.add_int)
    for item in items:
        add(number, int(item) if isinstance(item, bool) else item)
    w.add_int(20, kind)
    return w


def _value_info(name: str, dtype: _C.dtype, shape: Sequence[Any]) -> Writer:
    dims = Writer()
    for n in shape:
        dim = Writer()
        if isinstance(n, int):
            dim.add_int(1, n)
        elif n.removeprefix("=").isidentifier():
            dim.add_text(2, n.removeprefix("="))
        dims.add_message(1, dim)
    tensor, kind, info = Writer(), Writer(), Writer()
    tensor.add_int(1, CODES[dtype])
    tensor.add_message(2, dims)
    kind.add_message(1, tensor)
    info.add_text(1, name)
    info.add_message(2, kind)
    return info


def write_program(
    program: Any,
    path: str | os.PathLike[str],
    function: str = "forward",
    input_names: list[str] | None = None,
    output_names: list[str] | None = None,
) -> None:
    """Write a program as an ONNX file.

    Args:
        program: A :class:`torchlette.export.ExportedProgram`.
        path: Of the file.
        function: The function of the program.
        input_names: Names of the inputs in place of the program's.
        output_names: Names of the outputs in place of the program's.

    Raises:
        NotImplementedError: A step has no form in ONNX.
        ValueError: The tensors take more than 2 GB.
    """
    from torchlette.onnx import export_rules  # noqa: F401

    x = Exporter(program, function, input_names)
    if x.function.get("state"):
        names = ", ".join(x.function["state"][:5])
        raise NotSupportedError(f"onnx.export: the program writes to {names}: export the module in evaluation mode")
    x.run()
    graph = Writer()
    outputs = []
    for k, out in enumerate(x.function["outputs"]):
        name = output_names[k] if output_names else out["name"]
        x.named_node("Identity", [x.value(out["value"])], [name])
        outputs.append(_value_info(name, *x.types[int(out["value"][1:])]))
    for node in x.nodes:
        graph.add_message(1, node)
    graph.add_text(2, "torchlette")
    inputs = len(x.function["inputs"])
    total = 0
    for k, t in enumerate(program.constants):
        if inputs + k in x._used:
            w = Writer()
            for n in t.shape:
                w.add_int(1, n)
            w.add_int(2, CODES[t.dtype])
            w.add_text(8, x.names[inputs + k] if program.spec["constants"][k]["name"] else "")
            data = _C._tobytes(t.detach())
            total += len(data)
            if total > LIMIT:
                raise ValueError("onnx.export: the tensors take more than the 2 GB that a file may have")
            w.add_bytes(9, data)
            graph.add_message(5, w)
    for w in x.tensors:
        graph.add_message(5, w)
    for v in x.function["inputs"]:
        graph.add_message(11, _value_info(v["name"], dtype_named(v["dtype"]), v["shape"]))
    for info in outputs:
        graph.add_message(12, info)
    model, opset = Writer(), Writer()
    opset.add_text(1, "")
    opset.add_int(2, OPSET)
    model.add_int(1, IR_VERSION)
    model.add_text(2, "torchlette")
    model.add_text(3, __version__)
    model.add_message(7, graph)
    model.add_message(8, opset)
    with open(path, "wb") as f:
        f.write(model.data())
