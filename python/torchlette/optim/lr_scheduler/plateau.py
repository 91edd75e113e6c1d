"""The schedule that depends on a measured value."""

from __future__ import annotations

import math
import warnings
from typing import Any

from torchlette.optim.lr_scheduler.base import EPOCH_DEPRECATION_WARNING, LRScheduler, group_rates, per_group, set_rate
from torchlette.optim.optimizer import Optimizer

__all__ = ["ReduceLROnPlateau"]


class ReduceLROnPlateau(LRScheduler):
    """The rate is multiplied by ``factor`` when a metric has not improved for ``patience`` epochs.

    Args:
        optimizer: The optimizer.
        mode: "min" if smaller metrics are better, else "max".
        factor: The factor of the rate.
        patience: Number of epochs without improvement that are tolerated.
        threshold: The least change that counts as better.
        threshold_mode: "rel" if the threshold is a fraction of the best metric, else "abs".
        cooldown: Epochs to wait after a fall.
        min_lr: Lower bound of the rate, one or one for each group.
        eps: Smaller changes of the rate are skipped.
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
        self.min_lrs = per_group(min_lr, optimizer, "min_lrs", "expected {count} {name}, got {given}")
        self.patience = patience
        self.cooldown = cooldown
        self.eps = eps
        self.last_epoch = 0
        self._last_lr = group_rates(optimizer)
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
        """Record the metric of an epoch and lower the rate if it is due; a tensor is read."""
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
        self._last_lr = group_rates(self.optimizer)

    def _reduce_lr(self) -> None:
        count = len(self.optimizer.param_groups)
        if count != len(self.min_lrs):  # a group was added
            if self.default_min_lr is None:
                raise RuntimeError(
                    f"The number of param groups in the `optimizer` ({count}) differs from when `ReduceLROnPlateau` "
                    f"was initialized ({len(self.min_lrs)}), usually due to a new param group being added to the "
                    "optimizer. Please modify the `min_lrs` field to match the length of the `optimizer` param groups."
                )
            self.min_lrs = [self.default_min_lr] * count
        for group, lowest in zip(self.optimizer.param_groups, self.min_lrs, strict=True):
            old = float(group["lr"])
            new = max(old * self.factor, lowest)
            if old - new > self.eps:
                set_rate(group, new)
