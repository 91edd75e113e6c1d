"""The base class of schedules."""

from __future__ import annotations

import warnings
from typing import Any

from torchlette import _C
from torchlette.optim.optimizer import Optimizer

__all__ = ["EPOCH_DEPRECATION_WARNING", "LRScheduler", "per_group"]

EPOCH_DEPRECATION_WARNING = (
    "The epoch parameter in `scheduler.step()` was not necessary and is being deprecated where possible. Please use "
    "`scheduler.step()` to step the scheduler."
)


def copied(value: Any) -> Any:
    """Return a copy of a tensor, so that writes to it are not seen; other values as they are."""
    return value.detach().clone() if isinstance(value, _C.Tensor) else value


def group_rates(optimizer: Optimizer) -> list[float]:
    return [copied(group["lr"]) for group in optimizer.param_groups]


def set_rate(group: dict[str, Any], value: Any) -> None:
    """Set the rate of a group; a tensor is written in place, as the program may hold it."""
    rate = group["lr"]
    if not isinstance(rate, _C.Tensor):
        group["lr"] = value
    elif isinstance(value, _C.Tensor):
        rate.copy_(value)
    else:
        rate.fill_(value)


class LRScheduler:
    """Base class: a subclass defines :meth:`get_lr` and, if a closed form exists, ``_get_closed_form_lr``.

    Args:
        optimizer: The optimizer whose groups are adjusted.
        last_epoch: The epoch to resume after; -1 starts from the beginning.
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
                group.setdefault("initial_lr", copied(group["lr"]))
            elif "initial_lr" not in group:
                raise KeyError(
                    f"param 'initial_lr' is not specified in param_groups[{i}] when resuming scheduler with last_epoch "
                    f">= 0. "
                    "This typically happens when the optimizer was made anew: load its state first."
                )
        self.base_lrs = [copied(group["initial_lr"]) for group in optimizer.param_groups]
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
        """Load a result of :meth:`state_dict`."""
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
            set_rate(group, value)
        self._last_lr = group_rates(self.optimizer)

    def _warn_outside_step(self) -> None:
        if not self._get_lr_called_within_step:
            warnings.warn(
                "To get the last learning rate computed by the scheduler, please use `get_last_lr()`.", stacklevel=3
            )

    def _scaled(self, factor: float) -> list[float]:
        """Return the current rates times ``factor``."""
        return [rate * factor for rate in group_rates(self.optimizer)]


_LENGTHS = (
    "{name} must have the same length as optimizer.param_groups. {name} has {given} values, param_groups has {count}."
)


def per_group(value: Any, optimizer: Optimizer, name: str, error: str = _LENGTHS) -> list[Any]:
    """Return a value for each group, from a single value or a list; tensors are copied.

    Args:
        value: One value, or a list of one for each group.
        optimizer: The optimizer whose rates are set.
        name: What the value is, for errors.
        error: The text for a list of the wrong length.
    """
    count = len(optimizer.param_groups)
    if not isinstance(value, (list, tuple)):
        return [copied(value) for _ in range(count)]
    if len(value) != count:
        raise ValueError(error.format(name=name, given=len(value), count=count))
    return [copied(item) for item in value]


def uses_beta1(optimizer: Optimizer) -> bool:
    """Return whether the momentum of ``optimizer`` is the first of its betas."""
    if "momentum" not in optimizer.defaults and "betas" not in optimizer.defaults:
        raise ValueError("optimizer must support momentum or beta1 with `cycle_momentum` option enabled")
    return "betas" in optimizer.defaults


def set_momentum(group: dict[str, Any], value: float, use_beta1: bool) -> None:
    if use_beta1:
        group["betas"] = (value, *group["betas"][1:])
    else:
        group["momentum"] = value
