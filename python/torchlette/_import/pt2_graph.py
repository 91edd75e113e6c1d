"""The graph of a ``.pt2`` file as steps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from torchlette import _C
from torchlette._import import aten
from torchlette._import.files import damaged, unsupported
from torchlette._import.higher_order import HIGHER, MAPPED, Block, level_name
from torchlette._import.module import Ref, Step, names_in, run_steps, with_last_uses
from torchlette._import.read_numbers import reading, without_windows
from torchlette._runtime.dtype_table import EXPORT_NUMBERS

__all__ = ["DEVICE", "Nodes", "dtype_of"]

Tensor = _C.Tensor

#: The name of the device of the module's inputs, on which operators that make tensors from numbers make theirs.
DEVICE = Ref("#device")
_DTYPES = {number: dtype for dtype, number in EXPORT_NUMBERS.items()}
_CREATORS = frozenset(
    "arange empty full zeros ones rand randn randint randperm linspace logspace eye scalar_tensor tril_indices "
    "triu_indices hann_window hamming_window blackman_window bartlett_window kaiser_window empty_strided "
    "empty_permuted".split()
)
#: Keyword arguments that do not change values.
_IGNORED = frozenset(("device", "layout", "pin_memory", "memory_format", "non_blocking", "generator"))
_STEPS, _DEPTH = 100_000, 32
#: Where PyTorch's nodes of ``vmap`` are.
_PREDISPATCH = "torch._functorch.predispatch."


def dtype_of(number: Any) -> _C.dtype:
    """Return the dtype of a number in PyTorch's schema."""
    if number not in _DTYPES:
        raise unsupported(f"the file has tensors of a dtype that is not supported: number {number} of PyTorch's list")
    return _DTYPES[number]


class Nodes:
    """Turns the nodes of a graph into steps."""

    def __init__(self) -> None:
        self.missing: set[str] = set()

    def graph(self, graph: dict[str, Any], depth: int = 0) -> list[Step]:
        """Return the steps of a graph."""
        nodes = graph["nodes"]
        if len(nodes) > _STEPS or depth > _DEPTH:
            raise damaged(f"a graph has {len(nodes)} nodes, nested {depth} deep")
        return self.steps(iter(nodes), depth, 0)

    def steps(self, nodes: Iterator[dict[str, Any]], depth: int, level: int) -> list[Step]:
        """Return the steps of nodes up to the end of a level of ``vmap``; 0 is outside of all."""
        found = []
        for node in nodes:
            kind = node["target"].removeprefix(_PREDISPATCH)
            if kind == "_vmap_decrement_nesting":
                if not level:
                    raise damaged("a level of vmap ends that has not begun")
                return found
            if kind == "_vmap_increment_nesting":
                if level == _DEPTH:
                    raise damaged(f"levels of vmap are nested {level} deep")
                args, _ = self.arguments(node["inputs"], depth)
                found.append(self.block(node, args, self.steps(nodes, depth, level + 1), level + 1))
            else:
                found.append(self.step(node, depth))
        if level:
            raise damaged("a level of vmap does not end")
        return found

    def block(self, node: dict[str, Any], args: list[Any], steps: list[Step], level: int) -> Step:
        """Return the step of the nodes under a level of ``vmap``."""
        made = list(dict.fromkeys(name for step in steps for name in names_in(step.results)))
        known = {*made, level_name(level)}
        read = dict.fromkeys(name for step in steps for name in names_in([step.args, *step.kwargs.values()]))
        inputs = [name for name in read if name not in known]
        call = Block(level, steps, inputs, made)
        return Step(node.get("name") or "vmap", node["target"], call, (*args, *inputs), {}, made)

    def step(self, node: dict[str, Any], depth: int) -> Step:
        """Return the step of a node."""
        target = node["target"]
        results = [self.result(out) for out in node["outputs"]]
        name = node.get("name") or (str(_flat(results)[0]) if results else target)
        if target.startswith("torch.ops.higher_order."):
            return self.higher_order(node, name, results, depth)
        call = aten.find(target)
        mapped = MAPPED.get(target.removeprefix(_PREDISPATCH))
        if mapped is not None:
            call = mapped[0]
        if call is None:
            self.missing.add(target)
            call = _never
        args, kwargs = self.arguments(node["inputs"], depth)
        if mapped is not None:
            args[mapped[1]] = level_name(args[mapped[1]])
        parts = target.split(".")
        base = parts[3] if len(parts) == 5 else ""
        if base in _CREATORS:
            kwargs["device"] = DEVICE
        if base:
            call = reading(base, call)
        single = len(results) == 1
        return Step(name, target, call, tuple(args), kwargs, results[0] if single else results or None)

    def arguments(self, inputs: Sequence[dict[str, Any]], depth: int) -> tuple[list[Any], dict[str, Any]]:
        """Return positional and keyword arguments; files before kinds were written have positional ones first."""
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        for item in inputs:
            value = self.argument(item["arg"], depth)
            name, kind = item["name"], item.get("kind")
            if kind == 2 or kind in (None, 0) and (kwargs or name in _KEYWORDS):
                if name not in _IGNORED:
                    kwargs[name] = value
            else:
                args.append(value)
        return args, kwargs

    def argument(self, arg: dict[str, Any], depth: int) -> Any:
        """Return an argument: a number, text or dtype as it is, a value's name as a Ref."""
        ((kind, value),) = arg.items()
        if kind in ("as_tensor", "as_optional_tensor", "as_sym_int", "as_sym_bool", "as_sym_float"):
            return self.scalar(value)
        if kind in ("as_tensors", "as_optional_tensors", "as_sym_ints", "as_sym_bools", "as_sym_floats"):
            return [self.scalar(item) for item in value]
        if kind == "as_nested_tensors":
            return [[self.scalar(item) for item in row] for row in value]
        if kind == "as_scalar_type":
            return dtype_of(value)
        if kind in ("as_none", "as_device", "as_layout", "as_memory_format"):
            return None
        if kind in ("as_int", "as_float", "as_bool", "as_string"):
            return float(value) if kind == "as_float" else value
        if kind in ("as_ints", "as_floats", "as_bools", "as_strings", "as_int_lists", "as_float_lists"):
            return list(value)
        if kind == "as_complex":
            return complex(float(value["real"]), float(value["imag"]))
        if kind == "as_graph":
            return self.subgraph(value["graph"], depth + 1)
        if kind == "as_operator":
            return value
        raise unsupported(f"the graph has an argument of a kind that is not supported: {kind}")

    def scalar(self, value: dict[str, Any]) -> Any:
        """Return an argument that is a value of the graph or a constant."""
        if "name" in value:
            return Ref(value["name"])
        ((kind, inner),) = value.items()
        if kind == "as_name":
            return Ref(inner)
        if kind in ("as_none",):
            return None
        if kind == "as_tensor":
            return Ref(inner["name"])
        if kind in ("as_int", "as_bool", "as_float"):
            return inner
        raise unsupported(f"the graph has a number of a kind that is not supported: {kind}")

    def result(self, out: dict[str, Any]) -> Any:
        """Return the name of a result, or the names of a list of results."""
        found = self.argument(out, 0)
        if found is not None and type(found) not in (Ref, list):
            raise damaged(f"the result of a node is {out}")
        return found

    def subgraph(self, graph: dict[str, Any], depth: int) -> Subgraph:
        """Return a graph that a node calls."""
        steps = self.graph(graph, depth)
        inputs = [self.argument(item, depth) for item in graph["inputs"]]
        outputs = [self.argument(item, depth) for item in graph["outputs"]]
        return Subgraph(inputs, steps, outputs)

    def higher_order(self, node: dict[str, Any], name: str, results: list[Any], depth: int) -> Step:
        """Return the step of a function of graphs."""
        kind = node["target"].removeprefix("torch.ops.higher_order.").removesuffix(".default")
        call = HIGHER.get(kind)
        if call is None:
            self.missing.add(node["target"])
            call = _never
        args, kwargs = self.arguments(node["inputs"], depth)
        parts = [arg for arg in args if isinstance(arg, Subgraph)]
        outer = [DEVICE, *args]
        call = without_windows(call)
        names = results[0] if len(results) == 1 and type(results[0]) is list else results
        return Step(name, node["target"], call, (parts, *outer), kwargs, names or None)


#: Names of ATen's arguments after the ``*`` of their signatures, for files that do not tell.
_KEYWORDS = frozenset("dtype layout device pin_memory memory_format alpha generator approximate rounding_mode".split())


def _flat(names: Any) -> list[Any]:
    return [leaf for item in names for leaf in _flat(item)] if isinstance(names, list) else [names]


def _never(*args: Any, **kwargs: Any) -> None:
    raise AssertionError("load has refused the graph")


class Subgraph:
    """A graph that a node calls with its operands."""

    def __init__(self, inputs: list[Any], steps: list[Step], outputs: list[Any]) -> None:
        self.inputs, self.outputs = inputs, outputs
        self.steps = with_last_uses(steps, [name for name in _flat(outputs) if type(name) is Ref])

    def __call__(self, device: Any, *operands: Any) -> list[Any]:
        """Return the graph's results."""
        if len(operands) != len(self.inputs):
            raise ValueError(f"a graph takes {len(self.inputs)} operands, got {len(operands)}")
        env = {DEVICE: device, **dict(zip(self.inputs, operands, strict=True))}
        run_steps(self.steps, env)
        return [env[name] if type(name) is Ref else name for name in self.outputs]
