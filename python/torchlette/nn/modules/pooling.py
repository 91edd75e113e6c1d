"""Pools: the largest element or the mean of windows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torchlette import _C
from torchlette.nn import functional as F
from torchlette.nn.functional.conv_pool import as_tuple
from torchlette.nn.modules.module import Module

_KINDS = ("MaxPool", "MaxUnpool", "AvgPool", "LPPool", "AdaptiveAvgPool", "AdaptiveMaxPool")
__all__ = [  # noqa: PLE0605
    *(f"{kind}{d}d" for kind in _KINDS for d in (1, 2, 3)),
    "FractionalMaxPool2d",
    "FractionalMaxPool3d",
]


class _MaxPoolNd(Module):
    """The largest element of each window.

    Args:
        kernel_size: Size of the window, one for all dims or one a dim, as all sizes here.
        stride: Step of the window; the kernel's size if None.
        padding: Elements of minus infinity on each side.
        dilation: Distance of the window's elements.
        return_indices: Whether to return the indices of the elements too.
        ceil_mode: Whether the last window may reach beyond the input.
    """

    _function: Callable[..., Any]

    def __init__(
        self,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] | None = None,
        padding: int | Sequence[int] = 0,
        dilation: int | Sequence[int] = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        """Keep the geometry."""
        super().__init__()
        self.kernel_size, self.stride = kernel_size, kernel_size if stride is None else stride
        self.padding, self.dilation, self.return_indices, self.ceil_mode = padding, dilation, return_indices, ceil_mode

    def forward(self, input: _C.Tensor) -> Any:
        """Return the pool of ``input``."""
        return self._function(
            input, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode, self.return_indices
        )

    def extra_repr(self) -> str:
        """Show the geometry."""
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, "
            f"dilation={self.dilation}, ceil_mode={self.ceil_mode}"
        )


class MaxPool1d(_MaxPoolNd):
    __doc__ = _MaxPoolNd.__doc__
    _function = staticmethod(F.max_pool1d)


class MaxPool2d(_MaxPoolNd):
    __doc__ = _MaxPoolNd.__doc__
    _function = staticmethod(F.max_pool2d)


class MaxPool3d(_MaxPoolNd):
    __doc__ = _MaxPoolNd.__doc__
    _function = staticmethod(F.max_pool3d)


class _MaxUnpool(Module):
    """The partial inverse of a max pool: the largest elements at their places, zeros elsewhere.

    Args:
        kernel_size: Size of the pool's window.
        stride: Step of the window; the kernel's size if None.
        padding: Padding of the pool.
    """

    _dims: int
    _function: Callable[..., _C.Tensor]

    def __init__(
        self,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] | None = None,
        padding: int | Sequence[int] = 0,
    ) -> None:
        """Keep the geometry."""
        super().__init__()
        n = self._dims
        self.kernel_size, self.padding = as_tuple(kernel_size, n), as_tuple(padding, n)
        self.stride = self.kernel_size if stride is None else as_tuple(stride, n)

    def forward(self, input: _C.Tensor, indices: _C.Tensor, output_size: Sequence[int] | None = None) -> _C.Tensor:
        """Return zeros with ``input`` at ``indices``."""
        return self._function(input, indices, self.kernel_size, self.stride, self.padding, output_size)

    def extra_repr(self) -> str:
        """Show the geometry."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxUnpool1d(_MaxUnpool):
    __doc__ = _MaxUnpool.__doc__
    _dims = 1
    _function = staticmethod(F.max_unpool1d)


class MaxUnpool2d(_MaxUnpool):
    __doc__ = _MaxUnpool.__doc__
    _dims = 2
    _function = staticmethod(F.max_unpool2d)


class MaxUnpool3d(_MaxUnpool):
    __doc__ = _MaxUnpool.__doc__
    _dims = 3
    _function = staticmethod(F.max_unpool3d)


class _LPPool(Module):
    """The root of the sum of powers of each window.

    Args:
        norm_type: The power.
        kernel_size: Size of the window.
        stride: Step of the window; the kernel's size if None.
        ceil_mode: Whether the last window may reach beyond the input.
    """

    _function: Callable[..., _C.Tensor]

    def __init__(
        self,
        norm_type: float,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] | None = None,
        ceil_mode: bool = False,
    ) -> None:
        """Keep the geometry."""
        super().__init__()
        self.norm_type, self.kernel_size, self.stride, self.ceil_mode = norm_type, kernel_size, stride, ceil_mode

    def forward(self, input: _C.Tensor) -> _C.Tensor:
        """Return the pool of ``input``."""
        return self._function(input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)

    def extra_repr(self) -> str:
        """Show the geometry."""
        return (
            f"norm_type={self.norm_type}, kernel_size={self.kernel_size}, stride={self.stride}, "
            f"ceil_mode={self.ceil_mode}"
        )


class LPPool1d(_LPPool):
    __doc__ = _LPPool.__doc__
    _function = staticmethod(F.lp_pool1d)


class LPPool2d(_LPPool):
    __doc__ = _LPPool.__doc__
    _function = staticmethod(F.lp_pool2d)


class LPPool3d(_LPPool):
    __doc__ = _LPPool.__doc__
    _function = staticmethod(F.lp_pool3d)


class _FractionalMaxPool(Module):
    """The largest elements of windows at random distances (B. Graham, 2014).

    Args:
        kernel_size: Size of the windows.
        output_size: Size of the output.
        output_ratio: Instead of ``output_size``: its ratio to the input's size, between 0 and 1.
        return_indices: Whether to return the indices of the elements too.
        _random_samples: Used instead of random numbers.
    """

    _dims: int
    _function: Callable[..., Any]

    def __init__(
        self,
        kernel_size: int | Sequence[int],
        output_size: int | Sequence[int] | None = None,
        output_ratio: float | Sequence[float] | None = None,
        return_indices: bool = False,
        _random_samples: _C.Tensor | None = None,
    ) -> None:
        """Keep the geometry."""
        super().__init__()
        name = type(self).__name__
        if output_size is None and output_ratio is None:
            raise ValueError(f"{name} requires specifying either an output size, or a pooling ratio")
        if output_size is not None and output_ratio is not None:
            raise ValueError("only one of output_size and output_ratio may be specified")
        self.kernel_size, self.return_indices = as_tuple(kernel_size, self._dims), return_indices
        self.register_buffer("_random_samples", _random_samples)
        self.output_size = None if output_size is None else as_tuple(output_size, self._dims)
        self.output_ratio = None if output_ratio is None else as_tuple(output_ratio, self._dims)
        if self.output_ratio is not None and not all(0 < r < 1 for r in self.output_ratio):
            raise ValueError(f"output_ratio must be between 0 and 1 (got {output_ratio})")

    def forward(self, input: _C.Tensor) -> Any:
        """Return the pool of ``input``."""
        return self._function(
            input, self.kernel_size, self.output_size, self.output_ratio, self.return_indices, self._random_samples
        )


class FractionalMaxPool2d(_FractionalMaxPool):
    __doc__ = _FractionalMaxPool.__doc__
    _dims = 2
    _function = staticmethod(F.fractional_max_pool2d)


class FractionalMaxPool3d(_FractionalMaxPool):
    __doc__ = _FractionalMaxPool.__doc__
    _dims = 3
    _function = staticmethod(F.fractional_max_pool3d)


class AvgPool1d(Module):
    """The mean of each window; arguments as :class:`AvgPool2d`.

    Args:
        kernel_size: Sizes of a window, one for all dimensions or one for each.
        stride: Steps between windows; None: the window's sizes.
        padding: Places added on both sides, at most half a window.
        ceil_mode: Whether a last window may reach beyond the input.
        count_include_pad: Whether padding counts in the divisor.
    """

    def __init__(
        self,
        kernel_size: int,
        stride: int | None = None,
        padding: int = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        """Keep the geometry."""
        super().__init__()
        one = [
            v[0] if isinstance(v, Sequence) else v
            for v in (kernel_size, kernel_size if stride is None else stride, padding)
        ]
        self.kernel_size, self.stride, self.padding = ((v,) for v in one)
        self.ceil_mode, self.count_include_pad = ceil_mode, count_include_pad

    def forward(self, input: _C.Tensor) -> _C.Tensor:
        """Return the pool of ``input``."""
        return F.avg_pool1d(input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad)

    def extra_repr(self) -> str:
        """Show the geometry."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class _AvgPoolNd(Module):
    """The mean of each window.

    Args:
        kernel_size: Size of the window.
        stride: Step of the window; the kernel's size if None.
        padding: Zeros on each side.
        ceil_mode: Whether the last window may reach beyond the input.
        count_include_pad: Whether padding counts in the mean.
        divisor_override: The divisor of the sums, instead of the size of the window.
    """

    _function: Callable[..., Any]

    def __init__(
        self,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] | None = None,
        padding: int | Sequence[int] = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        """Keep the geometry."""
        super().__init__()
        self.kernel_size, self.stride = kernel_size, kernel_size if stride is None else stride
        self.padding, self.ceil_mode, self.count_include_pad, self.divisor_override = (
            padding,
            ceil_mode,
            count_include_pad,
            divisor_override,
        )

    def forward(self, input: _C.Tensor) -> _C.Tensor:
        """Return the pool of ``input``."""
        return self._function(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
            self.divisor_override,
        )

    def extra_repr(self) -> str:
        """Show the geometry."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool2d(_AvgPoolNd):
    __doc__ = _AvgPoolNd.__doc__
    _function = staticmethod(F.avg_pool2d)


class AvgPool3d(_AvgPoolNd):
    __doc__ = _AvgPoolNd.__doc__
    _function = staticmethod(F.avg_pool3d)


class _Adaptive(Module):
    _function: Callable[..., Any]

    def __init__(self, output_size: Any, return_indices: bool = False) -> None:
        super().__init__()
        self.output_size, self.return_indices = output_size, return_indices

    def forward(self, input: _C.Tensor) -> Any:
        """Return the pool of ``input``."""
        return (
            self._function(input, self.output_size, True)
            if self.return_indices
            else self._function(input, self.output_size)
        )

    def extra_repr(self) -> str:
        """Show the size."""
        return f"output_size={self.output_size}"


class _AdaptiveAvg(_Adaptive):
    """Means over windows placed so that the output has ``output_size``; ``None`` keeps a size."""

    def __init__(self, output_size: Any) -> None:
        """Keep the size."""
        super().__init__(output_size)


class _AdaptiveMax(_Adaptive):
    """Largest elements of windows placed so that the output has ``output_size``; ``None`` keeps a size."""


class AdaptiveAvgPool1d(_AdaptiveAvg):
    __doc__ = _AdaptiveAvg.__doc__
    _function = staticmethod(F.adaptive_avg_pool1d)


class AdaptiveAvgPool2d(_AdaptiveAvg):
    __doc__ = _AdaptiveAvg.__doc__
    _function = staticmethod(F.adaptive_avg_pool2d)


class AdaptiveAvgPool3d(_AdaptiveAvg):
    __doc__ = _AdaptiveAvg.__doc__
    _function = staticmethod(F.adaptive_avg_pool3d)


class AdaptiveMaxPool1d(_AdaptiveMax):
    __doc__ = _AdaptiveMax.__doc__
    _function = staticmethod(F.adaptive_max_pool1d)


class AdaptiveMaxPool2d(_AdaptiveMax):
    __doc__ = _AdaptiveMax.__doc__
    _function = staticmethod(F.adaptive_max_pool2d)


class AdaptiveMaxPool3d(_AdaptiveMax):
    __doc__ = _AdaptiveMax.__doc__
    _function = staticmethod(F.adaptive_max_pool3d)
