"""Tools for testing programs that use torchlette, and torchlette itself."""

from torchlette.testing import counters
from torchlette.testing.comparison import assert_close
from torchlette.testing.creation import make_tensor

__all__ = ["assert_close", "counters", "make_tensor"]
