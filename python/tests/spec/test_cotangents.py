"""Cotangents of slices and gathers are added into one buffer: values, and the kernels that run."""

from __future__ import annotations

import collections

import numpy as np
import oracle
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


def test_parts_of_a_split_go_into_one_buffer(device: str) -> None:
    data = np.random.default_rng(0).standard_normal((4, 9)).astype("float32")
    x, want = oracle.ours(data, device, requires_grad=True), oracle.theirs(data, requires_grad=True)
    split_in_three(torchlette, x).backward()
    split_in_three(torch, want).backward()
    oracle.assert_equal(x.grad, want.grad)
    ran = kernels(x.grad)
    assert ran["strided_scatter"] + ran["strided_scatter_add"] == 3
    assert ran["fill"] <= 2 and ran["add"] <= 1  # zeros once, and the ones that backward starts with; the forward's own sum


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
