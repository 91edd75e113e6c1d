"""Rearrangements of channels."""

from __future__ import annotations

from torchlette import _C
from torchlette.nn import functional as F
from torchlette.nn.modules.module import Module

__all__ = ["ChannelShuffle", "PixelShuffle", "PixelUnshuffle"]


class ChannelShuffle(Module):
    """Interleave groups of channels of [batch, channels, ...]."""

    def __init__(self, groups: int) -> None:
        """Choose the number of groups."""
        super().__init__()
        self.groups = groups

    def forward(self, input: _C.Tensor) -> _C.Tensor:
        """Return the channels in their new order."""
        return F.channel_shuffle(input, self.groups)

    def extra_repr(self) -> str:
        """Show the number of groups."""
        return f"groups={self.groups}"


class PixelShuffle(Module):
    """Rearrange [..., channels * r * r, height, width] into [..., channels, height * r, width * r]."""

    def __init__(self, upscale_factor: int) -> None:
        """Choose the factor r."""
        super().__init__()
        self.upscale_factor = upscale_factor

    def forward(self, input: _C.Tensor) -> _C.Tensor:
        """Return the larger image."""
        return F.pixel_shuffle(input, self.upscale_factor)

    def extra_repr(self) -> str:
        """Show the factor."""
        return f"upscale_factor={self.upscale_factor}"


class PixelUnshuffle(Module):
    """Rearrange [..., channels, height * r, width * r] into [..., channels * r * r, height, width]."""

    def __init__(self, downscale_factor: int) -> None:
        """Choose the factor r."""
        super().__init__()
        self.downscale_factor = downscale_factor

    def forward(self, input: _C.Tensor) -> _C.Tensor:
        """Return the smaller image."""
        return F.pixel_unshuffle(input, self.downscale_factor)

    def extra_repr(self) -> str:
        """Show the factor."""
        return f"downscale_factor={self.downscale_factor}"
