"""``torch.cuda.nvtx``: marks for NVIDIA's profiler, which sees no work of this library. All of them do nothing."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

__all__ = ["mark", "range", "range_end", "range_pop", "range_push", "range_start"]


def range_push(msg: str) -> int:
    """Begin a nested range; return 0, its depth."""
    return 0


def range_pop() -> int:
    """End the innermost range; return 0, its depth."""
    return 0


def range_start(msg: str) -> int:
    """Begin a range; return 0, its handle."""
    return 0


def range_end(range_id: int) -> None:
    """End a range of :func:`range_start`."""


def mark(msg: str) -> None:
    """Mark a moment."""


@contextlib.contextmanager
def range(msg: str, *args: Any, **kwargs: Any) -> Iterator[None]:
    """Mark the work of a block; the other arguments format ``msg``."""
    yield
