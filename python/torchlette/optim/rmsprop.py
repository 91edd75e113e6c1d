"""RMSprop."""

from __future__ import annotations

from typing import Any

from torchlette import _C
from torchlette.optim.optimizer import check_options
from torchlette.optim.overflow import add_scaled
from torchlette.optim.per_parameter import Entry, PerParameterOptimizer, zeros_for

__all__ = ["RMSprop"]


class RMSprop(PerParameterOptimizer):
    """Steps divided by the root of a running mean of the squared gradient (T. Tieleman and G. Hinton, 2012).

    Args:
        params: Parameters or groups.
        lr: Learning rate.
        alpha: Factor of the running mean.
        eps: Added to the divisor.
        weight_decay: Factor of the parameter that is added to the gradient.
        momentum: Factor of the running sum of steps.
        centered: Divide by the standard deviation: subtract the square of a running mean of the gradient.
        capturable: Accepted for compatibility.
        foreach: Accepted for compatibility.
        maximize: Ascend.
        differentiable: Record the steps for autograd, so that gradients flow through them.
    """

    def __init__(
        self,
        params: Any,
        lr: float | _C.Tensor = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        """Check the options."""
        check_options(
            (
                (momentum >= 0.0, f"Invalid momentum value: {momentum}"),
                (alpha >= 0.0, f"Invalid alpha value: {alpha}"),
            )
        )
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "alpha": alpha,
            "eps": eps,
            "centered": centered,
            "weight_decay": weight_decay,
            "capturable": capturable,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            group.setdefault("momentum", 0)
            group.setdefault("centered", False)

    def _start(self, p: _C.Tensor, group: Entry) -> Entry:
        state = {"square_avg": zeros_for(p)}
        if group["momentum"] > 0:
            state["momentum_buffer"] = zeros_for(p)
        if group["centered"]:
            state["grad_avg"] = zeros_for(p)
        return state

    def _step(self, p: _C.Tensor, grad: _C.Tensor, state: Entry, group: Entry, lr: float) -> None:
        alpha, square_avg = group["alpha"], state["square_avg"]
        square_avg.mul_(alpha).addcmul_(grad, grad, value=1 - alpha)
        if group["centered"]:
            grad_avg = state["grad_avg"]
            grad_avg.lerp_(grad, 1 - alpha)
            divisor = square_avg.addcmul(grad_avg, grad_avg, value=-1).sqrt() + group["eps"]
        else:
            divisor = square_avg.sqrt() + group["eps"]
        if group["momentum"] > 0:
            buffer = state["momentum_buffer"].mul_(group["momentum"]).addcdiv_(grad, divisor)
            add_scaled(p, -lr, buffer)
        else:
            add_scaled(p, -lr, grad, divisor)
