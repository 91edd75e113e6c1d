"""Whether a function is recorded whose sizes may differ from run to run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["Varying"]


class Varying:
    """``now`` is set while such a function runs: tables that depend on a size are computed by operators.

    Tables that the host computes would be constants of one size.
    """

    now = False

    @staticmethod
    @contextmanager
    def during(on: bool) -> Iterator[None]:
        """Set ``now`` for a block."""
        before, Varying.now = Varying.now, on
        try:
            yield
        finally:
            Varying.now = before
