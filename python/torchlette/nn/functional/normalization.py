"""Normalisations by layer, batch, instance, group and norm; part of :mod:`torchlette.nn.functional`."""

from __future__ import annotations

import math
from collections.abc import Sequence

from torchlette import _C
from torchlette._runtime import fences
from torchlette.autograd import no_grad
from torchlette.nn.functional.vision import pad

__all__ = ["batch_norm", "group_norm", "instance_norm", "layer_norm", "local_response_norm", "normalize", "rms_norm"]

Tensor = _C.Tensor


# Operators whose signature is PyTorch's as it stands.
layer_norm = _C.layer_norm
rms_norm = _C.rms_norm
group_norm = _C.group_norm


def normalize(input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12, out: Tensor | None = None) -> Tensor:
    """Divide ``input`` by its ``p``-norm along ``dim``, which counts at least ``eps``.

    Args:
        input: Values, of any shape.
        p: The order of the norm.
        dim: The dimension, or a tuple of them, of the norm.
        eps: Lower bound of the divisor.
        out: Gets the result.
    """
    result = input / _C.norm(input, p, dim, keepdim=True).clamp_min(eps).expand_as(input)
    return result if out is None else out.copy_(result)


def local_response_norm(input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Tensor:
    """Divide by ``(k + alpha * mean of squares) ** beta`` over ``size`` channels around (A. Krizhevsky et al., 2012).

    Args:
        input: [batch, channels, ...].
        size: Channels in the mean.
        alpha: See above.
        beta: See above.
        k: See above.
    """
    if input.dim() < 3:
        raise ValueError(f"Expected 3D or higher dimensionality input (got {input.dim()} dimensions)")
    if input.numel() == 0:
        return input
    squares = (input * input).reshape(input.shape[0], 1, input.shape[1], -1)
    means = _C.avg_pool2d(pad(squares, (0, 0, size // 2, (size - 1) // 2)), (size, 1), 1)
    return input / (means.reshape(input.shape) * alpha + k) ** beta


def _check_batch_size(input: Tensor) -> None:
    if math.prod([*input.shape[:1], *input.shape[2:]]) == 1:
        raise ValueError(f"Expected more than 1 value per channel when training, got input size {input.size()}")


@no_grad()
def _follow(statistics: Sequence[tuple[Tensor | None, Tensor]], momentum: float | Tensor) -> None:
    """Move running statistics towards a batch's. The second run of a checkpointed function skips this."""
    if fences.is_recomputing():
        return
    with fences.no_fence():
        for running, now in statistics:
            if running is not None:
                now, old = now.to(running.dtype), 1 - momentum
                if isinstance(momentum, Tensor):
                    running.mul_(old).add_(now * momentum)
                else:
                    running.mul_(old).add_(now, alpha=momentum)


def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float | Tensor = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Normalise each channel (dim 1), by the batch's statistics in training, which then move the running ones.

    Args:
        input: [batch, channels, sizes...].
        running_mean: Running means of the channels, written in training; None for none.
        running_var: Running variances of the channels, written in training; None for none.
        weight: Factors of the channels; None for none.
        bias: Added to the channels; None for none.
        training: Whether to use the batch's statistics instead of the running ones.
        momentum: Weight of the batch's statistics in the running statistics; a tensor of no dims in training only.
        eps: Added to the variance.
    """
    if not training:  # the weight of statistics is not used
        return _C.batch_norm(input, weight, bias, running_mean, running_var, False, 0.0, eps, True)
    _check_batch_size(input)
    if (running_mean is None and running_var is None) or input.numel() == 0:
        return _C.batch_norm(input, weight, bias, None, None, True, 0.0, eps, True)
    output, mean, variance = _C._batch_norm_stats(input, weight, bias, eps)
    _follow(((running_mean, mean), (running_var, variance)), momentum)
    return output


def instance_norm(
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Normalise each channel of each sample.

    Args:
        input: [batch, channels, sizes...].
        running_mean: Running means of the channels, written in training; None for none.
        running_var: Running variances of the channels, written in training; None for none.
        weight: Factors of the channels; None for none.
        bias: Added to the channels; None for none.
        use_input_stats: Whether to use the samples' statistics instead of the running ones.
        momentum: Weight of the batch's statistics in the running statistics.
        eps: Added to the variance.
    """
    if not use_input_stats:
        return _C.batch_norm(input, weight, bias, running_mean, running_var, False, momentum, eps, True)
    batch, channels, *rest = input.shape
    if math.prod(rest) <= 1:
        raise ValueError(f"Expected more than 1 spatial element when training, got input size {input.size()}")
    flat = input.reshape(1, batch * channels, *rest)
    factors, summands = (None if v is None else v.repeat(batch) for v in (weight, bias))
    output, mean, variance = _C._batch_norm_stats(flat, factors, summands, eps)
    if running_mean is not None or running_var is not None:
        mean, variance = (of.reshape(batch, channels).mean(0) for of in (mean, variance))
        _follow(((running_mean, mean), (running_var, variance)), momentum)
    return output.reshape(input.shape)
