"""Orthogonal polynomials with NaN degrees are PyTorch's."""

from __future__ import annotations

import oracle
import pytest
import torch

import torchlette
from torchlette._ops import polynomials


@pytest.mark.parametrize("name", polynomials.__all__)
def test_a_degree_that_is_not_a_number_gives_zero(device: str, name: str) -> None:
    nan = float("nan")
    ours, theirs = getattr(torchlette.special, name), getattr(torch.special, name)
    oracle.assert_equal(ours(torchlette.tensor([0.3, 0.6], device=device), nan), theirs(torch.tensor([0.3, 0.6]), nan))
    degrees = [2.0, nan, -1.0]
    got = ours(torchlette.full((3,), 0.4, device=device), torchlette.tensor(degrees, device=device))
    oracle.assert_equal(got, theirs(torch.full((3,), 0.4), torch.tensor(degrees)))
