"""Folding a batch norm into the layer before it, for evaluation."""

from __future__ import annotations

import copy
from typing import Any

from torchlette import _C
from torchlette.nn.parameter import Parameter

__all__ = ["fuse_conv_bn_eval", "fuse_conv_bn_weights", "fuse_linear_bn_eval", "fuse_linear_bn_weights"]

Tensor = _C.Tensor


def _folded(weight: Tensor, bias: Tensor | None, norm: tuple[Any, ...], axis: int) -> tuple[Parameter, Parameter]:
    """Return weight and bias of one layer equal to a layer and its norm; ``axis`` is the dim of output channels."""
    mean, variance, eps, scale, shift = norm
    bias = _C.zeros_like(mean) if bias is None else bias
    scale = _C.ones_like(mean) if scale is None else scale
    shift = _C.zeros_like(mean) if shift is None else shift
    factor = scale * (variance + eps).rsqrt()
    shape = [-1 if d == axis else 1 for d in range(weight.dim())]
    fused = (weight * factor.reshape(shape)).to(weight.dtype), ((bias - mean) * factor + shift).to(bias.dtype)
    return Parameter(fused[0], weight.requires_grad), Parameter(fused[1], bias.requires_grad)


def fuse_conv_bn_weights(
    conv_w: Tensor,
    conv_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
    transpose: bool = False,
) -> tuple[Parameter, Parameter]:
    """Return weight and bias of a convolution with the batch norm behind it folded in.

    Args:
        conv_w: Weight of the convolution.
        conv_b: Its bias; None for none.
        bn_rm: Running mean of the norm.
        bn_rv: Running variance of the norm.
        bn_eps: Added to the variance.
        bn_w: Weight of the norm; None: ones.
        bn_b: Bias of the norm; None: zeros.
        transpose: Whether the convolution is transposed.
    """
    return _folded(conv_w, conv_b, (bn_rm, bn_rv, bn_eps, bn_w, bn_b), 1 if transpose else 0)


def fuse_linear_bn_weights(
    linear_w: Tensor, linear_b: Tensor | None, bn_rm: Tensor, bn_rv: Tensor, bn_eps: float, bn_w: Tensor, bn_b: Tensor
) -> tuple[Parameter, Parameter]:
    """Return weight and bias of a linear layer with the batch norm behind it folded in.

    Args:
        linear_w: Weight of the layer, [out, in].
        linear_b: Its bias; None for none.
        bn_rm: Running mean of the norm.
        bn_rv: Running variance of the norm.
        bn_eps: Added to the variance.
        bn_w: Weight of the norm; None: ones.
        bn_b: Bias of the norm; None: zeros.
    """
    return _folded(linear_w, linear_b, (bn_rm, bn_rv, bn_eps, bn_w, bn_b), 0)


def _fused(layer: Any, bn: Any, axis: int) -> Any:
    if layer.training or bn.training:
        raise AssertionError("Fusion only for eval!")
    if bn.running_mean is None or bn.running_var is None:
        raise AssertionError("bn.running_mean and bn.running_var must not be None")
    fused = copy.deepcopy(layer)
    fused.weight, fused.bias = _folded(
        fused.weight, fused.bias, (bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias), axis
    )
    return fused


def fuse_conv_bn_eval(conv: Any, bn: Any, transpose: bool = False) -> Any:
    """Return a copy of ``conv`` that does what ``bn(conv(x))`` does; both must be in evaluation mode.

    Args:
        conv: A convolution, in eval mode.
        bn: The batch norm behind it, in eval mode.
        transpose: Whether the convolution is transposed.
    """
    return _fused(conv, bn, 1 if transpose else 0)


def fuse_linear_bn_eval(linear: Any, bn: Any) -> Any:
    """Return a copy of ``linear`` that does what ``bn(linear(x))`` does; both must be in evaluation mode."""
    if linear.out_features != bn.num_features and bn.num_features != 1:
        raise AssertionError("To fuse, linear.out_features == bn.num_features or bn.num_features == 1")
    return _fused(linear, bn, 0)
