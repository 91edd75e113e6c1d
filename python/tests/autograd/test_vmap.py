"""vmap is PyTorch's: rules of primitives, nesting, gradients below and above, in-place writes, draws and refusals."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import torchlette
import torchlette.torch as facade

X = np.random.default_rng(7).standard_normal((4, 3, 5)).astype("float32")
I = np.array([[2, 0], [1, 1], [0, 2], [2, 2]])  # noqa: E741


def _written(lib: Any, a: Any) -> Any:
    y = a.clone()
    y[0] = 1.0
    y.mul_(2)
    y[:, 1:3] += a[:, :2]
    y.t()[2].fill_(0.5)
    return y


def _conv(lib: Any, groups: int = 1) -> Callable[..., Any]:
    return lambda x, w: lib.nn.functional.conv2d(x, w, padding=1, groups=groups)


def _image(lib: Any, *shape: int) -> Any:
    return lib.tensor(np.sin(np.arange(np.prod(shape), dtype="float32") * 0.37).reshape(shape))


def _network(lib: Any) -> tuple[Any, dict[str, Any]]:
    layers = lib.nn.Sequential(lib.nn.Linear(5, 4), lib.nn.Tanh(), lib.nn.LayerNorm(4), lib.nn.Linear(4, 2))
    with lib.no_grad():
        for k, p in enumerate(layers.parameters()):
            p.copy_(_image(lib, *p.shape) + 0.1 * k)
    return layers, {k: v.detach() for k, v in layers.named_parameters()}


def _per_sample(lib: Any, x: Any) -> Any:
    layers, params = _network(lib)

    def loss(p: Any, row: Any) -> Any:
        return lib.func.functional_call(layers, p, (row,)).square().sum()

    found = lib.func.vmap(lib.func.grad(loss), in_dims=(None, 0))(params, x)
    return [found[k] for k in params]


PROGRAMS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "product by a shared matrix": lambda lib, x, i: lib.vmap(lambda a, w: a @ w, (0, None))(x, x[0].t()),
    "product of shared rows": lambda lib, x, i: lib.vmap(lambda w, a: w @ a, (None, 0))(x[0], x.transpose(1, 2)),
    "products": lambda lib, x, i: lib.vmap(lambda a: a @ a.t() + a.sum())(x),
    "outer products": lambda lib, x, i: lib.vmap(lambda a: lib.outer(a[0], a[1]))(x),
    "linear": lambda lib, x, i: lib.vmap(lib.nn.functional.linear, (1, None, 0))(x, x[1], x[:3, :, 0]),
    "baddbmm of elements": lambda lib, x, i: lib.vmap(lambda a, c: lib.baddbmm(c, a, a), (0, None))(
        x[:, None, :, :3], x[0, :, :3]
    ),
    "in_dims and out_dims": lambda lib, x, i: lib.vmap(lambda a: (a.sum(0), a * 2), -1, (1, -1))(x),
    "a tree": lambda lib, x, i: lib.vmap(lambda d: {"y": (d["a"] * d["b"][0],)}, ({"a": 1, "b": [None]},))(
        {"a": x, "b": [x[:, 0]]}
    )["y"][0],
    "nested": lambda lib, x, i: lib.vmap(lambda p: lib.vmap(lambda q: (p * q).cumsum(0), 1, -1)(x[0]))(x[:, :, 0]),
    "four deep": lambda lib, x, i: lib.vmap(
        lambda a: lib.vmap(lambda b: lib.vmap(lambda c: lib.vmap(lambda d: d * a.sum() + c.sum())(b))(b))(a.t())
    )(x),
    "a gather": lambda lib, x, i: lib.vmap(lambda a, k: (a.gather(0, k[:, None].expand(2, 5)), a[k], a[:, k]))(x, i),
    "an index alone": lambda lib, x, i: lib.vmap(lambda k: x[0].index_select(0, k))(i),
    "a number": lambda lib, x, i: lib.vmap(lambda a, k: (a[k], a[:, k] * k))(x, i[:, 0]),
    "embedding": lambda lib, x, i: lib.vmap(lib.nn.functional.embedding, (0, None))(i, x[0]),
    "scatters": lambda lib, x, i: lib.vmap(
        lambda a, k: (a.index_add(0, k, a[:2]), a.scatter_reduce(0, k[:, None].expand(2, 5), a[:2], "amax"))
    )(x, i),
    "no dims": lambda lib, x, i: lib.vmap(lambda a: (a.sum(0), a.softmax(0), a.cumsum(0), lib.stack([a, a])))(x[0, 0]),
    "parts": lambda lib, x, i: lib.vmap(lambda a: lib.cat([a[1:, ::2], a.unfold(0, 1, 1)[:2, :3, 0]]))(x),
    "strides": lambda lib, x, i: lib.vmap(lambda a: a.as_strided((2, 2), (5, 2), 1))(x),
    "cast and where": lambda lib, x, i: lib.vmap(lambda a: lib.where(a > 0, a.double(), 0.5).tril())(x),
    "convolution": lambda lib, x, i: lib.vmap(_conv(lib), (0, None))(
        _image(lib, 3, 2, 2, 4, 4), _image(lib, 3, 2, 3, 3)
    ),
    "convolution by many": lambda lib, x, i: lib.vmap(_conv(lib), (None, 0))(
        _image(lib, 2, 2, 4, 4), _image(lib, 3, 4, 2, 3, 3)
    ),
    "convolutions": lambda lib, x, i: lib.vmap(_conv(lib, 2), (0, 0))(
        _image(lib, 3, 2, 4, 4, 4), _image(lib, 3, 4, 2, 3, 3)
    ),
    "batch_norm": lambda lib, x, i: lib.vmap(
        lambda a, w: lib.nn.functional.batch_norm(a, None, None, w, None, True), (0, None)
    )(x, x[0, 0, :5]),
    "layer_norm": lambda lib, x, i: lib.vmap(lambda a, w: lib.nn.functional.layer_norm(a, (5,), w, w), (0, 0))(
        x, x[:, 0]
    ),
    "attention": lambda lib, x, i: lib.vmap(
        lambda a, m: lib.nn.functional.scaled_dot_product_attention(a, a * 2, a, m), (0, None)
    )(x[:, None, None], x[0, :, :3] > 0),
    "cross_entropy": lambda lib, x, i: lib.vmap(lib.nn.functional.cross_entropy)(x[:, :2], i),
    "pooling": lambda lib, x, i: lib.vmap(lambda a: lib.nn.functional.max_pool1d(a, 2))(x),
    "inverses": lambda lib, x, i: lib.vmap(lambda a: (lib.linalg.inv(a[:, :3]), lib.linalg.det(a[:, :3])))(x),
    "sorted": lambda lib, x, i: lib.vmap(lambda a: (*a.sort(0), *a.topk(2, 1), *a.max(1)))(x),
    "var": lambda lib, x, i: lib.vmap(lambda a: (a.var(0), a.std(), a.norm(), a.amax(0), a.argmin(1)))(x),
    "written": lambda lib, x, i: lib.vmap(lambda a: _written(lib, a))(x),
    "written to zeros": lambda lib, x, i: lib.vmap(lambda a: lib.zeros_like(a).copy_(a).index_fill_(0, i[0], 2.0))(x),
    "new tensors": lambda lib, x, i: lib.vmap(lambda a: a.new_full((2, 5), 3.0).add_(a[0]))(x),
    "gradients": lambda lib, x, i: lib.vmap(lib.func.grad(lambda a: (a.sin() * a.prod(0)).sum()))(x),
    "gradients by a shared matrix": lambda lib, x, i: lib.vmap(
        lib.func.grad(lambda w, a: (a @ w).tanh().sum()), (None, 0)
    )(x[0].t(), x),
    "gradients through writes": lambda lib, x, i: lib.vmap(lib.func.grad(lambda a: _written(lib, a).pow(2).sum()))(x),
    "gradients of a convolution": lambda lib, x, i: lib.vmap(
        lib.func.grad(lambda w, a: _conv(lib)(a[None], w).square().sum()), (None, 0)
    )(_image(lib, 3, 2, 3, 3), _image(lib, 4, 2, 4, 4)),
    "gradients of a layer_norm": lambda lib, x, i: lib.vmap(
        lib.func.grad(lambda w, a: lib.nn.functional.layer_norm(a, (5,), w, w).pow(3).sum()), (None, 0)
    )(x[0, 0], x),
    "per-sample gradients": lambda lib, x, i: _per_sample(lib, x[:, 0]),
    "a gradient of a gradient": lambda lib, x, i: lib.vmap(
        lambda a: lib.func.grad(lambda b: (lib.func.grad(lambda c: (c.sin() @ c.t()).sum())(b) * b).sum())(a)
    )(x),
    "a gradient above": lambda lib, x, i: lib.func.grad(
        lambda w: lib.vmap(lambda a: (a @ w).softmax(-1).square().sum())(x).sum()
    )(x[0].t()),
    "gradients above and below": lambda lib, x, i: lib.func.grad(
        lambda w: lib.vmap(lib.func.grad(lambda a: (a @ w).tanh().sum()))(x).square().sum()
    )(x[0].t()),
    "backward": lambda lib, x, i: lib.autograd.grad(lib.vmap(lambda a: (a @ a.t()).exp())(x.requires_grad_()).sum(), x)[
        0
    ],
    "Jacobians": lambda lib, x, i: lib.vmap(lib.func.jacrev(lambda a: a.sin() * a.sum()))(x[:, 0]),
    "a Hessian": lambda lib, x, i: lib.func.hessian(lambda a: (a.sin() @ a.t()).sum() ** 2)(x[0]),
    "Jacobian of a vmap": lambda lib, x, i: lib.func.jacrev(lib.vmap(lambda a: a.cumsum(0) * a))(x[0]),
    "chunks": lambda lib, x, i: lib.vmap(lambda a: (a.sum(0), a @ a.t()), 1, (0, -1), chunk_size=2)(x),
    "results that are equal": lambda lib, x, i: lib.vmap(lambda a: (lib.ones(2), x[0, 0]), out_dims=(1, None))(x),
    "an empty batch": lambda lib, x, i: lib.vmap(lambda a, w: (a @ w, a.sum(0), a.sort(1)[1]), (0, None))(
        x[:0], x[0].t()
    ),
}


def _flat(value: Any) -> list[Any]:
    return [t for v in value for t in _flat(v)] if isinstance(value, (list, tuple)) else [value]


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_are_pytorchs(name: str) -> None:
    want = _flat(PROGRAMS[name](torch, torch.tensor(X), torch.tensor(I)))
    got = _flat(PROGRAMS[name](facade, torchlette.tensor(X), torchlette.tensor(I)))
    for w, g in zip(want, got, strict=True):
        torch.testing.assert_close(torch.from_numpy(g.detach().numpy()), w.detach(), rtol=1e-4, atol=1e-5)


def test_the_function_is_called_once() -> None:
    calls = []
    torchlette.vmap(lambda a: calls.append(a.shape) or a)(torchlette.zeros(100, 3))
    assert calls == [(3,)]
    torchlette.vmap(lambda a: calls.append(a.shape) or a, chunk_size=40)(torchlette.zeros(100, 3))
    assert len(calls) == 4


def test_an_ensemble_is_its_models() -> None:
    models = [torchlette.nn.Linear(5, 2) for _ in range(3)]
    params, buffers = torchlette.func.stack_module_state(models)
    x = torchlette.tensor(X[0])
    got = torchlette.vmap(lambda p, b: torchlette.func.functional_call(models[0], (p, b), (x,)))(params, buffers)
    np.testing.assert_allclose(got.detach().numpy(), [m(x).detach().numpy() for m in models], rtol=1e-5)


@pytest.mark.parametrize("randomness", ["same", "different"])
def test_dropout_and_its_gradient_use_one_mask(randomness: str) -> None:
    x = torchlette.ones(6, 40)
    drop = torchlette.nn.functional.dropout
    slope = torchlette.vmap(torchlette.func.grad(lambda a: (drop(a, 0.5) * a).sum()), randomness=randomness)(x)
    assert set(slope.unique().tolist()) == {0.0, 4.0}
    rows = {tuple(row) for row in slope.tolist()}
    assert len(rows) == (1 if randomness == "same" else 6)


def test_attention_drops_as_it_is_told() -> None:
    x = torchlette.tensor(X)[:, None]
    attention, rows = torchlette.nn.functional.scaled_dot_product_attention, x[:1].expand(4, 1, 3, 5)
    for randomness, kinds in (("same", 1), ("different", 4)):
        y = torchlette.vmap(lambda a: attention(a, a, a, dropout_p=0.5), randomness=randomness)(rows)
        assert len({tuple(row) for row in y.reshape(4, -1).tolist()}) == kinds


REFUSALS: dict[str, tuple[Callable[[Any], Any], type[Exception], str]] = {
    "item": (lambda lib: lib.vmap(lambda a: a * a.item())(lib.ones(3)), RuntimeError, "calling .item"),
    "bool": (lambda lib: lib.vmap(lambda a: a if a > 0 else -a)(lib.ones(3)), RuntimeError, "data-dependent control"),
    "a draw": (lambda lib: lib.vmap(lambda a: a + lib.rand(()))(lib.ones(3)), RuntimeError, "randomness error mode"),
    "a batched result of no dim": (
        lambda lib: lib.vmap(lambda a: a, out_dims=None)(lib.ones(3)), ValueError, "can not return a BatchedTensor"),
    "no tensor": (lambda lib: lib.vmap(lambda a: 3)(lib.ones(3)), ValueError, "must only return Tensors, got type"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSALS)
def test_refusals_are_pytorchs(name: str) -> None:
    program, error, text = REFUSALS[name]
    for lib in (torch, facade):
        with pytest.raises(error, match=text):
            program(lib)


def test_a_shared_tensor_is_not_written_with_a_batch() -> None:
    shared = torchlette.zeros(3)
    with pytest.raises(RuntimeError, match="inplace arithmetic.*is not possible"):
        torchlette.vmap(lambda a: shared.add_(a))(torchlette.ones(2, 3))
    assert shared.tolist() == [0.0] * 3


def test_a_level_ends_with_its_call() -> None:
    with contextlib.suppress(ZeroDivisionError):
        torchlette.vmap(lambda a: a / (1 // 0))(torchlette.ones(3))
    assert torchlette.rand(2).shape == (2,)


class _Cube(torchlette.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x: Any) -> Any:
        return x**3

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return g * 3 * x * x


class _Ruled(_Cube):
    generate_vmap_rule = False
    dims: tuple[Any, ...] = ()

    @staticmethod
    def vmap(info: Any, in_dims: Any, x: Any) -> Any:
        _Ruled.dims = (info.batch_size, in_dims, tuple(x.shape))
        return _Ruled.apply(x), 0


class _Unruled(_Cube):
    generate_vmap_rule = False


def test_a_custom_function_is_mapped_by_its_rule() -> None:
    x = torchlette.tensor(X[0])
    for fn in (_Cube, _Ruled):
        np.testing.assert_allclose(torchlette.vmap(fn.apply)(x).numpy(), X[0] ** 3, rtol=1e-5)
        slope = torchlette.vmap(torchlette.func.grad(lambda a, fn=fn: fn.apply(a).sum()))(x)
        np.testing.assert_allclose(slope.numpy(), 3 * X[0] ** 2, rtol=1e-5)
    assert _Ruled.dims == (3, (0,), (3, 5))
    with pytest.raises(RuntimeError, match="it does not have vmap support"):
        torchlette.vmap(_Unruled.apply)(x)


def _product(lib: Any) -> Any:
    class Product(lib.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x: Any, y: Any) -> Any:
            return x.sin() * y

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.save_for_backward(*inputs)
            ctx.save_for_forward(*inputs)

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            x, y = ctx.saved_tensors
            return g * x.cos() * y, g * x.sin()

        @staticmethod
        def jvp(ctx: Any, dx: Any, dy: Any) -> Any:
            x, y = ctx.saved_tensors
            return dx * x.cos() * y + dy * x.sin()

    return Product.apply


def _slopes(lib: Any, f: Any, x: Any) -> Any:
    _, pull = lib.func.vjp(f, x)
    return lib.vmap(pull)(lib.eye(3))[0]


#: Walks back through a ``vmap`` that has ended.
WALKS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "vjp": lambda lib, f, x: lib.func.vjp(f, x)[1](x)[0],
    "vmap of a pullback": _slopes,
    "jacrev": lambda lib, f, x: lib.func.jacrev(f)(x),
    "jacrev of chunks": lambda lib, f, x: lib.func.jacrev(f, chunk_size=2)(x),
    "hessian": lambda lib, f, x: lib.func.hessian(lambda v: f(v).sum())(x),
    "vmap of jacrev": lambda lib, f, x: lib.vmap(lib.func.jacrev(f))(lib.stack([x, x * 2])),
}


@pytest.mark.parametrize("walk", WALKS)
@pytest.mark.parametrize("shared", [False, True])
def test_a_custom_function_in_a_vmap_that_has_ended(walk: str, shared: bool) -> None:
    """Rules run within another ``vmap``, and the gradients of what is equal in the batch are summed."""

    def found(lib: Any) -> Any:
        apply, y = _product(lib), lib.tensor([0.9, 0.4, -0.2])

        def mapped(v: Any) -> Any:
            rows = lib.stack([y, y * 0.5]) if shared else lib.stack([v, v * 0.5])
            return lib.vmap(lambda u: apply(u, v if shared else y))(rows).sum(0)

        return WALKS[walk](lib, mapped, lib.tensor([0.3, -0.7, 1.1]))

    np.testing.assert_allclose(found(facade).tolist(), found(torch).tolist(), rtol=1e-5, atol=1e-6)


def test_a_hook_in_a_vmap_that_has_ended() -> None:
    def f(v: Any) -> Any:
        y = v.sin()
        y.register_hook(lambda g: g * v)
        return y

    x = torchlette.tensor([0.3, -0.7, 1.1])
    found = torchlette.func.jacrev(torchlette.vmap(f))(x)
    np.testing.assert_allclose(found.numpy(), np.diag(x.numpy() * np.cos(x.numpy())), rtol=1e-5)


def test_a_captured_function_runs_on_a_batch() -> None:
    square = torchlette.jit(lambda a: (a * a).sum())
    x = torchlette.tensor(X[0])
    for _ in range(3):
        square(x[0])
        np.testing.assert_allclose(torchlette.vmap(square)(x).numpy(), (X[0] ** 2).sum(1), rtol=1e-5)


def test_a_view_of_a_point_that_is_not_mapped_keeps_gradients_apart() -> None:
    """The point of an inner ``grad`` has equal elements; gradients through its views still belong to one element."""
    views = [lambda v: v[:1], lambda v: v.reshape(1, 2)[0], lambda v: v.reshape(2, 1).t()[0, 1:]]
    for view in views:
        found = []
        for lib in (torch, torchlette):
            x, weights = lib.tensor([0.3, 0.4]), lib.tensor([1.0, 2.0, 5.0])

            def slope(w: Any, lib: Any = lib, x: Any = x, view: Any = view) -> Any:
                return lib.func.grad(lambda v: (view(v) ** 2 * w).sum())(x)

            found.append(lib.func.vmap(slope)(weights).tolist())
        np.testing.assert_allclose(found[1], found[0], rtol=1e-6)


REFUSED = {
    "dim out of range": lambda lib, x: lib.func.vmap(lib.sum, in_dims=2)(x[0]),
    "dim of a number": lambda lib, x: lib.func.vmap(lib.sum)(3),
    "of one of two": lambda lib, x: lib.func.vmap(lib.add)(x, 2),
    "type of the dims": lambda lib, x: lib.func.vmap(lib.sum, in_dims="a")(x),
    "type of a dim": lambda lib, x: lib.func.vmap(lib.sum, in_dims=("a",))(x),
    "none": lambda lib, x: lib.func.vmap(lib.sum, in_dims=(None,))(x),
    "no arguments": lambda lib, x: lib.func.vmap(lib.sum)(),
    "sizes": lambda lib, x: lib.func.vmap(lib.add)(x, x[:2]),
    "a number's dim in a list": lambda lib, x: lib.func.vmap(lambda pair: pair[0], in_dims=([0, 0],))([x, 1.0]),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_dims_have_pytorchs_text(case: str) -> None:
    with pytest.raises(ValueError) as want:
        REFUSED[case](torch, torch.tensor(X))
    with pytest.raises(ValueError) as got:
        REFUSED[case](facade, facade.tensor(X))
    assert str(got.value) == str(want.value)


@pytest.mark.parametrize("dims", [(0, 1), ({"a": 0},), ([0],)])
def test_dims_nested_unlike_the_arguments_are_refused(dims: Any) -> None:
    for lib in (torch, facade):
        with pytest.raises(ValueError, match="in_dims is not compatible with the structure of `inputs`"):
            lib.func.vmap(lib.sum, in_dims=dims)(lib.tensor(X))
