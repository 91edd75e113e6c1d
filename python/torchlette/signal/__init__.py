"""Signal processing: the window functions."""

from __future__ import annotations

from torchlette.signal import windows

__all__ = ["windows"]
