"""Loss scaling: weights, factors, state and errors are PyTorch's."""

from __future__ import annotations

import math
import warnings
from typing import Any

import pytest
import torch
from oracle import to_torch

import torchlette
import torchlette.torch as facade


def trained(lib: Any, poison: int | None, growth_interval: int) -> list[Any]:
    """Train a layer with a scaler; step ``poison`` has an infinite loss. Return weights, scales and norms."""
    layer = lib.nn.Linear(3, 1)
    with lib.no_grad():
        layer.weight.copy_(lib.tensor([[0.1, -0.2, 0.3]]))
        layer.bias.fill_(0.5)
    optimizer = lib.optim.SGD(layer.parameters(), lr=0.1, momentum=0.9)
    scaler = lib.amp.GradScaler("cpu", init_scale=4.0, growth_interval=growth_interval)
    x, seen = lib.tensor([[1.0, 2.0, 3.0], [0.5, -1.0, 2.0]]), []
    for step in range(5):
        optimizer.zero_grad()
        loss = layer(x).pow(2).mean() * (math.inf if step == poison else 1.0)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        norm = lib.nn.utils.clip_grad_norm_(layer.parameters(), 0.5)
        scaler.step(optimizer)
        scaler.update()
        seen += [layer.weight.detach().clone(), scaler.get_scale(), norm if step != poison else 0.0]
    return [*seen, scaler.state_dict()]


@pytest.mark.parametrize("poison", [None, 0, 2])
@pytest.mark.parametrize("growth_interval", [1, 2, 2000])
def test_grad_scaler(poison: int | None, growth_interval: int) -> None:
    """Weights, factors and state are PyTorch's, with steps skipped where gradients are infinite."""
    for want, got in zip(
        trained(torch, poison, growth_interval), trained(torchlette, poison, growth_interval), strict=True
    ):
        torch.testing.assert_close(to_torch(got) if isinstance(got, torchlette.Tensor) else got, want)


def test_grad_scaler_refuses_a_wrong_order() -> None:
    """The order of unscale_, step and update is checked as in PyTorch, and a state is loaded."""
    for lib in (torch, torchlette):
        p = lib.nn.Parameter(lib.ones(2))
        optimizer, scaler = lib.optim.SGD([p], lr=0.1), lib.amp.GradScaler("cpu")
        scaler.scale(p.sum()).backward()
        scaler.unscale_(optimizer)
        with pytest.raises(RuntimeError, match="unscale_"):
            scaler.unscale_(optimizer)
        scaler.step(optimizer)
        with pytest.raises(RuntimeError, match="step"):
            scaler.step(optimizer)
        scaler.update()
        with pytest.raises(AssertionError):
            scaler.update()
        other = lib.amp.GradScaler("cpu", init_scale=1.0)
        other.load_state_dict(scaler.state_dict())
        assert other.get_scale() == 65536.0
        with pytest.raises(RuntimeError, match="empty"):
            other.load_state_dict({})


def test_a_scaler_for_cuda_is_off() -> None:
    """Without CUDA the scaler warns, scales nothing and saves nothing; disabled ones are silent."""
    with pytest.warns(UserWarning, match="CUDA"):
        scaler = facade.cuda.amp.GradScaler()
    t = facade.ones(2)
    assert scaler.scale(t) is t
    assert scaler.state_dict() == {}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert facade.amp.GradScaler(enabled=False).get_scale() == 1.0
