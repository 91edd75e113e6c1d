"""Loops that keep carries in registers have PyTorch's values, and say which path they take."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import torchlette
import torchlette.torch as facade
from torchlette import lax


@pytest.fixture(autouse=True)
def _seeded() -> None:
    """Draw the same data in every run: loops amplify what is rounded."""
    torch.manual_seed(0)


def kalman(mod: Any, s: Any) -> Any:
    mean, cov = s[0], s[1:]
    gain = cov[:, 0] / (cov[0, 0] + 0.5)
    return mod.stack([mean + gain * (1.0 - mean[0]), *(cov - gain[:, None] * cov[0][None, :] + 0.01)])


def rows(mod: Any, s: Any) -> Any:
    """A batch of small problems: each has a lane."""
    return mod.tanh(s * 0.5 + (s * s).sum(-1, keepdim=True) * 0.1)


BODIES: dict[str, tuple[tuple[int, ...], Callable[[Any, Any], Any]]] = {
    "scalar": ((), lambda mod, x: x * 0.99 + 0.1),
    "functions of 5": ((5,), lambda mod, x: mod.sin(x) + mod.exp(-x) * 0.1),
    "37": ((37,), lambda mod, x: mod.where(x > 0.3, x * 0.5, x + 0.1)),
    "product": ((4, 4), lambda mod, x: x @ x * 0.5),
    "vector and matrix": ((3, 2), lambda mod, x: mod.softmax(x, 1) + x.sum(0) * 0.1),
    "Kalman": ((3, 2), kalman),
    "batch of rows": ((6, 3), rows),
    "turn": ((2,), lambda mod, x: mod.stack([x[1], -x[0]])),
}


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("reverse", [False, True])
def test_small_bodies_on_path_a_have_the_values_and_gradients_of_pytorch(name: str, reverse: bool, device: str) -> None:
    shape, f = BODIES[name]
    length = 3000 if device == "cpu" and not reverse else 20
    data = torch.rand(shape) * 0.4
    xs = torch.rand(length, *shape) * 0.1

    def ours(x: Any, add: Any) -> tuple[Any, Any]:
        return lax.scan(lambda c, v: (f(facade, c) + v, c), x, add, reverse=reverse, accept_path="A")

    x = facade.tensor(data.tolist(), device=device, requires_grad=True)
    found = lax.loop_report(ours)(x, facade.tensor(xs.tolist(), device=device))
    assert [(p.path, p.reason) for p in found] == [("A", "")]
    assert found[0].device.startswith(device)
    last, ys = ours(x, facade.tensor(xs.tolist(), device=device))
    assert last.device.type == device
    y, kept = data.requires_grad_(), []
    for i in reversed(range(length)) if reverse else range(length):
        kept.append(y)
        y = f(torch, y) + xs[i]
    if reverse:
        kept.reverse()
    grad = torch.autograd.grad((y * y).sum() + torch.stack(kept).mean(), data)[0]
    mine = facade.autograd.grad((last * last).sum() + ys.mean(), x)[0]
    for got, want in ((last, y), (ys, torch.stack(kept)), (mine, grad)):
        torch.testing.assert_close(torch.tensor(got.tolist()).reshape(want.shape), want.detach(), rtol=1e-3, atol=1e-5)


def convolution(mod: Any, x: Any) -> Any:
    return mod.tanh(mod.nn.functional.conv1d(x[None], mod.stack([x, x * 0.5], 2), padding=1)[0, :, :4])


def affine(mod: Any, x: Any) -> Any:
    return mod.tanh(mod.nn.functional.linear(x, x, x[0]))


def batch_of_products(mod: Any, x: Any) -> Any:
    """The rows of all matrices are those of one product, to which a matrix is added."""
    small = x.reshape(2, 2, 4)
    return mod.tanh(small @ x + x[:2]).reshape(4, 4)


@pytest.mark.parametrize("f", [convolution, affine, batch_of_products])
def test_products_of_every_form_have_one_of_scalars(f: Callable[[Any, Any], Any], device: str) -> None:
    data, length = torch.rand(4, 4) * 0.4, 4
    x = facade.tensor(data.tolist(), device=device, requires_grad=True)
    last = lax.fori_loop(0, length, lambda i, v: f(facade, v), x, accept_path="A")
    y = data.requires_grad_()
    for _ in range(length):
        y = f(torch, y)
    torch.testing.assert_close(torch.tensor(last.tolist()), y.detach())
    mine = facade.autograd.grad((last * last).mean(), x)[0]
    torch.testing.assert_close(torch.tensor(mine.tolist()), torch.autograd.grad((y * y).mean(), data)[0])


@pytest.mark.parametrize("dtype", ["float64", "int64", "int32", "bfloat16", "float16", "uint8"])
def test_carries_of_every_dtype_are_rounded_as_stores_round(dtype: str) -> None:
    x, y = facade.arange(7).to(getattr(facade, dtype)), torch.arange(7).to(getattr(torch, dtype))
    for _ in range(2000):
        y = y * 3 + 1 if not y.is_floating_point() else y * 0.99 + 0.3
    step = (lambda i, v: v * 0.99 + 0.3) if y.is_floating_point() else (lambda i, v: v * 3 + 1)
    assert lax.fori_loop(0, 2000, step, x).tolist() == y.tolist()


def test_a_condition_ends_a_loop_in_registers() -> None:
    def halved(x: Any) -> Any:
        return lax.while_loop(lambda c: c[0] > 1, lambda c: (c[0] * 0.5, c[1] + 1), (x, 0), accept_path="A")

    for value, steps in ((0.5, 0), (3.0, 2), (1e30, 100)):
        assert int(halved(facade.tensor(value))[1]) == steps
    assert int(lax.while_loop(lambda n: n < 300_000, lambda n: n + 3, facade.tensor(1))) == 300_001


def test_loops_get_machine_code_once_hot() -> None:
    before = torchlette.stats()["device_loops_machine_code"]
    lax.fori_loop(0, 100_000, lambda i, v: v * 0.5 + 0.123, facade.ones(3)).tolist()
    made = torchlette.stats()["device_loops_machine_code"] - before
    path = lax.loop_report(lambda: lax.fori_loop(0, 9, lambda i, v: v * 0.5, facade.ones(3)))()[0].path
    assert made == (path == "A")


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (lambda v: facade.linalg.inv(v + 9 * facade.eye(3)), "neither elementwise nor a small product"),
        (lambda v: v + facade.rand(3, 3), "draws random numbers"),
        (lambda v: facade.sort(v, 0)[0], "neither elementwise nor a small product"),
    ],
)
def test_the_report_says_what_keeps_a_body_from_registers(body: Callable[[Any], Any], reason: str) -> None:
    def run(**options: Any) -> Any:
        return lax.fori_loop(0, 3, lambda i, v: body(v), facade.eye(3), **options)

    found = lax.loop_report(run)()
    assert found[0].path == "C"
    assert reason in found[0].reason
    assert found[0].length == 3
    with pytest.raises(RuntimeError, match=f"takes path C on cpu, which accept_path='A' excludes: .*{reason}"):
        run(accept_path="A")
    run(accept_path={"A", "C"})
    with pytest.raises(ValueError, match="want some of A, B and C"):
        run(accept_path="D")


def test_loops_without_a_form_for_a_gpu_run_on_the_cpu() -> None:
    x = facade.ones(30, 30, device="wgpu")
    found = lax.loop_report(lambda: lax.fori_loop(0, 3, lambda i, v: facade.linalg.eigh(v)[1], x))()
    assert (found[0].path, found[0].device) == ("C", "cpu")
    assert "a GPU does not unroll: eigh" in found[0].reason
    # A long loop repeats kernels: 4,101 iterations of a sort change the order 4,101 times.
    turns = lax.fori_loop(0, 4101, lambda i, v: v.sort().values.flip(0) * -1, facade.arange(4.0, device="wgpu"))
    found = lax.loop_report(lambda: lax.fori_loop(0, 4101, lambda i, v: v.sort().values, x[0]))()
    assert (found[0].path, found[0].device) == ("C", "wgpu:0")
    assert turns.tolist() == [-3.0, -2.0, -1.0, -0.0]
    ends = lax.while_loop(lambda v: v.sum() < 1000, lambda v: v * 2, x)
    assert ends.device.type == "wgpu"
    assert ends.sum().item() == 1800


def test_a_gpu_ends_loops_of_registers_by_their_condition() -> None:
    """Nothing travels: the condition is a carry of the kernel."""
    x, most = facade.arange(5.0, device="wgpu"), facade.tensor(4, device="wgpu")

    def counted(x: Any, most: Any) -> Any:
        return lax.fori_loop(0, most, lambda i, v: v * 0.5 + i, x)

    def grows(x: Any, most: Any) -> Any:
        return lax.while_loop(lambda c: c[0] < most, lambda c: (c[0] + 1, c[1] * 2), (most * 0, x), accept_path="A")[1]

    def chosen(x: Any, most: Any) -> Any:
        return lax.cond(most > 3, lambda v: facade.sin(v) * 2, lambda v: v - most, x)

    want = torch.arange(5.0)
    halves = want
    for i in range(4):
        halves = halves * 0.5 + i
    for f, result in ((counted, halves), (grows, want * 16), (chosen, torch.sin(want) * 2)):
        found = lax.loop_report(f)(x, most)
        assert found
        assert {(p.path, p.device, p.reason) for p in found} == {("A", "wgpu:0", "")}
        got = f(x, most)
        assert got.device.type == "wgpu"
        torch.testing.assert_close(torch.tensor(got.tolist()), result)
    none = counted(x, facade.tensor(0, device="wgpu"))
    assert none.tolist() == want.tolist()
    for most, grad in ((4, 2 * torch.cos(want)), (3, torch.ones(5))):
        y = x.clone().requires_grad_()
        chosen(y, facade.tensor(most, device="wgpu")).sum().backward()
        torch.testing.assert_close(torch.tensor(y.grad.tolist()), grad)


@pytest.mark.parametrize("reverse", [False, True])
def test_a_loop_of_more_iterations_than_a_dispatch_runs_stays_on_the_gpu(reverse: bool) -> None:
    """A software driver runs 65,535 iterations in a dispatch. Further ones go on at the next places."""
    length = 66_000
    data = [torch.rand(2), torch.rand(length, 2)]
    args = [facade.tensor(t.tolist(), device="wgpu", requires_grad=True) for t in data]

    def ours(x: Any, xs: Any) -> Any:
        return lax.scan(lambda c, v: (c * 0.5 + v * v, c + v), x, xs, reverse=reverse, accept_path="A")

    found = lax.loop_report(ours)(*args)
    assert [(p.path, p.device, p.reason) for p in found] == [("A", "wgpu:0", "")]
    last, ys = ours(*args)
    weights = torch.arange(length * 2.0).reshape(length, 2) % 5
    mine = facade.autograd.grad(last.sum() + (ys * facade.tensor(weights.tolist(), device="wgpu")).sum(), args)
    leaves = [t.requires_grad_() for t in data]
    y, kept = leaves[0], []
    places = leaves[1].unbind()
    for v in reversed(places) if reverse else places:
        kept.append(y + v)
        y = y * 0.5 + v * v
    stacked = torch.stack(kept[::-1] if reverse else kept)
    want = torch.autograd.grad(y.sum() + (stacked * weights).sum(), leaves)
    for got, right in zip((last, ys, *mine), (y, stacked, *want), strict=True):
        torch.testing.assert_close(torch.tensor(got.tolist()), right.detach())
    counted = lax.fori_loop(0, 150_000, lambda i, v: v + 1, facade.zeros(3, device="wgpu", dtype=facade.int32))
    assert counted.tolist() == [150_000] * 3


def linear(mod: Any, c: Any, x: Any, w: Any) -> Any:
    return mod.tanh(c @ w + x), c[:, :2]


def turned(mod: Any, c: Any, x: Any, w: Any) -> Any:
    return mod.flip(c, (0,)) @ w + x, mod.cumsum(c, 0)


def convolved(mod: Any, c: Any, x: Any, w: Any) -> Any:
    return mod.nn.functional.conv1d(c[None], w[:, :, None], padding=0)[0] * 0.5 + x, c.sum(1)


def nested(mod: Any, c: Any, x: Any, w: Any) -> Any:
    if mod is torch:
        for _ in range(2):
            c = mod.sin(c.flip(0)) + x
    else:
        c = lax.fori_loop(0, 2, lambda i, v: mod.sin(v.flip(0)) + x, c)
    return c @ w, mod.softmax(c, 1)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("body", [linear, turned, convolved, nested])
def test_a_gpu_runs_the_kernels_of_each_iteration(body: Callable[..., Any], reverse: bool) -> None:
    """The gradients are loops there, too."""
    n, length = 40, 3
    data = [torch.rand(n, n) * 0.3, torch.rand(length, n, n) * 0.1, torch.rand(n, n) * 0.1]

    def loss(last: Any, ys: Any) -> Any:
        return (last * last).mean() + (ys * ys).mean()

    x, xs, w = (facade.tensor(t.tolist(), device="wgpu", requires_grad=True) for t in data)
    found = lax.loop_report(lambda: lax.scan(lambda c, v: body(facade, c, v, w), x, xs, reverse=reverse))()
    assert (found[-1].path, found[-1].device) == ("C", "wgpu:0")
    last, ys = lax.scan(lambda c, v: body(facade, c, v, w), x, xs, reverse=reverse)
    mine = facade.autograd.grad(loss(last, ys), (x, xs, w))
    leaves = [t.requires_grad_() for t in data]
    y, kept = leaves[0], []
    for i in reversed(range(length)) if reverse else range(length):
        y, more = body(torch, y, leaves[1][i], leaves[2])
        kept.append(more)
    if reverse:
        kept.reverse()
    want = torch.autograd.grad(loss(y, torch.stack(kept)), leaves)
    for got, right in zip((last, ys, *mine), (y, torch.stack(kept), *want), strict=True):
        torch.testing.assert_close(torch.tensor(got.tolist()), right.detach())


def test_a_workgroup_of_a_gpu_holds_carries_of_products() -> None:
    """All iterations are one dispatch, and so are those of the gradient."""
    n, length = 20, 9
    data = [torch.rand(n, n) * 0.3, torch.rand(length, n) * 0.1, torch.rand(n, n) * 0.1, torch.rand(n)]

    def step(mod: Any, c: Any, total: Any, x: Any, w: Any) -> tuple[Any, Any, Any]:
        c = mod.tanh(c @ w + x) * mod.softmax(c, 1)
        return c, total + c.sum(0), c[:, 1]

    def ours(x: Any, xs: Any, w: Any, total: Any) -> Any:
        def body(carry: Any, v: Any) -> Any:
            c, total, y = step(facade, *carry, v, w)
            return (c, total), y

        (last, total), ys = lax.scan(body, (x, total), xs, accept_path="B")
        return last, total, ys

    args = [facade.tensor(t.tolist(), device="wgpu", requires_grad=True) for t in data]
    outs = ours(*args)
    mine = facade.autograd.grad(sum((o * o).mean() for o in outs), args)
    leaves = [t.requires_grad_() for t in data]
    c, total, ys = leaves[0], leaves[3], []
    for i in range(length):
        c, total, y = step(torch, c, total, leaves[1][i], leaves[2])
        ys.append(y)
    want = torch.autograd.grad(sum((o * o).mean() for o in (c, total, torch.stack(ys))), leaves)
    for got, right in zip((*outs, *mine), (c, total, torch.stack(ys), *want), strict=True):
        torch.testing.assert_close(torch.tensor(got.tolist()), right.detach())


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "uint8", "int64"])
def test_unrolled_iterations_stack_results_of_every_width(dtype: str) -> None:
    """Two halves share a word of a GPU's memory, and a place may begin in the middle of one."""
    x = facade.arange(33, device="wgpu").to(getattr(facade, dtype))
    y, kept = torch.arange(33).to(getattr(torch, dtype)), []
    ys = lax.scan(lambda c, _: (c.flip(0), (c[:3], c[5])), x, length=4)[1]
    for _ in range(4):
        kept.append((y[:3], y[5]))
        y = y.flip(0)
    for got, want in zip(ys, zip(*kept, strict=True), strict=True):
        assert got.tolist() == torch.stack(want).tolist()


def test_unrolled_iterations_draw_and_check_as_on_the_cpu() -> None:
    drawn = []
    for device in ("cpu", "wgpu"):
        facade.manual_seed(3)
        x = facade.zeros(9, device=device)
        last, ys = lax.scan(lambda c, _: (c.flip(0) + facade.rand_like(c), facade.rand_like(c)), x, length=3)
        drawn.append([last.tolist(), ys.tolist(), facade.rand(3).tolist()])
        index = facade.tensor([[1, 2], [3, 9]], device=device)
        with pytest.raises(IndexError, match="in a loop: index 9 is out of bounds"):
            lax.scan(lambda c, v: (c + 1, c[v]), x, index)[1].tolist()
    assert drawn[0] == drawn[1]


@pytest.mark.parametrize("batch", [5, 64])
def test_a_batch_of_kalman_filters_written_with_matrices_is_one_dispatch(batch: int) -> None:
    def step(mod: Any, c: Any, z: Any, f: Any, h: Any) -> Any:
        m, p = c
        m, p = f @ m, f @ p @ f.mT + 0.01 * mod.eye(2, device=f.device)
        gain = p @ h.mT / (h @ p @ h.mT + 0.5)
        return (m + gain @ (z - h @ m), p - gain @ h @ p), m

    data = [torch.rand(batch, 2, 1), torch.eye(2).expand(batch, 2, 2).clone(), torch.rand(6, batch, 1, 1)]
    m, p, z = (facade.tensor(t.tolist(), device="wgpu") for t in data)
    f, h = facade.tensor([[1.0, 0.1], [0.0, 1.0]], device="wgpu"), facade.tensor([[1.0, 0.0]], device="wgpu")

    def run(m: Any, p: Any, z: Any) -> Any:
        return lax.scan(lambda c, v: step(facade, c, v, f, h), (m, p), z, accept_path="A")

    found = lax.loop_report(run)(m, p, z)
    assert [(x.path, x.device) for x in found] == [("A", "wgpu:0")]
    (m, p), ms = run(m, p, z)
    c, kept = (data[0], data[1]), []
    for v in data[2]:
        c, y = step(torch, c, v, torch.tensor([[1.0, 0.1], [0.0, 1.0]]), torch.tensor([[1.0, 0.0]]))
        kept.append(y)
    for got, want in ((m, c[0]), (p, c[1]), (ms, torch.stack(kept))):
        torch.testing.assert_close(torch.tensor(got.tolist()), want)


def test_a_batch_of_loops_on_a_gpu_is_one_loop_there() -> None:
    xs = facade.rand(5, 8, device="wgpu")

    def total(x: Any) -> Any:
        return lax.scan(lambda c, v: (c * 0.5 + v, c), x[0], x)[1]

    want = facade.stack([total(x) for x in xs])
    torch.testing.assert_close(
        torch.tensor(facade.func.vmap(total)(xs).tolist()), torch.tensor(want.tolist()), rtol=1e-5, atol=1e-6
    )


def test_lanes_do_not_read_what_others_have_written() -> None:
    """A long loop runs in parts, and the last block of lanes overlaps the one before."""
    for lanes in (5, 37):
        x = facade.arange(lanes, dtype=facade.int32)
        assert lax.fori_loop(0, 400_000, lambda i, v: v + 1, x).tolist() == [400_000 + i for i in range(lanes)]
