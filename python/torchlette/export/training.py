"""Training programs: forward, backward and the optimizer's update in one program, with state in and state out."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from torchlette import _C
from torchlette._runtime.errors import Unsupported
from torchlette._runtime.supplied import Supply, host_numbers
from torchlette.autograd import no_grad
from torchlette.export.files import read
from torchlette.export.nests import filled, flattened, matched, parts
from torchlette.export.program import (
    ExportedProgram,
    aliases,
    constant,
    describe,
    further_names,
    named_tensors,
    run,
)
from torchlette.export.tracing import Replaced, check_replaced, left_alone, parameter_names, record
from torchlette.nn.modules.module import Module
from torchlette.optim.optimizer import Optimizer

__all__ = ["TrainingSession", "export_training"]

#: The function that gives the loss in evaluation mode, and the prefix of those that train.
EVALUATE, STEP = "evaluate", "step_"
#: The number that tells the first step, which makes the optimizer's state, from later ones.
STARTED = "optimizer.started"
#: Steps for which the numbers of an optimizer are computed, to find those that need a function of their own.
_FORESEEN, _MOST_FUNCTIONS = 64, 8


@contextmanager
def _undone(module: Module, optimizer: Optimizer) -> Iterator[None]:
    """Restore the optimizer's state and the modes of all modules."""
    modes = [(m, m.training) for m in module.modules()]
    entries = [(p, entry, dict(entry)) for p, entry in optimizer.state.items()]
    called = optimizer.__dict__.get("_opt_called")
    try:
        yield
    finally:
        for m, mode in modes:
            m.training = mode
        optimizer.state.clear()
        for p, entry, content in entries:
            entry.clear()
            entry.update(content)
            optimizer.state[p] = entry
        if called is None:
            optimizer.__dict__.pop("_opt_called", None)


class _Exporter:
    """The export of one training step."""

    def __init__(
        self, module: Module, loss_fn: Callable[..., Any], optimizer: Optimizer, args: tuple[Any, ...]
    ) -> None:
        self.module, self.loss_fn, self.optimizer = module, loss_fn, optimizer
        self.inputs: list[_C.Tensor] = []
        self.labels: list[str] = []
        names = parameter_names(loss_fn, len(args) + 1)[1:]
        self.nests = [flattened(v, self.inputs, self.labels, n) for n, v in zip(names, args, strict=True)]
        self.names = names
        self.constants: list[tuple[str, str, _C.Tensor]] = named_tensors(module)
        self.numbers: dict[str, tuple[str, float]] = {}  # dtype and first value by name
        self.functions: dict[str, Any] = {}
        self.order = [p for group in optimizer.param_groups for p in group["params"]]
        held = {id(t) for _, _, t in self.constants}
        for i, p in enumerate(self.order):
            if id(p) not in held:
                self.constants.append((f"optimizer.param.{i}", "parameter", p))

    def _states(self) -> Iterator[tuple[str, str, Any]]:
        """Give name, key and value of the entries of the optimizer's state."""
        for i, p in enumerate(self.order):
            for key, value in self.optimizer.state.get(p, {}).items():
                yield f"optimizer.state.{i}.{key}", key, value

    def _is_number(self, key: str, value: Any) -> bool:
        return isinstance(value, _C.Tensor) and key in self.optimizer._NUMBERS

    def _number_name(self, names: dict[int, str], key: Any, i: int) -> str:
        """Return the name of a number that the optimizer supplies."""
        if isinstance(key[0], int) and len(key) == 2 and isinstance(key[1], str):
            for k, group in enumerate(self.optimizer.param_groups):
                if id(group) == key[0]:
                    return f"optimizer.param_groups.{k}.{key[1]}"
        return names[key[i]]

    def _train(self, stand_ins: list[_C.Tensor], made: list[str]) -> list[_C.Tensor]:
        """Do one step; return the loss, and the state that the step made, named in ``made``."""
        before = {name for name, _, _ in self._states()}
        self.optimizer.zero_grad()
        loss = self._loss(stand_ins)
        loss.backward()
        self.optimizer.step()
        results = [loss.detach()]
        for name, key, value in self._states():
            if name not in before and isinstance(value, _C.Tensor) and not self._is_number(key, value):
                made.append(name)
                results.append(value)
        return results

    def _loss(self, stand_ins: list[_C.Tensor]) -> _C.Tensor:
        loss = self.loss_fn(self.module, *filled({"tuple": self.nests}, stand_ins))
        if not isinstance(loss, _C.Tensor) or loss.numel() != 1:
            raise TypeError("export_training: loss_fn is wrong: it must return a tensor of one element")
        return loss

    def _recorded(self, call: Callable[[list[_C.Tensor]], list[_C.Tensor]]) -> dict[str, Any]:
        """Record a function; its values are numbered anew when all constants are known."""
        known = [t for _, _, t in self.constants]
        names = [name for name, _, _ in self.constants]
        replaced: Replaced = []

        def alone(stand_ins: list[_C.Tensor]) -> list[_C.Tensor]:
            with left_alone(self.module, replaced):
                return call(stand_ins)

        text, found = record(alone, self.inputs, known)
        check_replaced(replaced, found)
        for t in found:
            names.append(self._constant(t))
        return {**text, "names": names}

    def _constant(self, t: _C.Tensor) -> str:
        """Return the name of a tensor that a function took from outside."""
        for name, kind, other in self.constants:
            if kind == "tensor" and other.shape == t.shape and other.dtype == t.dtype:
                if _C._tobytes(other.detach()) == _C._tobytes(t.detach()):
                    return name
        name = f"constant_{len(self.constants)}"
        self.constants.append((name, "tensor", t))
        return name

    def step(self, first: bool) -> None:
        """Record a step for the numbers that the optimizer has now."""
        supply, made = Supply(), list[str]()
        before = {name for name, _, _ in self._states()}
        names: dict[int, str] = {}
        dtypes: dict[str, str] = {}

        def call(stand_ins: list[_C.Tensor]) -> list[_C.Tensor]:
            Supply.set_current(supply)
            try:
                results = self._train(stand_ins, made)
            finally:
                Supply.set_current(None)
            for name, key, value in self._states():
                if self._is_number(key, value):
                    names[id(value)], dtypes[name] = name, str(value.dtype).removeprefix("torch.")
            return results

        recorded = self._recorded(call)

        def number(key: Any, i: int) -> str:
            name = self._number_name(names, key, i)
            if name not in self.numbers:
                self.numbers[name] = dtypes.get(name, "float64"), float(supply.leaves(key, lambda: (), ())[i].now)
            return name

        computed = supply.formulas(number)
        if made or not first:
            computed["formulas"] += [("t_started", STARTED), ("t_running", "1")]
            computed["guards"].insert(0, {"formula": "t_started", "want": float(not first)})
            computed["writes"].append({"number": STARTED, "formula": "t_running"})
        self.functions[f"{STEP}{len(self.functions)}"] = {**recorded, **computed, "made": made}
        self._start(before)

    def _start(self, before: set[str]) -> None:
        """Give the optimizer real state in place of what a recording made."""
        for name, key, value in list(self._states()):
            if name in before or not isinstance(value, _C.Tensor):
                continue
            entry = self.optimizer.state[self.order[int(name.split(".")[2])]]
            if self._is_number(key, value):
                number, now = self.numbers.get(name, ("float32", 0.0))
                entry[key] = _C.tensor(now, dtype=getattr(_C, number), device="cpu")
            else:
                shape, dtype, device = self.shapes[name]
                entry[key] = _C.zeros(shape, dtype=dtype, device=device)
                self.constants.append((name, "state", entry[key]))

    @property
    def shapes(self) -> dict[str, tuple[list[int], _C.dtype, _C.device]]:
        """Shape, dtype and device of the state that the first step made, by name."""
        f = self.functions[f"{STEP}0"]
        base = len(self.inputs) + len(f["names"])
        outs = [o for s in f["steps"] for o in s["out"]]
        found = {}
        for name, value in zip(f["made"], f["outputs"][1:], strict=True):
            out = outs[int(value[1:]) - base]
            p = self.order[int(name.split(".")[2])]
            found[name] = out["shape"], getattr(_C, out["dtype"]), p.device
        return found


def _renumbered(f: dict[str, Any], inputs: int, constants: list[str]) -> dict[str, Any]:
    """Return a recorded function whose values count all constants of the program."""
    place = {name: i for i, name in enumerate(constants)}
    own, extra = f["names"], len(constants) - len(f["names"])

    def value(text: str) -> str:
        k = int(text[1:])
        if k >= inputs + len(own):
            return f"%{k + extra}"
        return text if k < inputs else f"%{inputs + place[own[k - inputs]]}"

    def argument(v: Any) -> Any:
        if isinstance(v, list):
            return [argument(x) for x in v]
        return value(v) if isinstance(v, str) and v[:1] == "%" else v

    def step(s: dict[str, Any]) -> dict[str, Any]:
        s = {**s, "args": {k: argument(v) for k, v in s["args"].items()}}
        if "body" in s:
            body = s["body"]
            inner, results = [step(b) for b in body["steps"]], [value(v) for v in body["results"]]
            s["body"] = {**body, "steps": inner, "results": results}
        return s

    steps = [step(s) for s in f["steps"]]
    state = [name for name, changed in zip(own, f["changed"][inputs:], strict=True) if changed]
    for name, made in zip(f.get("made", ()), f["outputs"][1:], strict=False):
        args = {"self": f"%{inputs + place[name]}", "src": value(made), "non_blocking": False}
        steps.append({"op": "copy_", "args": args, "out": [], "no_grad": True})
        state.append(name)
    kept: dict[str, Any] = {k: f[k] for k in ("formulas", "supplied", "guards", "writes") if k in f}
    return {"steps": steps, "outputs": [{"name": "loss", "value": value(f["outputs"][0])}], "state": state, **kept}


def export_training(
    module: Module, loss_fn: Callable[..., Any], optimizer: Optimizer, args: tuple[Any, ...]
) -> ExportedProgram:
    """Record a training step as a program: ``zero_grad``, ``loss_fn(module, *args)``, ``backward``, ``optimizer.step``.

    Nothing is computed, and module, optimizer and generator are as they were. Training starts from the module's
    current parameters and the optimizer's current state. Learning rates and step counts are numbers of the program.

    Args:
        module: The module to train. A step is recorded in its mode, and an evaluation of the loss in evaluation mode.
        loss_fn: Takes the module and ``args``; returns the loss, of one element.
        optimizer: An optimizer of this package. Its hooks run in the recording; so gradients can be clipped in a hook
            that runs before the step.
        args: Example arguments, tensors or nests of them, with the sizes of all later ones.

    Returns:
        The program, for :class:`TrainingSession` and ``export.save``.

    Raises:
        TypeError: ``args`` is no tuple, or ``loss_fn`` returns no number.
        Unsupported: The step calls a closure, a hook of a tensor or a ``torch.autograd.Function``, or depends on the
            step count in more ways than a program has functions.
    """
    if not isinstance(args, tuple):
        raise TypeError(f"export_training: args is wrong: got {type(args).__name__}, want a tuple")
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"export_training: optimizer is wrong: got {type(optimizer).__name__}, want one of torchlette")
    x = _Exporter(module, loss_fn, optimizer, args)
    with _undone(module, optimizer):
        x.numbers[STARTED] = "float64", 0.0
        for name, key, value in list(x._states()):
            if x._is_number(key, value):
                dtype = str(value.dtype).removeprefix("torch.")
                x.numbers[name] = dtype, float(host_numbers([value])[0])
            elif isinstance(value, _C.Tensor):
                x.constants.append((name, "state", value))
        x.step(first=True)
        _foresee(x)
        _evaluation(x)
        return ExportedProgram(_spec(x), [constant(t) for _, _, t in x.constants])


def _evaluation(x: _Exporter) -> None:
    x.module.eval()

    def call(stand_ins: list[_C.Tensor]) -> list[_C.Tensor]:
        with no_grad():
            return [x._loss(stand_ins)]

    recorded = x._recorded(call)
    if any(recorded["changed"][len(x.inputs) :]):
        raise Unsupported("export_training: loss_fn writes to parameters or buffers in evaluation mode")
    x.functions[EVALUATE] = recorded


def _foresee(x: _Exporter) -> None:
    """Record further steps for the numbers that the optimizer will have, where another step is needed for them."""
    current: dict[str, float] = {}
    for _ in range(_FORESEEN):
        current = {name: current.get(name, first) for name, (_, first) in x.numbers.items()}
        after = _after(x, list(current.values()))
        if after is None:
            if len(x.functions) == _MOST_FUNCTIONS:
                raise Unsupported("export_training: the optimizer's steps depend on their count in too many ways")
            for name, key, value in x._states():
                if x._is_number(key, value):
                    _C._set_numbers([value], [current[name]])
            x.step(first=False)
            current = {name: current.get(name, first) for name, (_, first) in x.numbers.items()}
            after = _after(x, list(current.values()))
            if after is None:
                raise Unsupported("export_training: the optimizer's step does not follow from its numbers")
        current = dict(zip(current, after, strict=True))


def _after(x: _Exporter, values: list[float]) -> list[float] | None:
    """Return the numbers after a step; None where no function is for them."""
    number = _C._program_parse(json.dumps(_spec(x)))
    try:
        for f in x.functions:
            if (found := _C._program_numbers(number, f, values, 1 << 16)) is not None:
                return found[1]
    finally:
        _C._captured_free(number)
    return None


def _spec(x: _Exporter) -> dict[str, Any]:
    """Return the program of what has been recorded so far."""
    names = [name for name, _, _ in x.constants]
    inputs = [
        {"name": n, "dtype": str(t.dtype).removeprefix("torch."), "shape": list(t.shape)}
        for n, t in zip(x.labels, x.inputs, strict=True)
    ]
    functions = {name: {"inputs": inputs, **_renumbered(f, len(inputs), names)} for name, f in x.functions.items()}
    return {
        "format": "torchlette program",
        "version": 1,
        "dims": [],
        "constants": [describe(*entry) for entry in x.constants],
        "numbers": [{"name": n, "dtype": d, "value": v} for n, (d, v) in x.numbers.items()],
        "functions": functions,
        "python": {
            "names": x.names,
            "args": x.nests,
            "kwargs": [],
            "training": True,
            "aliases": further_names(x.module),
        },
    }


class TrainingSession:
    """Runs a training program: it holds parameters, buffers, the optimizer's state and its numbers.

    Args:
        path_or_program: A file of ``export.save``, or what :func:`export_training` returned, which stays as it is.
        device: Where the program runs.

    Raises:
        ValueError: The program is not a result of :func:`export_training`.
    """

    def __init__(
        self, path_or_program: str | os.PathLike[str] | ExportedProgram, device: str | _C.device = "cpu"
    ) -> None:
        """Load the program."""
        if not isinstance(path_or_program, ExportedProgram):
            path_or_program = ExportedProgram(*read(path_or_program))
        program = self._program = path_or_program
        self._steps = [name for name in program.spec["functions"] if name.startswith(STEP)]
        if not self._steps:
            raise ValueError("TrainingSession: the program is wrong: it was not made by export_training")
        self.device = _C.device(device)
        self._names = [entry["name"] for entry in program.spec["constants"]]
        self._tensors = [
            t.detach().clone().to(self.device).requires_grad_(entry["requires_grad"])
            for entry, t in zip(program.spec["constants"], program.constants, strict=True)
        ]
        #: The numbers of the optimizer by name: learning rates (``optimizer.param_groups.0.lr``), and step counts.
        self.numbers: dict[str, float] = {n["name"]: n["value"] for n in program.spec.get("numbers", ())}

    def step(self, *args: Any, training: bool = True) -> _C.Tensor:
        """Do one step.

        Args:
            *args: As in the exported call; arrays of NumPy stand for tensors.
            training: ``False`` computes the loss in evaluation mode, and changes nothing.

        Returns:
            The loss, before the update.

        Raises:
            TypeError: The arguments are no nest like that of the exported call, or have other dtypes.
            ValueError: Their shapes are others.
        """
        nests, leaves = self._program.spec["python"], list[Any]()
        matched({"tuple": nests["args"]}, tuple(self._tensor(n, v) for n, v in _zipped(nests, args)), leaves, "args")
        loss = self._train(leaves) if training else run(self._program, EVALUATE, leaves, self._tensors)[0]
        loss._door = True  # a number for whoever asks, as in PyTorch
        return loss

    def _train(self, leaves: list[_C.Tensor]) -> _C.Tensor:
        """Run the step that fits the optimizer's numbers."""
        known = [n["name"] for n in self._program.spec.get("numbers", ())]
        if set(known) != set(self.numbers):
            odd = sorted(set(known) ^ set(self.numbers))
            raise ValueError(f"TrainingSession: numbers is wrong: unknown or missing are {odd}, want {known}")
        before = [self.numbers[n] for n in known]
        for name in self._steps:
            found = _C._program_numbers(self._program.number, name, before, 1 << 16)
            if found is not None:
                break
        else:
            raise RuntimeError(
                f"TrainingSession: no step of the program is for these numbers: {self.numbers}: the optimizer takes "
                f"another branch than it did when it was exported"
            )
        supplied, after = found
        loss = run(self._program, name, leaves, self._tensors, supplied)[0]
        self.numbers = dict(zip(known, after, strict=True))
        _C.flush()
        return loss

    def _tensor(self, nest: Any, value: Any) -> Any:
        """Return a nest with tensors on the session's device in place of arrays."""
        (kind, part), *_ = nest.items()
        if kind == "tensor":
            if not isinstance(value, _C.Tensor) and hasattr(value, "__array__"):
                value = _C.tensor(value)
            return value.to(self.device) if isinstance(value, _C.Tensor) else value
        if kind in ("list", "tuple") and isinstance(value, (list, tuple)) and len(value) == len(part):
            return type(value)([self._tensor(n, v) for n, v in zip(part, value, strict=True)])
        if kind in ("namedtuple", "dataclass") and (fields := parts(value)) is not None:
            inner = dict(map(tuple, part[1]))
            made = {k: self._tensor(inner[k], v) if k in inner else v for k, v in fields}
            return type(value)(**made)
        if kind == "dict" and isinstance(value, Mapping):
            nests = dict(map(tuple, part))
            return {k: self._tensor(nests[k], v) if k in nests else v for k, v in value.items()}
        return value

    def state_dict(self) -> dict[str, _C.Tensor]:
        """Return copies of all that a session needs to go on exactly, on the CPU.

        Parameters and buffers have the module's names, the optimizer's state and numbers names that begin with
        ``optimizer.``; ``generator`` is the state of the random generator.
        """
        state = {name: t.detach().clone().cpu() for name, t in zip(self._names, self._tensors, strict=True)}
        state.update({alias: state[name] for alias, name in aliases(self._program.spec).items()})
        state.update({name: _C.tensor(v, dtype=_C.float64, device="cpu") for name, v in self.numbers.items()})
        words = [w - (1 << 64) if w >> 63 else w for w in _C._rng_state()]
        state["generator"] = _C.tensor(words, dtype=_C.int64, device="cpu")
        return state

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Go on from what :meth:`state_dict` returned; values may be arrays.

        Raises:
            ValueError: Names are missing or unknown, or shapes differ.
        """
        wanted, given = {*self._names, *self.numbers, "generator"}, set(state_dict)
        given -= aliases(self._program.spec).keys()
        if wanted != given:
            raise ValueError(f"load_state_dict: missing: {sorted(wanted - given)}, unknown: {sorted(given - wanted)}")
        values = {k: v if isinstance(v, _C.Tensor) else _C.tensor(v) for k, v in state_dict.items()}
        for name, t in zip(self._names, self._tensors, strict=True):
            if values[name].shape != t.shape:
                raise ValueError(
                    f"load_state_dict: {name}: got shape {tuple(values[name].shape)}, want {tuple(t.shape)}"
                )
        with no_grad():
            for name, t in zip(self._names, self._tensors, strict=True):
                t.copy_(values[name])
        self.numbers = {name: values[name].item() for name in self.numbers}
        _C._set_rng_state(tuple(w % (1 << 64) for w in values["generator"].tolist()))


def _zipped(nests: dict[str, Any], args: tuple[Any, ...]) -> list[tuple[Any, Any]]:
    if len(args) != len(nests["args"]):
        raise TypeError(f"step: got {len(args)} arguments, want {len(nests['args'])}: {nests['names']}")
    return list(zip(nests["args"], args, strict=True))
