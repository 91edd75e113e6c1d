"""Soak: a million eager ops and 3,000 training steps; memory must stay flat and no plan may be built late."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

from measure import Row, main, seconds

import torchlette
from torchlette.testing.counters import stats

OPS = 1_000_000
STEPS = 3_000
#: Bytes of growth after warm-up that count as flat: allocator noise.
FLAT = 16 << 20


def _rss() -> int:
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _watch(name: str, count: int, warm: int, step: Callable[[int], Any], finish: Callable[[], Any]) -> Row:
    for i in range(warm):
        step(i)
    finish()
    rss, before = _rss(), stats()

    def body() -> None:
        for i in range(count):
            step(i)
        finish()

    took = seconds(body)
    grown, after = _rss() - rss, stats()
    built = after["plans_built"] - before["plans_built"]
    device_bytes = after["live_bytes"] + after["pool_bytes"] - before["live_bytes"] - before["pool_bytes"]
    if grown > FLAT or device_bytes > FLAT or built > 4:
        raise RuntimeError(
            f"{name}: RSS grew by {grown}, device memory by {device_bytes} bytes, {built} plans were built"
        )
    return Row(
        name, took / count, None, detail={"rss_growth": grown, "device_growth": device_bytes, "plans_built": built}
    )


def _eager() -> Row:
    state = [torchlette.ones(4, device="cpu")]

    def step(i: int) -> None:
        state[0] = state[0] * 0.9 + 1.0

    return _watch("soak: two eager ops", OPS // 2, 40_000, step, lambda: state[0].tolist())


def _training() -> Row:
    torchlette.manual_seed(0)
    nn = torchlette.nn
    net = nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Dropout(0.1), nn.Linear(128, 10))
    opt = torchlette.optim.AdamW(net.parameters(), lr=1e-3)
    schedule = torchlette.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=STEPS)
    x, y = torchlette.randn(32, 64), torchlette.randint(0, 10, (32,))

    def step(i: int) -> None:
        opt.zero_grad()
        loss = nn.functional.cross_entropy(net(x), y)
        loss.backward()
        opt.step()
        schedule.step()
        if i % 100 == 0:
            loss.item()

    return _watch("soak: training step", STEPS, 50, step, torchlette.mark_step)


def rows() -> Iterator[Row]:
    """Run both; raise where something grows."""
    torchlette.set_default_device("cpu")  # a GPU would be the default
    yield _eager()
    yield _training()


if __name__ == "__main__":
    main("soak", rows)
