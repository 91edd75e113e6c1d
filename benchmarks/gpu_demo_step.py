"""The demo's training step on a GPU: through WebGPU against PyTorch on CUDA, both eager float32."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from demo_step import EVERY, stepper
from measure import Row, main, race, seconds, settle

#: The demo's own size, and the shape of GPT-2 small at a short context.
SIZES: dict[str, dict[str, Any]] = {
    "demo": {},
    "12 layers, 768 wide, context 256": {"layers": 12, "heads": 12, "width": 768, "context": 256, "batch": 8},
}


def rows() -> Iterator[Row]:
    """Measure both sizes; without CUDA there is no rival and the ratio is left out."""
    # TF32 would let PyTorch use tensor cores, which WGSL cannot reach: float32 against float32.
    torch.backends.cuda.matmul.allow_tf32 = False
    for name, sizes in SIZES.items():
        ours = stepper("torchlette", "wgpu", **sizes)
        settle(ours)
        if torch.cuda.is_available():
            a, b = race(ours, stepper("torch", "cuda", **sizes), rounds=5)
            yield Row(f"GPU step, {name}", a / EVERY, b / EVERY)
            continue
        yield Row(f"GPU step, {name}", min(seconds(ours) for _ in range(3)) / EVERY, None)


if __name__ == "__main__":
    main("gpu_demo_step", rows, "wgpu")
