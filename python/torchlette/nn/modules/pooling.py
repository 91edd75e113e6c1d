"""Pools: the largest element or the mean of windows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torchlette import _C
from torchlette.nn import functional as F
from torchlette.nn.modules.module import Module

_KINDS = ("MaxPool", "AvgPool", "AdaptiveAvgPool", "AdaptiveMaxPool")
__all__ = [f"{kind}{d}d" for kind in _KINDS for d in (1, 2, 3)]  # noqa: PLE0605


class _MaxPool(Module):
    """The largest element of each window.

    Args:
        kernel_size: Size of the window, one for all dims or one a dim, as all sizes here.
        stride: Step of the window; the kernel's size if None.
        padding: Elements on each side that never win.
        dilation: Distance of the window's elements.
        return_indices: Whether to return where the elements are, too.
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
        return self._function(input, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode, self.return_indices)

    def extra_repr(self) -> str:
        """Show the geometry."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, dilation={self.dilation}, ceil_mode={self.ceil_mode}"


class MaxPool1d(_MaxPool):
    __doc__ = _MaxPool.__doc__
    _function = staticmethod(F.max_pool1d)


class MaxPool2d(_MaxPool):
    __doc__ = _MaxPool.__doc__
    _function = staticmethod(F.max_pool2d)


class MaxPool3d(_MaxPool):
    __doc__ = _MaxPool.__doc__
    _function = staticmethod(F.max_pool3d)


class AvgPool1d(Module):
    """The mean of each window; arguments as :class:`AvgPool2d`."""

    def __init__(self, kernel_size: int, stride: int | None = None, padding: int = 0, ceil_mode: bool = False, count_include_pad: bool = True) -> None:
        """Keep the geometry."""
        super().__init__()
        one = [v[0] if isinstance(v, Sequence) else v for v in (kernel_size, kernel_size if stride is None else stride, padding)]
        self.kernel_size, self.stride, self.padding = ((v,) for v in one)
        self.ceil_mode, self.count_include_pad = ceil_mode, count_include_pad

    def forward(self, input: _C.Tensor) -> _C.Tensor:
        """Return the pool of ``input``."""
        return F.avg_pool1d(input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad)

    def extra_repr(self) -> str:
        """Show the geometry."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class _AvgPool(Module):
    """The mean of each window.

    Args:
        kernel_size: Size of the window.
        stride: Step of the window; the kernel's size if None.
        padding: Zeros on each side.
        ceil_mode: Whether the last window may reach beyond the input.
        count_include_pad: Whether padding counts in the mean.
        divisor_override: What the sums are divided by instead.
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
        self.padding, self.ceil_mode, self.count_include_pad, self.divisor_override = padding, ceil_mode, count_include_pad, divisor_override

    def forward(self, input: _C.Tensor) -> _C.Tensor:
        """Return the pool of ``input``."""
        return self._function(input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad, self.divisor_override)

    def extra_repr(self) -> str:
        """Show the geometry."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool2d(_AvgPool):
    __doc__ = _AvgPool.__doc__
    _function = staticmethod(F.avg_pool2d)


class AvgPool3d(_AvgPool):
    __doc__ = _AvgPool.__doc__
    _function = staticmethod(F.avg_pool3d)


class _Adaptive(Module):
    _function: Callable[..., Any]

    def __init__(self, output_size: Any, return_indices: bool = False) -> None:
        super().__init__()
        self.output_size, self.return_indices = output_size, return_indices

    def forward(self, input: _C.Tensor) -> Any:
        """Return the pool of ``input``."""
        return self._function(input, self.output_size, True) if self.return_indices else self._function(input, self.output_size)

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
