"""Images: resizing, sampling, regions."""

from __future__ import annotations

import math
import struct
from typing import Any

from torchlette import _C, iinfo
from torchlette._runtime.regions import refuses_reads
from torchlette.nn import functional as F
from torchlette.onnx.registry import operator

Tensor = _C.Tensor


def _single(x: float) -> float:
    """Return a number rounded to float32, in which ONNX computes places: 3.5 / 0.7 is 5, and 10 * 0.7 is 7."""
    (rounded,) = struct.unpack("f", struct.pack("f", x))
    return float(rounded)


def _coordinate(i: int, scale: float, old: int, new: float, mode: str, roi: tuple[float, float]) -> float:
    """Return the place in the operand of place i of the result."""
    centre = _single(_single((i + 0.5) / scale) - 0.5)
    if mode == "half_pixel":
        return centre
    if mode == "half_pixel_symmetric":
        adjusted = math.floor(new) / new if new else 1.0
        return old / 2 * (1 - adjusted) + centre
    if mode == "pytorch_half_pixel":
        return centre if math.floor(new) > 1 else 0.0
    if mode == "align_corners":
        return _single(i * (old - 1) / (new - 1)) if new > 1 else 0.0
    if mode == "asymmetric":
        return _single(i / scale)
    if mode == "tf_crop_and_resize":
        low, high = roi
        return low * (old - 1) + i * (high - low) * (old - 1) / (new - 1) if new > 1 else 0.5 * (low + high) * (old - 1)
    raise ValueError(f"Resize: coordinate_transformation_mode is {mode!r}")


def _cubic(t: float, a: float) -> float:
    t = abs(t)
    if t <= 1:
        return ((a + 2) * t - (a + 3)) * t * t + 1
    return ((a * t - 5 * a) * t + 8 * a) * t - 4 * a if t < 2 else 0.0


def _nearest(at: float, mode: str) -> int:
    if mode == "round_prefer_floor":
        return math.ceil(at - 0.5)
    if mode == "round_prefer_ceil":
        return math.floor(at + 0.5)
    return math.floor(at) if mode == "floor" else math.ceil(at)


def _taps(at: float, scale: float, old: int, options: dict[str, Any]) -> dict[int, float]:
    """Return places of the operand with their weights in one element of the result."""
    mode = options["mode"]
    if mode == "nearest":
        return {min(max(_nearest(at, options["nearest_mode"]), 0), old - 1): 1.0}
    if options["antialias"]:
        return _smooth_taps(at, scale, old, options)
    found: dict[int, float] = {}
    total = 0.0
    base = math.floor(at)
    for j in range(base - 1, base + 3) if mode == "cubic" else range(base, base + 2):
        weight = max(0.0, 1 - abs(at - j)) if mode == "linear" else _cubic(at - j, options["cubic_coeff_a"])
        outside = not 0 <= j < old
        if outside and options["exclude_outside"]:
            continue
        total += weight
        k = min(max(j, 0), old - 1)
        found[k] = found.get(k, 0.0) + weight
    if total and options["exclude_outside"]:
        found = {k: w / total for k, w in found.items()}
    return found


def _smooth_weight(t: float, mode: str, a: float) -> float:
    """Return the weight at a distance, each operation rounded to float32 in onnxruntime's order."""
    t = abs(t)
    if mode == "linear":
        return _single(1 - t) if t < 1 else 0.0
    if t < 1:
        inner = _single(_single(_single(a + 2) * t) - _single(a + 3))
        return _single(_single(_single(inner * t) * t) + 1)
    if t < 2:
        inner = _single(_single(_single(t - 5) * t) + 8)
        return _single(_single(_single(inner * t) - 4) * a)
    return 0.0


def _smooth_taps(at: float, scale: float, old: int, options: dict[str, Any]) -> dict[int, float]:
    """Return places with their weights where an element of the result takes all elements that it covers.

    Rounded as onnxruntime does: sums of integers are often halves, which the last bit of a weight decides.
    """
    mode = options["mode"]
    stretch = max(_single(1 / scale), 1.0)
    inverse, reach = _single(1 / stretch), _single((1 if mode == "linear" else 2) * stretch)
    centre = _single(0.5 + at)
    first = math.floor(_single(_single(centre - reach) + 0.5))
    last = math.floor(_single(_single(centre + reach) + 0.5))
    if options["exclude_outside"]:
        first, last = max(first, 0), min(last, old)
    a = _single(options["cubic_coeff_a"])
    distances = [_single(_single(_single(j - centre) + 0.5) * inverse) for j in range(first, last)]
    weights = [_smooth_weight(t, mode, a) for t in distances]
    total = 0.0
    for w in weights:
        total = _single(total + w)
    norm = _single(1 / total) if total else 1.0
    found: dict[int, float] = {}
    for j, w in zip(range(first, last), weights, strict=True):
        k = min(max(j, 0), old - 1)
        found[k] = _single(found.get(k, 0.0) + _single(w * norm))
    return found


def _along(x: Tensor, d: int, count: int, scale: float, length: float, options: dict[str, Any], roi: Any) -> Tensor:
    """Resize one dim."""
    scale = _single(scale)
    old, mode = x.shape[d], options["coordinate_transformation_mode"]
    places = [_coordinate(i, scale, old, length, mode, roi) for i in range(count)]
    outside = [mode == "tf_crop_and_resize" and not 0 <= p <= old - 1 for p in places]
    taps = [_taps(p, scale, old, options) for p in places]
    if options["mode"] == "nearest":
        index = _C.tensor([next(iter(tap)) for tap in taps], dtype=_C.int64, device=x.device)
        y = x.index_select(d, index)
    elif options["antialias"] and not x.is_floating_point():
        y = _bytes(x, d, taps) if x.dtype.itemsize == 1 else _integers(x, d, taps)
    else:
        matrix = [[tap.get(k, 0.0) for k in range(old)] for tap in taps]
        work = x if x.is_floating_point() else x.to(_C.float32)
        weights = _C.tensor(matrix, dtype=work.dtype, device=x.device).reshape(count, old)
        y = (work.movedim(d, -1) @ weights.t()).movedim(-1, d)
    if any(outside):
        view = [1] * x.dim()
        view[d] = count
        mask = _C.tensor(outside, device=x.device).reshape(view)
        y = _C.where(mask, options["extrapolation_value"], y)
    return y


#: The bits of the fraction of a weight of 8-bit integers, and of the lower of its two parts.
_FRACTION, _LOWER = 22, 11


def _whole(number: float) -> int:
    """Round, and halves away from 0."""
    return int(math.copysign(math.floor(abs(number) + 0.5), number))


def _integers(x: Tensor, d: int, taps: list[dict[int, float]]) -> Tensor:
    """Resize one dim of integers with antialiasing, rounded.

    Terms are added in the order of their places, which decides on which side of a half a sum is.
    """
    limits = iinfo(x.dtype)
    view = [len(taps) if k == d else 1 for k in range(x.dim())]
    orders = [sorted(tap.items()) for tap in taps]
    y = None
    for t in range(max(map(len, orders))):
        column = [order[t] if t < len(order) else (0, 0.0) for order in orders]
        index = _C.tensor([k for k, _ in column], dtype=_C.int64, device=x.device)
        weight = _C.tensor([w for _, w in column], dtype=_C.float32, device=x.device).reshape(view)
        term = x.index_select(d, index).to(_C.float32) * weight
        y = term if y is None else y + term
    assert y is not None
    y = y.sign() * (y.abs() + 0.5).floor()
    return y.clamp(limits.min, limits.max).to(x.dtype)


def _bytes(x: Tensor, d: int, taps: list[dict[int, float]]) -> Tensor:
    """Resize one dim of 8-bit integers with antialiasing, rounded, in fixed point, as Pillow does."""
    limits = iinfo(x.dtype)

    def product(numbers: list[list[int]]) -> Tensor:
        weights = _C.tensor(numbers, dtype=_C.float32, device=x.device).reshape(len(taps), x.shape[d])
        return (x.to(_C.float32).movedim(d, -1) @ weights.t()).movedim(-1, d)

    matrix = [[tap.get(k, 0.0) for k in range(x.shape[d])] for tap in taps]
    # Sums of integers times either part of a weight are exact in float32.
    whole = [[_whole(w * (1 << _FRACTION)) for w in row] for row in matrix]
    upper = [[w >> _LOWER for w in row] for row in whole]
    lower = [[w - (w >> _LOWER << _LOWER) for w in row] for row in whole]
    total = product(upper).to(_C.int64) * (1 << _LOWER) + product(lower).to(_C.int64) + (1 << (_FRACTION - 1))
    return (total >> _FRACTION).clamp(limits.min, limits.max).to(x.dtype)


def _sizes(x: Tensor, scales: Any, sizes: Any, dims: list[int], policy: str) -> list[tuple[int, float, float]]:
    """Return for each resized dim the new size, the scale, and the exact length."""
    if sizes is None and scales is None:
        raise ValueError("Resize: it has neither scales nor sizes")
    if sizes:
        if policy == "stretch":
            return [(n, n / x.shape[d], float(n)) for d, n in zip(dims, sizes, strict=True)]
        pick = min if policy == "not_larger" else max
        scale = pick(n / x.shape[d] for d, n in zip(dims, sizes, strict=True))
        rounded = [math.floor(scale * x.shape[d] + 0.5) for d in dims]
        return [(n, scale, float(n)) for n in rounded]
    out = []
    for d, s in zip(dims, scales, strict=True):
        if not 0 < s < 1e6:
            raise ValueError(f"Resize: a scale is {s}")
        length = _single(x.shape[d] * s)
        out.append((math.floor(length), s, length))
    return out


def _interpolated(x: Tensor, wanted: Any, dims: list[int], options: dict[str, Any]) -> Tensor | None:
    """Return what nn.functional.interpolate computes, None where its rules are others."""
    changed = [d for d, (n, _, _) in zip(dims, wanted, strict=True) if n != x.shape[d]]
    mode, place = options["mode"], options["coordinate_transformation_mode"]
    if x.dim() != 4 or not changed or min(changed) < 2 or not x.is_floating_point() or options["antialias"]:
        return None
    if any(n != x.shape[d] * s for d, (n, s, _) in zip(dims, wanted, strict=True)):
        return None
    by = dict(zip(dims, wanted, strict=True))
    size = [by[d][0] if d in by else x.shape[d] for d in (2, 3)]
    if mode == "nearest" and place == "asymmetric" and options["nearest_mode"] == "floor":
        return F.interpolate(x, size, None, "nearest")
    if mode == "linear" and place in ("half_pixel", "align_corners") and min(size) > 1:
        return F.interpolate(x, size, None, "bilinear", place == "align_corners")
    if mode == "cubic" and place in ("half_pixel", "align_corners") and min(size) > 1:
        if options["cubic_coeff_a"] == -0.75 and not options["exclude_outside"]:
            return F.interpolate(x, size, None, "bicubic", place == "align_corners")
    return None


@operator("Resize", host=(1, 2, 3))
def resize(
    x: Tensor,
    roi: list[float] | None = None,
    scales: list[float] | None = None,
    sizes: list[int] | None = None,
    *,
    antialias: int = 0,
    axes: list[int] | None = None,
    coordinate_transformation_mode: str = "half_pixel",
    cubic_coeff_a: float = -0.75,
    exclude_outside: int = 0,
    extrapolation_value: float = 0.0,
    keep_aspect_ratio_policy: str = "stretch",
    mode: str = "nearest",
    nearest_mode: str = "round_prefer_floor",
) -> Tensor:
    """Change sizes by interpolation."""
    if mode not in ("nearest", "linear", "cubic"):
        raise ValueError(f"Resize: mode is {mode!r}")
    dims = list(range(x.dim())) if axes is None else [d % x.dim() for d in axes]
    wanted = _sizes(x, scales or None, sizes or None, dims, keep_aspect_ratio_policy)
    options = {
        "antialias": antialias,
        "coordinate_transformation_mode": coordinate_transformation_mode,
        "cubic_coeff_a": cubic_coeff_a,
        "exclude_outside": exclude_outside,
        "extrapolation_value": extrapolation_value,
        "mode": mode,
        "nearest_mode": nearest_mode,
    }
    done = _interpolated(x, wanted, dims, options)
    if done is not None:
        return done
    dtype = x.dtype
    # Integers are rounded after each dim, the last one first.
    for k, (d, (count, scale, length)) in reversed(list(enumerate(zip(dims, wanted, strict=True)))):
        part = (roi[k], roi[k + len(dims)]) if roi else (0.0, 1.0)
        if count != x.shape[d] or scale != 1 or coordinate_transformation_mode == "tf_crop_and_resize":
            x = _along(x, d, count, scale, length, options, part)
    if x.dtype == dtype or dtype.is_floating_point:
        return x.to(dtype)
    limits = iinfo(dtype)
    return x.trunc().clamp(limits.min, limits.max).to(dtype)


@operator("Upsample", host=(1,))
def upsample(x: Tensor, scales: list[float], *, mode: str = "nearest") -> Tensor:
    """Change sizes by interpolation, as before opset 10."""
    options = {"nearest_mode": "floor", "coordinate_transformation_mode": "asymmetric"}
    return resize(x, None, scales, None, mode=mode, **options)


@operator("GridSample")
def grid_sample(
    x: Tensor, grid: Tensor, *, align_corners: int = 0, mode: str = "linear", padding_mode: str = "zeros"
) -> Tensor:
    """Take elements at places of a grid from -1 to 1."""
    names = {"linear": "bilinear", "cubic": "bicubic"}
    return F.grid_sample(x, grid, names.get(mode, mode), padding_mode, bool(align_corners))


@operator("AffineGrid", host=(1,))
def affine_grid(theta: Tensor, size: list[int], *, align_corners: int = 0) -> Tensor:
    """Return the grid of an affine map."""
    return F.affine_grid(theta, size, bool(align_corners))


@operator("Col2Im", host=(1, 2), note="of images with two dims")
def col2im(
    x: Tensor,
    image: list[int],
    block: list[int],
    *,
    dilations: list[int] | None = None,
    pads: list[int] | None = None,
    strides: list[int] | None = None,
) -> Tensor:
    """Add blocks up to images."""
    if len(image) != 2:
        raise NotImplementedError(f"Col2Im of images with {len(image)} dims")
    ends = pads or [0, 0, 0, 0]
    sizes = [n + ends[d] + ends[d + 2] for d, n in enumerate(image)]
    y = F.fold(x, sizes, block, dilations or [1, 1], 0, strides or [1, 1])
    return y[:, :, ends[0] : sizes[0] - ends[2], ends[1] : sizes[1] - ends[3]]


def _bilinear(images: Tensor, y: Tensor, x: Tensor, greatest: bool = False) -> Tensor:
    """Return images [k, c, h, w] at places [k, n]: [k, c, n], zero further than one pixel outside.

    Args:
        images: The images.
        y: Rows.
        x: Columns.
        greatest: Whether the four weighted neighbours give their greatest number, as RoiAlign wants, and not their sum.
    """
    h, w = images.shape[-2:]
    inside = (y >= -1) & (y <= h) & (x >= -1) & (x <= w)
    y, x = y.clamp(0, h - 1), x.clamp(0, w - 1)
    y0, x0 = y.floor(), x.floor()
    y1, x1 = (y0 + 1).clamp(max=h - 1), (x0 + 1).clamp(max=w - 1)
    fy, fx = y - y0, x - x0
    flat = images.flatten(2)

    def at(row: Tensor, column: Tensor) -> Tensor:
        places = (row * w + column).long().unsqueeze(1).expand(-1, flat.shape[1], -1)
        return flat.gather(2, places)

    corners = [
        at(row, column) * (wy * wx).unsqueeze(1)
        for row, wy in ((y0, 1 - fy), (y1, fy))
        for column, wx in ((x0, 1 - fx), (x1, fx))
    ]
    value = _C.stack(corners).amax(0) if greatest else corners[0] + corners[1] + corners[2] + corners[3]
    return _C.where(inside.unsqueeze(1), value, _C.zeros_like(value))


def _adaptive(images: Tensor, edges: Tensor, sizes: tuple[int, int], half: float, greatest: bool) -> Tensor:
    """Return regions with as many samples for an element as it has pixels, drawn in a loop over the samples.

    Args:
        images: The image of each region.
        edges: [regions, 4].
        sizes: Of the results.
        half: 0 where a region has at least one pixel.
        greatest: Whether an element is the greatest sample, and not their mean.
    """
    from torchlette import lax

    x0, y0, x1, y1 = (e.unsqueeze(1) for e in edges.unbind(1))
    height, width = (n if half else n.clamp(min=1) for n in (y1 - y0, x1 - x0))
    tall, wide = height / sizes[0], width / sizes[1]
    rows, columns = tall.ceil().clamp(min=0), wide.ceil().clamp(min=0)
    total = rows * columns
    cells = [_C.arange(n, device=images.device).float() for n in sizes]

    def step(state: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        k, made = state
        row = (k / columns.clamp(min=1)).floor()
        ys = y0 + (cells[0] + (row + 0.5) / rows.clamp(min=1)) * tall
        xs = x0 + (cells[1] + (k - row * columns + 0.5) / columns.clamp(min=1)) * wide
        grid_y = ys.unsqueeze(2).expand(-1, -1, sizes[1]).flatten(1)
        grid_x = xs.unsqueeze(1).expand(-1, sizes[0], -1).flatten(1)
        value = _bilinear(images, grid_y, grid_x, greatest)
        value = _C.where(k > 0, _C.maximum(made, value), value) if greatest else made + value
        return k + 1, _C.where((k < total).unsqueeze(2), value, made)

    start = images.new_zeros([images.shape[0], images.shape[1], sizes[0] * sizes[1]])
    _, made = lax.while_loop(lambda s: (s[0] < total).any(), step, (start.new_zeros([]), start))
    made = made if greatest else made / total.clamp(min=1).unsqueeze(2)
    return made.reshape([*start.shape[:2], *sizes])


def _sampled(images: Tensor, edges: Tensor, sizes: tuple[int, int], half: float, greatest: bool, ratio: int) -> Tensor:
    """Return regions with a given number of samples for an element along each dim: all regions at once.

    Args:
        images: The image of each region.
        edges: [regions, 4].
        sizes: Of the results.
        half: 0 where a region has at least one pixel.
        greatest: Whether an element is the greatest sample, and not their mean.
        ratio: The number of samples.
    """
    x0, y0, x1, y1 = (e.unsqueeze(1) for e in edges.unbind(1))
    height, width = (n if half else n.clamp(min=1) for n in (y1 - y0, x1 - x0))
    cells = [(_C.arange(n * ratio, device=images.device).float() + 0.5) / ratio for n in sizes]
    ys, xs = y0 + cells[0] * (height / sizes[0]), x0 + cells[1] * (width / sizes[1])
    grid_y = ys.unsqueeze(2).expand(-1, -1, sizes[1] * ratio).flatten(1)
    grid_x = xs.unsqueeze(1).expand(-1, sizes[0] * ratio, -1).flatten(1)
    values = _bilinear(images, grid_y, grid_x, greatest)
    values = values.reshape([*images.shape[:2], sizes[0], ratio, sizes[1], ratio])
    return values.amax([3, 5]) if greatest else values.mean([3, 5])


@operator("RoiAlign")
def roi_align(
    x: Tensor,
    rois: Tensor,
    batch: Tensor,
    *,
    coordinate_transformation_mode: str = "half_pixel",
    mode: str = "avg",
    output_height: int = 1,
    output_width: int = 1,
    sampling_ratio: int = 0,
    spatial_scale: float = 1.0,
) -> Tensor:
    """Return regions of images, resized to one size."""
    half = 0.5 if coordinate_transformation_mode == "half_pixel" else 0.0
    parts = []
    edges = rois * spatial_scale - half
    images = x.index_select(0, batch.long())
    if not sampling_ratio and rois.shape[0] and refuses_reads():
        return _adaptive(images, edges, (output_height, output_width), half, mode == "max")
    if sampling_ratio:
        return _sampled(images, edges, (output_height, output_width), half, mode == "max", sampling_ratio)
    for k in range(rois.shape[0]):
        x0, y0, x1, y1 = edges[k].unbind(0)
        height, width = y1 - y0, x1 - x0
        if not half:
            height, width = height.clamp(min=1), width.clamp(min=1)
        tall, wide = height / output_height, width / output_width
        rows, columns = math.ceil(tall.item()), math.ceil(wide.item())
        ys = y0 + (_C.arange(output_height * rows, device=x.device).float() + 0.5) / rows * tall
        xs = x0 + (_C.arange(output_width * columns, device=x.device).float() + 0.5) / columns * wide
        grid_y = ys.unsqueeze(1).expand(-1, xs.shape[0]).reshape(1, -1)
        grid_x = xs.unsqueeze(0).expand(ys.shape[0], -1).reshape(1, -1)
        values = _bilinear(images[k : k + 1], grid_y, grid_x, mode == "max")
        cells = values.reshape(x.shape[1], output_height, rows, output_width, columns)
        parts.append(cells.mean([2, 4]) if mode == "avg" else cells.amax([2, 4]))
    if not parts:
        return x.new_zeros([0, x.shape[1], output_height, output_width])
    return _C.stack(parts)


@operator("MaxUnpool", host=(2,))
def max_unpool(
    x: Tensor,
    places: Tensor,
    sizes: list[int] | None = None,
    *,
    kernel_shape: list[int],
    pads: list[int] | None = None,
    strides: list[int] | None = None,
) -> Tensor:
    """Put elements back to the places from which MaxPool took them."""
    dims = len(kernel_shape)
    steps, ends = strides or [1] * dims, pads or [0] * (2 * dims)
    inner = [
        (n - 1) * s - ends[d] - ends[d + dims] + k
        for d, (n, s, k) in enumerate(zip(x.shape[2:], steps, kernel_shape, strict=True))
    ]
    base = [*x.shape[:2], *inner]
    flat = _C.zeros([math.prod(base)], dtype=x.dtype, device=x.device)
    y = flat.scatter(0, places.long().reshape(-1), x.reshape(-1)).reshape(base)
    if sizes and list(sizes) != base:
        grow = [n for d in reversed(range(x.dim())) for n in (0, sizes[d] - base[d])]
        y = _C.constant_pad_nd(y, grow, 0)
    return y


@operator("DeformConv", note="over two dims")
def deform_conv(
    x: Tensor,
    weight: Tensor,
    offset: Tensor,
    bias: Tensor | None = None,
    mask: Tensor | None = None,
    *,
    dilations: list[int] | None = None,
    group: int = 1,
    kernel_shape: list[int] | None = None,
    offset_group: int = 1,
    pads: list[int] | None = None,
    strides: list[int] | None = None,
) -> Tensor:
    """Convolve with elements at moved places."""
    kh, kw = weight.shape[2:]
    sy, sx = strides or [1, 1]
    dy, dx = dilations or [1, 1]
    py, px = (pads or [0, 0, 0, 0])[:2]
    b, c = x.shape[:2]
    oh, ow = offset.shape[2:]
    device = x.device
    rows = (_C.arange(oh, device=device) * sy - py).reshape(1, 1, 1, oh, 1).float()
    columns = (_C.arange(ow, device=device) * sx - px).reshape(1, 1, 1, 1, ow).float()
    ky = (_C.arange(kh, device=device) * dy).repeat_interleave(kw).reshape(1, 1, -1, 1, 1).float()
    kx = (_C.arange(kw, device=device) * dx).repeat(kh).reshape(1, 1, -1, 1, 1).float()
    moved = offset.reshape(b, offset_group, kh * kw, 2, oh, ow)
    ys, xs = rows + ky + moved[:, :, :, 0], columns + kx + moved[:, :, :, 1]
    images = x.reshape(b * offset_group, c // offset_group, *x.shape[2:])
    places = [t.reshape(b * offset_group, -1) for t in (ys, xs)]
    inside = _padded_bilinear(images, *places).reshape(b, offset_group, c // offset_group, kh * kw, oh, ow)
    if mask is not None:
        inside = inside * mask.reshape(b, offset_group, 1, kh * kw, oh, ow)
    columns_ = inside.reshape(b, group, c // group * kh * kw, oh * ow)
    kernels = weight.reshape(1, group, weight.shape[0] // group, -1)
    y = (kernels @ columns_).reshape(b, weight.shape[0], oh, ow)
    return y if bias is None else y + bias.reshape(-1, 1, 1)


def _padded_bilinear(images: Tensor, y: Tensor, x: Tensor) -> Tensor:
    """Return images at places, with zeros around them."""
    wide = _C.constant_pad_nd(images, [1, 1, 1, 1], 0)
    return _bilinear(wide, y.clamp(-1, images.shape[-2]) + 1, x.clamp(-1, images.shape[-1]) + 1)
