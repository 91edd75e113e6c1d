"""Averages of a model's parameters over training steps, with the names of ``torch.optim.swa_utils``."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from typing import Any

from torchlette import _C
from torchlette.autograd import no_grad
from torchlette.nn.modules.module import Module
from torchlette.optim.lr_scheduler.base import LRScheduler, per_group
from torchlette.optim.optimizer import Optimizer

__all__ = [
    "SWALR",
    "AveragedModel",
    "get_ema_avg_fn",
    "get_ema_multi_avg_fn",
    "get_swa_avg_fn",
    "get_swa_multi_avg_fn",
    "update_bn",
]

Tensor = _C.Tensor
AverageOne = Callable[[Tensor, Tensor, Tensor], Tensor]
AverageMany = Callable[[Sequence[Tensor], Sequence[Tensor], Tensor], None]


def _check_decay(decay: float) -> None:
    if decay < 0.0 or decay > 1.0:
        raise ValueError(f"Invalid decay value {decay} provided. Please provide a value in [0,1] range.")


def get_ema_multi_avg_fn(decay: float = 0.999) -> AverageMany:
    """Return the update ``average = decay * average + (1 - decay) * parameter`` for lists, in place."""
    _check_decay(decay)

    @no_grad()
    def ema_update(averages: Sequence[Tensor], current: Sequence[Tensor], _: Any) -> None:
        for average, p in zip(averages, current, strict=True):
            if average.is_floating_point():
                average.lerp_(p, 1 - decay)
            else:
                average.copy_(average * decay + p * (1 - decay))

    return ema_update


def get_swa_multi_avg_fn() -> AverageMany:
    """Return the update of equally weighted means for lists, in place."""

    @no_grad()
    def swa_update(averages: Sequence[Tensor], current: Sequence[Tensor], num_averaged: Tensor) -> None:
        for average, p in zip(averages, current, strict=True):
            average.add_(((p - average) / (num_averaged + 1)).to(average.dtype))

    return swa_update


def get_ema_avg_fn(decay: float = 0.999) -> AverageOne:
    """Return the function ``decay * average + (1 - decay) * parameter``."""
    _check_decay(decay)

    @no_grad()
    def ema_update(average: Tensor, current: Tensor, num_averaged: Any) -> Tensor:
        return decay * average + (1 - decay) * current

    return ema_update


def get_swa_avg_fn() -> AverageOne:
    """Return the update of an equally weighted mean by one more value."""

    @no_grad()
    def swa_update(average: Tensor, current: Tensor, num_averaged: Tensor) -> Tensor:
        return average + (current - average) / (num_averaged + 1)

    return swa_update


class AveragedModel(Module):
    """A copy of a model whose parameters are running averages.

    Args:
        model: The model; it is copied.
        device: Where the averages live.
        avg_fn: Returns the new average from (average, parameter, number of models averaged).
        multi_avg_fn: The same for lists, in place. Without either, all models weigh the same.
        use_buffers: Whether to average the buffers too; otherwise they are copied.
    """

    n_averaged: Tensor

    def __init__(
        self,
        model: Module,
        device: Any = None,
        avg_fn: AverageOne | None = None,
        multi_avg_fn: AverageMany | None = None,
        use_buffers: bool = False,
    ) -> None:
        """Copy the model."""
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("Only one of avg_fn and multi_avg_fn should be provided")
        self.module = deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", _C.tensor(0, dtype=_C.int64, device=device))
        self.avg_fn = avg_fn
        self.multi_avg_fn = multi_avg_fn
        self.use_buffers = use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the averaged model."""
        return self.module(*args, **kwargs)

    def _averaged(self, model: Module) -> list[Tensor]:
        tensors = itertools.chain(model.parameters(), model.buffers() if self.use_buffers else ())
        return [t.detach() for t in tensors]

    @no_grad()
    def update_parameters(self, model: Module) -> None:
        """Add the present parameters of ``model`` to the averages; the first call copies them."""
        averages, current = self._averaged(self.module), self._averaged(model)
        current = [p.to(average.device) for average, p in zip(averages, current, strict=True)]
        if self.n_averaged.item() == 0:
            for average, p in zip(averages, current, strict=True):
                average.copy_(p)
        elif self.avg_fn is not None:
            for average, p in zip(averages, current, strict=True):
                average.copy_(self.avg_fn(average, p, self.n_averaged.to(average.device)))
        else:
            self._average_lists(averages, current)
        if not self.use_buffers:
            for mine, b in zip(self.module.buffers(), model.buffers(), strict=True):
                mine.detach().copy_(b.detach().to(mine.device))
        self.n_averaged.add_(1)

    def _average_lists(self, averages: list[Tensor], current: list[Tensor]) -> None:
        """Average the tensors with one call for each device and dtype."""
        update = get_swa_multi_avg_fn() if self.multi_avg_fn is None else self.multi_avg_fn
        lists: defaultdict[Any, tuple[list[Tensor], list[Tensor]]] = defaultdict(lambda: ([], []))
        for average, p in zip(averages, current, strict=True):
            mine, theirs = lists[average.device, average.dtype]
            mine.append(average)
            theirs.append(p)
        for (device, _), (mine, theirs) in lists.items():
            update(mine, theirs, self.n_averaged.to(device))


@no_grad()
def update_bn(loader: Iterable[Any], model: Module, device: Any = None) -> None:
    """Recompute the running statistics of all batch normalisations in one pass over ``loader``.

    Args:
        loader: Batches: tensors, or lists and tuples whose first item is one.
        model: The model, called on each batch.
        device: Where batches are moved first.
    """
    # Modules with running statistics are recognised by the method that resets them.
    momenta = {m: m.momentum for m in model.modules() if callable(getattr(m, "reset_running_stats", None))}
    if not momenta:
        return
    was_training = model.training
    model.train()
    for module in momenta:
        module.reset_running_stats()
        module.momentum = None
    for batch in loader:
        x = batch[0] if isinstance(batch, (list, tuple)) else batch
        model(x if device is None else x.to(device))
    for module, momentum in momenta.items():
        module.momentum = momentum
    model.train(was_training)


class SWALR(LRScheduler):
    """The rate moves to a fixed value and stays there.

    Args:
        optimizer: The optimizer.
        swa_lr: The final rate: one, or one for each group.
        anneal_epochs: Epochs until the final rate is reached.
        anneal_strategy: "cos" or "linear".
        last_epoch: The epoch to resume after.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        swa_lr: float | list[float],
        anneal_epochs: int = 10,
        anneal_strategy: str = "cos",
        last_epoch: int = -1,
    ) -> None:
        """Check the options and store the final rates in the groups."""
        for rate, group in zip(per_group(swa_lr, optimizer, "swa_lr"), optimizer.param_groups, strict=True):
            group["swa_lr"] = rate
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}")
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")
        self._anneal_strategy = anneal_strategy
        self.anneal_epochs = anneal_epochs
        super().__init__(optimizer, last_epoch)

    def _part(self, step: int) -> float:
        """Return the fraction of the change that is made after ``step`` steps."""
        t = max(0, min(1, step / max(1, self.anneal_epochs)))
        return t if self._anneal_strategy == "linear" else (1 - math.cos(math.pi * t)) / 2

    def get_lr(self) -> list[float]:
        """Return the rates of the current step from those of the step before."""
        self._warn_outside_step()
        step = self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)
        before, now = self._part(step - 1), self._part(step)
        rates = []
        for group in self.optimizer.param_groups:
            end = group["swa_lr"]
            begin = end if before == 1 else (group["lr"] - before * end) / (1 - before)
            rates.append(end * now + begin * (1 - now))
        return rates
