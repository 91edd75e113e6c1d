"""Programs that write in place: values, errors and history are PyTorch's, without needless copies."""

from __future__ import annotations

from typing import Any

import numpy as np
import oracle
import torch

import torchlette
from torchlette.testing.counters import Delta, stats


def test_a_write_to_one_row_writes_that_row_and_copies_nothing(device: str) -> None:
    """An in-place write through a view writes that row and copies nothing."""
    # GPT-2's embedding; Mesa's software adapter binds 128 MiB at most.
    p = torchlette.zeros(50257 if device == "cpu" else 30_000, 768, device=device)
    p[1, 0].item()
    v = p[0]
    live = stats()["live_bytes"]
    with Delta() as seen:
        v.add_(1)
        p[0, :2].tolist()
    assert seen["bytes_written"] <= 768 * 4 + 64, "more than the row was written"
    assert stats()["live_bytes"] <= live + (1 << 16), "p was copied"
    row = p[0].numpy()
    np.testing.assert_array_equal(row, np.ones(768, dtype="float32"))
    assert p.sum().item() == 768.0


def test_a_reader_before_a_write_sees_the_old_value(device: str) -> None:
    """A reader recorded before a write sees the old value; without it the store is in place."""

    def program(lib: Any, a: Any, b: Any) -> Any:
        c = a * 2
        a += b
        return c, a

    arrays = [np.arange(4, dtype="float32"), np.ones(4, dtype="float32")]
    oracle.same(program, arrays, device)

    n = 1 << 16
    a, b = torchlette.ones(n, device=device), torchlette.ones(n, device=device)
    (a + b).sum().item()
    live = stats()["live_bytes"]
    c = a * 2
    a += b
    del c
    np.testing.assert_array_equal(a.numpy(), np.full(n, 2.0, dtype="float32"))
    assert stats()["live_bytes"] <= live + 4096, "the store was not in place"


def test_overlapping_operands_in_place_are_as_in_pytorch(device: str) -> None:
    """Overlapping in-place operands: PyTorch's error where it raises, else as if read first."""
    base = np.arange(12, dtype="float32")

    def shifted(lib: Any, x: Any) -> Any:
        x[1:] += x[:-1]
        return x

    def transposed(lib: Any, x: Any) -> Any:
        y = x.reshape(3, 4)[:, :3].clone()
        y.add_(y.t())
        return y

    def cloned(lib: Any, x: Any) -> Any:
        x[1:] = x[:-1].clone()
        return x

    for program in (shifted, transposed, cloned):
        try:
            program(torch, torch.tensor(base))
        except RuntimeError:
            oracle.same_error(program, [base], device)
        else:
            oracle.same(program, [base], device)


def test_a_write_through_a_view_moves_the_history_of_its_base(device: str) -> None:
    """In-place on a view moves the base's history; leaf rules and detached aliases as PyTorch."""

    def through_view(lib: Any, a: Any, b: Any) -> Any:
        x = a * b
        v = x[0]
        v.mul_(2)
        x.sum().backward()
        return x, a.grad, b.grad

    rng = np.random.default_rng(2)
    arrays = [rng.standard_normal((3, 4)).astype("float32") for _ in range(2)]
    oracle.same(through_view, arrays, device, grad=True)

    def leaf(lib: Any, a: Any) -> None:
        a.requires_grad_()
        a.add_(1)

    def view_of_leaf(lib: Any, a: Any) -> None:
        a.requires_grad_()
        a[0].add_(1)

    oracle.same_error(leaf, arrays[:1], device)
    oracle.same_error(view_of_leaf, arrays[:1], device)

    def detached(lib: Any, a: Any, b: Any) -> Any:
        x = a * 1
        x.detach().zero_()
        (x + b).sum().backward()
        return x, a.grad

    oracle.same(detached, arrays, device, grad=True)

    def detached_saved(lib: Any, a: Any, b: Any) -> None:
        a.requires_grad_()
        b.requires_grad_()
        x = a * 1
        y = x * b
        x.detach().zero_()
        y.sum().backward()

    assert isinstance(oracle.same_error(detached_saved, arrays, device), torchlette.SavedTensorModifiedError)


def test_a_fresh_tensor_may_be_written_in_place(device: str) -> None:
    """A write directly after creation takes effect."""
    a = torchlette.ones(4, device=device)
    a.add_(1)
    np.testing.assert_array_equal(a.numpy(), np.full(4, 2.0, dtype="float32"))
