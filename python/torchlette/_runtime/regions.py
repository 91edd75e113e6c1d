"""Compiled regions: what a compiled function records is marked, on every call.

The engine may change the last bit of a value inside a region; outside of regions it may not. See
docs/internals/regions.md.
"""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable
from typing import Any, cast

from torchlette import _C
from torchlette._runtime.errors import AsyncInCompileError, Unsupported

__all__ = ["Context", "Stance", "is_async", "is_compiling", "like", "outside", "refuses_reads"]

# The bits of _C._compile_state().
_COMPILING, _REFUSES_READS = 1, 2


def is_compiling() -> bool:
    """Return whether the calling thread is in a compiled function."""
    return bool(_C._compile_state() & _COMPILING)


def refuses_reads() -> bool:
    """Return whether the calling thread is in a compiled function in which a read is an error."""
    return bool(_C._compile_state() & _REFUSES_READS)


class Stance:
    """What :func:`torchlette.compiler.set_stance` chose for all compiled functions."""

    eager = False

    @classmethod
    def choose(cls, eager: bool) -> bool:
        """Choose whether compiled functions run; return what was chosen before."""
        before, cls.eager = cls.eager, eager
        _C._suspend_captured(int(eager) - int(before))
        return before


def is_async(fn: Any) -> bool:
    """Return whether a call of ``fn`` returns before its body has run to the end, as that of a coroutine function."""
    call = fn if inspect.isroutine(fn) else type(fn).__call__
    return inspect.iscoroutinefunction(call) or inspect.isasyncgenfunction(call)


class Context:
    """How functions are compiled: whether they are marked, and whether a read in them is an error."""

    def __init__(self, mark: bool, refuse_reads: bool, strict: bool, config: dict[str, Any]) -> None:
        """Choose.

        Args:
            mark: Whether operators are marked as a region.
            refuse_reads: Whether a read is an error.
            strict: Whether a coroutine function is an error.
            config: What ``get_config`` returns.
        """
        self.mark, self.refuse_reads, self.strict, self.config = mark, refuse_reads, strict, config

    def get_config(self) -> dict[str, Any]:
        """Return the options."""
        return dict(self.config)

    def __call__(self, model: Any) -> Any:
        """Return what replaces ``model``: a function, a module, or the same class with another ``__call__``."""
        from torchlette._compat.optimized_module import OptimizedModule
        from torchlette.nn.modules.module import Module

        if isinstance(model, Module):
            return OptimizedModule(model, self)
        if isinstance(model, type):
            type.__setattr__(model, "__call__", self.function(model.__call__))
            return model
        assert callable(model), f"A callable function is expected, but {type(model)} is provided."
        if self.strict and is_async(model):
            raise AsyncInCompileError(
                "a coroutine function cannot be compiled, for its body runs after the call: compile the functions that "
                "it awaits"
            )
        return self.function(model)

    def function(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        """Return what replaces the function ``fn``."""
        return self.marked(fn)

    def marked(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that calls ``fn`` in a region."""
        enter, leave, mark, refuse = _C._enter_compiled, _C._set_compiled, self.mark, self.refuse_reads

        def compiled(*args: Any, **kwargs: Any) -> Any:
            if Stance.eager:
                return fn(*args, **kwargs)
            before = enter(mark, refuse)
            try:
                return fn(*args, **kwargs)
            finally:
                leave(before)

        return like(compiled, fn)


def like(wrapper: Any, fn: Callable[..., Any]) -> Callable[..., Any]:
    """Give ``wrapper`` the name, signature and attributes of ``fn``."""
    updated = functools.WRAPPER_UPDATES if isinstance(fn, (types.FunctionType, types.MethodType)) else ()
    functools.update_wrapper(wrapper, fn, updated=updated)
    wrapper._torchdynamo_orig_callable = fn
    return cast("Callable[..., Any]", wrapper)


def outside(fn: Callable[..., Any], why: str) -> Callable[..., Any]:
    """Return a function that calls ``fn`` outside of all regions.

    Args:
        fn: The function.
        why: What the error says where a function was compiled as one graph.
    """

    def called_outside(*args: Any, **kwargs: Any) -> Any:
        before = _C._set_compiled(0)
        try:
            if before & _REFUSES_READS:
                raise Unsupported(f"Call to a function under `torch.compiler.disable()` in a compiled function: {why}")
            return fn(*args, **kwargs)
        finally:
            _C._set_compiled(before)

    return like(called_outside, fn)
