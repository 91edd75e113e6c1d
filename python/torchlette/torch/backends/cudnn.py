"""cuDNN is not here: kernels are the library's own. Its switches may be set and change nothing."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

enabled = True
benchmark = False
benchmark_limit = 10
deterministic = False
allow_tf32 = True


def is_available() -> bool:
    """Return ``False``."""
    return False


def version() -> None:
    """Return ``None``."""


@contextlib.contextmanager
def flags(**switches: Any) -> Iterator[None]:
    """Return a context, or a decorator, that changes nothing."""
    yield
