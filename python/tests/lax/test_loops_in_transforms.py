"""Loops whose bodies read tensors that transforms around them, or in them, differentiate by; beside PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import torchlette
import torchlette.torch as facade
from torchlette import lax

POINT, CAPTURED = [0.3, -0.7, 1.1], [0.9, 0.4, -0.2]


def scan(mod: Any, f: Callable[[Any, Any], tuple[Any, Any]], init: Any, xs: Any) -> Any:
    """Return the last carry of a loop, which is one in Python under PyTorch."""
    if mod is facade:
        return lax.scan(f, init, xs)[0]
    for x in xs.unbind():
        init = f(init, x)[0]
    return init


def branch(mod: Any, p: Any, yes: Callable[[], Any], no: Callable[[], Any]) -> Any:
    """``lax.cond``, and under PyTorch its meaning for a predicate of one element."""
    return lax.cond(p, yes, no) if mod is facade else mod.where(p, yes(), no())


def until(mod: Any, f: Callable[[Any], Any], x: Any) -> Any:
    """Apply f three times, in a loop that a condition ends."""
    if mod is facade:
        return lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, f(c[1])), (mod.tensor(0), x))[1]
    for _ in range(3):
        x = f(x)
    return x


def both(program: Callable[[Any, Any, Any], list[Any]]) -> None:
    """Compare the results of a program of two vectors under both libraries."""
    found = []
    for mod in (facade, torch):
        x, y = (mod.tensor(v, dtype=mod.float64) for v in (POINT, CAPTURED))
        found.append([torch.tensor(v.tolist(), dtype=torch.float64) for v in program(mod, x, y)])
    torch.testing.assert_close(found[0], found[1])


def test_a_tensor_that_is_the_point_of_two_transforms_around_a_loop() -> None:
    """The body reads one value by two names; each has a gradient of its own."""

    def program(mod: Any, x: Any, y: Any) -> list[Any]:
        grad = mod.func.grad

        def outer(a: Any) -> Any:
            def inner(b: Any) -> Any:
                return scan(mod, lambda c, u: ((c * a * b + b.sin() * u), None), y, mod.stack([y, y])).sum()

            return (grad(inner)(a) * grad(inner)(x)).sum()

        return [grad(outer)(x), mod.func.jvp(outer, (x,), (y,))[1], mod.func.jacfwd(grad(outer))(x)]

    both(program)


def test_a_transform_in_a_body_at_the_value_of_a_point_around_it() -> None:
    """Gradients by the outer point do not flow to the point in the body, which is a constant or a detached value."""

    def program(mod: Any, x: Any, y: Any) -> list[Any]:
        grad = mod.func.grad

        def of_constant(a: Any) -> Any:
            step = lambda c, u: (c * u + grad(lambda b: (b.sin() * a).tanh().sum())(x), None)  # noqa: E731
            return scan(mod, step, y, mod.stack([y, y])).sum()

        def of_detached(a: Any) -> Any:
            def step(c: Any, u: Any) -> Any:
                return c * u + grad(lambda b: (b * b * a).sum())((c * 2).detach()), None

            return scan(mod, step, a, mod.stack([y, y])).sum()

        return [grad(of_constant)(x), grad(of_detached)(x)]

    both(program)


def test_directions_through_branches_and_loops() -> None:
    """The tangents of what a body reads have a batch that its values lack."""

    def program(mod: Any, x: Any, y: Any) -> list[Any]:
        func = mod.func

        def chosen(v: Any) -> Any:
            return branch(mod, v.sum() > y[0], lambda: v * y, lambda: mod.sin(v)) * v

        def looped(v: Any) -> Any:
            return scan(mod, lambda c, u: (c.sin() * v + u * y, None), v, mod.stack([v, y]))

        def several(v: Any) -> Any:
            return until(mod, lambda c: c.cos() * v + y, v)

        def along(f: Callable[[Any], Any]) -> Any:
            return func.vmap(lambda t: func.jvp(f, (x,), (t,))[1])(mod.stack([x, y]))

        return [
            *(func.jacfwd(f)(x) for f in (chosen, looped, several)),
            *(along(f) for f in (chosen, looped, several)),
            *(func.hessian(lambda v, f=f: f(v).sum())(x) for f in (chosen, looped)),
            func.vmap(func.hessian(lambda v: (looped(v) + x).sum()))(mod.stack([x, y])),
        ]

    both(program)


def test_linearize_goes_through_loops() -> None:
    """The linear function may be called again, and mapped."""

    def program(mod: Any, x: Any, y: Any) -> list[Any]:
        out = []
        for f in (
            lambda v: scan(mod, lambda c, u: (c.sin() * v + u, None), v, mod.stack([y, y])),
            lambda v: until(mod, lambda c: c.sin() * v + y, v),
        ):
            value, push = mod.func.linearize(f, x)
            out += [value, push(y), push(x), mod.func.vmap(push)(mod.eye(3, dtype=mod.float64))]
        return out

    both(program)


def test_gradients_and_tangents_of_loops_in_captured_functions() -> None:
    x, y = (facade.tensor(v, dtype=facade.float64) for v in (POINT, CAPTURED))
    f = lambda v: scan(facade, lambda c, u: (c.sin() * v + u, None), v, facade.stack([y, y]))  # noqa: E731
    g = lambda v: until(facade, lambda c: c.sin() * v + y, v)  # noqa: E731
    for capture in (facade.compile, torchlette.jit):
        for h in (
            facade.func.grad(lambda v: f(v).sum()),
            lambda v: facade.func.jvp(g, (v,), (y,))[1],
            facade.func.hessian(lambda v: f(v).sum()),
        ):
            captured = capture(h)
            for _ in range(2):
                facade.testing.assert_close(captured(x), h(x))


def test_each_iteration_of_while_loop_draws_numbers_of_its_own() -> None:
    """They follow one another in the generator, and what is drawn after the loop is new."""

    def step(c: Any) -> Any:
        n, seen = c
        return n + 1, seen.index_put((n.reshape(1),), facade.rand(1))

    def draws() -> list[float]:
        facade.manual_seed(3)
        last = lax.while_loop(lambda c: c[0] < 5, step, (facade.tensor(0), facade.zeros(5)))[1]
        return [*last.tolist(), facade.rand(()).item()]

    first = draws()
    assert len(set(first)) == 6
    assert draws() == first


def test_a_body_reads_no_tangent_of_a_level_around_the_loop() -> None:
    x, ad = facade.ones(3), facade.autograd.forward_ad
    with ad.dual_level():
        d = ad.make_dual(x, x)
        with pytest.raises(NotImplementedError, match="at a level around the loop"):
            lax.scan(lambda c, u: (c + ad.unpack_dual(d * u).tangent, None), x, facade.stack([x, x]))
        assert ad.unpack_dual(lax.scan(lambda c, u: (c * d, None), x, length=2)[0]).tangent.tolist() == [2, 2, 2]


@pytest.mark.parametrize("op", ["layer_norm", "rms_norm"])
def test_a_body_differentiates_forward_over_reverse_in_a_batch(op: str) -> None:
    """What a batching rule computes on its way has tangents: the gradient rules of its steps read it. In forward mode
    PyTorch's own norms have wrong second derivatives.
    """
    norm, func, w = getattr(facade.nn.functional, op), facade.func, facade.tensor(CAPTURED, dtype=facade.float64)

    def mixed(x: Any) -> Any:
        return func.jacfwd(lambda y: func.grad(lambda v: norm(y * y, (3,), v).sum())(w))(x)

    def hessians(x: Any) -> Any:
        slopes = func.vmap(func.grad(lambda v: norm(v * v, (3,), v).sum()))
        return func.jacfwd(slopes)(facade.stack([x, x * 0.5]))

    points = facade.tensor([POINT, CAPTURED], dtype=facade.float64)
    for g in (mixed, hessians):
        want = facade.stack([g(x) for x in points.unbind()])
        torch.testing.assert_close(torch.from_numpy(lax.map(g, points).numpy()), torch.from_numpy(want.numpy()))
        assert want.abs().max() > 0.1


#: Transforms of a loop with a checkpoint in its body, by that loop.
CHECKPOINTED: dict[str, Callable[[Any, Any, Any], Any]] = {
    "jvp": lambda f, x, y: facade.func.jvp(f, (x,), (y,))[1],
    "linearize": lambda f, x, y: facade.func.linearize(f, x)[1](y),
    "grad": lambda f, x, y: facade.func.grad(lambda v: f(v).sum())(x),
    "hessian": lambda f, x, y: facade.func.hessian(lambda v: f(v).sum())(x),
    "grad in the body": lambda f, x, y: lax.map(facade.func.grad(lambda v: f(v).sum()), facade.stack([x, y])),
}


@pytest.mark.parametrize("name", CHECKPOINTED)
def test_a_checkpoint_in_the_body_of_a_loop(name: str) -> None:
    def part(a: Any, b: Any) -> Any:
        return (a * b).sin() * a

    def again(a: Any, b: Any) -> Any:
        return facade.utils.checkpoint.checkpoint(part, a, b, use_reentrant=False)

    x, y = facade.tensor([0.3, -0.7, 1.1]), facade.tensor([0.9, 0.4, -0.2])
    got, want = (
        CHECKPOINTED[name](lambda v, f=f: lax.scan(lambda c, u: (f(c, u), c), v, facade.stack([v, y]))[0], x, y)
        for f in (again, part)
    )
    torch.testing.assert_close(torch.tensor(got.tolist()), torch.tensor(want.tolist()))


#: Functions that are piecewise linear.
PIECEWISE: dict[str, Callable[[Any, Any], Any]] = {
    "leaky_relu": lambda f, z: f.leaky_relu(z),
    "hardtanh": lambda f, z: f.hardtanh(z),
    "threshold": lambda f, z: f.threshold(z, 0.1, 2.0),
    "softshrink": lambda f, z: f.softshrink(z, 0.1),
    "avg_pool1d": lambda f, z: f.avg_pool1d(z[None], 2),
    "two, of which one has a gradient of its own": lambda f, z: f.leaky_relu(z).sum() + (z * z).sum(),
}


@pytest.mark.parametrize("name", PIECEWISE)
def test_gradients_of_piecewise_linear_functions_in_a_body(name: str) -> None:
    """Their gradients depend on the point, with derivative 0."""

    def program(mod: Any, x: Any, y: Any) -> list[Any]:
        def body(c: Any, u: Any) -> tuple[Any, None]:
            z = c * y + u
            (slope,) = mod.autograd.grad(PIECEWISE[name](mod.nn.functional, z).sum(), z, create_graph=True)
            return slope * 2, None

        y.requires_grad_()
        last = scan(mod, body, x, mod.stack([x, x]))
        assert last.requires_grad
        return [last, mod.autograd.grad(last.sum(), y)[0]]

    both(program)


@pytest.mark.parametrize("place", ["loop", "jit"])
def test_a_checkpoint_that_draws_beside_a_backward_walk(place: str) -> None:
    """The second run draws the numbers of the first, in each iteration and each call; later draws go on behind them."""

    def part(a: Any, b: Any) -> Any:
        return facade.nn.functional.dropout((a * b).sin(), 0.5) * a + facade.rand(3)

    def step(c: Any, u: Any) -> tuple[Any, Any]:
        z = c * u
        y = facade.utils.checkpoint.checkpoint(part, z, u, use_reentrant=False)
        (slope,) = facade.autograd.grad(y.sum(), z, create_graph=True)
        return y + slope, slope * facade.rand(3)

    def python_loop(f: Callable[[Any, Any], tuple[Any, Any]], c: Any, xs: Any) -> tuple[Any, Any]:
        ys = []
        for u in xs.unbind():
            c, y = f(c, u)
            ys.append(y)
        return c, facade.stack(ys)

    def results(loop: Callable[..., Any], f: Callable[[Any, Any], tuple[Any, Any]]) -> list[Any]:
        w = facade.tensor(CAPTURED, requires_grad=True)
        facade.manual_seed(3)
        c, ys = loop(f, facade.tensor(POINT), facade.stack([w, w * 2, w * 3, w]))
        (grad,) = facade.autograd.grad(c.sum() + ys.sum(), w, create_graph=True)
        (second,) = facade.autograd.grad(grad.sum(), w)
        return [c.tolist(), ys.tolist(), grad.tolist(), second.tolist(), facade.rand(2).tolist()]

    made = torchlette.jit(step)
    got = results(lax.scan, step) if place == "loop" else results(python_loop, made)
    want = results(python_loop, step)
    assert len({tuple(y) for y in want[1]}) == 4, "each iteration draws its own numbers"
    for a, b in zip(got, want, strict=True):
        torch.testing.assert_close(torch.tensor(a), torch.tensor(b))


def test_a_state_from_outside_makes_a_body_no_program() -> None:
    """Its numbers would be the same in each iteration only by chance."""
    state = facade.get_rng_state()

    def body(c: Any, _: Any) -> tuple[Any, None]:
        facade.set_rng_state(state)
        return c + facade.rand(3), None

    with pytest.raises(RuntimeError):
        lax.scan(body, facade.zeros(3), length=2)
    with pytest.raises(RuntimeError, match="seeded"):
        lax.scan(lambda c, _: (_again(c), None), facade.zeros(3), length=2)


def _again(c: Any) -> Any:
    """Draw numbers, and leave the generator where it was."""
    with facade.random.fork_rng():
        return c + facade.rand(3)
