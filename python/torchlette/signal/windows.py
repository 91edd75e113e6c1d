"""Window functions, by the formulas of ``torch.signal.windows``.

Each returns ``M`` weights. ``sym=False`` gives the periodic window: the first ``M`` of ``M + 1`` symmetric weights.
All raise ValueError for a negative ``M`` and for a dtype that is neither float32 nor float64.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from torchlette import _C

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


def _samples(name: str, M: int, start: float, step: float, dtype: Any, device: Any) -> Tensor:
    """Return ``start + step * i`` for ``i`` below ``M``."""
    if M < 0:
        raise ValueError(f"{name} requires non-negative window length, got M={M}")
    dtype = _C.get_default_dtype() if dtype is None else dtype
    if dtype not in (_C.float32, _C.float64):
        raise ValueError(f"{name} expects float32 or float64 dtypes, got: {dtype}")
    return _C.linspace(start, start + (M - 1) * step, M, dtype=dtype, device=device)


def _intervals(M: int, sym: bool) -> int:
    """Return the number of steps from one end of the window to the other; at least 1."""
    return max(M - 1 if sym else M, 1)


def _finished(window: Tensor, requires_grad: bool) -> Tensor:
    return window.requires_grad_() if requires_grad else window


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
    """Return ``exp(-|i - center| / tau)``; the center is the middle unless given, which ``sym`` forbids.

    Args:
        M: The number of points.
        center: The place of the greatest value; None: the middle.
        tau: How slowly it decays.
        sym: Whether the window is symmetric, for filters; otherwise periodic, for spectra.
        dtype: A floating point dtype; None: the default one.
        layout: ``torchlette.strided``: there is no other.
        device: Where tensors are made; None: the default device.
        requires_grad: Whether the result requires grad.
    """
    if tau <= 0:
        raise ValueError(f"Tau must be positive, got: {tau} instead.")
    if sym and center is not None:
        raise ValueError("Center must be None for symmetric windows")
    middle = (M if not sym and M > 1 else M - 1) / 2 if center is None else center
    return _finished(_C.exp(-_C.abs(_samples("exponential", M, -middle / tau, 1 / tau, dtype, device))), requires_grad)


def cosine(
    M: int, *, sym: bool = True, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Return ``sin(pi (i + 1/2) / M)``.

    Args:
        M: The number of points.
        sym: Whether the window is symmetric, for filters; otherwise periodic, for spectra.
        dtype: A floating point dtype; None: the default one.
        layout: ``torchlette.strided``: there is no other.
        device: Where tensors are made; None: the default device.
        requires_grad: Whether the result requires grad.
    """
    step = math.pi / (M + 1 if not sym and M > 1 else max(M, 1))
    return _finished(_C.sin(_samples("cosine", M, step / 2, step, dtype, device)), requires_grad)


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
    """Return ``exp(-(i - middle)**2 / (2 std**2))``.

    Args:
        M: The number of points.
        std: The standard deviation.
        sym: Whether the window is symmetric, for filters; otherwise periodic, for spectra.
        dtype: A floating point dtype; None: the default one.
        layout: ``torchlette.strided``: there is no other.
        device: Where tensors are made; None: the default device.
        requires_grad: Whether the result requires grad.
    """
    if std <= 0:
        raise ValueError(f"Standard deviation must be positive, got: {std} instead.")
    step = 1 / (std * math.sqrt(2))
    start = -(M if not sym and M > 1 else M - 1) / 2
    return _finished(_C.exp(-_C.square(_samples("gaussian", M, start * step, step, dtype, device))), requires_grad)


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
    """Return ``i0(sqrt(beta**2 - k**2)) / i0(beta)`` with ``k`` from ``-beta`` to ``beta``.

    Args:
        M: The number of points.
        beta: The shape: greater is narrower in frequency.
        sym: Whether the window is symmetric, for filters; otherwise periodic, for spectra.
        dtype: A floating point dtype; None: the default one.
        layout: ``torchlette.strided``: there is no other.
        device: Where tensors are made; None: the default device.
        requires_grad: Whether the result requires grad.
    """
    if beta < 0:
        raise ValueError(f"beta must be non-negative, got: {beta} instead.")
    k = _samples("kaiser", M, -beta, 2 * beta / _intervals(M, sym), dtype, device)
    if M == 1:
        return _finished(_C.ones_like(k), requires_grad)
    bound = _C.full_like(k, beta)
    # The square is 0 at the ends, but for rounding.
    window = _C.i0(_C.sqrt(_C.clamp_min(bound * bound - k * k, 0.0))) / _C.i0(bound)
    return _finished(window, requires_grad)


def bartlett(
    M: int, *, sym: bool = True, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Return ``1 - |k|`` with ``k`` from -1 to 1.

    Args:
        M: The number of points.
        sym: Whether the window is symmetric, for filters; otherwise periodic, for spectra.
        dtype: A floating point dtype; None: the default one.
        layout: ``torchlette.strided``: there is no other.
        device: Where tensors are made; None: the default device.
        requires_grad: Whether the result requires grad.
    """
    k = _samples("bartlett", M, -1.0, 2 / _intervals(M, sym), dtype, device)
    return _finished(_C.ones_like(k) if M == 1 else 1 - _C.abs(k), requires_grad)


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
    """Return ``a[0] - a[1] cos(k) + a[2] cos(2k) - ...`` with ``k`` from 0 to 2 pi.

    Args:
        M: The number of points.
        a: The coefficients.
        sym: Whether the window is symmetric, for filters; otherwise periodic, for spectra.
        dtype: A floating point dtype; None: the default one.
        layout: ``torchlette.strided``: there is no other.
        device: Where tensors are made; None: the default device.
        requires_grad: Whether the result requires grad.
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
    """Return ``alpha - (1 - alpha) cos(k)`` with ``k`` from 0 to 2 pi.

    Args:
        M: The number of points.
        alpha: The first coefficient.
        sym: Whether the window is symmetric, for filters; otherwise periodic, for spectra.
        dtype: A floating point dtype; None: the default one.
        layout: ``torchlette.strided``: there is no other.
        device: Where tensors are made; None: the default device.
        requires_grad: Whether the result requires grad.
    """
    return general_cosine(M, a=(alpha, 1.0 - alpha), sym=sym, dtype=dtype, device=device, requires_grad=requires_grad)


def hamming(
    M: int, *, sym: bool = True, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Return ``0.54 - 0.46 cos(k)`` with ``k`` from 0 to 2 pi.

    Args:
        M: The number of points.
        sym: Whether the window is symmetric, for filters; otherwise periodic, for spectra.
        dtype: A floating point dtype; None: the default one.
        layout: ``torchlette.strided``: there is no other.
        device: Where tensors are made; None: the default device.
        requires_grad: Whether the result requires grad.
    """
    return general_hamming(M, sym=sym, dtype=dtype, device=device, requires_grad=requires_grad)


def hann(
    M: int, *, sym: bool = True, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Return ``(1 - cos(k)) / 2`` with ``k`` from 0 to 2 pi.

    Args:
        M: The number of points.
        sym: Whether the window is symmetric, for filters; otherwise periodic, for spectra.
        dtype: A floating point dtype; None: the default one.
        layout: ``torchlette.strided``: there is no other.
        device: Where tensors are made; None: the default device.
        requires_grad: Whether the result requires grad.
    """
    return general_hamming(M, alpha=0.5, sym=sym, dtype=dtype, device=device, requires_grad=requires_grad)


def blackman(
    M: int, *, sym: bool = True, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Return ``0.42 - 0.5 cos(k) + 0.08 cos(2k)`` with ``k`` from 0 to 2 pi.

    Args:
        M: The number of points.
        sym: Whether the window is symmetric, for filters; otherwise periodic, for spectra.
        dtype: A floating point dtype; None: the default one.
        layout: ``torchlette.strided``: there is no other.
        device: Where tensors are made; None: the default device.
        requires_grad: Whether the result requires grad.
    """
    return general_cosine(M, a=(0.42, 0.5, 0.08), sym=sym, dtype=dtype, device=device, requires_grad=requires_grad)


def nuttall(
    M: int, *, sym: bool = True, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Return the four-term window of Nuttall (1981), a sum of cosines.

    Args:
        M: The number of points.
        sym: Whether the window is symmetric, for filters; otherwise periodic, for spectra.
        dtype: A floating point dtype; None: the default one.
        layout: ``torchlette.strided``: there is no other.
        device: Where tensors are made; None: the default device.
        requires_grad: Whether the result requires grad.
    """
    return general_cosine(M, a=_NUTTALL, sym=sym, dtype=dtype, device=device, requires_grad=requires_grad)
