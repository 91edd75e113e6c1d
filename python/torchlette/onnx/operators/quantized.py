"""Quantized models: numbers of 8 bits with a scale and a zero point."""

from __future__ import annotations

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
    y = x.to(_C.float32) if x.dtype is not _C.int32 else x.to(_C.float64)
    if zero is not None:
        y = y - _along(zero, x, axis, block_size).to(y.dtype)
    y = y * _along(scale, x, axis, block_size).to(y.dtype)
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


def _rows(zero: Tensor) -> Tensor:
    """Return the zero points of a matrix's rows as a column."""
    return zero.unsqueeze(-1) if zero.dim() else zero


def _whole_product(a: Tensor, b: Tensor, a_zero: Tensor | None, b_zero: Tensor | None) -> Tensor:
    """Return the exact product of whole numbers, as floats: sums of products of 9 bits fit in 53 bits."""
    left, right = a.to(_C.float64), b.to(_C.float64)
    if a_zero is not None:
        left = left - _rows(a_zero.to(_C.float64)) if a_zero.dim() else left - a_zero.to(_C.float64)
    if b_zero is not None:
        right = right - b_zero.to(_C.float64)
    return left @ right


@operator("MatMulInteger")
def matmul_integer(a: Tensor, b: Tensor, a_zero: Tensor | None = None, b_zero: Tensor | None = None) -> Tensor:
    """Multiply matrices of whole numbers; the sums are int32."""
    return _whole_product(a, b, a_zero, b_zero).to(_C.int32)


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
    total = _whole_product(a, b, a_zero, b_zero)
    left = _rows(a_scale) if a_scale.dim() else a_scale
    y = total * left.to(_C.float64) * b_scale.to(_C.float64) / y_scale.to(_C.float64)
    low, high = _LIMITS[y_zero.dtype]
    return (_C.round(y) + y_zero.to(_C.float64)).clamp(low, high).to(_C.int32).to(y_zero.dtype)


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
    return _whole_conv(x, weight, x_zero, w_zero, options).to(_C.int32)


def _whole_conv(x: Tensor, weight: Tensor, x_zero: Any, w_zero: Any, attributes: dict[str, Any]) -> Tensor:
    left, right = x.to(_C.float64), weight.to(_C.float64)
    if x_zero is not None:
        left = left - x_zero.to(_C.float64).reshape(())
    if w_zero is not None:
        right = right - _along(w_zero.to(_C.float64), weight, 0, 0)
    return conv(left, right, None, **attributes)


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
    options = dict(auto_pad=auto_pad, dilations=dilations, group=group, pads=pads, strides=strides)
    total = _whole_conv(x, weight, x_zero, w_zero, options)
    places = [-1] + [1] * (x.dim() - 2)
    if bias is not None:
        total = total + bias.to(_C.float64).reshape(places)
    channels = w_scale.to(_C.float64).reshape(places) if w_scale.numel() > 1 else w_scale.to(_C.float64).reshape(())
    y = total * (x_scale.to(_C.float64).reshape(()) * channels / y_scale.to(_C.float64).reshape(()))
    low, high = _LIMITS[y_zero.dtype]
    return (_C.round(y) + y_zero.to(_C.float64)).clamp(low, high).to(_C.int32).to(y_zero.dtype)
