"""Channels to pixels and back; part of :mod:`torchlette.nn.functional`."""

from __future__ import annotations

from torchlette import _C

__all__ = ["channel_shuffle", "pixel_shuffle", "pixel_unshuffle"]

Tensor = _C.Tensor


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
