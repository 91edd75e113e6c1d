"""Adagrad."""

from __future__ import annotations

from typing import Any

from torchlette import _C
from torchlette.optim.optimizer import check_options
from torchlette.optim.overflow import Number, add_scaled
from torchlette.optim.per_parameter import Entry, PerParameterOptimizer

__all__ = ["Adagrad"]


class Adagrad(PerParameterOptimizer):
    """Steps divided by the root of the sum of all squared gradients (J. Duchi, E. Hazan and Y. Singer, 2011).

    Args:
        params: Parameters or groups.
        lr: Learning rate.
        lr_decay: The rate of step ``t`` is ``lr / (1 + (t - 1) lr_decay)``.
        weight_decay: Factor of the parameter that is added to the gradient.
        initial_accumulator_value: The initial value of the sum of squares.
        eps: Added to the divisor.
        foreach: Accepted for compatibility.
        maximize: Ascend.
        differentiable: Record the steps for autograd, so that gradients flow through them.
        fused: Accepted for compatibility.
    """

    def __init__(
        self,
        params: Any,
        lr: float | _C.Tensor = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        """Check the options."""
        check_options(
            (
                (lr_decay >= 0.0, f"Invalid lr_decay value: {lr_decay}"),
                (
                    initial_accumulator_value >= 0.0,
                    f"Invalid initial_accumulator_value value: {initial_accumulator_value}",
                ),
            )
        )
        defaults = {
            "lr": lr,
            "lr_decay": lr_decay,
            "eps": eps,
            "weight_decay": weight_decay,
            "initial_accumulator_value": initial_accumulator_value,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "fused": fused,
        }
        super().__init__(params, defaults)

        for group in self.param_groups:
            for p in group["params"]:
                self._begin(p, group)

    def _start(self, p: _C.Tensor, group: Entry) -> Entry:
        return {"sum": _C.full_like(p, group["initial_accumulator_value"], requires_grad=False)}

    def _rates(
        self, group: Entry, lr: float, step: Number, *numbers: Number
    ) -> tuple[tuple[Number, ...], tuple[Number, ...]]:
        return (lr / (1 + (step - 1) * group["lr_decay"]),), ()

    def _step(self, p: _C.Tensor, grad: _C.Tensor, state: Entry, group: Entry, rate: Number) -> None:
        total = state["sum"].addcmul_(grad, grad)
        add_scaled(p, -rate, grad, total.sqrt() + group["eps"])
