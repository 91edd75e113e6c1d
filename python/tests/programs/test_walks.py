"""The walks: programs the design must survive, each equal to PyTorch running the same lines.

Counters used (``torchlette.testing.counters.stats``): plans_built, plans_replayed, windows,
nodes_recorded, nodes_executed, nodes_pending, kernels_run, bytes_written, live_handles,
live_bases, live_nodes, tape_nodes, live_buffers, live_bytes, peak_bytes, pool_bytes.
Walks I (compiled regions) and N (checkpoint) belong to parts that the library does not have yet.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import oracle
import pytest
import torch

import torchlette
from torchlette.testing.counters import Delta, levels, stats


def rss() -> int:
    """Return the resident set in bytes."""
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")


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
def test_walk_a_unmodified_loop(device: str) -> None:
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
        if step in (99, 299):
            seen[step] = (rss(), now)

    with Delta() as total:
        ours = train(torchlette, watch)
    theirs = train(torch, lambda step: None)
    oracle.assert_equal(ours, theirs, "parameters")
    assert total["plans_built"] <= 4
    assert total["plans_replayed"] >= total["windows"] - 4
    per_step = total["nodes_recorded"] / 300
    assert longest <= 2 * per_step, "a window was longer than one step"
    (early, before), (late, after) = seen[99], seen[299]
    assert late - early < 8 << 20, "host memory grows"
    for level in ("live_nodes", "live_buffers", "live_bytes", "tape_nodes"):
        assert after[level] <= before[level], level


@linux
def test_walk_b_a_million_ops(device: str) -> None:
    """A chain without end: the safety net cuts windows, plans replay, memory stays flat."""
    steps = 500_000 if device == "cpu" else 20_000
    x = oracle.ours(np.array([1.0, 2.0, 3.0, 4.0], dtype="float32"), device)
    for warm in (60_000, 20_000):  # past the first safety-net windows, whose plans are built, and a read's after them
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


def test_walk_c_one_row(device: str) -> None:
    """An in-place write through a view writes that row and copies nothing."""
    # GPT-2's embedding; Mesa's software adapter binds 128 MiB at most.
    p = torchlette.zeros(50257 if device == "cpu" else 30_000, 768, device=device)
    p[1, 0].item()
    v = p[0]
    live = stats()["live_bytes"]
    with Delta() as seen:
        v.add_(1)
        p[0, :2].tolist()
    assert seen["bytes_written"] <= 768 * 4 + 64, "more than the row was written"
    assert stats()["live_bytes"] <= live + (1 << 16), "p was copied"
    row = p[0].numpy()
    np.testing.assert_array_equal(row, np.ones(768, dtype="float32"))
    assert p.sum().item() == 768.0


def test_walk_d_old_version(device: str) -> None:
    """A reader recorded before a write sees the old value; without it the store is in place."""

    def program(lib: Any, a: Any, b: Any) -> Any:
        c = a * 2
        a += b
        return c, a

    arrays = [np.arange(4, dtype="float32"), np.ones(4, dtype="float32")]
    oracle.same(program, arrays, device)

    n = 1 << 16
    a, b = torchlette.ones(n, device=device), torchlette.ones(n, device=device)
    (a + b).sum().item()
    live = stats()["live_bytes"]
    c = a * 2
    a += b
    del c
    np.testing.assert_array_equal(a.numpy(), np.full(n, 2.0, dtype="float32"))
    assert stats()["live_bytes"] <= live + 4096, "the store was not in place"


def test_walk_d2_overlap(device: str) -> None:
    """Overlapping in-place operands: PyTorch's error where it raises, else as if read first."""
    base = np.arange(12, dtype="float32")

    def shifted(lib: Any, x: Any) -> Any:
        x[1:] += x[:-1]
        return x

    def transposed(lib: Any, x: Any) -> Any:
        y = x.reshape(3, 4)[:, :3].clone()
        y.add_(y.t())
        return y

    def cloned(lib: Any, x: Any) -> Any:
        x[1:] = x[:-1].clone()
        return x

    for program in (shifted, transposed, cloned):
        try:
            program(torch, torch.tensor(base))
        except RuntimeError:
            oracle.same_error(program, [base], device)
        else:
            oracle.same(program, [base], device)


def test_walk_e_tape_outlives_the_window(device: str) -> None:
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


def test_walk_f_grad_accumulates_in_place(device: str) -> None:
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


def test_walk_f_saved_gradient_modified(device: str) -> None:
    """A graph that saved g before the second backward raises at its own backward."""
    p = oracle.ours(np.array([1.0, 2.0], dtype="float32"), device, requires_grad=True)
    w = oracle.ours(np.array([5.0, 6.0], dtype="float32"), device, requires_grad=True)
    (p * p).sum().backward()
    y = (p.grad * w).sum()  # saves p.grad
    (p * p).sum().backward()
    with pytest.raises(torchlette.SavedTensorModifiedError):
        y.backward()


def test_walk_g_views_and_history(device: str) -> None:
    """In-place on a view moves the base's history; leaf rules and detached aliases as PyTorch."""

    def through_view(lib: Any, a: Any, b: Any) -> Any:
        x = a * b
        v = x[0]
        v.mul_(2)
        x.sum().backward()
        return x, a.grad, b.grad

    rng = np.random.default_rng(2)
    arrays = [rng.standard_normal((3, 4)).astype("float32") for _ in range(2)]
    oracle.same(through_view, arrays, device, grad=True)

    def leaf(lib: Any, a: Any) -> None:
        a.requires_grad_()
        a.add_(1)

    def view_of_leaf(lib: Any, a: Any) -> None:
        a.requires_grad_()
        a[0].add_(1)

    oracle.same_error(leaf, arrays[:1], device)
    oracle.same_error(view_of_leaf, arrays[:1], device)

    def detached(lib: Any, a: Any, b: Any) -> Any:
        x = a * 1
        x.detach().zero_()
        (x + b).sum().backward()
        return x, a.grad

    oracle.same(detached, arrays, device, grad=True)

    def detached_saved(lib: Any, a: Any, b: Any) -> None:
        a.requires_grad_()
        b.requires_grad_()
        x = a * 1
        y = x * b
        x.detach().zero_()
        y.sum().backward()

    assert isinstance(oracle.same_error(detached_saved, arrays, device), torchlette.SavedTensorModifiedError)


def test_walk_h_in_place_on_fresh(device: str) -> None:
    """Nothing between creation and the write: twos."""
    a = torchlette.ones(4, device=device)
    a.add_(1)
    np.testing.assert_array_equal(a.numpy(), np.full(4, 2.0, dtype="float32"))


def test_walk_j_out_of_memory(device: str) -> None:
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


def test_walk_k_bad_index(device: str) -> None:
    """A bad index made on the device raises at the next boundary with its line; uploads raise at the call."""
    table = torchlette.ones(10, 4, device=device)
    index = torchlette.arange(3, device=device) * 7  # 0, 7, 14
    y = torchlette.nn.functional.embedding(index, table)  # the line to be named
    for _ in range(50):
        y = y * 1.01 + 1
    with pytest.raises(IndexError, match=r"test_walks\.py") as caught:
        y.sum().item()
    del caught
    assert (table + 1).sum().item() == 80.0, "the engine goes on"
    with pytest.raises(IndexError):
        torchlette.nn.functional.embedding(torchlette.tensor([0, 14], device=device), table)


WALK_L = """
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
def test_walk_l_ctrl_c(device: str) -> None:
    """Ctrl-C during mark_step returns within 200 ms; the next mark_step completes."""
    depth = 150 if device == "cpu" else 5
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(WALK_L.format(device=device, depth=depth))],
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.stdout.splitlines() == ["interrupted", "[1.0, 1.0]"], done.stdout + done.stderr


def test_walk_o_every_number_changes(device: str) -> None:
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


def test_walk_o_plans_in_steady_state(device: str) -> None:
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


def test_walk_p_draws_do_not_depend_on_reads(device: str) -> None:
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


def test_walk_q_forward_runs_once(device: str) -> None:
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


def test_walk_r_generator_thread(device: str) -> None:
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
def test_walk_s_dropped_tensors(device: str) -> None:
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
