"""Normalisation over the last dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torchlette import _C
from torchlette.nn import functional as F
from torchlette.nn import init
from torchlette.nn.modules.module import Module
from torchlette.nn.parameter import Parameter

__all__ = ["CrossMapLRN2d", "LayerNorm", "LocalResponseNorm", "RMSNorm"]


def _shape_tuple(shape: int | Sequence[int]) -> tuple[int, ...]:
    return (shape,) if isinstance(shape, int) else tuple(shape)


def register_affine(
    module: Module, shape: int | tuple[int, ...], weight: bool, bias: bool, device: Any, dtype: Any
) -> None:
    """Give a norm its weight and its bias, or ``None`` in their places."""
    for name, present in (("weight", weight), ("bias", weight and bias)):
        module.register_parameter(name, Parameter(_C.empty(shape, device=device, dtype=dtype)) if present else None)


def reset_affine(module: Module) -> None:
    """Set a norm's weight to one and its bias to zero, if present."""
    if module.weight is not None:
        init.ones_(module.weight)
    if module.bias is not None:
        init.zeros_(module.bias)


class LocalResponseNorm(Module):
    """Divide by a power of the mean square over neighbouring channels; see
    :func:`torchlette.nn.functional.local_response_norm`.

    Args:
        size: Channels in the mean.
        alpha: Factor of the mean.
        beta: The power.
        k: Added to the mean.
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        """Keep the options."""
        super().__init__()
        self.size, self.alpha, self.beta, self.k = size, alpha, beta, k

    def forward(self, input: _C.Tensor) -> _C.Tensor:
        """Normalise ``input``."""
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        """Show the options."""
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


class CrossMapLRN2d(LocalResponseNorm):
    """:class:`LocalResponseNorm` for images, under its old name.

    Args:
        size: The number of channels in a window.
        alpha: The factor of the mean of squares.
        beta: The power.
        k: Added to the mean of squares.
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1) -> None:
        """Keep the options."""
        super().__init__(size, alpha, beta, k)


class LayerNorm(Module):
    """Subtract the mean and divide by the standard deviation, then scale and shift.

    Args:
        normalized_shape: Sizes of the last dimensions, over which the statistics go.
        eps: Added to the variance.
        elementwise_affine: Whether there is a weight.
        bias: Whether there is a bias beside the weight.
        device: Device of the parameters.
        dtype: Dtype of the parameters.
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        """Make and initialise the parameters."""
        super().__init__()
        self.normalized_shape = _shape_tuple(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        register_affine(self, self.normalized_shape, elementwise_affine, bias, device, dtype)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the weight to one and the bias to zero."""
        reset_affine(self)

    def forward(self, input: _C.Tensor) -> _C.Tensor:
        """Normalise ``input``."""
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """Show the options."""
        return (
            f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}, "
            f"bias={self.bias is not None}"
        )


class RMSNorm(Module):
    """Divide by the root of the mean square, then scale.

    Args:
        normalized_shape: Sizes of the last dimensions, over which the mean goes.
        eps: Added to the mean square; ``None`` means the dtype's epsilon.
        elementwise_affine: Whether there is a weight.
        device: Device of the weight.
        dtype: Dtype of the weight.
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        """Make and initialise the weight."""
        super().__init__()
        self.normalized_shape = _shape_tuple(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        value = Parameter(_C.empty(self.normalized_shape, device=device, dtype=dtype)) if elementwise_affine else None
        self.register_parameter("weight", value)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the weight to one."""
        if self.weight is not None:
            init.ones_(self.weight)

    def forward(self, x: _C.Tensor) -> _C.Tensor:
        """Normalise ``x``."""
        return F.rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        """Show the options."""
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"
