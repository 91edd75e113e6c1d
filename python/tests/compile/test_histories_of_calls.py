"""Gradients outside of a captured function, through what it computed inside; beside PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import torchlette.torch as facade
from torchlette import jit

PIECEWISE: dict[str, Callable[[Any, Any], Any]] = {
    "leaky_relu": lambda f, x: f.leaky_relu(x, 0.3),
    "hardtanh": lambda f, x: f.hardtanh(x),
    "softshrink": lambda f, x: f.softshrink(x),
    "threshold": lambda f, x: f.threshold(x, 0.1, 0.0),
    "prelu": lambda f, x: f.prelu(x, x.new_full((1,), 0.3)),
    "max_pool1d": lambda f, x: f.max_pool1d(x.reshape(1, 1, -1), 2),
    "avg_pool1d of one": lambda f, x: f.avg_pool1d(x.reshape(1, 1, -1), 1),
    "nll_loss": lambda f, x: f.nll_loss(x.reshape(3, 2), x.new_zeros(3).long()),
}
RULES: dict[str, Callable[[Any, Any], Any]] = {
    "embedding": lambda f, x: f.embedding(x.new_zeros(2).long(), x.reshape(3, 2)),
    "layer_norm": lambda f, x: f.layer_norm(x, (6,), x, x),
    "batch_norm": lambda f, x: f.batch_norm(x.reshape(3, 2), None, None, training=True) * x.reshape(3, 2),
    "bilinear": lambda f, x: f.bilinear(x[None, :2], x[None, 2:4], x[None, :4].reshape(1, 2, 2)),
    "conv1d": lambda f, x: f.conv1d(x.reshape(1, 1, 6), x[:3].reshape(1, 1, 3)),
}


def compared(program: Callable[[Any, Any, Any, Callable[[Any], Any]], list[Any]], beside: bool = True) -> None:
    """Compare the results of a program, of a module, two points and a way to call functions: with calls of a captured
    function, without, and by PyTorch.
    """

    def twice(f: Any) -> Any:
        called = jit(f)
        return lambda *a: (called(*a), called(*a))[1]

    def results(mod: Any, call: Callable[[Any], Any]) -> list[Any]:
        x = mod.tensor([0.3, -0.4, 1.2, 0.05, -2.0, 0.6], dtype=mod.float64, requires_grad=True)
        w = mod.tensor([1.0, 0.9, 1.1, 0.8, 0.7, 1.2], dtype=mod.float64, requires_grad=True)
        found = program(mod, x, w, call)
        return [None if v is None else torch.tensor(v.tolist(), dtype=torch.float64) for v in found]

    got = results(facade, twice)
    torch.testing.assert_close(got, results(facade, lambda f: f))
    if beside:
        torch.testing.assert_close(got, results(torch, lambda f: f))


@pytest.mark.parametrize("name", PIECEWISE)
@pytest.mark.parametrize("view", ["argument", "view", "own"])
def test_a_piecewise_linear_function_has_a_second_gradient_of_zero(name: str, view: str) -> None:
    def program(mod: Any, x: Any, w: Any, call: Any) -> list[Any]:
        def f(v: Any) -> Any:
            return PIECEWISE[name](mod.nn.functional, v).sum()

        inside = (x * w).reshape(2, 3).t()
        if view == "argument":
            y = call(lambda x, w: f(x * w))(x, w)
        elif view == "view":
            y = call(lambda one: f(inside.t().reshape(-1)) * one)(mod.ones((), dtype=mod.float64))
        else:
            y = call(lambda: f(x.flip(0) * w))()
        (slope,) = mod.autograd.grad(y, x, create_graph=True)
        assert slope.requires_grad
        return [slope, *mod.autograd.grad((slope * slope).sum(), (x, w), allow_unused=True)]

    compared(program)


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("inside", ["values", "gradients", "tangents"])
def test_a_captured_function_has_the_gradients_of_batching_rules(name: str, inside: str) -> None:
    def program(mod: Any, x: Any, w: Any, call: Any) -> list[Any]:
        def f(x: Any, w: Any) -> Any:
            def value(row: Any) -> Any:
                return (RULES[name](mod.nn.functional, row * w) ** 2).sum()

            rows = mod.stack([x, x * x])
            if inside == "gradients":
                return mod.func.vmap(mod.func.grad(value))(rows).sum()
            if inside == "tangents":
                return mod.func.vmap(lambda row: mod.func.jvp(value, (row,), (x,))[1])(rows).sum()
            return mod.func.vmap(value)(rows).sum()

        y = call(f)(x, w)
        slopes = mod.autograd.grad(y, (x, w), create_graph=True)
        return [y, *slopes, *mod.autograd.grad(sum((s * s).sum() for s in slopes), (x, w))]

    # In third derivatives of norms PyTorch takes the mean and the deviation as constants.
    compared(program, beside="norm" not in name or inside == "values")
