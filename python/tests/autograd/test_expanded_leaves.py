"""Gradients of views of tensors whose elements share memory: each element has a gradient of its own."""

from __future__ import annotations

from typing import Any

import oracle
import pytest
import torch

import torchlette.torch

VIEWS = {
    "integer": lambda x: x[1],
    "select": lambda x: x.select(1, 0),
    "slice": lambda x: x[1:],
    "step": lambda x: x[::2],
    "mixed index": lambda x: x[None, 1, ..., 0],
    "transposed": lambda x: x.t()[0],
    "diagonal": lambda x: x.diagonal(1),
    "unfold": lambda x: x.unfold(0, 2, 1)[1],
    "split": lambda x: x.split(1)[1],
    "view of a view": lambda x: x[1:].t()[1:].select(1, 1),
}


def _weighted(lib: Any, y: Any) -> Any:
    return (y * y * lib.arange(1.0, y.numel() + 1).reshape(y.shape)).sum()


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
@pytest.mark.parametrize("rows", [[[1.0, 2.0, 3.0]], [[2.0]]], ids=["rows", "all elements"])
def test_a_view_of_an_expanded_leaf(view: Any, rows: Any) -> None:
    def gradients(lib: Any) -> list[Any]:
        x = lib.tensor(rows).expand(3, 3).requires_grad_()
        _weighted(lib, view(x)).backward()
        point = lib.tensor(rows).expand(3, 3)
        slope = lib.func.grad(lambda v: _weighted(lib, view(v)))
        batch = lib.func.vmap(lambda t: lib.func.grad(lambda v: _weighted(lib, view(v)) * t)(point))
        pairs = lib.tensor(rows, dtype=lib.complex64).expand(3, 3).requires_grad_()
        _weighted(lib, view(pairs).abs()).backward()
        return [x.grad, slope(point), batch(lib.tensor([1.0, 2.0])), lib.view_as_real(pairs.grad)]

    for got, want in zip(gradients(torchlette.torch), gradients(torch), strict=True):
        torch.testing.assert_close(oracle.to_torch(got), want)
