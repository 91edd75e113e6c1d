"""Signals: windows, Fourier transforms of real and complex numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from torchlette import _C, fft
from torchlette.onnx.registry import operator
from torchlette.onnx.tensors import dtype_of

Tensor = _C.Tensor


def _window(terms: Callable[[float], float]) -> Any:
    def apply(size: int, *, output_datatype: int = 1, periodic: int = 1, device: Any = None) -> Tensor:
        count = size if periodic else size - 1
        values = [terms(2 * math.pi * n / count if count else 0.0) for n in range(_bounded(size))]
        return _C.tensor(values, dtype=dtype_of(output_datatype), device=device)

    return apply


def _bounded(size: int) -> int:
    if not 0 <= size <= 1 << 20:
        raise ValueError(f"a window has {size} elements")
    return size


operator("HannWindow", host=(0,))(_window(lambda t: 0.5 - 0.5 * math.cos(t)))
operator("HammingWindow", host=(0,))(_window(lambda t: 25 / 46 - 21 / 46 * math.cos(t)))
operator("BlackmanWindow", host=(0,))(_window(lambda t: 0.42 - 0.5 * math.cos(t) + 0.08 * math.cos(2 * t)))


def transformed(x: Tensor, length: int, inverse: int, onesided: int) -> Tensor:
    """Return the discrete Fourier transform of the last dim but one; the last has a real and perhaps an imaginary part.

    Args:
        x: [..., n, 1 or 2].
        length: Of the transform: x is cut, or continued with zeros.
        inverse: Whether it is the inverse transform.
        onesided: Whether only the first half of the result, and one more, is wanted.
    """
    work = x.float() if x.dtype.itemsize < 4 else x
    if work.shape[-1] == 1:
        y = (fft.ifft if inverse else fft.rfft if onesided else fft.fft)(work[..., 0], length)
    else:
        y = (fft.ifft if inverse else fft.fft)(_C.view_as_complex(work.contiguous()), length)
        y = y[..., : length // 2 + 1] if onesided and not inverse else y
    return _C.view_as_real(y).to(x.dtype)


@operator("DFT", host=(1, 2))
def dft(
    x: Tensor,
    length: Any = None,
    where: Any = None,
    *,
    axis: int | None = None,
    inverse: int = 0,
    onesided: int = 0,
    opset: int = 20,
) -> Tensor:
    """Return the discrete Fourier transform along an axis."""
    place = where if where is not None else axis if axis is not None else (1 if opset < 20 else -2)
    place += x.dim() if place < 0 else 0
    moved = x.movedim(place, -2)
    usual = 2 * (moved.shape[-2] - 1) if inverse and onesided else moved.shape[-2]
    size = usual if length is None else length
    if inverse and onesided:
        moved = moved.narrow(-2, 0, min(moved.shape[-2], size // 2 + 1))
        rest = moved[..., 1 : (size + 1) // 2, :].flip(-2)
        moved = _C.cat([moved, _C.stack([rest[..., 0], -rest[..., 1]], -1)], -2)
        y = transformed(moved, size, 1, 0)[..., :1]
    else:
        y = transformed(moved, size, inverse, onesided)
    return y.movedim(-2, place)


@operator("STFT", host=(1, 3))
def stft(signal: Tensor, step: int, window: Tensor | None = None, length: Any = None, *, onesided: int = 1) -> Tensor:
    """Return the Fourier transforms of overlapping frames, [batch, frames, frequencies, 2]."""
    x = signal if signal.dim() == 3 else signal.unsqueeze(-1)
    if length is not None:
        size = length
    elif window is not None:
        size = window.shape[0]
    else:
        raise ValueError("STFT: it has neither a window nor a frame_length")
    count = (x.shape[1] - size) // step + 1
    places = _C.arange(count, device=x.device).unsqueeze(1) * step + _C.arange(size, device=x.device)
    frames = x.index_select(1, places.reshape(-1)).reshape(x.shape[0], count, size, x.shape[2])
    if window is not None:
        frames = frames * window.reshape(-1, 1)
    return transformed(frames, size, 0, onesided if x.shape[2] == 1 else 0)


@operator("MelWeightMatrix", host=(0, 1, 2, 3, 4))
def mel_weight_matrix(
    bins: int, length: int, rate: int, low: float, high: float, *, output_datatype: int = 1, device: Any = None
) -> Tensor:
    """Return the matrix from frequencies to mel bins, [length // 2 + 1, bins]."""
    rows = _bounded(length) // 2 + 1
    if not 0 < bins <= 1 << 16 or rows * bins > 1 << 22:
        raise ValueError(f"MelWeightMatrix: it has {rows} rows and {bins} bins")

    def mel(f: float) -> float:
        return 2595 * math.log10(1 + f / 700)

    step = (mel(high) - mel(low)) / (bins + 2)
    edges = [
        math.floor((length + 1) * 700 * (10 ** ((mel(low) + i * step) / 2595) - 1) / rate) for i in range(bins + 2)
    ]
    matrix = [[0.0] * bins for _ in range(rows)]
    for i in range(bins):
        before, middle, after = edges[i : i + 3]
        if before == middle:
            matrix[middle][i] = 1.0
        for j in range(before, middle + 1):
            if middle > before:
                matrix[j][i] = (j - before) / (middle - before)
        for j in range(middle, after):
            if after > middle:
                matrix[j][i] = (after - j) / (after - middle)
    return _C.tensor(matrix, dtype=dtype_of(output_datatype), device=device)
