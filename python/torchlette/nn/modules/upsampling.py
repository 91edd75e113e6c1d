"""Resampling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torchlette import _C
from torchlette.nn import functional as F
from torchlette.nn.modules.module import Module

__all__ = ["Upsample", "UpsamplingBilinear2d", "UpsamplingNearest2d"]


class Upsample(Module):
    """Resample [batch, channels, ...]; arguments as for :func:`torchlette.nn.functional.interpolate`.

    Args:
        size: Sizes of the result; None where factors are given.
        scale_factor: Factors of the sizes, one for all or one for each.
        mode: "nearest", "linear", "bilinear", "bicubic", "trilinear" or "nearest-exact".
        align_corners: Whether the corners of input and result coincide.
        recompute_scale_factor: Whether factors are recomputed from the rounded sizes.
    """

    def __init__(
        self,
        size: int | Sequence[int] | None = None,
        scale_factor: float | Sequence[float] | None = None,
        mode: str = "nearest",
        align_corners: bool | None = None,
        recompute_scale_factor: bool | None = None,
    ) -> None:
        """Keep the options."""
        super().__init__()
        self.size = size
        self.scale_factor: Any = None
        if scale_factor is not None:
            self.scale_factor = (
                tuple(map(float, scale_factor)) if isinstance(scale_factor, (tuple, list)) else float(scale_factor)
            )
        self.mode = mode
        self.align_corners = align_corners
        self.recompute_scale_factor = recompute_scale_factor

    def forward(self, input: _C.Tensor) -> _C.Tensor:
        """Return ``input`` resampled."""
        return F.interpolate(
            input, self.size, self.scale_factor, self.mode, self.align_corners, self.recompute_scale_factor
        )

    def extra_repr(self) -> str:
        """Show factor or size, and the mode."""
        name = "size" if self.scale_factor is None else "scale_factor"
        return f"{name}={getattr(self, name)!r}, mode={self.mode!r}"


class UpsamplingNearest2d(Upsample):
    """Repeat the nearest element."""

    def __init__(
        self, size: int | Sequence[int] | None = None, scale_factor: float | Sequence[float] | None = None
    ) -> None:
        """Choose sizes or factors."""
        super().__init__(size, scale_factor, mode="nearest")


class UpsamplingBilinear2d(Upsample):
    """Interpolate between the four nearest elements; corners stay where they are."""

    def __init__(
        self, size: int | Sequence[int] | None = None, scale_factor: float | Sequence[float] | None = None
    ) -> None:
        """Choose sizes or factors."""
        super().__init__(size, scale_factor, mode="bilinear", align_corners=True)
