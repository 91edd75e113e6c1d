"""A device's peak bandwidth and arithmetic rate, measured by a short run."""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from typing import Any

from torchlette import _C

__all__ = ["Ceilings", "ceilings"]


@dataclass(frozen=True)
class Ceilings:
    """The fastest addition of large tensors and the fastest product of large matrices, both in float32."""

    bytes_per_s: float
    flops_per_s: float


# Sizes by kind of device: elements of the addition, side of the matrices.
_SIZES = {"cpu": (1 << 22, 512), "gpu": (1 << 26, 4096), "software": (1 << 18, 64)}
_RUNS = 5


def _kind(device: str) -> str:
    if not device.startswith("wgpu"):
        return "cpu"
    found = next((d for d in json.loads(_C._info("devices")) if d["Name"] == device), None)
    return "software" if found is None or found["Software"] else "gpu"


@functools.cache
def ceilings(device: str) -> Ceilings:
    """Return a device's ceilings; the first call measures them by a few additions and matrix products.

    Args:
        device: A device's name, as events have it.
    """
    elements, side = _SIZES[_kind(device)]
    x = _C.ones(elements, device=device)
    a = _C.ones(side, side, device=device)
    _C._set_option("profile", "1")
    try:
        for _ in range(_RUNS):
            (x + x)[0].item()
            (a @ a)[0, 0].item()
        events: list[dict[str, Any]] = json.loads(_C._info("profile"))
    finally:
        _C._set_option("profile", "0")

    def best(op: str, what: str) -> float:
        return max(e[what] / max(e["duration_ns"], 1) * 1e9 for e in events if e["op"] == op)

    return Ceilings(best("add", "bytes"), best("matmul", "flops"))
