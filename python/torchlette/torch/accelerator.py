"""``torch.accelerator``: the GPUs of ``torch.cuda``; none is reported where there is none."""

from __future__ import annotations

from typing import Any

from torchlette import _C
from torchlette._runtime.gpus import cuda_count
from torchlette.torch.cuda.streams import Event, Stream, index_of, synchronize

__all__ = [
    "Event",
    "Stream",
    "current_accelerator",
    "current_device_index",
    "device_count",
    "empty_cache",
    "is_available",
    "set_device_index",
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


def empty_cache() -> None:
    """Do nothing: pools give memory back by themselves."""
