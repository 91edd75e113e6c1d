"""Gradients of gradients of functions whose gradient is constant in pieces: zeros where PyTorch's are, errors where
PyTorch raises."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import torchlette.torch as facade

PIECEWISE_LINEAR: dict[str, Callable[[Any, Any], Any]] = {
    "relu": lambda t, x: t.nn.functional.relu(x),
    "leaky_relu": lambda t, x: t.nn.functional.leaky_relu(x, 0.1),
    "hardtanh": lambda t, x: t.nn.functional.hardtanh(x),
    "relu6": lambda t, x: t.nn.functional.relu6(x),
    "threshold": lambda t, x: t.nn.functional.threshold(x, 0.1, 0.0),
    "softshrink": lambda t, x: t.nn.functional.softshrink(x),
    "hardshrink": lambda t, x: t.nn.functional.hardshrink(x),
    "rrelu": lambda t, x: t.nn.functional.rrelu(x, 0.2, 0.2),
    "prelu": lambda t, x: t.nn.functional.prelu(x, t.tensor([0.2])),
    "max_pool1d": lambda t, x: t.nn.functional.max_pool1d(x, 2),
    "avg_pool1d": lambda t, x: t.nn.functional.avg_pool1d(x, 2),
    "adaptive_max_pool1d": lambda t, x: t.nn.functional.adaptive_max_pool1d(x, 3),
    "adaptive_avg_pool1d": lambda t, x: t.nn.functional.adaptive_avg_pool1d(x, 3),
    "nll_loss": lambda t, x: t.nn.functional.nll_loss(x, t.tensor([1])),
}
LINEAR: dict[str, Callable[[Any, Any], Any]] = {
    "sum": lambda t, x: x.sum(),
    "max": lambda t, x: x.max(1)[0],
    "sort": lambda t, x: x.sort()[0],
    "clamp": lambda t, x: x.clamp(-0.5, 0.5),
    "where": lambda t, x: t.where(x > 0, x, 0.0),
}
VALUES = [[-1.0, -0.2, 0.3, 2.0]]


def first_gradient(t: Any, f: Callable[[Any, Any], Any]) -> tuple[Any, Any]:
    """Return a leaf and the recorded gradient of ``f``'s sum by it."""
    x = t.tensor(VALUES, requires_grad=True)
    return x, t.autograd.grad(f(t, x).sum(), x, create_graph=True)[0]


@pytest.mark.parametrize("name", PIECEWISE_LINEAR)
def test_the_second_derivative_of_a_piecewise_linear_function_is_zero(name: str) -> None:
    f = PIECEWISE_LINEAR[name]
    for t in (torch, facade):
        x, g = first_gradient(t, f)
        assert g.requires_grad
        assert t.autograd.grad(g.sum(), x)[0].tolist() == [[0.0] * 4]


@pytest.mark.parametrize("name", LINEAR)
def test_the_gradient_of_a_linear_function_has_no_history(name: str) -> None:
    for t in (torch, facade):
        assert not first_gradient(t, LINEAR[name])[1].requires_grad


def test_a_second_derivative_passes_a_piecewise_linear_function_under_vmap() -> None:
    def curve(t: Any) -> Any:
        def f(x: Any) -> Any:
            return (t.nn.functional.leaky_relu(x, 0.5) ** 3).sum()

        return t.func.vmap(t.func.grad(lambda x: t.func.grad(f)(x).sum()))(t.tensor(VALUES).reshape(2, 2)).tolist()

    torch.testing.assert_close(torch.tensor(curve(facade)), torch.tensor(curve(torch)))


@pytest.mark.parametrize("values", [[1.0, 2.0, 0.5], [2.0, 0.0, 3.0, 4.0], [0.0, 2.0, 0.0, 3.0], [0.0, 0.0, 5.0]])
def test_the_second_derivative_of_a_running_product_counts_zeros(values: list[float]) -> None:
    found = []
    for t in (torch, facade):
        x = t.tensor([values, values[::-1]], dtype=t.float64, requires_grad=True)
        weights = t.arange(1.0, 1 + x.numel(), dtype=t.float64).reshape(x.shape)
        for dim in (0, 1):
            (g,) = t.autograd.grad((x.cumprod(dim) * weights).sum(), x, create_graph=True)
            (h,) = t.autograd.grad((g * weights.cos()).sum(), x)
            found.append((t, [g.tolist(), h.tolist()]))
    torch.testing.assert_close([v for t, v in found if t is facade], [v for t, v in found if t is torch])
