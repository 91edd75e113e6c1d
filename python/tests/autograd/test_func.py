"""torch.func: gradients, products, Jacobians and vmap are PyTorch's, nested and over nested arguments."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import oracle
import pytest
import torch

import torchlette

A = np.array([[1.0, -2.0, 3.0], [0.5, 4.0, -1.5]], dtype="float32")


def energy(lib: Any) -> Callable[..., Any]:
    """Return a function of a matrix and a vector."""
    return lambda a, b: (a.sin() * b).pow(2).sum() + a.prod()


PROGRAMS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "grad": lambda lib, a, b: lib.func.grad(energy(lib))(a, b),
    "grad_of_both": lambda lib, a, b: lib.func.grad(energy(lib), argnums=(0, 1))(a, b),
    "grad_of_the_second": lambda lib, a, b: lib.func.grad(energy(lib), argnums=1)(a, b),
    "grad_and_value": lambda lib, a, b: lib.func.grad_and_value(energy(lib))(a, b),
    "aux": lambda lib, a, b: lib.func.grad(lambda x: (x.exp().sum(), x * 2), has_aux=True)(a),
    "grad_of_grad": lambda lib, a, b: lib.func.grad(lambda x: lib.func.grad(energy(lib))(x, b).pow(2).sum())(a),
    "dicts": lambda lib, a, b: lib.func.grad(lambda p: (p["w"] * p["v"][0]).sum())({"w": a, "v": [b]})["v"],
    "vjp": lambda lib, a, b: lib.func.vjp(lambda x, y: (x * y, x.sum()), a, b)[1]((a, b.sum())),
    "vjp_one": lambda lib, a, b: lib.func.vjp(lib.sin, a)[1](a)[0],
    "vjp_value": lambda lib, a, b: lib.func.vjp(lib.sin, a)[0],
    "jvp": lambda lib, a, b: lib.func.jvp(lambda x: x.exp() * 2, (a,), (a,)),
    "jacrev": lambda lib, a, b: lib.func.jacrev(lambda x: x.sin() * b)(a),
    "jacfwd": lambda lib, a, b: lib.func.jacfwd(lambda x: x.sin() * b)(a),
    "jacobian_of_both": lambda lib, a, b: lib.func.jacrev(lambda x, y: x * y, argnums=(0, 1))(a, b),
    "hessian": lambda lib, a, b: lib.func.hessian(lambda x: (x.exp() * b).sum())(a),
    "jacobian_of_a_dict": lambda lib, a, b: lib.func.jacrev(lambda p: {"y": p["w"] * b, "z": [p["w"].sum() * p["v"]]})(
        {"w": a, "v": b}
    )["z"][0]["w"],
    "jacobian_of_two_dicts": lambda lib, a, b: lib.func.jacrev(lambda p, q: (p["w"] * q["v"],), (0, 1))(
        {"w": a}, {"v": b}
    )[0][1]["v"],
    "jacobian_with_aux": lambda lib, a, b: lib.func.jacrev(lambda p: (p["w"] * b, a * 2), has_aux=True)({"w": a})[1],
    "hessian_of_a_dict": lambda lib, a, b: lib.func.hessian(lambda p: (p["w"].exp() * p["v"]).sum())({"w": a, "v": b})[
        "w"
    ]["v"],
    "jvp_of_a_dict": lambda lib, a, b: lib.func.jvp(
        lambda p: {"y": p["w"] * p["v"]}, ({"w": a, "v": b},), ({"w": a, "v": b},)
    )[1]["y"],
    "jvp_with_aux": lambda lib, a, b: lib.func.jvp(lambda x: (x.sin(), x * 2), (a,), (a,), has_aux=True)[2],
    "recorded": lambda lib, a, b: lib.autograd.grad(lib.func.grad(energy(lib))(a.requires_grad_(), b).sum(), a),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_equal_to_pytorch(name: str) -> None:
    """The same structure and numbers; results are recorded only where an argument is."""
    flat = []
    for lib in (torch, torchlette):
        found = PROGRAMS[name](lib, lib.tensor(A), lib.tensor(A[0] + 1))
        items = list(found) if isinstance(found, (tuple, list)) else [found]
        items = [t for item in items for t in (item if isinstance(item, (tuple, list)) else [item])]
        flat.append([(tuple(t.shape), t.requires_grad, t.detach().numpy()) for t in items])
    assert len(flat[0]) == len(flat[1])
    for (shape, recorded, w), (got_shape, got_recorded, g) in zip(*flat, strict=True):
        assert (shape, recorded) == (got_shape, got_recorded)
        np.testing.assert_allclose(g, w, rtol=1e-4, atol=1e-5)


VMAPS: dict[str, Callable[[Any, Any], Any]] = {
    "dot": lambda lib, x: lib.vmap(lib.dot)(x, x),
    "a shared argument": lambda lib, x: lib.vmap(lambda a, b: a * b, in_dims=(0, None))(x, x[0]),
    "other dims": lambda lib, x: lib.vmap(lambda a: a * 2, in_dims=1, out_dims=1)(x),
    "nested": lambda lib, x: lib.vmap(lambda d: {"y": d["a"] + d["b"][0]}, in_dims=({"a": 0, "b": [1]},))(
        {"a": x, "b": [x.t()]}
    )["y"],
    "pairs": lambda lib, x: lib.vmap(lambda a: (a.sum(), a * 2), out_dims=(0, 1))(x)[1],
    "keywords": lambda lib, x: lib.vmap(lambda a, *, b: a - b)(x, b=x.flip(0)),
    "of a vmap": lambda lib, x: lib.vmap(lib.vmap(lambda a: a.square()))(x),
    "of a gradient": lambda lib, x: lib.vmap(lib.func.grad(lambda a: a.sin().sum()))(x),
    "of a Hessian": lambda lib, x: lib.vmap(lib.func.hessian(lambda a: (a**3).sum()))(x),
}


@pytest.mark.parametrize("name", VMAPS)
def test_vmap(name: str) -> None:
    """Values and shapes are PyTorch's."""
    want, got = (VMAPS[name](lib, lib.tensor(A)) for lib in (torch, torchlette))
    assert tuple(want.shape) == tuple(got.shape)
    np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-5, atol=1e-6)


def test_vmap_draws_as_it_is_told() -> None:
    """The same numbers in each call, or others."""

    def noisy(row: Any) -> Any:
        return row * 0 + torchlette.randn(())

    same, different = (
        torchlette.func.vmap(noisy, randomness=r)(torchlette.zeros(3)).tolist() for r in ("same", "different")
    )
    assert len(set(same)) == 1
    assert len(set(different)) == 3
    assert len(set(same + torchlette.func.vmap(noisy, randomness="same")(torchlette.zeros(3)).tolist())) == 2


EMPTY: dict[str, Callable[[Any], Any]] = {
    "elementwise": lambda lib: lib.vmap(lambda x: x * 2)(lib.zeros(0, 4)),
    "results of several shapes": lambda lib: lib.vmap(lambda x: (x.sum(), {"y": x > 2}["y"], lib.stack([x, x])))(
        lib.zeros(0, 4)
    ),
    "out_dims": lambda lib: lib.vmap(lambda x: (x, lib.stack([x, x])), out_dims=(0, 1))(lib.zeros(0, 4)),
    "in_dims": lambda lib: lib.vmap(lambda x, y: y @ x, in_dims=(-1, None), out_dims=-1)(
        lib.zeros(4, 0), lib.ones(3, 4)
    ),
    "indices": lambda lib: lib.vmap(lambda i: lib.arange(5.0)[i])(lib.zeros(0, dtype=lib.int64)),
    "of a gradient": lambda lib: lib.vmap(lib.func.grad(lambda x: (x * x).sum()))(lib.zeros(0, 2)),
    "of a vmap": lambda lib: lib.vmap(lib.vmap(lambda x: x * 2))(lib.zeros(2, 0, 3)),
    "a result of no argument": lambda lib: lib.vmap(lambda x: lib.ones(2))(lib.zeros(0, 4)),
    "history": lambda lib: (lambda x: lib.autograd.grad(lib.vmap(lambda r: r.exp())(x).sum(), x)[0])(
        lib.zeros(0, 3).requires_grad_()
    ),
    "draws": lambda lib: lib.vmap(lambda x: lib.rand(3) * x, randomness="different")(lib.zeros(0, 3)),
}


@pytest.mark.parametrize("name", EMPTY)
def test_vmap_over_an_empty_dim(name: str) -> None:
    """The function runs once to learn the shapes; results and gradients are empty."""
    oracle.assert_equal(EMPTY[name](torchlette), EMPTY[name](torch))


#: Random operations of each kind: they draw with a shape, as another tensor, in place, and inside of a composite.
DRAWS: dict[str, Callable[[Any, Any], Any]] = {
    "rand": lambda lib, x: lib.rand(3, device=x.device) + x,
    "randn_like": lambda lib, x: lib.randn_like(x),
    "randint": lambda lib, x: lib.randint(0, 4, (3,), device=x.device) + x,
    "randperm": lambda lib, x: lib.randperm(3, device=x.device) + x,
    "bernoulli": lambda lib, x: lib.bernoulli(x * 0 + 0.5),
    "normal_": lambda lib, x: x.clone().normal_(),
    "multinomial": lambda lib, x: lib.multinomial(x * 0 + 1, 2),
    "dropout": lambda lib, x: lib.nn.functional.dropout(x, 0.5),
    "attention": lambda lib, x: lib.nn.functional.scaled_dot_product_attention(
        *[x.expand(1, 2, 2, 3)] * 3, dropout_p=0.5
    ),
}


@pytest.mark.parametrize("name", DRAWS)
def test_vmap_refuses_draws_without_a_randomness(device: str, name: str) -> None:
    """The draw raises at its line, the generator stays where it was, and draws work again afterwards."""
    x = torchlette.ones(4, 3, device=device)
    text = "vmap: called random operation while in randomness error mode"
    with pytest.raises(RuntimeError, match=text):
        torch.vmap(lambda r: DRAWS[name](torch, r))(torch.ones(4, 3))
    state = torchlette.get_rng_state()
    for _ in range(3):
        with pytest.raises(RuntimeError, match=text):
            torchlette.vmap(lambda r: DRAWS[name](torchlette, r))(x)
    assert torchlette.equal(torchlette.get_rng_state(), state)
    with torchlette.tidy():
        for randomness in ("same", "different"):
            torchlette.vmap(lambda r: DRAWS[name](torchlette, r), randomness=randomness)(x)
        for _ in range(4):
            DRAWS[name](torchlette, x[0]).tolist()


def test_vmap_passes_random_operations_that_draw_nothing() -> None:
    for lib in (torchlette, torch):
        for options in ((0.5, False), (0.0,)):
            idle = functools.partial(lambda lib, options, r: lib.nn.functional.dropout(r, *options), lib, options)
            assert lib.vmap(idle)(lib.ones(2, 3)).tolist() == [[1.0] * 3] * 2


@pytest.mark.parametrize("inner", ["error", "same", "different"])
@pytest.mark.parametrize("outer", ["error", "same", "different"])
def test_nested_vmap_draws_as_in_pytorch(outer: str, inner: str) -> None:
    """Which rows and columns have equal numbers is PyTorch's; a level that refuses draws is enough."""

    def outcome(lib: Any) -> Any:
        noisy = lib.vmap(lambda r: lib.vmap(lambda x: x + lib.rand(()), randomness=inner)(r), randomness=outer)
        try:
            found = noisy(lib.zeros(3, 4))
        except RuntimeError as error:
            return str(error)[:40]
        return len(set(found[0].tolist())), len(set(found[:, 0].tolist()))

    assert outcome(torchlette) == outcome(torch)


def jacobian_of_draws(lib: Any, transform: str, options: dict[str, Any]) -> Any:
    """Return the number of distinct values in a random Jacobian's rows, or the error."""
    lib.manual_seed(3)
    if transform == "hessian":
        made = lib.func.hessian(lambda x: (x * x * lib.rand(3)).sum(), **options)
    else:
        made = getattr(lib.func, transform)(lambda x: (x + x.sum()) * lib.rand(()), **options)
    try:
        found = made(lib.ones(3))
    except RuntimeError as error:
        return str(error)
    return sorted(len(set(row.tolist())) for row in found), len(set(found.sum(0).tolist()))


@pytest.mark.parametrize(
    ("transform", "options"),
    [
        ("jacfwd", {}),
        *(("jacfwd", {"randomness": r}) for r in ("error", "same", "different", "none")),
        ("jacrev", {}),
        ("jacrev", {"chunk_size": 1}),
        ("jacrev", {"chunk_size": 2}),
        ("hessian", {}),
    ],
    ids=str,
)
def test_jacobians_draw_as_in_pytorch(transform: str, options: dict[str, Any]) -> None:
    assert jacobian_of_draws(torchlette, transform, options) == jacobian_of_draws(torch, transform, options)


@pytest.mark.parametrize("chunk_size", [None, 1, 2])
def test_a_backward_pass_draws_as_in_pytorch(chunk_size: int | None) -> None:
    """``jacrev`` refuses draws of a backward pass but for one row at a time."""

    def outcome(lib: Any) -> Any:
        class Noisy(lib.autograd.Function):
            @staticmethod
            def forward(x: Any) -> Any:
                return x.clone()

            @staticmethod
            def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
                pass

            @staticmethod
            def backward(ctx: Any, gradient: Any) -> Any:
                return gradient * 0 + lib.rand(3)

        if lib is torch:
            Noisy.generate_vmap_rule = True
        try:
            return len(set(lib.func.jacrev(Noisy.apply, chunk_size=chunk_size)(lib.ones(3)).flatten().tolist()))
        except RuntimeError as error:
            return str(error)[:60]

    assert outcome(torchlette) == outcome(torch)


COLUMNS: dict[str, Callable[[Any], Any]] = {
    "one": lambda lib: lib.func.jacfwd(lambda x: x.sin() * x, randomness="different")(lib.tensor(A)),
    "two": lambda lib: lib.func.jacfwd(lambda x, y, z: (x * y, z.sum() * y), (2, 1), randomness="different")(
        lib.tensor(A), lib.tensor(A[0]), lib.ones(2)
    ),
    "nested, with aux": lambda lib: lib.func.jacfwd(
        lambda p: ({"y": p["w"] * p["v"][0]}, p["w"] * 2), has_aux=True, randomness="different"
    )({"w": lib.tensor(A), "v": [lib.tensor(2.0)]}),
    "empty": lambda lib: lib.func.jacfwd(lambda x: x.exp(), randomness="different")(lib.ones(0, 2)),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_a_jacobian_by_columns_is_that_by_rows(name: str) -> None:
    """Where nothing is drawn, a call for each column gives PyTorch's structure and numbers."""
    oracle.assert_equal(COLUMNS[name](torchlette), COLUMNS[name](torch))


@pytest.mark.parametrize("name", ["vmap", "jacrev", "jacfwd", "hessian", "grad", "grad_and_value", "vjp", "jvp"])
def test_signatures_are_pytorchs(name: str) -> None:
    def public(function: Any) -> list[Any]:
        parameters = inspect.signature(function).parameters.values()
        return [(p.name, p.kind, p.default) for p in parameters if not p.name.startswith("_")]

    assert public(getattr(torchlette.func, name)) == public(getattr(torch.func, name))


def test_vmap_refuses() -> None:
    """Sizes that differ, nothing mapped, and results that are no tensors are errors of PyTorch's class."""
    for lib in (torch, torchlette):
        for call in (
            lambda lib=lib: lib.vmap(lib.add)(lib.ones(2), lib.ones(3)),
            lambda lib=lib: lib.vmap(lib.neg, in_dims=None)(lib.ones(2)),
            lambda lib=lib: lib.vmap(lambda a: "x")(lib.ones(2)),
            lambda lib=lib: lib.vmap(lib.neg)(lib.tensor(1.0)),
            lambda lib=lib: lib.vmap(lib.neg, in_dims=2)(lib.ones(2, 3)),
            lambda lib=lib: lib.vmap(lambda a: 3)(lib.ones(0, 3)),
            lambda lib=lib: lib.vmap(lib.neg, chunk_size=0)(lib.ones(2)),
        ):
            with pytest.raises(ValueError, match=r"\w"):
                call()


def test_a_result_with_dims_is_refused() -> None:
    """As PyTorch does."""
    for lib in (torch, torchlette):
        with pytest.raises(RuntimeError):
            lib.func.grad(lambda x: x * 2)(lib.ones(2))


@pytest.mark.parametrize("name", ["jacrev", "jacfwd"])
def test_jacobians_of_complex_functions_are_refused(name: str) -> None:
    for t in (torch, torchlette):
        jacobian = getattr(t.func, name)
        with pytest.raises(RuntimeError, match=f"{name}: Expected all inputs to be real"):
            jacobian(lambda x: x.conj())(t.ones(2, dtype=t.complex64))
        with pytest.raises(RuntimeError, match=f"{name}: Expected all outputs to be real"):
            jacobian(lambda x, t=t: t.complex(x, x))(t.ones(2))


def test_transforms_name_what_they_cannot_push_or_pull() -> None:
    for t in (torch, torchlette):
        x = t.ones(2)
        with pytest.raises(RuntimeError, match="primals to only contain Tensors"):
            t.func.jvp(t.sin, (1.0,), (x,))
        with pytest.raises(RuntimeError, match="tangents to only contain Tensors"):
            t.func.jvp(t.sin, (x,), (1.0,))
        for empty in (None, ()):
            with pytest.raises(RuntimeError, match="non-empty output"):
                t.func.jvp(lambda _, empty=empty: empty, (x,), (x,))
            with pytest.raises(RuntimeError, match="non-empty output"):
                t.func.vjp(lambda _, empty=empty: empty, x)
