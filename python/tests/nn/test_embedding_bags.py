"""Bags of embeddings that offsets give: PyTorch's values and gradients, eager and in programs."""

from __future__ import annotations

from typing import Any

import numpy as np
import oracle
import pytest
import torch

import torchlette
import torchlette.torch as facade
from torchlette.export import export

INDICES = [1, 2, 2, 0, 6, 5, 5, 3]
OFFSETS = [0, 0, 3, 3, 7]


def table() -> np.ndarray:
    """Return rows with equal elements, so that maxima are tied."""
    return np.random.default_rng(1).standard_normal((7, 3)).round().astype(np.float32)


@pytest.mark.parametrize("device", ["cpu", "wgpu"], indirect=True)
@pytest.mark.parametrize("padding", [None, 2, -1])
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("mode", ["sum", "weighted", "mean", "max"])
def test_bags_and_their_gradients_are_pytorchs(device: str, padding: int | None, last: bool, mode: str) -> None:
    def run(lib: Any, place: str) -> Any:
        weight = lib.tensor(table()).to(place).requires_grad_()
        indices, offsets = (lib.tensor(x).to(place) for x in (INDICES, OFFSETS + [8] * last))
        factors = lib.linspace(-1, 1, 8).to(place) if mode == "weighted" else None
        result = lib.nn.functional.embedding_bag(
            indices,
            weight,
            offsets,
            mode="sum" if mode == "weighted" else mode,
            include_last_offset=last,
            padding_idx=padding,
            per_sample_weights=factors,
        )
        (result * lib.arange(1, 16).reshape(5, 3).to(place)).sum().backward()
        return result, weight.grad

    oracle.assert_equal(run(facade, device), run(torch, "cpu"))


def test_a_program_has_other_bags_at_each_call() -> None:
    bags = facade.nn.EmbeddingBag(7, 3, mode="max").eval()
    program = export(bags, (facade.tensor(INDICES), facade.tensor(OFFSETS))).module()
    indices, offsets = facade.tensor(INDICES[::-1]), facade.tensor([0, 1, 2, 2, 5])
    assert facade.equal(program(indices, offsets), bags(indices, offsets))


def test_offsets_outside_of_the_indices_are_refused() -> None:
    for lib in (torch, facade):
        bags = lib.nn.EmbeddingBag(7, 3)
        with pytest.raises(RuntimeError, match=r"offsets\[0\] has to be 0"):
            bags(lib.tensor([1, 2, 3]), lib.tensor([1, 2]))
        with pytest.raises(RuntimeError, match="can not be greater than input.s length"):
            bags(lib.tensor([1, 2, 3]), lib.tensor([0, 9]))


def test_no_indices_make_bags_of_zeros() -> None:
    for lib in (torch, facade):
        bags = lib.nn.EmbeddingBag(7, 3)
        result = bags(lib.zeros(0, dtype=lib.int64), lib.zeros(2, dtype=lib.int64))
        assert result.tolist() == [[0.0] * 3] * 2


def test_gaussian_losses_are_computed_in_compiled_functions() -> None:
    def loss(lib: Any, x: Any) -> Any:
        return lib.nn.functional.gaussian_nll_loss(x, 2 * x, x.abs())

    values = np.random.default_rng(0).standard_normal((4, 3)).astype(np.float32)
    compiled = torchlette.compile(lambda x: loss(facade, x), fullgraph=True)
    oracle.assert_equal(compiled(facade.tensor(values)), loss(torch, torch.tensor(values)))
    with pytest.raises(ValueError, match="negative entry"):
        facade.nn.functional.gaussian_nll_loss(facade.ones(2), facade.ones(2), -facade.ones(2))
