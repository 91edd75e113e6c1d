"""The array API's extension ``fft``: Fourier transforms along one axis or several."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torchlette.array_api._dtypes import Array, Device, DType, torch

_ONE = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
_SEVERAL = ("fftn", "ifftn", "rfftn", "irfftn")

__all__ = [*_ONE, *_SEVERAL, "fftfreq", "fftshift", "ifftshift", "rfftfreq"]


def _along_one(name: str) -> Callable[..., Array]:
    kernel = getattr(torch.fft, name)

    def f(x: Array, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Array:
        return kernel(x, n=n, dim=axis, norm=norm)

    f.__name__ = f.__qualname__ = name
    f.__doc__ = f"""Return ``torch.fft.{name}`` along an axis.

    Args:
        x: The array.
        n: The length that the axis is padded or cut to; None: its own.
        axis: The axis; one counted from the back is negative.
        norm: "backward", "ortho" or "forward".
    """
    return f


def _along_several(name: str) -> Callable[..., Array]:
    kernel = getattr(torch.fft, name)

    def f(
        x: Array, /, *, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str = "backward"
    ) -> Array:
        return kernel(x, s=s, dim=axes, norm=norm)

    f.__name__ = f.__qualname__ = name
    f.__doc__ = f"""Return ``torch.fft.{name}`` along axes.

    Args:
        x: The array.
        s: The lengths that the axes are padded or cut to; None: their own.
        axes: The axes; None: the last ones for which ``s`` has lengths, or all.
        norm: "backward", "ortho" or "forward".
    """
    return f


globals().update({name: _along_one(name) for name in _ONE})
globals().update({name: _along_several(name) for name in _SEVERAL})


def fftfreq(n: int, /, *, d: float = 1.0, dtype: DType | None = None, device: Device | None = None) -> Array:
    """Return the frequencies of a transform of ``n`` samples at a distance of ``d``.

    Args:
        n: The number of samples.
        d: Their distance.
        dtype: The dtype of the result; None: the default.
        device: Where the result is; None: the default device.
    """
    return torch.fft.fftfreq(n, d, dtype=dtype, device=device)


def rfftfreq(n: int, /, *, d: float = 1.0, dtype: DType | None = None, device: Device | None = None) -> Array:
    """Return the frequencies of a transform of ``n`` real samples at a distance of ``d``.

    Args:
        n: The number of samples.
        d: Their distance.
        dtype: The dtype of the result; None: the default.
        device: Where the result is; None: the default device.
    """
    return torch.fft.rfftfreq(n, d, dtype=dtype, device=device)


def fftshift(x: Array, /, *, axes: int | Sequence[int] | None = None) -> Array:
    """Return ``x`` with frequency 0 moved to the middle of axes, all where it is None."""
    return torch.fft.fftshift(x, axes)


def ifftshift(x: Array, /, *, axes: int | Sequence[int] | None = None) -> Array:
    """Return ``x`` with frequency 0 moved back to the front of axes."""
    return torch.fft.ifftshift(x, axes)
