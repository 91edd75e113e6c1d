"""The levels of ``vmap`` in progress."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

from torchlette import _C

__all__ = ["MODES", "is_mapped", "level_of", "levels", "outside", "spread"]

Tensor = _C.Tensor

#: What random operations do at a level, as the engine numbers it.
MODES = {"error": 1, "different": 2, "same": 3}


class _Levels(threading.local):
    """The levels that a thread has in progress."""

    def __init__(self) -> None:
        self.stack: list[tuple[int, int, str]] = []


_levels = _Levels()


def levels() -> list[tuple[int, int, str]]:
    """Return number, size and randomness of each level in progress, outermost first; numbers count from 1."""
    return _levels.stack


@contextlib.contextmanager
def level_of(size: int, randomness: str) -> Iterator[int]:
    """Begin a level of ``vmap`` for the block; yields its number."""
    level = _C._vmap(size << 2 | MODES[randomness]) + 1
    levels().append((level, size, randomness))
    try:
        yield level
    finally:
        levels().pop()
        _C._vmap(0)


@contextlib.contextmanager
def outside() -> Iterator[None]:
    """Leave the innermost level for the block."""
    level, size, randomness = levels().pop()
    _C._vmap(0)
    try:
        yield
    finally:
        _C._vmap(size << 2 | MODES[randomness])
        levels().append((level, size, randomness))


def is_mapped(t: Tensor, level: int, size: int) -> bool:
    """Return whether ``t`` has the level."""
    return _C._vmap_spread(t, level, size) is t


def spread(t: Tensor) -> Tensor:
    """Return ``t`` as a mapped tensor of all levels in progress: its derivatives may differ for each element."""
    for level, size, _ in levels():
        t = _C._vmap_spread(t, level, size)
    return t
