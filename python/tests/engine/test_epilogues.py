"""A product applies the activation or addition that is its only reader: one kernel, PyTorch's values and gradients."""

from __future__ import annotations

import collections

import numpy as np
import oracle
import pytest
import torch

import torchlette

ACTIVATIONS = {
    "relu": lambda lib, x: lib.nn.functional.relu(x),
    "gelu": lambda lib, x: lib.nn.functional.gelu(x),
    "gelu_tanh": lambda lib, x: lib.nn.functional.gelu(x, approximate="tanh"),
    "silu": lambda lib, x: lib.nn.functional.silu(x),
}


def kernels(t: torchlette.Tensor) -> list[str]:
    """The primitives of the plan that made a value, in order of their names."""
    return sorted(k["op"] for k in torchlette.explain(t)["plan"]["kernels"])


def operands(device: str, grad: bool = False):
    """Input, weight and bias, ours and PyTorch's; one row of the input is not a number."""
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(s).astype("float32") for s in ((2, 5, 7), (9, 7), (9,))]
    if not grad:
        arrays[0][1, 2] = np.nan
    return [oracle.ours(a, device, requires_grad=grad) for a in arrays], [
        oracle.theirs(a, requires_grad=grad) for a in arrays
    ]


@pytest.mark.parametrize("name", ACTIVATIONS)
@pytest.mark.parametrize("bias", (False, True))
def test_the_activation_of_a_layer_is_no_kernel_of_its_own(device: str, name: str, bias: bool) -> None:
    ours, theirs = operands(device)
    n = 3 if bias else 2
    got = ACTIVATIONS[name](torchlette, torchlette.nn.functional.linear(*ours[:n]))
    oracle.assert_equal(got, ACTIVATIONS[name](torch, torch.nn.functional.linear(*theirs[:n])))
    if device == "cpu":  # on a GPU once such kernels are compiled: see test_product_maps.py
        assert kernels(got) == ["matmul"]


def test_a_net_trains_through_it(device: str) -> None:
    ours, theirs = operands(device, grad=True)
    for lib, (x, w, b) in ((torchlette, ours), (torch, theirs)):
        y = lib.relu(lib.nn.functional.linear(x, w, b))
        (y * y).sum().backward()
    for a, b in zip(ours, theirs, strict=True):
        oracle.assert_equal(a.grad, b.grad)
    if device == "cpu":
        assert collections.Counter(kernels(ours[1].grad))["relu"] == 0


@pytest.mark.parametrize(
    "program",
    [
        lambda lib, y: lib.relu(y) + y,  # read twice
        lambda lib, y: lib.relu(y.transpose(1, 2)),  # in another order
        lambda lib, y: lib.relu(y[:, 1:]),  # in part
        lambda lib, y: lib.relu(lib.relu(y) - 0.5),
        lambda lib, y: lib.nn.functional.silu(lib.relu(y)),  # one is applied, one is not
        lambda lib, y: lib.zeros_like(y).copy_(lib.relu(y)),  # into what is there
        lambda lib, y: lib.relu(y.half()),
    ],
)
def test_other_readers_see_the_sums(device: str, program) -> None:
    ours, theirs = operands(device)
    oracle.assert_equal(
        program(torchlette, torchlette.nn.functional.linear(*ours)), program(torch, torch.nn.functional.linear(*theirs))
    )


RESIDUALS = {
    "x + product": lambda lib, y, x: x + y,
    "product + x": lambda lib, y, x: y + x,
    "x + activation": lambda lib, y, x: x + lib.nn.functional.silu(y),
    "twice": lambda lib, y, x: x + (x + y),
    "of another shape": lambda lib, y, x: y.view(10, 9) + x.view(10, 9),
}


@pytest.mark.parametrize("name", RESIDUALS)
@pytest.mark.parametrize("bias", (False, True))
@pytest.mark.parametrize("dtype", ("float32", "float64"))
def test_a_residual_is_added_by_the_product(device: str, name: str, bias: bool, dtype: str) -> None:
    if dtype == "float64" and device != "cpu":
        dtype = "float32"
    arrays = [np.random.default_rng(1).standard_normal(s).astype(dtype) for s in ((2, 5, 7), (9, 7), (9,), (2, 5, 9))]
    (a, w, b, x), (ta, tw, tb, tx) = [oracle.ours(v, device) for v in arrays], [oracle.theirs(v) for v in arrays]
    got = RESIDUALS[name](torchlette, torchlette.nn.functional.linear(a, w, b if bias else None), x)
    oracle.assert_equal(got, RESIDUALS[name](torch, torch.nn.functional.linear(ta, tw, tb if bias else None), tx))
    if device == "cpu":
        assert kernels(got) == ["matmul"]


@pytest.mark.parametrize(
    "program",
    [
        lambda lib, y, x: (x + y) * y,  # read twice
        lambda lib, y, x: x[:, :1] + y,  # broadcast
        lambda lib, y, x: x.transpose(0, 1) + y.transpose(0, 1),  # in another order
        lambda lib, y, x: x.add_(y),  # into what is there
        lambda lib, y, x: lib.add(x, y, alpha=2),
        lambda lib, y, x: y + lib.relu(y.sum()) * x,  # what is added comes after the product, and from it
        lambda lib, y, x: y.half() + x.half(),
        lambda lib, y, x: lib.cat((y, y)) + lib.cat((x, x)),
        lambda lib, y, x: (
            lib.nn.functional.linear(x[..., :0], lib.zeros(9, 0, device=x.device), y[0, 0]) + x
        ),  # a product of no terms
    ],
)
def test_other_additions_are_made_apart(device: str, program) -> None:
    ours, theirs = operands(device)
    x = np.random.default_rng(1).standard_normal((2, 5, 9)).astype("float32")
    got = program(torchlette, torchlette.nn.functional.linear(*ours), oracle.ours(x, device))
    oracle.assert_equal(got, program(torch, torch.nn.functional.linear(*theirs), oracle.theirs(x)))


def test_a_residual_block_trains_through_it(device: str) -> None:
    rng = np.random.default_rng(2)
    arrays = [(0.3 * rng.standard_normal(s)).astype("float32") for s in ((4, 6), (8, 6), (8,), (6, 8), (6,))]
    ours, theirs = (
        [make(a, requires_grad=True) for a in arrays]
        for make in (lambda a, **k: oracle.ours(a, device, **k), oracle.theirs)
    )
    for lib, (x, up, b, down, c) in ((torchlette, ours), (torch, theirs)):
        y = x
        for _ in range(2):
            y = y + lib.nn.functional.linear(lib.nn.functional.gelu(lib.nn.functional.linear(y, up, b)), down, c)
        (y * y).sum().backward()
    for a, b in zip(ours, theirs, strict=True):
        oracle.assert_equal(a.grad, b.grad)


@pytest.mark.parametrize("norm", ("layer_norm", "rms_norm"))
def test_the_cotangent_of_a_normalized_value_is_added_to_the_one_around_it(device: str, norm: str) -> None:
    x0, w0 = (np.random.default_rng(3).standard_normal(s).astype("float32") for s in ((4, 5, 6), (6,)))
    grads = []
    for lib, make in (
        (torchlette, lambda a: oracle.ours(a, device, requires_grad=True)),
        (torch, lambda a: oracle.theirs(a, requires_grad=True)),
    ):
        x, w = make(x0), make(w0)
        y = x * 2
        z = y + lib.sin(getattr(lib.nn.functional, norm)(y, (6,), w))
        z.exp().sum().backward()
        grads.append((x.grad, w.grad))
    for a, b in zip(*grads, strict=True):
        oracle.assert_equal(a, b)
    names = [k.split("+") for k in kernels(grads[0][0])]
    assert sum("layer_norm_grad" in k for k in names) == 1
    count = collections.Counter(name for k in names if "layer_norm_grad" not in k for name in k)
    assert count["add"] == 1, "z is a sum; that of the two cotangents of y is part of the norm's gradient"


def test_a_product_that_is_kept_is_stored(device: str) -> None:
    ours, theirs = operands(device)
    y, want = torchlette.nn.functional.linear(*ours), torch.nn.functional.linear(*theirs)
    oracle.assert_equal(torchlette.relu(y), torch.relu(want))
    oracle.assert_equal(y, want)
