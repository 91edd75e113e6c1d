"""How a module's parameters take converted values: in place, as new parameters or by a swap; see ``__future__``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

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

__all__ = ["convert_parameters"]

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
