"""The module itself captures functions: ``torchlette.jit(fn)`` is called again without running Python.

There is no TorchScript: the engine compiles recorded work, so ``script`` and ``trace`` return their argument.
Annotations have no effect; functions that need a compiled program (``save``, ``load``, ``freeze``) raise.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any, Final, NoReturn

from torchlette import _C
from torchlette._runtime.captured import CapturingContext
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


unused = script_if_tracing = _script_if_tracing = _overload = _overload_method = interface = export


class ScriptFunction:
    """The class of compiled functions, of which there are none."""


class TracerWarning(Warning):
    """The class of warnings about traced control flow, which is never given."""


def annotate(the_type: Any, the_value: Any) -> Any:
    """Return the value."""
    return the_value


isinstance = isinstance


class _Jit(ModuleType):
    """The class of this module, which makes it callable."""

    def __call__(self, fn: Any = None) -> Any:
        """Capture a function or module: once per signature, then call it without running Python.

        The first call of a signature runs the function, the second runs it on placeholders and captures what it
        records, later ones record the captured program: the same operators on the new arguments, with fresh draws of
        random numbers and with the newest values of the tensors that the function reads, such as parameters. Results,
        gradients and writes have the bits of the plain function.

        A signature is: dtypes, devices, layouts and ``requires_grad`` of tensors; all other arguments; gradient mode,
        autocast, default dtype and device; the numbers, words and flags that the function reaches in its closure, its
        globals, and the attributes of objects and modules there, such as ``training``. Changed ones cost a capture. A
        function has at most 8 programs; calls of further signatures run it.

        What is not captured: the effects of Python code, such as ``print`` and ``list.append``, and hooks. Reads
        raise. Contents of arrays and lists that the function reaches are those of the capture.

        Args:
            fn: The function or module; without it the result is a decorator.

        Returns:
            The function, or a module with ``fn`` under ``_orig_mod``.

        Raises:
            HostReadInCompileError: The function reads a value, as ``item()`` does.
            InvalidTraceTensorEscapeError: A tensor that was made in a capture and not returned is used later.
            AsyncInCompileError: The function is a coroutine function.
            RuntimeError: The function writes with a gradient to a tensor from outside, seeds the generator, or gives
                a tensor other data.
        """
        context = CapturingContext(False, True, not _C._called_from_facade(), {})
        return context if fn is None else context(fn)


sys.modules[__name__].__class__ = _Jit
