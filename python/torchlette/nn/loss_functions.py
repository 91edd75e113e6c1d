"""Losses of margins, pairs, triplets and distributions; part of :mod:`torchlette.nn.functional`."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from torchlette import _C

__all__ = [
    "cosine_embedding_loss",
    "ctc_loss",
    "gaussian_nll_loss",
    "hinge_embedding_loss",
    "margin_ranking_loss",
    "multi_margin_loss",
    "multilabel_margin_loss",
    "multilabel_soft_margin_loss",
    "pairwise_distance",
    "poisson_nll_loss",
    "soft_margin_loss",
    "triplet_margin_loss",
    "triplet_margin_with_distance_loss",
]

Tensor = _C.Tensor

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


def _reduced(loss: Tensor, size_average: bool | None, reduce: bool | None, reduction: str) -> Tensor:
    reduction = reduction_name(size_average, reduce, reduction)
    return loss.mean() if reduction == "mean" else loss.sum() if reduction == "sum" else loss


pairwise_distance = _C.pairwise_distance


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
        zero_infinity: Whether infinite losses, of targets longer than their inputs, count as zero.
    """
    if reduction not in _REDUCTIONS:
        raise ValueError(f"{reduction} is not a valid value for reduction")
    if targets.dtype not in (_C.int64, _C.int32):
        raise RuntimeError(f"ctc_loss: targets must be integral: got {targets.dtype}")
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


def margin_ranking_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return ``max(0, margin - target * (input1 - input2))``; the target, 1 or -1, says which should be larger."""
    if not input1.dim() == input2.dim() == target.dim():
        raise RuntimeError(
            "margin_ranking_loss : All input tensors should have same dimension but got sizes: "
            f"input1: {input1.size()}, input2: {input2.size()}, target: {target.size()} "
        )
    return _reduced((margin - target * (input1 - input2)).clamp_min(0), size_average, reduce, reduction)


def hinge_embedding_loss(
    input: Tensor,
    target: Tensor,
    margin: float = 1.0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return ``input`` where the target is 1 and ``max(0, margin - input)`` where it is -1."""
    far, near = (margin - input).clamp_min(0), input
    loss = _C.where(target != 1, far, 0.0) + _C.where(target != -1, near, 0.0)
    return _reduced(loss, size_average, reduce, reduction)


# What torch.nn.functional.cosine_embedding_loss adds to squared lengths.
_COSINE_EPSILON = 1e-12


def cosine_embedding_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return 1 less the cosine where the target is 1 and ``max(0, cosine - margin)`` where it is -1.

    Args:
        input1: [batch, features], or [features] with a target of no dimension.
        input2: Of the same shape.
        target: [batch].
        margin: See above.
        size_average: See :func:`torchlette.nn.functional.cross_entropy`.
        reduce: See there.
        reduction: "none", "mean" or "sum".
    """
    if target.dim() not in (0, 1):
        raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
    if input1.dim() != target.dim() + 1 or input2.dim() != target.dim() + 1:
        raise RuntimeError(
            f"{target.dim()}D target tensor expects {target.dim() + 1}D input tensors, but found inputs with sizes "
            f"{input1.size()} and {input2.size()}."
        )
    lengths = (input1.square().sum(-1) + _COSINE_EPSILON) * (input2.square().sum(-1) + _COSINE_EPSILON)
    cosine = (input1 * input2).sum(-1) / lengths.sqrt()
    loss = _C.where(target == 1, 1 - cosine, 0.0) + _C.where(target == -1, (cosine - margin).clamp_min(0), 0.0)
    return _reduced(loss, size_average, reduce, reduction)


def soft_margin_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"
) -> Tensor:
    """Return ``log(1 + exp(-target * input))``."""
    return _reduced((-target * input).exp().log1p(), size_average, reduce, reduction)


def multilabel_soft_margin_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return the mean over the classes, the last dimension, of the binary cross entropies of logits."""
    loss = -(target * _C.logsigmoid(input) + (1 - target) * _C.logsigmoid(-input))
    if weight is not None:
        loss = loss * weight
    return _reduced(loss.sum(-1) / input.shape[-1], size_average, reduce, reduction)


def multi_margin_loss(
    input: Tensor,
    target: Tensor,
    p: int = 1,
    margin: float = 1.0,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return the mean over the classes of ``max(0, margin - input[target] + input[class]) ** p``.

    Args:
        input: [batch, classes] or [classes].
        target: Class indices, [batch] or of no dimension.
        p: 1 or 2.
        margin: See above.
        weight: Factor of each target class.
        size_average: See :func:`torchlette.nn.functional.cross_entropy`.
        reduce: See there.
        reduction: "none", "mean" or "sum".
    """
    reduction = reduction_name(size_average, reduce, reduction)
    if p not in (1, 2):
        raise ValueError("only p == 1 and p == 2 supported")
    if weight is not None and weight.dim() != 1:
        raise ValueError("weight must be one-dimensional")
    shape = target.shape
    if input.dim() < 2:
        input, target = input.reshape(1, -1), target.reshape(1)
    if input.dim() != 2 or target.shape != input.shape[:1]:
        raise RuntimeError(f"inconsistent target size, expected {list(input.shape[:1])} but got {list(shape)}")
    index = target.unsqueeze(-1)
    short = (margin - input.gather(-1, index) + input).clamp_min(0)
    if p == 2:
        short = short * short
    if weight is not None:
        short = short * weight.index_select(0, target.reshape(-1)).reshape(index.shape)
    classes = _C.arange(input.shape[-1], device=input.device)
    loss = _C.where(classes == index, 0.0, short).sum(-1) / input.shape[-1]
    return _reduced(loss.reshape(shape), None, None, reduction)


def multilabel_margin_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"
) -> Tensor:
    """Return the sum of ``max(0, 1 - input[label] + input[other])`` over all pairs, divided by the number of classes.

    Args:
        input: [batch, classes] or [classes].
        target: The labels of each sample, ended by -1; of the same shape.
        size_average: See :func:`torchlette.nn.functional.cross_entropy`.
        reduce: See there.
        reduction: "none", "mean" or "sum".
    """
    reduction = reduction_name(size_average, reduce, reduction)
    if input.shape != target.shape:
        raise RuntimeError(f"inconsistent target size: {target.shape} for input of size: {input.shape}")
    shape = input.shape
    if input.dim() == 0:
        input, target = input.reshape(1), target.reshape(1)
    valid = (target < 0).long().cumsum(-1) == 0
    labels = target.clamp_min(0)
    is_label = _C.zeros_like(input, requires_grad=False).scatter_add(-1, labels, valid.to(input.dtype)) > 0
    short = (1 - input.gather(-1, labels).unsqueeze(-1) + input.unsqueeze(-2)).clamp_min(0)
    counted = valid.unsqueeze(-1) & ~is_label.unsqueeze(-2)
    return _reduced(
        (_C.where(counted, short, 0.0).sum((-2, -1)) / input.shape[-1]).reshape(shape[:-1]), None, None, reduction
    )


def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return ``max(0, margin + |anchor - positive| - |anchor - negative|)``; see
    :func:`triplet_margin_with_distance_loss`.
    """
    return triplet_margin_with_distance_loss(
        anchor,
        positive,
        negative,
        distance_function=lambda a, b: pairwise_distance(a, b, p, eps),
        margin=margin,
        swap=swap,
        reduction=reduction_name(size_average, reduce, reduction),
    )


def triplet_margin_with_distance_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    *,
    distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """Return ``max(0, margin + distance(anchor, positive) - distance(anchor, negative))``.

    ``swap`` takes the distance of positive and negative where that is smaller (V. Balntas et al., 2016).
    """
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    if not anchor.dim() == positive.dim() == negative.dim():
        raise RuntimeError(
            "The anchor, positive, and negative tensors are expected to have the same number of dimensions, but got: "
            f"anchor {anchor.dim()}D, positive {positive.dim()}D, and negative {negative.dim()}D inputs"
        )
    distance = pairwise_distance if distance_function is None else distance_function
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = _C.minimum(far, distance(positive, negative))
    return _reduced((margin + near - far).clamp_min(0), None, None, reduction)


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
    """
    loss = input.exp() - target * input if log_input else input - target * (input + eps).log()
    if full:
        stirling = target * target.log() - target + 0.5 * (2 * math.pi * target).log()
        loss = loss + stirling.masked_fill(target <= 1, 0)
    return _reduced(loss, size_average, reduce, reduction)


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
    return _reduced(loss, None, None, reduction)
