"""Averaged stochastic gradient descent."""

from __future__ import annotations

from typing import Any

from torchlette import _C
from torchlette._runtime.supplied import operand
from torchlette.optim.optimizer import as_number, check_options, host_number
from torchlette.optim.overflow import Number, add_scaled
from torchlette.optim.per_parameter import Entry, PerParameterOptimizer, zeros_for

__all__ = ["ASGD"]


class ASGD(PerParameterOptimizer):
    """Gradient descent that keeps the mean of the last parameters as state ``ax`` (B. Polyak and A. Juditsky, 1992).

    Args:
        params: Parameters or groups.
        lr: Learning rate.
        lambd: Factor by which the parameter decays.
        alpha: The rate of step ``t`` is ``lr / (1 + lambd lr t) ** alpha``.
        t0: The step at which averaging begins.
        weight_decay: Factor of the parameter that is added to the gradient.
        foreach: Accepted for compatibility.
        maximize: Ascend.
        differentiable: Record the steps for autograd, so that gradients flow through them.
        capturable: Accepted for compatibility.
    """

    _NUMBERS = ("step", "eta", "mu")

    def __init__(
        self,
        params: Any,
        lr: float | _C.Tensor = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        """Check the options."""
        check_options(
            (
                (lambd >= 0.0, f"Invalid lambd value: {lambd}"),
                (alpha >= 0.0, f"Invalid alpha value: {alpha}"),
            )
        )
        defaults = {
            "lr": lr,
            "lambd": lambd,
            "alpha": alpha,
            "t0": t0,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, defaults)

    def _start(self, p: _C.Tensor, group: Entry) -> Entry:
        return {"eta": host_number(as_number(group["lr"])), "mu": host_number(1.0), "ax": zeros_for(p)}

    def _rates(
        self, group: Entry, lr: float, step: Number, *numbers: Number
    ) -> tuple[tuple[Number, ...], tuple[Number, ...]]:
        averaged = step - group["t0"]
        averaged = averaged.clamp(min=1) if isinstance(averaged, _C.Tensor) else max(1, averaged)
        return numbers, (lr / (1 + group["lambd"] * lr * step) ** group["alpha"], 1 / averaged)

    def _step(self, p: _C.Tensor, grad: _C.Tensor, state: Entry, group: Entry, eta: Number, mu: Number) -> None:
        ax = state["ax"]
        p.mul_(operand(1 - group["lambd"] * eta, p))
        add_scaled(p, -eta, grad)
        if isinstance(mu, _C.Tensor):
            ax.copy_(_C.where(mu == 1, p, ax + (p - ax) * mu))
        elif mu != 1:
            ax.add_((p - ax) * operand(mu, p))
        else:
            ax.copy_(p)
