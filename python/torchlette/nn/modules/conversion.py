"""How a module's parameters take converted values: in place, as new parameters or by a swap; see ``__future__``. The
arguments of a conversion, and names in its errors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from torchlette import _C
from torchlette._compat.__future__ import (
    get_overwrite_module_params_on_conversion,
    get_swap_module_params_on_conversion,
)
from torchlette._runtime.swap import swap_tensors
from torchlette.autograd import no_grad
from torchlette.nn.parameter import Parameter, is_lazy

if TYPE_CHECKING:
    from torchlette.nn.modules.module import Module

__all__ = ["convert_parameters", "parse_to", "type_name"]

Convert = Callable[[_C.Tensor], _C.Tensor]


def convert_parameters(module: Module, fn: Convert) -> None:
    """Replace values and gradients of a module's own parameters by ``fn`` of them."""
    for name, param in [(name, p) for name, p in module._parameters.items() if p is not None]:
        with no_grad():
            if get_swap_module_params_on_conversion() and not is_lazy(param):
                _swap(module, name, param, fn)
            else:
                _set(module, name, param, fn)


def _set(module: Module, name: str, param: _C.Tensor, fn: Convert) -> None:
    grad = param.grad
    if get_overwrite_module_params_on_conversion():
        param = module._parameters[name] = Parameter(fn(param.detach()), param.requires_grad)
    else:
        param.data = fn(param.detach())
    if grad is not None:
        param.grad = fn(grad.detach()).requires_grad_(grad.requires_grad)


def _swap(module: Module, name: str, param: _C.Tensor, fn: Convert) -> None:
    where = f"{type(module).__name__}.{name}"
    converted = fn(param)
    grad = param.grad
    try:
        param.grad = None
        swap_tensors(param, Parameter(converted, requires_grad=param.requires_grad))
    except Exception as exc:
        param.grad = grad
        raise RuntimeError(f"_apply(): Couldn't swap {where}") from exc
    if grad is None:
        return
    converted_grad = fn(grad).requires_grad_(grad.requires_grad)
    try:
        swap_tensors(grad, converted_grad)
    except Exception as exc:
        raise RuntimeError(f"_apply(): Couldn't swap {where}.grad") from exc
    param.grad = grad


def type_name(obj: object) -> str:
    """Return the name of the class of ``obj`` as error messages show it; of a tensor, that of its dtype and device."""
    if isinstance(obj, _C.Tensor):
        typed: Any = obj
        return str(typed.type())
    cls = type(obj)
    return cls.__name__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"


def parse_to(*args: Any, **kwargs: Any) -> tuple[Any, Any]:
    """Return (device, dtype), each or None, from the arguments of a ``to`` call."""
    other = kwargs.pop("tensor", args[0] if args and isinstance(args[0], _C.Tensor) else None)
    if other is not None:
        return other.device, other.dtype
    if args and isinstance(args[0], _C.dtype):
        args = (None, *args)
    # The options after device and dtype (non_blocking, copy, memory_format) have no effect.
    for name, value in zip(("device", "dtype"), args, strict=False):
        if name in kwargs:
            raise TypeError(f"to() got multiple values for argument '{name}'")
        kwargs[name] = value
    unknown = set(kwargs) - {"device", "dtype", "non_blocking", "copy", "memory_format"}
    if unknown:
        raise TypeError(f"to() got an unexpected keyword argument '{min(unknown)}'")
    device, dtype = kwargs.get("device"), kwargs.get("dtype")
    if dtype is not None and not isinstance(dtype, _C.dtype):
        raise TypeError(f"to: argument 'dtype' is wrong: got {type_name(dtype)}, want a dtype")
    return None if device is None else _C.device(device), dtype
