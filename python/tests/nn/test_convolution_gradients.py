"""``nn.grad``: the gradients of convolutions by their input and weight are PyTorch's, and differentiable."""

from __future__ import annotations

import oracle
import pytest
import torch

import torchlette
import torchlette.torch as facade

CASES = [
    (1, (2, 4, 9), (6, 2, 3), {"stride": 2, "padding": 1, "groups": 2}),
    (2, (1, 2, 5, 6), (3, 2, 2, 3), {"stride": (1, 2), "padding": (1, 0), "dilation": (2, 1)}),
    (3, (1, 2, 3, 4, 4), (2, 2, 2, 2, 1), {}),
]


@pytest.mark.parametrize(("dims", "size", "weight_size", "options"), CASES)
def test_gradients_are_pytorchs(dims, size, weight_size, options):
    torch.manual_seed(dims)
    x, w = torch.randn(size), torch.randn(weight_size)
    grad = torch.randn_like(getattr(torch.nn.functional, f"conv{dims}d")(x, w, **options))
    ox, ow, og = (torchlette.tensor(t.numpy()) for t in (x, w, grad))
    for name, theirs, ours in (
        (f"conv{dims}d_input", (size, w, grad), (size, ow, og)),
        (f"conv{dims}d_weight", (x, weight_size, grad), (ox, weight_size, og)),
    ):
        want = getattr(torch.nn.grad, name)(*theirs, **options)
        got = getattr(facade.nn.grad, name)(*ours, **options)
        oracle.assert_equal(got, want)
        assert not got.requires_grad


def test_gradients_are_differentiable():
    x, w, g = torch.randn(1, 2, 5), torch.randn(3, 2, 2), torch.randn(1, 3, 4)
    results = []
    for lib, convert in ((torch, torch.clone), (facade, lambda t: torchlette.tensor(t.numpy()))):
        weight, grad = convert(w).requires_grad_(), convert(g).requires_grad_()
        (lib.nn.grad.conv1d_input(x.shape, weight, grad) ** 2).sum().backward()
        results.append((weight.grad, grad.grad))
    for got, want in zip(results[1], results[0], strict=True):
        oracle.assert_equal(got, want)


def test_a_gradient_of_another_shape_is_refused():
    with pytest.raises(RuntimeError, match="grad_output has shape"):
        facade.nn.grad.conv1d_input((1, 2, 5), torchlette.ones(3, 2, 2), torchlette.ones(1, 3, 5))
