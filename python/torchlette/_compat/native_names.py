"""Functions of PyTorch's top level whose arguments are not those of ``nn.functional``; draws; questions about a tensor.

Modes are numbers, and normalizations return their statistics.

As in PyTorch, only the statistics of :func:`native_group_norm` are differentiable.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from torchlette import _C, autograd
from torchlette._runtime.levels import unwrapped

__all__ = [
    "binomial",
    "conv_tbc",
    "embedding_bag",
    "feature_dropout",
    "grid_sampler",
    "grid_sampler_2d",
    "grid_sampler_3d",
    "instance_norm",
    "is_conj",
    "is_inference",
    "is_neg",
    "native_batch_norm",
    "native_channel_shuffle",
    "native_dropout",
    "native_group_norm",
    "native_layer_norm",
]

Tensor = _C.Tensor
Normalized = tuple[Tensor, Tensor, Tensor]


def grid_sampler(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """Return ``nn.functional.grid_sample``: mode 0 is bilinear, 1 nearest, 2 bicubic; padding 0 is zeros, 1 border, 2
    reflection.

    Args:
        input: Values; the first dimension is the batch.
        grid: Places, [batch, sizes..., dimensions], from -1 to 1.
        interpolation_mode: 0: bilinear, 1: nearest, 2: bicubic.
        padding_mode: 0: zeros, 1: border, 2: reflection.
        align_corners: Whether -1 and 1 are the corners' centers.
    """
    from torchlette.nn.functional import grid_sample

    mode, padding = (
        ("bilinear", "nearest", "bicubic")[interpolation_mode],
        ("zeros", "border", "reflection")[padding_mode],
    )
    return grid_sample(input, grid, mode, padding, align_corners)


grid_sampler_2d = grid_sampler_3d = grid_sampler


def _statistics(x: Tensor, dims: Sequence[int], eps: float, *, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """Return the mean and one over the standard deviation."""
    variance, mean = _C.var_mean(x, list(dims), correction=0, keepdim=keepdim)
    return mean, (variance + eps).rsqrt()


def native_layer_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None, bias: Tensor | None, eps: float
) -> Normalized:
    """Return ``nn.functional.layer_norm``, and the mean and one over the standard deviation, of size 1 in the
    normalized dims.

    Args:
        input: Values; the first dimension is the batch.
        normalized_shape: The last sizes, over which it normalises.
        weight: Factors; None for none.
        bias: Added; None for none.
        eps: Added to the variance.
    """
    out = _C.layer_norm(input, normalized_shape, weight, bias, eps)
    return out, *_statistics(input.detach(), range(-len(normalized_shape), 0), eps, keepdim=True)


def native_group_norm(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, N: int, C: int, HxW: int, group: int, eps: float
) -> Normalized:
    """Return ``nn.functional.group_norm``, and the mean and one over the standard deviation, of shape (N, group).

    Args:
        input: Values; the first dimension is the batch.
        weight: Factors; None for none.
        bias: Added; None for none.
        N: The batch.
        C: The channels.
        HxW: The product of the other sizes.
        group: The number of groups.
        eps: Added to the variance.
    """
    if input.numel() != N * C * HxW:
        raise RuntimeError(f"Expected input.numel() == N * C * HxW, but got {input.numel()} and {N} * {C} * {HxW}")
    out = _C.group_norm(input, group, weight, bias, eps)
    return out, *_statistics(input.reshape(N, group, math.prod((C, HxW)) // group), [2], eps)


def native_batch_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
) -> Normalized:
    """Return ``nn.functional.batch_norm``, and in training the mean and one over the standard deviation of each
    channel.

    Args:
        input: Values; the first dimension is the batch.
        weight: Factors; None for none.
        bias: Added; None for none.
        running_mean: Running means of the channels, written in training; None for none.
        running_var: Running variances of the channels, written in training; None for none.
        training: Whether the statistics are the batch's.
        momentum: The share of the new in the running statistics.
        eps: Added to the variance.
    """
    from torchlette.nn.functional import batch_norm

    out = batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)
    if not training:
        return out, input.new_empty(0), input.new_empty(0)
    return out, *_statistics(input.detach(), [d for d in range(input.dim()) if d != 1], eps)


def native_channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """Return ``nn.functional.channel_shuffle``.

    Args:
        input: Values, [batch, channels, sizes...].
        groups: The number of groups.
    """
    from torchlette.nn.functional import channel_shuffle

    return channel_shuffle(input, groups)


def native_dropout(input: Tensor, p: float, train: bool | None) -> tuple[Tensor, Tensor]:
    """Return ``nn.functional.dropout`` and the mask of the elements that stay, of dtype bool.

    Args:
        input: Values.
        p: The probability of an element to become zero.
        train: Whether elements are dropped; None: yes.
    """
    if not 0 <= p <= 1:
        raise RuntimeError(f"dropout probability has to be between 0 and 1, but got {p}")
    if train is False:
        return input.clone(), _C.ones(input.shape, dtype=_C.bool, device=input.device)
    with autograd.no_grad():
        mask = _C.rand(input.shape, device=input.device) >= p
    return input * mask * (0.0 if p == 1 else 1 / (1 - p)), mask


def feature_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """Return the input with whole channels dropped: ``nn.functional.dropout2d`` for any number of dimensions.

    Args:
        input: Values, [batch, channels, sizes...].
        p: The probability of a channel to become zero.
        train: Whether channels are dropped.
    """
    if input.dim() < 2:
        raise RuntimeError("Feature dropout requires at least 2 dimensions in the input")
    if not train:
        return input
    kept, _ = native_dropout(_C.ones(*input.shape[:2], dtype=input.dtype, device=input.device), p, True)
    return input * kept.reshape(*input.shape[:2], *(1,) * (input.dim() - 2))


def instance_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    use_input_stats: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Tensor:
    """Return ``nn.functional.instance_norm``.

    Args:
        input: Values, [batch, channels, sizes...].
        weight: Factors; None for none.
        bias: Added; None for none.
        running_mean: Running means of the channels; None for none.
        running_var: Running variances of the channels; None for none.
        use_input_stats: Whether the statistics are the input's.
        momentum: The share of the new in the running statistics.
        eps: Added to the variance.
        cudnn_enabled: Without effect.
    """
    from torchlette.nn.functional import instance_norm as normalize

    return normalize(input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps)


def embedding_bag(
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return ``nn.functional.embedding_bag``; the bag of each index, how many count in each bag, and an empty tensor.

    PyTorch's last three results depend on its kernel; for a maximum its fourth has the indices that were chosen.

    Args:
        weight: The table, [rows, features].
        indices: All bags in one vector.
        offsets: Where each bag begins.
        scale_grad_by_freq: Whether gradients are divided by how often a row occurs.
        mode: 0: sum, 1: mean, 2: maximum.
        sparse: Accepted; gradients are dense.
        per_sample_weights: Factor of each index, for sums.
        include_last_offset: Whether the last offset is the end of the last bag.
        padding_idx: An index that counts for nothing.
    """
    from torchlette.nn.functional.embeddings import bag_of_each
    from torchlette.nn.functional.embeddings import embedding_bag as reduce

    result = reduce(
        indices,
        weight,
        offsets,
        scale_grad_by_freq=scale_grad_by_freq,
        mode=("sum", "mean", "max")[mode],
        sparse=sparse,
        per_sample_weights=per_sample_weights,
        include_last_offset=include_last_offset,
        padding_idx=padding_idx,
    )
    bags = bag_of_each(offsets, _C.arange(indices.shape[0], device=indices.device))
    counted = (
        _C.ones_like(indices) if padding_idx is None else (indices != padding_idx % weight.shape[0]).to(indices.dtype)
    )
    sizes = indices.new_zeros(result.shape[0]).index_add(0, bags.clamp(max=result.shape[0] - 1), counted)
    return result, bags.to(indices.dtype), sizes, indices.new_empty(0)


def group_norm(
    input: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    cudnn_enabled: bool = True,
) -> Tensor:
    """Return ``nn.functional.group_norm``.

    Args:
        input: Values, [batch, channels, sizes...].
        num_groups: How many groups the channels form.
        weight: Factors of the channels; None for none.
        bias: Added to the channels; None for none.
        eps: Added to the variance.
        cudnn_enabled: Without effect.
    """
    return _C.group_norm(input, num_groups, weight, bias, eps)


def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    cudnn_enable: bool = True,
) -> Tensor:
    """Return ``nn.functional.layer_norm``.

    Args:
        input: Values, [..., normalized_shape...].
        normalized_shape: The last sizes, over which statistics are taken.
        weight: Factors; None for none.
        bias: Added; None for none.
        eps: Added to the variance.
        cudnn_enable: Without effect.
    """
    return _C.layer_norm(input, normalized_shape, weight, bias, eps)


def conv_tbc(input: Tensor, weight: Tensor, bias: Tensor, pad: int = 0) -> Tensor:
    """Return a convolution of sequences: ``nn.functional.conv1d`` with time first and channels last.

    Args:
        input: [time, batch, channels].
        weight: Filters, [window, channels, channels of the result].
        bias: Added to each channel of the result.
        pad: Zeros on both sides.
    """
    for name, t, dims in (("Input", input, 3), ("Weight", weight, 3), ("Bias", bias, 1)):
        if t.dim() != dims:
            raise RuntimeError(f"{name} must have {dims} dims, got {t.dim()}")
    return _C.conv1d(input.permute(1, 2, 0), weight.permute(2, 1, 0), bias, 1, pad).permute(2, 0, 1)


#: Elements of the draws that :func:`binomial` makes at a time.
_TRIALS = 1 << 22


def binomial(count: Tensor, prob: Tensor, generator: Any = None) -> Tensor:
    """Draw how many of ``count`` trials succeed with probability ``prob``; shapes broadcast.

    Each trial is drawn: the time is proportional to the largest count, which is read. Where a read is an error, as in a
    program, a loop draws from one trial with the rarer outcome to the next.

    Args:
        count: Numbers of trials, of a floating dtype, which is the result's.
        prob: Probabilities, of a floating dtype.
        generator: Draws the trials; None: the device's.
    """
    for name, t in (("count", count), ("prob", prob)):
        if not t.is_floating_point():
            raise ValueError(f"binomial only supports floating-point dtypes for {name}, got: {t.dtype}")
    # ``import torch`` needs neither of them, and regions loads inspect.
    from torchlette._compat.counted import binomial_in_loop
    from torchlette._runtime.regions import refuses_reads

    with autograd.no_grad():
        count, prob = _C.broadcast_tensors(count.detach(), prob.detach())
        if refuses_reads() and generator is None:
            return binomial_in_loop(count, prob)
        made = _C.zeros(count.shape, dtype=_C.int64, device=count.device)
        most = int(unwrapped(count).max().item()) if count.numel() else 0  # of all elements of a batch of vmap
        step = max(1, _TRIALS // max(1, count.numel()))
        for first in range(0, most, step):
            trials = _C.arange(first, min(most, first + step), device=count.device)
            trials = trials.reshape(-1, *(1,) * count.dim())
            drawn = _C.rand((trials.shape[0], *count.shape), generator=generator, device=count.device) < prob
            made = made + (drawn & (trials < count)).sum(0)
        return made.to(count.dtype)


def is_conj(input: Tensor) -> bool:
    """Return ``input.is_conj()``.

    Args:
        input: Any tensor.
    """
    return input.is_conj()


def is_neg(input: Tensor) -> bool:
    """Return ``input.is_neg()``.

    Args:
        input: Any tensor.
    """
    return input.is_neg()


def is_inference(input: Tensor) -> bool:
    """Return ``input.is_inference()``.

    Args:
        input: Any tensor.
    """
    return input.is_inference()
