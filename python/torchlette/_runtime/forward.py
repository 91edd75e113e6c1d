"""The levels of forward mode in progress: each call of ``func.jvp`` and each ``dual_level`` opens one."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from types import TracebackType

from torchlette import _C

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["above", "below", "dual", "level", "levels", "off_tape", "primal", "shown", "tangent", "tangents_of"]

Tensor = _C.Tensor


class _Open(threading.local):
    """The levels that a thread has in progress, innermost last."""

    def __init__(self) -> None:
        self.stack: list[int] = []
        self.ceiling = 0
        self.floor = 0


_open = _Open()
#: The levels whose tangents are part of the text of a tensor: those of ``dual_level``.
shown: list[int] = []


def levels() -> list[int]:
    """Return the numbers of the levels in progress that count, outermost first."""
    return [n for n in _open.stack if n > _open.floor and (not _open.ceiling or n < _open.ceiling)]


class level:
    """A level of forward mode, for a block; entering gives its number.

    With ``apart`` loops compute values and tangents in loops of their own.
    """

    __slots__ = ("apart", "number")

    def __init__(self, apart: bool = False) -> None:
        self.apart = apart

    def __enter__(self) -> int:
        self.number = _C._forward_level(-1 if self.apart else 0)
        _open.stack.append(self.number)
        return self.number

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        _open.stack.remove(self.number)
        _C._forward_level(self.number)


class below:
    """A block in which tangents of a level, and of the levels inside of it, do not count."""

    __slots__ = ("number", "old")

    def __init__(self, number: int) -> None:
        """Choose the level."""
        self.number = number

    def __enter__(self) -> None:
        self.old, _open.ceiling = _open.ceiling, self.number
        _C._forward_ceiling(self.number)

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        _open.ceiling = self.old
        _C._forward_ceiling(self.old)


class above:
    """A block in which the levels in progress do not count: the body of a loop is recorded without their tangents."""

    __slots__ = ("old",)

    def __enter__(self) -> None:
        self.old = _open.floor
        if _open.stack:
            _open.floor = _open.stack[-1]

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        _open.floor = self.old


def dual(value: Tensor, tangent: Tensor, number: int) -> Tensor:
    """Return a tensor with the elements of ``value`` and a tangent at a level."""
    return _C._make_dual(value, tangent, number)


def tangent(value: Tensor, number: int) -> Tensor | None:
    """Return the tangent of ``value`` at a level, None where it is zero."""
    found = _C._tangent(value, number)
    return found[0] if found else None


def primal(value: Tensor, number: int) -> Tensor:
    """Return ``value`` without its tangents at a level, and those inside of it."""
    return _C._primal(value, number)


def off_tape(t: Tensor) -> Tensor:
    """Return an alias without history that keeps its tangents."""
    return _C._untaped(t) if _open.stack else t.detach()


def tangents_of(values: Sequence[Any]) -> tuple[int, list[Tensor | None]]:
    """Return the innermost level at which a tensor of ``values`` has a tangent, 0 for none, and the tangents there."""
    if not _open.stack:
        return 0, []
    for number in reversed(levels()):
        found = [tangent(v, number) if isinstance(v, Tensor) else None for v in values]
        if any(t is not None for t in found):
            return number, found
    return 0, []
