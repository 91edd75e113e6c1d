"""Reductions of segments and under masks have PyTorch's values and gradients at their edges."""

from __future__ import annotations

import oracle
import pytest
import torch

import torchlette

VALUES = [1.0, 2.0, 0.0, -3.0, 2.0, -1.0]


@pytest.mark.parametrize("reduce", ["max", "min"])
@pytest.mark.parametrize("initial", [-10.0, 0.0, 2.0, 10.0])
def test_elements_that_equal_what_a_segment_starts_from_have_the_whole_gradient(
    device: str, reduce: str, initial: float
) -> None:
    found = []
    for lib, place in ((torchlette, device), (torch, "cpu")):
        x = lib.tensor(VALUES, device=place, requires_grad=True)
        y = lib.segment_reduce(x, reduce, lengths=lib.tensor([3, 3], device=place), initial=initial)
        (y * lib.tensor([1.0, 5.0], device=place)).sum().backward()
        found.append((y.detach(), x.grad))
    for got, want in zip(*found, strict=True):
        oracle.assert_equal(got, want)


def test_a_segment_that_starts_from_a_number_keeps_nan(device: str) -> None:
    x, lengths = torchlette.tensor([1.0, float("nan")], device=device), torchlette.tensor([2], device=device)
    for reduce in ("max", "min"):
        got = torchlette.segment_reduce(x, reduce, lengths=lengths, initial=0.5)
        oracle.assert_equal(got, torch.tensor([float("nan")]))


@pytest.mark.parametrize("name", ["amax", "amin"])
def test_bools_have_extremes_where_nothing_is_masked(device: str, name: str) -> None:
    values = [[True, False], [True, True]]
    got = getattr(torchlette.masked, name)(torchlette.tensor(values, device=device), 1)
    oracle.assert_equal(got, getattr(torch.masked, name)(torch.tensor(values), 1))
    with pytest.raises(NotImplementedError):
        getattr(torchlette.masked, name)(
            torchlette.tensor(values, device=device), 1, mask=torchlette.tensor(values, device=device)
        )


def test_a_copied_slice_is_along_a_dim_that_is_there(device: str) -> None:
    x = torchlette.arange(6, device=device).reshape(2, 3)
    oracle.assert_equal(
        torchlette.slice_copy(x, -1, 1, None), torch.slice_copy(torch.arange(6).reshape(2, 3), -1, 1, None)
    )
    for dim in (2, -3):
        with pytest.raises(IndexError, match="Dimension out of range"):
            torchlette.slice_copy(x, dim)


def test_complex_views_have_copies():
    for lib in (torch, torchlette):
        z = lib.tensor([1 + 2j, 3j])
        pairs = lib.view_as_real_copy(z)
        back = lib.view_as_complex_copy(pairs)
        pairs[0, 0] = 9
        assert (z.tolist(), pairs.tolist(), back.tolist()) == ([1 + 2j, 3j], [[9, 2], [0, 3]], [1 + 2j, 3j])
