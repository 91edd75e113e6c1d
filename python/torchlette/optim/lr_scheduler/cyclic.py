"""Schedules that repeat, or rise and fall once."""

from __future__ import annotations

import math
import types
from collections.abc import Callable
from typing import Any

from torchlette.optim.lr_scheduler.base import LRScheduler, group_rates, per_group, set_momentum, set_rate, uses_beta1
from torchlette.optim.optimizer import Optimizer

__all__ = ["CosineAnnealingWarmRestarts", "CyclicLR", "OneCycleLR"]


class CosineAnnealingWarmRestarts(LRScheduler):
    """Half cosines of ``T_0``, ``T_0 * T_mult``, ... epochs, each from the initial rate to ``eta_min``.

    Args:
        optimizer: The optimizer whose rates are set.
        T_0: Epochs to the first restart.
        T_mult: The factor by which the time between restarts grows.
        eta_min: The least rate.
        last_epoch: The epoch to go on from; -1 to begin.
    """

    def __init__(
        self, optimizer: Optimizer, T_0: int, T_mult: int = 1, eta_min: float = 0.0, last_epoch: int = -1
    ) -> None:
        """Check the options."""
        if T_0 <= 0 or not isinstance(T_0, int):
            raise ValueError(f"Expected positive integer T_0, but got {T_0}")
        if T_mult < 1 or not isinstance(T_mult, int):
            raise ValueError(f"Expected integer T_mult >= 1, but got {T_mult}")
        if not isinstance(eta_min, (float, int)):
            raise ValueError(f"Expected float or int eta_min, but got {eta_min} of type {type(eta_min)}")
        self.T_0 = T_0
        self.T_i = T_0
        self.T_mult = T_mult
        self.eta_min = eta_min
        self.T_cur = last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """Return the point of the current cosine."""
        self._warn_outside_step()
        height = (1 + math.cos(math.pi * self.T_cur / self.T_i)) / 2
        return [self.eta_min + (base - self.eta_min) * height for base in self.base_lrs]

    def step(self, epoch: float | None = None) -> None:
        """Move to the next epoch, or to ``epoch``, which may be a fraction."""
        if epoch is None:
            epoch = 0 if self.last_epoch < 0 else self.last_epoch + 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur -= self.T_i
                self.T_i *= self.T_mult
        else:
            if epoch < 0:
                raise ValueError(f"Expected non-negative epoch, but got {epoch}")
            self._find_cycle(epoch)
        self.last_epoch = math.floor(epoch)
        self._get_lr_called_within_step = True
        values = self.get_lr()
        self._get_lr_called_within_step = False
        for group, value in zip(self.optimizer.param_groups, values, strict=True):
            set_rate(group, value)
        self._last_lr = group_rates(self.optimizer)

    def _find_cycle(self, epoch: float) -> None:
        """Set the length of the cycle that ``epoch`` falls into, and its place in it."""
        self.T_i, self.T_cur = self.T_0, epoch
        if epoch < self.T_0:
            return
        if self.T_mult == 1:
            self.T_cur = epoch % self.T_0
            return
        cycle = int(math.log(epoch / self.T_0 * (self.T_mult - 1) + 1, self.T_mult))
        self.T_cur = epoch - self.T_0 * (self.T_mult**cycle - 1) / (self.T_mult - 1)
        self.T_i = self.T_0 * self.T_mult**cycle


class OneCycleLR(LRScheduler):
    """The rate rises to ``max_lr`` and falls far below the initial one; momentum moves the other way.

    Args:
        optimizer: The optimizer.
        max_lr: The highest rate, one or one for each group.
        total_steps: Number of steps of the cycle.
        epochs: With ``steps_per_epoch``, instead of ``total_steps``.
        steps_per_epoch: See ``epochs``.
        pct_start: Fraction of the cycle in which the rate rises.
        anneal_strategy: "cos" or "linear".
        cycle_momentum: Whether momentum moves too.
        base_momentum: Momentum at the highest rate.
        max_momentum: Momentum at both ends.
        div_factor: ``max_lr`` over the initial rate.
        final_div_factor: The initial rate over the last one.
        three_phase: Whether the fall has two phases: to the initial rate, then to the final one.
        last_epoch: The step to resume after.
    """

    _UNSAVED = ("optimizer",)

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | list[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.85,
        max_momentum: float | list[float] = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        """Check the options and set the ends of the phases in the groups."""
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")
        self.optimizer = optimizer
        self.total_steps = self._count_steps(total_steps, epochs, steps_per_epoch)
        if pct_start < 0 or pct_start > 1 or not isinstance(pct_start, float):
            raise ValueError(f"Expected float between 0 and 1 pct_start, but got {pct_start}")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}")
        self._schedule_phases = self._phases(pct_start, three_phase)
        self._anneal_func_type = anneal_strategy
        if last_epoch == -1:
            for group, top in zip(optimizer.param_groups, per_group(max_lr, optimizer, "max_lr"), strict=True):
                group["initial_lr"] = top / div_factor
                group["max_lr"] = top
                group["min_lr"] = group["initial_lr"] / final_div_factor
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self._set_up_momentum(base_momentum, max_momentum, last_epoch)
        super().__init__(optimizer, last_epoch)

    @staticmethod
    def _count_steps(total_steps: int | None, epochs: int | None, steps_per_epoch: int | None) -> int:
        if total_steps is None and (epochs is None or steps_per_epoch is None):
            raise ValueError("You must define either total_steps OR (epochs AND steps_per_epoch)")
        given = (
            {"total_steps": total_steps}
            if total_steps is not None
            else {"epochs": epochs, "steps_per_epoch": steps_per_epoch}
        )
        for name, value in given.items():
            if not isinstance(value, int) or value <= 0:
                raise ValueError(f"Expected positive integer {name}, but got {value}")
        return math.prod(given.values())  # type: ignore[arg-type]

    def _phases(self, pct_start: float, three_phase: bool) -> list[dict[str, Any]]:
        def phase(end: float, lr: tuple[str, str], momentum: tuple[str, str]) -> dict[str, Any]:
            return {
                "end_step": end,
                "start_lr": lr[0],
                "end_lr": lr[1],
                "start_momentum": momentum[0],
                "end_momentum": momentum[1],
            }

        rise = phase(
            float(pct_start * self.total_steps) - 1, ("initial_lr", "max_lr"), ("max_momentum", "base_momentum")
        )
        last = self.total_steps - 1
        if not three_phase:
            return [rise, phase(last, ("max_lr", "min_lr"), ("base_momentum", "max_momentum"))]
        return [
            rise,
            phase(
                float(2 * pct_start * self.total_steps) - 2, ("max_lr", "initial_lr"), ("base_momentum", "max_momentum")
            ),
            phase(last, ("initial_lr", "min_lr"), ("max_momentum", "max_momentum")),
        ]

    def _set_up_momentum(self, base: Any, top: Any, last_epoch: int) -> None:
        self.use_beta1 = uses_beta1(self.optimizer)
        if last_epoch != -1:
            return
        tops = per_group(top, self.optimizer, "max_momentum")
        bases = per_group(base, self.optimizer, "base_momentum")
        for group, high, low in zip(self.optimizer.param_groups, tops, bases, strict=True):
            set_momentum(group, high, self.use_beta1)
            group["max_momentum"], group["base_momentum"] = high, low

    def _anneal(self, start: float, end: float, done: float) -> float:
        if self._anneal_func_type == "linear":
            return (end - start) * done + start
        return end + (start - end) / 2.0 * (1 + math.cos(math.pi * done))

    def get_lr(self) -> list[float]:
        """Return the rates of the current step, and set the momenta."""
        self._warn_outside_step()
        step = self.last_epoch
        if step > self.total_steps:
            raise ValueError(f"Tried to step {step} times. The total number of steps is {self.total_steps}")
        start = 0.0
        for phase in self._schedule_phases:
            end = phase["end_step"]
            if step <= end or phase is self._schedule_phases[-1]:
                done = (step - start) / (end - start)
                break
            start = end
        rates = []
        for group in self.optimizer.param_groups:
            rates.append(self._anneal(group[phase["start_lr"]], group[phase["end_lr"]], done))
            if self.cycle_momentum:
                set_momentum(
                    group,
                    self._anneal(group[phase["start_momentum"]], group[phase["end_momentum"]], done),
                    self.use_beta1,
                )
        return rates


class CyclicLR(LRScheduler):
    """The rate goes up and down between two bounds (L. Smith, 2017).

    Args:
        optimizer: The optimizer.
        base_lr: Lower bound, one or one for each group.
        max_lr: Upper bound, one or one for each group.
        step_size_up: Steps in which the rate rises.
        step_size_down: Steps in which it falls; ``step_size_up`` by default.
        mode: "triangular", "triangular2" (the height halves each cycle) or "exp_range" (the height decays as ``gamma **
            step``).
        gamma: See ``mode``.
        scale_fn: The height as a fraction; replaces ``mode``.
        scale_mode: The argument of ``scale_fn``: "cycle" for the cycle's number, "iterations" for the step's.
        cycle_momentum: Whether momentum moves too, against the rate.
        base_momentum: Momentum at the highest rate.
        max_momentum: Momentum at the lowest rate.
        last_epoch: The step to resume after.
    """

    _UNSAVED = ("optimizer", "_scale_fn_custom")

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: float | list[float],
        max_lr: float | list[float],
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: str = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: str = "cycle",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.8,
        max_momentum: float | list[float] = 0.9,
        last_epoch: int = -1,
    ) -> None:
        """Check the options and set the lower bound in the groups."""
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")
        self.optimizer = optimizer
        base_lrs = per_group(base_lr, optimizer, "base_lr")
        if last_epoch == -1:
            for group, rate in zip(optimizer.param_groups, base_lrs, strict=True):
                set_rate(group, rate)
        self.max_lrs = per_group(max_lr, optimizer, "max_lr")
        down = float(step_size_up if step_size_down is None else step_size_down)
        self.total_size = float(step_size_up) + down
        self.step_ratio = float(step_size_up) / self.total_size
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise ValueError("mode is invalid and scale_fn is None")
        self.mode = mode
        self.gamma = gamma
        self._scale_fn_custom = scale_fn
        self.scale_mode = scale_mode if scale_fn is not None else "iterations" if mode == "exp_range" else "cycle"
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self._set_up_momentum(base_momentum, max_momentum, last_epoch)
        super().__init__(optimizer, last_epoch)
        self.base_lrs = base_lrs

    def _set_up_momentum(self, base: Any, top: Any, last_epoch: int) -> None:
        self.use_beta1 = uses_beta1(self.optimizer)
        self.base_momentums = per_group(base, self.optimizer, "base_momentum")
        self.max_momentums = per_group(top, self.optimizer, "max_momentum")
        if last_epoch != -1:
            return
        for group, high, low in zip(self.optimizer.param_groups, self.max_momentums, self.base_momentums, strict=True):
            set_momentum(group, high, self.use_beta1)
            group["max_momentum"], group["base_momentum"] = high, low

    def scale_fn(self, x: float) -> float:
        """Return the height of cycle or step ``x`` as a fraction."""
        if self._scale_fn_custom is not None:
            return self._scale_fn_custom(x)
        if self.mode == "triangular":
            return 1.0
        return 0.5 ** (x - 1) if self.mode == "triangular2" else self.gamma**x

    def get_lr(self) -> list[float]:
        """Return the rates of the current step, and set the momenta."""
        self._warn_outside_step()
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1.0 + self.last_epoch / self.total_size - cycle
        height = x / self.step_ratio if x <= self.step_ratio else (x - 1) / (self.step_ratio - 1)
        height *= self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            for group, low, high in zip(
                self.optimizer.param_groups, self.base_momentums, self.max_momentums, strict=True
            ):
                set_momentum(group, high - (high - low) * height, self.use_beta1)
        return [low + (high - low) * height for low, high in zip(self.base_lrs, self.max_lrs, strict=True)]

    def state_dict(self) -> dict[str, Any]:
        """Return all attributes; a callable object ``scale_fn`` is represented by its attributes."""
        fn = self._scale_fn_custom
        saved = None if fn is None or isinstance(fn, types.FunctionType) else fn.__dict__.copy()
        return {**super().state_dict(), "_scale_fn_custom": saved}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load a result of :meth:`state_dict`; the function itself is kept."""
        super().load_state_dict({k: v for k, v in state_dict.items() if k != "_scale_fn_custom"})
        if state_dict["_scale_fn_custom"] is not None:
            self._scale_fn_custom.__dict__.update(state_dict["_scale_fn_custom"])
