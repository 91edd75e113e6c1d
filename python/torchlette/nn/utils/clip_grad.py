"""Clipping of gradients."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable

from torchlette import _C
from torchlette.autograd import no_grad

__all__ = ["clip_grad_norm", "clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_", "get_total_norm"]

Tensor = _C.Tensor


def _as_list(tensors: Tensor | Iterable[Tensor]) -> list[Tensor]:
    return [tensors] if isinstance(tensors, Tensor) else list(tensors)


@no_grad()
def get_total_norm(
    tensors: Tensor | Iterable[Tensor],
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Return the norm of all ``tensors`` as one vector; it is read only if ``error_if_nonfinite``.

    Args:
        tensors: A tensor or an iterable of them.
        norm_type: The order of the norm.
        error_if_nonfinite: Whether a norm that is not finite raises; this reads it.
        foreach: Accepted for compatibility: the engine merges kernels by itself.
    """
    tensors = _as_list(tensors)
    norm_type = float(norm_type)
    if not tensors:
        return _C.tensor(0.0)
    device = tensors[0].device
    if all(t.device == device for t in tensors):
        total = _C._foreach_norm(tensors, norm_type)
    else:
        total = _C._foreach_norm([_C.norm(t, norm_type).to(device) for t in tensors], norm_type)
    if error_if_nonfinite and not math.isfinite(total.item()):
        raise RuntimeError(
            f"The total norm of order {norm_type} for gradients from `parameters` is non-finite, so it cannot be "
            f"clipped. "
            "To disable this error and scale the gradients by the non-finite norm anyway, set "
            "`error_if_nonfinite=False`"
        )
    return total


@no_grad()
def clip_grads_with_norm_(
    parameters: Tensor | Iterable[Tensor], max_norm: float, total_norm: Tensor, foreach: bool | None = None
) -> None:
    """Scale the gradients of ``parameters`` by ``max_norm / total_norm`` where that is below 1.

    Args:
        parameters: A tensor or an iterable of them; those without a gradient are left out.
        max_norm: The greatest norm.
        total_norm: The norm of all gradients, as :func:`get_total_norm` gives it.
        foreach: Accepted for compatibility: the engine merges kernels by itself.
    """
    factor = (max_norm / (total_norm + 1e-6)).clamp(max=1.0)
    on_device = {factor.device: factor}
    for parameter in _as_list(parameters):
        grad = parameter.grad
        if grad is not None:
            device = grad.device
            if device not in on_device:
                on_device[device] = factor.to(device)
            grad.mul_(on_device[device])


def clip_grad_norm_(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scale the gradients so that their total norm is at most ``max_norm``; return the norm before.

    Args:
        parameters: A parameter or several.
        max_norm: The largest norm that is left alone.
        norm_type: The order of the norm; may be infinite.
        error_if_nonfinite: Read the norm back and raise if it is not finite.
        foreach: Accepted for compatibility.
    """
    parameters = _as_list(parameters)
    grads = [grad for p in parameters if (grad := p.grad) is not None]
    total = get_total_norm(grads, norm_type, error_if_nonfinite)
    clip_grads_with_norm_(parameters, float(max_norm), total)
    return total


def clip_grad_norm(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Do what :func:`clip_grad_norm_` does, under its old name.

    The arguments are those of :func:`clip_grad_norm_`.
    """
    warnings.warn(
        "`torch.nn.utils.clip_grad_norm` is now deprecated in favor of `torch.nn.utils.clip_grad_norm_`.",
        FutureWarning,
        stacklevel=2,
    )
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)


@no_grad()
def clip_grad_value_(parameters: Tensor | Iterable[Tensor], clip_value: float, foreach: bool | None = None) -> None:
    """Clamp every element of the gradients to ``[-clip_value, clip_value]``.

    Args:
        parameters: A tensor or an iterable of them; those without a gradient are left out.
        clip_value: The greatest absolute value.
        foreach: Accepted for compatibility: the engine merges kernels by itself.

    >>> p = torchlette.nn.Parameter(torchlette.zeros(2))
    >>> (p * torchlette.tensor([3.0, 0.5])).sum().backward()
    >>> torchlette.nn.utils.clip_grad_value_(p, 1.0)
    >>> p.grad.tolist()
    [1.0, 0.5]
    """
    clip_value = float(clip_value)
    for parameter in _as_list(parameters):
        if parameter.grad is not None:
            parameter.grad.clamp_(min=-clip_value, max=clip_value)
