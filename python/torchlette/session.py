"""Inference sessions: a program that runs many times, without recording anything.

The names are onnxruntime's. A session is opened on a file of :func:`torchlette.export.save`, of ``torch.export.save``
or of ONNX, or on an exported program. Its first run on arguments of a shape compiles a plan for that shape. Later runs
bind the arguments and results, and call the device.
"""

from __future__ import annotations

import dataclasses
import json
import os
import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from torchlette import _C
from torchlette._runtime import dtype_table
from torchlette._runtime.errors import OutOfMemoryError

if TYPE_CHECKING:
    from numpy import ndarray

    from torchlette.export import ExportedProgram
    from torchlette.onnx.graph import OnnxModule

__all__ = ["InferenceSession", "IOBinding", "NodeArg"]

_ONNX = {"float32": "float", "float64": "double"}
#: NumPy's names of the dtypes, by onnxruntime's.
_NUMPY = {
    _ONNX.get(name, name): name
    for name in (str(d).rpartition(".")[2] for d in dtype_table.DTYPES)
    if name != "bfloat16"
}
#: How many shapes of inputs a session remembers the shapes of the outputs of.
_MAX_SHAPES = 64
_MAX_THREADS = 1 << 16
#: How many programs a session of an ONNX graph keeps that has one for each shape.
_MAX_PROGRAMS = 16


@dataclasses.dataclass(frozen=True)
class NodeArg:
    """An input or an output of a session."""

    name: str
    #: A size is an int; one that may differ from run to run is the text of its expression.
    shape: list[int | str | None]
    #: Such as ``"tensor(float)"``, ``"tensor(int64)"``.
    type: str


def _kind(dtype: _C.dtype) -> str:
    name = str(dtype).rpartition(".")[2]
    return _ONNX.get(name, name)


def _args(entries: list[dict[str, Any]]) -> list[NodeArg]:
    return [
        NodeArg(
            e["name"],
            [(text or None) if n < 0 else n for n, text in zip(e["shape"] or (), e["dims"] or (), strict=True)],
            f"tensor({_ONNX.get(e['dtype'], e['dtype'])})",
        )
        for e in entries
    ]


def _device(name: Any) -> int:
    """Return the engine's number of a device."""
    d = _C.device(name)
    if d.type == "cpu":
        return 0
    if d.type in ("wgpu", "cuda"):
        return 1 + (d.index or 0)
    raise ValueError(f"InferenceSession: device: got {name!r}, want 'cpu' or 'wgpu'")


def _on_host(t: _C.Tensor) -> ndarray[Any, Any]:
    """Return an array over a tensor's elements, a copy of a GPU's. A plain tensor of the CPU needs no operator."""
    if t.requires_grad:
        t = t.detach()
    if t.device.type != "cpu":
        t = t.cpu()
    found: ndarray[Any, Any] = t.view(_C.int16).numpy().view("uint16") if t.dtype == _C.bfloat16 else t.numpy()
    return found


def _tensor_of(a: ndarray[Any, Any], kind: str) -> _C.Tensor:
    """Return a tensor over an array that nobody else has; of bfloat16 the array has the bits."""
    if kind != "bfloat16":
        return _C.from_numpy(a)
    from torchlette.io.mapped import tensor_over

    elements: Any = a.reshape(-1)
    return tensor_over(memoryview(elements).cast("B"), _C.bfloat16, a.shape)


class _Opened:
    """A program that the engine has opened, with the shapes of the outputs for each shape of the inputs."""

    def __init__(self, program: ExportedProgram, options: tuple[int, int, str], sole: bool = False) -> None:
        """Open a session of the engine on a device, with a number of threads and a precision.

        ``sole``: nobody else has the program's tensors or will use them, so the engine may free them.
        """
        if options[0]:
            from torchlette.export.doubles import without_doubles

            program = without_doubles(program, program.constants, "wgpu")
        self.session = _C._session_of(program.number, [t.detach() for t in program.constants], sole, *options)
        ports = json.loads(_C._session_info(self.session, "session_ports"))
        self.inputs, self.outputs = _args(ports["inputs"]), _args(ports["outputs"])
        self.kinds = [a.type[7:-1] for a in self.outputs]
        self._made: dict[tuple[Any, ...], list[tuple[str, tuple[int, ...]]]] = {}

    def new_outputs(self, inputs: tuple[ndarray[Any, Any], ...]) -> tuple[ndarray[Any, Any], ...]:
        """Return new arrays for the outputs of these inputs."""
        import numpy as np

        key = tuple([a.shape for a in inputs])
        made = self._made.get(key)
        if made is None:
            shapes = _C._session_prepare(self.session, inputs)
            made = [(_NUMPY.get(kind, "uint16"), shape) for kind, (_, shape) in zip(self.kinds, shapes, strict=True)]
            if len(self._made) >= _MAX_SHAPES:
                self._made.clear()
            self._made[key] = made
        try:
            return tuple([np.empty(shape, dtype) for dtype, shape in made])
        except (MemoryError, ValueError) as exc:  # NumPy's ValueError: more bytes than an address can count
            raise OutOfMemoryError(f"session: no memory for the outputs, whose shapes are {made}: {exc}") from None


class _ByShape:
    """An ONNX graph with a program for each shape of its inputs, and for each value of its inputs without dims."""

    def __init__(self, module: OnnxModule, options: tuple[int, int, str]) -> None:
        """Keep the graph; nothing is recorded yet."""
        self._module, self._options = module, options
        self._lock = threading.Lock()
        self._programs: dict[tuple[Any, ...], _Opened] = {}
        specs = list(module.input_specs())
        self._shapes = {name: shape for name, _, shape in specs}
        self.inputs = [NodeArg(name, list(shape), f"tensor({_kind(dtype)})") for name, dtype, shape in specs]
        self.outputs = [NodeArg(name, shape, f"tensor({_kind(dtype)})") for name, dtype, shape in module.output_specs()]

    def opened(self, inputs: tuple[ndarray[Any, Any], ...]) -> tuple[_Opened, tuple[ndarray[Any, Any], ...]]:
        """Return the program for the shapes and numbers of these inputs, and its arguments: the inputs with dims."""
        fixed: dict[str, Any] = {}
        rest = []
        for (name, shape), a in zip(self._shapes.items(), inputs, strict=True):
            if len(shape) != a.ndim:
                raise ValueError(f"session: input {name!r}: got the shape {list(a.shape)}, want {shape}")
            if not shape:
                fixed[name] = a.item()
                continue
            rest.append(a)
            for want, got in zip(shape, a.shape, strict=True):
                if fixed.setdefault(want, got) != got if isinstance(want, str) else want != got:
                    raise ValueError(f"session: input {name!r}: got the shape {list(a.shape)}, want {shape}")
        key = tuple(fixed.items())
        with self._lock:
            found = self._programs.get(key)
            if found is None:
                found = _Opened(self._module.program(fixed), self._options)
                if len(self._programs) >= _MAX_PROGRAMS:
                    del self._programs[next(iter(self._programs))]
                self._programs[key] = found
        return found, tuple(rest)


def _opened(source: Any, options: tuple[int, int, str]) -> _Opened | _ByShape:
    """Open the program of a path or of a file's bytes, whose kind the content tells, or the program itself.

    An ONNX graph that is a program at given sizes only, or whose branches depend on a number, gets one for each shape.
    """
    if isinstance(source, (bytearray, memoryview)):
        source = bytes(source)
    if not isinstance(source, (str, os.PathLike, bytes)):
        if not hasattr(source, "constants") or not hasattr(source, "number"):
            kind = type(source).__name__
            raise TypeError(f"InferenceSession: got {kind}, want a path, the bytes of a file, or an exported program")
        return _Opened(source, options)
    from torchlette.export.files import open_model, read_onnx

    module = read_onnx(source)
    if module is None:
        return _Opened(open_model(source), options, sole=True)
    try:
        program = module.program()
    except (ValueError, RuntimeError):
        if all(shape and all(isinstance(n, int) for n in shape) for _, _, shape in module.input_specs()):
            raise
        return _ByShape(module, options)
    return _Opened(program, options, sole=True)


class InferenceSession:
    """A program that runs on changing inputs.

    Any thread may run it, and many sessions may run at once. A session on the CPU has its own threads and packed copies
    of its weights. Sizes that the program leaves open may differ from run to run; the session keeps the plans of
    the 16 latest shapes.

    Buffers that the program writes, such as a cache or a running mean, belong to the session: the next run reads what a
    run wrote, and :meth:`reset` restores their first values. Runs wait for each other.

    An ONNX graph may have no program for all sizes, for example if an input selects a branch. The session then records
    a program for each shape of the inputs, and for each value of inputs without dims.
    """

    def __init__(
        self,
        path_or_program: Any,
        device: Any = "cpu",
        threads: int | None = None,
        precision: Any = None,
    ) -> None:
        """Open a session.

        Args:
            path_or_program: A path, the bytes of a file, or what :func:`torchlette.export.export` returned. The session
                has the program's tensors as they are now. Of a file it holds each weight once; a program's own tensors
                stay in memory beside the session's packed copies, as long as the program lives.
            device: Where it runs: ``"cpu"``, ``"wgpu"``, ``"wgpu:1"``.
            threads: How many threads run on the CPU; ``None``: as many as there are cores.
            precision: The dtype that products and convolutions of float32 cast to, as autocast does: ``float16`` or
                ``bfloat16``. ``None`` for none.

        Raises:
            OSError: There is no such file.
            ValueError: The file is damaged; ``threads`` or ``precision`` is wrong.
            RuntimeError: There is no such device.
        """
        if threads is not None and (
            isinstance(threads, bool) or not isinstance(threads, int) or not 1 <= threads <= _MAX_THREADS
        ):
            raise ValueError(
                f"InferenceSession: threads: got {threads!r}, want an int from 1 to {_MAX_THREADS}, or None"
            )
        low = "" if precision is None else str(precision).rpartition(".")[2]
        if low not in ("", "float16", "bfloat16"):
            raise ValueError(f"InferenceSession: precision: got {precision!r}, want float16, bfloat16 or None")
        ports = _opened(path_or_program, (_device(device), threads or 0, low))
        self._by_shape = ports if isinstance(ports, _ByShape) else None
        self._opened = ports if isinstance(ports, _Opened) else None
        self._device = _C.device(device)
        self._inputs, self._outputs = ports.inputs, ports.outputs
        self._names = [a.name for a in self._inputs]
        self._kinds = [a.type[7:-1] for a in self._outputs]

    def get_inputs(self) -> list[NodeArg]:
        """Return the inputs: objects with ``name``, ``shape`` and ``type``."""
        return list(self._inputs)

    def get_outputs(self) -> list[NodeArg]:
        """Return the outputs: objects with ``name``, ``shape`` and ``type``."""
        return list(self._outputs)

    def get_providers(self) -> list[str]:
        """Return the device's name, in a list."""
        return [str(self._device)]

    def run(self, output_names: Sequence[str] | None, input_feed: Mapping[str, Any]) -> list[ndarray[Any, Any]]:
        """Run the program on NumPy arrays.

        Args:
            output_names: The outputs to return; ``None`` or an empty list for all, as in onnxruntime.
            input_feed: An array for each input, of its dtype, with any strides. Bits of bfloat16 are uint16. Lists of
                numbers get the input's dtype.

        Returns:
            New arrays, which later runs leave alone.

        Raises:
            ValueError: An input is missing, unknown, or of another dtype or shape; an output is unknown. The session
                can be used on.
        """
        wanted = [self._output(name) for name in output_names or ()]
        opened, inputs = self._for(self._arrays(input_feed))
        outputs = opened.new_outputs(inputs)
        _C._session_run(opened.session, inputs, outputs)
        return [outputs[k] for k in wanted] if wanted else list(outputs)

    def _output(self, name: str) -> int:
        for k, a in enumerate(self._outputs):
            if a.name == name:
                return k
        raise ValueError(f"session: unknown output {name!r}: want {[a.name for a in self._outputs]}")

    def _arrays(self, feed: Mapping[str, Any]) -> tuple[ndarray[Any, Any], ...]:
        """Return the inputs in order, each contiguous."""
        import numpy as np

        for name in feed:
            if name not in self._names:
                raise ValueError(f"session: unknown input {name!r}: want {self._names}")
        arrays = []
        for k, name in enumerate(self._names):
            if name not in feed:
                raise ValueError(f"session: missing input {name!r}: want {self._names}")
            a = feed[name]
            if isinstance(a, (list, tuple)):
                a = np.asarray(a, _NUMPY.get(self._inputs[k].type[7:-1], "uint16"))
            elif not isinstance(a, np.ndarray):
                a = np.asarray(a)
            if not (a.flags.c_contiguous and a.flags.aligned):
                a = np.require(a, requirements=["C", "A"]).reshape(a.shape)  # require gives 0-dim arrays a dim
            arrays.append(a)
        return tuple(arrays)

    def _for(self, inputs: tuple[ndarray[Any, Any], ...]) -> tuple[_Opened, tuple[ndarray[Any, Any], ...]]:
        """Return the program that runs these inputs, and its arguments."""
        if self._by_shape is None:
            assert self._opened is not None
            return self._opened, inputs
        opened, inputs = self._by_shape.opened(inputs)
        self._opened = opened
        return opened, inputs

    def _info(self, what: str) -> Any:
        if self._opened is None:
            raise RuntimeError("session: this graph has a program for each shape: run it first")
        return json.loads(_C._session_info(self._opened.session, what))

    def __call__(self, *tensors: _C.Tensor) -> Any:
        """Run the program on tensors, in the order of the inputs.

        Returns:
            A tensor on the session's device, or a tuple of tensors where there are several outputs.
        """
        if len(tensors) != len(self._names):
            raise ValueError(f"session: got {len(tensors)} inputs, want {len(self._names)}: {self._names}")
        for name, t in zip(self._names, tensors, strict=True):
            if not isinstance(t, _C.Tensor):
                raise TypeError(f"session: input {name!r}: got {type(t).__name__}, want a tensor")
        feed = {name: _on_host(t) for name, t in zip(self._names, tensors, strict=True)}
        results = [
            _tensor_of(a, kind).to(self._device) for kind, a in zip(self._kinds, self.run(None, feed), strict=True)
        ]
        return results[0] if len(results) == 1 else tuple(results)

    def io_binding(self) -> IOBinding:
        """Return a binding of arrays to the inputs and outputs, for :meth:`run_with_iobinding`."""
        return IOBinding(self)

    def run_with_iobinding(self, binding: IOBinding) -> None:
        """Run the program on the bound arrays. On the CPU nothing is copied.

        Raises:
            ValueError: The binding is another session's; an array is missing, or of another dtype or shape.
        """
        if binding._of is not self:
            raise ValueError("session: the binding is of another session: make one with io_binding()")
        _C._session_run_bound(binding._ready())

    def reset(self) -> None:
        """Give buffers that the program writes the values that they had when the session was opened."""
        if self._opened is not None:
            _C._session_reset(self._opened.session)

    def memory_plan(self) -> dict[str, Any]:
        """Return the memory of one run, in bytes, for the shapes of the last run, or of the smallest inputs before one.

        Returns:
            ``peak_bytes``: what the session takes: ``weight_bytes``, weights for all shapes so far, which are
            ``pack_bytes``, packed copies, and ``in_place_bytes``, constants that plans read where they lie;
            ``state_bytes``, what the program writes; and the largest arena, which the plans share. Of the last plan:
            ``arena_bytes``: what the intermediate values take together; ``sum_bytes``: what they would take without
            sharing; ``live_bytes``: the most that is in use at one time. ``parts`` has offset, bytes, and first and
            last step of each. ``constant_bytes``, ``packed_bytes``, ``output_bytes``: weights and constants, their
            packed copies, outputs. ``input_shapes``: the shapes of the plan.
        """
        plan: dict[str, Any] = self._info("session_memory")
        return plan

    def profile(self) -> list[dict[str, Any]]:
        """Time the steps of the last run's plan in one more run, on zeros.

        Returns:
            For each step in order: ``op``, the primitive, ``kernel``, ``shape`` of the result, ``time_us``, ``flops``,
            ``bytes`` and ``device``.
        """
        steps: list[dict[str, Any]] = self._info("session_profile")
        return steps


class IOBinding:
    """Arrays that are the inputs and outputs of a session, in place."""

    def __init__(self, session: InferenceSession) -> None:
        """Begin without arrays."""
        self._of = session
        self._in: dict[str, Any] = {}
        self._out: dict[str, Any] = {}
        self._bound: Any = None
        # One array for each output: the caller's, or one made here where the caller bound None.
        self._results: list[ndarray[Any, Any]] = []

    def bind_input(self, name: str, array: ndarray[Any, Any]) -> None:
        """Bind an array, which must be contiguous. Its contents may change between runs.

        An ONNX graph that has a program for each shape takes the values of inputs without dims when they are bound.
        """
        if name not in self._of._names:
            raise ValueError(f"session: unknown input {name!r}: want {self._of._names}")
        self._in[name], self._bound = array, None

    bind_cpu_input = bind_input

    def bind_output(self, name: str, array: ndarray[Any, Any] | None = None) -> None:
        """Bind a contiguous array of the output's dtype and shape; ``None``: a new one for each shape of the inputs."""
        self._of._output(name)
        if array is not None and not hasattr(array, "dtype"):
            raise TypeError(f"session: output {name!r}: got {type(array).__name__}, want an array")
        self._out[name], self._bound = array, None

    def get_outputs(self) -> list[ndarray[Any, Any]]:
        """Return the arrays of the outputs, which the next run writes again.

        Raises:
            RuntimeError: There was no run yet, which makes arrays for outputs that were bound to none.
        """
        found = [self._out.get(a.name) for a in self._of._outputs]
        if not self._results and any(a is None for a in found):
            raise RuntimeError("session: the binding has no outputs yet: run it first")
        return [self._results[k] if a is None else a for k, a in enumerate(found)]

    def copy_outputs_to_cpu(self) -> list[ndarray[Any, Any]]:
        """Return copies of the outputs."""
        return [a.copy() for a in self.get_outputs()]

    def _ready(self) -> Any:
        if self._bound is None:
            inputs = self._of._arrays(self._in)
            for name, a in zip(self._of._names, inputs, strict=True):
                if a is not self._in[name]:
                    raise ValueError(f"session: input {name!r}: a bound array must be contiguous and aligned")
            import numpy as np

            opened, taken = self._of._for(inputs)
            results: list[ndarray[Any, Any]] = []
            for port, new in zip(self._of._outputs, opened.new_outputs(taken), strict=True):
                given = self._out.get(port.name)
                given = new if given is None else given
                if given.dtype != new.dtype or given.shape != new.shape:
                    raise ValueError(
                        f"session: output {port.name!r}: got {given.dtype} of shape {given.shape}, "
                        f"want {new.dtype} of shape {new.shape}"
                    )
                if any(np.may_share_memory(given, x) for x in inputs):
                    raise ValueError(f"session: output {port.name!r} shares memory with an input")
                if any(np.may_share_memory(given, x) for x in results):
                    raise ValueError(f"session: output {port.name!r} shares memory with another output")
                results.append(given)
            self._bound = _C._session_bind(opened.session, taken, tuple(results))
            self._results = results
        return self._bound
