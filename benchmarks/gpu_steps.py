"""Training steps on a GPU: through WebGPU against PyTorch on CUDA with its fused AdamW, both eager float32."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from typing import Any

import demo_step
import torch
from measure import Row, main, race, seconds, settle
from steps import DISTIL, SMALL, gpt2_steps, library, lstm_steps, profile_of, stats

from torchlette import _C

#: GPT-2 shapes: name, shape, batch, length, steps a round.
SHAPES = (
    ("DistilGPT-2 shape, B1 T31", DISTIL, 1, 31, 20),
    ("DistilGPT-2 shape, B1 T512", DISTIL, 1, 512, 10),
    ("GPT-2 124M shape, B4 T512", SMALL, 4, 512, 5),
)
CHAIN = 1000


def chain(name: str, device: str) -> Callable[[], Any]:
    """Return a function that makes a chain of small ops and reads its end."""
    lib = library(name)
    x = lib.ones(16).to(device)

    def run() -> list[float]:
        y = x
        for _ in range(CHAIN // 2):
            y = y * 0.999
            y = y + x
        return y.tolist()

    return run


def first(run: Callable[[], Any]) -> float:
    """Time the first call, which builds plans and compiles kernels."""
    begin = time.perf_counter()
    run()
    return time.perf_counter() - begin


def compare(name: str, make: Callable[[str, str], Callable[[], Any]], steps: int, rounds: int = 5) -> Row:
    """Race one case; without CUDA there is no rival and the ratio is left out."""
    gc.collect()
    _C._set_option("clear_plans", "")
    ours = make("torchlette", "wgpu")
    detail: dict[str, Any] = {"first_s": round(first(ours), 2)}
    settle(ours)
    _C._set_option("reset_peak", "")
    rival = None
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
        theirs = make("torch", "cuda")
        theirs()
        torch.cuda.reset_peak_memory_stats()
        a, rival = race(ours, theirs, rounds=rounds)
        detail["torch_peak_mb"] = torch.cuda.max_memory_allocated() >> 20
    else:
        a = min(seconds(ours) for _ in range(3))
    detail["peak_mb"] = stats()["peak_bytes"] >> 20
    detail |= profile_of(ours, steps)
    return Row(name, a / steps, None if rival is None else rival / steps, detail=detail)


def rows(small: bool = False) -> Iterator[Row]:
    """Measure every case; ``small`` leaves out those that a software adapter cannot finish."""
    torch.backends.cuda.matmul.allow_tf32 = False  # WGSL cannot reach TF32: float32 against float32
    yield compare("one small op in a chain", chain, CHAIN)
    yield compare(
        "step of the demo's GPT, B8 T64", lambda lib, dev: demo_step.stepper(lib, dev, dropout=0.0), demo_step.EVERY
    )
    if not small:
        yield compare("nn.LSTM(128, 256), B32 T100, step", lambda lib, dev: lstm_steps(lib, dev, 10), 10)
    for name, shape, batch, length, steps in () if small else SHAPES:
        yield compare(
            f"step, {name}", lambda lib, dev, s=(shape, batch, length, steps): gpt2_steps(lib, dev, *s), steps
        )


if __name__ == "__main__":
    main("gpu_steps", rows, "wgpu")
