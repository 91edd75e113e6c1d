"""NAdam."""

from __future__ import annotations

from typing import Any

from torchlette import _C
from torchlette._runtime.supplied import operand
from torchlette.optim.optimizer import check_options, host_number
from torchlette.optim.overflow import Number, add_scaled, bias_correction
from torchlette.optim.per_parameter import Entry, PerParameterOptimizer, zeros_for

__all__ = ["NAdam"]


class NAdam(PerParameterOptimizer):
    """Adam with Nesterov's momentum (T. Dozat, 2016).

    Args:
        params: Parameters or groups.
        lr: Learning rate.
        betas: Factors of the two running means.
        eps: Added to the divisor.
        weight_decay: Factor of the parameter that is added to the gradient.
        momentum_decay: How fast the momentum comes to its full value.
        decoupled_weight_decay: Shrink the parameter itself instead, as AdamW does.
        foreach: Accepted for compatibility.
        maximize: Ascend.
        capturable: Accepted for compatibility.
        differentiable: Record the steps for autograd, so that gradients flow through them.
    """

    _NUMBERS = ("step", "mu_product")

    def __init__(
        self,
        params: Any,
        lr: float | _C.Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        """Check the options."""
        check_options(((momentum_decay >= 0.0, f"Invalid momentum_decay value: {momentum_decay}"),))
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "momentum_decay": momentum_decay,
            "decoupled_weight_decay": decoupled_weight_decay,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def _start(self, p: _C.Tensor, group: Entry) -> Entry:
        return {"mu_product": host_number(1.0), "exp_avg": zeros_for(p), "exp_avg_sq": zeros_for(p)}

    def _rates(
        self, group: Entry, lr: float, step: Number, *numbers: Number
    ) -> tuple[tuple[Number, ...], tuple[Number, ...]]:
        (beta1, beta2), psi = group["betas"], group["momentum_decay"]
        mu = beta1 * (1.0 - 0.5 * 0.96 ** (step * psi))
        mu_next = beta1 * (1.0 - 0.5 * 0.96 ** ((step + 1) * psi))
        product = numbers[0] * mu
        fresh, moving = lr * (1.0 - mu) / (1.0 - product), lr * mu_next / (1.0 - product * mu_next)
        return (fresh, moving, bias_correction(beta2, step)), (product,)

    def _step(
        self,
        p: _C.Tensor,
        grad: _C.Tensor,
        state: Entry,
        group: Entry,
        fresh: Number,
        moving: Number,
        bias2: Number,
    ) -> None:
        (beta1, beta2), exp_avg, exp_avg_sq = group["betas"], state["exp_avg"], state["exp_avg_sq"]
        exp_avg.lerp_(grad, 1 - beta1)
        exp_avg_sq.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        divisor = (exp_avg_sq / operand(bias2, p)).sqrt() + group["eps"]
        add_scaled(p, -fresh, grad, divisor)
        add_scaled(p, -moving, exp_avg, divisor)
