"""Whether a program is being recorded for a file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["exporting", "is_exporting"]

_exporting: ContextVar[bool] = ContextVar("exporting", default=False)


@contextmanager
def exporting() -> Iterator[None]:
    """Context in which :func:`is_exporting` is true."""
    before = _exporting.set(True)
    try:
        yield
    finally:
        _exporting.reset(before)


def is_exporting() -> bool:
    """Return whether :func:`torchlette.export.export` or one of its like is recording."""
    return _exporting.get()
