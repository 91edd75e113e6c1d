"""Cotangents of slices and gathers are added into one buffer: PyTorch's values by few kernels."""

from __future__ import annotations

import collections

import numpy as np
import oracle
import pytest
import torch

import torchlette
from torchlette.nn import functional as F


def kernels(t: torchlette.Tensor) -> collections.Counter[str]:
    """Count the kernels of the plan that made a value, by primitive."""
    return collections.Counter(k["op"] for k in torchlette.explain(t)["plan"]["kernels"])


def split_in_three(lib, x):
    """A value whose gradient has three parts."""
    a, b, c = (x * 1).chunk(3, dim=1)
    return (a * b + c.sin()).sum()


def compare(program, data: np.ndarray, device: str) -> collections.Counter[str]:
    """Compare a program's gradient with PyTorch's, and count the kernels that made it."""
    x, want = oracle.ours(data, device, requires_grad=True), oracle.theirs(data, requires_grad=True)
    program(torchlette, x).backward()
    program(torch, want).backward()
    oracle.assert_equal(x.grad, want.grad)
    return kernels(x.grad)


def cats(ran: collections.Counter[str]) -> int:
    """Count the kernels that lay parts beside each other, perhaps as they compute them."""
    return sum(n for name, n in ran.items() if "cat" in name.split("+"))


def test_parts_of_a_split_are_laid_beside_each_other(device: str) -> None:
    ran = compare(split_in_three, np.random.default_rng(0).standard_normal((4, 9)).astype("float32"), device)
    assert cats(ran) == 1 and ran["strided_scatter"] + ran["strided_scatter_add"] == 0, ran
    assert ran["fill"] <= 1 and ran["add"] <= 1, ran  # the ones that backward starts with; the forward's own sum


@pytest.mark.parametrize(
    ("split", "count"),
    [
        (lambda y: y.unbind(0), 1),
        (lambda y: y.unbind(1), 1),
        (lambda y: y.split([2, 1, 3], dim=1), 3),
        (lambda y: (y[:, 4:], y[:, :4]), 2),
        (lambda y: [y[:, i] for i in (0, 2, 1, 5, 3, 4)], 1),
    ],
)
def test_items_and_pieces_of_any_size_and_order_are_laid_beside_each_other(device: str, split, count: int) -> None:
    data = np.random.default_rng(4).standard_normal((3, 6)).astype("float32")
    ran = compare(lambda lib, x: sum((p.sin() * (i + 1)).sum() for i, p in enumerate(split(x * 1))), data, device)
    assert 1 <= cats(ran) <= count, ran  # one fusion group may hold several
    assert ran["strided_scatter"] + ran["strided_scatter_add"] == 0, ran


@pytest.mark.parametrize(
    "parts",
    [
        lambda y: (y[:, :4], y[:, 2:]),  # they overlap
        lambda y: [y[:, i] for i in (2, 0, 1, 3, 4, 5)],  # the last to come is in the middle
        lambda y: (y[:1], y[1:].reshape(-1).split(6)[0]),  # one is zeros with a part itself
        lambda y: (y[:, :2], y[:, 3:]),  # a gap
        lambda y: (y.sum(1, keepdim=True), y.sum(1, keepdim=True)[:, ::2]),
        lambda y: [(s := y.amax(1, keepdim=True))[:, ::2], s],  # one piece is all there is
        lambda y: (y[:2], y[:, 3:]),  # of two dims
        lambda y: (y[:, ::2], y[:, 1::2]),  # in turns
        lambda y: (y[:, :3], y[:, 3:], y[:, 3:]),  # one twice
        lambda y: (y[:, :3], y[:, :3], y[:, 3:]),
        lambda y: (y[:, :3], y, y[:, 3:]),  # and the whole
        lambda y: (y.t()[:2], y.t()[2:]),
        lambda y: (y.view(2, 9)[:1], y.view(2, 9)[1:]),
        lambda y: (y.expand(2, 3, 6)[0], y.expand(2, 3, 6)[1]),
    ],
)
def test_parts_that_are_no_split_are_added(device: str, parts) -> None:
    data = np.random.default_rng(5).standard_normal((3, 6)).astype("float32")
    compare(lambda lib, x: sum((p.sin() * (i + 1)).sum() for i, p in enumerate(parts(x * 1))), data, device)


def test_a_part_that_is_all_leaves_the_rest(device: str) -> None:
    """A view of the whole tensor is added to the other cotangents, in either order."""

    def program(lib, x):
        y = x * 1
        return (y[...] * 3).sum() + y.exp().sum() + (y[:] * y[:, :]).sum() + y.sin().sum()

    compare(program, np.linspace(-1, 1, 12, dtype="float32").reshape(3, 4), device)


def test_tied_embedding_adds_into_the_products_gradient(device: str) -> None:
    rng = np.random.default_rng(1)
    table, ids = rng.standard_normal((11, 6)).astype("float32"), rng.integers(0, 11, (2, 5))
    w, want = oracle.ours(table, device, requires_grad=True), oracle.theirs(table, requires_grad=True)
    i, j = oracle.ours(ids, device), oracle.theirs(ids)
    F.linear(F.embedding(i, w).tanh(), w).exp().sum().backward()
    torch.nn.functional.linear(torch.nn.functional.embedding(j, want).tanh(), want).exp().sum().backward()
    oracle.assert_equal(w.grad, want.grad)
    ran = kernels(w.grad)
    assert ran["scatter"] == 1 and ran["add"] == 0, ran


def test_the_other_order_and_views_that_meet_themselves(device: str) -> None:
    def program(lib, x):
        y = x * 2
        parts = y[1:3].sum() + y.unfold(0, 3, 1).square().sum() + y[lib.tensor([0, 0, 4], device=x.device)].exp().sum()
        return parts + y.gather(0, lib.tensor([[1, 1], [5, 0]], device=x.device)).sin().sum() + (y * y).sum()

    data = np.random.default_rng(2).standard_normal((6, 2)).astype("float32")
    x, want = oracle.ours(data, device, requires_grad=True), oracle.theirs(data, requires_grad=True)
    program(torchlette, x).backward()
    program(torch, want).backward()
    oracle.assert_equal(x.grad, want.grad)


def test_second_order_keeps_the_tape(device: str) -> None:
    def program(lib, x):
        a, b = (x * x).chunk(2)
        (g,) = lib.autograd.grad((a * b * a).sum(), x, create_graph=True)
        return g.square().sum()

    data = np.random.default_rng(3).standard_normal(6).astype("float32")
    x, want = oracle.ours(data, device, requires_grad=True), oracle.theirs(data, requires_grad=True)
    program(torchlette, x).backward()
    program(torch, want).backward()
    oracle.assert_equal(x.grad, want.grad)


def test_a_part_scattered_in_another_shape(device: str) -> None:
    """An index of several dims is scattered into the flattened tensor; the other cotangent has the tensor's shape."""

    def program(lib, x):
        y = x * 2
        i = lib.tensor([0, 1, 1], device=x.device)
        return y.square().sum() + y[i, i].exp().sum()

    data = np.random.default_rng(4).standard_normal((2, 3)).astype("float32")
    x, want = oracle.ours(data, device, requires_grad=True), oracle.theirs(data, requires_grad=True)
    program(torchlette, x).backward()
    program(torch, want).backward()
    oracle.assert_equal(x.grad, want.grad)
