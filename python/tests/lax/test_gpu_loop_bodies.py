"""Bodies that a workgroup of a GPU runs, and branches there, have PyTorch's values, gradients and tangents."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import torchlette.torch as facade
from torchlette import lax

N = 12


def mixed(mod: Any, w: Any, x: Any) -> Any:
    """Each element needs all others, so no thread computes a row alone; both operands lie turned around."""
    return mod.tanh(x.mT @ w.mT + 0.1 * x)


def gram(mod: Any, w: Any, x: Any) -> Any:
    """As mixed, of few rows: each element of the products is a sum, which has a short text."""
    return mod.tanh(x @ x.mT @ x * 0.3 + w)


def wide() -> list[torch.Tensor]:
    return [torch.rand(3, 40) * 0.3, torch.rand(3, 40) * 0.1]


def leaves() -> list[torch.Tensor]:
    return [torch.rand(N, N) * 0.3, torch.rand(N, N) * 0.2]


def put(data: list[torch.Tensor], grad: bool = False, device: str = "wgpu") -> list[Any]:
    return [facade.tensor(t.tolist(), device=device, requires_grad=grad) for t in data]


def same(got: Any, want: torch.Tensor) -> None:
    torch.testing.assert_close(torch.tensor(got.tolist()), want.detach())


def paths(f: Callable[..., Any], *args: Any) -> list[tuple[str, str]]:
    return [(p.path, p.device) for p in lax.loop_report(f)(*args)]


def powers(x: Any, w: Any, most: Any, f: Callable[..., Any] = mixed) -> Any:
    """Two carries change, one only by its condition, and one stays."""
    return lax.while_loop(
        lambda c: c[0] < most,
        lambda c: (c[0] + 1, f(facade, w, c[1]), c[2]),
        (facade.zeros((), dtype=facade.int64, device=x.device), x, x + 1),
        accept_path="B",
    )


@pytest.mark.parametrize("steps", [0, 1, 4])
def test_a_workgroup_ends_a_loop_by_its_condition(steps: int) -> None:
    data = leaves()
    x, w = put(data)
    most = facade.tensor(steps, device="wgpu")
    assert paths(powers, x, w, most) == [("B", "wgpu:0")]
    n, last, kept = powers(x, w, most)
    want = data[0]
    for _ in range(steps):
        want = mixed(torch, data[1], want)
    assert n.item() == steps
    same(last, want)
    same(kept, data[0] + 1)


def test_such_loops_have_batches_and_tangents() -> None:
    data = wide()
    x, w = put(data)
    xs, counts = facade.stack([x, x * 0.5]), facade.tensor([1, 3], device="wgpu")
    got = facade.func.vmap(lambda x, n: powers(x, w, n, gram)[1])(xs, counts)
    assert got.device.type == "wgpu"
    wanted = []
    for scale, steps in ((1.0, 1), (0.5, 3)):
        y = data[0] * scale
        for _ in range(steps):
            y = gram(torch, data[1], y)
        wanted.append(y)
    same(got, torch.stack(wanted))
    most = facade.tensor(2, device="wgpu")
    tangent = facade.func.jvp(lambda x: powers(x, w, most, gram)[1], (x,), (x * 2,))[1]
    twice = lambda x: gram(torch, data[1], gram(torch, data[1], x))  # noqa: E731
    same(tangent, torch.autograd.functional.jvp(twice, data[0], data[0] * 2)[1])


def test_branches_and_loops_in_a_body_run_in_its_workgroup() -> None:
    """The branches differ, and so do their gradients."""
    data, length = wide(), 8

    def chosen(x: Any, w: Any) -> Any:
        def body(c: Any, i: Any) -> tuple[Any, Any]:
            return lax.cond(i % 3 == 0, lambda u: gram(facade, w, u), lambda u: u * 0.9 + 0.1, c), c[0]

        return lax.scan(body, x, facade.arange(length, device=x.device), accept_path="B")

    args = put(data, grad=True)
    last, ys = chosen(*args)
    mine = facade.autograd.grad((last * last).sum() + ys.sum(), args)
    x, w = (t.requires_grad_() for t in data)
    c, kept = x, []
    for i in range(length):
        kept.append(c[0])
        c = gram(torch, w, c) if i % 3 == 0 else c * 0.9 + 0.1
    for got, want in zip(
        (last, ys, *mine),
        (c, torch.stack(kept), *torch.autograd.grad((c * c).sum() + torch.stack(kept).sum(), (x, w))),
        strict=True,
    ):
        same(got, want)

    def nested(x: Any, w: Any) -> Any:
        inner = lambda _, c: lax.fori_loop(0, 2, lambda _, u: gram(facade, w, u), c * 0.7)  # noqa: E731
        return lax.fori_loop(0, length, inner, x, accept_path="B")

    c = data[0]
    for _ in range(length):
        c = gram(torch, w, gram(torch, w, c * 0.7))
    same(nested(*put([t.detach() for t in data])), c)


@pytest.mark.parametrize("reverse", [False, True])
def test_a_workgroup_draws_the_numbers_of_the_cpu(reverse: bool) -> None:
    found = []
    for device in ("cpu", "wgpu"):
        facade.manual_seed(3)
        x, w = put([t * 0 + 0.1 for t in leaves()], device=device)

        def step(c: Any, _: Any, w: Any = w) -> tuple[Any, Any]:
            y = facade.rand_like(c)
            return facade.nn.functional.dropout(mixed(facade, w, c) + y, 0.4), (y[0], facade.randn(3, device=c.device))

        last, ys = lax.scan(step, x, length=8, reverse=reverse, accept_path="B" if device == "wgpu" else None)
        found.append([last, *ys, facade.rand(3, device=device)])
    for got, want in zip(*found, strict=True):
        same(got, torch.tensor(want.tolist()))


@pytest.mark.parametrize("path", ["B", "C"])
def test_a_loop_that_a_condition_ends_draws_the_numbers_of_the_cpu(path: str) -> None:
    """Each iteration has its own: those of iterations that are submitted behind the end are not seen."""
    found = []
    for device in ("cpu", "wgpu"):
        facade.manual_seed(3)
        (x,) = put([torch.arange(12.0).reshape(3, 4)], device=device)

        def step(c: Any) -> Any:
            n, v, seen = c
            drawn = facade.rand_like(v)
            v = facade.nn.functional.dropout(v + drawn, 0.4) + facade.randn(4, device=v.device)
            v = v.sort(1)[0] if path == "C" else v
            return n + 1, v, facade.where(facade.arange(9, device=v.device)[:, None] == n, drawn[:, 0], seen)

        first = (facade.tensor(0, device=device), x, facade.zeros(9, 3, device=device))
        if device == "wgpu":
            assert paths(lambda first=first: lax.while_loop(lambda c: c[0] < 7, step, first)) == [(path, "wgpu:0")]
            facade.manual_seed(3)
        _, last, seen = lax.while_loop(lambda c: c[0] < 7, step, first)
        assert len(set(seen[:7].flatten().tolist())) == 21
        found.append([last, seen, facade.rand(3, device=device)])
    for got, want in zip(*found, strict=True):
        same(got, torch.tensor(want.tolist()))


def test_a_workgroup_checks_indices_that_a_carry_has() -> None:
    data, length = leaves(), 8

    def walk(x: Any, w: Any, step: int) -> Any:
        def body(c: Any, _: Any) -> tuple[Any, Any]:
            at, v = c
            return ((at + step) % N, mixed(facade, w, v) + v[at]), v[at - N, :3]

        first = facade.tensor(1, device=x.device)
        return lax.scan(body, (first, x), length=length, accept_path="B")

    x, w = put(data)
    (_, last), ys = walk(x, w, 5)
    at, v, kept = 1, data[0], []
    for _ in range(length):
        kept.append(v[at - N, :3])
        at, v = (at + 5) % N, mixed(torch, data[1], v) + v[at]
    same(last, v)
    same(ys, torch.stack(kept))
    for places, text in (([0, 3, N + 2, 1], f"index {N + 2}"), ([0, -N - 3, 2, 1], "index -3")):
        index = facade.tensor(places * 2, device="wgpu")
        outside = lax.scan(lambda c, i: (mixed(facade, w, c), c[i]), x, index, accept_path="B")[1]
        with pytest.raises(IndexError, match=f"in a loop: {text} is out of bounds"):
            outside.tolist()
    one = facade.tensor(3, device="wgpu")
    taken = lax.cond(one < 2, lambda v: (v @ v)[one + N], lambda v: v[one], x)  # the other index is not looked at
    same(taken, data[0][3])


@pytest.mark.parametrize("number", [0, 1, 2])
def test_branches_that_no_kernel_holds_are_computed_on_the_gpu(number: int) -> None:
    """A workgroup does not sort. Values and gradients that are not finite in other branches do no harm."""
    data = [torch.tensor([4.0, 0.0, 1.0])]
    branches = [
        lambda mod, v: mod.sort(mod.log(v))[0],
        lambda mod, v: mod.sort(v * 2, descending=True)[0],
        lambda mod, v: mod.sort(v @ v + v)[0],
    ]

    def switched(x: Any, i: Any) -> Any:
        return lax.switch(i, [lambda v, f=f: f(facade, v) for f in branches], x)

    index = facade.tensor(number, device="wgpu")
    (x,) = put(data, grad=True)
    assert paths(switched, x, index) == [("C", "wgpu:0")] * 3
    got = switched(x, index)
    y = data[0].requires_grad_()
    want = branches[number](torch, y)
    same(got, want)
    if number:
        same(facade.autograd.grad(got.sum(), x)[0], torch.autograd.grad(want.sum(), y)[0])


def sorted_step(mod: Any, x: Any) -> Any:
    """No kernel holds a sort."""
    return mod.sort(x * 0.9 + 1)[0].flip(0) - 0.1 * x


def repeated(x: Any, most: Any, f: Callable[..., Any] = sorted_step) -> Any:
    first = (facade.zeros((), dtype=facade.int64, device=x.device), x)
    return lax.while_loop(lambda c: c[0] < most, lambda c: (c[0] + 1, f(facade, c[1])), first, accept_path="C")


def stepped(x: torch.Tensor, steps: int, f: Callable[..., Any] = sorted_step) -> torch.Tensor:
    for _ in range(steps):
        x = f(torch, x)
    return x


@pytest.mark.parametrize("steps", [0, 1, 40])
def test_a_gpu_repeats_its_kernels_until_a_condition_is_false(steps: int) -> None:
    data = torch.tensor([4.0, 0.0, 1.0, 3.0])
    (x,) = put([data])
    most = facade.tensor(steps, device="wgpu")
    assert paths(repeated, x, most) == [("C", "wgpu:0")]
    n, last = repeated(x, most)
    assert n.item() == steps
    same(last, stepped(data, steps))


def test_repeated_kernels_have_batches_and_tangents_and_no_gradients() -> None:
    data = torch.tensor([4.0, 0.5, 1.0, 3.0])
    (x,) = put([data], grad=True)
    counts = facade.tensor([2, 5], device="wgpu")
    got = facade.func.vmap(lambda x, n: repeated(x, n)[1])(facade.stack([x, x * 2]).detach(), counts)
    same(got, torch.stack([stepped(data, 2), stepped(data * 2, 5)]))
    most = facade.tensor(3, device="wgpu")
    tangent = facade.func.jvp(lambda x: repeated(x, most)[1], (x.detach(),), (facade.ones_like(x),))[1]
    same(tangent, torch.autograd.functional.jvp(lambda x: stepped(x, 3), data, torch.ones(4))[1])
    with pytest.raises(RuntimeError, match="Reverse-mode differentiation does not work"):
        repeated(x, most)[1].sum().backward()


def test_repeated_kernels_check_the_data_of_iterations_that_run() -> None:
    """The inverse of the last iteration exists; the branch not taken would use an index out of bounds."""
    data = torch.eye(3) * 2 + 0.1
    (x,) = put([data])
    inverse = lambda mod, v: mod.linalg.inv(v) + 0.5 * v  # noqa: E731
    most = facade.tensor(5, device="wgpu")
    same(repeated(x, most, inverse)[1], stepped(data, 5, inverse))
    singular = lambda mod, v: mod.linalg.inv(v) - mod.linalg.inv(v)  # noqa: E731
    with pytest.raises(RuntimeError, match="singular"):
        repeated(x, most, singular)[1].tolist()
    index = facade.tensor(7, device="wgpu")

    def chosen(flag: bool) -> Any:
        branches = (lambda v: facade.sort(v[index] + v)[0], lambda v: v * 2)
        return lax.cond(facade.tensor(flag, device="wgpu"), *branches, x)

    assert paths(chosen, False) == [("C", "wgpu:0"), ("A", "wgpu:0")]
    same(chosen(False), data * 2)
    with pytest.raises(IndexError, match="index 7 is out of bounds for dimension 0 with size 3"):
        chosen(True).tolist()


@pytest.mark.parametrize("device", ["cpu", "wgpu"])
def test_a_fault_in_a_loop_in_a_loop_names_its_operator(device: str) -> None:
    index = facade.tensor(7, device=device)

    def inner(v: Any) -> Any:
        return lax.fori_loop(0, 2, lambda _, u: facade.sort(u + u[:, 0] + u[:, index])[0], v)

    out = lax.fori_loop(0, 2, lambda _, v: inner(facade.sin(v)).cos(), facade.ones(3, 3, device=device))
    with pytest.raises(IndexError, match="in a loop: index 7 is out of bounds for dimension 1 with size 3"):
        out.tolist()
