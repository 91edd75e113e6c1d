"""Training steps on shapes that were never seen before, on the CPU: every sentence has another length, every solve
another number of steps.

A window of a new shape needs a plan of its own, so each step here pays for building one. ``plans`` is the number of
plans, and ``seen`` is the ratio once every length has been seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from statistics import median
from typing import Any

from measure import Row, main, seconds
from steps import library, models

import torchlette

LENGTHS = range(10, 34)
TOKENS, WIDTH, BATCH = 50, 64, 8


def _order() -> list[int]:
    """Return the lengths, neighbours far apart."""
    return [LENGTHS[i * 7 % len(LENGTHS)] for i in range(len(LENGTHS))]


def trainer(lib: Any, parameters: Any, loss: Callable[[int], Any]) -> Callable[[int], float]:
    """Return a function that makes one step of Adam on a loss of that length and reads the loss."""
    optimizer = lib.optim.Adam(parameters, 1e-3)

    def step(length: int) -> float:
        optimizer.zero_grad()
        value = loss(length)
        value.backward()
        optimizer.step()
        return value.item()

    return step


def lstm(name: str) -> Callable[[int], float]:
    """Two layers of ``nn.LSTM`` over a batch of sentences."""
    lib = library(name)
    net = lib.nn.ModuleList(
        [lib.nn.Embedding(TOKENS, WIDTH), lib.nn.LSTM(WIDTH, WIDTH, 2, batch_first=True), lib.nn.Linear(WIDTH, TOKENS)]
    )

    def loss(length: int) -> Any:
        x = lib.randint(0, TOKENS, (BATCH, length + 1))
        y = net[2](net[1](net[0](x[:, :-1]))[0])
        return lib.nn.functional.cross_entropy(y.flatten(0, 1), x[:, 1:].flatten())

    return trainer(lib, net.parameters(), loss)


def gru_cell(name: str) -> Callable[[int], float]:
    """``nn.GRUCell`` in a loop of Python, with a loss at each time step."""
    lib = library(name)
    net = lib.nn.ModuleList(
        [lib.nn.Embedding(TOKENS, WIDTH), lib.nn.GRUCell(WIDTH, WIDTH), lib.nn.Linear(WIDTH, TOKENS)]
    )

    def loss(length: int) -> Any:
        x = lib.randint(0, TOKENS, (BATCH, length + 1))
        h, total = lib.zeros(BATCH, WIDTH), 0.0
        for t in range(length):
            h = net[1](net[0](x[:, t]), h)
            total = total + lib.nn.functional.cross_entropy(net[2](h), x[:, t + 1])
        return total / length

    return trainer(lib, net.parameters(), loss)


def runge_kutta(name: str) -> Callable[[int], float]:
    """A neural differential equation, solved in that many steps of the fourth order."""
    lib = library(name)
    net = lib.nn.Sequential(lib.nn.Linear(2, 50), lib.nn.Tanh(), lib.nn.Linear(50, 2))
    start = lib.randn(20, 2)

    def loss(length: int) -> Any:
        y, times = start, lib.linspace(0, 1, length)
        for a, b in zip(times[:-1], times[1:], strict=True):
            h = b - a
            k1 = net(y)
            k2 = net(y + h / 2 * k1)
            k3 = net(y + h / 2 * k2)
            y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + net(y + h * k3))
        return (y**2).mean()

    return trainer(lib, net.parameters(), loss)


def gpt(name: str) -> Callable[[int], float]:
    """A GPT of 12 layers, 64 wide."""
    lib = library(name)
    net = models(name).GPT2(TOKENS, LENGTHS[-1], 12, 4, WIDTH)

    def loss(length: int) -> Any:
        x = lib.randint(0, TOKENS, (4, length + 1))
        return lib.nn.functional.cross_entropy(net(x[:, :-1]).flatten(0, 1), x[:, 1:].flatten())

    return trainer(lib, net.parameters(), loss)


def rows() -> Iterator[Row]:
    """Measure each, both libraries in turns, a length after the other."""
    torchlette.set_default_device("cpu")
    for make in (lstm, gru_cell, runge_kutta, gpt):
        sides = [make(name) for name in ("torchlette", "torch")]
        sides[1](LENGTHS[0])
        before = torchlette.stats()["plans_built"]
        new, seen = ([[seconds(lambda s=s, n=n: s(n)) for s in sides] for n in _order()] for _ in range(2))
        plans = torchlette.stats()["plans_built"] - before
        (ours, theirs), (later, theirs_later) = (
            [median(side) for side in zip(*times, strict=True)] for times in (new, seen)
        )
        yield Row(
            f"{make.__name__}, a new length each step",
            ours,
            theirs,
            detail={"seen": later / theirs_later, "plans": plans},
        )


if __name__ == "__main__":
    main("new_shapes", rows)
