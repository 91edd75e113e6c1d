"""Fences protect older tensors while a transform differentiates a function or a checkpoint runs it again.

A fence belongs to one thread. Until it ends, an in-place write of that thread to a tensor older than the fence raises.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType

from torchlette import _C

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Self

__all__ = ["fence", "is_recomputing", "is_transforming", "no_fence", "recomputation", "transform"]

# The kinds of tl_fence.
_END, _QUERY, _NONE, _TRANSFORM, _RECOMPUTATION = range(5)

# The open fences of all threads: layers query the engine only while this list has entries.
_open: list[fence] = []


class fence:
    """A fence around a block; older tensors in ``writable`` are exempt."""

    __slots__ = ("kind", "writable")

    def __init__(self, kind: int, writable: Sequence[_C.Tensor] = ()) -> None:
        """Choose the kind."""
        self.kind, self.writable = kind, writable

    def __enter__(self) -> Self:
        _C._fence(self.kind, self.writable)
        _open.append(self)
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        _open.remove(self)
        _C._fence(_END)


def transform(writable: Sequence[_C.Tensor]) -> fence:
    """Return the fence for a function that a transform calls: as in PyTorch, it must not write to captured tensors."""
    return fence(_TRANSFORM, writable)


def recomputation() -> fence:
    """Return the fence for the second run of a checkpointed function, which must not repeat the first run's writes."""
    return fence(_RECOMPUTATION)


def no_fence() -> AbstractContextManager[Any]:
    """Return a context that suspends all fences, for writes such as a layer's running statistics."""
    return fence(_NONE) if _open else nullcontext()


def is_transforming() -> bool:
    """Return whether a transform calls a function, in any thread."""
    return any(f.kind == _TRANSFORM for f in _open)


def is_recomputing() -> bool:
    """Return whether a checkpointed function is in its second run, where side effects of the first must not be
    repeated.
    """
    return bool(_open) and _C._fence(_QUERY)
