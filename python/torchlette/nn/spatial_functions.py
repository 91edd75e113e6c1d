"""Padding and resampling; part of :mod:`torchlette.nn.functional`.

Both work dimension by dimension, by ``index_select`` with indices that the host computes.
"""

from __future__ import annotations

import math
import struct
import warnings
from collections.abc import Sequence

from torchlette import _C

__all__ = ["interpolate", "pad", "upsample"]

Tensor = _C.Tensor


def _take(x: Tensor, dim: int, index: list[int]) -> Tensor:
    return x.index_select(dim, _C.tensor(index, dtype=_C.int64, device=x.device))


def _source(mode: str, size: int, left: int, right: int) -> list[int]:
    """Return where each element of a padded dimension comes from."""
    places = range(-left, size + right)
    if mode == "replicate":
        if size == 0:
            raise RuntimeError("Expected a non-empty dimension for replication padding, got size 0")
        return [min(max(i, 0), size - 1) for i in places]
    if mode == "circular":
        if left > size or right > size:
            raise RuntimeError("Padding value causes wrapping around more than once.")
        return [i % size for i in places]
    if left >= size or right >= size:
        raise RuntimeError(
            f"Argument #4: Padding size should be less than the corresponding input dimension, but got: padding ({left}, {right}) of a dimension of size {size}"
        )
    return [size - 1 - abs(size - 1 - abs(i)) for i in places]


def pad(input: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Tensor:
    """Pad the last dimensions.

    Args:
        input: For modes other than "constant", [batch, channels, ...] or [channels, ...].
        pad: Amounts before and after the last dimension, then before and after the one before it, and so on. Negative ones cut.
        mode: "constant", "reflect" (without the edge), "replicate" (the edge) or "circular".
        value: What "constant" pads with; 0 by default.
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
    result = input
    for k in range(len(amounts) // 2):
        dim, left, right = input.dim() - 1 - k, amounts[2 * k], amounts[2 * k + 1]
        if left == 0 and right == 0:
            continue
        result = _take(result, dim, _source(mode, input.shape[dim], left, right))
    return result.clone() if result is input else result


def _float32(x: float) -> float:
    """Round to float32, in which PyTorch computes places."""
    return struct.unpack("f", struct.pack("f", x))[0]


_DIMENSIONS = {"linear": 3, "bilinear": 4, "trilinear": 5}


def _output_sizes(sizes: Sequence[int], size: int | Sequence[int] | None, scale_factor: float | Sequence[float] | None) -> tuple[list[int], list[float | None]]:
    """Return the sizes of the result and the given factors."""
    n = len(sizes)
    if (size is None) == (scale_factor is None):
        raise ValueError("either size or scale_factor should be defined" if size is None else "only one of size or scale_factor should be defined")
    given = size if size is not None else scale_factor
    values = list(given) if isinstance(given, (list, tuple, _C.Size)) else [given] * n
    if len(values) != n:
        name = "output size" if size is not None else "scale_factor"
        raise ValueError(
            f"Input and {name} must have the same number of spatial dimensions, but got input with spatial dimensions of {list(sizes)} and {name} of {given}."
        )
    if size is not None:
        out = [int(v) for v in values]
        factors: list[float | None] = [None] * n
    else:
        out = [math.floor(s * v) for s, v in zip(sizes, values, strict=True)]
        factors = [float(v) for v in values]
    if any(s <= 0 for s in out):
        raise RuntimeError(f"Input and output sizes should be greater than 0, but got input sizes {list(sizes)} and output sizes {out}")
    return out, factors


def _nearest(x: Tensor, dim: int, out: int, factor: float | None, exact: bool) -> Tensor:
    size = x.shape[dim]
    scale = _float32(size / out if factor is None else 1.0 / factor)
    offset = 0.5 if exact else 0.0
    return _take(x, dim, [min(math.floor(_float32((i + offset) * scale)), size - 1) for i in range(out)])


def _linear(x: Tensor, dim: int, out: int, factor: float | None, align_corners: bool) -> Tensor:
    size = x.shape[dim]
    if size == out and (factor is None or factor == 1.0):
        return x
    if align_corners:
        scale = (size - 1) / (out - 1) if out > 1 else 0.0
        places = [i * scale for i in range(out)]
    else:
        scale = size / out if factor is None else 1.0 / factor
        places = [max((i + 0.5) * scale - 0.5, 0.0) for i in range(out)]
    low = [min(math.floor(p), size - 1) for p in places]
    weights = _C.tensor([min(p - i, 1.0) for p, i in zip(places, low, strict=True)], dtype=x.dtype, device=x.device)
    weights = weights.reshape([out if d == dim else 1 for d in range(x.dim())])
    return _take(x, dim, low) * (1 - weights) + _take(x, dim, [min(i + 1, size - 1) for i in low]) * weights


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
        scale_factor: Instead of sizes, factors of them.
        mode: "nearest", "nearest-exact", "linear", "bilinear" or "trilinear".
        align_corners: Whether the centres of the corner elements stay, in the linear modes, instead of their outer edges.
        recompute_scale_factor: Compute places from the sizes instead of from the factors.
        antialias: Not supported.
    """
    if antialias:
        raise NotImplementedError("interpolate: antialias is not supported: got True, want False (average before, by avg_pool)")
    nearest = mode in ("nearest", "nearest-exact")
    if nearest and align_corners is not None:
        raise ValueError("align_corners option can only be set with the interpolating modes: linear | bilinear | bicubic | trilinear")
    if not nearest and mode not in _DIMENSIONS:
        raise NotImplementedError(f"interpolate: mode is not supported: got {mode}, want nearest, nearest-exact, linear, bilinear or trilinear")
    if not 3 <= input.dim() <= 5 or (not nearest and input.dim() != _DIMENSIONS[mode]):
        raise NotImplementedError(f"Input Error: mode {mode} does not take inputs of {input.dim()} dimensions")
    if recompute_scale_factor and size is not None:
        raise ValueError("recompute_scale_factor is not meaningful with an explicit size.")
    out, factors = _output_sizes(input.shape[2:], size, scale_factor)
    result = input
    for k in range(len(out)):
        factor = None if recompute_scale_factor else factors[k]
        if nearest:
            result = _nearest(result, 2 + k, out[k], factor, mode == "nearest-exact")
        else:
            result = _linear(result, 2 + k, out[k], factor, bool(align_corners))
    return result.clone() if result is input else result


def upsample(
    input: Tensor,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
) -> Tensor:
    """Return :func:`interpolate` of the same arguments, under its old name."""
    warnings.warn("`nn.functional.upsample` is deprecated. Use `nn.functional.interpolate` instead.", stacklevel=2)
    return interpolate(input, size, scale_factor, mode, align_corners)
