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

from torchlette._runtime.random import manual_seed, seed
from torchlette.torch.cuda import empty_cache, synchronize


def is_available() -> bool:
    """Return ``False``."""
    return False


def device_count() -> int:
    """Return 0."""
    return 0


def current_allocated_memory() -> int:
    """Return 0: nothing is on such a device."""
    return 0


driver_allocated_memory = current_allocated_memory
