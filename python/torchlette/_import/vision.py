"""The operators of torchvision's library in graphs of torch.export."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torchlette import _C

__all__ = ["VISION"]

Tensor = _C.Tensor


def _roi_align(
    x: Tensor, rois: Tensor, scale: float, height: int, width: int, sampling_ratio: int = -1, aligned: bool = False
) -> Tensor:
    """Return regions of images; a row of ``rois`` is the image's number and the region's corners."""
    from torchlette.onnx.operators.images import roi_align

    return roi_align(
        x,
        rois[:, 1:],
        rois[:, 0],
        coordinate_transformation_mode="half_pixel" if aligned else "output_half_pixel",
        output_height=height,
        output_width=width,
        sampling_ratio=max(0, sampling_ratio),
        spatial_scale=scale,
    )


def _deform_conv2d(
    x: Tensor, weight: Tensor, offset: Tensor, mask: Tensor, bias: Tensor | None, *numbers: Any
) -> Tensor:
    """Convolve with elements at moved places: the numbers are strides, padding, dilations, groups, use of the mask."""
    from torchlette.onnx.operators.images import deform_conv

    sy, sx, py, px, dy, dx, groups, offset_groups, masked = numbers
    return deform_conv(
        x,
        weight,
        offset,
        bias,
        mask if masked else None,
        dilations=[dy, dx],
        group=groups,
        offset_group=offset_groups,
        pads=[py, px, py, px],
        strides=[sy, sx],
    )


#: By name and overload.
VISION: dict[str, Callable[..., Tensor]] = {
    "roi_align.default": _roi_align,
    "deform_conv2d.default": _deform_conv2d,
}
