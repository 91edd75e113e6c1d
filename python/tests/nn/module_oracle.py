"""PyTorch as the oracle of module tests: the same module under both libraries, with the same parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import torchlette as tl
import torchlette.nn


def ours(t: torch.Tensor) -> Any:
    """Return a torchlette tensor with the value and requires_grad of ``t``."""
    return tl.tensor(t.detach().numpy()).requires_grad_(t.requires_grad)


def theirs(t: Any) -> torch.Tensor:
    """Return a PyTorch tensor with the value of a torchlette tensor."""
    return torch.tensor(np.asarray(t.detach().cpu().numpy()))


def copy_parameters(source: torch.nn.Module, target: Any) -> None:
    """Give ``target`` the parameters and buffers of ``source``, by name."""
    target.load_state_dict({name: ours(value) for name, value in source.state_dict().items()})


def pair(make: Callable[[Any], Any]) -> tuple[torch.nn.Module, Any]:
    """Make a module under both libraries; ``make`` takes the ``nn`` namespace."""
    torch.manual_seed(0)
    expected, got = make(torch.nn), make(torchlette.nn)
    copy_parameters(expected, got)
    return expected, got


def outputs(result: Any) -> list[Any]:
    """Return the tensors of a module's result."""
    return [r for r in (result if isinstance(result, tuple) else (result,)) if r is not None]


def check_call(expected: torch.nn.Module, got: Any, *inputs: torch.Tensor, **kwargs: Any) -> None:
    """Compare outputs and gradients of one call, with a cotangent that is not constant."""
    mine = [ours(x) for x in inputs]
    want, have = outputs(expected(*inputs, **kwargs)), outputs(got(*mine, **kwargs))
    assert len(want) == len(have)
    for w, h in zip(want, have, strict=True):
        torch.testing.assert_close(theirs(h), w.detach())
    differentiable = [i for i, w in enumerate(want) if w.requires_grad]
    assert [i for i, h in enumerate(have) if h.requires_grad] == differentiable
    for i in differentiable:
        cotangent = torch.linspace(-1.0, 2.0, want[i].numel(), dtype=want[i].dtype).reshape(want[i].shape)
        want[i].backward(cotangent, retain_graph=True)
        have[i].backward(ours(cotangent), retain_graph=True)
    for x, m in zip(inputs, mine, strict=True):
        assert (x.grad is None) == (m.grad is None)
        if x.grad is not None:
            torch.testing.assert_close(theirs(m.grad), x.grad)
    grads = dict(got.named_parameters())
    for name, p in expected.named_parameters():
        assert (p.grad is None) == (grads[name].grad is None), name
        if p.grad is not None:
            torch.testing.assert_close(theirs(grads[name].grad), p.grad)
