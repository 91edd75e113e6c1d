"""Adadelta."""

from __future__ import annotations

from typing import Any

from torchlette import _C
from torchlette.optim.optimizer import check_options
from torchlette.optim.overflow import add_scaled
from torchlette.optim.per_parameter import Entry, PerParameterOptimizer, zeros_for

__all__ = ["Adadelta"]


class Adadelta(PerParameterOptimizer):
    """Steps in units of the parameter: scaled by running means of past steps and gradients (M. Zeiler, 2012).

    Args:
        params: Parameters or groups.
        lr: Learning rate.
        rho: Factor of the running means.
        eps: Added to both running means.
        weight_decay: Factor of the parameter that is added to the gradient.
        foreach: Accepted for compatibility.
        capturable: Accepted for compatibility.
        maximize: Ascend.
        differentiable: Record the steps for autograd, so that gradients flow through them.
    """

    def __init__(
        self,
        params: Any,
        lr: float | _C.Tensor = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        capturable: bool = False,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        """Check the options."""
        check_options(((0.0 <= rho <= 1.0, f"Invalid rho value: {rho}"),))
        defaults = {
            "lr": lr,
            "rho": rho,
            "eps": eps,
            "weight_decay": weight_decay,
            "maximize": maximize,
            "capturable": capturable,
            "foreach": foreach,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def _start(self, p: _C.Tensor, group: Entry) -> Entry:
        return {"square_avg": zeros_for(p), "acc_delta": zeros_for(p)}

    def _step(self, p: _C.Tensor, grad: _C.Tensor, state: Entry, group: Entry, lr: float) -> None:
        rho, eps, square_avg, acc_delta = group["rho"], group["eps"], state["square_avg"], state["acc_delta"]
        square_avg.mul_(rho).addcmul_(grad, grad, value=1 - rho)
        delta = (acc_delta + eps).sqrt() / (square_avg + eps).sqrt() * grad
        acc_delta.mul_(rho).addcmul_(delta, delta, value=1 - rho)
        add_scaled(p, -lr, delta)
