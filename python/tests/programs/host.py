"""Host queries of the program tests."""

from __future__ import annotations

import os
import sys

import pytest

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")


def rss() -> int:
    """Return the resident set in bytes."""
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
