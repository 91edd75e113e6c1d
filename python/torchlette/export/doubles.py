"""Float64 of a program for a device without it: what depends on constants alone is computed on the CPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torchlette import _C
from torchlette._runtime.errors import DtypeError
from torchlette._runtime.random import restore_state, saved_state
from torchlette.autograd.grad_mode import no_grad
from torchlette.export.program import FORWARD, ExportedProgram, describe, run
from torchlette.export.rewriting import number_of, reads, renumbered

__all__ = ["without_doubles"]

_DOUBLE = "float64"
_FLOATS = ("float32", "float16", "bfloat16")


def without_doubles(program: ExportedProgram, constants: Sequence[_C.Tensor], device: str) -> ExportedProgram:
    """Return a program that computes nothing in float64 that depends on constants alone.

    Float64 constants without dims that are combined with tensors of other floats become float32: they take part in no
    promotion. The other constants are those of ``constants``, and the program is the same where it has no float64.

    Args:
        program: For inference.
        constants: The tensors of its constants, on the CPU where they are float64.
        device: The name of the device on which the program is to run, for errors.

    Raises:
        DtypeError: A step computes in float64 with an input, or a result is float64.
    """
    if list(program.spec["functions"]) != [FORWARD]:
        return program
    return _Folding(program, constants, device).result()


def _fixed(args: Any) -> bool:
    """Return whether arguments have no sizes that differ, and no numbers that a call supplies."""
    if isinstance(args, str):
        return args[:1] not in ("=", "$")
    if isinstance(args, (list, dict)):
        return all(map(_fixed, args.values() if isinstance(args, dict) else args))
    return True


def _writes(step: Mapping[str, Any]) -> bool:
    """Return whether a step writes to its operand: in place, or as copy_ does, which has no result."""
    return bool(step.get("mode")) or not step["out"]


class _Folding:
    """One program's float64."""

    def __init__(self, program: ExportedProgram, constants: Sequence[_C.Tensor], device: str) -> None:
        self.program, self.constants, self.device = program, list(constants), device
        self.function = program.spec["functions"][FORWARD]
        self.steps: list[dict[str, Any]] = self.function["steps"]
        self.inputs, self.named = len(self.function["inputs"]), program.spec["constants"]
        self.values: list[dict[str, Any]] = [*self.function["inputs"], *self.named]
        self.first: list[int] = []
        for step in self.steps:
            self.first.append(len(self.values))
            self.values += step["out"]
        self.results = [number_of(v["value"]) for v in self.function["outputs"]]
        # Constants that the folded program has beside the old ones, and their numbers, "%+0" and so on.
        self.extra: list[_C.Tensor] = []

    def _is_double(self, value: int) -> bool:
        dtype: str = self.values[value]["dtype"]
        return dtype == _DOUBLE

    def _made(self, i: int) -> range:
        return range(self.first[i], self.first[i] + len(self.steps[i]["out"]))

    def _touched(self, i: int) -> set[int]:
        """Return the operands and results of a step."""
        return reads(self.steps[i], self.first[i]).union(self._made(i))

    def _constant_steps(self) -> set[int]:
        """Return the steps whose operands are constants, or results of such steps.

        A value that another step writes to is no constant, nor are those that it may be a view of.
        """
        state = {self.inputs + i for i, c in enumerate(self.named) if c["name"] in self.function["state"]}
        written = set(state)
        while True:
            known = {self.inputs + i for i in range(len(self.named))} - written
            found, before = set[int](), len(written)
            for i, step in enumerate(self.steps):
                operands = reads(step, self.first[i])
                fixed = "body" not in step and not step.get("autocast") and _fixed(step["args"])
                if fixed and operands <= known and not written.intersection(self._made(i)):
                    found.add(i)
                    known.update(self._made(i))
                elif _writes(step):
                    written.update(operands)
            for i in reversed(range(len(self.steps))):
                if written.intersection(self._made(i)):
                    written |= reads(self.steps[i], self.first[i])
            if len(written) == before:
                return found

    def result(self) -> ExportedProgram:
        """Return the program without them, or the program itself where it has none."""
        if not any(map(self._is_double, range(len(self.values)))):
            return self.program
        foldable = self._constant_steps()
        folded = {i for i in foldable if any(map(self._is_double, self._touched(i)))}
        made = {value for i in folded for value in self._made(i)}
        rest = [i for i in range(len(self.steps)) if i not in folded]
        wanted = {n for i in rest for n in reads(self.steps[i], self.first[i])} | set(self.results)
        numbers = self._computed(sorted(wanted & made), foldable)
        for i, t in enumerate(self.constants):
            if t.dtype == _C.float64 and self.named[i]["name"] not in self.function["state"]:
                numbers[self.inputs + i] = t
        return self._assembled(folded, numbers)

    def _computed(self, wanted: list[int], foldable: set[int]) -> dict[int, _C.Tensor]:
        """Run the constant steps that these values need."""
        needed, steps = set(wanted), list[int]()
        for i in sorted(foldable, reverse=True):
            step = self.steps[i]
            if _writes(step) or needed.intersection(self._made(i)):
                steps.insert(0, i)
                needed |= reads(step, self.first[i])
        if not wanted:
            return {}
        taken = [i for i in range(len(self.named)) if self.inputs + i in needed]
        # The first constant says where a program without inputs runs.
        at_home = _C.zeros([1], dtype=_C.float32, device="cpu")
        tensors = [at_home, *(self.constants[i].detach().to("cpu") for i in taken)]
        numbers = {f"%{self.inputs + i}": f"%{k + 1}" for k, i in enumerate(taken)}
        listed, count = list[dict[str, Any]](), len(tensors)
        for i in steps:
            listed += renumbered([self.steps[i]], numbers, self.first[i], count)
            count += len(self.steps[i]["out"])
        outputs = [{"name": f"value_{n}", "value": numbers[f"%{n}"]} for n in wanted]
        function = {"inputs": [], "steps": listed, "outputs": outputs, "state": []}
        spec = {
            **self.program.spec,
            "dims": [],
            "constants": [describe(f"constant_{k}", "tensor", t) for k, t in enumerate(tensors)],
            "functions": {FORWARD: function},
            "python": {},
        }
        before = saved_state()
        with no_grad():
            values = run(ExportedProgram(spec, tensors), FORWARD, [], [t.clone() for t in tensors])
        if saved_state() != before:
            restore_state(before)
            raise DtypeError(f"the program draws numbers in float64, which {self.device} does not have")
        return dict(zip(wanted, values, strict=True))

    def _assembled(self, folded: set[int], numbers: dict[int, _C.Tensor]) -> ExportedProgram:
        """Return the program in which constants stand for the values of ``numbers``."""
        names: dict[tuple[int, bool], str] = {}

        def constant(value: int, low: bool) -> str:
            if (value, low) not in names:
                names[value, low] = f"%+{len(self.extra)}"
                t = numbers[value]
                self.extra.append((t.to(_C.float32) if low else t).detach().contiguous())
            return names[value, low]

        steps: list[dict[str, Any]] = []
        for i, step in enumerate(self.steps):
            if i in folded:
                steps.append(step)
                continue
            operands = reads(step, self.first[i])
            floats = any(v["dtype"] in _FLOATS and v["shape"] for v in map(self.values.__getitem__, operands))
            own: dict[str, str] = {}
            for n in self._touched(i):
                if self._is_double(n) and (n not in numbers or self.values[n]["shape"] or not floats):
                    self._refuse(i, n)
                if n in numbers:
                    own[f"%{n}"] = constant(n, self._is_double(n))
            first = self.first[i]
            steps += renumbered([step], own, first, first) if own else [step]
        for n in self.results:
            if self._is_double(n):
                raise DtypeError(f"the program's result %{n} is float64, which {self.device} does not have")
        ends = {n: constant(n, False) for n in self.results if n in numbers}
        return self._renumbered(steps, folded, ends)

    def _refuse(self, i: int, value: int) -> None:
        step = self.steps[i]
        at = f", recorded at {step['at']}" if step.get("at") else ""
        raise DtypeError(
            f"step {i} of the program, {step['op']}, computes with %{value} in float64, which {self.device} does not "
            f"have{at}: run it on the CPU, or cast to float32 before"
        )

    def _renumbered(self, steps: list[dict[str, Any]], folded: set[int], ends: dict[int, str]) -> ExportedProgram:
        kept = [i for i, t in enumerate(self.constants) if t.dtype != _C.float64]
        total = self.inputs + len(kept)
        numbers = {f"%{self.inputs + c}": f"%{self.inputs + i}" for i, c in enumerate(kept)}
        numbers |= {f"%+{i}": f"%{total + i}" for i in range(len(self.extra))}
        first = self.inputs + len(self.named)
        after = renumbered(steps, numbers, first, total + len(self.extra), frozenset(folded))
        outputs = [
            {**v, "value": numbers.get(text := ends.get(number_of(v["value"]), v["value"]), text)}
            for v in self.function["outputs"]
        ]
        taken, listed = {c["name"] for c in self.named}, [self.named[i] for i in kept]
        for k, t in enumerate(self.extra):
            name = f"folded_{k}"
            while name in taken:
                name += "_"
            listed.append(describe(name, "tensor", t))
        spec = {**self.program.spec, "constants": listed}
        spec["functions"] = {FORWARD: {**self.function, "steps": after, "outputs": outputs}}
        python = spec["python"]
        if "aliases" in python:
            left = {c["name"] for c in listed}
            spec["python"] = {**python, "aliases": {a: n for a, n in python["aliases"].items() if n in left}}
        return ExportedProgram(spec, [self.constants[i] for i in kept] + self.extra)
