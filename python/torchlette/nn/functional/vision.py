"""Padding, resizing and sampling of images; part of :mod:`torchlette.nn.functional`."""

from __future__ import annotations

import math
import struct
import warnings
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

from torchlette import _C
from torchlette._ops.memory_format import channels_last
from torchlette._runtime.casts import autocast_inputs
from torchlette._runtime.varying import Varying

__all__ = ["affine_grid", "grid_sample", "interpolate", "pad", "upsample", "upsample_bilinear", "upsample_nearest"]

Tensor = _C.Tensor


# Operators whose signature is PyTorch's as it stands.
grid_sample = _C.grid_sample


def _take(x: Tensor, dim: int, index: list[int]) -> Tensor:
    return x.index_select(dim, _C.tensor(index, dtype=_C.int64, device=x.device))


def _source(mode: str, size: int, left: int, right: int) -> list[int]:
    """Return the source index of each element of a padded dimension."""
    places = range(-left, size + right)
    if mode == "replicate":
        if size == 0:
            raise RuntimeError("Expected a non-empty dimension for replication padding, got size 0")
        return [min(max(i, 0), size - 1) for i in places]
    if mode == "circular":
        if left > size or right > size:
            raise RuntimeError("Padding value causes wrapping around more than once.")
        # Negative amounts crop first: the remaining elements wrap around.
        kept = list(range(max(-left, 0), size - max(-right, 0)))
        return kept[len(kept) - max(left, 0) :] + kept + kept[: max(right, 0)]
    if left >= size or right >= size:
        raise RuntimeError(
            f"Argument #4: Padding size should be less than the corresponding input dimension, but got: padding "
            f"({left}, {right}) of a dimension of size {size}"
        )
    return [size - 1 - abs(size - 1 - abs(i)) for i in places]


def pad(input: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Tensor:
    """Pad the last dimensions.

    Args:
        input: For modes other than "constant", [batch, channels, ...] or [channels, ...].
        pad: Amounts before and after the last dimension, then before and after the one before it, and so on. Negative
            ones cut.
        mode: "constant", "reflect" (without the edge), "replicate" (the edge) or "circular".
        value: The padding of "constant"; 0 by default.
    """
    amounts = [int(n) for n in pad]
    if len(amounts) % 2:
        raise RuntimeError("Padding length must be divisible by 2")
    if len(amounts) > 2 * input.dim():
        raise RuntimeError(
            "Padding length should be less than or equal to two times the input dimension but got padding length "
            f"{len(amounts)} and input of dimension {input.dim()}"
        )
    if mode not in ("constant", "reflect", "replicate", "circular"):
        raise NotImplementedError(f"Unrecognised padding mode {mode}")
    if mode != "constant":
        if value is not None and value != 0:
            raise ValueError(f'Padding mode "{mode}" doesn\'t take in value argument')
        if len(amounts) not in (2, 4, 6) or input.dim() not in (len(amounts) // 2 + 1, len(amounts) // 2 + 2):
            raise NotImplementedError(
                "Only 2D, 3D, 4D, 5D padding with non-constant padding are supported for now: "
                f"got an input of dimension {input.dim()} and {len(amounts)} amounts"
            )
    if mode == "constant":
        return _C.constant_pad_nd(input, amounts, 0 if value is None else value)
    if mode == "replicate" or (mode == "reflect" and len(amounts) < 6):
        return _padded_in_full(input, amounts, mode)
    return _padded(input, amounts, mode)


def _padded(input: Tensor, amounts: list[int], mode: str) -> Tensor:
    result = input
    for k in range(len(amounts) // 2):
        dim, left, right = input.dim() - 1 - k, amounts[2 * k], amounts[2 * k + 1]
        if left == 0 and right == 0:
            continue
        result = _take(result, dim, _source(mode, input.shape[dim], left, right))
    return result.clone() if result is input else result


_padded_in_full = autocast_inputs(cpu="full")(_padded)


def _float32(x: float) -> float:
    """Round to float32, as PyTorch computes source positions."""
    return struct.unpack("f", struct.pack("f", x))[0]


_DIMENSIONS = {"linear": 3, "bilinear": 4, "bicubic": 4, "lanczos": 4, "trilinear": 5}


def _output_sizes(
    sizes: Sequence[int], size: int | Sequence[int] | None, scale_factor: float | Sequence[float] | None
) -> tuple[list[int], list[float | None]]:
    """Return the sizes of the result and the given factors."""
    n = len(sizes)
    if (size is None) == (scale_factor is None):
        raise ValueError(
            "either size or scale_factor should be defined"
            if size is None
            else "only one of size or scale_factor should be defined"
        )
    given = size if size is not None else scale_factor
    values = list(given) if isinstance(given, (list, tuple, _C.Size)) else [given] * n
    if len(values) != n:
        of, shape, place = ("output", "output size of", "output size in (o1, o2, ...,oK)")
        if size is None:
            of, shape, place = ("scale_factor", "scale_factor of shape", "scale_factor in (s1, s2, ...,sK)")
        raise ValueError(
            f"Input and {of} must have the same number of spatial dimensions, but got input with spatial dimensions "
            f"of {list(sizes)} and {shape} {given}. Please provide input tensor in (N, C, d1, d2, ...,dK) format and "
            f"{place} format."
        )
    if size is not None:
        if not all(hasattr(v, "__index__") for v in values):
            raise TypeError(
                "expected size to be one of int or Tuple[int] or Tuple[int, int] or Tuple[int, int, int], but got size "
                f"with types {[type(v) for v in values]}"
            )
        out = [int(v) for v in values]
        factors: list[float | None] = [None] * n
    else:
        out = [math.floor(s * v) for s, v in zip(sizes, values, strict=True)]
        factors = [float(v) for v in values]
    if any(s <= 0 for s in out):
        raise RuntimeError(
            f"Input and output sizes should be greater than 0, but got input sizes {list(sizes)} and output sizes {out}"
        )
    return out, factors


#: The largest denominator of a factor for which positions are computed by integers.
_DENOMINATOR = 1000


def _varying_places(
    x: Tensor, dim: int, out: int, factor: float | None, align_corners: bool, edges: bool
) -> tuple[Tensor, int] | None:
    """Return the source positions as integers over a divisor, where sizes differ from run to run; None elsewhere.

    Positions are those of :func:`_places` or, without ``edges``, by half an element larger: those of ``nearest-exact``.
    """
    if not Varying.now:
        return None
    i, size = _C.arange(out, dtype=_C.int64, device=x.device), x.shape[dim]
    if align_corners:
        return i * (size - 1), max(out - 1, 1)
    if factor is None or factor <= 0:
        above, below = out, size
    else:
        ratio = Fraction(factor).limit_denominator(_DENOMINATOR)
        if abs(float(ratio) - factor) > 1e-12 * factor:
            return None
        above, below = ratio.numerator, ratio.denominator
    return (i * 2 + 1) * below - (above if edges else 0), 2 * above


def _blend_varying(
    x: Tensor, dim: int, places: tuple[Tensor, int], weights: Callable[[Any], tuple[Any, ...]], before: int
) -> Tensor:
    """Do what :func:`_blend` does for positions of :func:`_varying_places`."""
    numerators, divisor = places
    last = x.shape[dim] - 1
    low = (numerators // divisor).clamp(max=last)
    part = ((numerators - low * divisor).to(x.dtype) / divisor).clamp(max=1.0)
    shape = [low.shape[0] if d == dim else 1 for d in range(x.dim())]
    terms = [
        x.index_select(dim, (low + (k - before)).clamp(0, last)) * w.reshape(shape) for k, w in enumerate(weights(part))
    ]
    return sum(terms[1:], terms[0])


def _nearest(x: Tensor, dim: int, out: int, factor: float | None, exact: bool) -> Tensor:
    size = x.shape[dim]
    if (places := _varying_places(x, dim, out, factor, False, False)) is not None:
        numerators, divisor = places
        if not exact:  # the positions of the elements' first edges
            numerators = numerators - numerators[:1]
        return x.index_select(dim, (numerators // divisor).clamp(max=size - 1))
    scale = _float32(size / out if factor is None else 1.0 / factor)
    offset = 0.5 if exact else 0.0
    return _take(x, dim, [min(math.floor(_float32((i + offset) * scale)), size - 1) for i in range(out)])


def _places(size: int, out: int, factor: float | None, align_corners: bool) -> list[float]:
    """Return the source positions of the result's elements along a dimension."""
    if align_corners:
        scale = (size - 1) / (out - 1) if out > 1 else 0.0
        return [i * scale for i in range(out)]
    scale = size / out if factor is None or factor <= 0 else 1.0 / factor
    return [(i + 0.5) * scale - 0.5 for i in range(out)]


def _blend(
    x: Tensor, dim: int, places: list[float], weights: Callable[[float], tuple[float, ...]], before: int
) -> Tensor:
    """Return weighted sums of neighbours along ``dim``, ``before`` of them before the position; edges are repeated.

    ``weights`` maps the fractional part of a position to the neighbours' weights.
    """
    low = [min(math.floor(p), x.shape[dim] - 1) for p in places]
    columns = list(zip(*(weights(min(p - i, 1.0)) for p, i in zip(places, low, strict=True)), strict=True))
    result = None
    for k, column in enumerate(columns):
        w = _C.tensor(column, dtype=x.dtype, device=x.device).reshape(
            [len(places) if d == dim else 1 for d in range(x.dim())]
        )
        term = _take(x, dim, [min(max(i + k - before, 0), x.shape[dim] - 1) for i in low]) * w
        result = term if result is None else result + term
    return result


def _linear(x: Tensor, dim: int, out: int, factor: float | None, align_corners: bool) -> Tensor:
    size = x.shape[dim]
    if (varying := _varying_places(x, dim, out, factor, align_corners, True)) is not None:
        return _blend_varying(x, dim, (varying[0].clamp(min=0), varying[1]), lambda t: (1 - t, t), 0)
    if size == out and (factor is None or factor == 1.0):
        return x
    places = [max(p, 0.0) for p in _places(size, out, factor, align_corners)]
    return _blend(x, dim, places, lambda t: (1 - t, t), 0)


def _cubic_weights(t: Any) -> tuple[Any, ...]:
    """Return the cubic convolution of R. Keys (1981) with a = -3/4 at distances 1 + t, t, 1 - t and 2 - t."""
    a = -0.75
    near = [((a + 2) * d - (a + 3)) * d * d + 1 for d in (t, 1 - t)]
    far = [((a * d - 5 * a) * d + 8 * a) * d - 4 * a for d in (1 + t, 2 - t)]
    return far[0], near[0], near[1], far[1]


def _cubic(x: Tensor, dim: int, out: int, factor: float | None, align_corners: bool) -> Tensor:
    if (varying := _varying_places(x, dim, out, factor, align_corners, True)) is not None:
        return _blend_varying(x, dim, varying, _cubic_weights, 1)
    return _blend(x, dim, _places(x.shape[dim], out, factor, align_corners), _cubic_weights, 1)


def _triangle(d: float) -> float:
    """Weight of linear interpolation at a distance."""
    return max(0.0, 1.0 - abs(d))


def _cubic_kernel(d: float) -> float:
    """Weight of the cubic convolution of R. Keys (1981) with a = -1/2 at a distance."""
    a, d = -0.5, abs(d)
    if d < 1:
        return ((a + 2) * d - (a + 3)) * d * d + 1
    return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a if d < 2 else 0.0


def _lanczos_kernel(d: float) -> float:
    """Weight of the sinc function under its own middle lobe, three times as wide, at a distance."""
    d = abs(d) * math.pi
    if d == 0.0:
        return 1.0
    return 3 * math.sin(d) * math.sin(d / 3) / (d * d) if d < 3 * math.pi else 0.0


#: Weights of resizing with antialiasing, and how far they reach.
_KERNELS = {"bilinear": (_triangle, 1.0), "bicubic": (_cubic_kernel, 2.0), "lanczos": (_lanczos_kernel, 3.0)}


def _smooth(x: Tensor, dim: int, out: int, factor: float | None, align_corners: bool, mode: str) -> Tensor:
    """Resample a dimension by a matrix of weights. Rows are as wide as a result element: shrinking averages."""
    weight, reach = _KERNELS[mode]
    size = x.shape[dim]
    if align_corners:
        scale = (size - 1) / (out - 1) if out > 1 else 0.0
    else:
        scale = size / out if factor is None or factor <= 0 else 1.0 / factor
    width = max(scale, 1.0)
    rows = []
    for i in range(out):
        centre = scale * (i + 0.5)
        first, last = max(int(centre - reach * width + 0.5), 0), min(int(centre + reach * width + 0.5), size)
        row = [weight((j - centre + 0.5) / width) if first <= j < last else 0.0 for j in range(size)]
        total = sum(row)
        rows.append([w / total for w in row] if total else row)
    return (x.movedim(dim, -1) @ _C.tensor(rows, dtype=x.dtype, device=x.device).mT).movedim(-1, dim)


def interpolate(
    input: Tensor,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:
    """Resample [batch, channels, ...] to other sizes.

    Args:
        input: Of three to five dimensions.
        size: Sizes of the result.
        scale_factor: Factors of the sizes, instead of ``size``.
        mode: "nearest", "nearest-exact", "area", "lanczos", "linear", "bilinear", "bicubic" or "trilinear". "lanczos"
            needs ``antialias``.
        align_corners: In the last four modes, whether the centres of the corner elements coincide, instead of their
            outer edges.
        recompute_scale_factor: Compute positions from the sizes instead of from the factors.
        antialias: Average over all elements that an element of the result covers, in "bilinear", "bicubic" and
            "lanczos" of pictures.
    """
    if antialias and not (mode in _KERNELS and input.dim() == 4):
        raise ValueError(
            "Anti-alias option is restricted to bilinear, bicubic, and lanczos modes and requires a 4-D tensor as input"
        )
    plain = mode in ("nearest", "nearest-exact", "area")
    if plain and align_corners is not None:
        raise ValueError(
            "align_corners option can only be set with the interpolating modes: linear | bilinear | bicubic | trilinear"
        )
    named = mode in ("linear", "bilinear", "trilinear")
    if 3 <= input.dim() <= 5 and named and input.dim() != _DIMENSIONS[mode]:
        raise NotImplementedError(f"Got {input.dim()}D input, but {mode} mode needs {_DIMENSIONS[mode]}D input")
    if not 3 <= input.dim() <= 5 or (not plain and input.dim() != _DIMENSIONS.get(mode)):
        raise NotImplementedError(
            f"Input Error: Only 3D, 4D and 5D input Tensors supported (got {input.dim()}D) for the modes: nearest | "
            f"linear | bilinear | bicubic | "
            f"trilinear | lanczos | area | nearest-exact (got {mode} for {input.dim()} dimensions)"
        )
    if recompute_scale_factor and size is not None:
        raise ValueError("recompute_scale_factor is not meaningful with an explicit size.")
    out, factors = _output_sizes(input.shape[2:], size, scale_factor)
    if mode == "lanczos" and align_corners:
        raise ValueError("Lanczos mode does not support align_corners=True")
    if mode == "lanczos" and not antialias:
        raise ValueError("Lanczos mode requires antialias=True")
    if mode == "area":
        return getattr(_C, f"adaptive_avg_pool{len(out)}d")(input, out)
    return _resampled(input, out, factors, mode, bool(align_corners), bool(recompute_scale_factor), antialias)


@autocast_inputs(gpu="full")
def _resampled(
    input: Tensor,
    out: list[int],
    factors: list[float | None],
    mode: str,
    align_corners: bool,
    recompute_scale_factor: bool,
    antialias: bool,
) -> Tensor:
    plain = mode in ("nearest", "nearest-exact")
    narrow = not plain and input.dtype in (_C.float16, _C.bfloat16, _C.uint8)  # round once, at the end
    result = input.float() if narrow else input
    for k in reversed(range(len(out))):
        factor = None if recompute_scale_factor else factors[k]
        if plain:
            result = _nearest(result, 2 + k, out[k], factor, mode == "nearest-exact")
        elif antialias:
            result = _smooth(result, 2 + k, out[k], factor, align_corners, mode)
        else:
            result = (_cubic if mode == "bicubic" else _linear)(result, 2 + k, out[k], factor, align_corners)
        if narrow and input.dtype is _C.uint8:  # PyTorch rounds uint8 images after each dimension, the last first
            result = result.round().clamp(0, 255)
    if antialias and input.is_contiguous(memory_format=channels_last):
        result = result.contiguous(memory_format=channels_last)
    if narrow:
        return result.to(input.dtype)
    return result.clone() if result is input else result


def upsample(
    input: Tensor,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
) -> Tensor:
    """Return :func:`interpolate` of the same arguments, under its old name.

    The arguments are those of :func:`interpolate`.
    """
    warnings.warn("`nn.functional.upsample` is deprecated. Use `nn.functional.interpolate` instead.", stacklevel=2)
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(
    input: Tensor, size: int | Sequence[int] | None = None, scale_factor: float | Sequence[float] | None = None
) -> Tensor:
    """Return :func:`interpolate` by the nearest element, under its old name.

    The arguments are those of :func:`interpolate`.
    """
    warnings.warn(
        "`nn.functional.upsample_nearest` is deprecated. Use `nn.functional.interpolate` instead.", stacklevel=2
    )
    return interpolate(input, size, scale_factor, "nearest")


def upsample_bilinear(
    input: Tensor, size: int | Sequence[int] | None = None, scale_factor: float | Sequence[float] | None = None
) -> Tensor:
    """Return bilinear :func:`interpolate` with aligned corners, under its old name.

    The arguments are those of :func:`interpolate`.
    """
    warnings.warn(
        "`nn.functional.upsample_bilinear` is deprecated. Use `nn.functional.interpolate` instead.", stacklevel=2
    )
    return interpolate(input, size, scale_factor, "bilinear", True)


def affine_grid(theta: Tensor, size: Sequence[int], align_corners: bool | None = None) -> Tensor:
    """Return the places at which ``grid_sample`` reads an image under affine maps.

    Args:
        theta: The maps, [batch, 2, 3] or [batch, 3, 4].
        size: Size of the output, [batch, channels, (depth,) height, width].
        align_corners: Whether -1 and 1 are the centres of the corner elements instead of their outer edges.
    """
    if align_corners is None:
        warnings.warn(
            "Default grid_sample and affine_grid behavior has changed to align_corners=False since 1.3.0.", stacklevel=2
        )
        align_corners = False
    if not theta.is_floating_point():
        raise ValueError(f"Expected theta to have floating point type, but got {theta.dtype}")
    dims = len(size) - 2
    if dims not in (2, 3):
        raise NotImplementedError(
            f"affine_grid only supports 4D and 5D sizes, for 2D and 3D affine transforms, respectively. Got size "
            f"{list(size)}."
        )
    if theta.dim() != 3 or tuple(theta.shape[-2:]) != (dims, dims + 1):
        raise ValueError(
            f"Expected a batch of {dims}D affine matrices of shape Nx{dims}x{dims + 1} for size {size}. Got "
            f"{theta.shape}."
        )
    if min(size) <= 0:
        raise ValueError(f"Expected non-zero, positive output size. Got {size}")
    return _C.affine_grid_generator(theta, size, align_corners)
