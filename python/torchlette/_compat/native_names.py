"""Normalizations and samplers under the names in traced PyTorch programs: modes are numbers, statistics are returned.

As in PyTorch, only the statistics of :func:`native_group_norm` are differentiable.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from torchlette import _C

__all__ = [
    "grid_sampler",
    "grid_sampler_2d",
    "grid_sampler_3d",
    "native_batch_norm",
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
