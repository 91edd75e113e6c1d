"""Quantized models: numbers of 8 bits with a scale and a zero point."""

from __future__ import annotations

import functools
import math
from typing import Any

from torchlette import _C
from torchlette._runtime.api import iinfo
from torchlette._runtime.dtype_table import KINDS
from torchlette.onnx.operators.layers import conv
from torchlette.onnx.registry import operator
from torchlette.onnx.tensors import dtype_of

Tensor = _C.Tensor

#: The least and greatest integer of each dtype of at most 32 bits with a sign, 16 without: float64 and int32 hold them.
_LIMITS = {
    dtype: (iinfo(dtype).min, iinfo(dtype).max)
    for dtype, kind in KINDS.items()
    if kind == "i" and dtype.itemsize <= 4 or kind == "u" and dtype.itemsize <= 2
}


def _along(v: Tensor, x: Tensor, axis: int, block: int) -> Tensor:
    """Return scales or zero points as a tensor that broadcasts with x: one for all, for each place, or for blocks."""
    if v.numel() == 1 and v.dim() <= 1:
        return v.reshape(())
    if block:
        return v.repeat_interleave(block, axis).narrow(axis, 0, x.shape[axis])
    if v.dim() == 1:
        axis += x.dim() if axis < 0 else 0
        return v.reshape([-1 if d == axis else 1 for d in range(x.dim())])
    return v


def quantized(x: Tensor, scale: Tensor, zero: Tensor | None, dtype: _C.dtype, axis: int, block: int = 0) -> Tensor:
    """Return x / scale + zero, rounded and limited."""
    low, high = _LIMITS[dtype]
    y = _C.round(x.float() / _along(scale, x, axis, block).float())
    if zero is not None:
        y = y + _along(zero, x, axis, block).float()
    return y.clamp(low, high).to(_C.int32).to(dtype)


@operator("QuantizeLinear", note="to int8, uint8, int16, uint16; gradients stop at the rounding")
def quantize_linear(
    x: Tensor,
    scale: Tensor,
    zero: Tensor | None = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
    precision: int = 0,
    saturate: int = 1,
) -> Tensor:
    """Return x / scale + zero, rounded and limited."""
    dtype = zero.dtype if zero is not None else dtype_of(output_dtype) if output_dtype else _C.uint8
    if dtype not in _LIMITS:
        raise NotImplementedError(f"QuantizeLinear to {dtype}")
    return quantized(x, scale, zero, dtype, axis, block_size)


@operator("DequantizeLinear")
def dequantize_linear(
    x: Tensor,
    scale: Tensor,
    zero: Tensor | None = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
) -> Tensor:
    """Return (x - zero) scale."""
    whole = _C.int32 if x.dtype is _C.int32 else _C.float32  # float32 holds the differences of smaller numbers
    y = x.to(whole)
    if zero is not None:
        y = y - _along(zero, x, axis, block_size).to(whole)
    y = y.to(_C.float32) * _along(scale, x, axis, block_size).to(_C.float32)
    return y.to(dtype_of(output_dtype) if output_dtype else scale.dtype)


@operator("DynamicQuantizeLinear")
def dynamic_quantize_linear(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Quantize to uint8 by the least and greatest element; return also the scale and the zero point."""
    low, high = x.amin().clamp(max=0), x.amax().clamp(min=0)
    scale = (high - low) / 255
    scale = _C.where(scale == 0, _C.ones_like(scale), scale)
    zero = _C.round((0 - low) / scale).clamp(0, 255)
    y = (_C.round(x / scale) + zero).clamp(0, 255)
    return y.to(_C.int32).to(_C.uint8), scale, zero.to(_C.int32).to(_C.uint8)


#: Terms whose products of numbers of 9 bits add up to at most 2^24 in magnitude, so that float32 holds each sum.
_EXACT = 256


def _rows(v: Tensor) -> Tensor:
    """Return what is one for all, or one for each row of a matrix, as a tensor that broadcasts with the matrix."""
    return v.reshape(()) if v.numel() == 1 else v.unsqueeze(-1)


def _differences(x: Tensor, zero: Tensor | None) -> Tensor:
    """Return x - zero, whole numbers of 9 bits, in float32."""
    return x.to(_C.float32) if zero is None else x.to(_C.float32) - zero.to(_C.float32)


def _whole_product(a: Tensor, b: Tensor) -> Tensor:
    """Return the exact product of matrices of whole numbers of 9 bits in int32: a sum of products of parts."""
    parts = []
    for first in range(0, max(a.shape[-1], 1), _EXACT):
        n = min(_EXACT, a.shape[-1] - first)
        parts.append((a.narrow(-1, first, n) @ b.narrow(max(b.dim() - 2, 0), first, n)).to(_C.int32))
    return functools.reduce(_C.add, parts)


@operator("MatMulInteger")
def matmul_integer(a: Tensor, b: Tensor, a_zero: Tensor | None = None, b_zero: Tensor | None = None) -> Tensor:
    """Multiply matrices of whole numbers; the sums are int32."""
    left = _differences(a, None if a_zero is None else _rows(a_zero))
    return _whole_product(left, _differences(b, b_zero))


@operator("QLinearMatMul")
def qlinear_matmul(
    a: Tensor,
    a_scale: Tensor,
    a_zero: Tensor,
    b: Tensor,
    b_scale: Tensor,
    b_zero: Tensor,
    y_scale: Tensor,
    y_zero: Tensor,
) -> Tensor:
    """Multiply quantized matrices, and quantize the result."""
    left = _differences(a, _rows(a_zero)) * _rows(a_scale).to(_C.float32)
    right = dequantize_linear(b, b_scale.to(_C.float32), b_zero, axis=-1)
    return quantized(left @ right, y_scale, y_zero, y_zero.dtype, -1)


@operator("ConvInteger")
def conv_integer(
    x: Tensor,
    weight: Tensor,
    x_zero: Tensor | None = None,
    w_zero: Tensor | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: list[int] | None = None,
    group: int = 1,
    kernel_shape: list[int] | None = None,
    pads: list[int] | None = None,
    strides: list[int] | None = None,
) -> Tensor:
    """Convolve whole numbers; the sums are int32."""
    options = dict(auto_pad=auto_pad, dilations=dilations, group=group, pads=pads, strides=strides)
    left = _differences(x, None if x_zero is None else x_zero.reshape(()))
    right = _differences(weight, None if w_zero is None else _along(w_zero, weight, 0, 0))
    return _whole_conv(left, right, options)


def _whole_conv(x: Tensor, weight: Tensor, attributes: dict[str, Any]) -> Tensor:
    """Return the exact convolution of whole numbers of 9 bits in int32: a sum over parts of the channels."""
    channels, group = weight.shape[1], attributes["group"]
    each = _EXACT // math.prod(weight.shape[2:])
    if not each:
        return conv(x.to(_C.int32), weight.to(_C.int32), None, **attributes)
    parts = []
    split = x.unflatten(1, (group, channels))
    for first in range(0, channels, each):
        n = min(each, channels - first)
        part = split.narrow(2, first, n).flatten(1, 2)
        parts.append(conv(part, weight.narrow(1, first, n), None, **attributes).to(_C.int32))
    return functools.reduce(_C.add, parts)


@operator("QLinearConv")
def qlinear_conv(
    x: Tensor,
    x_scale: Tensor,
    x_zero: Tensor,
    weight: Tensor,
    w_scale: Tensor,
    w_zero: Tensor,
    y_scale: Tensor,
    y_zero: Tensor,
    bias: Tensor | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: list[int] | None = None,
    group: int = 1,
    kernel_shape: list[int] | None = None,
    pads: list[int] | None = None,
    strides: list[int] | None = None,
) -> Tensor:
    """Convolve quantized numbers, and quantize the result."""
    x_scale, w_scale = x_scale.to(_C.float32), w_scale.to(_C.float32)
    left, right = dequantize_linear(x, x_scale, x_zero), dequantize_linear(weight, w_scale, w_zero, axis=0)
    shift = None if bias is None else bias.to(_C.float32) * (x_scale * w_scale).reshape(-1)
    options = dict(auto_pad=auto_pad, dilations=dilations, group=group, pads=pads, strides=strides)
    return quantized(conv(left, right, shift, **options), y_scale, y_zero, y_zero.dtype, 1)
