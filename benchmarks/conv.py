"""Convolutions and a small convolutional net's training step against PyTorch: ``python benchmarks/conv.py cpu|gpu``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import devices

#: Batch, channels in, height, channels out, kernel of a convolution, padded to keep its size.
SHAPES = ((32, 64, 56, 64, 3), (32, 64, 56, 64, 1), (8, 3, 224, 64, 7))
STEPS = 5
#: Calls of a side before the result is read.
CALLS = 3


def convolution(name: str, device: str, shape: tuple[int, int, int, int, int], *, grad: bool) -> Callable[[], Any]:
    """Return a function that convolves, and with ``grad`` also goes back to input, weight and bias.

    It reads a sum of all results of all calls: what nobody reads is not computed by us.
    """
    from steps import library

    lib = library(name)
    n, c, h, o, k = shape
    x, w, b = (lib.randn(*s).to(device).requires_grad_(grad) for s in ((n, c, h, h), (o, c, k, k), (o,)))
    ones = lib.ones(n, o, h, h).to(device)

    def run() -> float:
        total = 0.0
        for _ in range(CALLS):
            y = lib.nn.functional.conv2d(x, w, b, padding=k // 2)
            for result in lib.autograd.grad(y, (x, w, b), ones) if grad else (y,):
                total = total + result.sum()
        return total.item()

    return run


def cnn_steps(name: str, device: str) -> Callable[[], float]:
    """Return a function that makes training steps of a net with two convolutions, batch norm and pooling on 64 pictures
    of 28x28.
    """
    from steps import library

    lib = library(name)
    nn = lib.nn
    lib.manual_seed(0)
    features = [nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2)]
    features += [nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2)]
    model = nn.Sequential(*features, nn.Flatten(), nn.Linear(32 * 7 * 7, 10)).to(device)
    x, y = lib.randn(64, 1, 28, 28).to(device), lib.randint(0, 10, (64,)).to(device)
    optimizer = lib.optim.AdamW(model.parameters(), lr=1e-3)

    def run() -> float:
        for _ in range(STEPS):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
        return loss.item()

    return run


def rows(device: str = "cpu") -> Iterator[Any]:
    """Measure every case on ``cpu`` or ``gpu``."""
    import torch
    from measure import Row, race

    if device == "gpu":
        torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    ours, theirs = ("wgpu", "cuda") if device == "gpu" else ("cpu", "cpu")
    for shape in SHAPES:
        n, c, h, o, k = shape
        for grad in (False, True):
            label = f"conv2d {o}x{c}x{k}x{k} on {n}x{c}x{h}x{h}" + (" fwd+bwd" if grad else "")
            a, b = race(
                convolution("torchlette", ours, shape, grad=grad), convolution("torch", theirs, shape, grad=grad)
            )
            yield Row(label, a / CALLS, b / CALLS)
    a, b = race(cnn_steps("torchlette", ours), cnn_steps("torch", theirs))
    yield Row("step of a small CNN, 64 of 28x28", a / STEPS, b / STEPS)


if __name__ == "__main__":
    devices.main("conv", __doc__, rows)
