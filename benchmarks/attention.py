"""Causal attention against PyTorch's, forward and with its gradients: ``python benchmarks/attention.py cpu|gpu``.

The sides alternate in one process. A sample is a chain of calls: the queries of each call are the result of the call
before, or the gradient of its queries. So no call can be left out, and nothing waits for the device in between. On the
CPU both sides have 2 threads.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
from collections.abc import Callable, Iterator
from typing import Any

THREADS = 2
#: Batch, heads, length, head width.
CPU_SHAPES = [(1, 12, 512, 64), (4, 4, 128, 32), (1, 8, 1024, 128)]
GPU_SHAPES = [(1, 12, 512, 64), (4, 12, 1024, 64), (1, 16, 4096, 128)]
#: Multiplications of one sample, about.
SAMPLE_WORK = {"cpu": 1e9, "gpu": 2e12}


def chain(
    library: Any, device: str, shape: tuple[int, ...], calls: int, backward: bool, force: Callable[[Any], Any]
) -> Callable[[], None]:
    """Return a function that makes ``calls`` calls and waits for the last."""
    torch, attend = library, library.nn.functional.scaled_dot_product_attention
    torch.manual_seed(0)
    q, k, v, g = (torch.randn(shape, device=device) for _ in range(4))

    def forward() -> None:
        x = q
        with torch.no_grad():
            for _ in range(calls):
                x = attend(x, k, v, is_causal=True)
        force(x)

    def both() -> None:
        x, y, z = q, k, v
        for _ in range(calls):
            x, y, z = (t.detach().requires_grad_() for t in (x, y, z))
            x, y, z = torch.autograd.grad(attend(x, y, z, is_causal=True), (x, y, z), g)
        force(x + y + z)

    return both if backward else forward


def rows(device: str, rounds: int) -> Iterator[Any]:
    """Measure the shapes of a device; a figure is the median seconds of one call over the rounds."""
    import torch
    from measure import Row, seconds

    import torchlette.torch

    # TF32 would let PyTorch use tensor cores, which WGSL cannot reach: float32 against float32.
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.set_num_threads(THREADS)
    there = ("cpu", "cpu") if device == "cpu" else ("wgpu", "cuda")

    def wait(x: Any) -> None:
        if there[1] == "cuda":
            torch.cuda.synchronize()

    for shape in CPU_SHAPES if device == "cpu" else GPU_SHAPES:
        for backward in (False, True):
            work = shape[0] * shape[1] * shape[2] ** 2 * shape[3] * (7 if backward else 2)
            calls = max(2, min(100, int(SAMPLE_WORK[device] / work)))
            sides = [chain(torchlette.torch, there[0], shape, calls, backward, lambda x: x[0, 0, 0, 0].item())]
            if device == "cpu" or torch.cuda.is_available():
                sides.append(chain(torch, there[1], shape, calls, backward, wait))
            taken: list[list[float]] = [[] for _ in sides]
            for r in range(rounds + 2):
                for side, times in zip(sides, taken, strict=True):
                    t = seconds(side)
                    if r >= 2:
                        times.append(t / calls)
            ours, rival = statistics.median(taken[0]), statistics.median(taken[1]) if len(sides) > 1 else None
            name = f"attention {'x'.join(map(str, shape))} {'fwd+bwd' if backward else 'fwd'}"
            yield Row(name, ours, rival, detail={"minima": " / ".join(f"{min(t) * 1e6:.0f} us" for t in taken)})


def main() -> int:
    """Measure a device, print the table and, when asked, write it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("device", choices=("cpu", "gpu"))
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--record", action="store_true", help="write results/attention_<device>.json")
    options = parser.parse_args()
    if options.device == "cpu":  # before either library starts its threads
        os.environ.setdefault("TORCHLETTE_NUM_THREADS", str(THREADS))
        os.environ.setdefault("OMP_NUM_THREADS", str(THREADS))
    import measure

    table = measure.print_rows([lambda: rows(options.device, options.rounds)])
    if options.record:
        print(f"recorded in {measure.record(f'attention_{options.device}', options.device, table)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
