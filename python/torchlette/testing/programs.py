"""Random programs over tensors: views, in-place writes, draws and autograd.

A program is data: a list of :class:`Step` over registers. It runs under any module with PyTorch's
names. Shapes and structures come from a bounded set, so many programs share few kernels.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Outcome", "Program", "Step", "generate", "run"]

#: Sizes of the first tensors. Both dimensions are equal in one of them, so that t() keeps the shape.
SHAPES: tuple[tuple[int, ...], ...] = ((4, 6), (5, 5), (7,))

UNARY = ("neg", "abs", "exp", "tanh", "sigmoid", "relu", "sin", "square")
BINARY = ("add", "sub", "mul", "maximum", "div")
IN_PLACE = ("add_", "mul_", "sub_", "copy_")
REDUCE = ("sum", "mean", "amax")
VIEWS = ("t", "row", "tail", "even", "flat", "column", "narrow", "expand")
DRAWS = ("rand", "randn", "randint")


@dataclass(frozen=True)
class Step:
    """One statement: ``target = kind name(sources, number)``."""

    kind: str
    name: str
    target: int
    sources: tuple[int, ...] = ()
    number: float = 0.0

    def __str__(self) -> str:
        args = [f"r{s}" for s in self.sources] + (
            [f"{self.number:g}"] if self.kind in ("scalar", "scalar_", "leaf", "view", "reduce") else []
        )
        return f"r{self.target} = {self.kind}.{self.name}({', '.join(args)})"


@dataclass(frozen=True)
class Program:
    """Steps in order. ``seed`` gives the values of leaves and draws."""

    seed: int
    steps: tuple[Step, ...]

    def __str__(self) -> str:
        return f"seed {self.seed}\n" + "\n".join(f"  {s}" for s in self.steps)

    def without(self, index: int) -> Program:
        """Return the program without one step and the steps that depend on it."""
        gone: set[int] = set()
        kept = []
        for i, s in enumerate(self.steps):
            if i == index or gone.intersection(s.sources):
                if s.target not in {t.target for t in kept}:
                    gone.add(s.target)
                continue
            kept.append(s)
        return Program(self.seed, tuple(kept))


@dataclass
class Outcome:
    """The outcome of a run: register values, gradients of leaves, and the error class of each step that raised.

    A step that raises leaves its target unchanged, and the program goes on. A backward walk that raises ends the
    program, as the gradients accumulated by then are unspecified.
    """

    values: dict[int, list[float]] = field(default_factory=dict)
    shapes: dict[int, tuple[int, ...]] = field(default_factory=dict)
    gradients: dict[int, list[float] | None] = field(default_factory=dict)
    draws: dict[int, list[float]] = field(default_factory=dict)
    errors: dict[int, str] = field(default_factory=dict)


def generate(seed: int, length: int = 14) -> Program:
    """Make a random program. A step may raise; all runs must then raise the same class."""
    rng = random.Random(seed)
    steps: list[Step] = []
    registers = 0

    def pick() -> int:
        # Prefer late registers, for deep chains.
        return max(rng.randrange(registers), rng.randrange(registers))

    shape = rng.randrange(len(SHAPES))
    for _ in range(rng.randint(2, 4)):
        own = shape if rng.random() < 0.8 else rng.randrange(len(SHAPES))
        steps.append(Step("leaf", rng.choice(("grad", "plain")), registers, (), float(own)))
        registers += 1
    kinds = ["unary"] * 4 + ["binary"] * 5 + ["scalar"] * 3 + ["view"] * 5 + ["in_place"] * 4 + ["scalar_"] * 2
    kinds += [
        "fill_",
        "reduce",
        "reduce",
        "matmul",
        "draw",
        "detach",
        "read",
        "step",
        "where",
        "cat",
        "clone",
        "backward",
    ]
    for _ in range(length):
        kind = rng.choice(kinds)
        number = rng.choice((0.5, 2.0, -1.0, 0.25, 3.0))
        source: tuple[int, ...] = (pick(),)
        target, name = registers, kind
        if kind in ("unary", "reduce", "view", "draw"):
            name = rng.choice({"unary": UNARY, "reduce": REDUCE, "view": VIEWS, "draw": DRAWS}[kind])
            number = float(rng.randrange(3))
        elif kind in ("binary", "where", "cat", "matmul"):
            name = rng.choice(BINARY) if kind == "binary" else kind
            source = (pick(), pick())
        elif kind == "in_place":
            name, source = rng.choice(IN_PLACE), (pick(), pick())
        elif kind == "scalar":
            name = rng.choice(("add", "mul", "sub", "pow"))
            number = 2.0 if name == "pow" else number
        elif kind == "scalar_":
            name = rng.choice(("add_", "mul_"))
        if kind in ("in_place", "scalar_", "fill_", "read", "step", "backward"):
            target = source[0]
        else:
            registers += 1
        steps.append(Step(kind, name, target, source, number))
    return Program(seed, tuple(steps))


def _leaf_values(program: Program, step: Step) -> list[float]:
    rng = random.Random(program.seed * 1009 + step.target)
    shape = SHAPES[int(step.number)]
    count = 1
    for size in shape:
        count *= size
    return [round(rng.uniform(-1.5, 1.5), 3) or 0.5 for _ in range(count)]


def _view(t: Any, name: str, number: int) -> Any:
    if name == "t":
        return t.t()
    if name == "row":
        return t[number]
    if name == "tail":
        return t[1:]
    if name == "even":
        return t[..., ::2]
    if name == "flat":  # strides of results differ from PyTorch's, so whether view() copies would too
        return t.reshape(-1).clone()
    if name == "column":
        return t[:, number]
    if name == "narrow":
        return t.narrow(0, number, 2)
    return t.unsqueeze(0).expand(2, *t.shape)


class _Machine:
    """Registers of one run under one library."""

    def __init__(self, lib: Any, program: Program, device: str, draws: dict[int, list[float]] | None) -> None:
        self.lib, self.program, self.device, self.given = lib, program, device, draws
        self.registers: dict[int, Any] = {}
        self.out = Outcome()

    def leaf(self, s: Step) -> Any:
        t = self.lib.tensor(_leaf_values(self.program, s), device=self.device).reshape(SHAPES[int(s.number)])
        t = t.detach().clone()
        return t.requires_grad_() if s.name == "grad" else t

    def draw(self, s: Step) -> Any:
        like = self.registers[s.sources[0]]
        shape = tuple(like.shape)
        if self.given is not None:
            return self.lib.tensor(self.given[s.target], device=self.device).reshape(shape)
        if s.name == "randint":
            t = self.lib.randint(0, 9, shape, device=self.device).float()
        else:
            t = getattr(self.lib, s.name)(shape, device=self.device)
        self.out.draws[s.target] = t.reshape(-1).tolist()
        return t

    def combine(self, s: Step) -> Any:
        a, b = (self.registers[r] for r in s.sources)
        if s.kind == "matmul":
            return a @ b
        if s.kind == "where":
            # No sum of the leaves' values falls on this bound, where rounding would decide.
            return self.lib.where(a > 0.0123457, a, b)
        if s.kind == "cat":
            return self.lib.cat([a, b])
        if s.kind == "in_place":
            # PyTorch reads an overlapping smaller operand while writing the target; torchlette reads it first.
            return getattr(a, s.name)(b.clone() if b.numel() < a.numel() else b)
        if s.name == "div":
            return a / (b * b + 1)
        return getattr(self.lib, s.name)(a, b)

    @staticmethod
    def fill(a: Any, number: float) -> Any:
        if 0 in a.stride():  # in PyTorch only fill_ may write through an expanded view; in torchlette no operator may
            raise RuntimeError("overlap")
        return a.fill_(number)

    def execute(self, s: Step) -> Any:
        if s.kind == "leaf":
            return self.leaf(s)
        if s.kind == "draw":
            return self.draw(s)
        a = self.registers[s.sources[0]]
        if s.kind in ("in_place", "scalar_", "fill_"):
            _ = a.grad_fn  # PyTorch treats a stale view as a leaf until its history is queried
        if len(s.sources) == 2:
            return self.combine(s)
        simple: dict[str, Callable[[], Any]] = {
            "unary": lambda: getattr(self.lib, s.name)(a),
            "scalar": lambda: getattr(self.lib, s.name)(a, s.number),
            "scalar_": lambda: getattr(a, s.name)(s.number),
            "fill_": lambda: self.fill(a, s.number),
            "view": lambda: _view(a, s.name, int(s.number)),
            "reduce": lambda: getattr(a, s.name)(-1, keepdim=s.number == 1),
            "detach": a.detach,
            "clone": a.clone,
            "read": lambda: (a.tolist(), a)[1],
            "step": lambda: (getattr(self.lib, "mark_step", int)(), a)[1],
        }
        if s.kind in simple:
            return simple[s.kind]()
        if a.requires_grad:  # "backward"
            (a * a).sum().backward(retain_graph=True)
        return a

    def finish(self) -> None:
        roots = [t for t in self.registers.values() if t.requires_grad and not t.is_leaf]
        total = None
        for t in roots:
            part = (t * t).mean() if t.numel() else None
            total = part if total is None else total if part is None else total + part
        if total is not None:
            total.backward()


_CLASSES = (IndexError, TypeError, NotImplementedError, ValueError, RuntimeError)


def _class_of(error: Exception) -> str:
    """Name the built-in class that both libraries derive from."""
    return next(c.__name__ for c in _CLASSES if isinstance(error, c))


def run(lib: Any, program: Program, device: str = "cpu", draws: dict[int, list[float]] | None = None) -> Outcome:
    """Run a program under ``lib``; ``draws`` replaces the random steps by given values."""
    machine = _Machine(lib, program, device, draws)
    lib.manual_seed(program.seed)
    out, ended = machine.out, False
    for i, s in enumerate(program.steps):
        if any(r not in machine.registers for r in s.sources):
            continue
        try:
            machine.registers[s.target] = machine.execute(s)
        except _CLASSES as error:
            out.errors[i] = _class_of(error)
            if ended := s.kind == "backward":
                break
    if not ended:
        try:
            machine.finish()
        except _CLASSES as error:
            out.errors[len(program.steps)] = _class_of(error)
            ended = True
    for r, t in machine.registers.items():
        out.shapes[r] = tuple(t.shape)
        out.values[r] = t.detach().reshape(-1).tolist()
        if t.is_leaf and t.requires_grad and not ended:
            out.gradients[r] = None if t.grad is None else t.grad.reshape(-1).tolist()
    return out
