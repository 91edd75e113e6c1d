"""Adam and AdamW."""

from __future__ import annotations

from typing import Any

from torchlette import _C
from torchlette._runtime.supplied import passed
from torchlette.optim import recorded
from torchlette.optim.optimizer import Optimizer, as_number, as_rate, check_options, count_steps, host_number, option
from torchlette.optim.overflow import Overflow, bias_correction

__all__ = ["Adam", "AdamW"]


class Adam(Optimizer):
    """Adam: steps scaled by running means of the gradient and of its square.

    Args:
        params: Parameters or groups.
        lr: Learning rate.
        betas: Factors of the two running means.
        eps: Added to the root of the second mean.
        weight_decay: Factor of the parameter that is added to the gradient.
        amsgrad: Divide by the largest second mean so far.
        foreach: Accepted for compatibility.
        maximize: Ascend.
        capturable: Accepted for compatibility.
        differentiable: Record the steps for autograd, so that gradients flow through them.
        fused: Accepted for compatibility; the update is always one operation.
        decoupled_weight_decay: Apply weight decay to the parameter itself, as AdamW does.
    """

    def __init__(
        self,
        params: Any,
        lr: float | _C.Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        """Check the options."""
        whole = capturable or not foreach
        check_options(
            (
                (as_rate(lr) >= 0.0, f"Invalid learning rate: {lr}"),
                (
                    whole or not isinstance(lr, _C.Tensor),
                    "lr as a Tensor is not supported for capturable=False and foreach=True",
                ),
                (
                    isinstance(betas[0], _C.Tensor) == isinstance(betas[1], _C.Tensor),
                    "betas must be either both floats or both Tensors",
                ),
                (
                    whole or not isinstance(betas[0], _C.Tensor),
                    "betas[0] as a Tensor is not supported for capturable=False and foreach=True",
                ),
                (eps >= 0.0, f"Invalid epsilon value: {eps}"),
                (0.0 <= as_number(betas[0]) < 1.0, f"Invalid beta parameter at index 0: {betas[0]}"),
                (0.0 <= as_number(betas[1]) < 1.0, f"Invalid beta parameter at index 1: {betas[1]}"),
                (weight_decay >= 0.0, f"Invalid weight_decay value: {weight_decay}"),
            )
        )
        recorded.check_fused(fused, differentiable)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "amsgrad": amsgrad,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "differentiable": differentiable,
            "fused": fused,
            "decoupled_weight_decay": decoupled_weight_decay,
        }
        super().__init__(params, defaults)

    # Options that groups saved by older versions lack.
    _LATER_OPTIONS = {
        "amsgrad": False,
        "maximize": False,
        "foreach": None,
        "capturable": False,
        "differentiable": False,
        "fused": None,
    }

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            for name, default in {**self._LATER_OPTIONS, "decoupled_weight_decay": False}.items():
                group.setdefault(name, default)

    _NUMBERS = ("step",)
    _SUPPLIED = frozenset(("lr",))

    def _update(self, overflow: Overflow | None) -> None:
        for group in self.param_groups:
            lr, eps, decay = passed(option(group, "lr")), group["eps"], group["weight_decay"]
            beta1, beta2 = (as_number(beta) for beta in group["betas"])
            decoupled, amsgrad, maximize = group["decoupled_weight_decay"], group["amsgrad"], group["maximize"]
            state, ready, entries = self.state, [], []
            for p in group["params"]:
                if (grad := p.grad) is not None:
                    ready.append((p, grad, entry := state[p] or self._start(p, group)))
                    entries.append(entry)
            if group["differentiable"]:
                for (p, grad, entry), step in zip(ready, count_steps(entries), strict=True):
                    recorded.adam_step(p, grad, entry, group, step)
                continue
            if overflow is not None:
                self._select_group(group, ready, overflow)
                continue
            adam_step, counted, bias1, bias2 = _C._adam_step, None, 0.0, 0.0
            for (p, grad, entry), step in zip(ready, count_steps(entries), strict=True):
                if step != counted:  # all parameters of a group mostly share one count
                    counted, bias1, bias2 = step, passed(1 - beta1**step), passed(1 - beta2**step)
                largest = entry["max_exp_avg_sq"] if amsgrad else None
                adam_step(
                    p, grad, entry["exp_avg"], entry["exp_avg_sq"], largest,
                    lr, beta1, beta2, eps, decay, bias1, bias2, decoupled, amsgrad, maximize,
                )  # fmt: skip

    def _select_group(self, group: dict[str, Any], ready: list[Any], overflow: Overflow) -> None:
        """Update a group whose gradients may have overflowed."""
        lr, eps, decay, (beta1, beta2) = as_number(group["lr"]), group["eps"], group["weight_decay"], group["betas"]
        beta1, beta2 = as_number(beta1), as_number(beta2)
        shared, counts = self._on_device, {}
        assert shared is not None
        for p, grad, entry in ready:
            (old,) = shared.take(entry, ("step",), p.device)
            if id(old) not in counts:
                step = old + 1
                biases = bias_correction(beta1, step), bias_correction(beta2, step)
                counts[id(old)] = old, overflow.select(old, step), biases
            _, step, biases = counts[id(old)]
            largest = entry["max_exp_avg_sq"] if group["amsgrad"] else None
            _C._adam_step(
                p, grad, entry["exp_avg"], entry["exp_avg_sq"], largest,
                lr, beta1, beta2, eps, decay, 1.0, 1.0,
                group["decoupled_weight_decay"], group["amsgrad"], group["maximize"], overflow.found(p.device), *biases,
            )  # fmt: skip
            shared.put(entry, {"step": step})

    def _start(self, p: _C.Tensor, group: dict[str, Any]) -> dict[str, Any]:
        """Make the state of ``p`` at its first step."""
        entry = self.state[p]
        entry["step"] = host_number(0.0, group["fused"])
        entry["exp_avg"] = _C.zeros_like(p, requires_grad=False)
        entry["exp_avg_sq"] = _C.zeros_like(p, requires_grad=False)
        if group["amsgrad"]:
            entry["max_exp_avg_sq"] = _C.zeros_like(p, requires_grad=False)
        return entry


class AdamW(Adam):
    """Adam with decoupled weight decay; arguments as for :class:`Adam`.

    The arguments are those of :class:`Adam`.
    """

    def __init__(
        self,
        params: Any,
        lr: float | _C.Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        """Check the options."""
        super().__init__(
            params,
            lr,
            betas,
            eps,
            weight_decay,
            amsgrad,
            foreach=foreach,
            maximize=maximize,
            capturable=capturable,
            differentiable=differentiable,
            fused=fused,
            decoupled_weight_decay=True,
        )

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            group["decoupled_weight_decay"] = True
