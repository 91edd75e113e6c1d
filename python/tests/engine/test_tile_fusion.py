"""The CPU runs neighbouring maps tile by tile: values, gradients and memory, with and without buffers for
intermediates.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import oracle
import pytest
import torch

import torchlette

N = 12_000

SMOOTH = (
    lambda lib, x, y: x + y,
    lambda lib, x, y: x * y,
    lambda lib, x, y: x - y * 0.5,
    lambda lib, x, y: lib.maximum(x, y),
    lambda lib, x, y: lib.tanh(x),
    lambda lib, x, y: x[: N // 2].repeat(2) + y,
    lambda lib, x, y: x.clone().add_(y).mul_(0.5),
    lambda lib, x, y: x.mean() + y,
    lambda lib, x, y: (x.reshape(-1, 4) + y[:4]).flatten(),
)
#: Near a step or a rounding tie a small error becomes a large one: only torchlette's own results are compared.
STEPS = (
    lambda lib, x, y: lib.where(x > y, x, -y),
    lambda lib, x, y: x.half().float() + y,
    lambda lib, x, y: (x > 0).float() - y,
    lambda lib, x, y: (x * 8).int().float() / 8,
    lambda lib, x, y: lib.where(x.bfloat16() == y.bfloat16(), y, x.double().float()),
)


def program(lib: Any, x: Any, seed: int, maps: tuple[Any, ...] = SMOOTH) -> list[Any]:
    """Make a chain of random maps, each of two of the last few values; give all values."""
    rng = random.Random(seed)
    values = [x, x * 0.5]
    for _ in range(rng.randrange(4, 30)):
        values.append(rng.choice(maps)(lib, rng.choice(values[-4:]), rng.choice(values[-4:])).clamp(-100, 100))
    return values


def operand(seed: int, grad: bool = False) -> tuple[torchlette.Tensor, torch.Tensor]:
    """Give the same floats to both libraries."""
    a = np.random.default_rng(seed).standard_normal(N).astype("float32")
    return oracle.ours(a, "cpu", requires_grad=grad), oracle.theirs(a, requires_grad=grad)


@pytest.mark.parametrize("seed", range(24))
def test_values_are_the_same_bits_whether_intermediates_are_held_or_not(seed: int) -> None:
    x, _ = operand(seed)
    every = program(torchlette, x, seed, SMOOTH + STEPS)  # all are held, each in a buffer
    want = every[-1].tolist()
    for _ in range(3):  # the plan is built, then replayed
        held = program(torchlette, x, seed, SMOOTH + STEPS)
        last = held.pop()
        del held
        assert last.tolist() == want


@pytest.mark.parametrize("seed", range(12))
def test_values_and_gradients_are_pytorchs(seed: int) -> None:
    results = []
    for lib, x in zip((torchlette, torch), operand(seed, grad=True), strict=True):
        y = program(lib, x, seed)[-1] * 0.1
        y.square().sum().backward()
        results.append((y, x.grad))
    oracle.assert_equal(*results, rtol=1e-4, atol=1e-4)


def test_a_chain_takes_no_memory_for_what_only_it_knows() -> None:
    n = 1 << 18
    x = torchlette.rand(n, device="cpu")
    x.sum().item()

    def most(f: Any) -> float:
        torchlette._C._set_option("reset_peak", "")
        before = torchlette.memory_stats()["cpu"]["live_bytes"]
        y = f()
        torchlette.realize(y)
        return (torchlette.memory_stats()["cpu"]["peak_bytes"] - before) / (4 * n)

    def gelu() -> torchlette.Tensor:
        return ((x * x * x * 0.044715 + x) * 0.7978845608).tanh() * (x * 0.5) + x * 0.5

    for _ in range(4):
        assert most(gelu) == pytest.approx(1, abs=0.1)
    seen = []
    assert most(lambda: seen.append(x * 2) or (seen[0] + x) * x) == pytest.approx(2, abs=0.1), "one is held"
    assert seen[0].tolist() == (x * 2).tolist()


def test_views_of_other_offsets_replay_a_chain() -> None:
    """One plan serves all offsets; unbuffered intermediates have no offset."""
    x = torch.rand(4 * N)
    ours = torchlette.tensor(x.tolist(), device="cpu")
    for k in (0, 1, 5, N, 2 * N + 3):
        parts = [((v[k : k + N] * 2 + v[: 2 * N].narrow(0, 7, N)) * v[k : k + N]).sin() for v in (ours, x)]
        oracle.assert_equal(*parts)
    y, want = ours.clone(), x.clone()
    for k in (0, 3, N):
        for v in (y, want):
            v[k : k + N] = v[k : k + N] * 2 + v[2 * N : 3 * N]
            v.mul_(0.5)
        oracle.assert_equal(y, want)


def test_a_profile_has_every_step_of_a_chain() -> None:
    x = torchlette.rand(1 << 16, device="cpu")
    for _ in range(2):
        with torchlette.profiler.profile() as p:
            (((x * 2).tanh() + x) * 3).tolist()
        events = {name: e for e in p.events() for name in e.name.split("+")}
        assert {"mul", "tanh", "add"} <= set(events)
        assert sum(e.duration_ns for e in p.events()) > 0
        assert events["tanh"].duration_ns > 0
