"""Checkpointed calls give the gradients of plain ones, and PyTorch's errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils import checkpoint as theirs

import torchlette
from torchlette.utils import checkpoint as ours

X = np.random.default_rng(0).standard_normal((3, 4)).astype("float32")


def models() -> tuple[Any, Any]:
    """Return the same two-layer network in both libraries."""
    made = [lib.nn.Sequential(lib.nn.Linear(4, 8), lib.nn.Tanh(), lib.nn.Linear(8, 8), lib.nn.Tanh(), lib.nn.Linear(8, 2)) for lib in (torch, torchlette)]
    made[1].load_state_dict({k: torchlette.tensor(v.numpy()) for k, v in made[0].state_dict().items()})
    return made[0], made[1]


def plain(lib: Any, c: Any, model: Any, a: Any, **options: Any) -> Any:
    """All parameters' gradients."""
    c.checkpoint(lambda z: model(z) * 2, a * 1, **options).pow(2).sum().backward()
    return [a.grad, *(p.grad for p in model.parameters())]


def sequential(lib: Any, c: Any, model: Any, a: Any, **options: Any) -> Any:
    """Of a model in segments."""
    c.checkpoint_sequential(model, 2, a * 1, **options).pow(2).sum().backward()
    return [a.grad, *(p.grad for p in model.parameters())]


def nested_arguments(lib: Any, c: Any, model: Any, a: Any, **options: Any) -> Any:
    """Tensors in containers, and one that the function finds by itself."""
    outside = a.exp()
    y = c.checkpoint(lambda z, k: (model(z) * k["w"][0] + outside.sum(), 3), a * 1, k={"w": [a.sum()]}, **options)
    (y[0].pow(2).sum() * y[1]).backward()
    return [a.grad, *(p.grad for p in model.parameters())]


def by_grad(lib: Any, c: Any, model: Any, a: Any, **options: Any) -> Any:
    """Through autograd.grad, with a hook that must run once."""
    weight = next(model.parameters())
    handle = weight.register_hook(lambda g: g * 3)
    y = c.checkpoint(model, a * 1, **options)
    found = lib.autograd.grad(y.pow(2).sum(), [a, *model.parameters()])
    handle.remove()
    return found


def twice(lib: Any, c: Any, model: Any, a: Any, **options: Any) -> Any:
    """Second derivatives."""
    (g,) = lib.autograd.grad(c.checkpoint(model, a * 1, **options).pow(2).sum(), a, create_graph=True)
    g.pow(2).sum().backward()
    return [a.grad, *(p.grad for p in model.parameters())]


CASES = [(f, reentrant) for f in (plain, sequential, nested_arguments, by_grad, twice) for reentrant in (True, False)]


@pytest.mark.parametrize(("program", "reentrant"), CASES, ids=lambda v: getattr(v, "__name__", str(v)))
def test_equal_to_pytorch(program: Callable[..., Any], reentrant: bool) -> None:
    """The same gradients, or the same class of error."""
    results: list[Any] = []
    for lib, c, model in zip((torch, torchlette), (theirs, ours), models(), strict=True):
        try:
            found = program(lib, c, model, lib.tensor(X, requires_grad=True), use_reentrant=reentrant)
            results.append([None if g is None else g.detach().numpy() for g in found])
        except (RuntimeError, ValueError) as error:
            results.append((ValueError if isinstance(error, ValueError) else RuntimeError, str(error)[:60]))
    want, got = results
    if isinstance(want, tuple):
        assert got == want
        return
    for g, w in zip(got, want, strict=True):
        np.testing.assert_allclose(g, w, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("reentrant", [True, False])
def test_the_second_run_draws_the_same_numbers(reentrant: bool) -> None:
    """Dropout masks are those of the first run, and draws after it are not disturbed."""
    drop, a = torchlette.nn.Dropout(0.5), torchlette.ones(100, requires_grad=True)
    y = ours.checkpoint(drop, a * 1, use_reentrant=reentrant)
    state = torchlette.get_rng_state()
    y.sum().backward()
    assert torchlette.equal(a.grad, y.detach())
    assert torchlette.get_rng_state()[0] == state[0]


def test_a_function_that_changes_is_found() -> None:
    """A second run of another shape raises."""
    sizes = iter([2, 3])
    a = torchlette.ones(4, requires_grad=True)
    y = ours.checkpoint(lambda z: z[: next(sizes)] * 2, a, use_reentrant=False)
    with pytest.raises(ours.CheckpointError, match="differ"):
        y.sum().backward()
