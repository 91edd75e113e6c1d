"""Programs on spectra: what audio packages and Fourier neural operators do, beside PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

import torchlette.torch as facade


def _same(ours: Any, theirs: torch.Tensor, **kwargs: Any) -> None:
    torch.testing.assert_close(torch.tensor(ours.detach().numpy()), theirs.detach(), **kwargs)


def _signal() -> np.ndarray:
    t = np.arange(1600) / 8000
    return np.stack([np.sin(2 * np.pi * 440 * t), np.sin(2 * np.pi * (300 + 2000 * t) * t)])


def _mel(lib: Any, bins: int, bands: int) -> Any:
    """Triangles between points that are equally far apart in mel, [bins, bands]."""
    frequencies = lib.linspace(0, 4000, bins, dtype=lib.float64)
    top = 2595 * np.log10(1 + 4000 / 700)
    points = 700 * (10 ** (lib.linspace(0, top, bands + 2, dtype=lib.float64) / 2595) - 1)
    width = points[1:] - points[:-1]
    slopes = points.unsqueeze(0) - frequencies.unsqueeze(1)
    return lib.clamp(lib.minimum(-slopes[:, :-2] / width[:-1], slopes[:, 2:] / width[1:]), min=0)


def test_log_mel_spectrogram_and_its_gradient() -> None:
    found = []
    for lib in (facade, torch):
        x = lib.tensor(_signal()).requires_grad_()
        window = lib.hann_window(256, dtype=lib.float64)
        power = lib.stft(x, 256, 64, window=window, return_complex=True).abs().pow(2)
        mel = lib.matmul(power.transpose(-1, -2), _mel(lib, 129, 20)).transpose(-1, -2)
        logs = lib.log(mel + 1e-3)
        logs.mean().backward()
        found.append((power, logs, x.grad))
    for ours, theirs in zip(*found, strict=True):
        _same(ours, theirs)


def test_griffin_lim_recovers_a_signal() -> None:
    """Some iterations with momentum, from phases of zero, as torchaudio's."""
    found = []
    for lib in (facade, torch):
        errors: list[float] = []
        x, window = lib.tensor(_signal()), lib.hann_window(128, dtype=lib.float64)
        size = lib.stft(x, 128, 32, window=window, return_complex=True).abs()
        angles = lib.ones_like(size).to(lib.complex128)
        before = lib.zeros_like(angles)
        for _ in range(4):
            guess = lib.istft(size * angles, 128, 32, window=window, length=1600)
            rebuilt = lib.stft(guess, 128, 32, window=window, return_complex=True)
            angles = rebuilt - before * 0.5
            angles = angles / (angles.abs() + 1e-8)
            before = rebuilt
            errors.append(float((rebuilt.abs() - size).norm() / size.norm()))
        found.append(guess)
        assert errors[-1] < 0.9 * errors[0]
    _same(found[0], found[1], rtol=1e-6, atol=1e-6)


def _operator(lib: Any, x: Any, weight: Any, mix: Any) -> Any:
    """A block of a Fourier neural operator: lowest modes times complex weights, plus a pointwise layer."""
    modes = weight.shape[-1]
    spectrum = lib.fft.rfft2(x)
    kept = lib.einsum("bixy,ioxy->boxy", spectrum[:, :, :modes, :modes], weight)
    out = lib.zeros(x.shape[0], weight.shape[1], *spectrum.shape[2:], dtype=lib.complex64)
    out[:, :, :modes, :modes] = kept
    return lib.nn.functional.gelu(lib.fft.irfft2(out, x.shape[-2:]) + lib.einsum("bixy,io->boxy", x, mix))


def test_fourier_neural_operator_trains_as_pytorch() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, 3, 12, 10)).astype("f"), rng.standard_normal((2, 3, 12, 10)).astype("f")
    weight = (rng.standard_normal((3, 3, 4, 4)) + 1j * rng.standard_normal((3, 3, 4, 4))).astype("complex64") / 4
    mix = rng.standard_normal((3, 3)).astype("f") / 3
    losses = []
    for lib in (facade, torch):
        w, m = lib.tensor(weight).requires_grad_(), lib.tensor(mix).requires_grad_()
        steps = []
        for _ in range(3):
            out = _operator(lib, lib.tensor(x), w, m)
            loss = (out - lib.tensor(y)).pow(2).mean()
            loss.backward()
            with lib.no_grad():
                for p in (w, m):
                    p -= 0.5 * p.grad
                    p.grad = None
            steps.append(float(loss))
        losses.append(steps)
    assert losses[0][-1] < losses[0][0]
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-4)
