"""What optimizers of other packages take from ``torch.optim.optimizer``: choices, conversions, pieces of docstrings."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from torchlette import _C
from torchlette._runtime.gpus import is_gpu
from torchlette._runtime.regions import is_compiling
from torchlette.autograd import set_grad_enabled

__all__: list[str] = []

Tensor = _C.Tensor
Call = TypeVar("Call", bound=Callable[..., Any])

_params_doc = "params (iterable): parameters, (name, parameter) pairs, or dictionaries that define groups of either"
_foreach_doc = "foreach (bool, optional): whether the update is written with lists of tensors (default: None)"
_fused_doc = "fused (bool, optional): must be False or None: the engine fuses the update by itself (default: None)"
_maximize_doc = "maximize (bool, optional): whether the objective is maximized (default: False)"
_capturable_doc = "capturable (bool, optional): whether the state is tensors on the parameters' device (default: False)"
_differentiable_doc = "differentiable (bool, optional): whether a step is recorded for gradients (default: False)"
_functional_api_doc = "The update of {optimizer} as a function, which writes to the parameters and the state."


def _use_grad_for_differentiable(func: Call) -> Call:
    """Return a step that records gradients only where the optimizer's option ``differentiable`` is true."""

    @functools.wraps(func)
    def step(self: Any, *args: Any, **kwargs: Any) -> Any:
        with set_grad_enabled(bool(self.defaults["differentiable"])):
            return func(self, *args, **kwargs)

    return step  # type: ignore[return-value]


def _disable_dynamo_if_unsupported(single_tensor_fn: Any = None) -> Callable[[Call], Call]:
    """Return a decorator that returns its function: what is compiled here is what the function records."""
    return lambda func: func


def _get_value(x: Any) -> Any:
    """Return a tensor of one element as a number, other values as they are; in a compiled function also the tensor."""
    return x.item() if isinstance(x, Tensor) and not is_compiling() else x


def _to_scalar(x: Any) -> Any:
    """Return a tensor of one element without its dims, other values as they are."""
    return x.squeeze() if isinstance(x, Tensor) and x.dim() != 0 else x


def _dispatch_sqrt(x: Any) -> Any:
    """Return the square root of a number or a tensor."""
    return x.sqrt() if isinstance(x, Tensor) else math.sqrt(x)


def _stack_if_compiling(x: Sequence[Any]) -> Any:
    """Return the values as they are; in a compiled function stacked."""
    return _C.stack(list(x)) if is_compiling() else x


def _is_plain(p: Any) -> bool:
    from torchlette.nn.parameter import Parameter

    return type(p) in (Tensor, Parameter)


def _default_to_fused_or_foreach(
    params: Sequence[Any], differentiable: bool, use_fused: bool = False
) -> tuple[bool, bool]:
    """Return whether an update is fused, and whether it is written with lists of tensors.

    It is never fused: the engine fuses what any update records. Lists are used where all parameters lie on a GPU.

    Args:
        params: The parameters; None among them is passed over.
        differentiable: Whether the step is recorded for gradients: then neither.
        use_fused: Accepted for compatibility.
    """
    foreach = all(p is None or (_is_plain(p) and is_gpu(p.device.type)) for p in params)
    return False, foreach and not differentiable


def _device_dtype_check_for_fused(p: Tensor, cuda_unsupported: bool = False) -> None:
    """Raise: ``fused=True`` asks for kernels that there are not."""
    raise RuntimeError(
        "`fused=True` requires all the params to be floating point Tensors of supported devices: [] but "
        f"{p.dtype} and {p.device.type}: the engine fuses updates by itself: leave out fused=True"
    )


def _view_as_real(params: list[Any], *state_and_grads: list[Any]) -> None:
    """Replace complex parameters, and what belongs to them in the other lists, by their real views."""
    for i, p in enumerate(params):
        if p.is_complex():
            for values in (params, *state_and_grads):
                values[i] = _C.view_as_real(values[i])


def _get_scalar_dtype(is_fused: bool | None = None) -> Any:
    """Return the dtype of a number in the state: float64 if that is the default dtype, else float32."""
    return _C.float64 if not is_fused and _C.get_default_dtype() == _C.float64 else _C.float32


def _get_capturable_supported_devices(supports_xla: bool = True) -> list[str]:
    """Return the types of devices on which ``capturable=True`` has a meaning."""
    return ["cuda", "wgpu"]
