"""The levels of ``vmap`` in progress."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

from torchlette import _C
from torchlette._runtime.nested import each

__all__ = [
    "MODES",
    "fits",
    "is_mapped",
    "level_of",
    "levels",
    "mapped_by",
    "outside",
    "spread",
    "spread_dims",
    "unwrapped",
]

Tensor = _C.Tensor

#: What random operations do at a level, as the engine numbers it.
MODES = {"error": 1, "different": 2, "same": 3}

#: Leave the innermost level, and return to it.
_LEAVE, _RETURN = 1 << 2, 2 << 2


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
    innermost = levels().pop()
    _C._vmap(_LEAVE)
    try:
        yield
    finally:
        _C._vmap(_RETURN)
        levels().append(innermost)


def is_mapped(t: Tensor, level: int, size: int) -> bool:
    """Return whether ``t`` has the level."""
    return _C._vmap_spread(t, level, size) is t


def spread(t: Tensor, like: tuple[Any, ...] | None = None) -> Tensor:
    """Return ``t`` as a mapped tensor of all levels in progress: its derivatives may differ for each element.

    With ``like``, only of those that a tensor of ``like`` has.
    """
    for level, size, _ in levels():
        if like is None or any(is_mapped(o, level, size) for o in like if isinstance(o, Tensor)):
            t = _C._vmap_spread(t, level, size)
    return t


def unwrapped(t: Tensor, count: int | None = None) -> Tensor:
    """Return ``t`` with the dims of the innermost ``count`` levels in progress, or of all, as its first dims."""
    for level, size, _ in reversed(levels()[-count:] if count else levels()):
        if is_mapped(t, level, size):
            t = _C._vmap_out(t, 0, level, size)
    return t


def fits(value: Any, dims: Any) -> bool:
    """Return whether ``dims`` is one dim for all of nested ``value``, or nested as the start of it is."""
    if dims is None or isinstance(dims, int):
        return True
    if type(dims) is not type(value):
        return False
    if isinstance(value, dict):
        return dims.keys() == value.keys() and all(fits(v, dims[k]) for k, v in value.items())
    if not isinstance(value, (list, tuple)) or len(dims) != len(value):
        return False
    return all(fits(v, d) for v, d in zip(value, dims, strict=True))


def spread_dims(value: Any, dims: Any) -> list[int | None]:
    """Return a dim for each object of nested ``value``; ``dims`` fits it."""
    if isinstance(value, dict):
        parts = [(v, dims[k] if isinstance(dims, dict) else dims) for k, v in value.items()]
    elif isinstance(value, (list, tuple)):
        parts = list(zip(value, dims if isinstance(dims, (list, tuple)) else [dims] * len(value), strict=True))
    else:
        return [dims]
    return [dim for v, d in parts for dim in spread_dims(v, d)]


def mapped_by(value: Any, dims: Any, level: int) -> Any:
    """Return nested results whose batch is at ``dims`` as mapped tensors of a level."""
    left = iter(spread_dims(value, dims))

    def mapped(item: Any) -> Any:
        dim = next(left)
        return item if dim is None or not isinstance(item, Tensor) else _C._vmap_in(item, dim, level)

    return each(value, mapped)
