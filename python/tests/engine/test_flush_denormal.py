"""torch.set_flush_denormal: kernels of the CPU take subnormal numbers as 0."""

from __future__ import annotations

import platform

import pytest

import torchlette


@pytest.mark.skipif(platform.machine().lower() not in ("x86_64", "amd64", "arm64", "aarch64"), reason="no such mode")
def test_set_flush_denormal() -> None:
    """On every thread, and off again; a new pool of threads keeps it."""
    tiny, threads = torchlette.full((200_000,), 1e-39), torchlette.get_num_threads()
    try:
        assert torchlette.set_flush_denormal(True)
        for count in (1, 3):
            torchlette.set_num_threads(count)
            assert (tiny * 3 != 0).sum().item() == 0
    finally:
        torchlette.set_num_threads(threads)
        assert torchlette.set_flush_denormal(False)
    assert (tiny * 3 != 0).sum().item() == 200_000
