"""The operators of torchvision's shared library, written with tensors' operators.

``ops.load_library`` of that library registers them. ``nms`` reads its boxes; ``roi_align`` is torchvision's own
function in Python. The others are defined, so that torchvision imports, and raise when they are called.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from torchlette import _C
from torchlette._compat.library import Library

__all__ = ["register"]

_NAMES = """
    nms roi_align roi_pool ps_roi_align ps_roi_pool deform_conv2d qnms qroi_align box_iou_rotated _roi_align_backward
    _roi_pool_backward _ps_roi_align_backward _ps_roi_pool_backward _deform_conv2d_backward _cuda_version
""".split()


def overlaps(boxes: _C.Tensor, threshold: float) -> _C.Tensor:
    """Return which pairs of boxes, rows of (x1, y1, x2, y2), have an intersection over union above a threshold."""
    corners = boxes.unsqueeze(1), boxes.unsqueeze(0)
    low = _C.maximum(corners[0][..., :2], corners[1][..., :2])
    high = _C.minimum(corners[0][..., 2:], corners[1][..., 2:])
    inter = (high - low).clamp(min=0).prod(-1)
    areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    return inter / (areas.unsqueeze(1) + areas.unsqueeze(0) - inter) > threshold


def nms(boxes: _C.Tensor, scores: _C.Tensor, threshold: float) -> _C.Tensor:
    """Return the indices of boxes that overlap none of higher score, by falling score; reads the boxes.

    Args:
        boxes: ``(n, 4)``: x1, y1, x2, y2.
        scores: ``(n,)``.
        threshold: The greatest intersection over union of two boxes that stay.
    """
    if boxes.dim() != 2 or boxes.shape[1] != 4:
        raise RuntimeError(f"boxes should be a 2d tensor of 4 columns, got {tuple(boxes.shape)}")
    if scores.shape != boxes.shape[:1]:
        raise RuntimeError(
            f"boxes and scores should have same number of elements in dimension 0, got {boxes.shape[0]} and "
            f"{tuple(scores.shape)}"
        )
    boxes, n = boxes.detach(), boxes.shape[0]
    order = scores.detach().argsort(descending=True, stable=True)
    rows = _C._tobytes(overlaps(boxes[order].float(), threshold)) if n else b""
    kept, gone = [], 0  # numbers whose bytes are the boxes
    for i in range(n):
        if not gone >> 8 * i & 1:
            kept.append(i)
            gone |= int.from_bytes(rows[i * n : (i + 1) * n], "little")
    return order[_C.tensor(kept, dtype=_C.int64, device=boxes.device)]


def _roi_align(*args: Any) -> Any:
    return import_module("torchvision.ops.roi_align")._roi_align(*args)


def _roi_align_backward(
    grad: _C.Tensor,
    rois: _C.Tensor,
    scale: float,
    pooled_height: int,
    pooled_width: int,
    batch_size: int,
    channels: int,
    height: int,
    width: int,
    sampling_ratio: int,
    aligned: bool,
) -> _C.Tensor:
    """Return the gradient of roi_align by its input, in which it is linear."""
    from torchlette import autograd

    with autograd.enable_grad():
        x = grad.new_zeros((batch_size, channels, height, width)).requires_grad_()
        y = _roi_align(x, rois, scale, pooled_height, pooled_width, sampling_ratio, aligned)
        (found,) = autograd.grad(y, x, grad)
    if found is None:
        raise RuntimeError("roi_align: the result does not depend on its input")
    return found


def register() -> None:
    """Define the operators of ``torchvision``."""
    library = Library("torchvision", "DEF")
    for name in _NAMES:
        library.define(f"{name}(...) -> ...")
    library.impl("nms", nms)
    library.impl("roi_align", _roi_align)
    library.impl("_roi_align_backward", _roi_align_backward)
    library.impl("_cuda_version", lambda: -1)
