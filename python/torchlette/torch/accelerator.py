"""``torch.accelerator``: the GPUs of ``torch.cuda``; none is reported where there is none."""

from __future__ import annotations

from typing import Any

from torchlette import _C
from torchlette._runtime.gpus import cuda_count
from torchlette.torch.cuda import device as device_index
from torchlette.torch.cuda.memory import (
    empty_cache,
    max_memory_allocated,
    max_memory_reserved,
    memory_allocated,
    memory_reserved,
    memory_stats,
    reset_accumulated_memory_stats,
    reset_peak_memory_stats,
)
from torchlette.torch.cuda.memory import mem_get_info as get_memory_info
from torchlette.torch.cuda.streams import Event, Stream, current_stream, index_of, set_stream, synchronize

__all__ = [
    "Event",
    "Stream",
    "current_accelerator",
    "current_device_idx",
    "current_device_index",
    "current_stream",
    "device_count",
    "device_index",
    "empty_cache",
    "get_memory_info",
    "is_available",
    "max_memory_allocated",
    "max_memory_reserved",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "reset_accumulated_memory_stats",
    "reset_peak_memory_stats",
    "set_device_idx",
    "set_device_index",
    "set_stream",
    "synchronize",
]


def is_available() -> bool:
    """Return whether there is a GPU."""
    return cuda_count() > 0


def device_count() -> int:
    """Return the number of GPUs."""
    return cuda_count()


def current_accelerator(check_available: bool = False) -> _C.device | None:
    """Return ``device("cuda")``, or ``None`` without a GPU."""
    return _C.device("cuda") if is_available() else None


def current_device_index() -> int:
    """Return the number of the current GPU; raise without a GPU."""
    return index_of(None, "current_device")


def set_device_index(device: Any) -> None:
    """Choose the current GPU; raise without a GPU."""
    _C._set_cuda_device(index_of(device, "set_device"))


current_device_idx, set_device_idx = current_device_index, set_device_index
