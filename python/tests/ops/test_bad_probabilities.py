"""Draws refuse probabilities, rates and deviations in tensors that PyTorch refuses; the read of the result raises."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import torchlette.torch as facade

NAN, INF = float("nan"), float("inf")
REFUSED: dict[str, tuple[Any, str]] = {
    "normal": (
        lambda t, d: t.normal(0.0, t.tensor([1.0, -1.0], device=d)),
        "normal expects all elements of std >= 0.0",
    ),
    "normal of means": (
        lambda t, d: t.normal(t.zeros(2, device=d), t.tensor([1.0, NAN], device=d)),
        "normal expects all elements of std >= 0.0",
    ),
    "bernoulli above": (lambda t, d: t.bernoulli(t.tensor([0.5, 1.5], device=d)), "Expected p_in >= 0 && p_in <= 1"),
    "bernoulli NaN": (lambda t, d: t.bernoulli(t.tensor([0.5, NAN], device=d)), "Expected p_in >= 0 && p_in <= 1"),
    "bernoulli_": (
        lambda t, d: t.ones(3, 2, device=d).bernoulli_(t.tensor([0.5, -1.0], device=d)),
        "Expected p_in >= 0 && p_in <= 1",
    ),
    "poisson": (lambda t, d: t.poisson(t.tensor([1.0, -1.0], device=d)), "invalid Poisson rate"),
    "multinomial negative": (
        lambda t, d: t.multinomial(t.tensor([1.0, -1.0], device=d), 1),
        "probability tensor contains either",
    ),
    "multinomial infinite": (
        lambda t, d: t.multinomial(t.tensor([1.0, INF], device=d), 2),
        "probability tensor contains either",
    ),
    "multinomial zero": (
        lambda t, d: t.multinomial(t.tensor([[1.0, 1.0], [0.0, 0.0]], device=d), 1),
        "invalid multinomial distribution",
    ),
    "multinomial again": (
        lambda t, d: t.multinomial(t.tensor([[1.0, 1.0], [0.0, 0.0]], device=d), 3, True),
        "invalid multinomial distribution",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_bad_data_of_draws_raises_runtime_error(name, device):
    call, text = REFUSED[name]
    with pytest.raises(RuntimeError, match=text):
        call(torch, "cpu")
    with pytest.raises(RuntimeError, match=text):
        call(facade, device).tolist()
    assert call_good(device) == [1.0, 0.0], "the device draws afterwards"


def call_good(device):
    return facade.bernoulli(facade.tensor([1.0, 0.0], device=device)).tolist()


def test_bounds_of_probabilities_are_allowed(device):
    T = facade.tensor
    assert facade.normal(T([2.0, 3.0], device=device), T([0.0, 0.0], device=device)).tolist() == [2.0, 3.0]
    assert facade.multinomial(T([[0.0, 1.0], [2.0, 0.0]], device=device), 1).tolist() == [[1], [0]]
    assert facade.poisson(T([0.0, 0.0], device=device)).tolist() == [0.0, 0.0]
    assert facade.bernoulli(facade.empty(0, device=device)).tolist() == []
