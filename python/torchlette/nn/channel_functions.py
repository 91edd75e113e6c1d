"""Functions of whole channels, and random activations; part of :mod:`torchlette.nn.functional`."""

from __future__ import annotations

import math
import warnings

from torchlette import _C

__all__ = [
    "alpha_dropout",
    "channel_shuffle",
    "dropout1d",
    "dropout2d",
    "dropout3d",
    "feature_alpha_dropout",
    "gumbel_softmax",
    "pixel_shuffle",
    "pixel_unshuffle",
    "rrelu",
    "rrelu_",
]

Tensor = _C.Tensor


def _check_probability(p: float) -> None:
    if p < 0.0 or p > 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")


def _channel_dropout(input: Tensor, p: float, training: bool, inplace: bool, channel: int) -> Tensor:
    """Zero channels: the dimensions up to ``channel`` share one draw each."""
    _check_probability(p)
    if not training or p == 0.0:
        return input
    shape = [n if d <= channel else 1 for d, n in enumerate(input.shape)]
    result = input * _C.dropout(_C.ones(shape, dtype=input.dtype, device=input.device), p, True)
    return input.copy_(result) if inplace else result


def dropout1d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zero channels of [batch, channels, length] or [channels, length] with probability ``p``."""
    if input.dim() not in (2, 3):
        raise RuntimeError(f"dropout1d: Expected 2D or 3D input, but received a {input.dim()}D input.")
    return _channel_dropout(input, p, training, inplace, input.dim() - 2)


def dropout2d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zero channels of [batch, channels, height, width] with probability ``p``; of three dimensions the first two are
    these.
    """
    if input.dim() not in (3, 4):
        warnings.warn(f"dropout2d: Received a {input.dim()}-D input to dropout2d, which is deprecated.", stacklevel=2)
    return _channel_dropout(input, p, training, inplace, 1)


def dropout3d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zero channels of [batch, channels, depth, height, width] or [channels, depth, height, width] with probability
    ``p``.
    """
    if input.dim() not in (4, 5):
        warnings.warn(f"dropout3d: Received a {input.dim()}-D input to dropout3d, which is deprecated.", stacklevel=2)
    return _channel_dropout(input, p, training, inplace, 0 if input.dim() == 4 else 1)


# Minus the least value of selu: what a dropped element is set to (G. Klambauer et al., 2017).
_SELU_FLOOR = 1.7580993408473766


def _alpha_dropout(input: Tensor, p: float, training: bool, inplace: bool, shape: list[int]) -> Tensor:
    """Set elements to the least value of selu and restore mean and variance; one draw for each element of ``shape``."""
    _check_probability(p)
    if not training or p == 0.0:
        return input
    if p == 1.0:
        result = input * 0.0
    else:
        scale = 1.0 / math.sqrt((_SELU_FLOOR**2 * p + 1) * (1 - p))
        kept = _C.full(shape, 1 - p, dtype=input.dtype, device=input.device).bernoulli()
        result = input * (kept * scale) + ((kept - 1) * (_SELU_FLOOR * scale) + _SELU_FLOOR * scale * p)
    return input.copy_(result) if inplace else result


def alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """Drop elements with probability ``p`` so that zero mean and unit variance stay, for nets of selu."""
    return _alpha_dropout(input, p, training, inplace, list(input.shape))


def feature_alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """Drop channels of [batch, channels, ...] as :func:`alpha_dropout` drops elements."""
    return _alpha_dropout(input, p, training, inplace, [n if d < 2 else 1 for d, n in enumerate(input.shape)])


def rrelu(
    input: Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False, inplace: bool = False
) -> Tensor:
    """Return ``input`` where it is positive, else ``input`` times U(lower, upper) in training and their mean in
    evaluation.
    """
    if lower > upper:
        raise RuntimeError(
            f"Lower bound should be less than or equal to the upper bound, got lower={lower} and upper={upper}"
        )
    if training:
        slope = _C.rand_like(input, requires_grad=False) * (upper - lower) + lower
        result = _C.where(input <= 0, input * slope, input)
    else:
        result = _C.leaky_relu(input, (lower + upper) / 2)
    return input.copy_(result) if inplace else result


def rrelu_(input: Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False) -> Tensor:
    """Do what :func:`rrelu` does, in place."""
    return rrelu(input, lower, upper, training, True)


def gumbel_softmax(logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1) -> Tensor:
    """Return a sample of the Gumbel-softmax distribution (E. Jang et al., 2017).

    Args:
        logits: Log probabilities, not normalised.
        tau: Temperature.
        hard: Return one-hot vectors whose gradient is that of the soft sample.
        eps: Accepted for compatibility.
        dim: The dimension of the classes.
    """
    noise = -_C.empty_like(logits, requires_grad=False).exponential_().log()
    soft = _C.softmax((logits + noise) / tau, dim)
    if not hard:
        return soft
    index = soft.argmax(dim, keepdim=True)
    chosen = _C.zeros_like(logits, requires_grad=False).scatter(dim, index, 1.0)
    return chosen - soft.detach() + soft


def pixel_shuffle(input: Tensor, upscale_factor: int) -> Tensor:
    """Rearrange [..., channels * r * r, height, width] into [..., channels, height * r, width * r]."""
    r = upscale_factor
    if input.dim() < 3:
        raise RuntimeError(
            f"pixel_shuffle expects input to have at least 3 dimensions, but got input with {input.dim()} dimension(s)"
        )
    if r <= 0:
        raise RuntimeError(f"pixel_shuffle expects a positive upscale_factor, but got {r}")
    *lead, c, h, w = input.shape
    if c % (r * r):
        raise RuntimeError(
            "pixel_shuffle expects its input's 'channel' dimension to be divisible by the square of upscale_factor, "
            "but "
            f"input.size(-3)={c} is not divisible by {r * r}"
        )
    if r == 1:
        return input.clone()
    n = len(lead)
    parts = input.reshape(*lead, c // (r * r), r, r, h, w)
    return parts.permute(*range(n), n, n + 3, n + 1, n + 4, n + 2).reshape(*lead, c // (r * r), h * r, w * r)


def pixel_unshuffle(input: Tensor, downscale_factor: int) -> Tensor:
    """Rearrange [..., channels, height * r, width * r] into [..., channels * r * r, height, width]."""
    r = downscale_factor
    if input.dim() < 3:
        raise RuntimeError(
            f"pixel_unshuffle expects input to have at least 3 dimensions, but got input with {input.dim()} "
            f"dimension(s)"
        )
    if r <= 0:
        raise RuntimeError(f"pixel_unshuffle expects a positive downscale_factor, but got {r}")
    *lead, c, h, w = input.shape
    if h % r or w % r:
        raise RuntimeError(
            f"pixel_unshuffle expects height and width to be divisible by downscale_factor, but got {h} and {w}, "
            f"factor {r}"
        )
    if r == 1:
        return input.clone()
    n = len(lead)
    parts = input.reshape(*lead, c, h // r, r, w // r, r)
    return parts.permute(*range(n), n, n + 2, n + 4, n + 1, n + 3).reshape(*lead, c * r * r, h // r, w // r)


def channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """Interleave ``groups`` groups of channels of [batch, channels, ...] (X. Zhang et al., 2018)."""
    if input.dim() < 3:
        raise RuntimeError(f"channel_shuffle expects input with > 2 dims, but got input with sizes {list(input.shape)}")
    if groups <= 0:
        raise RuntimeError(f"Number of groups to divide channels in must be positive. Value of groups:{groups}")
    batch, c, *rest = input.shape
    if c % groups:
        raise RuntimeError(f"Number of channels must be divisible by groups. Got {c} channels and {groups} groups.")
    return input.reshape(batch, groups, c // groups, *rest).transpose(1, 2).reshape(input.shape)
