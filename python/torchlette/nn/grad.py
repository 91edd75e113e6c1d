"""Gradients of convolutions as functions: of the input or the weight, from the result's gradient, as ``torch.nn.grad``.

Each function records the convolution of a tensor of zeros and asks autograd for its gradient: a convolution is linear
in either operand, so that the operand's values do not matter. The results are differentiable in their own operands.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from torchlette import _C, autograd
from torchlette.nn import functional

__all__ = ["conv1d_input", "conv1d_weight", "conv2d_input", "conv2d_weight", "conv3d_input", "conv3d_weight"]

Tensor = _C.Tensor
Sizes = int | Sequence[int]


class _OfInput(Protocol):
    def __call__(
        self,
        input_size: Sequence[int],
        weight: Tensor,
        grad_output: Tensor,
        stride: Sizes = 1,
        padding: Sizes = 0,
        dilation: Sizes = 1,
        groups: int = 1,
    ) -> Tensor: ...


class _OfWeight(Protocol):
    def __call__(
        self,
        input: Tensor,
        weight_size: Sequence[int],
        grad_output: Tensor,
        stride: Sizes = 1,
        padding: Sizes = 0,
        dilation: Sizes = 1,
        groups: int = 1,
    ) -> Tensor: ...


def _gradient(convolve: Any, size: Sequence[int], like: Tensor, grad_output: Tensor) -> Tensor:
    """Return the gradient of ``convolve`` by its operand of shape ``size``."""
    create_graph = _C.is_grad_enabled()
    with autograd.enable_grad():
        operand = _C.zeros(tuple(size), dtype=like.dtype, device=like.device, requires_grad=True)
        result = convolve(operand)
    if result.shape != grad_output.shape:
        raise RuntimeError(
            f"grad_output has shape {list(grad_output.shape)}, but the convolution's result {list(result.shape)}"
        )
    gradient = autograd.grad(result, operand, grad_output, create_graph=create_graph)[0]
    assert gradient is not None
    return gradient


def _of_input(dims: int) -> _OfInput:
    convolution = getattr(functional, f"conv{dims}d")

    def conv_input(
        input_size: Sequence[int],
        weight: Tensor,
        grad_output: Tensor,
        stride: Sizes = 1,
        padding: Sizes = 0,
        dilation: Sizes = 1,
        groups: int = 1,
    ) -> Tensor:
        """Return the gradient of a convolution by its input.

        Args:
            input_size: Shape of the input: (batch, channels, sizes...).
            weight: Filters, (channels of the result, channels / groups, sizes...).
            grad_output: Gradient of the result, of its shape.
            stride: Steps between windows, one for all dimensions or one for each.
            padding: Zeros on both sides.
            dilation: Steps between the elements of a window.
            groups: Number of groups of channels that are convolved on their own.
        """
        return _gradient(
            lambda x: convolution(x, weight, None, stride, padding, dilation, groups), input_size, weight, grad_output
        )

    conv_input.__name__ = conv_input.__qualname__ = f"conv{dims}d_input"
    return conv_input


def _of_weight(dims: int) -> _OfWeight:
    convolution = getattr(functional, f"conv{dims}d")

    def conv_weight(
        input: Tensor,
        weight_size: Sequence[int],
        grad_output: Tensor,
        stride: Sizes = 1,
        padding: Sizes = 0,
        dilation: Sizes = 1,
        groups: int = 1,
    ) -> Tensor:
        """Return the gradient of a convolution by its weight.

        Args:
            input: Values, (batch, channels, sizes...).
            weight_size: Shape of the weight: (channels of the result, channels / groups, sizes...).
            grad_output: Gradient of the result, of its shape.
            stride: Steps between windows, one for all dimensions or one for each.
            padding: Zeros on both sides.
            dilation: Steps between the elements of a window.
            groups: Number of groups of channels that are convolved on their own.
        """
        return _gradient(
            lambda w: convolution(input, w, None, stride, padding, dilation, groups), weight_size, input, grad_output
        )

    conv_weight.__name__ = conv_weight.__qualname__ = f"conv{dims}d_weight"
    return conv_weight


conv1d_input, conv2d_input, conv3d_input = (_of_input(dims) for dims in (1, 2, 3))
conv1d_weight, conv2d_weight, conv3d_weight = (_of_weight(dims) for dims in (1, 2, 3))
