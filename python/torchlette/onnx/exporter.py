"""Programs as ONNX files."""

from __future__ import annotations

import ast
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from torchlette import _C
from torchlette._runtime.errors import NotSupportedError
from torchlette._version import __version__
from torchlette.onnx.messages import PARTS, attribute, bytes_of, graph_of, value_info
from torchlette.onnx.tensors import CODES
from torchlette.onnx.wire import Writer

__all__ = ["OPSET", "RULES", "VIEWS", "Exporter", "Step", "dtype_named", "graph_of", "rule", "write_program"]

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


#: What a graph within a node has of its own: the nodes, the first value, and copies of what is known outside.
_SCOPE = ("nodes", "_own", "_dims", "names", "types", "views", "_made", "known_parts")


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
        self.views: dict[int, tuple[int, Step, int]] = {}
        # Of each complex value: the names of its real and its imaginary part.
        self.known_parts: dict[int, list[str]] = {}
        #: Which part of complex values rules write; None: rules are of real values.
        self.part: int | None = None
        #: Complex values whose parts are real values for now.
        self.split: frozenset[int] = frozenset()
        self._made: dict[int, str] = {}
        #: Whether a result of the step has no elements: a size of 0 is none that is copied.
        self.empty = False
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
        kept = {name: self.__dict__[name] for name in _SCOPE}
        self.nodes, self._own = [], first
        for name in _SCOPE[2:]:
            self.__dict__[name] = dict(kept[name])
        try:
            yield
        finally:
            self.__dict__.update(kept)

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
                w.add_message(5, attribute(key, value))
        if kind == "Reshape" and self.empty and "allowzero" not in attributes:
            w.add_message(5, attribute("allowzero", 1))
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
            w.add_bytes(9, bytes_of(flat, dtype))
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
            dtype = self.types[i][0]
            return dtype if self.part is None else PARTS.get(dtype, dtype)
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
        if self.types[i][0] not in PARTS:
            return self.names[i]
        if self.part is None:
            raise NotSupportedError("onnx.export: complex numbers where ONNX takes real ones")
        return self.parts(ref)[self.part]

    def is_complex(self, ref: Any) -> bool:
        """Return whether an argument, or one of its items, is complex."""
        if isinstance(ref, (list, tuple)):
            return any(map(self.is_complex, ref))
        i = self.number_of(ref)
        return i is not None and self.types[i][0] in PARTS or isinstance(ref, str) and ref.startswith("complex:")

    def parts(self, ref: Any) -> list[str]:
        """Return the names of the real and the imaginary part of a complex value."""
        i = self.number_of(ref)
        assert i is not None, ref
        self._used.add(i)
        if i not in self.known_parts:
            pairs = self.names[i]
            self.known_parts[i] = [self.node("Gather", [pairs, self.constant(k, _C.int64)], axis=-1) for k in (0, 1)]
        return self.known_parts[i]

    def cast(self, name: str, have: _C.dtype, want: _C.dtype) -> str:
        """Return the name of a value in another dtype.

        Args:
            name: Of the value.
            have: Its dtype.
            want: The other one.
        """
        return name if have is want else self.node("Cast", [name], to=CODES[want])

    def as_type(self, ref: Any, dtype: _C.dtype) -> str:
        """Return an argument, a value or a number, in a dtype; of the part that is written, where it is complex."""
        if isinstance(ref, str) and ref.startswith("complex:"):
            ref = ref.removeprefix("complex:").split(",")[self.part or 0]
        elif (
            self.part == 1
            and dtype.is_floating_point
            and not (self.is_complex(ref) or self.number_of(ref) in self.split)
        ):
            shape = self.sizes(self.shape_of(ref))
            return self.node("Expand", [self.constant(0.0, dtype), shape])
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
        from torchlette.onnx.export_complex import write_complex

        for k, spec in enumerate(steps):
            step = Step(spec, first)
            base = step.op.partition(".")[0]
            for i, out in enumerate(step.out):
                self.types[first + i] = out
                self._made[first + i] = base
            if any(map(self.is_complex, step.args.values())) or any(dtype in PARTS for dtype, _ in step.out):
                first += write_complex(self, step, base)
                continue
            write = RULES.get(step.op) or RULES.get(base)
            if step.in_place:
                self.write_in_place(step, base)
                continue
            if write is None:
                raise NotSupportedError(f"onnx.export: step {k}: the operator {step.op} has no form in ONNX here")
            found = self.apply(write, step)
            operand = self.number_of(step.operand)
            for i, name in enumerate([found] if isinstance(found, str) else found):
                self.names[first + i] = name
                if base in VIEWS and operand is not None:
                    self.views[first + i] = operand, step, i
            first += len(step.out)

    def apply(self, write: Callable[[Exporter, Step], Any], step: Step) -> Any:
        """Return what a rule writes for a step. A number along a dim is a vector of one element, as ONNX wants it."""
        self.empty = any(0 in shape for _, shape in step.out)
        values = [step.args[name] for name in ("self", "input", "x1", "A") if name in step.args]
        operand = self.number_of(values[0]) if values else None
        if operand is None or self.types[operand][1] or not _along_a_dim(step):
            return write(self, step)
        numbers = {i for i in map(self.number_of, step.args.values()) if i is not None and not self.types[i][1]}
        kept = self.names, self.types, self.known_parts
        self.names, self.types, self.known_parts = (dict(table) for table in kept)
        one = self.constant([1], _C.int64)
        for i in numbers:
            self._used.add(i)
            dtype = self.types[i][0]
            if dtype in PARTS:
                self.known_parts[i] = [self.node("Reshape", [part, one]) for part in self.parts(f"%{i}")]
            else:
                self.names[i] = self.node("Reshape", [self.names[i], one])
            self.types[i] = dtype, [1]
        out, step.out = step.out, [(dtype, shape or [1]) for dtype, shape in step.out]
        try:
            found = write(self, step)
        finally:
            step.out = out
            self.names, self.types, self.known_parts = kept
        made = [found] if isinstance(found, str) else found
        shaped = [self.node("Reshape", [v, self.sizes(shape)]) for v, (_, shape) in zip(made, step.out, strict=True)]
        return shaped[0] if isinstance(found, str) else shaped

    def write_in_place(self, step: Step, base: str) -> None:
        """Write through a value: what it is a view of gets new elements, and all views of that are taken anew."""
        target = self.number_of(step.operand)
        write = RULES.get(base) or RULES.get(base.removesuffix("_"))
        chain = [] if target is None else self.chain(target)
        root = chain[-1] if chain else -1
        copies = [v for v in chain[:-1] if self.views[v][1].op in ("reshape", "flatten") and self.views[v][0] != root]
        if write is None:
            raise NotSupportedError(f"onnx.export: the operator {step.op} has no form in ONNX here {step.at}")
        if root < self._own or copies or self.made_by(f"%{root}") in _SHARED:
            raise NotSupportedError(
                f"onnx.export: {step.op} writes in place to an input, to a value from outside of a loop's body, or "
                f"through a reshaped view or a part of complex numbers: use the operator that returns its result "
                f"{step.at}"
            )
        step.out = [self.types[target]]
        value = self.apply(write, step)
        if len(chain) > 1:
            value = self._written(chain, value)
        self.names[root] = value
        for view in sorted(self.views):
            if self.chain(view)[-1] == root:
                self.names[view] = self._view(view)

    def chain(self, i: int) -> list[int]:
        """Return a value, what it is a view of, and so on."""
        found = [i]
        while found[-1] in self.views:
            found.append(self.views[found[-1]][0])
        return found

    def _view(self, i: int) -> str:
        _, step, place = self.views[i]
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


#: Operators whose results have the memory of their operand, in another dtype.
_SHARED = frozenset(("view_as_real", "view_as_complex", "real", "imag", "conj", "view_dtype"))
#: Operators whose results may be views of their first operand.
VIEWS = frozenset(
    "_index alias as_strided chunk detach diagonal expand flatten movedim narrow permute reshape select slice split "
    "squeeze split_with_sizes swapaxes t transpose unbind unflatten unfold unsqueeze view".split()
)


def _along_a_dim(step: Step) -> bool:
    """Return whether a step of a number goes along a dim, which a number has in PyTorch."""
    base = step.op.partition(".")[0]
    if base in ("unsqueeze", "stack", "squeeze"):
        return False
    return step.get("dim", step.get("dimension")) not in (None, []) or base in (
        "var",
        "std",
        "var_mean",
        "std_mean",
        "flip",
    )


def _plain(value: Any, dtype: _C.dtype) -> Any:
    if isinstance(value, str):
        value = float(value)
    if dtype.is_floating_point:
        return float(value)
    return bool(value) if dtype is _C.bool else int(value)


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
        raise NotSupportedError(
            f"onnx.export: the program writes to {names}, which a file cannot: export the module in evaluation mode, "
            "or take a cache as an argument and return it"
        )
    x.run()
    graph = Writer()
    outputs = []
    for k, out in enumerate(x.function["outputs"]):
        name = output_names[k] if output_names else out["name"]
        dtype, shape = x.types[int(out["value"][1:])]
        if dtype in PARTS:
            last = x.constant([-1], _C.int64)
            x.named_node("Concat", [x.node("Unsqueeze", [v, last]) for v in x.parts(out["value"])], [name], axis=-1)
        else:
            x.named_node("Identity", [x.value(out["value"])], [name])
        outputs.append(value_info(name, dtype, shape))
    for node in x.nodes:
        graph.add_message(1, node)
    graph.add_text(2, "torchlette")
    inputs = len(x.function["inputs"])
    total = 0
    for k, t in enumerate(program.constants):
        if inputs + k in x._used:
            w = Writer()
            real = _C.view_as_real(t.detach()) if t.dtype in PARTS else t.detach()
            for n in real.shape:
                w.add_int(1, n)
            w.add_int(2, CODES[real.dtype])
            w.add_text(8, x.names[inputs + k] if program.spec["constants"][k]["name"] else "")
            data = _C._tobytes(real)
            total += len(data)
            if total > LIMIT:
                raise ValueError("onnx.export: the tensors take more than the 2 GB that a file may have")
            w.add_bytes(9, data)
            graph.add_message(5, w)
    for w in x.tensors:
        graph.add_message(5, w)
    for v in x.function["inputs"]:
        graph.add_message(11, value_info(v["name"], dtype_named(v["dtype"]), v["shape"]))
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
