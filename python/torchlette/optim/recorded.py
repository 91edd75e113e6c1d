"""Steps that autograd records, for ``differentiable=True``.

A parameter is written in place, so it must not be a leaf. Its state is replaced by new tensors, so that what a backward
pass has saved stays as it was: gradients flow through any number of steps.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

from torchlette import _C

__all__ = ["adam_step", "check_fused", "pairs", "recorded_option", "renew", "sgd_step"]

Tensor = _C.Tensor
Entry: TypeAlias = dict[str, Any]


def check_fused(fused: bool | None, differentiable: bool | None) -> None:
    """Raise for options that exclude each other, as PyTorch does."""
    if fused and differentiable:
        raise RuntimeError("`fused` does not support `differentiable`")


def recorded_option(value: Any) -> Any:
    """Return an option: a tensor that requires a gradient as it is, another one as a Python number."""
    return value.item() if isinstance(value, Tensor) and not value.requires_grad else value


def renew(state: Entry, numbers: Iterable[str]) -> Entry:
    """Replace the tensors of a parameter's state by copies that a step may write, but for its numbers."""
    for key, value in state.items():
        if isinstance(value, Tensor) and key not in numbers:
            state[key] = value.clone()
    return state


def pairs(value: Any) -> Any:
    """Return a complex tensor as pairs of real numbers, and anything else as it is."""
    return _C.view_as_real(value) if isinstance(value, Tensor) and value.is_complex() else value


def _decayed(grad: Tensor, p: Tensor, decay: Any) -> Tensor:
    """Return ``grad + decay * p``, or ``grad`` itself if decay is the number 0: an infinite p would give NaN."""
    return grad + p * decay if isinstance(decay, Tensor) or decay != 0 else grad


def adam_step(p: Tensor, grad: Tensor, state: Entry, group: Entry, step: float) -> None:
    """Record a step of Adam or AdamW (Kingma and Ba 2015; Loshchilov and Hutter 2019).

    Args:
        p: The parameter.
        grad: Its gradient.
        state: Of the parameter.
        group: The options.
        step: The number of this step, from 1 on.
    """
    lr, decay = recorded_option(group["lr"]), recorded_option(group["weight_decay"])
    beta1, beta2 = (recorded_option(beta) for beta in group["betas"])
    complex_ = p.is_complex()
    renew(state, ("step",))
    p, grad, entry = pairs(p), pairs(grad), {key: pairs(value) for key, value in state.items()}
    if group["maximize"]:
        grad = -grad
    if group["decoupled_weight_decay"]:
        p.mul_(1 - lr * decay)
    else:
        grad = _decayed(grad, p, decay)
    mean = entry["exp_avg"].mul_(beta1).add_(grad * (1 - beta1))
    square = entry["exp_avg_sq"].mul_(beta2).add_(grad * grad * (1 - beta2))
    if group["amsgrad"]:
        square = _C.maximum(entry["max_exp_avg_sq"], square)
        state["max_exp_avg_sq"] = _C.view_as_complex(square) if complex_ else square
    divisor = square.sqrt() / (1 - beta2**step) ** 0.5 + group["eps"]
    p.sub_(mean / divisor * (lr / (1 - beta1**step)))


def sgd_step(p: Tensor, grad: Tensor, state: Entry, group: Entry) -> None:
    """Record a step of SGD (Sutskever et al. 2013).

    Args:
        p: The parameter.
        grad: Its gradient.
        state: Of the parameter.
        group: The options.
    """
    lr, decay = recorded_option(group["lr"]), recorded_option(group["weight_decay"])
    momentum, complex_ = group["momentum"], p.is_complex()
    p, grad = pairs(p), pairs(grad)
    if group["maximize"]:
        grad = -grad
    grad = _decayed(grad, p, decay)
    if momentum != 0:
        buffer = state.get("momentum_buffer")
        if buffer is None:  # as in PyTorch, the first one is no function of the gradient
            moved = grad.detach().clone()
        else:
            moved = pairs(buffer) * momentum + grad * (1 - group["dampening"])
        state["momentum_buffer"] = moved if not complex_ else _C.view_as_complex(moved)
        grad = grad + moved * momentum if group["nesterov"] else moved
    p.sub_(grad * lr)
