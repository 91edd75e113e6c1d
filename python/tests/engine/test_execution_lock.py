"""A second reader waits for the execution lock or is refused, as the policy says; recording and cleanup go on."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable

import numpy as np

import torchlette

#: Calls of the second thread; each waits for a few products of the first.
TURNS = {"cpu": 400, "wgpu": 40}


def while_reading(device: str, act: Callable[[], object], turns: int = 0) -> list[BaseException | object]:
    """Run ``act`` in a thread while this one waits in reads; return what it returned, the last entry being what it
    raised.
    """
    out: list[BaseException | object] = []
    begin = threading.Event()
    done = threading.Event()

    def other() -> None:
        begin.wait()
        try:
            for _ in range(turns or TURNS[device]):
                out.append(act())
        except BaseException as error:
            out.append(error)
        done.set()

    thread = threading.Thread(target=other)
    thread.start()
    size = 500 if device == "cpu" else 200
    x = torchlette.ones(size, size, device=device)
    begin.set()
    while not done.is_set():
        for _ in range(8):
            x = (x @ x) * (1.0 / size)
        with contextlib.suppress(torchlette.EngineBusyError):  # the other thread may hold the lock instead
            x[0, 0].item()
    thread.join()
    return out


def test_second_reader_is_refused(device: str) -> None:
    """A read while another thread holds the lock raises EngineBusyError."""
    y = torchlette.ones(4, device=device)
    out = while_reading(device, lambda: (y + 1).sum().item(), turns=1_000_000)  # until it meets a read of the other
    assert isinstance(out[-1], torchlette.EngineBusyError)
    assert (y + 1).sum().item() == 8.0


def test_second_reader_waits(device: str) -> None:
    """Under the policy "wait" it waits for its turn instead."""
    torchlette.set_busy_policy("wait")
    try:
        y = torchlette.ones(4, device=device)
        out = while_reading(device, lambda: (y + 1).sum().item())
    finally:
        torchlette.set_busy_policy("raise")
    assert out == [8.0] * TURNS[device]


def test_cleanup_is_always_allowed(device: str) -> None:
    """dispose and drops work while another thread holds the lock."""
    out = while_reading(device, lambda: torchlette.ones(4, device=device).dispose())
    assert out == [None] * TURNS[device]


def test_recording_is_allowed(device: str) -> None:
    """Recording from another thread needs only a short mutex."""
    out = while_reading(device, lambda: torchlette.ones(4, device=device) * 2)
    assert all(isinstance(t, torchlette.Tensor) for t in out)
    np.testing.assert_array_equal(out[-1].numpy(), np.full(4, 2, dtype="float32"))
