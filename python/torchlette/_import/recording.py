"""Whether a graph runs to be recorded as a program, and conditions of graphs."""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from typing import Any

from torchlette import _C, lax

__all__ = ["Compared", "choose", "compared", "is_recording", "negated", "recording"]

Tensor = _C.Tensor

_recording: ContextVar[bool] = ContextVar("_recording", default=False)


@contextlib.contextmanager
def recording() -> Iterator[None]:
    """Record what runs in the block."""
    token = _recording.set(True)
    try:
        yield
    finally:
        _recording.reset(token)


def is_recording() -> bool:
    """Return whether what runs becomes a program."""
    return _recording.get()


def choose(condition: Tensor, yes: Callable[[], Sequence[Tensor]], no: Callable[[], Sequence[Tensor]]) -> list[Tensor]:
    """Return the results of one of two functions.

    Raises:
        TypeError: The results have other dtypes or sizes.
    """
    return list(lax.cond(condition.reshape(()).bool(), lambda: list(yes()), lambda: list(no())))


class Compared(int):
    """What a comparison of sizes gave, as 0 or 1; while a program is recorded it can become a tensor.

    A program has the same steps at all sizes: a branch that sizes choose is chosen when the program runs.
    """

    make: Callable[[Any], Tensor]

    def __and__(self, other: Any) -> Any:
        return _joined(operator.and_, self, other)

    def __or__(self, other: Any) -> Any:
        return _joined(operator.or_, self, other)


def compared(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Return a comparison whose result a recorded condition can use."""

    def compare(a: Any, b: Any) -> Any:
        found = function(a, b)
        if not is_recording() or not all(type(n) is int for n in (a, b)):
            return found
        made = Compared(found)
        made.make = lambda device: function(_C.full((), a - b, dtype=_C.int64, device=device), 0)
        return made

    return compare


def _joined(function: Callable[[Any, Any], Any], a: Compared, b: Any) -> Any:
    made = Compared(function(bool(a), bool(b)))
    made.make = lambda device: function(a.make(device), b.make(device) if isinstance(b, Compared) else bool(b))
    return made


def negated(value: Any) -> Any:
    """Return whether a size, a bool, a :class:`Compared` or a number that is read is not true."""
    if hasattr(value, "tensor"):
        return value == 0
    if not isinstance(value, Compared):
        return not value
    made = Compared(not value)
    made.make = lambda device: ~value.make(device)
    return made
