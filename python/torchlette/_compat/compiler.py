"""PyTorch's switches of compilation. They have no effect: the engine plans by itself."""

from __future__ import annotations

from typing import Any

__all__ = [
    "allow_in_graph",
    "assume_constant_result",
    "compile",
    "cudagraph_mark_step_begin",
    "disable",
    "is_compiling",
    "is_exporting",
    "reset",
]


def compile(model: Any = None, **options: Any) -> Any:
    """Return ``model``, a function or module, as it is; called with options only, a decorator that does.

    The engine plans, fuses and compiles all recorded work. Options are accepted and have no effect.
    """
    return compile if model is None else model


def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """Return ``fn`` as it is, or a decorator that does."""
    return disable if fn is None else fn


def allow_in_graph(fn: Any) -> Any:
    """Return ``fn`` as it is."""
    return fn


assume_constant_result = allow_in_graph


def is_compiling() -> bool:
    """Return ``False``: Python code always runs."""
    return False


is_exporting = is_compiling


def reset() -> None:
    """Do nothing: plans depend on no Python state."""


cudagraph_mark_step_begin = reset
