"""Transforms whose functions use tensors from outside: every nesting gives PyTorch's numbers and PyTorch's history."""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

import torchlette

Function = Callable[[Any], Any]

POINT, PLAIN, PARAMETER = np.array([0.3, -0.7]), np.array([0.9, 0.4]), np.array([[0.5, -1.2], [0.8, 1.1]])


def _vjp(lib: Any, f: Function, x: Any) -> Any:
    out, pull = lib.func.vjp(f, x)
    return pull(out.cos())[0] + out


def _jvp(lib: Any, f: Function, x: Any) -> Any:
    out, slope = lib.func.jvp(f, (x,), (x * 0.5,))
    return slope + out


def _grad_and_value(lib: Any, f: Function, x: Any) -> Any:
    slope, value = lib.func.grad_and_value(lambda v: f(v).sum())(x)
    return slope * value


# Transform -> its use on a function from vectors to vectors, which gives such a function again.
TRANSFORMS: dict[str, Callable[[Any, Function, Any], Any]] = {
    "grad": lambda lib, f, x: lib.func.grad(lambda v: f(v).sum())(x),
    "grad_and_value": _grad_and_value,
    "vjp": _vjp,
    "jvp": _jvp,
    "jacrev": lambda lib, f, x: lib.func.jacrev(f)(x).sum(0),
    "jacfwd": lambda lib, f, x: lib.func.jacfwd(f)(x).sum(1),
    "hessian": lambda lib, f, x: lib.func.hessian(lambda v: f(v).sum())(x).sum(0),
    "vmap": lambda lib, f, x: lib.func.vmap(f)(lib.stack([x, x * 2])).sum(0),
}


def _written(inputs: list[Any], w: Any) -> Any:
    """Return a value that is made by writing in place."""
    z = inputs[0] * inputs[-1]
    z[1:] = (inputs[0] * w[0])[1:]
    z.add_(w[1])
    z[0] = inputs[-1][0].sin()
    return z


# The values that a function captures: ``inputs`` are its own and the outer functions' arguments, ``w`` is a parameter.
CAPTURES: dict[str, Callable[[list[Any], Any, Any], Any]] = {
    "a plain tensor": lambda inputs, c, w: c,
    "an outer input": lambda inputs, c, w: inputs[0] * inputs[-1] + inputs[len(inputs) // 2],
    "a parameter": lambda inputs, c, w: w[0] * w[1],
    "views": lambda inputs, c, w: inputs[0].reshape(1, 2)[0] * w.t()[0] + inputs[0][:1],
    "a value written in place": lambda inputs, c, w: _written(inputs, w),
}


def nested(
    lib: Any, names: tuple[str, ...], capture: Callable[..., Any], own_point: bool, device: str, dtype: str
) -> Any:
    """Return the result of nested transforms, and the parameter: each level uses captured values.

    Args:
        lib: Either library.
        names: The transforms, the outermost first.
        capture: What each level uses besides its argument.
        own_point: Inner transforms differentiate at the argument of the function around them, else at a constant.
        device: Where torchlette computes.
        dtype: The name of the dtype.
    """
    options = {"dtype": getattr(lib, dtype), **({"device": device} if lib is torchlette else {})}
    point, c, w = (lib.tensor(values, **options) for values in (POINT, PLAIN, PARAMETER))
    w.requires_grad_()

    def level(k: int, inputs: list[Any]) -> Function:
        def f(x: Any) -> Any:
            used = capture([*inputs, x], c, w)
            if k == len(names):
                return (x * used).sin() + x * x * used
            return TRANSFORMS[names[k]](lib, level(k + 1, [*inputs, x]), x if own_point else point) * used

        return f

    return TRANSFORMS[names[0]](lib, level(1, []), point), w


def numbers(t: Any) -> np.ndarray:
    """Return a tensor's elements in float64."""
    return t.detach().cpu().numpy().astype("float64")


def check(names: tuple[str, ...], capture: str, own_point: bool, device: str, dtype: str = "float64") -> None:
    """Compare a nesting with PyTorch's: numbers, dtype, whether it requires grad, and the gradient that then flows."""
    want, want_w = nested(torch, names, CAPTURES[capture], own_point, device, dtype)
    got, got_w = nested(torchlette, names, CAPTURES[capture], own_point, device, dtype)
    tolerance = {"rtol": 1e-7, "atol": 1e-7} if dtype == "float64" else {"rtol": 1e-3, "atol": 1e-4}
    note = f"{' of '.join(names)}, {capture}, own_point={own_point}"
    assert str(got.dtype).endswith(dtype), note
    np.testing.assert_allclose(numbers(got), numbers(want), err_msg=note, **tolerance)
    assert got.requires_grad == want.requires_grad, note
    if want.requires_grad:
        flows = [lib.autograd.grad(t.sum(), w)[0] for lib, t, w in ((torch, want, want_w), (torchlette, got, got_w))]
        np.testing.assert_allclose(numbers(flows[1]), numbers(flows[0]), err_msg=f"gradient of {note}", **tolerance)


PAIRS = list(itertools.product(TRANSFORMS, repeat=2))


@pytest.mark.parametrize("names", PAIRS, ids="-".join)
def test_two_levels(names: tuple[str, ...]) -> None:
    """All pairs of transforms, with everything that a closure may hold."""
    for capture, own_point in itertools.product(CAPTURES, (True, False)):
        check(names, capture, own_point, "cpu")


TRIPLES = [
    ("grad", "grad", "grad"),
    ("jacrev", "grad", "jvp"),
    ("jvp", "jvp", "jvp"),
    ("vmap", "jacfwd", "grad"),
    ("grad", "vmap", "grad"),
    ("jacfwd", "vjp", "jacrev"),
    ("vjp", "hessian", "vjp"),
    ("hessian", "grad_and_value", "vmap"),
]


@pytest.mark.parametrize("names", TRIPLES, ids="-".join)
def test_three_levels(names: tuple[str, ...]) -> None:
    """A choice of triples."""
    for capture, own_point in itertools.product(CAPTURES, (True, False)):
        check(names, capture, own_point, "cpu")


@pytest.mark.parametrize(
    "names",
    [("grad", "grad"), ("jacrev", "grad"), ("jvp", "jvp"), ("vjp", "vjp"), ("jacfwd", "jacrev"), ("vmap", "hessian")],
    ids="-".join,
)
def test_on_each_device(names: tuple[str, ...], device: str) -> None:
    """The same in float32 where torchlette computes."""
    for capture in CAPTURES:
        check(names, capture, False, device, "float32")


class Pair(NamedTuple):
    """A container whose type transforms must preserve."""

    first: Any
    second: Any


def _pulls(lib: Any, x: Any, w: Any) -> Any:
    """Return pullbacks called in several places."""
    out, pull = lib.func.vjp(lambda v: (v * w[0], v.sum()), x)
    inside = lib.func.grad(lambda c: pull((c, c.sum()))[0].pow(2).sum())(x)
    with lib.no_grad():
        quiet = pull((x, w.sum()))
    return out, inside, quiet, pull(out), pull((w[0], x.sum()), create_graph=False)


def _quiet(lib: Any, x: Any, w: Any) -> Any:
    """Return transforms called where nothing is recorded."""
    with lib.no_grad():
        found = lib.func.grad_and_value(lambda v: (v * w[0]).pow(2).sum())(x), lib.func.jacrev(lambda v: v * w[0])(x)
        found += (lib.func.jvp(lambda v: v * w[0], (x,), (w[1],)),)
    with lib.inference_mode():
        return found, lib.func.grad(lambda v: (v * v * w.detach()[0]).sum())(x)


def _quiet_between(lib: Any, x: Any, w: Any) -> Any:
    """Return a transform of a function that calls another where nothing is recorded."""

    def f(y: Any) -> Any:
        with lib.no_grad():
            inner = lib.func.grad(lambda v: (v * v * y).sum())(x)
        return (inner * y * w[0]).sum()

    return lib.func.grad_and_value(f)(x)


def _written_argument(lib: Any, x: Any, w: Any) -> Any:
    """Return what a function wrote to arguments that it is not differentiated by."""
    kept, moved = x * 0, x * 0

    def f(v: Any, a: Any, p: dict[str, Any]) -> Any:
        a[0] = v[1] * 3
        p["moved"][1:] = (v * w[0])[1:]
        return (v * a * p["moved"]).sum()

    return lib.func.grad(f)(x, kept, {"moved": moved}), kept, moved


def _maml(lib: Any, x: Any, w: Any) -> Any:
    """Return the gradient through steps of gradient descent, and a parameter's."""

    def loss(p: dict[str, Any], scale: Any) -> Any:
        return ((x * p["a"] + p["b"] * w[0]).tanh() * scale).pow(2).sum()

    def adapted(p: dict[str, Any]) -> Any:
        for _ in range(3):
            slopes = lib.func.grad(loss)(p, w[1].sum())
            p = {k: p[k] - 0.1 * slopes[k] for k in p}
        return loss(p, 1.0)

    tasks = {"a": lib.stack([x, x * 2]), "b": lib.stack([x - 1, x + 1])}
    return lib.func.grad(adapted)({"a": x, "b": x + 1}), lib.func.vmap(lib.func.grad(adapted))(tasks)


# Each: of a library, a vector x without and a matrix w with a history.
PROGRAMS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "the simplest": lambda lib, x, w: lib.func.grad(lambda y: lib.func.grad(lambda v: (v * y).sum())(x).sum())(x),
    "linear in what is captured": lambda lib, x, w: lib.func.grad_and_value(lambda v: (v + w[0]).sum())(x),
    "a history of its own": lambda lib, x, w: lib.func.grad_and_value(lambda v: v.pow(3).sum())(w[0]),
    "nothing of it": lambda lib, x, w: lib.func.grad_and_value(lambda v: w[0].sum())(x),
    "aux": lambda lib, x, w: lib.func.grad_and_value(lambda v: ((v * w[0]).sum(), (v * 2, w, w * 2, x)), has_aux=True)(
        x
    ),
    "aux of grad": lambda lib, x, w: lib.func.grad(lambda v: (v.pow(2).sum(), {"a": [v * 2, v * w[0]]}), has_aux=True)(
        x
    ),
    "aux of vjp": lambda lib, x, w: lib.func.vjp(lambda v: (v * 2, (v * w[0], v)), x, has_aux=True)[::2],
    "aux of jvp": lambda lib, x, w: lib.func.jvp(lambda v: (v * v, (v * w[0], v, x)), (x,), (x,), has_aux=True),
    "aux of jacrev": lambda lib, x, w: lib.func.jacrev(lambda v: (v * v, {"a": v * w[0], "b": v * 2}), has_aux=True)(x),
    "aux of jacfwd": lambda lib, x, w: lib.func.jacfwd(lambda v: (v * v, [v * w[0], v * 2]), has_aux=True)(x),
    "aux within": lambda lib, x, w: lib.func.jacrev(
        lambda y: lib.func.grad(lambda v: ((v * y).sum(), v * y), has_aux=True)(x)[1]
    )(x),
    "a tangent with a history": lambda lib, x, w: lib.func.jvp(lambda v: v.sin(), (x,), (w[0],)),
    "a point with a history": lambda lib, x, w: lib.func.jvp(lambda v: v.sin(), (w[0],), (x,)),
    "pullbacks": _pulls,
    "no_grad and inference_mode around": _quiet,
    "no_grad between": _quiet_between,
    "no_grad inside": lambda lib, x, w: lib.func.grad(lambda v: (v * v * lib.no_grad()(lambda: v * w[0])()).sum())(x),
    "detach": lambda lib, x, w: lib.func.grad(lambda v: (v * v.detach() * w.detach()[0]).sum())(x),
    "two arguments": lambda lib, x, w: lib.func.grad(lambda a, b: (a * b * w[0]).sum(), argnums=(0, 1))(x, w[1]),
    "the last argument": lambda lib, x, w: lib.func.grad(lambda a, b: (a * b).sum(), argnums=-1)(w[0], x),
    "one in a tuple": lambda lib, x, w: lib.func.jacrev(lambda a, b: a * b, argnums=(1,))(w[0], x),
    "the same twice": lambda lib, x, w: lib.func.jacfwd(lambda a, b: a * b, argnums=(1, 0))(x, x),
    "a keyword": lambda lib, x, w: lib.func.grad(lambda a, k: (a * a * k).sum())(x, k=w[0]),
    "an unused argument": lambda lib, x, w: lib.func.grad(lambda a, b: a.pow(2).sum(), argnums=(0, 1))(x, w),
    "containers": lambda lib, x, w: lib.func.grad(lambda p: (p["a"] * p["b"][0] * w[0]).sum())(
        {"a": x, "b": [x + 1, x * 2]}
    ),
    "named tuples": lambda lib, x, w: lib.func.jacrev(lambda p: Pair(p.first * w[0], p.second.sum()))(Pair(x, x + 1)),
    "an ordered dict": lambda lib, x, w: lib.func.grad(lambda p: (p["b"] * p["a"]).sum())(OrderedDict(b=x, a=w[0])),
    "a Hessian of containers": lambda lib, x, w: lib.func.hessian(lambda p: (p["a"].exp() * p["b"] * w[0]).sum())(
        {"a": x, "b": x + 1}
    ),
    "containers within": lambda lib, x, w: lib.func.jacfwd(
        lambda y: lib.func.vjp(lambda p: {"o": p["a"] * y * w[0]}, {"a": x})[1]({"o": y})[0]["a"]
    )(x),
    "whole numbers": lambda lib, x, w: lib.func.jacfwd(lambda v: v.argmax())(x),
    "a result that does not move": lambda lib, x, w: lib.func.jvp(lambda v: (w * 1, lib.ones(3), v * w[0]), (x,), (x,)),
    "nothing to give": lambda lib, x, w: lib.func.jacrev(lambda v: (v * w[0])[:0])(x),
    "pullbacks of many": lambda lib, x, w: lib.func.vmap(lib.func.vjp(lambda v: v * v * w[0], x)[1])(
        lib.stack([x, x + 1])
    ),
    "autograd.grad inside": lambda lib, x, w: lib.func.grad(
        lambda v: (lib.autograd.grad((v**3 * w[0]).sum(), v, create_graph=True)[0] * v).sum()
    )(x),
    "arguments written to": _written_argument,
    "steps of descent": _maml,
}


def flat(value: Any) -> list[Any]:
    """Return a nested value as a list: containers' types, tensors' shapes, histories and numbers."""
    if isinstance(value, (torch.Tensor, torchlette.Tensor)):
        return [tuple(value.shape), str(value.dtype).rpartition(".")[2], value.requires_grad, value]
    if isinstance(value, dict):
        return [type(value), *(part for k in value for part in (k, *flat(value[k])))]
    return [type(value), *(part for item in value for part in flat(item))]


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str, device: str) -> None:
    """The same types, dtypes and numbers, and the same gradient of everything by what was captured.

    A tensor has a history only where PyTorch's has: there the blocks of a Jacobian are views of one tensor.
    """
    results, slopes = [], []
    for lib in (torch, torchlette):
        options = {"dtype": lib.float32, **({"device": device} if lib is torchlette else {})}
        x, w = lib.tensor(POINT, **options), lib.tensor(PARAMETER, **options).requires_grad_()
        results.append(flat(PROGRAMS[name](lib, x, w)))
        total = [t.sum() for t in results[-1] if isinstance(t, lib.Tensor) and t.requires_grad]
        slopes.append(numbers(lib.autograd.grad(sum(total), w)[0]) if total else np.zeros(w.shape))
    want, got = results
    assert len(want) == len(got), (want, got)
    for a, b in zip(want, got, strict=True):
        if isinstance(a, torch.Tensor):
            np.testing.assert_allclose(numbers(b), numbers(a), rtol=1e-4, atol=1e-5)
        else:
            assert a == b or (a is True and b is False), (want, got)
    np.testing.assert_allclose(slopes[1], slopes[0], rtol=1e-4, atol=1e-5)


def _writes(write: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """Return a program that writes to a captured tensor in each of the transforms."""

    def program(lib: Any, x: Any, name: str) -> Any:
        z = x * 1

        def f(v: Any) -> Any:
            write(z, v)
            return v * 2

        return TRANSFORMS[name](lib, f, x)

    return program


WRITES = {
    "a number": _writes(lambda z, v: z.add_(1)),
    "what depends on the argument": _writes(lambda z, v: z.copy_(v)),
    "by index": _writes(lambda z, v: z.__setitem__(0, v[1])),
    "through a view": _writes(lambda z, v: z[1:].mul_(2)),
    "to the argument itself": _writes(lambda z, v: v.mul_(2)),
}


@pytest.mark.parametrize("name", ["grad", "grad_and_value", "vjp", "jacrev", "hessian", "jvp", "jacfwd"])
@pytest.mark.parametrize("write", WRITES)
def test_writing_to_a_captured_tensor_is_refused(write: str, name: str, device: str) -> None:
    """As PyTorch does; afterwards the tensor can be written to. Forward mode may change the argument itself."""
    results = []
    for lib in (torch, torchlette):
        x = lib.tensor(POINT, dtype=lib.float32, **({"device": device} if lib is torchlette else {}))
        if write == "to the argument itself" and name in ("jvp", "jacfwd"):
            results.append(numbers(WRITES[write](lib, x, name)))
            continue
        with pytest.raises(RuntimeError, match="in-place operation"):
            WRITES[write](lib, x, name)
        np.testing.assert_allclose(numbers(x), POINT, rtol=1e-6)
        x.add_(1)
    if results and name == "jacfwd":
        np.testing.assert_allclose(results[1], results[0], rtol=1e-6)


def _batch_norm(lib: Any, device: str) -> list[Any]:
    values = np.arange(6, dtype="float32").reshape(3, 2) ** 2
    options = {"device": device} if lib is torchlette else {}
    model, x = lib.nn.BatchNorm1d(2).to(**{"device": "cpu", **options}), lib.tensor(values, **options)
    with pytest.raises(RuntimeError, match="captured"):
        lib.func.grad(lambda v: model(v).pow(3).sum())(x)
    buffers = {k: b.clone() for k, b in model.named_buffers()}
    slope = lib.func.grad(lambda v, b: lib.func.functional_call(model, b, (v,)).pow(3).sum())(x, buffers)
    model.num_batches_tracked = None
    again = lib.func.grad(lambda v: model(v).pow(3).sum())(x)
    return [slope, again, *buffers.values(), model.running_mean, model.running_var]


def test_a_batch_norm_in_training(device: str) -> None:
    """Its statistics move, as PyTorch's; its counter is a captured tensor, as PyTorch's, unless it is an argument."""
    for want, got in zip(*(_batch_norm(lib, device) for lib in (torch, torchlette)), strict=True):
        np.testing.assert_allclose(numbers(got), numbers(want), rtol=1e-4, atol=1e-5)


def _models(lib: Any, device: str) -> list[Any]:
    """Return what programs compute of models as functions of their parameters."""
    options = {"device": device} if lib is torchlette else {}
    models = [lib.nn.Sequential(lib.nn.Linear(2, 3), lib.nn.Tanh(), lib.nn.Linear(3, 1)) for _ in range(2)]
    for k, model in enumerate(models):
        for p in model.parameters():
            p.data = lib.arange(p.numel()).reshape(p.shape).sin() * (k + 1) * 0.3
        model.to(**{"device": "cpu", **options})
    x = lib.tensor(np.linspace(-1, 1, 6, dtype="float32").reshape(3, 2), **options)
    rate = lib.tensor(0.1, **options).requires_grad_()
    params, buffers = lib.func.stack_module_state(models)
    ensemble = lib.func.vmap(lambda p, b: lib.func.functional_call(models[0], (p, b), (x,)))(params, buffers)

    def loss(p: dict[str, Any], row: Any) -> Any:
        return (lib.func.functional_call(models[0], p, (row,)) - row.sum()).pow(2).sum()

    plain = {k: p.detach() for k, p in models[0].named_parameters()}
    each = lib.func.vmap(lib.func.grad(loss), in_dims=(None, 0))(plain, x)
    slopes = lib.func.grad(loss)(plain, x)
    hyper = lib.autograd.grad(loss({k: plain[k] - rate * slopes[k] for k in plain}, x), rate)[0]
    own = lib.func.grad(lambda v: models[1](v).pow(2).sum())(x)
    own.pow(2).sum().backward()
    return [ensemble, *each.values(), hyper, own, *(p.grad for p in models[1].parameters() if p.grad is not None)]


def test_functional_models(device: str) -> None:
    """An ensemble, gradients of samples, a hypergradient; and parameters that a closure captures."""
    found = [_models(lib, device) for lib in (torch, torchlette)]
    assert len(found[0]) == len(found[1])
    for want, got in zip(*found, strict=True):
        assert want.requires_grad == got.requires_grad
        np.testing.assert_allclose(numbers(got), numbers(want), rtol=1e-4, atol=1e-5)


def _refusals(lib: Any) -> dict[str, Callable[[], Any]]:
    f, x = lib.func, lib.tensor([1.0, 2.0])
    return {
        "a list": lambda: f.grad(lambda v: [v.sum()])(x),
        "dims": lambda: f.grad(lambda v: v)(x),
        "no aux": lambda: f.grad(lambda v: v.sum(), has_aux=True)(x),
        "three": lambda: f.vjp(lambda v: (v, v, v), x, has_aux=True),
        "another structure of cotangents": lambda: f.vjp(lambda v: (v, v), x)[1](x),
        "a cotangent of another shape": lambda: f.vjp(lambda v: v * 2, x)[1](lib.ones(3)),
        "whole results": lambda: f.vjp(lambda v: v.argmax(), x),
        "a number": lambda: f.jacrev(lambda v: 3)(x),
        "nothing": lambda: f.vjp(lambda v: (), x),
        "no tuple": lambda: f.jvp(lambda v: v, x, x),
        "another structure of tangents": lambda: f.jvp(lambda v: v, (x,), (x, x)),
        "a tangent of another shape": lambda: f.jvp(lambda v: v, (x,), (lib.ones(3),)),
        "no dependence": lambda: f.jvp(lambda v: lib.ones(3), (x,), (x,), strict=True),
        "whole points": lambda: f.jvp(lambda v: v, (lib.tensor([1]),), (lib.tensor([1]),)),
        "whole points of jacfwd": lambda: f.jacfwd(lambda v: v)(lib.tensor([1])),
        "whole points of grad": lambda: f.grad(lambda v: v.sum())(lib.tensor([1])),
        "an argument that is no tensor": lambda: f.grad(lambda p: p["a"].sum())({"a": x, "b": 2.0}),
        "no arguments to choose": lambda: f.grad(lambda v: v.sum(), argnums=())(x),
        "an argument twice": lambda: f.grad(lambda v, u: v.sum(), argnums=(0, -2))(x, x),
        "an argument that is not there": lambda: f.grad(lambda v: v.sum(), argnums=2)(x),
        "a list of arguments": lambda: f.grad(lambda v: v.sum(), argnums=[0])(x),
        "a chunk of none": lambda: f.jacrev(lambda v: v, chunk_size=0)(x),
    }


@pytest.mark.parametrize("name", _refusals(torch))
def test_refusals(name: str) -> None:
    """Bad input raises PyTorch's class, with the beginning of its text."""
    with pytest.raises(Exception, match=r"\w") as want:
        _refusals(torch)[name]()
    with pytest.raises(want.type) as got:
        _refusals(torchlette)[name]()
    assert str(got.value)[:24] == str(want.value)[:24]
