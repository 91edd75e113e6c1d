"""Hooks that run with every module's call, before those of the module itself."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from torchlette import _C
from torchlette.utils.hooks import RemovableHandle

__all__ = [
    "register_module_backward_hook",
    "register_module_buffer_registration_hook",
    "register_module_forward_hook",
    "register_module_forward_pre_hook",
    "register_module_full_backward_hook",
    "register_module_full_backward_pre_hook",
    "register_module_module_registration_hook",
    "register_module_parameter_registration_hook",
]

Hooks = OrderedDict[int, Any]


class _EveryModule:
    """The tables of hooks, by the handles' numbers, and the flags of forward hooks."""

    def __init__(self) -> None:
        self.forward_pre: Hooks = OrderedDict()
        self.forward: Hooks = OrderedDict()
        self.backward_pre: Hooks = OrderedDict()
        self.backward: Hooks = OrderedDict()
        self.with_kwargs: Hooks = OrderedDict()
        self.always_called: Hooks = OrderedDict()
        self.registration: dict[str, Hooks] = {kind: OrderedDict() for kind in ("buffer", "module", "parameter")}
        # _C checks these tables: calls without hooks do not enter Python.
        _C._set_module_hooks(self.forward_pre, self.forward, self.backward_pre, self.backward)


EVERY = _EveryModule()


def _register(table: Hooks, hook: Any, *flags: Hooks) -> RemovableHandle:
    handle = RemovableHandle(table, extra_dict=list(flags))
    table[handle.id] = hook
    for flag in flags:
        flag[handle.id] = True
    return handle


def registered(kind: str, module: Any, name: str, value: Any) -> Any:
    """Return what a module registers for ``value``, a buffer, module or parameter: what the last hook returned."""
    for hook in EVERY.registration[kind].values():
        replaced = hook(module, name, value)
        value = value if replaced is None else replaced
    return value


def register_module_buffer_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(module, name, buffer)`` when a module gets a buffer; its result replaces the buffer."""
    return _register(EVERY.registration["buffer"], hook)


def register_module_module_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(module, name, submodule)`` when a module gets a submodule; its result replaces it."""
    return _register(EVERY.registration["module"], hook)


def register_module_parameter_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(module, name, parameter)`` when a module gets a parameter; its result replaces it."""
    return _register(EVERY.registration["parameter"], hook)


def register_module_forward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(module, args)`` before every module's ``forward``; its result replaces the arguments."""
    return _register(EVERY.forward_pre, hook)


def register_module_forward_hook(
    hook: Callable[..., Any], *, with_kwargs: bool = False, always_call: bool = False
) -> RemovableHandle:
    """Call ``hook(module, args, output)`` after every module's ``forward``; its result replaces the output.

    Args:
        hook: The function to call; its result, unless None, replaces the last argument.
        with_kwargs: Whether it also gets the call's keyword arguments.
        always_call: Whether it is called also when ``forward`` raises.
    """
    return _register(EVERY.forward, hook, *[EVERY.with_kwargs] * with_kwargs, *[EVERY.always_called] * always_call)


def register_module_full_backward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(module, grad_output)`` when the gradients of a module's outputs are known."""
    return _register(EVERY.backward_pre, hook)


def register_module_full_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(module, grad_input, grad_output)`` when the gradients of a module's inputs are known."""
    return _register(EVERY.backward, hook)


def register_module_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Do what :func:`register_module_full_backward_hook` does, under its old name."""
    return register_module_full_backward_hook(hook)
