"""Whether a graph runs to be recorded as a program, and conditions of graphs."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar

from torchlette import _C, lax

__all__ = ["choose", "is_recording", "recording"]

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
