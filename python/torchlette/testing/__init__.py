"""Tools for testing programs that use torchlette, and torchlette itself."""

from torchlette.testing import counters
from torchlette.testing.comparison import assert_close

__all__ = ["assert_close", "counters"]
