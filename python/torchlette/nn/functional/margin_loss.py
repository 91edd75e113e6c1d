"""Losses of margins, pairs and triplets; part of :mod:`torchlette.nn.functional`."""

from __future__ import annotations

from collections.abc import Callable

from torchlette import _C
from torchlette._runtime.casts import autocast_inputs
from torchlette.nn.functional.linear_maps import pairwise_distance
from torchlette.nn.functional.loss import _reduced_loss, reduction_name

__all__ = [
    "cosine_embedding_loss",
    "hinge_embedding_loss",
    "margin_ranking_loss",
    "multi_margin_loss",
    "multilabel_margin_loss",
    "multilabel_soft_margin_loss",
    "soft_margin_loss",
    "triplet_margin_loss",
    "triplet_margin_with_distance_loss",
]

Tensor = _C.Tensor


@autocast_inputs(cpu="full", gpu="full")
def margin_ranking_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return ``max(0, margin - target * (input1 - input2))``; the target, 1 or -1, says which should be larger.

    Args:
        input1: The first of each pair.
        input2: The second of each pair.
        target: 1 where the first shall be greater, -1 where the second shall.
        margin: The distance from which a pair costs nothing.
        size_average: An old flag in place of ``reduction``.
        reduce: An old flag in place of ``reduction``.
        reduction: "none", "mean" or "sum": what becomes of the losses.
    """
    if not input1.dim() == input2.dim() == target.dim():
        raise RuntimeError(
            "margin_ranking_loss : All input tensors should have same dimension but got sizes: "
            f"input1: {input1.size()}, input2: {input2.size()}, target: {target.size()} "
        )
    return _reduced_loss((margin - target * (input1 - input2)).clamp_min(0), size_average, reduce, reduction)


@autocast_inputs(cpu="full", gpu="full")
def hinge_embedding_loss(
    input: Tensor,
    target: Tensor,
    margin: float = 1.0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return ``input`` where the target is 1 and ``max(0, margin - input)`` where it is -1.

    Args:
        input: Distances, of any shape.
        target: 1 or -1, of the shape of ``input``.
        margin: The distance from which a negative example costs nothing.
        size_average: An old flag in place of ``reduction``.
        reduce: An old flag in place of ``reduction``.
        reduction: "none", "mean" or "sum": what becomes of the losses.
    """
    far, near = (margin - input).clamp_min(0), input
    loss = _C.where(target != 1, far, 0.0) + _C.where(target != -1, near, 0.0)
    return _reduced_loss(loss, size_average, reduce, reduction)


# PyTorch's cosine_embedding_loss adds this to squared lengths.
_COSINE_EPSILON = 1e-12


@autocast_inputs(cpu="full", gpu="full")
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
    return _reduced_loss(loss, size_average, reduce, reduction)


@autocast_inputs(cpu="full", gpu="full")
def soft_margin_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"
) -> Tensor:
    """Return ``log(1 + exp(-target * input))``.

    Args:
        input: Predictions, of any shape.
        target: 1 or -1, of the shape of ``input``.
        size_average: An old flag in place of ``reduction``.
        reduce: An old flag in place of ``reduction``.
        reduction: "none", "mean" or "sum": what becomes of the losses.
    """
    return _reduced_loss((-target * input).exp().log1p(), size_average, reduce, reduction)


def multilabel_soft_margin_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return the mean over the classes, the last dimension, of the binary cross entropies of logits.

    Args:
        input: Logits, [batch, classes].
        target: 0 or 1, [batch, classes].
        weight: A factor of each class; None for none.
        size_average: An old flag in place of ``reduction``.
        reduce: An old flag in place of ``reduction``.
        reduction: "none", "mean" or "sum": what becomes of the losses.
    """
    loss = -(target * _C.logsigmoid(input) + (1 - target) * _C.logsigmoid(-input))
    if weight is not None:
        loss = loss * weight
    return _reduced_loss(loss.sum(-1) / input.shape[-1], size_average, reduce, reduction)


@autocast_inputs(cpu="full", gpu="full")
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
    return _reduced_loss(loss.reshape(shape), None, None, reduction)


@autocast_inputs(cpu="full", gpu="full")
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
    return _reduced_loss(
        (_C.where(counted, short, 0.0).sum((-2, -1)) / input.shape[-1]).reshape(shape[:-1]), None, None, reduction
    )


@autocast_inputs(cpu="full", gpu="full")
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

    Args:
        anchor: [batch, features].
        positive: What shall be near the anchor, [batch, features].
        negative: What shall be far from the anchor, [batch, features].
        margin: The distance from which a pair costs nothing.
        p: The order of the norm of differences.
        eps: Keeps logarithms and divisors from zero.
        swap: Whether the distance from positive to negative counts if it is the lesser one.
        size_average: An old flag in place of ``reduction``.
        reduce: An old flag in place of ``reduction``.
        reduction: "none", "mean" or "sum": what becomes of the losses.
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

    Args:
        anchor: [batch, features].
        positive: What shall be near the anchor, [batch, features].
        negative: What shall be far from the anchor, [batch, features].
        distance_function: From two batches to distances; None: the Euclidean distance.
        margin: The distance from which a pair costs nothing.
        swap: Whether the distance from positive to negative counts if it is the lesser one.
        reduction: "none", "mean" or "sum": what becomes of the losses.
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
    return _reduced_loss((margin + near - far).clamp_min(0), None, None, reduction)
