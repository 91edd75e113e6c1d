"""Short-time Fourier transforms: spectra of overlapping frames of a signal, and the signal of such spectra."""

from __future__ import annotations

import warnings
from typing import Literal

from torchlette import _C, fft
from torchlette._runtime.regions import refuses_reads
from torchlette.nn import functional as F

__all__ = ["istft", "stft"]

Tensor = _C.Tensor


def _window(name: str, window: Tensor | None, n_fft: int, win_length: int, like: Tensor) -> Tensor | None:
    """Return the window with zeros on both sides, [n_fft]; None: all ones."""
    if not 0 < win_length <= n_fft:
        raise RuntimeError(f"{name}: expected 0 < win_length <= n_fft, but got win_length={win_length}")
    if window is None:
        if win_length == n_fft:
            return None
        window = _C.ones(win_length, dtype=like.real.dtype if like.is_complex() else like.dtype, device=like.device)
    if window.dim() != 1 or window.shape[0] != win_length:
        raise RuntimeError(
            f"{name}: expected a 1D window tensor of size equal to win_length={win_length}, but got window with size "
            f"{list(window.shape)}"
        )
    left = (n_fft - win_length) // 2
    return F.pad(window, (left, n_fft - win_length - left)) if win_length < n_fft else window


def stft(
    input: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool | None = None,
    align_to_window: bool | None = None,
) -> Tensor:
    """Return the transforms of the frames of a signal: complex, [..., frequencies, frames].

    Args:
        input: The signal, [length] or [batch, length]; float or complex.
        n_fft: The number of samples of a frame.
        hop_length: The number of samples from frame to frame; None: ``n_fft // 4``.
        win_length: The number of samples of the window; None: ``n_fft``. Zeros surround a shorter one.
        window: The weights of a frame's samples, [win_length]; None: ones.
        center: True: frame t is centred at sample ``t * hop_length`` of the signal, which is padded at both ends by
            ``n_fft // 2`` samples. False: it begins there.
        pad_mode: How the signal is padded; see :func:`torchlette.nn.functional.pad`.
        normalized: Whether results are divided by the root of ``n_fft``.
        onesided: True: the first ``n_fft // 2 + 1`` frequencies of a real signal; False: all ``n_fft``. None: True
            where signal and window are real.
        return_complex: True: complex results. False: real ones, with a last dimension of size 2. A real signal needs a
            value.
        align_to_window: Only None is supported.

    Raises:
        RuntimeError: If a shape, a number or a combination of arguments is not as above.
    """
    if align_to_window is not None:
        raise RuntimeError("stft: align_to_window is not supported")
    if not (input.is_floating_point() or input.is_complex()):
        raise RuntimeError("stft: expected a tensor of floating point or complex values")
    if not 1 <= input.dim() <= 2:
        raise RuntimeError(f"stft: expected a 1D or 2D tensor, but got {input.dim()}D")
    complex_values = input.is_complex() or (window is not None and window.is_complex())
    if return_complex is None and not complex_values:
        raise RuntimeError("stft requires the return_complex parameter be given for real inputs")
    if onesided and complex_values:
        raise RuntimeError("stft: Cannot have onesided output if window or input is complex")
    hop, width = n_fft // 4 if hop_length is None else hop_length, n_fft if win_length is None else win_length
    signal = input if input.dim() == 2 else input.unsqueeze(0)
    if center:
        signal = F.pad(signal.unsqueeze(1), (n_fft // 2, n_fft // 2), pad_mode).squeeze(1)
    if not 0 < n_fft <= signal.shape[-1]:
        raise RuntimeError(f"stft: expected 0 < n_fft <= {signal.shape[-1]}, but got n_fft={n_fft}")
    if hop <= 0:
        raise RuntimeError(f"stft: expected hop_length > 0, but got hop_length={hop}")
    weights = _window("stft", window, n_fft, width, input)
    frames = signal.unfold(-1, n_fft, hop)
    frames = frames if weights is None else frames * weights
    norm: Literal["ortho", "backward"] = "ortho" if normalized else "backward"
    half = not complex_values if onesided is None else onesided
    spectra = (fft.rfft if half else fft.fft)(frames, norm=norm).transpose(1, 2)
    spectra = spectra if input.dim() == 2 else spectra.squeeze(0)
    return _C.view_as_real(spectra) if return_complex is False else spectra


def _added(frames: Tensor, hop: int) -> Tensor:
    """Add frames [batch, frames, n] at distances ``hop``: [batch, n + hop * (frames - 1)]."""
    if frames.is_complex():
        return _C.complex(_added(frames.real, hop), _added(frames.imag, hop))
    count, n = frames.shape[1:]
    size = (1, n + hop * (count - 1))
    return F.fold(frames.transpose(1, 2), size, (1, n), stride=(1, hop)).flatten(1)


def _frequencies(input: Tensor, n_fft: int, onesided: bool | None) -> bool:
    """Check the spectra, and return whether they are the first half of all frequencies."""
    if not input.is_complex():
        raise RuntimeError(
            "istft requires a complex-valued input tensor matching the output from stft with return_complex=True."
        )
    if input.numel() == 0:
        raise RuntimeError("istft: input tensor cannot be empty")
    if not 2 <= input.dim() <= 3:
        raise RuntimeError(f"istft: expected a tensor with 2 or 3 dimensions, but got {input.dim()}")
    have = input.shape[-2]
    half = have != n_fft if onesided is None else onesided
    want = n_fft // 2 + 1 if half else n_fft
    if have != want:
        raise RuntimeError(
            f"istft: expected the frequency dimension (3rd to the last) of the input tensor to match n_fft "
            f"{'/ 2 + 1 ' if half else ''}when onesided={half}, but got {have}"
        )
    return half


def istft(
    input: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: int | None = None,
    return_complex: bool = False,
) -> Tensor:
    """Return the signal whose transforms :func:`stft` gives, [..., length]: least squares where frames overlap.

    Args:
        input: Complex spectra, [frequencies, frames] or [batch, frequencies, frames].
        n_fft, hop_length, win_length, window, center, normalized, onesided: As :func:`stft` was given them.
        length: The number of samples of the signal; None: as many as the frames cover.
        return_complex: Whether the signal is complex; then the spectra have all frequencies.

    Raises:
        RuntimeError: If a shape or a number is not as above, or where the windows of all frames leave a sample out. A
            program does not check the latter.

    Source: Griffin and Lim, Signal estimation from modified short-time Fourier transform, 1984.
    """
    hop, width = n_fft // 4 if hop_length is None else hop_length, n_fft if win_length is None else win_length
    half = _frequencies(input, n_fft, onesided)
    if not 0 < hop <= width:
        raise RuntimeError(f"istft: expected 0 < hop_length <= win_length, but got hop_length={hop}")
    weights = _window("istft", window, n_fft, width, input)
    if weights is None:
        weights = _C.ones(n_fft, dtype=input.real.dtype, device=input.device)
    spectra = (input if input.dim() == 3 else input.unsqueeze(0)).transpose(1, 2)
    norm: Literal["ortho", "backward"] = "ortho" if normalized else "backward"
    if return_complex:
        if half:
            raise RuntimeError("istft: Cannot have onesided output if window or input is complex")
        frames = fft.ifft(spectra, norm=norm)
    else:
        if weights.is_complex():
            raise RuntimeError("istft: Complex windows are incompatible with return_complex=False")
        frames = fft.irfft(spectra if half else spectra[..., : n_fft // 2 + 1], n_fft, norm=norm)
    signal = _added(frames * weights, hop)
    cover = _added((weights * weights).expand(1, frames.shape[1], n_fft), hop)
    start = n_fft // 2 if center else 0
    end = start + length if length is not None else signal.shape[1] - start
    signal, cover = signal[:, start:end], cover[:, start:end]
    if not refuses_reads() and not (least := cover.detach().abs().min().item()) > 1e-11:
        raise RuntimeError(f"istft: window overlap add min: {least}")
    signal = signal / cover
    if length is not None and signal.shape[1] < length:
        warnings.warn(
            "The length of signal is shorter than the length parameter. Result is being padded with zeros in the tail. "
            "Please check your center, hop_length and win_length settings",
            stacklevel=2,
        )
        signal = F.pad(signal, (0, length - signal.shape[1]))
    return signal if input.dim() == 3 else signal.squeeze(0)
