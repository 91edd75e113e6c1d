"""Learning rate schedules.

A schedule multiplies the rate it finds (the chained form), so that schedules compose; where
``step`` is given an epoch, the closed form is used if there is one.
"""

from __future__ import annotations

import math
import types
import warnings
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from torchlette.optim.optimizer import Optimizer

__all__ = [
    "ChainedScheduler",
    "ConstantLR",
    "CosineAnnealingLR",
    "CosineAnnealingWarmRestarts",
    "CyclicLR",
    "ExponentialLR",
    "LRScheduler",
    "LambdaLR",
    "LinearLR",
    "MultiStepLR",
    "MultiplicativeLR",
    "OneCycleLR",
    "PolynomialLR",
    "ReduceLROnPlateau",
    "SequentialLR",
    "StepLR",
]

EPOCH_DEPRECATION_WARNING = "The epoch parameter in `scheduler.step()` was not necessary and is being deprecated where possible. Please use `scheduler.step()` to step the scheduler."


def _rates(optimizer: Optimizer) -> list[float]:
    return [group["lr"] for group in optimizer.param_groups]


class LRScheduler:
    """Base class: a subclass gives :meth:`get_lr` and, where there is one, ``_get_closed_form_lr``.

    Args:
        optimizer: The optimizer whose groups are adjusted.
        last_epoch: The epoch to resume after; -1 starts anew.
    """

    optimizer: Optimizer
    base_lrs: list[float]
    last_epoch: int
    # Attributes that state_dict leaves out.
    _UNSAVED: tuple[str, ...] = ("optimizer",)

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        """Remember the initial rates and make step 0."""
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")
        self.optimizer = optimizer
        for i, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", group["lr"])
            elif "initial_lr" not in group:
                raise KeyError(
                    f"param 'initial_lr' is not specified in param_groups[{i}] when resuming scheduler with last_epoch "
                    f">= 0. "
                    "This typically happens when the optimizer was made anew: load its state first."
                )
        self.base_lrs = [group["initial_lr"] for group in optimizer.param_groups]
        self.last_epoch = last_epoch
        self._is_initial = False
        self._get_lr_called_within_step = False
        self._initial_step()

    def _initial_step(self) -> None:
        self._step_count = 0
        self._is_initial = True
        self.step()
        self._is_initial = False

    def state_dict(self) -> dict[str, Any]:
        """Return all attributes but the optimizer."""
        return {key: value for key, value in self.__dict__.items() if key not in self._UNSAVED}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take what :meth:`state_dict` returned."""
        self.__dict__.update(state_dict)

    def get_last_lr(self) -> list[float]:
        """Return the rates that the last step set."""
        return self._last_lr

    def get_lr(self) -> list[float]:
        """Return the rates of epoch ``last_epoch`` from those of the epoch before."""
        raise NotImplementedError(f"{type(self).__name__} does not implement get_lr")

    def step(self, epoch: int | None = None) -> None:
        """Move to the next epoch, or to ``epoch``."""
        if self._step_count == 1 and not getattr(self.optimizer, "_opt_called", False):
            warnings.warn(
                "Detected call of `lr_scheduler.step()` before `optimizer.step()`. In PyTorch 1.1.0 and later, you "
                "should call them in "
                "the opposite order: `optimizer.step()` before `lr_scheduler.step()`.  Failure to do this will result "
                "in PyTorch skipping "
                "the first value of the learning rate schedule. See more details at "
                "https://pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate",
                stacklevel=2,
            )
        self._step_count += 1
        if epoch is not None:
            warnings.warn(EPOCH_DEPRECATION_WARNING, stacklevel=2)
        self._update_lr(epoch)

    def _update_lr(self, epoch: int | None = None) -> None:
        closed = None
        if epoch is None:
            self.last_epoch += 1
        else:
            self.last_epoch = epoch
            closed = getattr(self, "_get_closed_form_lr", None)
        self._get_lr_called_within_step = True
        try:
            values = self.get_lr() if closed is None else closed()
        finally:
            self._get_lr_called_within_step = False
        for group, value in zip(self.optimizer.param_groups, values, strict=True):
            group["lr"] = value
        self._last_lr = _rates(self.optimizer)

    def _warn_outside_step(self) -> None:
        if not self._get_lr_called_within_step:
            warnings.warn(
                "To get the last learning rate computed by the scheduler, please use `get_last_lr()`.", stacklevel=3
            )

    def _scaled(self, factor: float) -> list[float]:
        """Return the current rates times ``factor``."""
        return [rate * factor for rate in _rates(self.optimizer)]


def per_group(value: Any, optimizer: Optimizer, name: str) -> list[Any]:
    """Return one value a group from a single value or a list."""
    count = len(optimizer.param_groups)
    if not isinstance(value, (list, tuple)):
        return [value] * count
    if len(value) != count:
        raise ValueError(f"Expected {count} {name}, but got {len(value)}")
    return list(value)


def _uses_beta1(optimizer: Optimizer) -> bool:
    """Return whether the momentum of ``optimizer`` is the first of its betas."""
    if "momentum" not in optimizer.defaults and "betas" not in optimizer.defaults:
        raise ValueError("optimizer must support momentum or beta1 with `cycle_momentum` option enabled")
    return "betas" in optimizer.defaults


def _set_momentum(group: dict[str, Any], value: float, use_beta1: bool) -> None:
    if use_beta1:
        group["betas"] = (value, *group["betas"][1:])
    else:
        group["momentum"] = value


# Its name in older programs, which derive their schedules from it.
_LRScheduler = LRScheduler


class _ByFunction(LRScheduler):
    """A schedule given by one function of the epoch, or one for each group."""

    _UNSAVED = ("optimizer", "lr_lambdas")

    def __init__(self, optimizer: Optimizer, lr_lambda: Any, last_epoch: int = -1) -> None:
        """Keep the functions."""
        self.lr_lambdas: list[Callable[[int], float]] = per_group(lr_lambda, optimizer, "lr_lambdas")
        super().__init__(optimizer, last_epoch)

    def state_dict(self) -> dict[str, Any]:
        """Return all attributes; of the functions, the attributes of callable objects."""
        saved = [None if isinstance(fn, types.FunctionType) else fn.__dict__.copy() for fn in self.lr_lambdas]
        return {**super().state_dict(), "lr_lambdas": saved}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take what :meth:`state_dict` returned; functions themselves are kept."""
        super().load_state_dict({k: v for k, v in state_dict.items() if k != "lr_lambdas"})
        for fn, saved in zip(self.lr_lambdas, state_dict["lr_lambdas"], strict=True):
            if saved is not None:
                fn.__dict__.update(saved)


class LambdaLR(_ByFunction):
    """The initial rate times a function of the epoch."""

    def get_lr(self) -> list[float]:
        """Return initial rate x function(epoch)."""
        self._warn_outside_step()
        return [base * fn(self.last_epoch) for base, fn in zip(self.base_lrs, self.lr_lambdas, strict=True)]


class MultiplicativeLR(_ByFunction):
    """The last rate times a function of the epoch."""

    def get_lr(self) -> list[float]:
        """Return last rate x function(epoch)."""
        self._warn_outside_step()
        if self.last_epoch <= 0:
            return _rates(self.optimizer)
        return [rate * fn(self.last_epoch) for rate, fn in zip(_rates(self.optimizer), self.lr_lambdas, strict=True)]


class StepLR(LRScheduler):
    """The rate falls by ``gamma`` every ``step_size`` epochs."""

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1) -> None:
        """Keep the options."""
        self.step_size = step_size
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """Return the rate, times gamma at a multiple of the step size."""
        self._warn_outside_step()
        falls = self.last_epoch > 0 and self.last_epoch % self.step_size == 0
        return self._scaled(self.gamma) if falls else _rates(self.optimizer)

    def _get_closed_form_lr(self) -> list[float]:
        return [base * self.gamma ** (self.last_epoch // self.step_size) for base in self.base_lrs]


class MultiStepLR(LRScheduler):
    """The rate falls by ``gamma`` at each milestone."""

    def __init__(
        self, optimizer: Optimizer, milestones: Iterable[int], gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        """Keep the options."""
        self.milestones = Counter(milestones)
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """Return the rate, times gamma for each time that the epoch is a milestone."""
        self._warn_outside_step()
        times = self.milestones[self.last_epoch] if self.last_epoch in self.milestones else 0
        return self._scaled(self.gamma**times) if times else _rates(self.optimizer)

    def _get_closed_form_lr(self) -> list[float]:
        passed = bisect_right(sorted(self.milestones.elements()), self.last_epoch)
        return [base * self.gamma**passed for base in self.base_lrs]


class ConstantLR(LRScheduler):
    """The rate is ``factor`` times the initial one until epoch ``total_iters``."""

    def __init__(
        self, optimizer: Optimizer, factor: float = 1.0 / 3, total_iters: int = 5, last_epoch: int = -1
    ) -> None:
        """Check the factor."""
        if factor > 1.0 or factor < 0:
            raise ValueError("Constant multiplicative factor expected to be between 0 and 1.")
        self.factor = factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """Return the rate, scaled at the first epoch and back at the last."""
        self._warn_outside_step()
        if self.last_epoch == 0:
            return self._scaled(self.factor)
        return self._scaled(1.0 / self.factor) if self.last_epoch == self.total_iters else _rates(self.optimizer)

    def _get_closed_form_lr(self) -> list[float]:
        factor = self.factor if self.last_epoch < self.total_iters else 1.0
        return [base * factor for base in self.base_lrs]


class LinearLR(LRScheduler):
    """The factor goes from ``start_factor`` to ``end_factor`` in ``total_iters`` epochs."""

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1.0 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        """Check the factors."""
        if start_factor > 1.0 or start_factor <= 0:
            raise ValueError("Starting multiplicative factor expected to be greater than 0 and less or equal to 1.")
        if end_factor > 1.0 or end_factor < 0:
            raise ValueError("Ending multiplicative factor expected to be between 0 and 1.")
        self.start_factor = start_factor
        self.end_factor = end_factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """Return the rate times the ratio of this epoch's factor to the last one's."""
        self._warn_outside_step()
        if self.last_epoch == 0:
            return self._scaled(self.start_factor)
        if self.last_epoch > self.total_iters:
            return _rates(self.optimizer)
        rise = self.end_factor - self.start_factor
        return self._scaled(1.0 + rise / (self.total_iters * self.start_factor + (self.last_epoch - 1) * rise))

    def _get_closed_form_lr(self) -> list[float]:
        done = min(self.total_iters, self.last_epoch) / self.total_iters
        return [base * (self.start_factor + (self.end_factor - self.start_factor) * done) for base in self.base_lrs]


class ExponentialLR(LRScheduler):
    """The rate falls by ``gamma`` every epoch."""

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        """Keep the factor."""
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """Return the rate times gamma."""
        self._warn_outside_step()
        return self._scaled(self.gamma) if self.last_epoch > 0 else _rates(self.optimizer)

    def _get_closed_form_lr(self) -> list[float]:
        return [base * self.gamma**self.last_epoch for base in self.base_lrs]


class PolynomialLR(LRScheduler):
    """The rate falls to zero as a power of what is left of ``total_iters`` epochs."""

    def __init__(self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1) -> None:
        """Keep the options."""
        self.total_iters = total_iters
        self.power = power
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """Return the rate times the ratio of this epoch's factor to the last one's."""
        self._warn_outside_step()
        if self.last_epoch == 0 or self.last_epoch > self.total_iters:
            return _rates(self.optimizer)
        left = (1.0 - self.last_epoch / self.total_iters) / (1.0 - (self.last_epoch - 1) / self.total_iters)
        return self._scaled(left**self.power)

    def _get_closed_form_lr(self) -> list[float]:
        left = 1.0 - min(self.total_iters, self.last_epoch) / self.total_iters
        return [base * left**self.power for base in self.base_lrs]


class CosineAnnealingLR(LRScheduler):
    """The rate follows half a cosine from the initial one to ``eta_min`` in ``T_max`` epochs, and back."""

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        """Keep the options."""
        self.T_max = T_max
        self.eta_min = eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """Return the next point of the cosine from the last one."""
        self._warn_outside_step()
        epoch, period = self.last_epoch, self.T_max
        if epoch == 0:
            return _rates(self.optimizer)
        if self._step_count == 1 and epoch > 0:
            return self._get_closed_form_lr()
        if (epoch - 1 - period) % (2 * period) == 0:
            # The ratio below is 0/0 at the minimum.
            rise = (1 - math.cos(math.pi / period)) / 2
            return [
                rate + (base - self.eta_min) * rise
                for base, rate in zip(self.base_lrs, _rates(self.optimizer), strict=True)
            ]
        ratio = (1 + math.cos(math.pi * epoch / period)) / (1 + math.cos(math.pi * (epoch - 1) / period))
        return [ratio * (rate - self.eta_min) + self.eta_min for rate in _rates(self.optimizer)]

    def _get_closed_form_lr(self) -> list[float]:
        height = (1 + math.cos(math.pi * self.last_epoch / self.T_max)) / 2
        return [self.eta_min + (base - self.eta_min) * height for base in self.base_lrs]


class CosineAnnealingWarmRestarts(LRScheduler):
    """Half cosines of ``T_0``, ``T_0 * T_mult``, ... epochs, each from the initial rate to ``eta_min``."""

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
            group["lr"] = value
        self._last_lr = _rates(self.optimizer)

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
        three_phase: Fall to the initial rate first, and then further.
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
            for group, top in zip(
                optimizer.param_groups, per_group(max_lr, optimizer, "values for max_lr"), strict=True
            ):
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
        self.use_beta1 = _uses_beta1(self.optimizer)
        if last_epoch != -1:
            return
        tops = per_group(top, self.optimizer, "values for max_momentum")
        bases = per_group(base, self.optimizer, "values for base_momentum")
        for group, high, low in zip(self.optimizer.param_groups, tops, bases, strict=True):
            _set_momentum(group, high, self.use_beta1)
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
                _set_momentum(
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
        mode: "triangular", "triangular2" (each cycle half as high) or "exp_range" (``gamma ** step`` as high).
        gamma: See ``mode``.
        scale_fn: How high, as a fraction; replaces ``mode``.
        scale_mode: Whether ``scale_fn`` takes the number of the "cycle" or that of the step, "iterations".
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
        base_lrs = per_group(base_lr, optimizer, "values for base_lr")
        if last_epoch == -1:
            for group, rate in zip(optimizer.param_groups, base_lrs, strict=True):
                group["lr"] = rate
        self.max_lrs = per_group(max_lr, optimizer, "values for max_lr")
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
        self.use_beta1 = _uses_beta1(self.optimizer)
        self.base_momentums = per_group(base, self.optimizer, "values for base_momentum")
        self.max_momentums = per_group(top, self.optimizer, "values for max_momentum")
        if last_epoch != -1:
            return
        for group, high, low in zip(self.optimizer.param_groups, self.max_momentums, self.base_momentums, strict=True):
            _set_momentum(group, high, self.use_beta1)
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
                _set_momentum(group, high - (high - low) * height, self.use_beta1)
        return [low + (high - low) * height for low, high in zip(self.base_lrs, self.max_lrs, strict=True)]

    def state_dict(self) -> dict[str, Any]:
        """Return all attributes; of ``scale_fn``, the attributes of a callable object."""
        fn = self._scale_fn_custom
        saved = None if fn is None or isinstance(fn, types.FunctionType) else fn.__dict__.copy()
        return {**super().state_dict(), "_scale_fn_custom": saved}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take what :meth:`state_dict` returned; the function itself is kept."""
        super().load_state_dict({k: v for k, v in state_dict.items() if k != "_scale_fn_custom"})
        if state_dict["_scale_fn_custom"] is not None:
            self._scale_fn_custom.__dict__.update(state_dict["_scale_fn_custom"])


class SequentialLR(LRScheduler):
    """Schedules one after the other; each begins at its milestone.

    Args:
        optimizer: The optimizer of all schedules.
        schedulers: The schedules.
        milestones: The epochs at which the second, third, ... schedule begins.
        last_epoch: The epoch to resume after.
    """

    def __init__(
        self, optimizer: Optimizer, schedulers: list[LRScheduler], milestones: list[int], last_epoch: int = -1
    ) -> None:
        """Take back the first step of all schedules and make that of the first one."""
        name = type(self).__name__
        if len(schedulers) < 1:
            raise ValueError(f"{name} expects at least one scheduler, but got no scheduler.")
        _check_members(name, optimizer, schedulers)
        if len(milestones) != len(schedulers) - 1:
            raise ValueError(
                "Sequential Schedulers expects number of schedulers provided to be one more than the number of "
                "milestone points, but got "
                f"number of schedulers {len(schedulers)} and the number of milestones to be equal to {len(milestones)}"
            )
        self._schedulers = schedulers
        self._milestones = milestones
        self.last_epoch = last_epoch + 1
        self.optimizer = optimizer
        for group in optimizer.param_groups:
            group["lr"] = group["initial_lr"]
        for scheduler in schedulers:
            _undo_step(scheduler)
        first = schedulers[bisect_right(milestones, 0)]
        first._initial_step()
        self._last_lr = first.get_last_lr()

    def step(self) -> None:  # type: ignore[override]
        """Move to the next epoch."""
        self.last_epoch += 1
        i = bisect_right(self._milestones, self.last_epoch)
        scheduler = self._schedulers[i]
        if i > 0 and self._milestones[i - 1] == self.last_epoch:
            scheduler._update_lr(0)
        else:
            scheduler.step()
        self._last_lr = scheduler.get_last_lr()

    def state_dict(self) -> dict[str, Any]:
        """Return all attributes, schedules by their own state."""
        saved = {k: v for k, v in self.__dict__.items() if k not in ("optimizer", "_schedulers")}
        return {**saved, "_schedulers": [scheduler.state_dict() for scheduler in self._schedulers]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take what :meth:`state_dict` returned."""
        self.__dict__.update({k: v for k, v in state_dict.items() if k != "_schedulers"})
        for scheduler, saved in zip(self._schedulers, state_dict["_schedulers"], strict=True):
            scheduler.load_state_dict(saved)


def _check_members(name: str, optimizer: Optimizer, schedulers: Sequence[Any]) -> None:
    for i, scheduler in enumerate(schedulers):
        if not hasattr(scheduler, "optimizer"):
            raise TypeError(f"{name} at index {i} should have `optimizer` as its attribute.")
        if isinstance(scheduler, ReduceLROnPlateau):
            raise ValueError(
                f"{name} does not support `ReduceLROnPlateau` scheduler as it requires additional kwargs to be "
                f"specified when calling "
                f"`step`, but got one at index {i} in the given schedulers sequence."
            )
        if scheduler.optimizer is not optimizer:
            raise ValueError(
                f"{name} expects all schedulers to belong to the same optimizer, but got scheduler "
                f"{type(scheduler).__name__} at index "
                f"{i} has {scheduler.optimizer}, which is different from {type(optimizer).__name__}."
            )


def _undo_step(scheduler: LRScheduler) -> None:
    """Take back the step that the constructor of a schedule made."""
    if hasattr(scheduler, "_schedulers"):
        for member in scheduler._schedulers:
            _undo_step(member)
    else:
        scheduler.last_epoch -= 1


class ChainedScheduler(LRScheduler):
    """Schedules that act together, one multiplying what the one before it gave."""

    def __init__(self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None) -> None:
        """Check that all belong to one optimizer."""
        name = type(self).__name__
        if len(schedulers) < 1:
            raise ValueError(f"{name} expects at least one scheduler to be chained, but got no scheduler.")
        optimizer = schedulers[0].optimizer if optimizer is None else optimizer
        _check_members(name, optimizer, schedulers)
        self._schedulers = schedulers
        self.optimizer = optimizer
        self._last_lr = _rates(optimizer)

    def step(self) -> None:  # type: ignore[override]
        """Step every schedule."""
        for scheduler in self._schedulers:
            scheduler.step()
        self._last_lr = _rates(self.optimizer)

    state_dict = SequentialLR.state_dict
    load_state_dict = SequentialLR.load_state_dict


class ReduceLROnPlateau(LRScheduler):
    """The rate falls by ``factor`` when a figure has not improved for ``patience`` epochs.

    Args:
        optimizer: The optimizer.
        mode: "min" if smaller figures are better, else "max".
        factor: What the rate is multiplied by.
        patience: Number of bad epochs that are let pass.
        threshold: The least change that counts as better.
        threshold_mode: "rel" if the threshold is a fraction of the best figure, else "abs".
        cooldown: Epochs to wait after a fall.
        min_lr: Lower bound of the rate, one or one for each group.
        eps: Changes of the rate below it are not made.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: float | list[float] = 0,
        eps: float = 1e-8,
    ) -> None:
        """Check the options."""
        if factor >= 1.0:
            raise ValueError("Factor should be < 1.0.")
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")
        if mode not in ("min", "max"):
            raise ValueError(f"mode {mode} is unknown!")
        if threshold_mode not in ("rel", "abs"):
            raise ValueError(f"threshold mode {threshold_mode} is unknown!")
        self.factor = factor
        self.optimizer = optimizer
        self.default_min_lr = None if isinstance(min_lr, (list, tuple)) else min_lr
        self.min_lrs = per_group(min_lr, optimizer, "min_lrs")
        self.patience = patience
        self.cooldown = cooldown
        self.eps = eps
        self.last_epoch = 0
        self._last_lr = _rates(optimizer)
        self.mode_worse = math.inf if mode == "min" else -math.inf
        self.mode = mode
        self.threshold = threshold
        self.threshold_mode = threshold_mode
        self._reset()

    def _reset(self) -> None:
        self.best = self.mode_worse
        self.cooldown_counter = 0
        self.num_bad_epochs = 0

    @property
    def in_cooldown(self) -> bool:
        """Whether a fall was less than ``cooldown`` epochs ago."""
        return self.cooldown_counter > 0

    def is_better(self, a: float, best: float) -> bool:
        """Return whether ``a`` is better than ``best`` by more than the threshold."""
        if self.mode == "min":
            return a < (best * (1.0 - self.threshold) if self.threshold_mode == "rel" else best - self.threshold)
        return a > (best * (1.0 + self.threshold) if self.threshold_mode == "rel" else best + self.threshold)

    def step(self, metrics: Any, epoch: int | None = None) -> None:  # type: ignore[override]
        """Note the figure of an epoch and lower the rate if it is time to; a tensor is read."""
        current = float(metrics.item() if hasattr(metrics, "item") else metrics)
        if epoch is not None:
            warnings.warn(EPOCH_DEPRECATION_WARNING, stacklevel=2)
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        if self.is_better(current, self.best):
            self.best = current
            self.num_bad_epochs = 0
        else:
            self.num_bad_epochs += 1
        if self.in_cooldown:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            self._reduce_lr()
            self.cooldown_counter = self.cooldown
            self.num_bad_epochs = 0
        self._last_lr = _rates(self.optimizer)

    def _reduce_lr(self) -> None:
        for group, lowest in zip(self.optimizer.param_groups, self.min_lrs, strict=True):
            old = float(group["lr"])
            new = max(old * self.factor, lowest)
            if old - new > self.eps:
                group["lr"] = new
