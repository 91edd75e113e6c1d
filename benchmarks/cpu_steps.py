"""Training steps and small work on the CPU, 2 threads: against PyTorch eager with its fused AdamW, and without."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import demo_step
from measure import Row, race
from steps import DISTIL, gpt2_steps, library, models

OPS = 100
CHAIN = 1000


def mlp_steps(name: str) -> Callable[[], float]:
    """Return a function that makes 20 steps of a 16-wide net of three layers."""
    lib, gpt2 = library(name), models(name)
    lib.manual_seed(0)
    return gpt2.fit(gpt2.mlp(16, 3), lib.randn(8, 16), lib.randn(8, 16), 20)


def linear_calls(name: str) -> Callable[[], Any]:
    """Return a function that calls ``nn.Linear(16, 16)`` 100 times and reads the last result."""
    lib = library(name)
    layer, x = lib.nn.Linear(16, 16), lib.randn(4, 16)

    def run() -> list[Any]:
        with lib.no_grad():
            for _ in range(OPS):
                y = layer(x)
        return y.tolist()

    return run


def small_ops(name: str) -> Callable[[], Any]:
    """Return a function that makes 100 small ops forward and backward and reads the gradient."""
    lib = library(name)

    def run() -> list[float]:
        x = lib.ones(16, requires_grad=True)
        y = x
        for _ in range(OPS // 2):
            y = y * 0.99
            y = y + x
        y.sum().backward()
        return x.grad.tolist()

    return run


def chain(name: str) -> Callable[[], Any]:
    """Return a function that makes a chain of 1,000 small ops without gradients."""
    lib = library(name)
    x = lib.ones(16)

    def run() -> list[float]:
        y = x
        for _ in range(CHAIN // 2):
            y = y * 0.999
            y = y + x
        return y.tolist()

    return run


def compare(name: str, make: Callable[[str], Callable[[], Any]], count: int, rounds: int = 7) -> Row:
    """Race one case; ``count`` pieces of work a call."""
    ours, theirs = race(make("torchlette"), make("torch"), rounds=rounds)
    return Row(name, ours / count, theirs / count)


def rows() -> list[Row]:
    """Measure every case."""
    steps = demo_step.EVERY
    out = [
        compare("one small op in a chain of 1,000", chain, CHAIN),
        compare("100 small ops, forward and backward", small_ops, OPS),
        compare("nn.Linear(16, 16) call", linear_calls, OPS),
        compare("16-wide net of three layers, step", mlp_steps, 20),
        compare("step, GPT 4L128, B8 T64", lambda lib: gpt2_steps(lib, "cpu", (4, 4, 128), 8, 64, steps, vocabulary=90), steps, rounds=3),
    ]
    for length in (31, 128):
        out.append(compare(f"step, DistilGPT-2 shape, B1 T{length}", lambda lib, n=length: gpt2_steps(lib, "cpu", DISTIL, 1, n, 2), 2, rounds=3))
    return out
