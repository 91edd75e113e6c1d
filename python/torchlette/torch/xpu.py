"""Answers for scripts that ask for Intel's own GPU interface: it is not here; the device "wgpu" drives the same
hardware.
"""

from __future__ import annotations

__all__ = [
    "device_count",
    "empty_cache",
    "is_available",
    "is_bf16_supported",
    "manual_seed",
    "manual_seed_all",
    "synchronize",
]

from torchlette.torch.cuda import empty_cache, manual_seed, manual_seed_all, synchronize
from torchlette.torch.mps import device_count, is_available

is_bf16_supported = is_available
