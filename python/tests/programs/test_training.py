"""Training loops give PyTorch's trajectory, with few plans, flat memory and every forward pass run once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import oracle
import pytest
import torch
from host import linux, rss

import torchlette
from torchlette.testing.counters import Delta, stats


def mlp(lib: Any, weights: list[np.ndarray], device: str) -> list[Any]:
    """Return the parameters of a two-layer net on either side."""
    if lib is torch:
        return [oracle.theirs(w, requires_grad=True) for w in weights]
    return [oracle.ours(w, device, requires_grad=True) for w in weights]


def mlp_loss(lib: Any, p: list[Any], x: Any, y: Any) -> Any:
    """Return the squared error of the net."""
    h = lib.nn.functional.gelu(lib.nn.functional.linear(x, p[0], p[1]))
    return ((lib.nn.functional.linear(h, p[2], p[3]) - y) ** 2).mean()


def mlp_arrays(seed: int = 0) -> tuple[list[np.ndarray], np.ndarray, np.ndarray]:
    """Return weights, inputs and targets."""
    rng = np.random.default_rng(seed)
    shapes = [(16, 8), (16,), (4, 16), (4,)]
    weights = [(rng.standard_normal(s) * 0.3).astype("float32") for s in shapes]
    return weights, rng.standard_normal((6, 8)).astype("float32"), rng.standard_normal((6, 4)).astype("float32")


def put(lib: Any, array: np.ndarray, device: str) -> Any:
    """Return the array as a tensor of ``lib``."""
    return oracle.theirs(array) if lib is torch else oracle.ours(array, device)


@linux
def test_a_training_loop_keeps_memory_flat_and_builds_few_plans(device: str) -> None:
    """300 steps without mark_step: equal, memory flat, few plans, no window longer than a step."""
    weights, x, y = mlp_arrays()

    def train(lib: Any, watch: Callable[[int], None]) -> list[Any]:
        p = mlp(lib, weights, device)
        opt = lib.optim.SGD(p, lr=0.05, momentum=0.9)
        xs, ys = put(lib, x, device), put(lib, y, device)
        for step in range(300):
            opt.zero_grad()
            loss = mlp_loss(lib, p, xs, ys)
            loss.backward()
            opt.step()
            if step % 100 == 99:
                loss.item()
            watch(step)
        return p

    seen: dict[int, tuple[int, dict[str, int]]] = {}
    longest = 0

    def watch(step: int) -> None:
        nonlocal longest
        now = stats()
        longest = max(longest, now["nodes_pending"])
        if step in (99, 199, 299):
            seen[step] = (rss(), now)

    with Delta() as total:
        ours = train(torchlette, watch)
    theirs = train(torch, lambda step: None)
    oracle.assert_equal(ours, theirs, "parameters")
    assert total["plans_built"] <= 4
    assert total["plans_replayed"] >= total["windows"] - 4
    per_step = total["nodes_recorded"] / 300
    assert longest <= 2 * per_step, "a window was longer than one step"
    (early, before), (middle, _), (late, after) = seen[99], seen[199], seen[299]
    # Threads of the driver and of tests before this one may allocate meanwhile, once.
    assert min(middle - early, late - middle) < 4 << 20, "host memory grows"
    for level in ("live_nodes", "live_buffers", "live_bytes", "tape_nodes"):
        assert after[level] <= before[level], level


def test_the_tape_outlives_the_window_of_the_forward_pass(device: str) -> None:
    """mark_step between forward and backward changes no gradient."""

    def program(lib: Any, w: Any, x: Any) -> Any:
        h = (x @ w).tanh()
        if lib is torchlette:
            torchlette.mark_step()
        h.sum().backward()
        return w.grad, x.grad

    rng = np.random.default_rng(1)
    oracle.same(
        program,
        [rng.standard_normal((3, 4)).astype("float32"), rng.standard_normal((2, 3)).astype("float32")],
        device,
        grad=True,
    )


def test_a_kept_gradient_sees_the_next_accumulation(device: str) -> None:
    """A kept ``g = p.grad`` sees the second accumulation, and outlives zero_grad."""

    def program(lib: Any, p: Any) -> Any:
        (p * p).sum().backward()
        g = p.grad
        if lib is torchlette:
            torchlette.mark_step()
        (p * 3).sum().backward()
        seen = g.clone()
        p.grad = None
        assert p.grad is None
        return seen, g

    oracle.same(program, [np.array([1.0, -2.0, 3.0], dtype="float32")], device, grad=True)

    opt_p = oracle.ours(np.ones(3, dtype="float32"), device, requires_grad=True)
    (opt_p * 2).sum().backward()
    kept = opt_p.grad
    torchlette.optim.SGD([opt_p], lr=0.1).zero_grad(set_to_none=True)
    assert opt_p.grad is None
    assert kept.tolist() == [2.0, 2.0, 2.0]


def test_a_saved_gradient_that_is_accumulated_into_raises(device: str) -> None:
    """A graph that saved g before the second backward raises at its own backward."""
    p = oracle.ours(np.array([1.0, 2.0], dtype="float32"), device, requires_grad=True)
    w = oracle.ours(np.array([5.0, 6.0], dtype="float32"), device, requires_grad=True)
    (p * p).sum().backward()
    y = (p.grad * w).sum()  # saves p.grad
    (p * p).sum().backward()
    with pytest.raises(torchlette.SavedTensorModifiedError):
        y.backward()


def test_numbers_that_change_at_every_step_train_as_in_pytorch(device: str) -> None:
    """AdamW with weight decay equal to the first learning rate, cosine schedule, moving cache position."""
    weights, x, y = mlp_arrays(3)

    def train(lib: Any) -> list[list[Any]]:
        p = mlp(lib, weights, device)
        opt = lib.optim.AdamW(p, lr=0.01, weight_decay=0.01)
        schedule = lib.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=50)
        xs, ys = put(lib, x, device), put(lib, y, device)
        cache = lib.zeros(6, 50, 4) if lib is torch else lib.zeros(6, 50, 4, device=device)
        trajectory = []
        for pos in range(50):
            opt.zero_grad()
            loss = mlp_loss(lib, p, xs, ys) + 0.01 * sum((w**2).sum() for w in p)
            loss.backward()
            opt.step()
            schedule.step()
            cache[:, pos] = ys * pos
            if pos % 10 == 9:
                trajectory.append([w.detach().clone() for w in p])
        return [*trajectory, [cache]]

    with Delta() as seen:
        ours = train(torchlette)
        for group in ours:
            for t in group:
                t.tolist()
    oracle.assert_equal(ours, train(torch), "trajectory")
    assert seen["plans_built"] <= 4 + len(ours) * 4, "numbers are baked into plans"


def test_numbers_that_change_at_every_step_build_no_plans(device: str) -> None:
    """After the first steps no plan is built although every number changes."""
    weights, x, y = mlp_arrays(4)
    p = mlp(torchlette, weights, device)
    opt = torchlette.optim.AdamW(p, lr=0.01, weight_decay=0.01)
    schedule = torchlette.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=50)
    xs, ys = put(torchlette, x, device), put(torchlette, y, device)
    cache = torchlette.zeros(6, 50, 4, device=device)
    with Delta() as seen:
        for pos in range(50):
            opt.zero_grad()
            mlp_loss(torchlette, p, xs, ys).backward()
            opt.step()
            schedule.step()
            cache[:, pos] = ys * pos
    assert seen["plans_built"] <= 4


def test_a_loss_read_before_backward_runs_the_forward_pass_once(device: str) -> None:
    """Reading the loss before backward does not run the forward again."""
    weights, x, y = mlp_arrays(5)
    p = mlp(torchlette, weights, device)
    xs, ys = put(torchlette, x, device), put(torchlette, y, device)
    with Delta() as seen:
        loss = mlp_loss(torchlette, p, xs, ys)
        loss.item()
        loss.backward()
        for w in p:
            w.grad.tolist()
    assert seen["nodes_executed"] <= seen["nodes_recorded"], "a node ran twice"
