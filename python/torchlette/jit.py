"""TorchScript is not here: what only annotates code for it has no effect, what compiles raises."""

from __future__ import annotations

from typing import Any, Final, NoReturn

__all__ = [
    "Final",
    "annotate",
    "export",
    "ignore",
    "is_scripting",
    "is_tracing",
    "isinstance",
    "load",
    "save",
    "script",
    "script_if_tracing",
    "trace",
    "unused",
]


def _refuse(name: str, instead: str) -> NoReturn:
    raise NotImplementedError(f"jit.{name} is not supported: there is no TorchScript: {instead}")


def script(obj: Any, *args: Any, **kwargs: Any) -> NoReturn:
    """Raise: there is no TorchScript."""
    _refuse("script", "use the function or module as it is; the engine records, plans and compiles what it does")


def trace(func: Any, *args: Any, **kwargs: Any) -> NoReturn:
    """Raise: there is no TorchScript."""
    _refuse("trace", "use the function or module as it is; the engine records, plans and compiles what it does")


def save(m: Any, f: Any, *args: Any, **kwargs: Any) -> NoReturn:
    """Raise: there is no TorchScript."""
    _refuse("save", "save(module.state_dict(), f) keeps the parameters")


def load(f: Any, *args: Any, **kwargs: Any) -> NoReturn:
    """Raise: there is no TorchScript."""
    _refuse("load", "make the module and load_state_dict() a file of its parameters")


def is_scripting() -> bool:
    """Return ``False``."""
    return False


is_tracing = is_scripting


def ignore(drop: Any = False, **kwargs: Any) -> Any:
    """Return the decorated function as it is."""
    return drop if callable(drop) else export


def export(fn: Any) -> Any:
    """Return ``fn`` as it is."""
    return fn


unused = script_if_tracing = export


def annotate(the_type: Any, the_value: Any) -> Any:
    """Return the value."""
    return the_value


isinstance = isinstance
