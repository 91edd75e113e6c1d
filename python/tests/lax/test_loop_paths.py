"""Loops that keep carries in registers have PyTorch's values, and say which path they take."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import torchlette
import torchlette.torch as facade
from torchlette import lax


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
    x = facade.ones(3, 3, device="wgpu")
    found = lax.loop_report(lambda: lax.fori_loop(0, 3, lambda i, v: facade.sort(v, 0)[0], x))()
    assert found[0].device == "cpu"
    assert lax.fori_loop(0, 3, lambda i, v: facade.sort(v, 0)[0] + 1, x).device.type == "wgpu"
    ends = lax.while_loop(lambda v: v.sum() < 100, lambda v: v * 2, x)
    assert ends.device.type == "wgpu"
    assert ends.sum().item() == 144


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
