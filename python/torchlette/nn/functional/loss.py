"""Losses of classes, values and distributions; part of :mod:`torchlette.nn.functional`."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

from torchlette import _C
from torchlette._runtime.casts import autocast_inputs
from torchlette.nn.functional.linear_maps import linear

__all__ = [
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "cross_entropy",
    "ctc_loss",
    "gaussian_nll_loss",
    "huber_loss",
    "kl_div",
    "l1_loss",
    "linear_cross_entropy",
    "mse_loss",
    "nll_loss",
    "poisson_nll_loss",
    "smooth_l1_loss",
]

Tensor = _C.Tensor


def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """Return the cross entropy of logits against class indices or class probabilities.

    Args:
        input: Logits, [batch, classes, sizes...] or [classes].
        target: Classes, [batch, sizes...] int64, or probabilities of the shape of ``input``.
        weight: A factor of each class; None for none.
        size_average: An old flag in place of ``reduction``.
        ignore_index: The class of targets that cost nothing.
        reduce: An old flag in place of ``reduction``.
        reduction: "none", "mean" or "sum": what becomes of the losses.
        label_smoothing: The share of the probability that all classes get, from 0 to 1.

    >>> logits = torchlette.tensor([[2.0, 0.0], [0.0, 2.0]])
    >>> losses = torchlette.nn.functional.cross_entropy(logits, torchlette.tensor([0, 0]), reduction="none")
    >>> [round(v, 4) for v in losses.tolist()]
    [0.1269, 2.1269]
    """
    reduction = reduction_name(size_average, reduce, reduction)
    return _C.cross_entropy(
        input, target, weight=weight, ignore_index=ignore_index, reduction=reduction, label_smoothing=label_smoothing
    )


def linear_cross_entropy(
    input: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    *,
    linear_bias: Tensor | None = None,
    weight: Tensor | None = None,
    reduction: str = "mean",
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    options: Any = None,
) -> Tensor:
    """Return the cross entropy of the logits that a linear layer makes of ``input``.

    Args:
        input: [features] or [batch, features].
        linear_weight: [classes, ..., features]; the dims between are further dims of the loss.
        target: Class indices or probabilities, for logits [batch, classes, ...].
        linear_bias: [classes, ...].
        weight: See :func:`cross_entropy`, as for the next three.
        reduction: See there.
        ignore_index: See there; not with probabilities.
        label_smoothing: See there.
        options: Accepted: PyTorch's ways to need less memory, which change no value.
    """
    if input.dim() not in (1, 2):
        raise RuntimeError(f"expected input with dimensionality 1 or 2, got {input.dim()}")
    if linear_weight.dim() < 2:
        raise RuntimeError(f"expected linear_weight with dimensionality at least 2, got {linear_weight.dim()}")
    classes, *more, features = linear_weight.shape
    if input.shape[-1] != features:
        raise RuntimeError(
            f"expected equal input and linear_weight last dimensions (in_features), got {input.shape[-1]} and "
            f"{features}, respectively"
        )
    if linear_bias is not None and list(linear_bias.shape) != [classes, *more]:
        raise RuntimeError(f"expected linear_bias shape {(classes, *more)}, got {tuple(linear_bias.shape)}")
    if more and input.dim() == 1:
        raise RuntimeError(
            f"K-dimensional loss defined by linear_weight shape {tuple(linear_weight.shape)} requires batched input, "
            f"(N, {features})"
        )
    shape = [*input.shape[:-1], classes, *more]
    if list(target.shape) == shape and ignore_index is not None:
        raise RuntimeError("ignore_index cannot be specified when target contains probabilities")
    logits = linear(
        input, linear_weight.reshape(-1, features), None if linear_bias is None else linear_bias.reshape(-1)
    ).reshape(shape)
    ignore = -100 if ignore_index is None else ignore_index
    return cross_entropy(
        logits, target, weight, ignore_index=ignore, reduction=reduction, label_smoothing=label_smoothing
    )


def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return the negative of the log probabilities at the target classes.

    Args:
        input: Log probabilities, [batch, classes, sizes...] or [classes].
        target: Classes, [batch, sizes...], int64.
        weight: A factor of each class; None for none.
        size_average: An old flag in place of ``reduction``.
        ignore_index: The class of targets that cost nothing.
        reduce: An old flag in place of ``reduction``.
        reduction: "none", "mean" or "sum": what becomes of the losses.
    """
    reduction = reduction_name(size_average, reduce, reduction)
    return _C.nll_loss(input, target, weight=weight, ignore_index=ignore_index, reduction=reduction)


def _warn_broadcast(input: Tensor, target: Tensor) -> None:
    if target.shape != input.shape:
        warnings.warn(
            f"Using a target size ({target.shape}) that is different to the input size ({input.shape}). This will "
            f"likely lead to "
            "incorrect results due to broadcasting. Please ensure they have the same size.",
            stacklevel=3,
        )


def _weighted(loss: Tensor, weight: Tensor | None, reduction: str, divide: bool = False) -> Tensor:
    """Reduce elementwise losses times ``weight``; ``divide`` means by the sum of the weights."""
    if weight is None:
        return loss.mean() if reduction == "mean" else loss.sum() if reduction == "sum" else loss
    loss = loss * weight
    if reduction == "none":
        return loss
    if reduction == "sum":
        return loss.sum()
    return loss.sum() / weight.expand_as(loss).sum() if divide else loss.mean()


def _check_loss_weight(input: Tensor, weight: Tensor) -> None:
    if weight.shape != input.shape:
        raise ValueError("Weights and input must have the same size.")


def mse_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """Return the squared error.

    Args:
        input: Predictions, of any shape.
        target: The target values, of the shape of ``input``.
        size_average: An old flag in place of ``reduction``.
        reduce: An old flag in place of ``reduction``.
        reduction: "none", "mean" or "sum": what becomes of the losses.
        weight: Factors that broadcast to the losses; None for none.
    """
    reduction = reduction_name(size_average, reduce, reduction)
    _warn_broadcast(input, target)
    if weight is None:
        return _C.mse_loss(input, target, reduction=reduction)
    _check_loss_weight(input, weight)
    return _weighted(_C.mse_loss(input, target, reduction="none"), weight, reduction, divide=True)


def l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """Return the absolute error.

    Args:
        input: Predictions, of any shape.
        target: The target values, of the shape of ``input``.
        size_average: An old flag in place of ``reduction``.
        reduce: An old flag in place of ``reduction``.
        reduction: "none", "mean" or "sum": what becomes of the losses.
        weight: Factors that broadcast to the losses; None for none.
    """
    reduction = reduction_name(size_average, reduce, reduction)
    _warn_broadcast(input, target)
    if weight is None:
        return _C.l1_loss(input, target, reduction=reduction)
    _check_loss_weight(input, weight)
    return _weighted(_C.l1_loss(input, target, reduction="none"), weight, reduction, divide=True)


def smooth_l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    beta: float = 1.0,
) -> Tensor:
    """Return the squared error over ``2 * beta`` below ``beta`` and the absolute error less ``beta / 2`` above.

    Args:
        input: Predictions, of any shape.
        target: The target values, of the shape of ``input``.
        size_average: An old flag in place of ``reduction``.
        reduce: An old flag in place of ``reduction``.
        reduction: "none", "mean" or "sum": what becomes of the losses.
        beta: Below this difference the loss is quadratic.
    """
    reduction = reduction_name(size_average, reduce, reduction)
    _warn_broadcast(input, target)
    if beta == 0.0:
        return _C.l1_loss(input, target, reduction=reduction)
    return _C.smooth_l1_loss(input, target, reduction=reduction, beta=beta)


def huber_loss(
    input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0, weight: Tensor | None = None
) -> Tensor:
    """Return half the squared error below ``delta`` and a linear error above.

    Args:
        input: Predictions, of any shape.
        target: The target values, of the shape of ``input``.
        reduction: "none", "mean" or "sum": what becomes of the losses.
        delta: From this difference on the loss is linear.
        weight: Factors that broadcast to the losses; None for none.
    """
    reduction = reduction_name(None, None, reduction)
    _warn_broadcast(input, target)
    if weight is None:
        return _C.huber_loss(input, target, reduction=reduction, delta=delta)
    _check_loss_weight(input, weight)
    return _weighted(_C.huber_loss(input, target, reduction="none", delta=delta), weight, reduction, divide=True)


def binary_cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return the cross entropy of probabilities against targets in [0, 1]; logarithms are clamped at -100.

    Args:
        input: Probabilities, of any shape.
        target: Probabilities, of the shape of ``input``.
        weight: A factor of each class; None for none.
        size_average: An old flag in place of ``reduction``.
        reduce: An old flag in place of ``reduction``.
        reduction: "none", "mean" or "sum": what becomes of the losses.
    """
    reduction = reduction_name(size_average, reduce, reduction)
    if target.shape != input.shape:
        raise ValueError(
            f"Using a target size ({target.shape}) that is different to the input size ({input.shape}) is deprecated. "
            f"Please ensure they have the same size."
        )
    return _C.binary_cross_entropy(input, target, weight=weight, reduction=reduction)


def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    """Return the cross entropy of ``sigmoid(input)`` against targets in [0, 1], without overflow.

    Args:
        input: Logits, of any shape.
        target: Probabilities, of the shape of ``input``.
        weight: Factors that broadcast to the losses; None for none.
        size_average: An old flag in place of ``reduction``.
        reduce: An old flag in place of ``reduction``.
        reduction: "none", "mean" or "sum": what becomes of the losses.
        pos_weight: Factors of the positive examples; None for none.
    """
    reduction = reduction_name(size_average, reduce, reduction)
    if target.shape != input.shape:
        raise ValueError(f"Target size ({target.shape}) must be the same as input size ({input.shape})")
    return _C.binary_cross_entropy_with_logits(input, target, weight=weight, reduction=reduction, pos_weight=pos_weight)


def kl_div(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    log_target: bool = False,
) -> Tensor:
    """Return the Kullback-Leibler divergence of ``target`` from log probabilities ``input``.

    Args:
        input: Log probabilities, of any shape.
        target: Probabilities, of the shape of ``input``.
        size_average: An old flag in place of ``reduction``.
        reduce: An old flag in place of ``reduction``.
        reduction: "none", "mean", "sum" or "batchmean", the sum over the batch's size.
        log_target: Whether the target is a logarithm too.

    >>> p = torchlette.tensor([[0.5, 0.5]])
    >>> loss = torchlette.nn.functional.kl_div(p.log(), torchlette.tensor([[1.0, 0.0]]), reduction="batchmean")
    >>> round(loss.item(), 4)
    0.6931
    """
    if reduction == "batchmean":
        total = _C.kl_div(input, target, reduction="sum", log_target=log_target)
        return total / input.shape[0] if input.ndim else total
    reduction = reduction_name(size_average, reduce, reduction)
    if reduction == "mean":
        warnings.warn(
            "reduction: 'mean' divides the total loss by both the batch size and the support size. 'batchmean' divides "
            "only by "
            "the batch size, and aligns with the KL div math definition.",
            stacklevel=2,
        )
    return _C.kl_div(input, target, reduction=reduction, log_target=log_target)


_REDUCTIONS = ("none", "mean", "sum")


def reduction_name(size_average: bool | None, reduce: bool | None, reduction: str) -> str:
    """Return the reduction, translating the two flags of old code."""
    if size_average is not None or reduce is not None:
        size_average = True if size_average is None else size_average
        reduction = "none" if reduce is False else "mean" if size_average else "sum"
        warnings.warn(
            f"size_average and reduce args will be deprecated, please use reduction='{reduction}' instead.",
            stacklevel=3,
        )
    if reduction not in _REDUCTIONS:
        raise ValueError(f"{reduction} is not a valid value for reduction")
    return reduction


def _reduced_loss(loss: Tensor, size_average: bool | None, reduce: bool | None, reduction: str) -> Tensor:
    reduction = reduction_name(size_average, reduce, reduction)
    return loss.mean() if reduction == "mean" else loss.sum() if reduction == "sum" else loss


@autocast_inputs(cpu="full")
def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Tensor | Sequence[int],
    target_lengths: Tensor | Sequence[int],
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """Return the negative log likelihood of label sequences, summed over their alignments (A. Graves et al., 2006).

    Args:
        log_probs: Log probabilities of the classes, [steps, batch, classes] or [steps, classes].
        targets: Labels, [batch, longest] or all of them in one vector.
        input_lengths: Steps of each sample.
        target_lengths: Labels of each sample; they are read when targets are one vector.
        blank: The class of no label.
        reduction: "none", "sum" or "mean", which divides by the target's lengths first.
        zero_infinity: Whether infinite losses (a target longer than its input) count as zero.
    """
    if reduction not in _REDUCTIONS:
        raise ValueError(f"{reduction} is not a valid value for reduction")
    if targets.dtype not in (_C.int64, _C.int32):
        raise RuntimeError(f"ctc_loss: targets must be integral: got {targets.dtype}")
    if not 1 <= targets.dim() <= 2:
        raise RuntimeError(
            f"Expected 1 to 2 dimensions, but got {targets.dim()}-dimensional tensor for argument 'targets'"
        )
    batched = log_probs.dim() == 3
    if not batched:
        log_probs, targets = log_probs.unsqueeze(1), targets.reshape(1, -1)
    steps, batch, _ = log_probs.shape
    if not isinstance(target_lengths, Tensor):
        longest = list(target_lengths)
    elif targets.dim() == 1:
        longest = target_lengths.reshape(-1).tolist()
    else:
        longest = None
    inputs, wanted = (
        (of if isinstance(of, Tensor) else _C.tensor(of)).to(log_probs.device, _C.int64).reshape(-1)
        for of in (input_lengths, target_lengths)
    )
    for name, lengths in (("input_lengths", inputs), ("target_lengths", wanted)):
        if lengths.shape[0] != batch:
            raise RuntimeError(f"{name} must be of size batch_size: got {lengths.shape[0]} for a batch of {batch}")
    if not isinstance(input_lengths, Tensor) and max(input_lengths, default=0) > steps:
        raise RuntimeError(
            f"Expected input_lengths to have value at most {steps}, but got value {max(input_lengths)} (while checking "
            f"arguments for ctc_loss)"
        )
    if longest is not None:
        targets = _rows_of_targets(targets, longest)
    loss = _C._ctc_loss(log_probs, targets.to(log_probs.device), inputs, wanted, blank)
    if zero_infinity:
        loss = _C.where(loss == math.inf, 0.0, loss)
    if reduction == "mean":
        return (loss / wanted.clamp_min(1)).mean()
    if reduction == "sum":
        return loss.sum()
    return loss if batched else loss.squeeze(0)


def _rows_of_targets(targets: Tensor, lengths: list[int]) -> Tensor:
    """Return the labels as [batch, longest]."""
    longest = max(lengths, default=0)
    if targets.dim() > 1:
        if targets.shape[1] < longest:
            raise RuntimeError(
                f"Expected tensor to have size at least {longest} at dimension 1, but got size {targets.shape[1]} "
                f"(while checking arguments for ctc_loss)"
            )
        return targets[:, :longest]
    if targets.shape[0] != sum(lengths):
        raise RuntimeError(
            f"Expected tensor to have size {sum(lengths)} at dimension 0, but got size {targets.shape[0]} (while "
            f"checking arguments for ctc_loss)"
        )
    starts = [sum(lengths[:i]) for i in range(len(lengths))]
    place = [
        [start + min(k, length - 1) if length else 0 for k in range(longest)]
        for start, length in zip(starts, lengths, strict=True)
    ]
    index = _C.tensor(place, dtype=_C.int64, device=targets.device).reshape(-1)
    return targets.index_select(0, index).reshape(len(lengths), longest)


@autocast_inputs(cpu="full", gpu="full")
def poisson_nll_loss(
    input: Tensor,
    target: Tensor,
    log_input: bool = True,
    full: bool = False,
    size_average: bool | None = None,
    eps: float = 1e-8,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return the negative log likelihood of counts under Poisson's distribution with rate ``exp(input)``, or ``input``.

    ``full`` adds Stirling's approximation of the target's log factorial.

    Args:
        input: Rates or means, of any shape.
        target: The observed values, of the shape of ``input``.
        log_input: Whether ``input`` is the logarithm of the rate.
        full: Whether to add the constant term.
        size_average: An old flag in place of ``reduction``.
        eps: Keeps logarithms and divisors from zero.
        reduce: An old flag in place of ``reduction``.
        reduction: "none", "mean" or "sum": what becomes of the losses.
    """
    loss = input.exp() - target * input if log_input else input - target * (input + eps).log()
    if full:
        stirling = target * target.log() - target + 0.5 * (2 * math.pi * target).log()
        loss = loss + stirling.masked_fill(target <= 1, 0)
    return _reduced_loss(loss, size_average, reduce, reduction)


def gaussian_nll_loss(
    input: Tensor, target: Tensor, var: Tensor | float, full: bool = False, eps: float = 1e-6, reduction: str = "mean"
) -> Tensor:
    """Return the negative log likelihood of ``target`` under the normal distribution of mean ``input`` and variance
    ``var``.

    Args:
        input: Means.
        target: Samples.
        var: Variances, at least ``eps`` after clamping, of the means' shape or one for the last dimension; a tensor is
            read.
        full: Add the constant term.
        eps: The least variance.
        reduction: "none", "mean" or "sum".
    """
    negative: Any = var < 0
    if bool(negative.any().item() if isinstance(var, Tensor) else negative):
        raise ValueError("var has negative entry/entries")
    if not isinstance(var, Tensor):
        var = _C.full_like(input, var, requires_grad=False)
    if var.shape != input.shape:
        if input.shape[:-1] == var.shape:
            var = var.unsqueeze(-1)
        elif input.dim() != var.dim() or sum(b for a, b in zip(input.shape, var.shape, strict=True) if a != b) != 1:
            raise ValueError("var is of incorrect size")
    # The gradient of the clamp is that of the identity, as in PyTorch.
    var = var + (var.clamp_min(eps) - var).detach()
    loss = 0.5 * (var.log() + (input - target) ** 2 / var)
    if full:
        loss = loss + 0.5 * math.log(2 * math.pi)
    return _reduced_loss(loss, None, None, reduction)
