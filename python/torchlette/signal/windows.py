"""Window functions, by the formulas of ``torch.signal.windows``.

Each function returns a tensor of shape [M]: the weight of each sample i = 0, ..., M - 1. The formulas below are those
of a symmetric window. With ``sym=False`` the window is periodic: the first ``M`` weights of the symmetric window of
``M + 1`` samples. A window of one sample has the weight 1.

All functions raise ValueError if ``M`` is negative, if ``dtype`` is neither float32 nor float64, or if ``layout`` is
not ``strided``.
Sources: Harris, On the use of windows for harmonic analysis with the discrete Fourier transform, 1978; for
:func:`kaiser`, Kaiser and Schafer, On the use of the I0-sinh window for spectrum analysis, 1980; for :func:`nuttall`,
Nuttall, Some windows with very good sidelobe behavior, 1981.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable
from typing import Any

from torchlette import _C
from torchlette._ops.memory_format import strided

__all__ = [
    "bartlett",
    "blackman",
    "cosine",
    "exponential",
    "gaussian",
    "general_cosine",
    "general_hamming",
    "hamming",
    "hann",
    "kaiser",
    "nuttall",
]

Tensor = _C.Tensor
_NUTTALL = (0.3635819, 0.4891775, 0.1365995, 0.0106411)


def _window(make: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Return the function with a check of its layout."""

    @functools.wraps(make)
    def checked(*args: Any, **kwargs: Any) -> Tensor:
        layout = kwargs.get("layout")
        if layout is not None and layout is not strided:
            raise ValueError(f"{make.__name__} is implemented for strided tensors only, got: {layout}")
        return make(*args, **kwargs)

    return checked


def _samples(name: str, M: int, start: float, step: float, dtype: Any, device: Any) -> Tensor:
    """Return ``start + step * i`` for each sample i, [M], after a check of ``M`` and ``dtype``."""
    if M < 0:
        raise ValueError(f"{name} requires non-negative window length, got M={M}")
    dtype = _C.get_default_dtype() if dtype is None else dtype
    if dtype not in (_C.float32, _C.float64):
        raise ValueError(f"{name} expects float32 or float64 dtypes, got: {dtype}")
    return _C.linspace(start, start + (M - 1) * step, M, dtype=dtype, device=device)


def _intervals(M: int, sym: bool) -> int:
    """Return the number of steps from the first sample of the symmetric window to its last one; at least 1."""
    return max(M - 1 if sym else M, 1)


def _finished(window: Tensor, requires_grad: bool) -> Tensor:
    """Return the window, which requires grad if it is to."""
    return window.requires_grad_() if requires_grad else window


@_window
def exponential(
    M: int,
    *,
    center: float | None = None,
    tau: float = 1.0,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return the exponential window ``exp(-|i - center| / tau)``, [M].

    Args:
        M: The number of samples.
        center: The sample with the greatest weight; None: the middle. A symmetric window takes no other.
        tau: The number of samples in which the weight falls to 1/e of the greatest; above 0.
        sym: True: a symmetric window, as filters use it. False: a periodic one, as spectral analysis uses it.
        dtype: float32 or float64; None: the default dtype.
        layout: None or ``strided``.
        device: Where the window is made; None: the default device.
        requires_grad: Whether the window requires grad.

    Raises:
        ValueError: If ``tau`` is not positive, or if a symmetric window is given a center.
    """
    if tau <= 0:
        raise ValueError(f"Tau must be positive, got: {tau} instead.")
    if sym and center is not None:
        raise ValueError("Center must be None for symmetric windows")
    middle = (M if not sym and M > 1 else M - 1) / 2 if center is None else center
    return _finished(_C.exp(-_C.abs(_samples("exponential", M, -middle / tau, 1 / tau, dtype, device))), requires_grad)


@_window
def cosine(
    M: int, *, sym: bool = True, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Return the cosine window ``sin(pi (i + 1/2) / M)``, [M].

    Args:
        M: The number of samples.
        sym: True: a symmetric window, as filters use it. False: a periodic one, as spectral analysis uses it.
        dtype: float32 or float64; None: the default dtype.
        layout: None or ``strided``.
        device: Where the window is made; None: the default device.
        requires_grad: Whether the window requires grad.
    """
    step = math.pi / (M + 1 if not sym and M > 1 else max(M, 1))
    return _finished(_C.sin(_samples("cosine", M, step / 2, step, dtype, device)), requires_grad)


@_window
def gaussian(
    M: int,
    *,
    std: float = 1.0,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return the Gaussian window ``exp(-(i - (M - 1) / 2)**2 / (2 std**2))``, [M].

    Args:
        M: The number of samples.
        std: The standard deviation in samples, above 0.
        sym: True: a symmetric window, as filters use it. False: a periodic one, as spectral analysis uses it.
        dtype: float32 or float64; None: the default dtype.
        layout: None or ``strided``.
        device: Where the window is made; None: the default device.
        requires_grad: Whether the window requires grad.

    Raises:
        ValueError: If ``std`` is not positive.
    """
    if std <= 0:
        raise ValueError(f"Standard deviation must be positive, got: {std} instead.")
    step = 1 / (std * math.sqrt(2))
    start = -(M if not sym and M > 1 else M - 1) / 2
    return _finished(_C.exp(-_C.square(_samples("gaussian", M, start * step, step, dtype, device))), requires_grad)


@_window
def kaiser(
    M: int,
    *,
    beta: float = 12.0,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return the Kaiser window ``i0(sqrt(beta**2 - k**2)) / i0(beta)``, [M], with k from -beta to beta.

    ``i0`` is the modified Bessel function of the first kind of order 0.

    Args:
        M: The number of samples.
        beta: The shape, at least 0. A greater beta gives lower side lobes and a wider main lobe.
        sym: True: a symmetric window, as filters use it. False: a periodic one, as spectral analysis uses it.
        dtype: float32 or float64; None: the default dtype.
        layout: None or ``strided``.
        device: Where the window is made; None: the default device.
        requires_grad: Whether the window requires grad.

    Raises:
        ValueError: If ``beta`` is negative.
    """
    if beta < 0:
        raise ValueError(f"beta must be non-negative, got: {beta} instead.")
    k = _samples("kaiser", M, -beta, 2 * beta / _intervals(M, sym), dtype, device)
    if M == 1:
        return _finished(_C.ones_like(k), requires_grad)
    bound = _C.full_like(k, beta)
    # At the ends the difference of squares is 0; rounding may make it negative.
    window = _C.i0(_C.sqrt(_C.clamp_min(bound * bound - k * k, 0.0))) / _C.i0(bound)
    return _finished(window, requires_grad)


@_window
def bartlett(
    M: int, *, sym: bool = True, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Return the Bartlett window ``1 - |k|``, [M], with k from -1 to 1.

    Args:
        M: The number of samples.
        sym: True: a symmetric window, as filters use it. False: a periodic one, as spectral analysis uses it.
        dtype: float32 or float64; None: the default dtype.
        layout: None or ``strided``.
        device: Where the window is made; None: the default device.
        requires_grad: Whether the window requires grad.
    """
    k = _samples("bartlett", M, -1.0, 2 / _intervals(M, sym), dtype, device)
    return _finished(_C.ones_like(k) if M == 1 else 1 - _C.abs(k), requires_grad)


@_window
def general_cosine(
    M: int,
    *,
    a: Iterable[float],
    sym: bool = True,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return the sum of cosines ``a[0] - a[1] cos(k) + a[2] cos(2k) - ...``, [M], with k from 0 to 2 pi.

    Args:
        M: The number of samples.
        a: The coefficients, at least one.
        sym: True: a symmetric window, as filters use it. False: a periodic one, as spectral analysis uses it.
        dtype: float32 or float64; None: the default dtype.
        layout: None or ``strided``.
        device: Where the window is made; None: the default device.
        requires_grad: Whether the window requires grad.

    Raises:
        TypeError: If ``a`` is not iterable.
        ValueError: If ``a`` is empty.
    """
    if not isinstance(a, Iterable):
        raise TypeError("Coefficients must be a list/tuple")
    weights = list(a)
    if not weights:
        raise ValueError("Coefficients cannot be empty")
    k = _samples("general_cosine", M, 0.0, 2 * math.pi / _intervals(M, sym), dtype, device)
    if M == 1:
        return _finished(_C.ones_like(k), requires_grad)
    window = _C.full_like(k, weights[0])
    for i, w in enumerate(weights[1:], 1):
        window = window + _C.cos(k * i) * (-w if i % 2 else w)
    return _finished(window, requires_grad)


@_window
def general_hamming(
    M: int,
    *,
    alpha: float = 0.54,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return the general Hamming window ``alpha - (1 - alpha) cos(k)``, [M], with k from 0 to 2 pi.

    Args:
        M: The number of samples.
        alpha: The first coefficient; the second is ``1 - alpha``.
        sym: True: a symmetric window, as filters use it. False: a periodic one, as spectral analysis uses it.
        dtype: float32 or float64; None: the default dtype.
        layout: None or ``strided``.
        device: Where the window is made; None: the default device.
        requires_grad: Whether the window requires grad.
    """
    return general_cosine(M, a=(alpha, 1.0 - alpha), sym=sym, dtype=dtype, device=device, requires_grad=requires_grad)


@_window
def hamming(
    M: int, *, sym: bool = True, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Return the Hamming window ``0.54 - 0.46 cos(k)``, [M], with k from 0 to 2 pi.

    Args:
        M: The number of samples.
        sym: True: a symmetric window, as filters use it. False: a periodic one, as spectral analysis uses it.
        dtype: float32 or float64; None: the default dtype.
        layout: None or ``strided``.
        device: Where the window is made; None: the default device.
        requires_grad: Whether the window requires grad.
    """
    return general_hamming(M, sym=sym, dtype=dtype, device=device, requires_grad=requires_grad)


@_window
def hann(
    M: int, *, sym: bool = True, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Return the Hann window ``(1 - cos(k)) / 2``, [M], with k from 0 to 2 pi.

    Args:
        M: The number of samples.
        sym: True: a symmetric window, as filters use it. False: a periodic one, as spectral analysis uses it.
        dtype: float32 or float64; None: the default dtype.
        layout: None or ``strided``.
        device: Where the window is made; None: the default device.
        requires_grad: Whether the window requires grad.
    """
    return general_hamming(M, alpha=0.5, sym=sym, dtype=dtype, device=device, requires_grad=requires_grad)


@_window
def blackman(
    M: int, *, sym: bool = True, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Return the Blackman window ``0.42 - 0.5 cos(k) + 0.08 cos(2k)``, [M], with k from 0 to 2 pi.

    Args:
        M: The number of samples.
        sym: True: a symmetric window, as filters use it. False: a periodic one, as spectral analysis uses it.
        dtype: float32 or float64; None: the default dtype.
        layout: None or ``strided``.
        device: Where the window is made; None: the default device.
        requires_grad: Whether the window requires grad.
    """
    return general_cosine(M, a=(0.42, 0.5, 0.08), sym=sym, dtype=dtype, device=device, requires_grad=requires_grad)


@_window
def nuttall(
    M: int, *, sym: bool = True, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Return Nuttall's minimum four-term window, [M]: :func:`general_cosine` with fixed coefficients.

    Args:
        M: The number of samples.
        sym: True: a symmetric window, as filters use it. False: a periodic one, as spectral analysis uses it.
        dtype: float32 or float64; None: the default dtype.
        layout: None or ``strided``.
        device: Where the window is made; None: the default device.
        requires_grad: Whether the window requires grad.
    """
    return general_cosine(M, a=_NUTTALL, sym=sym, dtype=dtype, device=device, requires_grad=requires_grad)
