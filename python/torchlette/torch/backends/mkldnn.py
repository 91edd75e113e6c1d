"""oneDNN is not here: kernels for the CPU are the library's own. Its switches may be set and change nothing."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

enabled = False
deterministic = False
allow_tf32 = False


def is_available() -> bool:
    """Return ``False``."""
    return False


@contextlib.contextmanager
def flags(**switches: Any) -> Iterator[None]:
    """Return a context, or a decorator, that changes nothing."""
    yield
