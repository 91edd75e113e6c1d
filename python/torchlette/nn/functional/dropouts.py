"""Dropout of elements and of channels; part of :mod:`torchlette.nn.functional`."""

from __future__ import annotations

import math
import warnings

from torchlette import _C

__all__ = ["alpha_dropout", "dropout", "dropout1d", "dropout2d", "dropout3d", "feature_alpha_dropout"]

Tensor = _C.Tensor


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zero elements with probability ``p`` and scale the others by ``1 / (1 - p)``.

    Args:
        input: Of any shape.
        p: The probability of an element to become zero.
        training: If false, the input is returned unchanged.
        inplace: Whether to write the result to ``input`` and return it.
    """
    if p < 0.0 or p > 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    result = _C.dropout(input, p, training)
    return input.copy_(result) if inplace else result


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
    """Zero channels of [batch, channels, length] or [channels, length] with probability ``p``.

    Args:
        input: [batch, channels, sizes...]; :func:`dropout1d`, 2d and 3d also take it without the batch.
        p: The probability of a channel to become zero.
        training: If false, the input is returned unchanged.
        inplace: Whether to write the result to ``input`` and return it.
    """
    if input.dim() not in (2, 3):
        raise RuntimeError(f"dropout1d: Expected 2D or 3D input, but received a {input.dim()}D input.")
    return _channel_dropout(input, p, training, inplace, input.dim() - 2)


def dropout2d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zero channels of [batch, channels, height, width] with probability ``p``; of three dimensions the first two are
    these.

    Args:
        input: [batch, channels, sizes...]; :func:`dropout1d`, 2d and 3d also take it without the batch.
        p: The probability of a channel to become zero.
        training: If false, the input is returned unchanged.
        inplace: Whether to write the result to ``input`` and return it.
    """
    if input.dim() not in (3, 4):
        warnings.warn(f"dropout2d: Received a {input.dim()}-D input to dropout2d, which is deprecated.", stacklevel=2)
    return _channel_dropout(input, p, training, inplace, 1)


def dropout3d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zero channels of [batch, channels, depth, height, width] or [channels, depth, height, width] with probability
    ``p``.

    Args:
        input: [batch, channels, sizes...]; :func:`dropout1d`, 2d and 3d also take it without the batch.
        p: The probability of a channel to become zero.
        training: If false, the input is returned unchanged.
        inplace: Whether to write the result to ``input`` and return it.
    """
    if input.dim() not in (4, 5):
        warnings.warn(f"dropout3d: Received a {input.dim()}-D input to dropout3d, which is deprecated.", stacklevel=2)
    return _channel_dropout(input, p, training, inplace, 0 if input.dim() == 4 else 1)


# Minus the least value of selu: what a dropped element is set to (G. Klambauer et al., 2017).
_SELU_FLOOR = 1.7580993408473766


def _alpha_dropout(input: Tensor, p: float, training: bool, inplace: bool, shape: list[int]) -> Tensor:
    """Set random elements to selu's least value, then restore mean and variance; draws have ``shape``."""
    _check_probability(p)
    if not training or p == 0.0:
        return input
    if p == 1.0:
        result = input * 0.0
    else:
        scale = 1.0 / math.sqrt((_SELU_FLOOR**2 * p + 1) * (1 - p))
        dtype = input.real.dtype
        kept = _C.full(shape, 1 - p, dtype=dtype, device=input.device).bernoulli()
        result = input * (kept * scale) + ((kept - 1) * (_SELU_FLOOR * scale) + _SELU_FLOOR * scale * p)
    return input.copy_(result) if inplace else result


def alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """Drop elements with probability ``p`` so that zero mean and unit variance stay, for nets of selu.

    Args:
        input: Of any shape.
        p: The probability of an element to become zero.
        training: If false, the input is returned unchanged.
        inplace: Whether to write the result to ``input`` and return it.
    """
    return _alpha_dropout(input, p, training, inplace, list(input.shape))


def feature_alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """Drop channels of [batch, channels, ...] as :func:`alpha_dropout` drops elements.

    Args:
        input: [batch, channels, sizes...]; :func:`dropout1d`, 2d and 3d also take it without the batch.
        p: The probability of a channel to become zero.
        training: If false, the input is returned unchanged.
        inplace: Whether to write the result to ``input`` and return it.
    """
    return _alpha_dropout(input, p, training, inplace, [n if d < 2 else 1 for d, n in enumerate(input.shape)])
