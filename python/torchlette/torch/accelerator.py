"""``torch.accelerator``: none is reported. A script uses the GPU only by ``device="wgpu"``."""

from __future__ import annotations

from typing import Any, NoReturn

from torchlette import _C

__all__ = [
    "current_accelerator",
    "current_device_index",
    "device_count",
    "empty_cache",
    "is_available",
    "set_device_index",
    "synchronize",
]


def is_available() -> bool:
    """Return ``False``: scripts that query this compute on the CPU."""
    return False


def device_count() -> int:
    """Return 0."""
    return 0


def current_accelerator(check_available: bool = False) -> None:
    """Return ``None``."""


def current_device_index() -> NoReturn:
    """Raise: no accelerator was chosen."""
    raise RuntimeError("torch.accelerator.current_device_index: no accelerator: use device='wgpu' or the CPU")


def set_device_index(device: Any) -> NoReturn:
    """Raise: no accelerator was chosen."""
    raise RuntimeError("torch.accelerator.set_device_index: no accelerator: use device='wgpu' or the CPU")


def synchronize(device: Any = None) -> None:
    """Wait for all recorded work."""
    _C.mark_step()


def empty_cache() -> None:
    """Do nothing: pools give memory back by themselves."""
