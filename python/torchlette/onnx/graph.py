"""The graph of an ONNX file as steps, and the module that runs them."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from torchlette import _C
from torchlette._import.files import damaged, explained, unsupported
from torchlette._import.module import Ref, Step, check_order, place, run_steps, with_last_uses
from torchlette._import.recording import is_recording, recording
from torchlette.nn.modules.module import Module
from torchlette.onnx import operators as _operators
from torchlette.onnx.control import CONTROL
from torchlette.onnx.host import HOST, TooLarge
from torchlette.onnx.model import Attribute, Function, Graph, Model, Node, TensorData
from torchlette.onnx.registry import OPERATORS, Operator, check_call
from torchlette.onnx.spans import SPANS, Span
from torchlette.onnx.tensors import Files, Host, dtype_of, host_or_tensor

__all__ = ["Body", "OnnxModule", "as_tensor"]

Tensor = _C.Tensor

DEVICE = Ref("#device")
#: Nodes of a model with its functions written out.
NODES, DEPTH = 60_000, 24
#: The versions of ONNX's operators that are read; the tables of the documentation are for 13 to 23.
OPSETS = range(13, 29)
_DOMAINS = ("", "ai.onnx")


def as_tensor(value: Any, device: Any) -> Any:
    """Return a value with tensors in place of Python numbers."""
    if isinstance(value, Host):
        return value.tensor(device)
    return [as_tensor(item, device) for item in value] if isinstance(value, list) else value


class Context:
    """What the nodes of a model share while its steps are made."""

    def __init__(self, model: Model, files: Files, module: Module) -> None:
        self.functions, self.files, self.module = model.functions, files, module
        self.opsets = model.opsets
        self.left = NODES
        self.missing: set[str] = set()
        self.constants = 0
        #: Name of a value of the module -> where it is.
        self.places: dict[str, tuple[Module, str]] = {}

    def constant(self, data: TensorData) -> tuple[str, Host | None]:
        """Keep a tensor of a node; return its name and its numbers if they are few."""
        tensor, host = host_or_tensor(data, self.files)
        name = f"#constant{self.constants}"
        self.constants += 1
        self.places[name] = place(self.module, name[1:], tensor, parameter=False, persistent=False)
        return name, host


class Body:
    """A graph: its inputs, steps, results, and the names of other graphs' values that it reads.

    Args:
        context: Of the model.
        graph: The messages.
        known: Python's numbers of values of the graphs around this one.
        attributes: Of the node that calls a function, by name.
        depth: How deep the graph is nested.
    """

    def __init__(
        self,
        context: Context,
        graph: Graph | Function,
        known: dict[str, Host],
        attributes: dict[str, Any] | None = None,
        depth: int = 0,
    ) -> None:
        if depth > DEPTH:
            raise damaged(f"graphs and functions are nested deeper than {DEPTH}")
        self.context, self.attributes, self.depth = context, attributes, depth
        if isinstance(graph, Graph):
            self.inputs, self.results = [i.name for i in graph.inputs], [o.name for o in graph.outputs]
            opset = context.opsets.get("", context.opsets.get("ai.onnx", 0))
            tensors = graph.initializers
        else:
            self.inputs, self.results = list(graph.inputs), list(graph.outputs)
            opset = graph.opsets.get("", context.opsets.get("", 0))
            tensors = []
        self.opset = opset
        self.known = {name: host for name, host in known.items() if name not in self.inputs}
        # Names of this graph for tensors of the file.
        self.aliases: dict[str, str] = {}
        for tensor in tensors:
            self._initializer(tensor)
        context.left -= len(graph.nodes)
        if context.left < 0:
            raise damaged(f"the model has more than {NODES} nodes")
        steps = [self._step(node) for node in graph.nodes]
        made = {name for step in steps for name in _results(step)}
        given = {*self.inputs, *self.aliases, *made}
        reads = [name for step in steps for name in _reads(step)] + self.results
        #: Names of values from outside.
        self.outer = sorted({name for name in reads if name not in given and not name.startswith("#")})
        kept = [name for name in self.results if name]
        check_order(steps, [DEVICE, "#env", *self.inputs, *self.aliases, *self.outer, *context.places], kept)
        self.steps = with_last_uses(
            steps, [*kept, *self.inputs, *self.aliases, *self.outer, DEVICE, "#env", *context.places]
        )

    def _initializer(self, data: TensorData) -> None:
        if not data.name or data.name in self.aliases:
            raise damaged(f"two tensors have the name {data.name!r}")
        tensor, host = host_or_tensor(data, self.context.files)
        key = f"#tensor:{data.name}" if self.depth == 0 else f"#tensor{self.context.constants}:{data.name}"
        self.context.constants += 1
        is_float = tensor.is_floating_point()
        self.context.places[key] = place(self.context.module, data.name, tensor, parameter=is_float)
        self.aliases[data.name] = key
        self.known.pop(data.name, None)
        if host is not None:
            self.known[data.name] = host

    def _step(self, node: Node) -> Step:
        """Return the step of a node."""
        name = node.name or (node.outputs[0] if node.outputs else node.op)
        results = [Ref(n) if n else None for n in node.outputs]
        inputs = [Ref(n) if n else None for n in node.inputs]
        while inputs and inputs[-1] is None:
            inputs.pop()
        for n in node.outputs:
            self.known.pop(n, None)
        function = self.context.functions.get((node.domain, node.op))
        if function is not None:
            return self._function(node, function, name, inputs, results)
        if node.domain not in _DOMAINS:
            self.context.missing.add(f"{node.domain}.{node.op}")
            return Step(name, node.op, _never, (), {}, results)
        if node.op == "Constant":
            return self._constant(node, name, results)
        attributes = {key: self._attribute(attribute) for key, attribute in node.attributes.items()}
        attributes = {key: value for key, value in attributes.items() if value is not None}
        if node.op in CONTROL:
            return self._control(node, name, inputs, results, attributes)
        entry = OPERATORS.get(node.op)
        if entry is None:
            self.context.missing.add(node.op)
            return Step(name, node.op, _never, (), {}, results)
        check_call(node.op, entry, len(inputs), attributes)
        known = [self.known.get(i) if i is not None else None for i in inputs]
        call = _Call(node.op, entry, attributes, known, self.opset, len(results))
        return Step(name, node.op, call, (DEVICE, *inputs), {}, results)

    def _attribute(self, attribute: Attribute) -> Any:
        """Return the value of an attribute: tensors as Host or Tensor, graphs as bodies."""
        if attribute.refers:
            return (self.attributes or {}).get(attribute.refers)
        value = attribute.value()
        if isinstance(value, TensorData):
            tensor, host = host_or_tensor(value, self.context.files)
            return tensor if host is None else host
        if isinstance(value, Graph):
            return Body(self.context, value, self.known, self.attributes, self.depth + 1)
        if isinstance(value, list) and value and isinstance(value[0], (TensorData, Graph)):
            raise unsupported(f"the attribute {attribute.name!r} is a list of tensors or graphs")
        return value

    def _constant(self, node: Node, name: str, results: list[Any]) -> Step:
        if len(node.attributes) != 1 or len(results) != 1:
            raise damaged(f"the constant {name!r} has {len(node.attributes)} values")
        ((key, attribute),) = node.attributes.items()
        if attribute.refers or key != "value":
            value = self._attribute(attribute)
            kinds = {
                "value_int": _C.int64,
                "value_ints": _C.int64,
                "value_float": _C.float32,
                "value_floats": _C.float32,
            }
            if key in kinds:
                values = value if isinstance(value, list) else [value]
                host = Host(values, [len(values)] if isinstance(value, list) else [], kinds[key])
            elif isinstance(value, Host):
                host = value
            else:
                raise unsupported(f"the constant {name!r} has a value of the kind {key}")
            self.known[node.outputs[0]] = host
            return Step(name, "Constant", lambda: [host], (), {}, results)
        data = attribute.value()
        if not isinstance(data, TensorData):
            raise damaged(f"the constant {name!r} is no tensor")
        key, found = self.context.constant(data)
        if found is not None:
            if found.dtype.is_floating_point and len(found.values) == 1:
                # A number, of which sizes are computed: no initializer, so that no optimizer changes it.
                return Step(name, "Constant", lambda: [found], (), {}, results)
            self.known[node.outputs[0]] = found
        return Step(name, "Constant", lambda value: [value], (Ref(key),), {}, results)

    def _control(self, node: Node, name: str, inputs: Any, results: Any, attributes: dict[str, Any]) -> Step:
        bodies = [value for value in attributes.values() if isinstance(value, Body)]
        outer = sorted({n for body in bodies for n in body.outer})
        known = [self.known.get(i) if i is not None else None for i in inputs]
        call = functools.partial(CONTROL[node.op], attributes, known, outer, len(results))
        return Step(name, node.op, call, (DEVICE, [Ref(n) for n in outer], self._env(), *inputs), {}, results)

    def _env(self) -> Ref:
        return Ref("#env")

    def _function(self, node: Node, function: Function, name: str, inputs: Any, results: Any) -> Step:
        attributes = {key: self._attribute(a) for key, a in {**function.defaults, **node.attributes}.items()}
        body = Body(self.context, function, {}, attributes, self.depth + 1)
        if len(inputs) > len(body.inputs) or len(results) > len(body.results) or body.outer:
            raise damaged(f"the node {name!r} does not fit its function {function.name!r}")

        def call(device: Any, env: dict[str, Any], *values: Any) -> list[Any]:
            given = [*values, *[None] * (len(body.inputs) - len(values))]
            return body.run(device, env, given)[: len(results)]

        return Step(name, node.op, call, (DEVICE, self._env(), *inputs), {}, results)

    def trips(self, device: Any, outer: dict[str, Any], carry: Sequence[Any], most: int) -> int | None:
        """Return how often the body of a loop runs, if Python's numbers decide it: most + 1 if more often than most.

        Only the steps that the condition needs run, from the given numbers of what is carried.

        Args:
            device: On which tensors are made.
            outer: Values of the graphs around this one, and the module's tensors.
            carry: First values of what is carried.
            most: Iterations that are tried.
        """
        needed, steps = {self.results[0]}, list[Step]()
        places = {name: i for i, name in enumerate(self.inputs)}
        count = -1
        while count < len(needed):
            count = len(needed)
            steps = []
            for step in reversed(self.steps):
                if needed & set(_results(step)):
                    steps.insert(0, step._replace(dead=()))
                    needed.update(_reads(step))
            needed.update(self.results[i - 1] for name, i in places.items() if name in needed and i > 1)
        given: list[Any] = [None, Host([True], [], _C.bool), *carry]
        if any(name in needed and i > 1 and not isinstance(given[i], Host) for name, i in places.items()):
            return None
        for n in range(most):
            given[0] = Host([n], [], _C.int64)
            env = self._env_of(device, outer, given)
            for step in steps:
                run_steps([step], env)
                if any(not isinstance(env[name], Host) for name in _results(step)):
                    return None
            more = env[self.results[0]]
            more = more if isinstance(more, Host) else self.known.get(self.results[0])
            if more is None or is_recording() and more.moving:
                return None
            given[1:] = [more, *(env.get(name) for name in self.results[1 : len(given) - 1])]
            if not more.values[0]:
                return n + 1
        return most + 1

    def run(self, device: Any, outer: dict[str, Any], values: Sequence[Any]) -> list[Any]:
        """Return the results of the graph.

        Args:
            device: On which tensors are made.
            outer: Values of the graphs around this one, and the module's tensors.
            values: Of the inputs.
        """
        if len(values) != len(self.inputs):
            raise ValueError(f"a graph takes {len(self.inputs)} values, got {len(values)}")
        env = self._env_of(device, outer, values)
        run_steps(self.steps, env)
        found = [env[name] if name else None for name in self.results]
        env.clear()
        return found

    def _env_of(self, device: Any, outer: dict[str, Any], values: Sequence[Any]) -> dict[str, Any]:
        """Return the values that the steps begin with."""
        env = {name: outer[name] for name in self.outer}
        tensors = outer["#tensors"]
        env.update({name: tensors[key] for name, key in self.aliases.items()})
        env.update(zip(self.inputs, values, strict=True))
        env.update({"#device": device, "#tensors": tensors, **tensors})
        env["#env"] = env
        return env


def _results(step: Step) -> Iterable[str]:
    return [n for n in step.results or [] if n is not None]


def _reads(step: Step) -> Iterable[str]:
    for arg in step.args:
        if type(arg) is Ref:
            yield arg
        elif type(arg) is list:
            yield from arg


def _never(*args: Any) -> None:
    raise AssertionError("load has refused the graph")


class _Call:
    """Calls an operator: on Python's numbers where all inputs are such, else on tensors."""

    def __init__(
        self, name: str, entry: Operator, attributes: dict[str, Any], known: list[Host | None], opset: int, outputs: int
    ) -> None:
        self.entry, self.attributes, self.known = entry, attributes, known
        self.host: Callable[..., Any] | None = HOST.get(name)
        self.host_attributes = {**attributes, "n_outputs": outputs} if name == "Split" else attributes
        self.extra: dict[str, Any] = {}
        if "n_outputs" in entry.wants:
            self.extra["n_outputs"] = outputs
        if "opset" in entry.wants:
            self.extra["opset"] = opset
        self.outputs = outputs
        self.reads_floats = name == "Range"
        self.takes_spans = name in SPANS

    def __call__(self, device: Any, *values: Any) -> Any:
        if self.host is not None and (found := self._on_host(values)) is not None:
            return found
        entry, args = self.entry, []
        for i, value in enumerate(values):
            if i in entry.host:
                args.append(self._numbers(i, value))
            elif i in entry.raw or -1 in entry.raw:
                args.append(self._as_host(i, value))
            elif isinstance(value, Host):
                args.append(value.tensor(device))
            elif isinstance(value, Span) and not self.takes_spans:
                args.append(value.tensor())
            else:
                args.append(value)
        extra = {**self.extra, "device": device} if "device" in entry.wants else self.extra
        found = entry.call(*args, **self.attributes, **extra)
        if not isinstance(found, (list, tuple)):
            return [found]
        if len(found) < self.outputs:
            raise ValueError(f"{self.outputs} results are wanted, there are {len(found)}")
        return list(found)[: self.outputs]

    def _on_host(self, values: Sequence[Any]) -> list[Any] | None:
        hosts = [v if isinstance(v, Host) else k for v, k in zip(values, self.known, strict=True)]
        if not hosts or any(h is None and v is not None for h, v in zip(hosts, values, strict=True)):
            return None
        # Known floats of tensors may be parameters, which stay tensors, except in arithmetic with sizes.
        tensors = [k for v, k in zip(values, self.known, strict=True) if k is not None and not isinstance(v, Host)]
        sizes = any(isinstance(v, Host) and (v.moving or not v.dtype.is_floating_point) for v in values)
        if not sizes and any(k.dtype.is_floating_point for k in tensors):
            return None
        try:
            found = self.host(*hosts, **self.host_attributes)  # type: ignore[misc]
        except TooLarge:
            return None
        except (ArithmeticError, ValueError):
            if any(h is not None and h.dtype.is_floating_point for h in hosts):
                return None  # infinities and NaN are results of tensors
            raise
        return found if isinstance(found, list) else [found]

    def _as_host(self, i: int, value: Any) -> Any:
        """Return a value as Python's numbers where they are known; floats may be parameters, which stay tensors."""
        known = self.known[i]
        if known is None or not isinstance(value, Tensor) or known.dtype.is_floating_point and not self.reads_floats:
            return value
        return known

    def _numbers(self, i: int, value: Any) -> Any:
        """Return the numbers of an input: a list, or a number of a tensor without dims."""
        if value is None:
            return None
        if not isinstance(value, Host):
            known = self.known[i]
            if known is None:
                return value.tolist()
            value = known
        return value.nested()


class OnnxModule(Module):
    """The module of an ONNX file: its tensors under their names, floats as parameters, and the graph.

    Args:
        model: The messages.
        files: Reads tensors that are in other files.
    """

    def __init__(self, model: Model, files: Files) -> None:
        """Make the steps, and check that all operators exist."""
        super().__init__()
        graph = model.graph
        if graph is None:
            raise damaged("it has no graph")
        opset = model.opsets.get("", model.opsets.get("ai.onnx"))
        if opset is None or opset not in OPSETS:
            raise unsupported(f"the version of ONNX's operators is {opset}, want 13 to 23")
        context = Context(model, files, self)
        initial = {tensor.name for tensor in graph.initializers}
        inputs = [info for info in graph.inputs if info.name not in initial]
        graph.inputs = inputs
        body = Body(context, graph, {})
        if context.missing:
            raise unsupported(f"operators that are not supported: {', '.join(sorted(context.missing))}")
        if body.outer:
            raise damaged(f"the values {body.outer[:5]} are read, and no node gives them")
        self._body, self._places = body, context.places
        self.inputs, self.outputs = inputs, graph.outputs
        self.output_names = list(body.results)
        #: Values of inputs, by their places, that are constants of the program that is recorded.
        self._fixed: dict[int, Host] = {}

    def input_specs(self) -> Iterable[tuple[str, _C.dtype, list[int | str]]]:
        """Give the name, dtype and sizes of each input; a str is the name of a dim."""
        for info in self.inputs:
            if info.kind != "tensor":
                raise unsupported(f"the input {info.name!r} is a {info.kind}")
            if info.shape is None:
                raise unsupported(f"the file does not tell the number of dims of the input {info.name!r}")
            sizes = [f"{info.name}_{d}" if n is None else n for d, n in enumerate(info.shape)]
            yield info.name, dtype_of(info.dtype), sizes

    def output_specs(self) -> Iterable[tuple[str, _C.dtype, list[int | str | None]]]:
        """Give the name, dtype and declared sizes of each output."""
        for info in self.outputs:
            yield info.name, dtype_of(info.dtype), list(info.shape or ())

    def forward(self, *values: Tensor) -> list[Any]:
        """Return the list of results for the inputs in order; results that are no tensors are as they are."""
        tensors = {key: getattr(owner, leaf) for key, (owner, leaf) in self._places.items()}
        if len(values) + len(self._fixed) != len(self.inputs):
            raise ValueError(f"the graph takes {len(self.inputs) - len(self._fixed)} values, got {len(values)}")
        given = iter(values)
        inputs = [self._fixed[k] if k in self._fixed else next(given) for k in range(len(self.inputs))]
        device = next((v.device for v in (*values, *tensors.values()) if isinstance(v, Tensor)), _C.device("cpu"))
        found = self._body.run(device, {"#tensors": tensors}, inputs)
        return [as_tensor(value, device) for value in found]

    def program(self, fixed: Mapping[str, bool | int | float] | None = None) -> Any:
        """Record the graph as an :class:`torchlette.export.ExportedProgram`.

        Args:
            fixed: Sizes of dims by their names, and values of inputs without dims, which are no inputs of the program.
        """
        from torchlette.export import InputSpec, from_callable

        fixed = dict(fixed or {})
        names: dict[str, str] = {}
        specs = []
        self._fixed = {}
        for k, (name, dtype, shape) in enumerate(self.input_specs()):
            if not shape and name in fixed:
                self._fixed[k] = Host([fixed.pop(name)], [], dtype)
                continue
            sizes = [fixed.get(n, _dim_name(n, names)) if isinstance(n, str) else n for n in shape]
            specs.append(InputSpec(name, dtype, sizes))
        if unknown := set(fixed) - set(names):
            raise ValueError(f"onnx.load: fixed: no dims and no inputs without dims: {sorted(unknown)}")
        try:
            with explained("onnx.load"), recording():
                program = from_callable(self, specs, self.output_names, copies=False)
        finally:
            self._fixed = {}
        python = program.spec["python"]
        python["names"] = [spec.name for spec in specs]
        if len(self.output_names) == 1:
            (python["result"],) = python["result"]["list"]
        else:
            python["result"] = {"tuple": python["result"]["list"]}
        return program


def _dim_name(name: str, names: dict[str, str]) -> str:
    """Return an identifier for the name of a dim, the same for the same name."""
    if name not in names:
        made = re.sub(r"[^A-Za-z0-9_]", "_", name[:64])
        made = made if made[:1].isalpha() or made[:1] == "_" else f"d{made}"
        while made in names.values() or made == "sqrt":
            made += "_"
        names[name] = made
    return names[name]


assert _operators
