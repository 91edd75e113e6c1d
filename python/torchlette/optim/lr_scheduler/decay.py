"""Schedules that multiply the rate by a factor of the epoch."""

from __future__ import annotations

import math
import types
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from torchlette.optim.lr_scheduler.base import LRScheduler, group_rates, per_group
from torchlette.optim.optimizer import Optimizer

__all__ = [
    "ConstantLR",
    "CosineAnnealingLR",
    "ExponentialLR",
    "LambdaLR",
    "LinearLR",
    "MultiStepLR",
    "MultiplicativeLR",
    "PolynomialLR",
    "StepLR",
]


class _ByFunction(LRScheduler):
    """A schedule given by one function of the epoch, or one for each group."""

    _UNSAVED = ("optimizer", "lr_lambdas")

    def __init__(self, optimizer: Optimizer, lr_lambda: Any, last_epoch: int = -1) -> None:
        """Keep the functions."""
        self.lr_lambdas: list[Callable[[int], float]] = per_group(
            lr_lambda, optimizer, "lr_lambdas", "Expected {count} {name}, but got {given}"
        )
        super().__init__(optimizer, last_epoch)

    def state_dict(self) -> dict[str, Any]:
        """Return all attributes; callable objects are represented by their attributes, functions are left out."""
        saved = [None if isinstance(fn, types.FunctionType) else fn.__dict__.copy() for fn in self.lr_lambdas]
        return {**super().state_dict(), "lr_lambdas": saved}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load a result of :meth:`state_dict`; functions themselves are kept."""
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
            return group_rates(self.optimizer)
        return [
            rate * fn(self.last_epoch) for rate, fn in zip(group_rates(self.optimizer), self.lr_lambdas, strict=True)
        ]


class StepLR(LRScheduler):
    """The rate falls by ``gamma`` every ``step_size`` epochs.

    Args:
        optimizer: The optimizer whose rates are set.
        step_size: Epochs between decays.
        gamma: The factor of each decay.
        last_epoch: The epoch to go on from; -1 to begin.
    """

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1) -> None:
        """Keep the options."""
        self.step_size = step_size
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """Return the rate, times gamma at a multiple of the step size."""
        self._warn_outside_step()
        falls = self.last_epoch > 0 and self.last_epoch % self.step_size == 0
        return self._scaled(self.gamma) if falls else group_rates(self.optimizer)

    def _get_closed_form_lr(self) -> list[float]:
        return [base * self.gamma ** (self.last_epoch // self.step_size) for base in self.base_lrs]


class MultiStepLR(LRScheduler):
    """The rate falls by ``gamma`` at each milestone.

    Args:
        optimizer: The optimizer whose rates are set.
        milestones: Epochs, in order, at which the rate decays.
        gamma: The factor of each decay.
        last_epoch: The epoch to go on from; -1 to begin.
    """

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
        return self._scaled(self.gamma**times) if times else group_rates(self.optimizer)

    def _get_closed_form_lr(self) -> list[float]:
        passed = bisect_right(sorted(self.milestones.elements()), self.last_epoch)
        return [base * self.gamma**passed for base in self.base_lrs]


class ConstantLR(LRScheduler):
    """The rate is ``factor`` times the initial one until epoch ``total_iters``.

    Args:
        optimizer: The optimizer whose rates are set.
        factor: The factor of the rate before ``total_iters``.
        total_iters: Epochs until the rate has its last value.
        last_epoch: The epoch to go on from; -1 to begin.
    """

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
        return self._scaled(1.0 / self.factor) if self.last_epoch == self.total_iters else group_rates(self.optimizer)

    def _get_closed_form_lr(self) -> list[float]:
        factor = self.factor if self.last_epoch < self.total_iters else 1.0
        return [base * factor for base in self.base_lrs]


class LinearLR(LRScheduler):
    """The factor goes from ``start_factor`` to ``end_factor`` in ``total_iters`` epochs.

    Args:
        optimizer: The optimizer whose rates are set.
        start_factor: The first factor of the rate.
        end_factor: The last factor of the rate.
        total_iters: Epochs until the rate has its last value.
        last_epoch: The epoch to go on from; -1 to begin.
    """

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
            return group_rates(self.optimizer)
        rise = self.end_factor - self.start_factor
        return self._scaled(1.0 + rise / (self.total_iters * self.start_factor + (self.last_epoch - 1) * rise))

    def _get_closed_form_lr(self) -> list[float]:
        done = min(self.total_iters, self.last_epoch) / self.total_iters
        return [base * (self.start_factor + (self.end_factor - self.start_factor) * done) for base in self.base_lrs]


class ExponentialLR(LRScheduler):
    """The rate falls by ``gamma`` every epoch.

    Args:
        optimizer: The optimizer whose rates are set.
        gamma: The factor of each decay.
        last_epoch: The epoch to go on from; -1 to begin.
    """

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        """Keep the factor."""
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """Return the rate times gamma."""
        self._warn_outside_step()
        return self._scaled(self.gamma) if self.last_epoch > 0 else group_rates(self.optimizer)

    def _get_closed_form_lr(self) -> list[float]:
        return [base * self.gamma**self.last_epoch for base in self.base_lrs]


class PolynomialLR(LRScheduler):
    """The rate falls to zero as a power of the remaining share of ``total_iters`` epochs.

    Args:
        optimizer: The optimizer whose rates are set.
        total_iters: Epochs until the rate has its last value.
        power: The power of the polynomial.
        last_epoch: The epoch to go on from; -1 to begin.
    """

    def __init__(self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1) -> None:
        """Keep the options."""
        self.total_iters = total_iters
        self.power = power
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """Return the rate times the ratio of this epoch's factor to the last one's."""
        self._warn_outside_step()
        if self.last_epoch == 0 or self.last_epoch > self.total_iters:
            return group_rates(self.optimizer)
        left = (1.0 - self.last_epoch / self.total_iters) / (1.0 - (self.last_epoch - 1) / self.total_iters)
        return self._scaled(left**self.power)

    def _get_closed_form_lr(self) -> list[float]:
        left = 1.0 - min(self.total_iters, self.last_epoch) / self.total_iters
        return [base * left**self.power for base in self.base_lrs]


class CosineAnnealingLR(LRScheduler):
    """The rate follows half a cosine from the initial one to ``eta_min`` in ``T_max`` epochs, and back.

    Args:
        optimizer: The optimizer whose rates are set.
        T_max: Epochs from the greatest rate to the least.
        eta_min: The least rate.
        last_epoch: The epoch to go on from; -1 to begin.
    """

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
            return group_rates(self.optimizer)
        if self._step_count == 1 and epoch > 0:
            return self._get_closed_form_lr()
        if (epoch - 1 - period) % (2 * period) == 0:
            # The ratio below is 0/0 at the minimum.
            rise = (1 - math.cos(math.pi / period)) / 2
            return [
                rate + (base - self.eta_min) * rise
                for base, rate in zip(self.base_lrs, group_rates(self.optimizer), strict=True)
            ]
        ratio = (1 + math.cos(math.pi * epoch / period)) / (1 + math.cos(math.pi * (epoch - 1) / period))
        return [ratio * (rate - self.eta_min) + self.eta_min for rate in group_rates(self.optimizer)]

    def _get_closed_form_lr(self) -> list[float]:
        height = (1 + math.cos(math.pi * self.last_epoch / self.T_max)) / 2
        return [self.eta_min + (base - self.eta_min) * height for base in self.base_lrs]
