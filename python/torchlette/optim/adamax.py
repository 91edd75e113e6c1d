"""Adamax."""

from __future__ import annotations

from typing import Any

from torchlette import _C
from torchlette.optim.overflow import Number, add_scaled, bias_correction
from torchlette.optim.per_parameter import Entry, PerParameterOptimizer, zeros_for

__all__ = ["Adamax"]


class Adamax(PerParameterOptimizer):
    """Adam with a running maximum of the gradient's size in place of the second mean (D. Kingma and J. Ba, 2014).

    Args:
        params: Parameters or groups.
        lr: Learning rate.
        betas: Factors of the running mean and of the running maximum.
        eps: Added to the gradient's size.
        weight_decay: Factor of the parameter that is added to the gradient.
        foreach: Accepted for compatibility.
        maximize: Ascend.
        differentiable: Record the steps for autograd, so that gradients flow through them.
        capturable: Accepted for compatibility.
    """

    def __init__(
        self,
        params: Any,
        lr: float | _C.Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        """Check the options."""
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, defaults)

    def _start(self, p: _C.Tensor, group: Entry) -> Entry:
        return {"exp_avg": zeros_for(p), "exp_inf": zeros_for(p)}

    def _rates(
        self, group: Entry, lr: float, step: Number, *numbers: Number
    ) -> tuple[tuple[Number, ...], tuple[Number, ...]]:
        return (lr / bias_correction(group["betas"][0], step),), ()

    def _step(self, p: _C.Tensor, grad: _C.Tensor, state: Entry, group: Entry, rate: Number) -> None:
        (beta1, beta2), exp_avg, exp_inf = group["betas"], state["exp_avg"], state["exp_inf"]
        exp_avg.lerp_(grad, 1 - beta1)
        exp_inf.copy_(_C.maximum(exp_inf * beta2, grad.abs() + group["eps"]))
        add_scaled(p, -rate, exp_avg, exp_inf)
