"""Resilient backpropagation."""

from __future__ import annotations

from typing import Any

from torchlette import _C
from torchlette.optim.optimizer import as_number, check_options
from torchlette.optim.per_parameter import Entry, PerParameterOptimizer, zeros_for

__all__ = ["Rprop"]


class Rprop(PerParameterOptimizer):
    """Steps of a size that grows while the gradient keeps its sign and shrinks when it turns (M. Riedmiller and H.
    Braun, 1993).

    Args:
        params: Parameters or groups.
        lr: The first step size.
        etas: Factors by which a step size shrinks and grows.
        step_sizes: Bounds of the step size.
        capturable: Accepted for compatibility.
        foreach: Accepted for compatibility.
        maximize: Ascend.
        differentiable: Record the steps for autograd, so that gradients flow through them.
    """

    def __init__(
        self,
        params: Any,
        lr: float | _C.Tensor = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        """Check the options."""
        check_options(((0.0 < etas[0] < 1.0 < etas[1], f"Invalid eta values: {etas[0]}, {etas[1]}"),))
        defaults = {
            "lr": lr,
            "etas": etas,
            "step_sizes": step_sizes,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, defaults)

    def _start(self, p: _C.Tensor, group: Entry) -> Entry:
        size = as_number(group["lr"])
        both = complex(size, size) if p.is_complex() else size
        return {"prev": zeros_for(p), "step_size": _C.full_like(p, both, requires_grad=False)}

    def _step(self, p: _C.Tensor, grad: _C.Tensor, state: Entry, group: Entry, lr: float) -> None:
        (shrink, grow), (smallest, largest), step_size = group["etas"], group["step_sizes"], state["step_size"]
        turn = grad * state["prev"]
        factor = _C.where(turn > 0, grow, _C.where(turn < 0, shrink, _C.ones_like(turn)))
        step_size.mul_(factor).clamp_(smallest, largest)
        # After a change of sign the parameter stays, and the stored gradient becomes zero: the next step keeps its
        # size.
        grad = _C.where(turn < 0, 0.0, grad)
        p.addcmul_(grad.sign(), step_size, value=-1)
        state["prev"].copy_(grad)
