"""Programs of many small calls with one read at the end: what recording, planning and running them costs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from measure import Row, main, race

import torchlette
import torchlette.nn

#: Runs in one timing: many, since the first ones of a turn find cold caches.
RUNS = 300


def _op_and_read(lib: Any) -> Callable[[], Any]:
    x = lib.ones(4096, device="cpu")
    return lambda: (x + 1).numpy()


def _rows_written(lib: Any) -> Callable[[], Any]:
    buffer, rows = lib.zeros(100, 4, device="cpu"), [lib.ones(4, device="cpu") * i for i in range(100)]
    for r in rows:
        r.tolist()

    def run() -> None:
        for i, r in enumerate(rows):
            buffer[i] = r
        buffer.numpy()

    return run


def _stacked(lib: Any) -> Callable[[], Any]:
    parts = [lib.ones(8, device="cpu") for _ in range(200)]
    return lambda: lib.stack(parts).mean().item()


def _action(lib: Any) -> Callable[[], Any]:
    nn = lib.nn
    net = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 2)).to("cpu")
    x = lib.ones(4, device="cpu")

    def run() -> None:
        with lib.no_grad():
            net(x).argmax().item()

    return run


PROGRAMS: dict[str, Callable[[Any], Callable[[], Any]]] = {
    "x + 1 of 4,096 floats, read": _op_and_read,
    "100 rows of 4 floats written, read": _rows_written,
    "stack of 200 x 8 floats, mean, read": _stacked,
    "action of a 4-64-64-2 net, item": _action,
}


def _repeated(run: Callable[[], Any]) -> Callable[[], Any]:
    return lambda: [run() for _ in range(RUNS)]


def rows() -> Iterator[Row]:
    """Measure each program."""
    for name, make in PROGRAMS.items():
        a, b = race(_repeated(make(torchlette)), _repeated(make(torch)), rounds=31)
        yield Row(name, a / RUNS, b / RUNS)


if __name__ == "__main__":
    main("small_programs", rows)
