"""Programs that record for long, from several threads or without a read, keep memory flat and results the same."""

from __future__ import annotations

import gc
import threading

import numpy as np
import oracle
from host import linux, rss

import torchlette
from torchlette.testing.counters import Delta, levels, stats


@linux
def test_a_million_operations_without_a_read_keep_memory_flat(device: str) -> None:
    """An endless chain: the safety net cuts windows, plans replay, memory stays flat."""
    steps = 500_000 if device == "cpu" else 20_000
    x = oracle.ours(np.array([1.0, 2.0, 3.0, 4.0], dtype="float32"), device)
    for warm in (60_000, 20_000):  # skip the first safety-net windows and the first read, which build plans
        for _ in range(warm):
            x = x * 0.9 + 1
        x.tolist()
    before = rss()
    with Delta() as seen:
        for i in range(steps):
            x = x * 0.9 + 1
            if i == steps // 2:
                assert stats()["nodes_executed"] > seen._before["nodes_executed"], (
                    "no work starts while recording goes on"
                )
        result = x.tolist()
    assert rss() - before < 32 << 20
    assert seen["plans_built"] <= 4
    assert seen["nodes_executed"] == 2 * steps
    np.testing.assert_allclose(result, [10.0] * 4, rtol=1.3e-6)


def test_draws_do_not_depend_on_the_order_of_reads(device: str) -> None:
    """The order of reads does not change the bits."""

    def draw(first: int) -> list[list[float]]:
        torchlette.manual_seed(11)
        pair = [torchlette.rand(4, device=device), torchlette.rand(4, device=device)]
        out: list[list[float]] = [[], []]
        for i in (first, 1 - first):
            out[i] = pair[i].tolist()
        return out

    assert draw(0) == draw(1)
    assert draw(0)[0] != draw(0)[1]


def test_a_thread_records_while_another_reads(device: str) -> None:
    """A thread records tensors while the main thread waits in reads: no error, right values."""
    made: list[torchlette.Tensor] = []
    failures: list[BaseException] = []

    def generate() -> None:
        try:
            for i in range(200):
                made.append(torchlette.full((8,), float(i), device=device) * 2)
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=generate)
    x = torchlette.ones(200, 200, device=device)
    thread.start()
    while thread.is_alive():
        x = (x @ x).tanh()
        x.sum().item()
    thread.join()
    assert not failures, failures
    assert [t[0].item() for t in made] == [2.0 * i for i in range(200)]


@linux
def test_dropped_tensors_leave_nothing(device: str) -> None:
    """10,000 tensors made and dropped without a read leave nothing."""
    base = levels()
    for _ in range(200):
        torchlette.ones(64, 64, device=device)
    warm = rss()
    for i in range(10_000):
        torchlette.full((64, 64), float(i), device=device)
    gc.collect()
    after = levels()
    assert after == {**after, **{k: base[k] for k in ("live_handles", "live_buffers", "live_nodes", "live_bases")}}
    assert rss() - warm < 16 << 20
