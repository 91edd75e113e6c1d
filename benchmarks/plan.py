"""Replay: finding a window's plan by its key, and binding and running it, per node of a window of 3,000."""

from __future__ import annotations

from collections.abc import Iterator

from measure import Row, main

import torchlette
from torchlette.testing.counters import Delta

NODES = 3_000
ROUNDS = 20


def _window(x: torchlette.Tensor) -> None:
    for _ in range(NODES // 2):
        x = x * 0.999 + 0.5
    x.tolist()


def rows() -> Iterator[Row]:
    """Measure the same window again and again; every round after the first replays."""
    x = torchlette.ones(4, device="cpu")
    x.tolist()  # else the first window also makes x
    _window(x)
    with Delta() as seen:
        for _ in range(ROUNDS):
            _window(x)
    if seen["plans_built"] or seen["plans_replayed"] < ROUNDS:
        raise RuntimeError(f"windows were not replayed: built {seen['plans_built']}, replayed {seen['plans_replayed']}")
    nodes = seen["nodes_executed"]
    for part in ("key", "run"):
        yield Row(f"replay: {part} per node", seen[f"{part}_ns"] / nodes * 1e-9, None)


if __name__ == "__main__":
    main("plan", rows)
