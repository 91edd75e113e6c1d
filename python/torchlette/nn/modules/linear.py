"""Linear and identity layers."""

from __future__ import annotations

import math
from typing import Any

from torchlette import _C
from torchlette.nn import functional as F
from torchlette.nn import init
from torchlette.nn.modules.module import Module
from torchlette.nn.parameter import Parameter

__all__ = ["Bilinear", "Identity", "Linear", "NonDynamicallyQuantizableLinear"]


class Identity(Module):
    """Return the input; arguments of the constructor are ignored."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Accept and ignore any arguments."""
        super().__init__()

    def forward(self, input: _C.Tensor) -> _C.Tensor:
        """Return ``input``."""
        return input


class Linear(Module):
    """Apply ``y = x W^T + b``.

    Args:
        in_features: Size of the last dimension of the input.
        out_features: Size of the last dimension of the output.
        bias: Whether to add a bias.
        device: Device of the parameters.
        dtype: Dtype of the parameters.
    """

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        """Make and initialise the parameters."""
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        self.weight = Parameter(_C.empty((out_features, in_features), device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(_C.empty(out_features, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw weight and bias from U(-1/sqrt(in_features), 1/sqrt(in_features))."""
        # a = sqrt(5) makes the bound of kaiming_uniform_ sqrt(6 / (6 fan_in)) = 1 / sqrt(fan_in).
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            bound = 1 / math.sqrt(self.in_features) if self.in_features > 0 else 0
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input: _C.Tensor) -> _C.Tensor:
        """Return ``input @ weight.T + bias``."""
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        """Show the sizes."""
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


class Bilinear(Module):
    """Apply ``y_k = x1^T W_k x2 + b_k``.

    Args:
        in1_features: Size of the last dimension of the first input.
        in2_features: Size of the last dimension of the second input.
        out_features: Size of the last dimension of the output.
        bias: Whether to add a bias.
        device: Device of the parameters.
        dtype: Dtype of the parameters.
    """

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        """Make and initialise the parameters."""
        super().__init__()
        if in1_features <= 0:
            raise ValueError(f"in1_features must be > 0, but got {in1_features}")
        self.in1_features = in1_features
        self.in2_features = in2_features
        self.out_features = out_features
        self.weight = Parameter(_C.empty((out_features, in1_features, in2_features), device=device, dtype=dtype))
        self.register_parameter("bias", Parameter(_C.empty(out_features, device=device, dtype=dtype)) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw weight and bias from U(-1/sqrt(in1_features), 1/sqrt(in1_features))."""
        bound = 1 / math.sqrt(self.in1_features)
        for p in self.parameters():
            init.uniform_(p, -bound, bound)

    def forward(self, input1: _C.Tensor, input2: _C.Tensor) -> _C.Tensor:
        """Return the forms of both inputs."""
        return F.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        """Show the sizes."""
        sizes = f"in1_features={self.in1_features}, in2_features={self.in2_features}, out_features={self.out_features}"
        return f"{sizes}, bias={self.bias is not None}"


class NonDynamicallyQuantizableLinear(Linear):
    """The output projection of :class:`MultiheadAttention`, under PyTorch's class name, which ``repr`` shows."""
