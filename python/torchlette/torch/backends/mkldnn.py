"""oneDNN is not here: kernels for the CPU are the library's own. Its switches may be set and change nothing."""

from __future__ import annotations

import contextlib
from typing import Any

enabled = False
deterministic = False
allow_tf32 = False


def is_available() -> bool:
    """Return ``False``."""
    return False


def flags(**switches: Any) -> contextlib.AbstractContextManager[None]:
    """Return a context that changes nothing."""
    return contextlib.nullcontext()
