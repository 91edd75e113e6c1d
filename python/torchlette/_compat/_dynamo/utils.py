"""Queries of PyTorch's compiler that packages use."""

from __future__ import annotations

__all__ = ["is_compile_supported"]


def is_compile_supported(device_type: str) -> bool:
    """Return True: a compiled function runs on every device."""
    return True
