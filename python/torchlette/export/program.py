"""Exported programs."""

from __future__ import annotations

import dataclasses
import itertools
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Self, cast

from torchlette import _C
from torchlette._runtime.errors import Unsupported
from torchlette._runtime.varying import Varying
from torchlette.export.fitting import fit, value_of
from torchlette.export.named_dims import Dim, declared, merged, probes, settle
from torchlette.export.nests import filled, flattened, joined, matched
from torchlette.export.tracing import Replaced, check_replaced, left_alone, parameter_names, record
from torchlette.nn.modules.module import Module
from torchlette.nn.parameter import Parameter

__all__ = ["ExportGraphSignature", "ExportedProgram", "InputSpec", "export", "from_callable"]

#: The function of a program that was exported for inference.
FORWARD = "forward"
#: The sizes at which a function of named dims alone is tried: these times 4, 5, 6, ... Recording computes nothing.
_SCALES = (1, 8, 64, 128)


@dataclasses.dataclass(frozen=True)
class InputSpec:
    """An input of :func:`from_callable`: its name, dtype, and shape, whose entries are sizes or names of dims.

    An expression of dims that other entries are begins with ``=``, as in ``=2*n + 1``.
    """

    name: str
    dtype: _C.dtype
    shape: Sequence[int | str | Dim]


@dataclasses.dataclass(frozen=True)
class ExportGraphSignature:
    """The names of a program's inputs, outputs, parameters and buffers."""

    user_inputs: tuple[str, ...]
    user_outputs: tuple[str, ...]
    parameters: tuple[str, ...]
    buffers: tuple[str, ...]
    buffers_to_mutate: tuple[str, ...]


class Graph:
    """The steps of a program, printed one on a line."""

    def __init__(self, program: ExportedProgram) -> None:
        """Keep the program."""
        self._program = program

    @property
    def nodes(self) -> list[dict[str, Any]]:
        """The steps: ``op``, ``args`` and ``out`` of each."""
        return [step for f in self._program.spec["functions"].values() for step in f["steps"]]

    def __str__(self) -> str:
        text: str = json.loads(_C._info("program_listing", self._program.number))
        return text

    __repr__ = __str__


class ExportedProgram:
    """A function of tensors as a list of operators, with its parameters and constants.

    :func:`export` and :func:`load` make them. ``spec`` is the content of the file's ``program.json``.
    """

    def __init__(self, spec: dict[str, Any], constants: Sequence[_C.Tensor], number: int | None = None) -> None:
        """Check the program.

        Args:
            spec: The program.
            constants: The tensors of ``spec["constants"]``.
            number: The engine's number, where it is known.

        Raises:
            ValueError: The program is ill-formed.
        """
        self.spec, self.constants = spec, list(constants)
        self.number: int = _C._program_parse(json.dumps(spec)) if number is None else number

    def __reduce__(self) -> Any:
        """Copy and pickle the program without the engine's number."""
        return type(self), (self.spec, self.constants)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Refuse, as PyTorch does."""
        raise RuntimeError("an ExportedProgram is not called itself: use program.module()(...)")

    def __del__(self, free: Callable[[int], None] = _C._captured_free) -> None:
        if "number" in self.__dict__:
            free(self.number)

    # What torch.export.ExportedProgram has ------------------------------------------------

    @property
    def graph(self) -> Graph:
        """The steps."""
        return Graph(self)

    def __str__(self) -> str:
        return f"ExportedProgram:\n{self.graph}"

    @property
    def graph_signature(self) -> ExportGraphSignature:
        """The names of inputs, outputs, parameters and buffers."""
        f, named = next(iter(self.spec["functions"].values())), self.spec["constants"]
        return ExportGraphSignature(
            tuple(v["name"] for v in f["inputs"]),
            tuple(v["name"] for v in f["outputs"]),
            tuple(c["name"] for c in named if c["kind"] == "parameter"),
            tuple(c["name"] for c in named if c["kind"] == "buffer"),
            tuple(c["name"] for c in named if c["kind"] == "buffer" and c["name"] in f.get("state", ())),
        )

    def _of_kind(self, *kinds: str) -> Iterator[tuple[str, _C.Tensor]]:
        for entry, t in zip(self.spec["constants"], self.constants, strict=True):
            if entry["kind"] in kinds:
                yield entry["name"], t

    @property
    def state_dict(self) -> dict[str, _C.Tensor]:
        """Parameters and buffers by name; one with several names has all of them."""
        found = dict(self._of_kind("parameter", "buffer"))
        return found | {alias: found[name] for alias, name in aliases(self.spec).items() if name in found}

    def named_parameters(self) -> Iterator[tuple[str, _C.Tensor]]:
        """Give the parameters with their names."""
        return self._of_kind("parameter")

    def parameters(self) -> Iterator[_C.Tensor]:
        """Give the parameters."""
        return (t for _, t in self.named_parameters())

    def named_buffers(self) -> Iterator[tuple[str, _C.Tensor]]:
        """Give the buffers with their names."""
        return self._of_kind("buffer")

    def buffers(self) -> Iterator[_C.Tensor]:
        """Give the buffers."""
        return (t for _, t in self.named_buffers())

    @property
    def range_constraints(self) -> dict[str, tuple[int, int | None]]:
        """The range of each named dim."""
        return {d["name"]: (d["min"], d["max"]) for d in self.spec["dims"]}

    def run_decompositions(self, *_args: Any, **_kwargs: Any) -> ExportedProgram:
        """Return the program: its steps are operators of this package, which need no decomposition."""
        return self

    def module(self) -> ExportedModule:
        """Return a module that runs the program, with the program's parameters and buffers."""
        return ExportedModule(self)


class _Part(Module):
    """A submodule: the parameters and buffers whose names have its name as a prefix."""


class ExportedModule(Module):
    """A module that runs a program, in the mode in which it was exported."""

    def __init__(self, program: ExportedProgram) -> None:
        """Take over the program's tensors."""
        super().__init__()
        if FORWARD not in program.spec["functions"]:
            raise ValueError("module(): the program was not exported for inference: a TrainingSession runs it")
        self._program = program
        self._places: list[tuple[dict[str, Any], str]] = []  # of the constants
        self.training = bool(program.spec["python"].get("training"))
        held: dict[str, tuple[str, _C.Tensor]] = {}
        for entry, t in zip(program.spec["constants"], program.constants, strict=True):
            if entry["kind"] == "parameter" and not isinstance(t, Parameter):
                t = Parameter(t, t.requires_grad)
            held[entry["name"]] = entry["kind"], t
            self._places.append(self._place(entry["name"], entry["kind"], t))
        for alias, name in aliases(program.spec).items():
            self._place(alias, *held[name])

    def _place(self, name: str, kind: str, t: _C.Tensor) -> tuple[dict[str, Any], str]:
        """Register a tensor under a name; return the table that has it, and its key there."""
        owner: Module = self
        *path, leaf = name.split(".")
        for part in path:
            if part not in owner._modules:
                owner.add_module(part, _Part())
            owner = owner._modules[part]  # type: ignore[assignment]
        if kind == "parameter":
            owner.register_parameter(leaf, cast(Parameter, t))
            return cast("dict[str, Any]", owner._parameters), leaf
        owner.register_buffer(leaf, t, persistent=kind == "buffer")
        return cast("dict[str, Any]", owner._buffers), leaf

    def _apply(self, fn: Callable[[_C.Tensor], _C.Tensor], recurse: bool = True) -> Self:
        if fn(_C.zeros([0], dtype=_C.float32, device="cpu")).device.type != "cpu":
            self._fold_doubles()
        return super()._apply(fn, recurse)

    def _fold_doubles(self) -> None:
        """Replace float64 for a device without it: what is computed of constants becomes a constant."""
        from torchlette.export.doubles import without_doubles

        constants = [table[name] for table, name in self._places]
        program = without_doubles(self._program, constants, "the device")
        if program is self._program:
            return
        places = dict(zip((c["name"] for c in self._program.spec["constants"]), self._places, strict=True))
        self._program, self._places = program, []
        for entry, t in zip(program.spec["constants"], program.constants, strict=True):
            place = places.pop(entry["name"], None) or self._place(entry["name"], entry["kind"], t)
            self._places.append(place)
        for table, name in places.values():
            del table[name]

    def train(self, mode: bool = True) -> ExportedModule:
        """Keep the mode in which the module was exported.

        Raises:
            NotImplementedError: ``mode`` is the other one: the program has the steps of one mode.
        """
        if mode != bool(self._program.spec["python"].get("training")):
            raise NotImplementedError(
                f"an exported program has the steps of {'evaluation' if mode else 'training'}: export the module in "
                f"the other mode, or use export_training"
            )
        return super().train(mode)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the program.

        Raises:
            TypeError: The arguments are no nest like that of the exported call, or have other dtypes.
            ValueError: Shapes are not those of the exported call, or outside of the ranges of their dims.
        """
        nests, leaves = self._program.spec["python"], list[_C.Tensor]()
        given = {"tuple": nests["args"]}, {"dict": nests["kwargs"]}
        if len(args) > len(nests["args"]) and not kwargs:
            raise TypeError(f"the program takes {len(nests['args'])} positional arguments, got {len(args)}")
        missing = nests["names"][len(args) : len(nests["args"])]  # positional arguments that are given by name
        args = (*args, *[kwargs.pop(name) for name in missing if name in kwargs])
        matched(given[0], args, leaves, "args")
        matched(given[1], kwargs, leaves, "kwargs")
        constants = [table[name] for table, name in self._places]
        results = run(self._program, FORWARD, leaves, constants)
        return filled(nests["result"], results, self._sizes(leaves))

    def _sizes(self, inputs: Sequence[_C.Tensor]) -> dict[str, int]:
        """Return the sizes of the named dims, which the run has checked."""
        found: dict[str, int] = {}
        for entry, t in zip(self._program.spec["functions"][FORWARD]["inputs"], inputs, strict=True):
            for want, got in zip(entry["shape"], t.shape, strict=True):
                if isinstance(want, str):
                    found |= _solved(want, got, [d["name"] for d in self._program.spec["dims"]])
        return found


def _solved(want: str, got: int, names: Sequence[str]) -> dict[str, int]:
    """Return the size of the dim for which an affine entry of a shape has a value."""
    if want in names:
        return {want: got}
    try:
        name = next(n for n in names if re.search(rf"\b{n}\b", want))
        low, slope = (int(value_of(want[1:], {name: n})) for n in (0, 1))
        return {name: (got - low) // (slope - low)}
    except (StopIteration, NameError, ArithmeticError):
        return {}  # it depends on several dims, which other entries are


def aliases(spec: Mapping[str, Any]) -> dict[str, str]:
    """Return further names of constants: tied parameters have several in their module."""
    found: dict[str, str] = spec["python"].get("aliases", {})
    return found


def run(
    program: ExportedProgram,
    function: str,
    inputs: Sequence[_C.Tensor],
    constants: Sequence[Any],
    numbers: Sequence[float] = (),
) -> list[_C.Tensor]:
    """Run a function of a program."""
    count = len(program.spec["functions"][function]["outputs"])
    return _C._program_run(program.number, function, list(inputs), list(constants), list(numbers), False, count)


def _stand_in(t: _C.Tensor, shape: Sequence[int]) -> _C.Tensor:
    """Return a tensor like ``t`` of another shape; it is never computed."""
    if list(t.shape) == list(shape) and t.is_contiguous():
        return t
    out = _C.zeros(list(shape), dtype=t.dtype, device=t.device)
    return out.requires_grad_() if t.requires_grad else out


def named_tensors(module: Any) -> list[tuple[str, str, _C.Tensor]]:
    """Return name, kind and tensor of a module's parameters and buffers."""
    if not isinstance(module, Module):
        return []
    kept = set(module.state_dict(keep_vars=True))
    return [(n, "parameter", p) for n, p in module.named_parameters()] + [
        (n, "buffer" if n in kept else "tensor", b) for n, b in module.named_buffers()
    ]


def further_names(module: Any) -> dict[str, str]:
    """Return names of a module's parameters and buffers that :func:`named_tensors` leaves out, with those it gives."""
    if not isinstance(module, Module):
        return {}
    first = {id(t): name for name, _, t in named_tensors(module)}
    named = [*module.named_parameters(remove_duplicate=False), *module.named_buffers(remove_duplicate=False)]
    return {name: first[id(t)] for name, t in named if first.get(id(t), name) != name}


def describe(name: str, kind: str, t: _C.Tensor) -> dict[str, Any]:
    """Return the entry of a constant."""
    return {
        "name": name,
        "kind": kind,
        "dtype": str(t.dtype).removeprefix("torch."),
        "shape": list(t.shape),
        "requires_grad": bool(t.requires_grad and t.is_leaf),
    }


def constant(t: _C.Tensor) -> _C.Tensor:
    """Return a tensor of the program: a copy, so that neither a later step of the module nor one of the program changes
    the other.
    """
    return t.detach().contiguous().clone().requires_grad_(t.requires_grad and t.is_leaf)


def export(
    mod: Any,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None = None,
    dynamic_shapes: Any = None,
    *,
    strict: bool = False,
    preserve_module_call_signature: tuple[str, ...] = (),
) -> ExportedProgram:
    """Record the operators of a module or function as a program. Nothing is computed, and nothing changes.

    Args:
        mod: A module, or a function of tensors.
        args: Example arguments: tensors, or nests of tuples, lists and dicts. Other values are constants.
        kwargs: Example keyword arguments.
        dynamic_shapes: Which sizes may differ from the example's: by argument ``{axis: Dim}``; see :class:`Dim`.
        strict: Accepted for compatibility.
        preserve_module_call_signature: Accepted for compatibility.

    Returns:
        The program, with copies of parameters, buffers, and other tensors that it reads.

    Raises:
        TypeError: Arguments or results are no such nests.
        ValueError: ``dynamic_shapes`` does not fit the arguments.
        Unsupported: The steps depend on the sizes in a way that no program can say, or a program cannot hold a step.
        HostReadInCompileError: The function reads the elements of a tensor.
    """
    if not isinstance(args, tuple):
        raise TypeError(f"export: args is wrong: got {type(args).__name__}, want a tuple of example arguments")
    kwargs = dict(kwargs or {})
    fn = mod.forward if isinstance(mod, Module) else mod
    names = parameter_names(fn, len(args))
    return _exported(mod, args, names, kwargs, declared(args, names, kwargs, dynamic_shapes, fn), None)


def own(tensors: Iterable[_C.Tensor]) -> list[_C.Tensor]:
    """Return the tensors of a program whose module nobody else has: no copies, but of elements that another one has."""
    found, seen = [], set[int]()
    for t in tensors:
        # No address: memory of which code outside may know is copied by those who need it unchanged, such as a session.
        t = t.detach().contiguous().requires_grad_(t.requires_grad) if t._identity() not in seen else constant(t)
        seen.add(t._identity())
        found.append(t)
    return found


def from_callable(
    fn: Any, inputs: Sequence[InputSpec], output_names: Sequence[str], *, copies: bool = True
) -> ExportedProgram:
    """Record a function of tensors as a program with these inputs; importers of other formats use it.

    Args:
        fn: A module or function that takes the inputs in order, and returns a tensor or a sequence of tensors.
        inputs: Names, dtypes and shapes; a name of a dim stands for any size, a :class:`Dim` for its range.
        output_names: The names of the results.
        copies: Whether the program has copies of the tensors that the function reads. Without, nobody else may write to
            them.

    Returns:
        The program.
    """
    names = [spec.name for spec in inputs]
    first: Exception | None = None
    for scale in _SCALES:
        tensors, dynamic = _example(inputs, scale)
        dims = declared(tensors, names, {}, dynamic)
        try:
            return _exported(fn, tuple(tensors), names, {}, dims, list(output_names), copies=copies)
        except (ValueError, IndexError, RuntimeError) as exc:
            if isinstance(exc, (NotImplementedError, MemoryError)) or not dims.dims:
                raise
            first = first or exc  # e.g. a window is larger than the example
    assert first is not None
    raise first


def _example(inputs: Sequence[InputSpec], scale: int) -> tuple[list[_C.Tensor], list[dict[int, Any]]]:
    """Return zeros for the inputs, and which dims have names; ``scale`` times the smallest sizes of these."""
    sizes: dict[str, int] = {}
    dynamic: list[dict[int, Any]] = []
    shapes: list[list[int]] = []
    tensors = []
    dims: dict[str, Dim] = {}
    for spec in inputs:
        shape: list[int] = []
        entry: dict[int, Any] = {}
        for axis, size in enumerate(spec.shape):
            if isinstance(size, int):
                shape.append(size)
                continue
            if isinstance(size, str) and size.startswith("="):
                shape.append(-1)
                entry[axis] = size
                continue
            dim = size if isinstance(size, Dim) else dims.setdefault(size, Dim(size))
            top = dim.max if dim.max is not None else 1 << 30
            wanted = min(max(dim.min, (4 + len(sizes)) * scale), top)
            shape.append(sizes.setdefault(dim.__name__, wanted - (wanted - dim.step[1]) % dim.step[0]))
            entry[axis] = dim
        shapes.append(shape)
        dynamic.append(entry)
    for spec, shape, entry in zip(inputs, shapes, dynamic, strict=True):
        shape = [_sized(entry[i], sizes) if n == -1 else n for i, n in enumerate(shape)]
        tensors.append(_C.zeros(shape, dtype=spec.dtype, device="cpu"))
    return tensors, dynamic


def _sized(size: Any, sizes: Mapping[str, int]) -> int:
    """Return the number that a size is: itself, the size of a named dim, or the value of "=" and an expression."""
    if not isinstance(size, str):
        return int(size)
    return int(value_of(size[1:], dict(sizes))) if size.startswith("=") else sizes[size]


def _exported(
    mod: Any,
    args: tuple[Any, ...],
    names: list[str],
    kwargs: dict[str, Any],
    dims: Any,
    output_names: list[str] | None,
    *,
    copies: bool = True,
) -> ExportedProgram:
    leaves: list[_C.Tensor] = []
    labels: list[str] = []
    nests: dict[str, Any] = {
        "names": names,
        "training": isinstance(mod, Module) and mod.training,
        "args": [flattened(v, leaves, labels, n) for n, v in zip(names, args, strict=True)],
        "kwargs": [[key, flattened(v, leaves, labels, key)] for key, v in kwargs.items()],
    }
    module_state = named_tensors(mod)
    known = [t for _, _, t in module_state]
    nests |= {"aliases": other} if (other := further_names(mod)) else {}
    results: list[str] = []
    found: list[list[_C.Tensor]] = []
    given_back: list[Any] = []
    replaced: Replaced = []

    def call(stand_ins: list[_C.Tensor]) -> list[_C.Tensor]:
        given = filled({"tuple": nests["args"]}, stand_ins)
        with left_alone(mod, replaced), Varying.during(bool(dims.dims)):
            result = mod(*given, **filled({"dict": nests["kwargs"]}, stand_ins))
        outputs: list[_C.Tensor] = []
        results.clear()
        nests["result"] = flattened(result, outputs, results, "output")
        return outputs

    def trace(sizes: Mapping[str, int]) -> dict[str, Any]:
        inputs = [_stand_in(t, [_sized(n, sizes) for n in shape]) for t, shape in zip(leaves, dims.shapes, strict=True)]
        replaced.clear()
        recorded, constants = record(call, inputs, known)
        check_replaced(replaced, constants)
        found.append(constants)
        given_back.append(nests["result"])
        return recorded

    settle(dims, trace)
    found.clear()
    given_back.clear()
    points, traces = probes(dims.dims, dims.sizes, trace)
    _check_constants(found, points)
    recorded = merged(traces, points)
    nests["result"] = _result(given_back, points)
    taken = {name for name, _, _ in module_state}
    free = (name for i in itertools.count() if (name := f"constant_{i}") not in taken)
    extra = [(next(free), "tensor", t) for t in found[0]]
    listed = [*module_state, *extra]
    labels = _unique(labels)
    outputs = output_names if output_names is not None else _unique(results)
    if len(outputs) != len(recorded["outputs"]):
        raise ValueError(
            f"export: the function gives {len(recorded['outputs'])} tensors, want {len(outputs)}: {outputs}"
        )
    changed = recorded["changed"][len(leaves) :]
    function = {
        "inputs": [
            {"name": label, "dtype": str(t.dtype).removeprefix("torch."), "shape": shape}
            for label, t, shape in zip(labels, leaves, dims.shapes, strict=True)
        ],
        "steps": recorded["steps"],
        "outputs": [{"name": n, "value": v} for n, v in zip(outputs, recorded["outputs"], strict=True)],
        "state": [name for (name, _, _), c in zip(listed, changed, strict=True) if c],
    }
    spec = {
        "format": "torchlette program",
        "version": 1,
        "dims": [{"name": n, "min": d.min, "max": d.max} for n, d in dims.dims.items()],
        "constants": [describe(*entry) for entry in listed],
        "functions": {FORWARD: function},
        "python": nests,
    }
    tensors = [t for _, _, t in listed]
    return ExportedProgram(spec, [constant(t) for t in tensors] if copies else own(tensors))


def _result(given: list[Any], points: list[dict[str, int]]) -> Any:
    """Return the nest of results for all sizes: integers that depend on them become expressions."""

    def number(values: list[int]) -> str:
        if (text := fit(values, points)) is None:
            raise ValueError
        return text

    try:
        return joined(given, number)
    except ValueError:
        shown = next((p, n) for p, n in zip(points, given, strict=True) if n != given[0])
        raise Unsupported(
            f"export: the results depend on the sizes: {given[0]} at {points[0]}, {shown[1]} at {shown[0]}. A program "
            f"gives the same nest at all sizes, with tensors, and integers that are known functions of the sizes"
        ) from None


def _unique(names: list[str]) -> list[str]:
    """Return names that differ from one another."""
    seen: dict[str, int] = {}
    for i, name in enumerate(names):
        k = seen[name] = seen.get(name, 0) + 1
        if k > 1:
            names[i] = f"{name}_{k}"
    return names


def _check_constants(found: list[list[_C.Tensor]], points: list[dict[str, int]]) -> None:
    """Refuse tensors of host data that differ from size to size: they would be constants of one size."""
    for other, point in zip(found[1:], points[1:], strict=True):
        if len(other) != len(found[0]):
            raise Unsupported(
                f"export: the function reads {len(found[0])} constants at {points[0]}, {len(other)} at {point}"
            )
        for i, (a, b) in enumerate(zip(found[0], other, strict=True)):
            if a.shape != b.shape or a.dtype != b.dtype or _C._tobytes(a.detach()) != _C._tobytes(b.detach()):
                raise Unsupported(
                    f"export: constant {i} of shape {tuple(a.shape)} at {points[0]} is another one, of shape "
                    f"{tuple(b.shape)}, at {point}: make it by an operator such as arange or full, not from host data"
                )
