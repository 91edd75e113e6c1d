"""Whether a graph runs to be recorded as a program, which holds no loops and no branches."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar

from torchlette import _C, lax
from torchlette._import.files import unsupported

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
    """Return the results of one of two functions. In a program both run, and their elements are chosen.

    Raises:
        TypeError: The results have other dtypes or sizes; NotImplementedError, where a program is recorded.
    """
    flag = condition.reshape(()).bool()
    if not is_recording():
        return list(lax.cond(flag, lambda: list(yes()), lambda: list(no())))
    a, b = list(yes()), list(no())
    types = [[(t.dtype, list(t.shape)) for t in branch] for branch in (a, b)]
    if types[0] != types[1]:
        raise unsupported(f"a condition that depends on values chooses between results of unequal types: {types}")
    return [_C.where(flag, x, y) for x, y in zip(a, b, strict=True)]
