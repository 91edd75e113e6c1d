"""``Tensor.copy_to_host_async``: JAX's name for a copy that a later read waits for."""

from __future__ import annotations

import gc

import pytest
from torchlette.errors import IndexRangeError

import torchlette as tl


def test_the_version_of_the_call_is_read_if_nothing_is_written(device: str) -> None:
    x = tl.arange(5, device=device) + 1
    y = x * 2
    x.copy_to_host_async()
    y.copy_to_host_async()
    assert (y.tolist(), x.tolist()) == ([2, 4, 6, 8, 10], [1, 2, 3, 4, 5])
    x.copy_to_host_async()
    x.add_(10)
    assert x.tolist() == [11, 12, 13, 14, 15]
    assert x.tolist() == [11, 12, 13, 14, 15]


def test_the_read_submits_nothing_more(wgpu: None) -> None:
    x = tl.arange(5.0, device="wgpu") * 2
    x.copy_to_host_async()
    y = x + 1
    y.copy_to_host_async()
    before = tl.stats()["device_submits"]
    assert (x.tolist(), y.tolist()) == ([0, 2, 4, 6, 8], [1, 3, 5, 7, 9])
    assert tl.stats()["device_submits"] == before
    x.tolist()
    assert tl.stats()["device_submits"] > before


def test_views_halves_bools_and_empty_tensors_are_copied(device: str) -> None:
    for t in (
        tl.arange(6, device=device).view(2, 3).t(),
        tl.ones(5, dtype=tl.float16, device=device)[1:4:2] * 3,
        tl.tensor([True, False, True], device=device),
        tl.zeros(0, 3, device=device),
        tl.tensor(2.5, device=device),
        tl.tensor([1 + 2j, 3j], device=device),
    ):
        expected = t.clone().tolist()
        t.copy_to_host_async()
        assert t.tolist() == expected


def test_one_window_has_the_value_and_what_is_pending(device: str) -> None:
    cache, t = tl.zeros(4, 3, device=device), tl.ones(3, device=device)
    tl.mark_step()
    for k in range(3):
        cache[k] = t + k
        before = tl.stats()["windows"]
        total = cache.sum() + t.sum()
        total.copy_to_host_async()
        assert tl.stats()["windows"] == before + 1
        assert total.item() == 3 * (k + 1) * (k + 2) / 2 + 3
        assert tl.stats()["windows"] == before + 1


def test_a_fault_is_raised_once_by_the_read(device: str) -> None:
    y = tl.arange(5, device=device)[tl.tensor([7], device=device)]
    y.copy_to_host_async()
    with pytest.raises(IndexRangeError, match="index 7 is out of bounds"):
        y.tolist()
    tl.mark_step()
    z = tl.arange(3, device=device)
    z.copy_to_host_async()
    assert z.tolist() == [0, 1, 2]


def test_copies_that_nobody_reads_hold_no_tensor(device: str) -> None:
    gc.collect()
    tl.mark_step()
    before = tl.stats()["live_storages"]
    for k in range(40):
        t = tl.full((64,), k, device=device)
        t.copy_to_host_async()
        del t
    tl.mark_step()
    assert tl.stats()["live_storages"] <= before + 8
    kept = [tl.full((64,), k, device=device) for k in range(20)]
    for t in kept:
        t.copy_to_host_async()
    assert [t[0].item() for t in kept] == list(range(20)), "more than are under way at a time"
    assert [t.tolist()[0] for t in kept] == list(range(20))


def test_functions_that_are_recorded_ignore_it(device: str) -> None:
    def f(x: tl.Tensor) -> tl.Tensor:
        y = x * 2
        y.copy_to_host_async()
        return y.sum()

    x = tl.arange(3.0, device=device)
    assert tl.jit(f)(x).item() == 6
    assert tl.func.grad(f)(x).tolist() == [2, 2, 2]
    assert tl.func.vmap(f)(x.view(3, 1)).tolist() == [0, 2, 4]
    tl.empty(2, device="meta").copy_to_host_async()
