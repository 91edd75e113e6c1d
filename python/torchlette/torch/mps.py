"""Answers for scripts that ask for Apple's own GPU interface: it is not here; the device "wgpu" drives the same
hardware.
"""

from __future__ import annotations

__all__ = [
    "current_allocated_memory",
    "device_count",
    "driver_allocated_memory",
    "empty_cache",
    "is_available",
    "manual_seed",
    "seed",
    "synchronize",
]

from torchlette.torch.cuda import (
    device_count,
    empty_cache,
    is_available,
    manual_seed,
    memory_allocated,
    seed,
    synchronize,
)

current_allocated_memory = driver_allocated_memory = memory_allocated
