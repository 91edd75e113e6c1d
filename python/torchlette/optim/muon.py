"""Muon."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from torchlette import _C
from torchlette._runtime.supplied import operand
from torchlette.optim.optimizer import Optimizer, as_rate, check_options, option
from torchlette.optim.overflow import Overflow, add_scaled

__all__ = ["Muon"]

Tensor = _C.Tensor
#: Rule -> the factor of the learning rate for a matrix of the given rows and columns.
_ADJUSTMENTS = {
    "original": lambda rows, columns: math.sqrt(max(1, rows / columns)),
    "match_rms_adamw": lambda rows, columns: 0.2 * math.sqrt(max(rows, columns)),
    "spectral_unclamped": lambda rows, columns: math.sqrt(rows / columns),
}


class Muon(Optimizer):
    """Momentum that is made approximately orthogonal before the step (K. Jordan and others, 2024). Parameters are
    matrices.

    Args:
        params: Parameters or groups, of two dims each.
        lr: Learning rate.
        weight_decay: Fraction of the parameter, times the learning rate, that each step takes off.
        momentum: Factor of the running mean of gradients.
        nesterov: Look one step of momentum ahead.
        ns_coefficients: The quintic polynomial of the Newton-Schulz iteration.
        eps: The least norm that a matrix is divided by.
        ns_steps: Steps of that iteration, below 100; they run in bfloat16.
        adjust_lr_fn: How the learning rate follows a matrix's shape: "original" (the default), "match_rms_adamw" or
            "spectral_unclamped".

    Raises:
        ValueError: An option is out of range, or a parameter is no matrix.
    """

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.775, 2.0315),
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
    ) -> None:
        """Check the options."""
        check_options(
            (
                (as_rate(lr) >= 0.0, f"Learning rate should be >= 0 but is: {lr}"),
                (momentum >= 0.0, f"momentum should be >= 0 but is: {momentum}"),
                (weight_decay >= 0.0, f"weight decay should be >= 0 but is: {weight_decay}"),
                (
                    adjust_lr_fn is None or adjust_lr_fn in _ADJUSTMENTS,
                    f"Adjust learning rate function {adjust_lr_fn} is not supported",
                ),
            )
        )
        defaults = {
            "lr": lr,
            "weight_decay": weight_decay,
            "momentum": momentum,
            "nesterov": nesterov,
            "ns_coefficients": ns_coefficients,
            "eps": eps,
            "ns_steps": ns_steps,
            "adjust_lr_fn": adjust_lr_fn,
        }
        super().__init__(params, defaults)
        for p in self._all_params():
            if p.dim() != 2:
                raise ValueError(f"Muon only supports 2D parameters whereas we found a parameter with size: {p.size()}")

    _SUPPLIED = frozenset(("lr",))

    def _update(self, overflow: Overflow | None) -> None:
        for group in self.param_groups:
            for p in group["params"]:
                grad = p.grad
                if grad is None:
                    continue
                entry = self.state[p]
                if "momentum_buffer" not in entry:
                    entry["momentum_buffer"] = _C.zeros_like(grad, requires_grad=False)
                if overflow is None:
                    _step(p, grad, entry["momentum_buffer"], group)
                else:
                    with overflow.guard([p, entry["momentum_buffer"]]):
                        _step(p, grad, entry["momentum_buffer"], group)


def _step(p: Tensor, grad: Tensor, buffer: Tensor, group: dict[str, Any]) -> None:
    lr, momentum = option(group, "lr"), group["momentum"]
    buffer.lerp_(grad, 1 - momentum)
    wanted = grad.lerp(buffer, momentum) if group["nesterov"] else buffer
    direction = orthogonalized(wanted, group["ns_coefficients"], group["ns_steps"], group["eps"])
    p.mul_(operand(1 - lr * group["weight_decay"], p))
    add_scaled(p, -lr * _ADJUSTMENTS[group["adjust_lr_fn"] or "original"](*p.shape), direction.to(p.dtype))


def orthogonalized(matrix: Tensor, coefficients: Sequence[float], steps: int, eps: float) -> Tensor:
    """Bring the singular values of a matrix near 1, by steps of ``a X + (b S + c S^2) X``, ``S = X X'``; in bfloat16.

    Raises ValueError for 100 steps or more and for another number of coefficients than 3.
    """
    if steps >= 100:
        raise ValueError("Number of steps must be less than 100 for computational efficiency")
    if len(coefficients) != 3:
        raise ValueError("Coefficients must be a tuple of exactly 3 values")
    a, b, c = coefficients
    x = matrix.to(_C.bfloat16)
    tall = x.shape[0] > x.shape[1]
    x = x.T if tall else x
    x = x / x.norm().clamp(min=eps)
    for _ in range(steps):
        square = x @ x.T
        x = _C.addmm(x, _C.addmm(square, square, square, beta=b, alpha=c), x, beta=a)
    return x.T if tall else x
