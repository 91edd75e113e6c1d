"""The window functions of the ``torch`` namespace: :mod:`torchlette.signal.windows` under older names and arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torchlette import _C

__all__ = ["bartlett_window", "blackman_window", "hamming_window", "hann_window", "kaiser_window"]

Tensor = _C.Tensor


def _window(name: str, length: int, periodic: bool, options: dict[str, Any], **shape: Any) -> Tensor:
    """Return the window of that name in ``torchlette.signal.windows``."""
    from torchlette.signal import windows

    if length < 0:
        raise RuntimeError(f"{name}_window requires non-negative window_length, got window_length={length}")
    options.pop("pin_memory", None)
    f: Callable[..., Tensor] = getattr(windows, name)
    dtype = options.pop("dtype", None) or _C.get_default_dtype()
    if not dtype.is_floating_point:
        raise RuntimeError(f"{name}_window expects floating point dtypes, got: {dtype}")
    if dtype.itemsize >= 4:
        return f(length, sym=not periodic, dtype=dtype, **shape, **options)
    window = f(length, sym=not periodic, dtype=_C.float32, **shape, **{**options, "requires_grad": False}).to(dtype)
    return window.requires_grad_(options.get("requires_grad", False))


def bartlett_window(window_length: int, periodic: bool = True, **options: Any) -> Tensor:
    """Return :func:`torchlette.signal.windows.bartlett`; options are dtype, layout, device, requires_grad."""
    return _window("bartlett", window_length, periodic, options)


def blackman_window(window_length: int, periodic: bool = True, **options: Any) -> Tensor:
    """Return :func:`torchlette.signal.windows.blackman`; options are dtype, layout, device, requires_grad."""
    return _window("blackman", window_length, periodic, options)


def hann_window(window_length: int, periodic: bool = True, **options: Any) -> Tensor:
    """Return :func:`torchlette.signal.windows.hann`; options are dtype, layout, device, requires_grad."""
    return _window("hann", window_length, periodic, options)


def hamming_window(
    window_length: int, periodic: bool = True, alpha: float = 0.54, beta: float = 0.46, **options: Any
) -> Tensor:
    """Return ``alpha - beta cos(k)``, ``k`` from 0 to 2 pi; options are dtype, layout, device, requires_grad.

    Args:
        window_length: The number of points.
        periodic: Whether the window is periodic, for spectra; otherwise symmetric, for filters.
        alpha: The first coefficient.
        beta: The second coefficient.
    """
    return _window("general_cosine", window_length, periodic, options, a=(alpha, beta))


def kaiser_window(window_length: int, periodic: bool = True, beta: float = 12.0, **options: Any) -> Tensor:
    """Return :func:`torchlette.signal.windows.kaiser`; options are dtype, layout, device, requires_grad.

    Args:
        window_length: The number of points.
        periodic: Whether the window is periodic, for spectra; otherwise symmetric, for filters.
        beta: The shape: greater is narrower in frequency.
    """
    return _window("kaiser", window_length, periodic, options, beta=beta)
