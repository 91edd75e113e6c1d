"""Reading of ``.pt2`` files, which ``torch.export.save`` writes, without PyTorch.

Layout, as of PyTorch 2.9; NAME is the name of the file::

    NAME/models/model.json                        the graph, its signature, ranges of sizes; see below
    NAME/data/weights/model_weights_config.json   for each parameter and buffer: its file, dtype, sizes, strides
    NAME/data/weights/weight_0, ...               their elements
    NAME/data/constants/...                       the same for constants

Before, the weights were ``data/weights/model.pt``, a file of ``torch.save``; before that (2.7), the archive had
``serialized_exported_program.json``, ``serialized_state_dict.pt`` and ``serialized_constants.pt``.

The graph is a list of nodes: an operator, named arguments, names of results. Sizes that differ from call to call are
results of nodes too (``aten.sym_size.int`` and arithmetic). Here they are Python integers.
"""

from __future__ import annotations

import io
import math
import os
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO

from torchlette import _C
from torchlette._import.aten import HOST
from torchlette._import.files import Archive, damaged, explained, unsupported
from torchlette._import.module import Ref, Step, check_order, names_in, place, run_steps, with_last_uses
from torchlette._import.nests import Nest
from torchlette._import.pt2_graph import DEVICE, Nodes, dtype_of
from torchlette._import.read_numbers import VIEWS, plain
from torchlette._import.recording import recording
from torchlette._import.sizes import Linear, declare, size_of
from torchlette.autograd.grad_mode import no_grad
from torchlette.io.mapped import tensor_over
from torchlette.nn.modules.module import Module
from torchlette.nn.parameter import Parameter

__all__ = ["Pt2Module", "load", "read_module"]

Tensor = _C.Tensor

#: Major versions of the schema.
MAJORS = (7, 8)


class _Tensors:
    """The parameters, buffers and constants of an archive by name."""

    def __init__(self, archive: Archive, folder: str, name: str) -> None:
        self._archive, self._folder = archive, folder
        self._flat: dict[tuple[str, _C.dtype], Tensor] = {}
        kind = folder.rpartition("/")[2]
        whole, config = f"{folder}/{name}.pt".lstrip("/"), f"{folder}/{name}_{kind}_config.json"
        self._whole: dict[str, Any] = _state_dict(archive.read(whole)) if whole in archive else {}
        self._config: dict[str, Any] = archive.json(config)["config"] if config in archive else {}

    def __getitem__(self, name: str) -> Tensor:
        """Return a tensor; tensors of one file share their elements."""
        if name in self._whole:
            return _tensor(name, self._whole[name])
        if name not in self._config:
            raise damaged(f"it has no tensor {name!r}")
        entry = self._config[name]
        path = f"{self._folder}/{entry['path_name']}"
        if entry["use_pickle"]:
            return _tensor(name, _state_dict(self._archive.read(path)))
        return _view(self._storage(path, entry["tensor_meta"]), entry["tensor_meta"], name)

    def trained(self, name: str) -> bool:
        """Return whether a parameter has gradients; a frozen one has none."""
        if name in self._config and not self._config[name]["use_pickle"]:
            return self._config[name]["tensor_meta"].get("requires_grad") is not False
        value = self._whole.get(name)
        return not isinstance(value, Parameter) or value.requires_grad

    def _storage(self, path: str, meta: dict[str, Any]) -> Tensor:
        dtype = dtype_of(meta["dtype"])
        if (path, dtype) not in self._flat:
            data = self._archive.elements(path)
            count = len(data) // dtype.itemsize
            self._flat[path, dtype] = tensor_over(data[: count * dtype.itemsize], dtype, [count])
        return self._flat[path, dtype]


def _tensor(name: str, value: Any) -> Tensor:
    if not isinstance(value, Tensor):
        raise damaged(f"{name!r} is no tensor")
    return value.detach()


def _state_dict(data: bytes) -> Any:
    from torchlette.io.serialization import load

    return load(io.BytesIO(data), map_location="cpu", weights_only=True)


def _numbers(values: Any) -> list[int]:
    found = [value["as_int"] for value in values]
    if not all(type(n) is int and 0 <= n < 1 << 62 for n in found):
        raise damaged(f"the sizes of a tensor are {found}")
    return found


def _view(flat: Tensor, meta: dict[str, Any], name: str) -> Tensor:
    sizes, strides = _numbers(meta["sizes"]), _numbers(meta["strides"])
    offset = meta["storage_offset"]["as_int"]
    if len(sizes) != len(strides) or type(offset) is not int or offset < 0:
        raise damaged(f"{name!r} has sizes {sizes}, strides {strides}, offset {offset}")
    reach = offset + 1 + sum((n - 1) * step for n, step in zip(sizes, strides, strict=True))
    if 0 not in sizes and reach > flat.numel():
        raise damaged(f"{name!r} has {flat.numel()} elements, its sizes and strides want {reach}")
    dense = [math.prod(sizes[i + 1 :]) for i in range(len(sizes))]
    if 0 in sizes or (strides == dense and offset == 0 and flat.numel() == math.prod(sizes)):
        return flat[:0].reshape(sizes) if 0 in sizes else flat.view(sizes)
    return flat.as_strided(sizes, strides, offset)


class Pt2Module(Module):
    """The module of a ``.pt2`` file: parameters and buffers under the file's names, and the graph.

    Args:
        program: The file's graph module, signature and ranges.
        weights: Parameters and buffers by name.
        constants: Constants by name.
    """

    def __init__(self, program: dict[str, Any], weights: _Tensors, constants: _Tensors) -> None:
        """Make the steps, and check that all their operators exist."""
        super().__init__()
        module = program["graph_module"]
        graph, signature = module["graph"], module["signature"]
        nodes = Nodes()
        steps = nodes.graph(graph)
        if nodes.missing:
            raise unsupported(f"operators that are not supported: {', '.join(sorted(nodes.missing))}")
        # In the order of the file: the name of an input, or None and the constant that stands in its place.
        self._inputs: list[tuple[str | None, Any]] = []
        # The argument's name -> where the tensor is, and its name in the file.
        self._places: dict[str, tuple[Module, str, str]] = {}
        # Names of what holds the order of operators with effects: nothing here.
        self._tokens: list[Ref] = []
        for spec in signature["input_specs"]:
            self._input(spec, weights, constants)
        self._results: list[Any] = []
        # A result and the argument into which it is copied.
        self._writes: list[tuple[Ref, Ref]] = []
        for spec in signature["output_specs"]:
            self._output(spec, nodes)
        arguments = [DEVICE, *self._tokens, *self._places, *(name for name, _ in self._inputs if name is not None)]
        results = [ref for ref in self._results if type(ref) is Ref]
        kept = results + [ref for pair in self._writes for ref in pair]
        check_order(steps, arguments, kept)
        self._steps = with_last_uses(steps, [*kept, *arguments])
        read = _names_read(steps)
        self._values = graph["tensor_values"]
        buffers = [arg for arg, (owner, leaf, _) in self._places.items() if leaf in owner._buffers]
        # Names of buffers that steps write in place.
        self._written = [arg for arg in buffers if _is_written(arg, steps)]
        # Names of sizes; numbers that are read are tensors in a program.
        self._numbers = {name for name in graph["sym_int_values"] if name not in read}
        #: Least and greatest sizes by the name of a dim; None for none.
        self.ranges = {
            name: (entry.get("min_val"), entry.get("max_val"))
            for name, entry in (program.get("range_constraints") or {}).items()
        }
        entry = module["module_call_graph"][0]["signature"]
        self._in, self._out = Nest.parse(entry["in_spec"]), Nest.parse(entry["out_spec"])
        self._argument_names = entry.get("forward_arg_names")
        for nest, wanted in ((self._in, self._inputs), (self._out, self._results)):
            if sum(1 for _ in nest.leaves()) != len(wanted):
                raise damaged(f"the signature has {len(wanted)} arguments or results, its nest another number")

    def _input(self, spec: dict[str, Any], weights: _Tensors, constants: _Tensors) -> None:
        ((kind, value),) = spec.items()
        if kind == "user_input":
            ((how, arg),) = value["arg"].items()
            name = (arg.get("name") or arg.get("as_name")) if isinstance(arg, dict) else None
            self._inputs.append((name, None if how == "as_none" else arg))
        elif kind == "constant_input":
            ((how, arg),) = value["value"].items()
            self._inputs.append((None, None if how == "as_none" else arg))
        elif kind in ("parameter", "buffer", "tensor_constant"):
            name = value[f"{kind}_name"]
            persistent = kind == "parameter" or kind == "buffer" and value.get("persistent", True)
            holder = weights if persistent else constants
            trained = kind == "parameter" and holder.trained(name)
            parameter = kind == "parameter"
            where = place(self, name, holder[name], parameter=parameter, persistent=persistent, trained=trained)
            self._places[value["arg"]["name"]] = (*where, name)
        elif kind == "token":
            self._tokens.append(Ref(value["arg"]["name"]))
        else:
            raise unsupported(f"the graph has an input of a kind that is not supported: {kind}")

    def _output(self, spec: dict[str, Any], nodes: Nodes) -> None:
        ((kind, value),) = spec.items()
        if kind in ("user_output", "loss_output"):
            arg = value["arg"]
            self._results.append(nodes.argument(arg, 0) if kind == "user_output" else Ref(arg["name"]))
        elif kind in ("buffer_mutation", "parameter_mutation"):
            name = value[kind.replace("mutation", "name")]
            written = [arg for arg, (_, _, of) in self._places.items() if of == name]
            if not written:
                raise damaged(f"the graph writes to {name!r}, which is no argument")
            self._writes.append((Ref(value["arg"]["name"]), Ref(written[0])))
        elif kind == "user_input_mutation":
            self._writes.append((Ref(value["arg"]["name"]), Ref(value["user_input_name"])))
        elif kind != "token":
            raise unsupported(f"the graph has an output of a kind that is not supported: {kind}")

    def input_specs(self) -> Iterator[tuple[str, _C.dtype, list[int | str | Linear]]]:
        """Give the name, dtype and sizes of each tensor among the inputs; a str is the name of a dim."""
        for name, _ in self._inputs:
            if name is not None and name in self._values:
                meta = self._values[name]
                yield name, dtype_of(meta["dtype"]), [_size(size) for size in meta["sizes"]]

    def output_names(self) -> list[str]:
        """Return the names of the tensors among the results."""
        return [str(ref) for ref in self._results if type(ref) is Ref and ref not in self._numbers]

    def program(self) -> Any:
        """Record the graph as an :class:`torchlette.export.ExportedProgram`."""
        from torchlette.export import InputSpec, from_callable

        found = list(self.input_specs())
        shapes = declare([shape for _, _, shape in found], self._bounds())
        specs = [InputSpec(name, dtype, shape) for (name, dtype, _), shape in zip(found, shapes, strict=True)]
        if any(type(ref) is Ref and ref in self._numbers for ref in self._results):
            raise unsupported("a result of the graph is a number that depends on sizes")
        with recording():
            program = from_callable(self, specs, self.output_names(), copies=False)
        places = {spec.name: i for i, spec in enumerate(specs)}
        leaves = [
            {"tensor": places[name]} if name in places else {"plain": constant} for name, constant in self._inputs
        ]
        arguments = self._in.described(iter(leaves))["tuple"]
        positional, named = arguments[0]["tuple"], arguments[1]["dict"]
        count = iter(range(len(self._results)))
        results = [{"tensor": next(count)} if type(ref) is Ref else {"plain": ref} for ref in self._results]
        known = self._argument_names or []
        program.spec["python"].update(
            names=[known[i] if i < len(known) else f"args_{i}" for i in range(len(positional))],
            args=positional,
            kwargs=named,
            result=self._out.described(iter(results)),
        )
        return program

    def _bounds(self) -> dict[str, tuple[int | None, int | None]]:
        """Return the ranges of the names that inputs have; PyTorch writes numbers near 2**63 for no bound."""
        used = {n.name if isinstance(n, Linear) else n for _, _, shape in self.input_specs() for n in shape}
        found = {name: pair for name, pair in self.ranges.items() if name in used}
        return {name: (low, None if high is None or high >= 1 << 40 else high) for name, (low, high) in found.items()}

    def forward(self, *tensors: Tensor) -> list[Tensor]:
        """Return the tensors among the results.

        Args:
            tensors: The tensors among the inputs, in order; other inputs have the values of the file.
        """
        given = iter(tensors)
        values = [next(given) if name in self._values else constant for name, constant in self._inputs]
        return [value for value in self._run(values) if isinstance(value, Tensor)]

    def nested(self, *args: Any, **kwargs: Any) -> Any:
        """Return what the exported module returns, for its arguments.

        Raises:
            ValueError: The arguments are no nest like the exported one.
        """
        return self._out.build(iter(self._run(self._in.flatten((args, kwargs)))))

    def _run(self, values: list[Any]) -> list[Any]:
        env: dict[str, Any] = dict.fromkeys(self._tokens)
        env.update((arg, getattr(owner, leaf)) for arg, (owner, leaf, _) in self._places.items())
        # A value with a gradient is written to a copy, and the buffer, which the next call reads, gets it without.
        held = [env[arg] for arg in self._written if env[arg].is_floating_point() or env[arg].is_complex()]
        copies = {id(t): t.clone() for t in held}
        env.update((arg, copies.get(id(env[arg]), env[arg])) for arg in self._places)
        for (name, _), value in zip(self._inputs, values, strict=True):
            if name is not None:
                env[name] = value
        found = [v for v in (*values, *env.values()) if isinstance(v, Tensor)]
        env[DEVICE] = found[0].device if found else _C.device("cpu")
        run_steps(self._steps, env)
        results = [plain(env[ref]) if type(ref) is Ref else ref for ref in self._results]
        with no_grad():
            for buffer in held:
                buffer.copy_(copies[id(buffer)])
            for source, target in self._writes:
                env[target].copy_(plain(env[source]))
        return results


def _names_read(steps: Sequence[Step]) -> set[str]:
    """Return the names of numbers that are read from tensors, or computed from these."""
    found = set[str]()
    for step in steps:
        reads = step.target.split(".")[-2:-1] in (["item"], ["_local_scalar_dense"])
        if reads or step.target in HOST and found.intersection(names_in(step.args)):
            found.update(names_in(step.results))
    return found


def _is_written(name: str, steps: Sequence[Step]) -> bool:
    """Return whether a step writes in place to a value or to a view of it."""
    views = {name}
    for step in steps:
        if not views.intersection(names_in(step.args[:1])):
            continue
        base = step.target.rpartition(".")[0].rpartition(".")[2]
        if base.endswith("_") and not base.startswith("_"):
            return True
        if base in VIEWS or step.target == "_operator.getitem":
            views.update(names_in(step.results))
    return False


def _size(size: dict[str, Any]) -> int | str | Linear:
    return int(size["as_int"]) if "as_int" in size else size_of(size["as_expr"]["expr_str"])


def read_module(file: BinaryIO) -> Pt2Module:
    """Return the module of a ``.pt2`` file.

    Args:
        file: Opened for reading bytes. Nothing in it is executed.

    Raises:
        ValueError: The file is damaged, or of another kind.
        NotImplementedError: The graph has operators that are not supported; the text lists them.
    """
    with explained("load"):
        archive = Archive(file)
        old = "serialized_exported_program.json"
        if old in archive:
            program = archive.json(old)
            weights, constants = (_Tensors(archive, "", f"serialized_{name}") for name in ("state_dict", "constants"))
        else:
            models = archive.names("models/", ".json")
            if len(models) != 1:
                raise damaged(f"it has {len(models)} models, want one")
            name = models[0][len("models/") : -len(".json")]
            program = archive.json(models[0])
            weights = _Tensors(archive, "data/weights", name)
            constants = _Tensors(archive, "data/constants", name)
        version = program["schema_version"]
        if version["major"] not in MAJORS:
            raise unsupported(f"the schema's version is {version['major']}.{version['minor']}, want {MAJORS}")
        return Pt2Module(program, weights, constants)


def load(path: str | os.PathLike[str]) -> Any:
    """Return the program of a ``.pt2`` file that ``torch.export.save`` wrote.

    Inputs have the names of ``graph_signature.user_inputs``. Dims have the names and ranges of the file.

    Args:
        path: Of the file. Nothing in it is executed.

    Returns:
        A :class:`torchlette.export.ExportedProgram`.

    Raises:
        OSError: The file cannot be read.
        ValueError: The file is damaged, or of another kind.
        NotImplementedError: The graph has operators that are not supported; the text lists them.
    """
    with open(path, "rb") as file:
        module = read_module(file)
    with explained("load"):
        return module.program()
