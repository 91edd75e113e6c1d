"""Quantization written out, as training with it and the graphs of PT2E have it: integers, scales, zero points.

The rounding that training fakes lets a gradient pass where the number is in the range (a straight-through estimator).
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import torchlette
from torchlette import _C

__all__ = ["DECOMPOSED", "FAKE"]

Tensor = _C.Tensor


def _along(values: Any, x: Tensor, axis: int | None) -> Any:
    """Return one number for each slice along an axis, so that it broadcasts; a tensor of one element as a scalar."""
    if not isinstance(values, Tensor):
        return values
    if axis is None:
        return values.detach().reshape(())
    return values.reshape([-1 if d == axis % x.dim() else 1 for d in range(x.dim())])


def _inverse(scale: Any, x: Tensor) -> Any:
    """Return ``1 / scale`` as PyTorch's kernels take it: in float32 for a tensor, in float64 for a number."""
    return 1.0 / scale.to(x.dtype) if isinstance(scale, Tensor) else 1.0 / scale


def _fake(x: Tensor, scale: Any, zero: Any, low: int, high: int, axis: int | None = None) -> tuple[Tensor, Tensor]:
    """Return ``x`` rounded to its quantized values, and where it is in their range."""
    scale, zero = _along(scale, x, axis), _along(zero, x, axis)
    if isinstance(zero, Tensor):
        zero = zero.to(x.dtype)
    if not isinstance(scale, Tensor):  # the kernels round the number to float32 first
        (scale,) = struct.unpack("f", struct.pack("f", scale))
    with torchlette.no_grad():
        places = _C.round(x * _inverse(scale, x)) + zero
        inside = (places >= low) & (places <= high)
        rounded = (places.clamp(low, high) - zero) * scale
    return rounded + _C.where(inside, x - x.detach(), 0.0), inside


def _fake_tensor(x: Tensor, scale: Any, zero: Any, low: int, high: int) -> Tensor:
    return _fake(x, scale, zero, low, high)[0]


def _fake_channels(x: Tensor, scale: Tensor, zero: Tensor, axis: int, low: int, high: int) -> Tensor:
    return _fake(x, scale, zero, low, high, axis)[0]


def _fake_switched(
    x: Tensor, scale: Tensor, zero: Tensor, enabled: Tensor, low: int, high: int
) -> tuple[Tensor, Tensor]:
    """Quantization that the element of ``enabled`` switches on."""
    made, inside = _fake(x, scale, zero, low, high)
    on = enabled.reshape(()) != 0
    return _C.where(on, made, x), inside | ~on


#: The least scale that an observer chooses, and the scale of a range that is too small for one.
_LEAST_SCALE, _NO_SCALE = 6.1e-5, 0.1


def _moved(x: Tensor, on: Tensor, least: Tensor, most: Tensor, share: float, rows: bool) -> tuple[Tensor, Tensor]:
    """Return the range that an observer has after it saw ``x``: a moving average, which begins with the first range."""
    low, high = (x.flatten(1).amin(1), x.flatten(1).amax(1)) if rows else (x.amin(), x.amax())

    def after(old: Tensor, seen: Tensor) -> Tensor:
        seen = seen.reshape(old.shape)
        # An infinite range would be no number in the average, where the other branch is computed too.
        known = _C.where(_C.isinf(old), seen, old)
        return _C.where(on, known + share * (seen - known), old)

    return after(least, low), after(most, high)


def _qparams(least: Tensor, most: Tensor, low: int, high: int, symmetric: bool) -> tuple[Tensor, Tensor]:
    """Return the scale and the zero point that an observer chooses for a range, as the server library of PyTorch."""
    least, most = least.clamp(max=0), most.clamp(min=0)
    around = (least < 0) & (most > 0)
    if symmetric:
        down, up = -((high - low) // 2 + 1), (high - low) // 2
        step = _C.maximum((least / down).abs(), (most / up).abs())
        least, most = _C.where(around, step * down, least), _C.where(around, step * up, most)
    scale = (most - least) / (high - low)
    scale = _C.where((scale == 0) | _C.isinf(1.0 / scale), _NO_SCALE, scale)
    # A scale that is raised spreads the range.
    spread = _LEAST_SCALE * (high - low)
    tiny, grown = scale < _LEAST_SCALE, _LEAST_SCALE / scale
    most = _C.where(tiny, _C.where(least == 0, spread, most * _C.where(most == 0, 1.0, grown)), most)
    least = _C.where(tiny, _C.where(most == 0, -spread, least * _C.where(least == 0, 1.0, grown)), least)
    scale = scale.clamp(min=_LEAST_SCALE)
    down, up = least / scale, most / scale
    # Of the two ends the one from which the zero point has the smaller error.
    zero = _C.where(abs(low) - down.abs() < abs(high) - up.abs(), low - down, high - up)
    if symmetric:
        zero = _C.where(around, (low + high) / 2, zero)
    return scale, _C.round(zero.clamp(low, high))


def _observed(
    x: Tensor,
    observes: Tensor,
    fakes: Tensor,
    least: Tensor,
    most: Tensor,
    scale: Tensor,
    zero: Tensor,
    share: float,
    low: int,
    high: int,
    axis: int,
    rows: bool = False,
    symmetric: bool = False,
) -> tuple[Tensor, ...]:
    """Return what an observer that also rounds gives: the result, where it is in the range, and its new state.

    The state is the range, the scale and the zero point.
    """
    if rows and axis:
        raise NotImplementedError(f"an observer of the channels along axis {axis}, want 0")
    if not least.numel():
        raise NotImplementedError("an observer whose range has no elements yet: run the module once before the export")
    fakes = fakes.reshape(()) != 0
    with torchlette.no_grad():
        least, most = _moved(x.detach(), observes.reshape(()) != 0, least, most, share, rows)
        found, point = _qparams(least, most, low, high, symmetric)
        scale = _C.where(fakes, found.reshape(scale.shape), scale)
        zero = _C.where(fakes, point.reshape(zero.shape).to(zero.dtype), zero)
    made, inside = _fake(x, scale, zero, low, high, 0 if rows else None)
    return _C.where(fakes, made, x), inside | ~fakes, least, most, scale, zero


def _observed_in_place(x: Tensor, *args: Any) -> tuple[Tensor, Tensor]:
    made, inside, *state = _observed(x, *args)
    with torchlette.no_grad():
        for held, new in zip(args[2:6], state, strict=True):
            held.copy_(new)
    return made, inside


#: Of ATen, by name.
FAKE: dict[str, Callable[..., Any]] = {
    "fused_moving_avg_obs_fake_quant": lambda *args: _observed_in_place(*args)[0],
    "_fused_moving_avg_obs_fq_helper": _observed_in_place,
    "_fused_moving_avg_obs_fq_helper_functional": _observed,
    "fake_quantize_per_tensor_affine": _fake_tensor,
    "fake_quantize_per_channel_affine": _fake_channels,
    "fake_quantize_per_tensor_affine_cachemask": _fake,
    "fake_quantize_per_channel_affine_cachemask": lambda x, scale, zero, axis, low, high: _fake(
        x, scale, zero, low, high, axis
    ),
    "_fake_quantize_per_tensor_affine_cachemask_tensor_qparams": _fake_switched,
}


def _quantize(
    x: Tensor, scale: Any, zero: Any, low: Any, high: Any, dtype: _C.dtype, axis: int | None = None
) -> Tensor:
    x = x.float() if x.dtype in (_C.float16, _C.bfloat16) else x
    scale, zero = _along(scale, x, axis), _along(zero, x, axis)
    return _C.clamp(_C.round(x * (1.0 / scale)) + zero, low, high).to(dtype)


def _dequantize(
    q: Tensor, scale: Any, zero: Any, *rest: Any, out_dtype: _C.dtype | None = None, axis: int | None = None
) -> Tensor:
    wide = out_dtype or _C.float32
    zero = 0 if zero is None else _along(zero, q, axis)
    return ((q.to(wide) - zero) * _along(scale, q, axis)).to(wide)


def _chosen(x: Tensor, low: int, high: int, eps: float, dtype: _C.dtype, symmetric: bool) -> tuple[Tensor, Tensor]:
    """Return the scale and the zero point of a tensor's range, which includes 0."""
    least, most = (f.reshape(()) for f in torchlette.aminmax(x))
    least, most = least.clamp(max=0), most.clamp(min=0)
    if symmetric:
        most = _C.maximum(-least, most)
        scale = (most / (float(high - low) / 2)).clamp(min=eps)
        zero = _C.full_like(scale, 128 if dtype is _C.uint8 else 0, dtype=_C.int64)
    else:
        scale = ((most - least) / float(high - low)).clamp(min=eps)
        zero = (low - _C.round(least / scale).to(_C.int32)).clamp(low, high).to(_C.int64)
    return scale.to(_C.float64).reshape(1), zero.reshape(1)


def _token_range(x: Tensor, dtype: _C.dtype) -> tuple[Tensor, Tensor]:
    """Return for each row of the last dim the scale and the zero point of int8, of the range that includes 0."""
    low, high = -128, 127
    least, most = x.amin(-1, keepdim=True).clamp(max=0), x.amax(-1, keepdim=True).clamp(min=0)
    scale = ((most - least) / float(high - low)).clamp(min=torchlette.finfo(_C.float32).eps)
    down, up = least / scale, most / scale
    zero = _C.where(low + down + high + up > 0, low - down, high - up)
    return scale.to(_C.float64), zero.clamp(low, high).round().to(_C.int64)


def _token_scale(x: Tensor, dtype: _C.dtype) -> tuple[Tensor, Tensor]:
    largest = x.abs().amax(-1, keepdim=True)
    largest = largest.float() if largest.dtype is _C.float16 else largest
    scale = largest.clamp(min=1e-5) / (2 ** ((8 if dtype is _C.int8 else 4) - 1) - 1)
    return scale, _C.zeros_like(scale)


def _groups(x: Tensor, values: Tensor, size: int) -> Tensor:
    """Return the number of each element's group: of ``size`` elements of a row."""
    return values.reshape(x.shape[0], -1, 1).expand(-1, -1, size).reshape(x.shape)


def _rounded(x: Tensor, scale: Tensor, zero: Tensor, low: int, high: int) -> Tensor:
    """Return quantized values that are rounded after the zero point is added."""
    return _C.round(x * (1.0 / scale) + zero).clamp(low, high)


#: Of the library ``quantized_decomposed``, by name and overload.
DECOMPOSED: dict[str, Callable[..., Any]] = {
    **{f"quantize_per_tensor.{kind}": _quantize for kind in ("default", "tensor", "tensor2")},
    **{f"dequantize_per_tensor.{kind}": _dequantize for kind in ("default", "tensor", "tensor2")},
    "quantize_per_channel.default": lambda x, s, z, axis, low, high, dtype: _quantize(x, s, z, low, high, dtype, axis),
    "dequantize_per_channel.default": lambda q, s, z, axis, *rest, out_dtype=None: _dequantize(
        q, s, z, out_dtype=out_dtype, axis=axis
    ),
    "choose_qparams.tensor": lambda *args: _chosen(*args, symmetric=False),
    "choose_qparams_symmetric.tensor": lambda *args: _chosen(*args, symmetric=True),
    "choose_qparams_per_token.default": _token_scale,
    "choose_qparams_per_token_asymmetric.default": _token_range,
    "_choose_qparams_per_token_asymmetric_impl.default": _token_range,
    "quantize_per_token.default": lambda x, s, z, low, high, dtype: _rounded(x, s, z, low, high).to(dtype),
    "dequantize_per_token.default": lambda q, s, z, low, high, dtype, out: ((q - z) * s).to(out),
    "quantize_per_channel_group.default": lambda x, s, z, low, high, dtype, size: _rounded(
        x, _groups(x, s, size), _groups(x, z, size), low, high
    ).to(dtype),
    "dequantize_per_channel_group.default": lambda q, s, z, low, high, dtype, size, out: (
        (q - (0 if z is None else _groups(q, z, size))) * _groups(q, s, size)
    ).to(out),
    "fake_quant_per_channel.default": lambda x, s, z, axis, low, high: _fake_channels(x, s, z, axis, low, high),
    "convert_element_type.no_fuse": lambda x, dtype: x.to(dtype),
}
