"""RAdam."""

from __future__ import annotations

from typing import Any

from torchlette import _C
from torchlette._runtime.supplied import square_root
from torchlette.optim.overflow import Number, add_scaled, bias_correction
from torchlette.optim.per_parameter import Entry, PerParameterOptimizer, zeros_for

__all__ = ["RAdam"]


class RAdam(PerParameterOptimizer):
    """Adam without the division while the estimate of its variance is poor (L. Liu et al., 2019).

    Args:
        params: Parameters or groups.
        lr: Learning rate.
        betas: Factors of the two running means.
        eps: Added to the divisor.
        weight_decay: Factor of the parameter that is added to the gradient.
        decoupled_weight_decay: Shrink the parameter itself instead, as AdamW does.
        foreach: Accepted for compatibility.
        maximize: Ascend.
        capturable: Accepted for compatibility.
        differentiable: Record the steps for autograd, so that gradients flow through them.
    """

    def __init__(
        self,
        params: Any,
        lr: float | _C.Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        """Check the options."""
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "decoupled_weight_decay": decoupled_weight_decay,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def _start(self, p: _C.Tensor, group: Entry) -> Entry:
        return {"exp_avg": zeros_for(p), "exp_avg_sq": zeros_for(p)}

    def _rates(
        self, group: Entry, lr: float, step: Number, *numbers: Number
    ) -> tuple[tuple[Number, ...], tuple[Number, ...]]:
        beta1, beta2 = group["betas"]
        rate, bias2 = lr / bias_correction(beta1, step), bias_correction(beta2, step)
        # The length of the simple moving average equivalent to the exponential one, now and in the limit.
        limit = 2 / (1 - beta2) - 1
        length = limit - 2 * step * (1 - bias2) / bias2
        enough = length > 5.0
        if not isinstance(enough, _C.Tensor) and not enough:
            return (rate, 0.0, False), ()
        rectification = square_root((length - 4) * (length - 2) * limit / ((limit - 4) * (limit - 2) * length))
        return (rate, rate * rectification * square_root(bias2), enough), ()

    def _step(
        self,
        p: _C.Tensor,
        grad: _C.Tensor,
        state: Entry,
        group: Entry,
        rate: Number,
        rectified: Number,
        enough: Number,
    ) -> None:
        (beta1, beta2), exp_avg, exp_avg_sq = group["betas"], state["exp_avg"], state["exp_avg_sq"]
        exp_avg.lerp_(grad, 1 - beta1)
        exp_avg_sq.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        divisor = exp_avg_sq.sqrt() + group["eps"]
        if isinstance(enough, _C.Tensor):
            p.sub_(_C.where(enough, exp_avg / divisor * rectified, exp_avg * rate))
        elif enough:
            add_scaled(p, -rectified, exp_avg, divisor)
        else:
            add_scaled(p, -rate, exp_avg)
