"""Adafactor."""

from __future__ import annotations

import math
from typing import Any

from torchlette import _C, finfo
from torchlette._runtime.supplied import Supplied, operand, square_root
from torchlette.optim.optimizer import Optimizer, as_rate, check_options, count_steps, host_number, option
from torchlette.optim.overflow import Number, Overflow
from torchlette.optim.per_parameter import zeros_for

__all__ = ["Adafactor"]

Tensor = _C.Tensor


class Adafactor(Optimizer):
    """Adam that keeps the second moment of a matrix as a row and a column, with steps relative to the parameter's size
    (N. Shazeer and M. Stern, 2018).

    Args:
        params: Parameters or groups.
        lr: The greatest relative step, and the factor of the weight decay.
        beta2_decay: The weight of the newest squares at step t is t to this power; at most 0.
        eps: Lower bounds of the second moment (by default the dtype's epsilon) and of a parameter's size.
        d: Updates whose root mean square is greater are scaled down to it; at least 1.
        weight_decay: Fraction of the parameter, times the learning rate, that each step takes off.
        foreach: Accepted for compatibility.
        maximize: Ascend.

    Raises:
        ValueError: An option is out of range.
    """

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 1e-2,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
    ) -> None:
        """Check the options."""
        check_options(
            (
                (as_rate(lr) >= 0.0, f"Learning rate should be >= 0 but is: {lr}"),
                (beta2_decay <= 0, f"beta2_decay should be <= 0 but is: {beta2_decay}"),
                (eps[0] is None or eps[0] >= 0, f"epsilon1 should be >= 0 but is: {eps[0]}"),
                (eps[1] >= 0, f"epsilon2 should be >= 0 but is: {eps[1]}"),
                (d >= 1, f"Clipping threshold d should be >= 1 but is: {d}"),
                (weight_decay >= 0, f"weight_decay should be >= 0 but is: {weight_decay}"),
            )
        )
        defaults = {
            "lr": lr,
            "beta2_decay": beta2_decay,
            "eps": eps,
            "d": d,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
        }
        super().__init__(params, defaults)

    _NUMBERS = ("step",)
    _SUPPLIED = frozenset(("lr",))

    def _update(self, overflow: Overflow | None) -> None:
        for group in self.param_groups:
            for p in group["params"]:
                grad = p.grad
                if grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state.update(_start(p))
                if group["maximize"]:
                    grad = -grad
                if overflow is None:
                    _step(p, grad, state, group, count_steps([state])[0])
                    continue
                assert self._on_device is not None
                (old,) = self._on_device.take(state, ("step",), p.device)
                with overflow.guard([p, *(v for k, v in state.items() if k != "step")]):
                    _step(p, grad, state, group, old + 1)
                self._on_device.put(state, {"step": overflow.select(old, old + 1)})


def _start(p: Tensor) -> dict[str, Any]:
    """Return the state of a parameter before its first step."""
    if p.dim() < 2:
        return {"step": host_number(0.0), "variance": zeros_for(p)}
    zeros = zeros_for(p)
    return {"step": host_number(0.0), "row_var": zeros[..., :1].clone(), "col_var": zeros[..., :1, :].clone()}


def _lerp(mean: Tensor, new: Tensor, weight: Number) -> Tensor:
    """Move a running mean towards ``new``, in place."""
    if not isinstance(weight, Supplied):
        return mean.lerp_(new, weight)
    # The formula of lerp depends on the number.
    if weight < 0.5:
        return mean.add_((new - mean) * operand(weight, mean))
    return mean.copy_(new - (new - mean) * operand(1 - weight, mean))


def _step(p: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any], step: Number) -> None:
    """Record the update of ``p``, step number ``step``; nothing is read."""
    lr, squares = option(group, "lr"), grad.square()
    newest = step ** group["beta2_decay"]
    least, smallest = group["eps"]
    least = finfo(p.dtype).eps if least is None else least
    if p.dim() > 1:
        row = _lerp(state["row_var"], squares.mean(-1, keepdim=True), newest)
        column = _lerp(state["col_var"], squares.mean(-2, keepdim=True), newest)
        variance = row @ column / row.mean(-2, keepdim=True).clamp(min=least)
    else:
        variance = _lerp(state["variance"], squares, newest)
    update = variance.clamp(min=least * least).rsqrt() * grad
    relative = step.rsqrt().clamp(max=lr) if isinstance(step, Tensor) else min(lr, 1 / square_root(step))
    root = math.sqrt(p.numel())
    size = (p.norm() / root).clamp(min=smallest) * operand(relative, p)
    p.mul_(operand(1 - lr * group["weight_decay"], p))
    p.sub_(update * (size / (update.norm() / (root * group["d"])).clamp(min=1)))
