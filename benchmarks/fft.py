"""Fourier transforms on the CPU beside PyTorch and NumPy: the ratio is ours to the faster of the two."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from measure import Row, main, race

import torchlette
import torchlette.torch as lette

#: Shapes: single transforms, batches, and two dims.
SHAPES = [(1 << k,) for k in range(10, 21, 2)] + [(1000,), (65537,), (256, 1024), (64, 1 << 16), (4096, 400)]
PLANES = [(1024, 1024), (16, 128, 128)]


def _sides(name: str, x: np.ndarray) -> list[Callable[[], Any]]:
    ours, theirs = lette.tensor(x, device="cpu"), torch.from_numpy(x)
    f, g, h = getattr(lette.fft, name), getattr(torch.fft, name), getattr(np.fft, name)

    return [lambda: torchlette.realize(f(ours)), lambda: g(theirs), lambda: h(x)]


def _race(name: str, shape: tuple[int, ...], dtype: str) -> Row:
    rng = np.random.default_rng(0)
    x = rng.standard_normal(shape)
    values = (x + 1j * rng.standard_normal(shape) if dtype.startswith("complex") else x).astype(dtype)
    ours, pytorch, numpy = _sides(name, values)
    rounds = 9 if x.size > 1 << 18 else 31
    first = race(ours, pytorch, rounds=rounds)
    second = race(ours, numpy, rounds=rounds) if x.size <= 1 << 20 else first
    return Row(f"{name} {shape} {dtype}", *min(first, second, key=lambda pair: pair[1]))


def rows() -> Iterator[Row]:
    """Race all."""
    for shape in SHAPES:
        for dtype in ("complex64", "complex128"):
            yield _race("fft", shape, dtype)
        yield _race("rfft", shape, "float32")
    for shape in PLANES:
        yield _race("fft2", shape, "complex64")
        yield _race("rfft2", shape, "float32")


if __name__ == "__main__":
    main("fft", rows)
