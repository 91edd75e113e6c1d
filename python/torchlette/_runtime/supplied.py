"""Numbers that a Python object supplies at each call of a captured function, as an optimizer its step counts and rates.

In a capture such a number is a :class:`Supplied`. Arithmetic with it is noted, and done again at each call. A
comparison becomes a guard of the program: a call for which it has another outcome needs another program. So does a use
of the number itself, as in ``math.sqrt``.
"""

from __future__ import annotations

import math
import operator
import threading
from collections.abc import Callable, Sequence
from typing import Any

from torchlette import _C

__all__ = ["Supplied", "Supply", "host_numbers", "operand", "passed", "square_root", "write_numbers"]


class _Guard:
    """The mark of a step that compares."""


#: The operators of the formulas that a saved program has; ``sqrt`` takes one number.
_OPERATORS = {
    operator.add: "+", operator.sub: "-", operator.mul: "*", operator.truediv: "/", operator.pow: "**",
    operator.lt: "<", operator.le: "<=", operator.gt: ">", operator.ge: ">=", operator.eq: "==", operator.ne: "!=",
}  # fmt: skip


class _Local(threading.local):
    supply: Supply | None = None


_local = _Local()


class Supply:
    """The numbers of one program: how a call computes them, which of them the program takes, and which are written to
    tensors of the host after the call.
    """

    def __init__(self) -> None:
        self._size = 0
        # In order: (function, place of a, place of b), (None, read, 0), or (_Guard, place, wanted value).
        self._steps: list[tuple[Any, Any, Any]] = []
        self._leaves: dict[Any, list[Supplied]] = {}
        self._taken: dict[int, float] = {}
        self._writes: dict[int, tuple[_C.Tensor, Supplied]] = {}

    @staticmethod
    def current() -> Supply | None:
        """Return what the capture of the calling thread collects; None outside of captures."""
        return _local.supply

    @staticmethod
    def set_current(supply: Supply | None) -> None:
        """Begin or end a capture."""
        _local.supply = supply

    def is_empty(self) -> bool:
        """Return whether a call supplies nothing and writes nothing."""
        return not (self._steps or self._writes)

    def leaves(self, key: Any, read: Callable[[], Sequence[Any]], now: Sequence[Any]) -> list[Supplied]:
        """Return numbers that each call reads anew.

        Args:
            key: Names the numbers: equal keys give the same ones.
            read: Returns them, as many at each call.
            now: Their values in the capture.
        """
        if key not in self._leaves:
            self._steps.append((None, read, 0))
            self._leaves[key] = [Supplied(self, self._size + i, value) for i, value in enumerate(now)]
            self._size += len(now)
        return self._leaves[key]

    def computed(self, fn: Callable[[Any, Any], Any], a: Any, b: Any) -> Supplied:
        """Return ``fn(a, b)`` as a number of each call."""
        x, y = self._constant(a), self._constant(b)
        self._steps.append((fn, x.place, y.place))
        self._size += 1
        return Supplied(self, self._size - 1, fn(x.now, y.now))

    def _constant(self, value: Any) -> Supplied:
        if isinstance(value, Supplied):
            return value
        return self.leaves(("constant", type(value), repr(value)), lambda: (value,), (value,))[0]

    def guard(self, x: Supplied) -> Any:
        """Return the value in the capture; only calls with an equal value fit the program."""
        self._steps.append((_Guard, x.place, x.now))
        return x.now

    def take(self, x: Supplied) -> float:
        """Return what stands for the number in the capture: an operand that an operator passes on unread."""
        if x.place not in self._taken:
            self._taken[x.place] = _C._supplied(len(self._taken))
        return self._taken[x.place]

    def read(self, tensors: list[_C.Tensor]) -> list[Any]:
        """Return the numbers of one-element tensors, after the writes so far."""
        leaves = self.leaves(tuple(map(id, tensors)), lambda: _C._numbers(tensors), _C._peek(tensors))
        return [self._writes.get(id(t), (t, x))[1] for t, x in zip(tensors, leaves, strict=True)]

    def write(self, tensors: list[_C.Tensor], numbers: Sequence[Any]) -> None:
        """Let each call give the tensors these numbers after it ran."""
        for t, x in zip(tensors, numbers, strict=True):
            self._writes[id(t)] = t, self._constant(x)

    def evaluate(self) -> tuple[list[Any], list[Any]] | None:
        """Return all numbers of a call, and those that the program takes; None where the program does not fit."""
        values: list[Any] = []
        for fn, a, b in self._steps:
            if fn is None:
                values.extend(a())
            elif fn is not _Guard:
                values.append(fn(values[a], values[b]))
            elif values[a] != b:
                return None
        return values, [values[place] for place in self._taken]

    def formulas(self, name: Callable[[Any, int], str]) -> dict[str, Any]:
        """Return formulas, supplied numbers, guards and writes as a saved program has them.

        Args:
            name: Returns the name of a number of the program by the key of :meth:`leaves` and a position; of a tensor
                that is written, the key is a tuple with its identity.
        """
        atoms: list[str] = []
        formulas: list[tuple[str, str]] = []
        guards: list[dict[str, Any]] = []
        leaves = iter(self._leaves.items())

        def number(place: int) -> str:
            if not atoms[place].startswith("t_"):
                formulas.append((f"t_{place}", atoms[place]))
                atoms[place] = f"t_{place}"
            return atoms[place]

        for fn, a, b in self._steps:
            if fn is None:
                key, now = next(leaves)
                constant = isinstance(key, tuple) and key[:1] == ("constant",)
                atoms.extend(_literal(x.now) if constant else name(key, i) for i, x in enumerate(now))
            elif fn is _Guard:
                guards.append({"formula": number(a), "want": float(b)})
            else:
                formulas.append((f"t_{len(atoms)}", _formula(fn, atoms[a], atoms[b])))
                atoms.append(f"t_{len(atoms)}")
        supplied = [number(place) for place in self._taken]
        writes = [{"number": name((id(t),), 0), "formula": number(x.place)} for t, x in self._writes.values()]
        return {"formulas": formulas, "supplied": supplied, "guards": guards, "writes": writes}

    def commit(self, values: list[Any]) -> None:
        """Write the numbers of a call that :meth:`evaluate` gave."""
        if self._writes:
            pairs = self._writes.values()
            _C._set_numbers([t for t, _ in pairs], [values[x.place] for _, x in pairs])


def _literal(value: Any) -> str:
    return "None" if value is None else f"({float(value)!r})"


def _formula(fn: Callable[[Any, Any], Any], a: str, b: str) -> str:
    if fn is _root:
        return f"sqrt({a})"
    if "None" in (a, b):  # a number is never None
        return "1" if fn is operator.ne else "0"
    return f"{a} {_OPERATORS[fn]} {b}"


def _binary(fn: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Supplied]:
    return lambda x, y: x.supply.computed(fn, x, y)


def _reflected(fn: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Supplied]:
    return lambda x, y: x.supply.computed(fn, y, x)


class Supplied:
    """A number of each call."""

    __slots__ = ("now", "place", "supply")

    def __init__(self, supply: Supply, place: int, now: Any) -> None:
        self.supply, self.place, self.now = supply, place, now

    __add__, __radd__ = _binary(operator.add), _reflected(operator.add)
    __sub__, __rsub__ = _binary(operator.sub), _reflected(operator.sub)
    __mul__, __rmul__ = _binary(operator.mul), _reflected(operator.mul)
    __truediv__, __rtruediv__ = _binary(operator.truediv), _reflected(operator.truediv)
    __pow__, __rpow__ = _binary(operator.pow), _reflected(operator.pow)
    __lt__, __le__, __gt__, __ge__ = map(_binary, (operator.lt, operator.le, operator.gt, operator.ge))
    __eq__ = _binary(operator.eq)  # type: ignore[assignment]
    __ne__ = _binary(operator.ne)  # type: ignore[assignment]

    def __neg__(self) -> Supplied:
        return self * -1.0

    def __hash__(self) -> int:
        return hash(self.now)

    def __bool__(self) -> bool:
        return bool(self.supply.guard(self))

    def __float__(self) -> float:
        return float(self.supply.guard(self))


def _root(value: float, _: None) -> float:
    return math.sqrt(value)


def square_root(x: Any) -> Any:
    """Return the root of a number, a supplied one, or a tensor."""
    if isinstance(x, Supplied):
        return x.supply.computed(_root, x, None)
    return x.sqrt() if isinstance(x, _C.Tensor) else math.sqrt(x)


def passed(x: Any) -> Any:
    """Return a number as an operand of an operator that passes it on unread, such as ``_adam_step``."""
    return x.supply.take(x) if isinstance(x, Supplied) else x


def operand(x: Any, like: _C.Tensor) -> Any:
    """Return a number as an operand of any operator: a supplied one as a 0-dim tensor of the dtype of ``like``."""
    return _C._number(like, x.supply.take(x)) if isinstance(x, Supplied) else x


def host_numbers(tensors: list[_C.Tensor]) -> list[Any]:
    """Return the numbers of one-element tensors."""
    supply = _local.supply
    return _C._numbers(tensors) if supply is None else supply.read(tensors)


def write_numbers(tensors: list[_C.Tensor], numbers: Sequence[Any]) -> None:
    """Give each of some one-element tensors a number, in place."""
    if _local.supply is None:
        _C._set_numbers(tensors, list(numbers))
    else:
        _local.supply.write(tensors, numbers)
