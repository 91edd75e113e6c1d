"""Functions that see each operator call of a thread, and may replace its result."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from torchlette import _C

__all__ = ["Observer", "observing"]

#: Takes the operator's name, its arguments and its result; returns the result to use.
Observer: TypeAlias = Callable[[str, tuple[Any, ...], dict[str, Any], Any], Any]


class _Stack(threading.local):
    def __init__(self) -> None:
        self.observers: list[Observer] = []


_stack = _Stack()
_lock = threading.Lock()
_count = 0


def _observe(name: str, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> Any:
    """Give a call to the observers of the thread, the innermost first. Their own calls are not observed."""
    observers, _stack.observers = _stack.observers, []
    try:
        for observer in reversed(observers):
            result = observer(name, args, kwargs, result)
    finally:
        _stack.observers = observers
    return result


@contextlib.contextmanager
def observing(observer: Observer) -> Iterator[None]:
    """Give each operator call inside to ``observer``; calls in place and with ``out=`` are left out."""
    global _count
    with _lock:
        _count += 1
        _C._set_observer(_observe)
    _stack.observers = [*_stack.observers, observer]
    try:
        yield
    finally:
        _stack.observers = _stack.observers[:-1]
        with _lock:
            _count -= 1
            if _count == 0:
                _C._set_observer(None)
