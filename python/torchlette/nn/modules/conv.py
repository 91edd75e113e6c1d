"""Convolutions, plain and transposed, in one to three dimensions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from torchlette import _C
from torchlette.nn import functional as F
from torchlette.nn import init
from torchlette.nn.functional.conv_pool import as_tuple
from torchlette.nn.modules.module import Module
from torchlette.nn.parameter import Parameter

__all__ = ["Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d", "Fold", "Unfold"]


class _ConvNd(Module):
    """Base of convolutions: the parameters, their initial values and the text."""

    _dims: int
    _function: Callable[..., _C.Tensor]
    _transposed = False

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int],
        padding: int | Sequence[int] | str,
        dilation: int | Sequence[int],
        output_padding: int | Sequence[int],
        groups: int,
        bias: bool,
        padding_mode: str,
        device: Any,
        dtype: Any,
    ) -> None:
        super().__init__()
        n = self._dims
        if groups <= 0:
            raise ValueError("groups must be a positive integer")
        if in_channels % groups:
            raise ValueError("in_channels must be divisible by groups")
        if out_channels % groups:
            raise ValueError("out_channels must be divisible by groups")
        if isinstance(padding, str) and padding not in ("same", "valid"):
            raise ValueError(f"Invalid padding string {padding!r}, should be one of {{'valid', 'same'}}")
        if padding == "same" and any(s != 1 for s in as_tuple(stride, n)):
            raise ValueError("padding='same' is not supported for strided convolutions")
        if padding_mode not in ("zeros", "reflect", "replicate", "circular"):
            raise ValueError(
                f"padding_mode must be one of {{'zeros', 'reflect', 'replicate', 'circular'}}, but got "
                f"padding_mode='{padding_mode}'"
            )
        self.in_channels, self.out_channels, self.groups, self.padding_mode = (
            in_channels,
            out_channels,
            groups,
            padding_mode,
        )
        self.kernel_size, self.stride, self.dilation = (
            as_tuple(kernel_size, n),
            as_tuple(stride, n),
            as_tuple(dilation, n),
        )
        self.padding = padding if isinstance(padding, str) else as_tuple(padding, n)
        self.output_padding, self.transposed = as_tuple(output_padding, n), self._transposed
        first, second = (in_channels, out_channels) if self._transposed else (out_channels, in_channels)
        self.weight = Parameter(_C.empty((first, second // groups, *self.kernel_size), device=device, dtype=dtype))
        self.register_parameter("bias", Parameter(_C.empty(out_channels, device=device, dtype=dtype)) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw weight and bias from U(-1/sqrt(fan_in), 1/sqrt(fan_in))."""
        # a = sqrt(5) makes the bound of kaiming_uniform_ 1 / sqrt(fan_in).
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in, _ = init._calculate_fan_in_and_fan_out(self.weight)
            if fan_in:
                init.uniform_(self.bias, -1 / math.sqrt(fan_in), 1 / math.sqrt(fan_in))

    def extra_repr(self) -> str:
        """Show the options that are not the default."""
        text = f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"
        zero, one = (0,) * self._dims, (1,) * self._dims
        if self.padding != zero:
            text += f", padding={self.padding}"
        if self.dilation != one:
            text += f", dilation={self.dilation}"
        if self.output_padding != zero:
            text += f", output_padding={self.output_padding}"
        if self.groups != 1:
            text += f", groups={self.groups}"
        if self.bias is None:
            text += ", bias=False"
        if self.padding_mode != "zeros":
            text += f", padding_mode={self.padding_mode}"
        return text


class _Plain(_ConvNd):
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] = 1,
        padding: int | Sequence[int] | str = 0,
        dilation: int | Sequence[int] = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        """Make and initialise the parameters."""
        super().__init__(
            in_channels,
            out_channels,
            kernel_size,
            stride,
            padding,
            dilation,
            0,
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def _around(self) -> list[int]:
        """Return the padding before and behind each dim, the last first, as ``pad`` takes it."""
        out = []
        for i in reversed(range(self._dims)):
            if self.padding == "same":
                total = self.dilation[i] * (self.kernel_size[i] - 1)
                out += [total // 2, total - total // 2]
            else:
                out += [0, 0] if self.padding == "valid" else [self.padding[i], self.padding[i]]
        return out

    def forward(self, input: _C.Tensor) -> _C.Tensor:
        """Return the convolution of ``input``, ``[N, C, ...]`` or ``[C, ...]``."""
        return self._conv_forward(input, self.weight, self.bias)

    def _conv_forward(self, input: _C.Tensor, weight: _C.Tensor, bias: _C.Tensor | None) -> _C.Tensor:
        """Return the convolution with the given weight, for subclasses that compute their weight."""
        padding = self.padding
        if self.padding_mode != "zeros":
            input, padding = F.pad(input, self._around(), self.padding_mode), 0
        return self._function(input, weight, bias, self.stride, padding, self.dilation, self.groups)


class Conv1d(_Plain):
    """Convolution over sequences ``[N, C, L]``; arguments as :class:`Conv2d`."""

    _dims = 1
    _function = staticmethod(_C.conv1d)


class Conv2d(_Plain):
    """Convolution over images ``[N, C, H, W]``.

    Args:
        in_channels: Channels of the input.
        out_channels: Channels of the output.
        kernel_size: Size of the window, one for all dims or one a dim, as all sizes here.
        stride: Step of the window.
        padding: Zeros on each side, ``"same"`` or ``"valid"``.
        dilation: Distance of the window's elements.
        groups: Groups of channels that do not mix.
        bias: Whether to add a bias.
        padding_mode: ``"zeros"``, ``"reflect"``, ``"replicate"`` or ``"circular"``.
        device: Device of the parameters.
        dtype: Dtype of the parameters.
    """

    _dims = 2
    _function = staticmethod(_C.conv2d)


class Conv3d(_Plain):
    """Convolution over volumes ``[N, C, D, H, W]``; arguments as :class:`Conv2d`."""

    _dims = 3
    _function = staticmethod(_C.conv3d)


class _ConvTransposeNd(_ConvNd):
    _transposed = True

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] = 1,
        padding: int | Sequence[int] = 0,
        output_padding: int | Sequence[int] = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: int | Sequence[int] = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        """Make and initialise the parameters."""
        if padding_mode != "zeros":
            raise ValueError(f'Only "zeros" padding mode is supported for {type(self).__name__}')
        super().__init__(
            in_channels,
            out_channels,
            kernel_size,
            stride,
            padding,
            dilation,
            output_padding,
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def _output_padding(self, input: _C.Tensor, output_size: Sequence[int] | None) -> tuple[int, ...]:
        """Return the output padding that gives ``output_size``."""
        if output_size is None:
            return self.output_padding
        wanted = list(output_size)[-self._dims :]
        if len(output_size) not in (self._dims, input.dim()):
            raise ValueError(
                f"{type(self).__name__}: for {input.dim()}D input, output_size must have {self._dims} or {input.dim()} "
                f"elements (got {len(output_size)})"
            )
        extra = []
        for i, n in enumerate(input.shape[-self._dims :]):
            least = (n - 1) * self.stride[i] - 2 * self.padding[i] + self.dilation[i] * (self.kernel_size[i] - 1) + 1
            if not least <= wanted[i] < least + self.stride[i]:
                raise ValueError(
                    f"requested an output size of {wanted}, but valid sizes of dim {i} range from {least} to "
                    f"{least + self.stride[i] - 1}"
                )
            extra.append(wanted[i] - least)
        return tuple(extra)

    def forward(self, input: _C.Tensor, output_size: Sequence[int] | None = None) -> _C.Tensor:
        """Return the transposed convolution of ``input``, ``[N, C, ...]`` or ``[C, ...]``."""
        extra = self._output_padding(input, output_size)
        return self._function(
            input, self.weight, self.bias, self.stride, self.padding, extra, self.groups, self.dilation
        )


class ConvTranspose1d(_ConvTransposeNd):
    """Transposed convolution over sequences; arguments as :class:`ConvTranspose2d`."""

    _dims = 1
    _function = staticmethod(_C.conv_transpose1d)


class ConvTranspose2d(_ConvTransposeNd):
    """Transposed convolution over images ``[N, C, H, W]``: the adjoint of :class:`Conv2d`.

    Args:
        in_channels: Channels of the input.
        out_channels: Channels of the output.
        kernel_size: Size of the window.
        stride: Distance in the output of neighbours in the input.
        padding: The padding of the convolution whose transpose this is.
        output_padding: Elements added to the output's size.
        groups: Groups of channels that do not mix.
        bias: Whether to add a bias.
        dilation: Distance of the window's elements.
        padding_mode: ``"zeros"``.
        device: Device of the parameters.
        dtype: Dtype of the parameters.
    """

    _dims = 2
    _function = staticmethod(_C.conv_transpose2d)


class ConvTranspose3d(_ConvTransposeNd):
    """Transposed convolution over volumes; arguments as :class:`ConvTranspose2d`."""

    _dims = 3
    _function = staticmethod(_C.conv_transpose3d)


class Unfold(Module):
    """Windows of images as columns; see :func:`torchlette.nn.functional.unfold`.

    Args:
        kernel_size: Sizes of a block, one for both dimensions or one for each.
        dilation: Steps between the elements of a block.
        padding: Zeros on both sides.
        stride: Steps between blocks.
    """

    def __init__(self, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> None:
        """Keep the geometry."""
        super().__init__()
        self.kernel_size, self.dilation, self.padding, self.stride = kernel_size, dilation, padding, stride

    def forward(self, input: _C.Tensor) -> _C.Tensor:
        """Return the columns of ``input``."""
        return F.unfold(input, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self) -> str:
        """Show the geometry."""
        return f"kernel_size={self.kernel_size}, dilation={self.dilation}, padding={self.padding}, stride={self.stride}"


class Fold(Module):
    """Images as the sum of windows; see :func:`torchlette.nn.functional.fold`.

    Args:
        output_size: Sizes of the image.
        kernel_size: Sizes of a block, one for both dimensions or one for each.
        dilation: Steps between the elements of a block.
        padding: Zeros on both sides.
        stride: Steps between blocks.
    """

    def __init__(
        self, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
    ) -> None:
        """Keep the geometry."""
        super().__init__()
        self.output_size, self.kernel_size, self.dilation, self.padding, self.stride = (
            output_size,
            kernel_size,
            dilation,
            padding,
            stride,
        )

    def forward(self, input: _C.Tensor) -> _C.Tensor:
        """Return the images of the columns ``input``."""
        return F.fold(input, self.output_size, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self) -> str:
        """Show the geometry."""
        return (
            f"output_size={self.output_size}, kernel_size={self.kernel_size}, dilation={self.dilation}, "
            f"padding={self.padding}, stride={self.stride}"
        )
