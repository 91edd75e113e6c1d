"""``_unsafe_index_copy``: ``index_copy`` with indices that the caller knows to be in range."""

from __future__ import annotations

import pytest
from torchlette.errors import IndexRangeError

import torchlette as tl
from torchlette import _C


def test_it_copies_and_differentiates_as_index_copy_does(device: str) -> None:
    x = tl.arange(12.0, device=device).view(4, 3).requires_grad_()
    y = tl.arange(6.0, device=device).view(2, 3).requires_grad_()
    i, w = tl.tensor([3, 0], device=device), tl.arange(12.0, device=device).view(4, 3)
    results = []
    for f in (tl.index_copy, _C._unsafe_index_copy):
        z = f(x, 0, i, y)
        results.append([t.tolist() for t in (z, *tl.autograd.grad((z * w).sum(), (x, y)))])
    assert results[0] == results[1]


def test_indices_out_of_range_are_clamped_and_not_told(device: str) -> None:
    t, i, one = tl.zeros(4, device=device), tl.tensor([8, -6], device=device) + 1, tl.tensor([1.0, 2.0], device=device)
    assert _C._unsafe_index_copy_(t, 0, i, one).tolist() == [2, 0, 0, 1]
    with pytest.raises(IndexRangeError):
        t.index_copy_(0, i, one).tolist()
    tl.mark_step()


def test_two_of_them_run_side_by_side_on_a_gpu(wgpu: None) -> None:
    waves = []
    for copy_ in (tl.Tensor.index_copy_, _C._unsafe_index_copy_):
        a, b, i = tl.zeros(4, device="wgpu"), tl.zeros(4, device="wgpu"), tl.tensor([2], device="wgpu")
        v = tl.ones(1, device="wgpu")
        tl.realize(a, b, i, v)
        before = tl.stats()["device_waves"]
        copy_(a, 0, i, v)
        copy_(b, 0, i, v)
        tl.mark_step()
        waves.append(tl.stats()["device_waves"] - before)
    assert waves == [2, 1]
