"""Switches of gradient recording, as context managers and decorators."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Generator
from types import TracebackType

from torchlette import _C

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Self

__all__ = [
    "enable_grad",
    "inference_mode",
    "is_inference_mode_enabled",
    "is_multithreading_enabled",
    "no_grad",
    "set_grad_enabled",
    "set_multithreading_enabled",
]


# inspect.CO_GENERATOR; the module inspect is slow to import.
_CO_GENERATOR = 0x20


class _ModeSwitch:
    """Sets a mode of the engine for a block, a function or each step of a generator.

    ``_states`` is a stack, so that one object may be entered again while it is active.
    """

    _states: list[Any]

    def __init__(self) -> None:
        self._states = []

    def _fresh(self) -> Self:
        return type(self)()

    def _switch(self) -> Any:
        """Set the mode and return the state to restore."""
        raise NotImplementedError(f"{type(self).__name__} is used through its subclasses")

    def _restore(self, state: Any) -> None:
        _C._set_grad_enabled(state)

    def __enter__(self) -> None:
        self._states.append(self._switch())

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        self._restore(self._states.pop())

    def __call__(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        """Decorate a function or generator function; for a class, decorate its construction."""
        if isinstance(fn, type):
            warnings.warn(
                "Decorating classes is deprecated and will be disabled in future versions. You should only decorate "
                "functions or methods. "
                "To preserve the current behavior of class decoration, you can directly decorate the `__init__` method "
                "and nothing else.",
                FutureWarning,
                stacklevel=2,
            )
        if getattr(getattr(fn, "__code__", None), "co_flags", 0) & _CO_GENERATOR:
            return self._wrap_generator(fn)

        @functools.wraps(fn)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with self._fresh():
                return fn(*args, **kwargs)

        return wrapped

    def _wrap_generator(self, fn: Callable[..., Generator[Any, Any, Any]]) -> Callable[..., Generator[Any, Any, Any]]:
        # Restore the caller's mode whenever the generator is suspended.
        @functools.wraps(fn)
        def wrapped(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
            generator = fn(*args, **kwargs)
            resume: Callable[[], Any] = functools.partial(next, generator)
            while True:
                try:
                    with self._fresh():
                        item = resume()
                except StopIteration as stop:
                    return stop.value
                try:
                    sent = yield item
                except GeneratorExit:
                    with self._fresh():
                        generator.close()
                    raise
                except BaseException as exc:
                    resume = functools.partial(generator.throw, exc)
                else:
                    resume = functools.partial(generator.send, sent)

        return wrapped


class no_grad(_ModeSwitch):
    """Record no gradient history: ``with no_grad():`` or ``@no_grad()``."""

    def __new__(cls, fn: Callable[..., Any] | None = None) -> Any:
        """Support the bare decorator ``@no_grad``."""
        self = super().__new__(cls)
        if fn is None:
            return self
        self._states = []
        return self(fn)

    def _switch(self) -> bool:
        return _C._set_grad_enabled(False)


class enable_grad(_ModeSwitch):
    """Record gradient history inside a ``no_grad`` block."""

    def __new__(cls, fn: Callable[..., Any] | None = None) -> Any:
        """Support the bare decorator ``@enable_grad``."""
        self = super().__new__(cls)
        if fn is None:
            return self
        self._states = []
        return self(fn)

    def _switch(self) -> bool:
        return _C._set_grad_enabled(True)


class set_grad_enabled(_ModeSwitch):
    """Switch gradient recording at once; as a context manager, until the end of the block."""

    def __init__(self, mode: bool) -> None:
        """Switch to ``mode`` now."""
        super().__init__()
        self.mode = bool(mode)
        self._before = _C._set_grad_enabled(self.mode)

    def _fresh(self) -> Self:
        return type(self)(self.mode)

    def _switch(self) -> bool:
        _C._set_grad_enabled(self.mode)
        return self._before

    def __call__(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        """Decorate a function; this undoes the switch that the constructor made."""
        _C._set_grad_enabled(self._before)
        return super().__call__(fn)


class set_multithreading_enabled(_ModeSwitch):
    """Accepted for PyTorch's scripts, and remembered: a backward pass runs in the thread that starts it."""

    _enabled = True

    def __init__(self, mode: bool) -> None:
        """Remember ``mode`` now; as a context manager, until the end of the block."""
        super().__init__()
        self.mode = bool(mode)
        self._before = self._switch()

    def _fresh(self) -> Self:
        return type(self)(self.mode)

    def _switch(self) -> bool:
        before = set_multithreading_enabled._enabled
        set_multithreading_enabled._enabled = self.mode
        return before

    def _restore(self, state: bool) -> None:
        set_multithreading_enabled._enabled = state

    def __enter__(self) -> None:
        """Begin the block."""
        self._states.append(self._before)

    def __call__(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        """Decorate a function; this undoes the switch that the constructor made."""
        self._restore(self._before)
        return super().__call__(fn)


def is_multithreading_enabled() -> bool:
    """Return what :class:`set_multithreading_enabled` remembers."""
    return set_multithreading_enabled._enabled


class inference_mode(_ModeSwitch):
    """Record no gradient history. Results are ordinary tensors: later operations may record them."""

    def __new__(cls, mode: bool | Callable[..., Any] = True) -> Any:
        """Support the bare decorator ``@inference_mode``."""
        self = super().__new__(cls)
        if isinstance(mode, bool):
            return self
        self.mode, self._states = True, []
        return self(mode)

    def __init__(self, mode: bool = True) -> None:
        """Choose whether the block runs in inference mode."""
        super().__init__()
        self.mode = mode

    def _fresh(self) -> Self:
        return type(self)(self.mode)

    def _switch(self) -> tuple[bool, bool]:
        return _C._set_inference_mode(self.mode), _C._set_grad_enabled(not self.mode)

    def _restore(self, state: tuple[bool, bool]) -> None:
        _C._set_inference_mode(state[0])
        _C._set_grad_enabled(state[1])


is_inference_mode_enabled = _C.is_inference_mode_enabled
