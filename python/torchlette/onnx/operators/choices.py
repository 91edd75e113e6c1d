"""Operators whose results' sizes depend on values, and random numbers."""

from __future__ import annotations

from typing import Any

import torchlette
from torchlette import _C
from torchlette.onnx.registry import operator
from torchlette.onnx.tensors import dtype_of

Tensor = _C.Tensor

_READS = "the result's sizes depend on values: runs as a module, and cannot be exported as a program"
_DRAWS = "the draws are this library's; a seed is not used"


@operator("NonZero", note=_READS)
def nonzero(x: Tensor) -> Tensor:
    """Return the places of elements that are not zero, [dims, count]."""
    return torchlette.nonzero(x).t()


@operator("Compress", note=_READS)
def compress(x: Tensor, condition: Tensor, *, axis: int | None = None) -> Tensor:
    """Take the slices for which a condition is true."""
    places = torchlette.nonzero(condition).reshape(-1)
    return x.reshape(-1).index_select(0, places) if axis is None else x.index_select(axis, places)


@operator("Unique", note=_READS)
def unique(x: Tensor, *, axis: int | None = None, sorted: int = 1, n_outputs: int = 1) -> list[Tensor]:  # noqa: A002
    """Return the different elements or slices, their first places, the place of each element's, and counts."""
    rows = x.reshape(-1, 1) if axis is None else x.movedim(axis, 0).reshape(x.shape[axis], -1)
    listed = [tuple(row) for row in rows.tolist()]
    first: dict[Any, int] = {}
    for i, row in enumerate(listed):
        first.setdefault(row, i)
    order = _ordered(first) if sorted else list(first)
    number = {row: i for i, row in enumerate(order)}
    at = _C.tensor([first[row] for row in order], dtype=_C.int64, device=x.device)
    inverse = [number[row] for row in listed]
    counts = [0] * len(order)
    for i in inverse:
        counts[i] += 1
    values = x.reshape(-1).index_select(0, at) if axis is None else x.index_select(axis, at)
    rest = [_C.tensor(v, dtype=_C.int64, device=x.device) for v in (inverse, counts)]
    return [values, at, *rest][:n_outputs]


_ordered = sorted


def _corners(box: list[float], center: int) -> tuple[float, float, float, float]:
    if center:
        x, y, w, h = box
        return y - h / 2, x - w / 2, y + h / 2, x + w / 2
    y0, x0, y1, x1 = box
    return min(y0, y1), min(x0, x1), max(y0, y1), max(x0, x1)


def _overlap(a: tuple[float, ...], b: tuple[float, ...]) -> float:
    height, width = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    if height <= 0 or width <= 0:
        return 0.0
    shared = height * width
    return shared / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - shared)


@operator("NonMaxSuppression", host=(2, 3, 4), note=_READS)
def non_max_suppression(
    boxes: Tensor,
    scores: Tensor,
    most: Any = None,
    overlap: Any = None,
    least: Any = None,
    *,
    center_point_box: int = 0,
) -> Tensor:
    """Return [batch, class, box] of boxes that overlap no better one."""
    limit, iou, floor = (
        v[0] if isinstance(v, list) else usual if v is None else v
        for v, usual in ((most, 0), (overlap, 0.0), (least, None))
    )
    found: list[list[int]] = []
    for b, (rows, classes) in enumerate(zip(boxes.tolist(), scores.tolist(), strict=True)):
        corners = [_corners(row, center_point_box) for row in rows]
        for c, values in enumerate(classes):
            kept: list[int] = []
            for i in _ordered(range(len(values)), key=lambda i: -values[i]):
                if len(kept) >= limit:
                    break
                if (floor is None or values[i] > floor) and all(_overlap(corners[i], corners[k]) <= iou for k in kept):
                    kept.append(i)
            found += [[b, c, i] for i in kept]
    return _C.tensor(found, dtype=_C.int64, device=boxes.device).reshape(-1, 3)


@operator("RandomNormal", note=_DRAWS)
def random_normal(
    *, dtype: int = 1, mean: float = 0.0, scale: float = 1.0, seed: float = 0.0, shape: list[int], device: Any = None
) -> Tensor:
    """Draw from a normal distribution."""
    return _C.randn(shape, dtype=dtype_of(dtype), device=device) * scale + mean


@operator("RandomUniform", note=_DRAWS)
def random_uniform(
    *, dtype: int = 1, high: float = 1.0, low: float = 0.0, seed: float = 0.0, shape: list[int], device: Any = None
) -> Tensor:
    """Draw from a uniform distribution."""
    return _C.rand(shape, dtype=dtype_of(dtype), device=device) * (high - low) + low


@operator("RandomNormalLike", note=_DRAWS)
def random_normal_like(
    x: Tensor, *, dtype: int | None = None, mean: float = 0.0, scale: float = 1.0, seed: float = 0.0
) -> Tensor:
    """Draw from a normal distribution as many numbers as the operand has."""
    kind = x.dtype if dtype is None else dtype_of(dtype)
    return _C.randn(list(x.shape), dtype=kind, device=x.device) * scale + mean


@operator("RandomUniformLike", note=_DRAWS)
def random_uniform_like(
    x: Tensor, *, dtype: int | None = None, high: float = 1.0, low: float = 0.0, seed: float = 0.0
) -> Tensor:
    """Draw from a uniform distribution as many numbers as the operand has."""
    kind = x.dtype if dtype is None else dtype_of(dtype)
    return _C.rand(list(x.shape), dtype=kind, device=x.device) * (high - low) + low


@operator("Bernoulli", note=_DRAWS)
def bernoulli(x: Tensor, *, dtype: int | None = None, seed: float = 0.0) -> Tensor:
    """Draw 1 with the operand's probabilities, else 0."""
    return (_C.rand_like(x) < x).to(x.dtype if dtype is None else dtype_of(dtype))


@operator("Multinomial", note=_DRAWS)
def multinomial(x: Tensor, *, dtype: int = 6, sample_size: int = 1, seed: float = 0.0) -> Tensor:
    """Draw classes by the logarithms of their probabilities."""
    return _C.multinomial(_C.softmax(x, -1), sample_size, True).to(dtype_of(dtype))
