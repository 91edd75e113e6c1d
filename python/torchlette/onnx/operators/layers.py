"""Layers: products, convolutions, pooling, normalization, attention, losses."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torchlette
from torchlette import _C
from torchlette.nn import functional as F
from torchlette.onnx.registry import operator

Tensor = _C.Tensor


@operator("MatMul")
def matmul(a: Tensor, b: Tensor) -> Tensor:
    """Multiply matrices."""
    return _C.matmul(a, b)


@operator("Gemm")
def gemm(
    a: Tensor,
    b: Tensor,
    c: Tensor | None = None,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: int = 0,  # noqa: N803
    transB: int = 0,  # noqa: N803
) -> Tensor:
    """Return alpha a b + beta c."""
    a = a.t() if transA else a
    if alpha == beta == 1 and transB and c is not None and c.dim() == 1 and c.shape[0] == b.shape[0]:
        return F.linear(a, b, c)
    y = _C.matmul(a, b.t() if transB else b)
    y = y if alpha == 1 else (y * alpha).to(a.dtype)
    return y if c is None else y + (c if beta == 1 else (c * beta).to(a.dtype))


@operator("Einsum")
def einsum(*operands: Tensor, equation: str) -> Tensor:
    """Multiply and add by an equation of letters."""
    return torchlette.einsum(equation, *operands)


@operator("Det")
def det(x: Tensor) -> Tensor:
    """Return determinants of matrices."""
    return torchlette.linalg.det(x)


def pads_of(
    sizes: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    pads: Sequence[int] | None,
    auto_pad: str,
) -> tuple[list[int], list[int]]:
    """Return the elements added before and after each dim."""
    dims = len(kernel)
    if auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        before, after = [], []
        for n, k, s, d in zip(sizes, kernel, strides, dilations, strict=True):
            total = max(0, (-(-n // s) - 1) * s + d * (k - 1) + 1 - n)
            less, more = total // 2, total - total // 2
            before.append(less if auto_pad == "SAME_UPPER" else more)
            after.append(more if auto_pad == "SAME_UPPER" else less)
        return before, after
    if auto_pad not in ("NOTSET", "VALID", ""):
        raise ValueError(f"auto_pad is {auto_pad!r}")
    given = list(pads) if pads and auto_pad != "VALID" else [0] * (2 * dims)
    if len(given) != 2 * dims:
        raise ValueError(f"pads has {len(given)} numbers for {dims} dims")
    return given[:dims], given[dims:]


def padded(x: Tensor, before: Sequence[int], after: Sequence[int], value: float) -> Tensor:
    """Return x with elements before and after its last dims."""
    if not any(before) and not any(after):
        return x
    flat = [n for d in reversed(range(len(before))) for n in (before[d], after[d])]
    return _C.constant_pad_nd(x, flat, value)


@operator("Conv")
def conv(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: list[int] | None = None,
    group: int = 1,
    kernel_shape: list[int] | None = None,
    pads: list[int] | None = None,
    strides: list[int] | None = None,
) -> Tensor:
    """Convolve over 1 to 3 dims."""
    kernel = list(weight.shape[2:])
    dims = len(kernel)
    steps, gaps = strides or [1] * dims, dilations or [1] * dims
    before, after = pads_of(x.shape[2:], kernel, steps, gaps, pads, auto_pad)
    if before != after:
        x, before = padded(x, before, after, 0), [0] * dims
    call = (F.conv1d, F.conv2d, F.conv3d)[dims - 1]
    return call(x, weight, bias, steps, before, gaps, group)


@operator("ConvTranspose")
def conv_transpose(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: list[int] | None = None,
    group: int = 1,
    kernel_shape: list[int] | None = None,
    output_padding: list[int] | None = None,
    output_shape: list[int] | None = None,
    pads: list[int] | None = None,
    strides: list[int] | None = None,
) -> Tensor:
    """Convolve with the transposed weights over 1 to 3 dims."""
    kernel = list(weight.shape[2:])
    dims = len(kernel)
    steps, gaps, extra = strides or [1] * dims, dilations or [1] * dims, output_padding or [0] * dims
    full = [
        (n - 1) * s + d * (k - 1) + 1 + e for n, s, d, k, e in zip(x.shape[2:], steps, gaps, kernel, extra, strict=True)
    ]
    if output_shape is not None or auto_pad.startswith("SAME"):
        # As in onnxruntime, nothing is added in front, and behind only for an output_shape: where steps are longer than
        # the reach of a kernel, SAME does not give steps times the size.
        wanted = output_shape[-dims:] if output_shape else [n * s for n, s in zip(x.shape[2:], steps, strict=True)]
        wanted = wanted if output_shape else [min(w, f) for w, f in zip(wanted, full, strict=True)]
        total = [max(0, f - w) for f, w in zip(full, wanted, strict=True)]
        upper = auto_pad == "SAME_UPPER"
        before = [t // 2 if upper else t - t // 2 for t in total]
        after = [f - w - b for f, w, b in zip(full, wanted, before, strict=True)]
    else:
        before, after = pads_of(x.shape[2:], kernel, steps, gaps, pads, auto_pad)
    call = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[dims - 1]
    if before == after and all(e < max(s, d) for e, s, d in zip(extra, steps, gaps, strict=True)) and min(before) >= 0:
        return call(x, weight, bias, steps, before, extra, group, gaps)
    y = call(x, weight, None, steps, 0, 0, group, gaps)
    y = padded(y, [-n for n in before], [e - n for n, e in zip(after, extra, strict=True)], 0)
    return y if bias is None else y + bias.reshape([-1] + [1] * dims)


def _pool_pads(
    x: Tensor, kernel: list[int], steps: list[int], gaps: list[int], pads: Any, auto_pad: str, ceil: int
) -> Any:
    """Return the elements before and after each dim, the latter with what a last partial window takes."""
    before, after = pads_of(x.shape[2:], kernel, steps, gaps, pads, auto_pad)
    extra = [0] * len(kernel)
    if ceil and not auto_pad.startswith("SAME"):
        for d, (n, k, s, g) in enumerate(zip(x.shape[2:], kernel, steps, gaps, strict=True)):
            reach = n + before[d] + after[d] - g * (k - 1) - 1
            count = -(-reach // s)
            if count * s < n + before[d]:
                extra[d] = count * s - reach if count * s > reach else 0
    return before, after, extra


@operator("MaxPool")
def max_pool(
    x: Tensor,
    *,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    dilations: list[int] | None = None,
    kernel_shape: list[int],
    pads: list[int] | None = None,
    storage_order: int = 0,
    strides: list[int] | None = None,
    n_outputs: int = 1,
) -> Any:
    """Return the greatest element of each window; as a second output, their places in the whole operand."""
    dims = len(kernel_shape)
    steps, gaps = strides or [1] * dims, dilations or [1] * dims
    before, after, extra = _pool_pads(x, kernel_shape, steps, gaps, pads, auto_pad, ceil_mode)
    behind = [a + e for a, e in zip(after, extra, strict=True)]
    dtype = x.dtype
    work = x if x.is_floating_point() else x.to(_C.float32)
    call = (F.max_pool1d, F.max_pool2d, F.max_pool3d)[dims - 1]
    wide = padded(work, before, behind, -math.inf)
    if n_outputs < 2:
        return call(wide, kernel_shape, steps, 0, gaps).to(dtype)
    y, places = call(wide, kernel_shape, steps, 0, gaps, return_indices=True)
    return y.to(dtype), _whole_places(places, x.shape, wide.shape, before, storage_order)


def _whole_places(places: Tensor, sizes: Any, wide: Any, before: list[int], column_major: int) -> Tensor:
    """Return places in padded images as places in the whole operand."""
    inner, dims = list(sizes[2:]), len(before)
    coordinates: list[Tensor] = []
    rest = places
    for d in reversed(range(dims)):
        coordinates.append(_C.remainder(rest, wide[2 + d]) - before[d])
        rest = _C.div(rest, wide[2 + d], rounding_mode="floor")
    coordinates.reverse()
    order = list(range(dims))
    step, total = 1, _C.zeros_like(places)
    for d in order if column_major else reversed(order):
        total = total + coordinates[d] * step
        step *= inner[d]
    images = _C.arange(sizes[0] * sizes[1], device=places.device) * math.prod(inner)
    return total + images.reshape([sizes[0], sizes[1]] + [1] * dims)


@operator("AveragePool")
def average_pool(
    x: Tensor,
    *,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    count_include_pad: int = 0,
    dilations: list[int] | None = None,
    kernel_shape: list[int],
    pads: list[int] | None = None,
    strides: list[int] | None = None,
) -> Tensor:
    """Return the mean of each window, by default of the elements that are not padding."""
    dims = len(kernel_shape)
    steps, gaps = strides or [1] * dims, dilations or [1] * dims
    before, after, extra = _pool_pads(x, kernel_shape, steps, gaps, pads, auto_pad, ceil_mode)
    total = _window_sum(padded(padded(x, before, after, 0), [0] * dims, extra, 0), kernel_shape, steps, gaps)
    plain = not any(extra) and (count_include_pad or not any(before) and not any(after))
    if plain:
        return total / math.prod(kernel_shape)
    ones = _C.ones([1, 1, *x.shape[2:]], dtype=x.dtype, device=x.device)
    ones = padded(padded(ones, before, after, float(bool(count_include_pad))), [0] * dims, extra, 0)
    return total / _window_sum(ones, kernel_shape, steps, gaps)


def _window_sum(x: Tensor, kernel: list[int], steps: list[int], gaps: list[int]) -> Tensor:
    dims = len(kernel)
    if all(g == 1 for g in gaps):
        call = (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d)[dims - 1]
        return call(x, kernel, steps) * math.prod(kernel)
    ones = _C.ones([1, 1, *kernel], dtype=x.dtype, device=x.device)
    flat = x.reshape([x.shape[0] * x.shape[1], 1, *x.shape[2:]])
    y = (F.conv1d, F.conv2d, F.conv3d)[dims - 1](flat, ones, None, steps, 0, gaps)
    return y.reshape([x.shape[0], x.shape[1], *y.shape[2:]])


@operator("LpPool")
def lp_pool(
    x: Tensor,
    *,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    dilations: list[int] | None = None,
    kernel_shape: list[int],
    p: int = 2,
    pads: list[int] | None = None,
    strides: list[int] | None = None,
) -> Tensor:
    """Return the p-norm of each window."""
    dims = len(kernel_shape)
    steps, gaps = strides or [1] * dims, dilations or [1] * dims
    before, after, extra = _pool_pads(x, kernel_shape, steps, gaps, pads, auto_pad, ceil_mode)
    wide = padded(x.abs() ** p, before, [a + e for a, e in zip(after, extra, strict=True)], 0)
    return _window_sum(wide, kernel_shape, steps, gaps) ** (1 / p)


def _inner(x: Tensor) -> list[int]:
    return list(range(2, x.dim()))


@operator("GlobalAveragePool")
def global_average_pool(x: Tensor) -> Tensor:
    """Return the mean of each channel."""
    return x.mean(_inner(x), keepdim=True)


@operator("GlobalMaxPool")
def global_max_pool(x: Tensor) -> Tensor:
    """Return the greatest element of each channel."""
    return x.amax(_inner(x), keepdim=True)


@operator("GlobalLpPool")
def global_lp_pool(x: Tensor, *, p: int = 2) -> Tensor:
    """Return the p-norm of each channel."""
    return (x.abs() ** p).sum(_inner(x), keepdim=True) ** (1 / p)


def per_channel(v: Tensor, x: Tensor) -> Tensor:
    """Return a vector of numbers for the channels as a tensor that broadcasts with x."""
    return v.reshape([-1] + [1] * (x.dim() - 2))


@operator("BatchNormalization")
def batch_normalization(
    x: Tensor,
    scale: Tensor,
    bias: Tensor,
    mean: Tensor,
    var: Tensor,
    *,
    epsilon: float = 1e-5,
    momentum: float = 0.9,
    training_mode: int = 0,
) -> Any:
    """Normalize channels, in training mode by the batch's statistics; further outputs are the new running ones."""
    if not training_mode:
        if len({t.dtype for t in (x, scale, bias, mean, var)}) == 1:
            return F.batch_norm(x, mean, var, scale, bias, False, 0.0, epsilon)
        y = (x - per_channel(mean, x)) / _C.sqrt(per_channel(var, x) + epsilon)
        return (y * per_channel(scale, x) + per_channel(bias, x)).to(x.dtype)
    dims = [0, *_inner(x)]
    now, spread = x.mean(dims), x.var(dims, correction=0)
    y = (x - per_channel(now, x)) / _C.sqrt(per_channel(spread, x) + epsilon)
    y = (y * per_channel(scale, x) + per_channel(bias, x)).to(x.dtype)
    return y, mean * momentum + now * (1 - momentum), var * momentum + spread * (1 - momentum)


@operator("InstanceNormalization")
def instance_normalization(x: Tensor, scale: Tensor, bias: Tensor, *, epsilon: float = 1e-5) -> Tensor:
    """Normalize each channel of each element of the batch."""
    return F.instance_norm(x, None, None, scale, bias, True, 0.0, epsilon)


@operator("GroupNormalization")
def group_normalization(
    x: Tensor, scale: Tensor, bias: Tensor, *, num_groups: int, epsilon: float = 1e-5, stash_type: int = 1
) -> Tensor:
    """Normalize groups of channels. Before opset 21 scale and bias have a number for each group."""
    if scale.shape[0] == num_groups != x.shape[1]:
        each = x.shape[1] // num_groups
        scale, bias = (v.unsqueeze(1).expand(num_groups, each).reshape(-1) for v in (scale, bias))
    return F.group_norm(x, num_groups, scale, bias, epsilon)


@operator("LayerNormalization")
def layer_normalization(
    x: Tensor,
    scale: Tensor,
    bias: Tensor | None = None,
    *,
    axis: int = -1,
    epsilon: float = 1e-5,
    stash_type: int = 1,
    n_outputs: int = 1,
) -> Any:
    """Normalize the last dims; further outputs are their mean and one over the standard deviation."""
    axis += x.dim() if axis < 0 else 0
    shape = list(x.shape[axis:])
    whole = [v if v is None or list(v.shape) == shape else v.expand(shape) for v in (scale, bias)]
    y = F.layer_norm(x, shape, whole[0], whole[1], epsilon)
    if n_outputs < 2:
        return y
    dims = list(range(axis, x.dim()))
    var, mean = _C.var_mean(x, dims, correction=0, keepdim=True)
    return [y, mean, (var + epsilon).rsqrt()][:n_outputs]


@operator("RMSNormalization")
def rms_normalization(
    x: Tensor, scale: Tensor, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1
) -> Tensor:
    """Divide by the root of the mean of squares of the last dims."""
    axis += x.dim() if axis < 0 else 0
    work = x.float() if stash_type == 1 and x.dtype in (_C.float16, _C.bfloat16) else x
    mean = (work * work).mean(list(range(axis, x.dim())), keepdim=True)
    return (work * _C.rsqrt(mean + epsilon)).to(x.dtype) * scale


@operator("LRN")
def lrn(x: Tensor, *, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0, size: int) -> Tensor:
    """Divide by the squares of nearby channels."""
    before = (size - 1) // 2
    squares = (x * x).reshape(x.shape[0], 1, x.shape[1], -1)
    wide = padded(squares, [before, 0], [size - 1 - before, 0], 0)
    total = _window_sum(wide, [size, 1], [1, 1], [1, 1]).reshape(x.shape)
    return x / (bias + alpha / size * total) ** beta


@operator("MeanVarianceNormalization")
def mean_variance_normalization(x: Tensor, *, axes: list[int] | None = None) -> Tensor:
    """Subtract the mean, divide by the standard deviation."""
    dims = [0, 2, 3] if axes is None else axes
    centered = x - x.mean(dims, keepdim=True)
    return centered / ((centered * centered).mean(dims, keepdim=True).sqrt() + 1e-9)


@operator("LpNormalization")
def lp_normalization(x: Tensor, *, axis: int = -1, p: int = 2) -> Tensor:
    """Divide by the p-norm along an axis; zeros stay."""
    norm = x.abs().sum(axis, keepdim=True) if p == 1 else (x * x).sum(axis, keepdim=True).sqrt()
    return _C.where(norm == 0, _C.zeros_like(x), x / norm)


@operator("Dropout", host=(1, 2), note="with a ratio and training_mode set, random zeros; the draws are this library's")
def dropout(x: Tensor, ratio: Any = None, training_mode: Any = None, *, seed: int = 0, n_outputs: int = 1) -> Any:
    """Set random elements to zero in training mode."""
    p = 0.5 if ratio is None else float(ratio)
    if not training_mode or p == 0:
        return [x, _C.ones_like(x, dtype=_C.bool)][:n_outputs]
    mask = _C.rand_like(x) >= p
    return [x * mask.to(x.dtype) / (1 - p), mask][:n_outputs]
