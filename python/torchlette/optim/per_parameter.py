"""The base class of optimizers that update each parameter separately by tensor operators."""

from __future__ import annotations

from typing import Any, TypeAlias

from torchlette import _C
from torchlette._runtime.supplied import host_numbers, operand, write_numbers
from torchlette.optim.optimizer import Optimizer, as_number, as_rate, check_options, count_steps, host_number, option
from torchlette.optim.overflow import Number, Overflow
from torchlette.optim.recorded import check_fused, pairs, recorded_option, renew

__all__ = ["Entry", "PerParameterOptimizer", "zeros_for"]

Tensor = _C.Tensor
#: The state of one parameter, or the options of a group.
Entry: TypeAlias = dict[str, Any]

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
    """Base class: a subclass gives :meth:`_start`, the first state of a parameter, :meth:`_rates`, what follows from
    the step count, and :meth:`_step`, the update.

    Step counts are kept in host memory. Values derived from them are Python numbers, which the engine passes to the
    plan as data: every step replays the same plan. Only for steps that may overflow, both are 0-dim tensors.
    """

    _NUMBERS = ("step",)
    _SUPPLIED = frozenset(("lr",))

    def __init__(self, params: Any, defaults: Entry) -> None:
        """Check the options that all of these optimizers have."""
        lr, betas = defaults["lr"], defaults.get("betas", (0.0, 0.0))
        check_options(
            (
                (as_rate(lr) >= 0.0, f"Invalid learning rate: {lr}"),
                (defaults.get("eps", 0.0) >= 0.0, f"Invalid epsilon value: {defaults.get('eps')}"),
                (0.0 <= as_number(betas[0]) < 1.0, f"Invalid beta parameter at index 0: {betas[0]}"),
                (0.0 <= as_number(betas[1]) < 1.0, f"Invalid beta parameter at index 1: {betas[1]}"),
                (
                    defaults.get("weight_decay", 0.0) >= 0.0,
                    f"Invalid weight_decay value: {defaults.get('weight_decay')}",
                ),
            )
        )
        check_fused(defaults.get("fused"), defaults.get("differentiable"))
        super().__init__(params, defaults)

    def __setstate__(self, state: Entry) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            for name, default in _LATER_OPTIONS.items():
                if name in self.defaults:
                    group.setdefault(name, default)

    def _start(self, p: Tensor, group: Entry) -> Entry:
        """Return the state of ``p`` before its first step, without the step count."""
        raise NotImplementedError(f"{type(self).__name__} does not implement _start")

    def _rates(
        self, group: Entry, lr: float, step: Number, *numbers: Number
    ) -> tuple[tuple[Number, ...], tuple[Number, ...]]:
        """Return what :meth:`_step` takes besides the state, and the new values of the numbers.

        Args:
            group: The options.
            lr: The learning rate of the group.
            step: The count of this step, starting at 1.
            *numbers: The values of the further entries in ``_NUMBERS``.
        """
        return (lr,), ()

    def _step(self, p: Tensor, grad: Tensor, state: Entry, group: Entry, *rates: Number) -> None:
        """Record the update of ``p``, with the rates that :meth:`_rates` gave."""
        raise NotImplementedError(f"{type(self).__name__} does not implement _step")

    def _begin(self, p: Tensor, group: Entry) -> Entry:
        """Make the state of ``p`` before its first step."""
        state = self.state[p]
        state.update({"step": host_number(0.0, group.get("fused")), **self._start(p, group)})
        return state

    def _update(self, overflow: Overflow | None) -> None:
        for group in self.param_groups:
            ready, entries = [], []
            for p in group["params"]:
                grad = p.grad
                if grad is not None:
                    ready.append((p, grad))
                    entries.append(self.state[p] or self._begin(p, group))
            if group.get("differentiable"):
                self._record_group(group, ready, entries)
            elif overflow is None:
                self._update_group(group, ready, entries)
            else:
                self._select_group(group, ready, entries, overflow)

    def _update_group(self, group: Entry, ready: list[tuple[Tensor, Tensor]], entries: list[Entry]) -> None:
        lr, others, steps = option(group, "lr"), self._NUMBERS[1:], count_steps(entries)
        tensors = [state[key] for state in entries for key in others]
        numbers = host_numbers(tensors) if tensors else []
        rates: dict[Any, Any] = {}
        changed: list[float] = []
        for i, ((p, grad), state) in enumerate(zip(ready, entries, strict=True)):
            mine = (steps[i], *numbers[i * len(others) : (i + 1) * len(others)])
            if mine not in rates:
                rates[mine] = self._rates(group, lr, *mine)
            given, new = rates[mine]
            self._decayed_step(p, grad, state, group, lr, given)
            changed.extend(new)
        if tensors:
            write_numbers(tensors, changed)

    def _record_group(self, group: Entry, ready: list[tuple[Tensor, Tensor]], entries: list[Entry]) -> None:
        """Update a group for autograd. Numbers of the state that require a gradient are tensors."""
        others, steps, lr = self._NUMBERS[1:], count_steps(entries), recorded_option(group["lr"])
        for (p, grad), state, step in zip(ready, entries, steps, strict=True):
            given, changed = self._rates(group, lr, step, *(recorded_option(state[key]) for key in others))
            self._decayed_step(p, grad, renew(state, self._NUMBERS), group, lr, given)
            for key, value in zip(others, changed, strict=True):
                state[key] = value if isinstance(value, Tensor) else _C.full_like(state[key], value)

    def _select_group(
        self, group: Entry, ready: list[tuple[Tensor, Tensor]], entries: list[Entry], overflow: Overflow
    ) -> None:
        """Update a group whose gradients may have overflowed."""
        shared, rates = self._on_device, {}
        assert shared is not None
        for (p, grad), state in zip(ready, entries, strict=True):
            old = shared.take(state, self._NUMBERS, p.device)
            key = tuple(map(id, old))
            if key not in rates:
                step = old[0] + 1
                given, new = self._rates(group, as_number(group["lr"]), step, *old[1:])
                chosen = [overflow.select(before, after) for before, after in zip(old, (step, *new), strict=True)]
                rates[key] = old, given, dict(zip(self._NUMBERS, chosen, strict=True))
            _, given, numbers = rates[key]
            moved = [v for k, v in state.items() if k not in self._NUMBERS]
            with overflow.guard([p, *moved]):
                self._decayed_step(p, grad, state, group, as_number(group["lr"]), given)
            shared.put(state, numbers)

    def _decayed_step(
        self, p: Tensor, grad: Tensor, state: Entry, group: Entry, lr: float, rates: tuple[Number, ...]
    ) -> None:
        decay = group.get("weight_decay", 0)
        if p.is_complex():  # both parts are parameters
            p, grad, state = pairs(p), pairs(grad), {key: pairs(value) for key, value in state.items()}
        if group["maximize"]:
            grad = -grad
        if decay != 0 and group.get("decoupled_weight_decay"):
            p.mul_(operand(1 - lr * decay, p))
        elif decay != 0:
            grad = grad.add(p, alpha=decay)
        self._step(p, grad, state, group, *rates)


def zeros_for(p: Tensor) -> Tensor:
    """Return zeros like a parameter, as state."""
    return _C.zeros_like(p, requires_grad=False)
