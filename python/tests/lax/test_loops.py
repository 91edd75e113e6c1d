"""Loops give the values and gradients of PyTorch's unrolled loops."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

import pytest
import torch

import torchlette
import torchlette.torch as facade
from torchlette import lax

F64 = facade.float64


def unrolled(f: Callable[..., Any], carry: Any, xs: torch.Tensor, reverse: bool = False) -> tuple[Any, Any]:
    """PyTorch's loop: the last carry, and the y stacked."""
    ys = []
    for i in reversed(range(len(xs))) if reverse else range(len(xs)):
        carry, y = f(carry, xs[i])
        ys.append(y)
    if reverse:
        ys.reverse()
    return carry, torch.stack(ys)


def same(got: Any, want: torch.Tensor) -> None:
    torch.testing.assert_close(torch.tensor(got.tolist(), dtype=want.dtype).reshape(want.shape), want)


def mine(t: torch.Tensor, device: str = "cpu") -> Any:
    return facade.tensor(t.tolist(), dtype=getattr(facade, str(t.dtype)[6:]), device=device).requires_grad_()


def theirs(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64)


def recurrent(mod: Any, w: Any) -> Callable[[Any, Any], Any]:
    def f(h: Any, x: Any) -> Any:
        h = mod.tanh(h @ w + x)
        return h, h * h.sum()

    return f


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("length", [1, 7])
def test_values_and_gradients_of_both_orders(length: int, reverse: bool) -> None:
    """A recurrent body with a weight from outside."""
    data = [theirs(4, 4) * 0.4, theirs(4), theirs(length, 4)]
    weight = theirs(length, 4)

    def run(mod: Any, loop: Any, w: Any, h: Any, xs: Any, k: Any) -> list[Any]:
        last, ys = loop(recurrent(mod, w), h, xs)
        loss = (last**2).sum() + (ys * k).sum()
        first = mod.autograd.grad(loss, (w, h, xs), create_graph=True)
        return [last, ys, *first, *mod.autograd.grad(sum((g**2).sum() for g in first), (w, h, xs))]

    scan = functools.partial(lax.scan, reverse=reverse)
    got = run(facade, scan, *map(mine, data), facade.tensor(weight.tolist(), dtype=F64))
    leaves = [d.clone().requires_grad_() for d in data]
    want = run(torch, lambda *a: unrolled(*a, reverse=reverse), *leaves, weight)
    for a, b in zip(got, want, strict=True):
        same(a, b)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("length", [64, 67])
def test_segments_keep_few_carries_and_change_nothing(length: int, reverse: bool) -> None:
    """Carries of 1 MiB, of which a gradient keeps about sqrt(n); lengths with and without a rest."""
    n = 1 << 17
    x, w = theirs(length, 1), torch.tensor(0.9, dtype=torch.float64)

    def f(mod: Any, w: Any) -> Callable[[Any, Any], Any]:
        return lambda c, x: (mod.sin(c * w) + x, c[0])

    a, b = mine(x), mine(w)
    torchlette.mark_step()
    before = torchlette.memory_stats()["cpu"]["live_bytes"]
    c, ys = lax.scan(f(facade, b), facade.zeros(n, dtype=F64), a, reverse=reverse)
    torchlette.realize(c)
    kept = torchlette.memory_stats()["cpu"]["live_bytes"] - before
    assert kept < 20 * 8 * n < length * 8 * n
    got = facade.autograd.grad(c.sum() + (ys * ys).sum(), (a, b))
    x.requires_grad_()
    w.requires_grad_()
    c, ys = unrolled(f(torch, w), torch.zeros(n, dtype=torch.float64), x, reverse)
    for mine_, want in zip(got, torch.autograd.grad(c.sum() + (ys * ys).sum(), (x, w)), strict=True):
        same(mine_, want)


def test_trees_types_and_repeated_results() -> None:
    """Carries of several dtypes, ``None``, passed through, exchanged; y that come twice, or are the old carry."""
    x = facade.arange(4.0)
    carry = {"n": facade.tensor(3, dtype=facade.int32), "seen": facade.tensor(False), "pair": (1.0, facade.zeros(2))}

    def f(c: Any, x: Any) -> Any:
        a, b = c["pair"]
        new = {"n": c["n"] + 1, "seen": c["seen"] | (x > 2), "pair": (a * 2, b + x)}
        return new, (x, x, c["n"], None, b)

    last, (y0, y1, n, nothing, b) = lax.scan(f, carry, x)
    assert [last["n"].item(), last["seen"].item(), last["pair"][0].item()] == [7, True, 16.0]
    assert last["pair"][1].tolist() == [6.0, 6.0]
    assert y0.tolist() == y1.tolist() == x.tolist()
    assert n.tolist() == [3, 4, 5, 6]
    assert n.dtype is facade.int32
    assert nothing is None
    assert b[:, 0].tolist() == [0.0, 0.0, 1.0, 3.0]
    swapped, old = lax.scan(lambda c, _: ((c[1], c[0]), c[0]), (1.0, 2.0), None, length=3)
    assert [v.item() for v in swapped] == [2.0, 1.0]
    assert old.tolist() == [1.0, 2.0, 1.0]


def test_a_loop_without_iterations_has_results_of_the_right_types() -> None:
    last, (y, none) = lax.scan(lambda c, x: (c, (x.int(), None)), facade.ones(2), facade.zeros(0, 3))
    assert (last.tolist(), none, list(y.shape), y.dtype) == ([1.0, 1.0], None, [0, 3], facade.int32)
    assert lax.scan(lambda c, _: (c, None), 5.0, None, length=0)[1] is None


def test_the_body_runs_once_and_the_loop_is_one_launch() -> None:
    calls = []

    def f(c: Any, x: Any) -> Any:
        calls.append(None)
        return c * 0.5 + x, None

    before = torchlette.stats()
    total = lax.scan(f, 0.0, facade.ones(1000))[0].item()
    assert total == pytest.approx(2.0)
    assert len(calls) == 1
    assert torchlette.stats()["windows"] <= before["windows"] + 2


def test_draws_are_those_of_the_python_loop() -> None:
    """Each iteration has its own, also in the gradient and in nested loops."""

    def step(c: Any, x: Any) -> Any:
        y = facade.nn.functional.dropout(x, 0.5)
        return c + y.sum() + lax.scan(lambda d, _: (d + facade.rand(()), None), 0.0, None, length=2)[0], y

    x = facade.ones(5, 8, requires_grad=True)
    facade.manual_seed(1)
    last, ys = lax.scan(step, facade.tensor(0.0), x)
    last.backward()
    assert facade.equal(x.grad, ys)
    facade.manual_seed(1)
    noise = lax.scan(lambda c, _: (c, facade.rand(3)), 0.0, None, length=4)[1]
    facade.manual_seed(1)
    assert facade.equal(noise, facade.stack([facade.rand(3) for _ in range(4)]))


def test_draws_of_a_loop_that_a_condition_ends() -> None:
    """The loop draws what a Python loop draws. Later draws differ from all before, in outer and captured loops too."""

    def walk(n: Any) -> Any:
        def step(c: Any) -> Any:
            i, v = c
            return i + 1, facade.cat([v[1:], facade.rand(1)])

        return lax.while_loop(lambda c: c[0] < n, step, (0, facade.zeros(3)))[1]

    def seeded(f: Callable[[], Any]) -> list[float]:
        facade.manual_seed(2)
        return f().tolist()

    want = seeded(lambda: facade.rand(3))
    assert seeded(lambda: facade.cat([facade.rand(1) for _ in range(3)])) == seeded(lambda: walk(3))
    assert len({*want, *seeded(lambda: facade.cat([walk(3), walk(2), facade.rand(3)]))} - {0.0}) >= 8
    rows = seeded(lambda: lax.scan(lambda c, n: (c, walk(n)), 0.0, facade.tensor([3, 3, 3]))[1].reshape(9))
    assert len(set(rows)) == 9
    captured = torchlette.jit(lambda: walk(3))
    assert len({v for _ in range(4) for v in captured().tolist()}) == 12
    noise = facade.func.vmap(
        lambda v: lax.while_loop(lambda c: c < 2, lambda c: c + facade.rand(()), v), randomness="different"
    )
    got = noise(facade.zeros(4)).tolist()
    assert min(got) >= 2 and max(got) < 3 and len(set(got)) == 4


def test_modules_and_factorisations_in_a_body() -> None:
    """Euler steps of a learned field; a Cholesky factor as carry."""
    net = facade.nn.Linear(3, 3)
    other = torch.nn.Linear(3, 3)
    with facade.no_grad():
        net.weight.copy_(facade.tensor(other.weight.tolist()))
        net.bias.copy_(facade.tensor(other.bias.tolist()))
    lax.fori_loop(0, 20, lambda _, x: x + 0.1 * net(x).tanh(), facade.ones(2, 3)).sum().backward()
    x = torch.ones(2, 3)
    for _ in range(20):
        x = x + 0.1 * other(x).tanh()
    x.sum().backward()
    same(net.weight.grad, other.weight.grad)
    same(net.bias.grad, other.bias.grad)
    a = facade.eye(3) * 4 + 0.1
    first = facade.linalg.cholesky(a)
    factor = lax.scan(lambda c, _: (facade.linalg.cholesky(c @ c.T), None), first, None, length=3)[0]
    facade.testing.assert_close(factor @ factor.T, a)


def test_errors_name_what_is_wrong() -> None:
    x = facade.arange(4.0)
    with pytest.raises(TypeError, match=r"carry\['h'\]\[0\] has type float32\[\] .* bool\[\]"):
        lax.scan(lambda c, x: ({"h": (c["h"][0] > x,)}, None), {"h": (facade.tensor(0.0),)}, x)
    with pytest.raises(TypeError, match="same pytree structure"):
        lax.scan(lambda c, x: ((c, c), None), 0.0, x)
    with pytest.raises(TypeError, match="must be a pair"):
        lax.scan(lambda c, x: c, 0.0, x)
    with pytest.raises(ValueError, match="`length` not provided"):
        lax.scan(lambda c, x: (c, x), 0.0)
    with pytest.raises(ValueError, match="disagrees with leading axis sizes"):
        lax.scan(lambda c, x: (c, x), 0.0, x, length=3)
    with pytest.raises(IndexError, match="in a loop: index 9"):
        lax.scan(lambda c, i: (c, x[i]), 0.0, facade.tensor([1, 9]))[1].tolist()
    with pytest.raises(RuntimeError, match="is read while"):
        lax.scan(lambda c, x: (c + x.item(), None), 0.0, x)
    with pytest.raises(RuntimeError, match="Reverse-mode differentiation does not work"):
        lax.while_loop(lambda c: c < 9, lambda c: c * 2, facade.ones((), requires_grad=True)).backward()


def test_a_body_writes_to_nothing_but_its_own_tensors() -> None:
    outside = facade.zeros(2)

    def impure(c: Any, x: Any) -> Any:
        outside.add_(x)
        return c, None

    with pytest.raises(torchlette.errors.TransformPurityError, match="make the tensor a carry"):
        lax.scan(impure, 0.0, facade.arange(3.0))
    assert outside.tolist() == [0.0, 0.0]

    def own(c: Any, x: Any) -> Any:
        a = facade.zeros(2)
        a[1] = x
        c += a
        return c, a

    with facade.no_grad():
        last, ys = lax.scan(own, facade.zeros(2), facade.arange(3.0))
    assert (last.tolist(), ys.tolist()) == ([0.0, 3.0], [[0.0, 0.0], [0.0, 1.0], [0.0, 2.0]])

    class Twice(facade.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 2

    with pytest.raises(NotImplementedError, match=r"autograd\.Function"):
        lax.scan(lambda c, _: (Twice.apply(c), None), facade.ones(2, requires_grad=True), None, length=2)


@pytest.mark.parametrize("wrap", [torchlette.jit, facade.compile, lambda f: f], ids=["jit", "compile", "plain"])
def test_loops_in_captured_functions(wrap: Any) -> None:
    w = facade.tensor(2.0, requires_grad=True)
    fn = wrap(lambda x: lax.scan(lambda c, x: (c * w + x, None), 0.0, x)[0])
    for k in range(4):
        w.grad = None
        y = fn(facade.arange(3.0) + k)
        y.backward()
        assert (y.item(), w.grad.item()) == (4.0 + 7 * k, 1.0 + 5 * k)


def test_vmap_of_a_loop_is_a_loop_of_batches() -> None:
    """Carries, xs and values from outside with a batch; gradients per element; a jacobian."""
    w, xs = facade.arange(1.0, 4), facade.arange(12.0).reshape(3, 4) / 10

    def f(w: Any, x: Any) -> Any:
        last, ys = lax.scan(lambda c, x: (facade.sin(c * w) + x, c * x), facade.zeros_like(w), x)
        return last + ys.sum(0)

    for g, dims in ((f, 0), (facade.func.grad(f), 0), (f, (None, 0)), (f, (0, None))):
        args = [w if dims in (0, (0, None)) else w[0], xs if dims in (0, (None, 0)) else xs[0]]
        got = facade.func.vmap(g, in_dims=dims)(*args)
        rows = [g(*(a[i] if a.dim() == d else a for a, d in zip(args, (1, 2), strict=True))) for i in range(3)]
        facade.testing.assert_close(got, facade.stack(rows))
    u = facade.eye(3)[:2]
    grad = facade.func.grad(lambda w, x: f(w, x).sum())
    rows = facade.func.vmap(grad, in_dims=(None, 0))(u[0], xs)
    facade.testing.assert_close(rows, facade.stack([grad(u[0], x) for x in xs]))
    jac = facade.func.jacrev(f, argnums=1)(w[1], xs[0])
    facade.testing.assert_close(jac, facade.func.grad(f, argnums=1)(w[1], xs[0]))


def test_batches_of_gradients_of_loops_are_pytorchs() -> None:
    """Backward loops get batches of weights, carries and cotangents, and forward mode has loops of batches."""
    data = theirs(4, 3, 3) * 0.4, theirs(5, 3), theirs(4, 3)

    def program(mod: Any, scan: Callable[..., Any], w: Any, xs: Any, h: Any) -> list[Any]:
        def last(w: Any, h: Any) -> Any:
            carry, ys = scan(recurrent(mod, w), h, xs)
            return carry + ys.sum(0)

        def loss(w: Any, h: Any) -> Any:
            return last(w, h).sum()

        func = mod.func
        return [
            *func.vmap(func.grad(loss, (0, 1)), (0, None))(w, h[0]), func.vmap(func.grad(loss, 1), (None, 0))(w[0], h),
            func.hessian(lambda h: loss(w[0], h))(h[0]), func.jacrev(last)(w[1], h[0]),
            func.jacfwd(last, 1)(w[1], h[0]),
            func.vmap(func.hessian(loss, 1))(w, h),
        ]  # fmt: skip

    got = program(facade, lax.scan, *(mine(d).detach() for d in data))
    for a, b in zip(got, program(torch, unrolled, *data), strict=True):
        same(a, b)


def test_branches() -> None:
    """One branch runs; gradients of both orders flow through it, and NaN of the other one do not."""
    for positive in (True, False):
        x = facade.tensor(2.0 if positive else -2.0, requires_grad=True)
        y = lax.cond(x > 0, lambda v: v.log() * v, lambda v: v**3, x)
        (g,) = facade.autograd.grad(y, x, create_graph=True)
        g.backward()
        z = torch.tensor(x.item(), requires_grad=True)
        v = z.log() * z if positive else z**3
        (h,) = torch.autograd.grad(v, z, create_graph=True)
        h.backward()
        for a, b in ((y, v), (g, h), (x.grad, z.grad)):
            same(a, b)
    picks = [lax.switch(i, [lambda v: v, lambda v: v * 10, lambda v: v * 100], 3.0).item() for i in (-1, 0, 1, 2, 7)]
    assert picks == [3.0, 3.0, 30.0, 300.0, 300.0]
    with pytest.raises(TypeError, match="branches must have equal types"):
        lax.cond(True, lambda: facade.ones(2), lambda: facade.ones(3))


def test_while_loops_end_by_data() -> None:
    """Also without an iteration, after one, nested, and with branches inside."""
    for begin, want in ((5.0, 5.0), (4.0, 5.0), (0.0, 5.0), (1.0, 5.0)):
        assert lax.while_loop(lambda c: c < 5, lambda c: c + 1, begin).item() == want

    def collatz(c: Any) -> Any:
        n, steps = c
        return lax.cond(n % 2 == 0, lambda n: n // 2, lambda n: 3 * n + 1, n), steps + 1

    assert lax.while_loop(lambda c: c[0] != 1, collatz, (27, 0))[1].item() == 111
    assert lax.fori_loop(facade.tensor(2), 6, lambda i, v: v * i, 1).item() == 120
    last, ys = lax.scan(
        lambda c, x: (lax.while_loop(lambda v: v < x, lambda v: v + 1, c), c), 0.0, facade.tensor([3.0, 1.0, 7.0])
    )
    assert (last.item(), ys.tolist()) == (7.0, [0.0, 3.0, 3.0])


def test_conditions_that_differ_in_a_batch() -> None:
    """An element of ``vmap`` keeps its values from its own end on, and has the values of its own branch."""
    vmap, x = facade.func.vmap, facade.tensor([-2.0, 3.0, 0.5])

    def double(v: Any) -> Any:
        return lax.while_loop(lambda c: c < 10, lambda c: c * 2 + 5, v)

    def branch(v: Any) -> Any:
        return lax.cond(v > 0, lambda v: v.log() * v, lambda v: v**3, v)

    def smooth(v: Any) -> Any:
        return lax.cond(v > 0, lambda v: v.exp() * v, lambda v: v**3, v)

    def collatz(n: Any) -> Any:
        def step(c: Any) -> Any:
            return lax.cond(c[0] % 2 == 0, lambda n: n // 2, lambda n: 3 * n + 1, c[0]), c[1] + 1

        return lax.while_loop(lambda c: c[0] != 1, step, (n, 0))[1]

    def repeated(v: Any) -> Any:
        return lax.scan(lambda c, x: (lax.while_loop(lambda u: u < x, lambda u: u + 1, c), c), v, x)

    for f, arg in (
        (double, x), (torchlette.jit(double), x), (branch, x), (facade.func.grad(smooth), x),
        (facade.func.grad(facade.func.grad(smooth)), x), (collatz, facade.arange(1, 8)), (repeated, x),
        (lambda n: lax.fori_loop(0, n, lambda i, v: v * 2 + i, 1), facade.tensor([3, 0, 5])),
        (lambda n: lax.switch(n, [lambda: facade.ones(2), lambda: facade.zeros(2)]), facade.tensor([1, 0, 9])),
        (lambda v: lax.cond(facade.tensor(True), lambda: v, lambda: v * 2), x),
    ):  # fmt: skip
        got, rows = vmap(f)(arg), [f(a) for a in arg]
        if not isinstance(got, tuple):
            got, rows = (got,), [(r,) for r in rows]
        for k, g in enumerate(got):
            facade.testing.assert_close(g, facade.stack([r[k] for r in rows]))
    outer = vmap(vmap(branch))(x[:, None] * facade.tensor([1.0, -1.0]))
    facade.testing.assert_close(outer, facade.stack([vmap(branch)(x), vmap(branch)(-x)], 1))


def test_maps_and_associative_scans() -> None:
    x = facade.arange(10.0).reshape(5, 2)
    for size in (None, 2, 5, 7):
        assert lax.map(lambda x: x.sum(), x, batch_size=size).tolist() == x.sum(1).tolist()
    assert facade.equal(lax.associative_scan(facade.add, x), x.cumsum(0))


def test_pytorchs_names() -> None:
    """``torch.cond`` and ``torch._higher_order_ops``, with PyTorch's signatures."""
    ops = importlib.import_module("torchlette.torch._higher_order_ops")
    x = facade.arange(6.0).reshape(2, 3)
    assert facade.cond(x.sum() > 1, lambda v: v + 1, lambda v: v, (x,)).tolist() == (x + 1).tolist()
    last, ys = ops.scan(lambda c, v: (c + v, c * v), facade.zeros(2), x, dim=1, reverse=True)
    assert (last.tolist(), list(ys.shape)) == ([3.0, 12.0], [2, 3])
    assert [v.item() for v in ops.while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, v * 2), (0, 1.0))] == [3, 8.0]
    assert ops.map(lambda v, k: v * k, x, facade.tensor(2.0)).tolist() == (x * 2).tolist()
    with pytest.raises(RuntimeError, match="Expect operands to be a tuple"):
        facade.cond(True, abs, abs, x)


@pytest.mark.parametrize("device", ["cpu", "wgpu"])
def test_loops_of_tensors_of_a_device(device: str) -> None:
    """On a GPU the operands travel: a loop runs on the CPU."""
    if device == "wgpu":
        pytest.importorskip("torchlette.backends.wgpu")
    data = [theirs(3, 3).float(), theirs(3).float(), theirs(4, 3).float()]
    w, h, xs = (mine(d, device) for d in data)
    last, ys = lax.scan(recurrent(facade, w), h, xs)
    assert last.device.type == ys.device.type == device
    got = facade.autograd.grad(last.sum() + ys.sum(), (w, h, xs))
    leaves = [d.clone().requires_grad_() for d in data]
    c, y = unrolled(recurrent(torch, leaves[0]), leaves[1], leaves[2])
    for a, b in zip(got, torch.autograd.grad(c.sum() + y.sum(), leaves), strict=True):
        same(a, b)
