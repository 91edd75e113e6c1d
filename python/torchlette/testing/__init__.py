"""Tools for testing programs that use torchlette, and torchlette itself."""

from torchlette.testing import counters

__all__ = ["counters"]
