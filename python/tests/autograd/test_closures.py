"""Transforms whose functions use tensors from outside: every nesting gives PyTorch's numbers and PyTorch's history."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

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


# What each transform makes of a function from vectors to vectors: such a function again.
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


# What a function uses besides its argument: inputs are those of the functions around and its own, w a parameter.
CAPTURES: dict[str, Callable[[list[Any], Any, Any], Any]] = {
    "a plain tensor": lambda inputs, c, w: c,
    "an outer input": lambda inputs, c, w: inputs[0] * inputs[-1] + inputs[len(inputs) // 2],
    "a parameter": lambda inputs, c, w: w[0] * w[1],
    "views": lambda inputs, c, w: inputs[0].reshape(1, 2)[0] * w.t()[0] + inputs[0][:1],
    "a value written in place": lambda inputs, c, w: _written(inputs, w),
}


def nested(lib: Any, names: tuple[str, ...], capture: Callable[..., Any], own_point: bool, device: str, dtype: str) -> Any:
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


@pytest.mark.parametrize("names", [("grad", "grad"), ("jacrev", "grad"), ("jvp", "jvp"), ("vjp", "vjp"), ("jacfwd", "jacrev"), ("vmap", "hessian")], ids="-".join)
def test_on_each_device(names: tuple[str, ...], device: str) -> None:
    """The same in float32 where torchlette computes."""
    for capture in CAPTURES:
        check(names, capture, False, device, "float32")
