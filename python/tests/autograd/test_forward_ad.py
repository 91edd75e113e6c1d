"""Forward mode: dual tensors, its levels, and how it composes with views, writes, histories and captured functions."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from test_closures import CAPTURES, TRANSFORMS, check

import torchlette
import torchlette.torch as facade

LIBS = (torch, facade)
POINT, DIRECTION = [0.3, -0.7, 1.1, 0.4], [1.0, 0.5, -2.0, 0.25]


def _numbers(t: Any) -> Any:
    return None if t is None else t.detach().cpu().numpy().astype("float64")


def both(program: Callable[[Any], Any], rtol: float = 1e-6) -> Any:
    """Return our results of a program, which are PyTorch's."""
    want, got = (program(lib) for lib in LIBS)
    want, got = (list(r) if isinstance(r, (list, tuple)) else [r] for r in (want, got))
    assert len(want) == len(got)
    for a, b in zip(want, got, strict=True):
        assert (a is None) == (b is None), (a, b)
        if a is not None:
            np.testing.assert_allclose(_numbers(b), _numbers(a), rtol=rtol, atol=1e-7)
    return got


def pair(lib: Any, **options: Any) -> tuple[Any, Any]:
    """Return a point and a direction."""
    return lib.tensor(POINT, **options), lib.tensor(DIRECTION, **options)


def push(lib: Any, f: Callable[[Any], Any]) -> list[Any]:
    """Return primal and tangent of ``f`` by dual tensors."""
    ad = lib.autograd.forward_ad
    with ad.dual_level():
        return list(ad.unpack_dual(f(ad.make_dual(*pair(lib)))))


def _in_place(lib: Any, x: Any) -> Any:
    z = lib.zeros(4)
    z[1:3] = x[1:3] ** 2
    z.view(2, 2)[0].mul_(x[0])
    z.add_(x, alpha=2)
    return z.t() if z.dim() == 2 else z


def _through_a_view(lib: Any, x: Any) -> Any:
    base = lib.ones(2, 2)
    row = base[1]
    base[:, 0].copy_(x[:2])
    return row * base.t()


def _own_argument(lib: Any, x: Any) -> Any:
    return x.mul_(2).add_(1).sin_()


FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "views": lambda lib, x: x.reshape(2, 2).t()[1].flip(0) * x[::2].expand(3, 2),
    "as_strided": lambda lib, x: lib.as_strided(x * 2, (2, 2), (1, 2), 0).sin(),
    "writes in place": _in_place,
    "a write through a view": _through_a_view,
    "a write to the dual tensor": _own_argument,
    "detach severs": lambda lib, x: x.detach() * x + x.detach(),
    "nothing depends": lambda lib, x: lib.ones(3),
    "integers have no tangent": lambda lib, x: (x > 0).sum() + (x * 4).long(),
    "casts": lambda lib, x: (x.double() ** 2).float(),
    "numpy-like constants": lambda lib, x: 2 - x / 3,
    "the loss of a class": lambda lib, x: lib.nn.functional.cross_entropy(x.reshape(2, 2), lib.tensor([1, 0])),
    "recurrence": lambda lib, x: _recurrence(lib, x),
}


def _recurrence(lib: Any, x: Any) -> Any:
    lstm = lib.nn.LSTM(2, 3).double()  # PyTorch has no forward mode for its float32 kernel
    for k, p in enumerate(lstm.parameters()):
        p.data = lib.linspace(-1, 1, p.numel(), dtype=lib.float64).reshape(p.shape) * (k + 1) / 4
    return lstm(x.double().reshape(2, 2))[0]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_dual_tensors_have_pytorchs_tangents(name: str) -> None:
    both(lambda lib: push(lib, lambda x: FUNCTIONS[name](lib, x)), rtol=1e-5)


def test_tangents_on_the_device(device: str) -> None:
    """Values, tangents and a second derivative are computed where the tensor is."""
    x = torchlette.tensor(POINT, device=device)

    def slope(v: Any) -> Any:
        return torchlette.func.jvp(lambda u: u.sin() * u.sum(), (v,), (torchlette.ones_like(v),))[1]

    out, second = torchlette.func.jvp(slope, (x,), (torchlette.ones_like(x),))
    assert out.device == second.device == x.device
    y = np.array(POINT)
    np.testing.assert_allclose(_numbers(out), np.cos(y) * y.sum() + 4 * np.sin(y), rtol=1e-4)
    np.testing.assert_allclose(_numbers(second), 8 * np.cos(y) - np.sin(y) * y.sum(), rtol=1e-4)


def _errors(lib: Any) -> list[str]:
    ad = lib.autograd.forward_ad
    x, t = pair(lib)
    texts = []

    def note(f: Callable[[], Any]) -> None:
        with pytest.raises((RuntimeError, ValueError)) as caught:
            f()
        texts.append(f"{type(caught.value).__mro__[-3].__name__}: {caught.value}".split("\n")[0][:60])

    note(lambda: ad.make_dual(x, t))
    note(ad.exit_dual_level)
    with ad.dual_level():
        note(ad.enter_dual_level)
        note(lambda: ad.make_dual(x.long(), t))
        note(lambda: ad.make_dual(x, t.long()))
        note(lambda: ad.make_dual(x, t[:2]))
        note(lambda: ad.make_dual(ad.make_dual(x, t), t))
        note(lambda: ad.exit_dual_level(level=3))
    return texts


def test_errors_are_pytorchs() -> None:
    want, got = (_errors(lib) for lib in LIBS)
    assert got == want


def test_a_level_ends_with_its_tangents() -> None:
    ad = facade.autograd.forward_ad
    x, t = pair(facade)
    with ad.dual_level() as level:
        dual = ad.make_dual(x, t)
        assert level == 0
        assert ad.unpack_dual(x).tangent is None
        primal, tangent = ad.unpack_dual(dual)
        assert ad.unpack_dual(primal).tangent is None
        assert tangent is not None
    assert ad.unpack_dual(dual).tangent is None
    with ad.dual_level():
        assert ad.unpack_dual(dual * 2).tangent is None


def test_calls_made_often_have_tangents_only_for_dual_tensors() -> None:
    """The fourth like call is deferred, and recorded later from a cached trace."""
    ad = facade.autograd.forward_ad
    x, t = pair(facade)
    for _ in range(6):
        plain = (x * 3).exp()
    with ad.dual_level():
        duals = [(ad.make_dual(x, t * k) * 3).exp() for k in range(1, 7)]
        again = (x * 3).exp()
        for k, dual in enumerate(duals, 1):
            np.testing.assert_allclose(
                _numbers(ad.unpack_dual(dual).tangent), 3 * k * _numbers(t) * _numbers(plain), rtol=1e-5
            )
        assert ad.unpack_dual(again).tangent is None


def test_switches() -> None:
    """``no_grad`` keeps tangents, ``inference_mode`` does not."""

    def program(lib: Any) -> Any:
        def f(x: Any) -> Any:
            with lib.no_grad():
                y = x * x
            with lib.inference_mode():
                z = x * 3
            return y + z.clone()

        return push(lib, f)

    both(program)


def test_forward_and_reverse_compose() -> None:
    """Tangents keep a history, and gradients have tangents: Hessian-vector products three ways."""

    def forward_over_reverse(lib: Any) -> Any:
        ad = lib.autograd.forward_ad
        x, t = pair(lib)
        x.requires_grad_()
        with ad.dual_level():
            dual = ad.make_dual(x, t)
            (grad,) = lib.autograd.grad((dual**3).sum() * dual[0], dual, create_graph=True)
            return ad.unpack_dual(grad).tangent

    def reverse_over_forward(lib: Any) -> Any:
        x, t = pair(lib)
        x.requires_grad_()
        _, slope = lib.func.jvp(lambda v: (v**3).sum() * v[0], (x,), (t,))
        return lib.autograd.grad(slope, x)[0]

    def functional(lib: Any) -> Any:
        x, t = pair(lib)
        return lib.autograd.functional.hvp(lambda v: (v**3).sum() * v[0], x, t)[1]

    results = [both(f)[0] for f in (forward_over_reverse, reverse_over_forward, functional)]
    for r in results[1:]:
        np.testing.assert_allclose(_numbers(r), _numbers(results[0]), rtol=1e-5)


# Siskind and Pearlmutter, "Perturbation Confusion and Referential Transparency" (2005), and "Nesting forward-mode AD in
# a functional framework" (2008): derivatives of functions that hold other levels' arguments.
def _derivative(lib: Any, f: Callable[[Any], Any], x: Any) -> Any:
    return lib.func.jvp(f, (x,), (lib.ones_like(x),))[1]


PERTURBATIONS: dict[str, tuple[Callable[..., Any], float]] = {
    "x * d(x + y)/dy": (lambda d, x: d(lambda x: x * d(lambda y: x + y, x * 0 + 1), x), 1.0),
    "x * d(x * y)/dy": (lambda d, x: d(lambda x: x * d(lambda y: x * y, x * 0 + 2), x), 2.0),
    "constant": (lambda d, x: d(lambda x: d(lambda y: x, x), x), 0.0),
    "the same point": (lambda d, x: d(lambda x: x * d(lambda y: x + y, x), x), 1.0),
    "power of power": (lambda d, x: d(lambda x: d(lambda y: y * x * d(lambda z: z * y * x, y), x), x), 6.0),
    "an escaped dual": (lambda d, x: _escaped(d, x), 1.0),
}


def _escaped(d: Callable[..., Any], x: Any) -> Any:
    """A dual tensor of a level that has ended is a plain tensor in another level."""
    held: list[Any] = []

    def keep(v: Any) -> Any:
        held.append(v * 1)
        return v

    d(keep, x)
    return d(lambda y: y + held[0], x)


@pytest.mark.parametrize("name", PERTURBATIONS)
def test_perturbations_of_different_levels_do_not_mix(name: str) -> None:
    program, want = PERTURBATIONS[name]
    x = facade.tensor(1.0)
    assert program(lambda f, v: _derivative(facade, f, v), x).item() == pytest.approx(want)
    if name != "an escaped dual":
        assert program(lambda f, v: facade.func.grad(f)(v), x).item() == pytest.approx(want)


DEPTH_FOUR = [
    ("jvp", "jvp", "jvp", "jvp"), ("jacfwd", "grad", "vmap", "jvp"), ("grad", "jvp", "grad", "jvp"),
    ("vmap", "jvp", "vmap", "vjp"), ("jvp", "vmap", "jacfwd", "grad"), ("vjp", "jacfwd", "jvp", "vmap"),
]  # fmt: skip


@pytest.mark.parametrize("names", DEPTH_FOUR, ids="-".join)
def test_four_levels(names: tuple[str, ...]) -> None:
    assert set(names) <= TRANSFORMS.keys()
    for capture, own_point in itertools.product(CAPTURES, (True, False)):
        check(names, capture, own_point, "cpu")


def test_tangents_with_a_batch_that_their_values_lack() -> None:
    """``vmap`` of ``jvp`` maps the directions only; values and captured batches meet them in every way."""

    def program(lib: Any) -> Any:
        x, _ = pair(lib, dtype=lib.float64)
        ts = lib.eye(4, dtype=lib.float64)
        scale = lib.arange(1, 5, dtype=lib.float64)

        def by_elements(t: Any, s: Any) -> Any:
            def f(v: Any) -> Any:
                inner = lib.func.grad(lambda u: (u * v * s).sin().sum() + u[:1].sum() * v[0])(v * 2)
                return inner + v.reshape(2, 2).t().reshape(-1) * s

            return lib.func.jvp(f, (x,), (t,))

        out, slope = lib.func.vmap(by_elements)(ts, scale)
        fixed = lib.func.vmap(lambda t: lib.func.jvp(lambda v: v * 2, (x,), (t,)), out_dims=(None, 1))(ts)
        return [out, slope, *fixed]

    both(program)


def test_a_gradient_in_an_inner_map_of_a_map_of_directions() -> None:
    """The point of the inner gradient has the inner level before it gets the outer one."""

    def program(lib: Any) -> Any:
        def f(v: Any) -> Any:
            gradient = lib.func.grad(lambda u: u.sin().sum())
            return lib.func.vmap(gradient)(lib.stack([v, v * 0.5])).sum(0)

        def g(x: Any) -> Any:
            return lib.func.vmap(lambda t: lib.func.jvp(f, (x,), (t,))[1])(lib.stack([x, x + 1])).sum()

        return [lib.func.grad(g)(pair(lib, dtype=lib.float64)[0])]

    both(program)


def test_draws_under_a_map_of_directions() -> None:
    """Dropout drops the same elements of value and tangent."""
    x = facade.ones(64)

    def f(t: Any) -> Any:
        return facade.func.jvp(lambda v: facade.nn.functional.dropout(v, 0.5), (x,), (t,))

    for mode in ("same", "different"):
        out, slope = facade.func.vmap(f, randomness=mode)(facade.ones(3, 64) * 2)
        out = out.expand(3, 64)
        np.testing.assert_array_equal(_numbers(slope), 2 * _numbers(out))
        assert (len(np.unique(_numbers(out), axis=0)) == 1) == (mode == "same")


class _Square(torchlette.autograd.Function):
    @staticmethod
    def forward(x: Any) -> Any:
        return x * x

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(inputs[0])
        ctx.save_for_forward(inputs[0])

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return 2 * ctx.saved_tensors[0] * g

    @staticmethod
    def jvp(ctx: Any, t: Any) -> Any:
        return 2 * ctx.saved_tensors[0] * t

    generate_vmap_rule = True


class _Older(torchlette.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, y: Any) -> Any:
        ctx.save_for_forward(x, y)
        ctx.save_for_backward(x, y)
        return x * y, x + y

    @staticmethod
    def backward(ctx: Any, g: Any, h: Any) -> Any:
        x, y = ctx.saved_tensors
        return g * y + h, g * x + h

    @staticmethod
    def jvp(ctx: Any, s: Any, t: Any) -> Any:
        x, y = ctx.saved_tensors
        return s * y + x * t, s + t


def test_a_function_with_a_jvp_of_its_own() -> None:
    x, t = pair(facade)
    x.requires_grad_()
    value, slope = facade.func.jvp(_Square.apply, (x,), (t,))
    np.testing.assert_allclose(_numbers(slope), 2 * _numbers(x) * _numbers(t))
    np.testing.assert_allclose(_numbers(facade.autograd.grad(value.sum(), x)[0]), 2 * _numbers(x))
    p = x.detach()
    second = facade.func.jvp(lambda v: facade.func.jvp(_Square.apply, (v,), (t,))[1], (p,), (t,))[1]
    np.testing.assert_allclose(_numbers(second), 2 * _numbers(t) ** 2, rtol=1e-6)
    np.testing.assert_allclose(_numbers(facade.func.jacfwd(_Square.apply)(p)), np.diag(2 * _numbers(p)), rtol=1e-6)
    np.testing.assert_allclose(
        _numbers(facade.func.hessian(lambda v: _Square.apply(v).sum())(p)), 2 * np.eye(4), atol=1e-6
    )
    first, both_ = facade.func.jvp(lambda v: _Older.apply(v, p), (p,), (t,))[1]
    np.testing.assert_allclose(_numbers(first), _numbers(p) * _numbers(t), rtol=1e-6)
    np.testing.assert_allclose(_numbers(both_), _numbers(t))


def test_a_function_without_a_jvp_says_so() -> None:
    class Half(torchlette.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x / 2

    x, t = pair(facade)
    with pytest.raises(NotImplementedError, match="must implement the jvp function"):
        facade.func.jvp(Half.apply, (x,), (t,))


def test_linearize_calls_the_function_once() -> None:
    calls: list[int] = []

    def f(x: Any, y: Any) -> Any:
        calls.append(1)
        return {"a": (x * y).sin(), "b": facade.ones(2), "c": x}

    (x, t), y = pair(facade), facade.tensor(2.0)
    out, pushed = facade.func.linearize(f, x, y)
    for scale in (1.0, -3.0):
        found = pushed(t * scale, y * 0)
        want = facade.func.jvp(f, (x, y), (t * scale, y * 0))[1]
        calls.pop()
        for key in out:
            np.testing.assert_allclose(_numbers(found[key]), _numbers(want[key]), rtol=1e-6)
    assert len(calls) == 1
    np.testing.assert_allclose(
        _numbers(facade.func.vmap(pushed, in_dims=(0, None))(facade.eye(4), y * 0)["a"]),
        np.diag(2 * np.cos(2 * _numbers(x))), rtol=1e-5,
    )  # fmt: skip
    u = t.clone().requires_grad_()
    (grad,) = facade.autograd.grad(pushed(u, y)["a"].sum(), u)
    np.testing.assert_allclose(_numbers(grad), 2 * np.cos(2 * _numbers(x)), rtol=1e-5)
    with pytest.raises(RuntimeError, match="tangent:0 with shape"):
        pushed(t[:2], y)
    with pytest.raises(RuntimeError, match="same argspec"):
        pushed(t)


def test_linearize_of_a_function_that_reads_elements() -> None:
    x, t = pair(facade)
    _, pushed = facade.func.linearize(lambda v: v * 2 if v.sum().item() > 0 else v * 3, x)
    np.testing.assert_allclose(_numbers(pushed(t)), 2 * _numbers(t))


def test_a_captured_function_of_dual_tensors() -> None:
    """What a compiled function records again has tangents, by whichever way it is called."""
    f = facade.compile(lambda v: (v * v).sum() * v)
    x, t = pair(facade)
    want = torch.func.jvp(lambda v: (v * v).sum() * v, (torch.tensor(POINT),), (torch.tensor(DIRECTION),))[1]
    for _ in range(4):
        f(x)
        np.testing.assert_allclose(_numbers(facade.func.jvp(f, (x,), (t,))[1]), want.numpy(), rtol=1e-5)


def test_autocast_and_checkpoint() -> None:
    def program(lib: Any) -> Any:
        x, t = pair(lib)
        w = lib.linspace(-1, 1, 16).reshape(4, 4)

        def f(v: Any) -> Any:
            with lib.autocast("cpu", dtype=lib.bfloat16):
                y = lib.utils.checkpoint.checkpoint(lambda u: (w @ u).tanh(), v, use_reentrant=False)
            return y.float()

        return push(lib, f) + list(lib.func.jvp(f, (x,), (t,)))

    both(program, rtol=2e-2)


def test_a_detached_alias_and_its_writes() -> None:
    def program(lib: Any) -> Any:
        def f(x: Any) -> Any:
            alias = x.detach()
            alias.mul_(2)
            return lib.stack([x, alias])

        return push(lib, f)

    both(program)
    x, t = pair(facade)
    with pytest.raises(NotImplementedError, match="clone it first"):
        facade.func.jvp(lambda v: v.detach().mul_(v), (x,), (t,))


def test_out_arguments_are_refused() -> None:
    for lib in LIBS:
        x, t = pair(lib)
        with pytest.raises(RuntimeError, match="out="):
            lib.func.jvp(lambda v, lib=lib: lib.sin(v, out=lib.empty(4)), (x,), (t,))


def test_programs_as_text() -> None:
    def f(x: Any, scale: float) -> Any:
        y = x * scale
        y.add_(1)
        return facade.func.jvp(lambda v: v.sin(), (y,), (y,))[1]

    text = facade.func.make_program(f)(facade.ones(3), 2.0)
    lines = [line.split("  #")[0] for line in text.splitlines()]
    assert lines[0] == "input $0 : f32[3]"
    assert [line.split()[2] for line in lines if line.startswith("%")][:2] == ["mul", "add"]
    assert any("cos" in line for line in lines)
    assert facade.func.make_jaxpr is facade.func.make_program
    with pytest.raises(RuntimeError):
        facade.func.make_program(lambda x: x.sum().item())(facade.ones(2))
    assert facade.ones(2).sum().item() == 2


def test_functionalize() -> None:
    def f(x: Any) -> Any:
        y = x.clone()
        y[0].add_(1)
        return y

    both(lambda lib: lib.func.functionalize(f)(lib.ones(3)))
    for lib in LIBS:
        with pytest.raises(RuntimeError, match="received invalid argument"):
            lib.func.functionalize(f, remove="views")


def test_functional_forward_strategy() -> None:
    def program(lib: Any) -> Any:
        x, t = pair(lib)
        f = lib.autograd.functional
        options = {"strategy": "forward-mode", "vectorize": True}
        both_ = f.jacobian(lambda a, b: (a * b, a.sum()), (x, t), **options)
        return [
            f.jacobian(lambda v: v.sin() * v.sum(), x, **options), *both_[0], *both_[1],
            f.hessian(lambda v: (v**3).sum() * v[0], x, vectorize=True, outer_jacobian_strategy="forward-mode"),
        ]  # fmt: skip

    both(program)
    for lib, (option, error) in itertools.product(
        LIBS, [({"strict": True, "vectorize": True}, RuntimeError), ({"create_graph": True}, NotImplementedError),
               ({}, NotImplementedError)],
    ):  # fmt: skip
        with pytest.raises(error):
            lib.autograd.functional.jacobian(lambda v: v, lib.ones(2), strategy="forward-mode", **option)


def test_threads_do_not_see_each_others_ceiling() -> None:
    """A level that one thread leaves out counts in another."""
    from concurrent.futures import ThreadPoolExecutor

    from torchlette._runtime import forward

    x, t = pair(facade)
    with forward.level() as level, contextlib.ExitStack() as stack:
        dual = forward.dual(x, t, level)
        stack.enter_context(forward.below(level))
        assert forward.tangent(dual * 1, level) is None
        with ThreadPoolExecutor(1) as pool:
            found = pool.submit(lambda: forward.tangent(dual * 2, level)).result()
        np.testing.assert_allclose(_numbers(found), 2 * _numbers(t))
