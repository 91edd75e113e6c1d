"""Programs that fail on the way, by memory, a bad index or Ctrl-C, change nothing and go on."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import numpy as np
import pytest
from host import linux

import torchlette


def test_a_step_that_does_not_fit_changes_nothing_and_half_the_batch_works(device: str) -> None:
    """A step that does not fit raises and changes nothing; half the batch then works."""
    budget = 96 << 20
    torchlette._C._set_option("memory_limit", str(budget))
    try:
        w = torchlette.ones(64, 64, device=device, requires_grad=True)
        opt = torchlette.optim.SGD([w], lr=0.5)
        w.sum().item()

        def step(batch: int) -> float:
            opt.zero_grad()
            x = torchlette.ones(batch, 64, device=device)
            loss = ((x @ w).tanh() ** 2).mean()
            loss.backward()
            opt.step()
            return loss.item()

        with pytest.raises(torchlette.OutOfMemoryError, match=r"request of \d+ bytes with \d+ in use"):
            step(400_000)
        np.testing.assert_array_equal(w.detach().numpy(), np.ones((64, 64), dtype="float32"))
        assert step(20_000) == pytest.approx(1.0, rel=1e-5)

    finally:
        torchlette._C._set_option("memory_limit", "0")


def test_a_bad_index_names_the_line_that_used_it(device: str) -> None:
    """A bad index made on the device raises at the next boundary with its line; uploads raise at the call."""
    table = torchlette.ones(10, 4, device=device)
    index = torchlette.arange(3, device=device) * 7  # 0, 7, 14
    y = torchlette.nn.functional.embedding(index, table)  # the line to be named
    for _ in range(50):
        y = y * 1.01 + 1
    with pytest.raises(IndexError, match=r"test_failures\.py") as caught:
        y.sum().item()
    del caught
    assert (table + 1).sum().item() == 80.0, "the engine goes on"
    with pytest.raises(IndexError):
        torchlette.nn.functional.embedding(torchlette.tensor([0, 14], device=device), table)


INTERRUPTED = """
    import os, signal, threading, time
    import torchlette
    x = torchlette.ones(900, 900, device={device!r})
    x.sum().item()
    for _ in range({depth}):
        x = (x @ x) * 1e-3
    out = torchlette.zeros(900, 900, device={device!r})
    out.copy_(x)  # an effect, so that mark_step must run the chain
    threading.Timer(0.4, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    begun = None
    real = signal.default_int_handler  # a process started in the background ignores the signal
    def note(*a):
        global begun
        begun = time.monotonic()
        real(*a)
    signal.signal(signal.SIGINT, note)
    try:
        torchlette.mark_step()
        print("never interrupted")
    except KeyboardInterrupt:
        print("late" if time.monotonic() - begun > 0.2 else "interrupted")
    torchlette.mark_step()
    print(torchlette.ones(2, device={device!r}).tolist())
"""


@linux
def test_ctrl_c_stops_a_window_and_the_next_one_completes(device: str) -> None:
    """Ctrl-C during mark_step returns within 200 ms; the next mark_step completes."""
    depth = 150 if device == "cpu" else 5
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(INTERRUPTED.format(device=device, depth=depth))],
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.stdout.splitlines() == ["interrupted", "[1.0, 1.0]"], done.stdout + done.stderr
