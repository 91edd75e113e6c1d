"""Fences: what a function must not write to while a transform differentiates it or a checkpoint runs it again.

A fence is of the calling thread. Until its end, writing in place to a tensor that is older than the fence raises.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType

from torchlette import _C

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Self

__all__ = ["fence", "is_recomputing", "no_fence", "recomputation", "transform"]

# The kinds of tl_fence.
_END, _QUERY, _NONE, _TRANSFORM, _RECOMPUTATION = range(5)

# The fences of all threads, so that layers ask the engine only where there is one.
_open: list[fence] = []


class fence:
    """A fence around a block; older tensors in ``writable`` may be written to all the same."""

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
    """Return the fence around a function that a transform calls: it must not change what it captured, as in PyTorch."""
    return fence(_TRANSFORM, writable)


def recomputation() -> fence:
    """Return the fence around the second run of a checkpointed function, which must not repeat the first's writes."""
    return fence(_RECOMPUTATION)


def no_fence() -> AbstractContextManager[Any]:
    """Return what lifts the fences around, for writes that belong to no function: the running statistics of a layer."""
    return fence(_NONE) if _open else nullcontext()


def is_recomputing() -> bool:
    """Return whether a checkpointed function is in its second run: what it keeps beside its result is kept already."""
    return bool(_open) and _C._fence(_QUERY)
