"""Answers for scripts that ask for other back ends of PyTorch: none of them is here."""

from __future__ import annotations

__all__ = ["cudnn", "mps"]


class _Backend:
    """A back end that does not exist; its switches may be set and change nothing."""

    deterministic = False
    benchmark = False
    enabled = False

    @staticmethod
    def is_available() -> bool:
        """Return ``False``."""
        return False

    @staticmethod
    def is_built() -> bool:
        """Return ``False``."""
        return False


cudnn = _Backend()
mps = _Backend()
