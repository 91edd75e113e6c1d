"""Iterations per second of loops on a GPU: ``python benchmarks/loops_gpu.py [DEVICE]``.

JAX on CUDA makes 77 to 104 thousand iterations of such bodies in a second on an H200. Each row is the best of five
loops, with the time of recording, of the dispatch and of reading one element.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import torchlette.torch as torch
from torchlette import lax


def kalman(state: Any, seen: Any) -> tuple[Any, Any]:
    """One step of a batch of filters of two states: the carry is the mean in a row above the covariance."""
    mean, cov = state[:, 0], state[:, 1:]
    mean = torch.stack([mean[:, 0] + 0.1 * mean[:, 1], mean[:, 1]], 1)
    gain = cov[:, :, 0] / (cov[:, :1, 0] + 0.5)
    mean = mean + gain * (seen - mean[:, :1])
    cov = cov - gain[:, :, None] * cov[:, :1] + 0.01
    return torch.cat([mean[:, None], cov], 1), None


def kalman_products(state: Any, seen: Any) -> tuple[Any, Any]:
    """The same step written with matrices: the carry is the mean in a column before the covariance."""
    mean, cov = state[:, :, :1], state[:, :, 1:]
    move = torch.tensor([[1.0, 0.1], [0.0, 1.0]], device=state.device)
    look = torch.tensor([[1.0, 0.0]], device=state.device)
    mean, cov = move @ mean, move @ cov @ move.mT + 0.01
    gain = cov @ look.mT / (look @ cov @ look.mT + 0.5)
    return torch.cat([mean + gain @ (seen[:, :, None] - look @ mean), cov - gain @ look @ cov], 2), None


BODIES: dict[str, tuple[tuple[int, ...], int, Callable[..., tuple[Any, Any]]]] = {
    "scalar": ((), 100_000, lambda x, _: (x * 0.999 + 0.1, None)),
    "4,096 wide": ((4096,), 100_000, lambda x, _: (x * 0.999 + 0.1, None)),
    "4,096 wide, tanh": ((4096,), 20_000, lambda x, _: (torch.tanh(x * 0.9 + 0.1), None)),
    "product 64": ((64, 64), 2_000, lambda x, _: (x @ x * 0.02, None)),
    "Kalman filter of 2 states, batch 1,000": ((1000, 3, 2), 10_000, kalman),
    "the same with matrices": ((1000, 2, 3), 10_000, kalman_products),
}
SEEN = ("Kalman filter of 2 states, batch 1,000", "the same with matrices")


def main() -> None:
    """Print a row for each body."""
    device = sys.argv[1] if len(sys.argv) > 1 else "wgpu"
    for name, (shape, length, step) in BODIES.items():
        x = torch.rand(shape, device=device) * 0.1
        xs = torch.rand(length, shape[0], 1, device=device) if name in SEEN else None
        path = lax.loop_report(lambda: lax.scan(step, x, xs, length=length))()[0]  # noqa: B023
        best = float("inf")
        for _ in range(6):
            begin = time.perf_counter()
            lax.scan(step, x, xs, length=length)[0].flatten()[:1].tolist()
            best = min(best, time.perf_counter() - begin)
        where = f"path {path.path} on {path.device}"
        print(f"{name:40} {where:20} {length / best / 1e3:10.0f} thousand iterations/s {path.reason}", flush=True)


if __name__ == "__main__":
    main()
