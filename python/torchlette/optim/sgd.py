"""Stochastic gradient descent."""

from __future__ import annotations

from typing import Any

from torchlette import _C
from torchlette._runtime.supplied import passed
from torchlette.optim import recorded
from torchlette.optim.optimizer import Optimizer, as_number, as_rate, check_options, option
from torchlette.optim.overflow import Overflow

__all__ = ["SGD"]


class SGD(Optimizer):
    """Gradient descent with momentum, dampening, Nesterov's form and weight decay.

    Args:
        params: Parameters or groups.
        lr: Learning rate.
        momentum: Factor of the running sum of gradients.
        dampening: Subtracted from 1 to give the newest gradient's weight in that sum.
        weight_decay: Factor of the parameter that is added to the gradient.
        nesterov: Look one step of momentum ahead.
        maximize: Ascend.
        foreach: Accepted for compatibility.
        differentiable: Record the steps for autograd, so that gradients flow through them.
        fused: Accepted for compatibility; the update is always one operation.
    """

    def __init__(
        self,
        params: Any,
        lr: float | _C.Tensor = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float | _C.Tensor = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        """Check the options."""
        check_options(
            (
                (as_rate(lr) >= 0.0, f"Invalid learning rate: {lr}"),
                (momentum >= 0.0, f"Invalid momentum value: {momentum}"),
                (as_number(weight_decay) >= 0.0, f"Invalid weight_decay value: {weight_decay}"),
                (
                    not nesterov or (momentum > 0 and dampening == 0),
                    "Nesterov momentum requires a momentum and zero dampening",
                ),
            )
        )
        recorded.check_fused(fused, differentiable)
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "dampening": dampening,
            "weight_decay": weight_decay,
            "nesterov": nesterov,
            "maximize": maximize,
            "foreach": foreach,
            "differentiable": differentiable,
            "fused": fused,
        }
        super().__init__(params, defaults)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            for name, default in (
                ("nesterov", False),
                ("maximize", False),
                ("foreach", None),
                ("differentiable", False),
                ("fused", None),
            ):
                group.setdefault(name, default)

    _SUPPLIED = frozenset(("lr",))

    def _selects(self) -> bool:
        # With dampening, the first step that is taken weighs the gradient differently: the host must know which it is.
        return super()._selects() and not any(
            group["momentum"] != 0 and group["dampening"] != 0 and self._lacks_momentum(p)
            for group in self.param_groups
            for p in group["params"]
        )

    def _lacks_momentum(self, p: _C.Tensor) -> bool:
        return p.grad is not None and self.state.get(p, {}).get("momentum_buffer") is None

    def _update(self, overflow: Overflow | None) -> None:
        for group in self.param_groups:
            lr, momentum, dampening = passed(option(group, "lr")), group["momentum"], group["dampening"]
            decay, nesterov, maximize = as_number(group["weight_decay"]), group["nesterov"], group["maximize"]
            for p in group["params"]:
                grad = p.grad
                if grad is None:
                    continue
                if group["differentiable"]:
                    recorded.sgd_step(p, grad, self.state[p], group)
                    continue
                buffer, first = None, False
                if momentum != 0:
                    entry = self.state[p]
                    buffer = entry.get("momentum_buffer")
                    if buffer is None:
                        first = True
                        buffer = entry["momentum_buffer"] = _C.zeros_like(p, requires_grad=False)
                found = None if overflow is None else overflow.found(p.device)
                _C._sgd_step(p, grad, buffer, lr, momentum, dampening, decay, first, nesterov, maximize, found)
