"""There is no TorchScript: the engine compiles recorded work, so ``script`` and ``trace`` return their argument.

Annotations have no effect; functions that need a compiled program (``save``, ``load``, ``freeze``) raise.
"""

from __future__ import annotations

from typing import Any, Final, NoReturn

from torchlette.nn.modules.module import Module

__all__ = [
    "Final",
    "ScriptFunction",
    "ScriptModule",
    "TracerWarning",
    "annotate",
    "export",
    "freeze",
    "ignore",
    "is_scripting",
    "is_tracing",
    "isinstance",
    "load",
    "save",
    "script",
    "script_if_tracing",
    "script_method",
    "trace",
    "trace_module",
    "unused",
]


def _refuse(name: str, instead: str) -> NoReturn:
    raise NotImplementedError(f"jit.{name} is not supported: there is no TorchScript: {instead}")


def script(obj: Any, *args: Any, **kwargs: Any) -> Any:
    """Return the function, class or module unchanged: the engine records, plans and compiles its operations."""
    return obj


def trace(func: Any, example_inputs: Any = None, *args: Any, **kwargs: Any) -> Any:
    """Return the function or module unchanged, with its control flow."""
    return func


def trace_module(mod: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
    """Return the module as it is."""
    return mod


class ScriptModule(Module):
    """A module: what ``torch.jit`` would compile runs as it is."""


def script_method(fn: Any) -> Any:
    """Return ``fn`` as it is."""
    return fn


def freeze(mod: Any, *args: Any, **kwargs: Any) -> NoReturn:
    """Raise: there is no TorchScript."""
    _refuse("freeze", "use the module as it is, after eval()")


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


unused = script_if_tracing = _script_if_tracing = _overload = _overload_method = export


class ScriptFunction:
    """The class of compiled functions, of which there are none."""


class TracerWarning(Warning):
    """The class of warnings about traced control flow, which is never given."""


def annotate(the_type: Any, the_value: Any) -> Any:
    """Return the value."""
    return the_value


isinstance = isinstance
