"""The base class of optimizers whose update treats each parameter alone and is made of tensor operators."""

from __future__ import annotations

from typing import Any

from torchlette import _C
from torchlette.optim.optimizer import Optimizer, as_number, as_rate, check_options

__all__ = ["PerParameterOptimizer"]

Tensor = _C.Tensor

# Options that groups saved by older versions lack.
_LATER_OPTIONS = {
    "foreach": None,
    "maximize": False,
    "capturable": False,
    "differentiable": False,
    "decoupled_weight_decay": False,
    "fused": None,
}


class PerParameterOptimizer(Optimizer):
    """Base class: a subclass gives :meth:`_start`, the first state of a parameter, and :meth:`_step`, its update.

    Nothing is read back: step counts and what follows from them are Python numbers, which the
    engine takes as data, so that every step replays the same plan.
    """

    def __init__(self, params: Any, defaults: dict[str, Any]) -> None:
        """Check the options that all of these optimizers have."""
        lr, betas = defaults["lr"], defaults.get("betas", (0.0, 0.0))
        check_options(
            (
                (as_rate(lr) >= 0.0, f"Invalid learning rate: {lr}"),
                (defaults.get("eps", 0.0) >= 0.0, f"Invalid epsilon value: {defaults.get('eps')}"),
                (0.0 <= as_number(betas[0]) < 1.0, f"Invalid beta parameter at index 0: {betas[0]}"),
                (0.0 <= as_number(betas[1]) < 1.0, f"Invalid beta parameter at index 1: {betas[1]}"),
                (defaults.get("weight_decay", 0.0) >= 0.0, f"Invalid weight_decay value: {defaults.get('weight_decay')}"),
                (not defaults["differentiable"], f"{type(self).__name__}: differentiable is wrong: got True, want False"),
            )
        )
        super().__init__(params, defaults)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            for name, default in _LATER_OPTIONS.items():
                if name in self.defaults:
                    group.setdefault(name, default)

    def _start(self, p: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        """Return the state of ``p`` before its first step, without the step count."""
        raise NotImplementedError(f"{type(self).__name__} does not implement _start")

    def _step(self, p: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any], lr: float) -> None:
        """Record the update of ``p``; the state's step count is that of this step, starting at 1."""
        raise NotImplementedError(f"{type(self).__name__} does not implement _step")

    def _update(self) -> None:
        for group in self.param_groups:
            lr, decay = as_number(group["lr"]), group.get("weight_decay", 0)
            for p in group["params"]:
                grad = p.grad
                if grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state.update({"step": 0, **self._start(p, group)})
                state["step"] += 1
                if group["maximize"]:
                    grad = -grad
                if decay != 0 and group.get("decoupled_weight_decay"):
                    p.mul_(1 - lr * decay)
                elif decay != 0:
                    grad = grad.add(p, alpha=decay)
                self._step(p, grad, state, group, lr)


def zeros_for(p: Tensor) -> Tensor:
    """Return zeros like a parameter, as state."""
    return _C.zeros_like(p, requires_grad=False)
