"""Answers for scripts that ask for CUDA: there is none; the GPU is the device "wgpu"."""

from __future__ import annotations

__all__ = ["current_device", "device_count", "empty_cache", "is_available", "manual_seed", "manual_seed_all", "synchronize"]

from torchlette import _C
from torchlette.random import manual_seed


def is_available() -> bool:
    """Return ``False``."""
    return False


def device_count() -> int:
    """Return 0."""
    return 0


def current_device() -> int:
    """Raise: there is no CUDA device."""
    raise RuntimeError("torch.cuda.current_device: there is no CUDA device: got none, want the device 'wgpu' or 'cpu'")


def manual_seed_all(seed: int) -> None:
    """Seed all random numbers."""
    manual_seed(seed)


def synchronize(device: object = None) -> None:
    """Wait for all recorded work."""
    _C.mark_step()


def empty_cache() -> None:
    """Do nothing: pools give memory back by themselves."""
