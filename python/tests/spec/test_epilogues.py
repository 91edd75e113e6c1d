"""A product applies the activation that alone reads it: values, gradients, and the kernels that run."""

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
    return [oracle.ours(a, device, requires_grad=grad) for a in arrays], [oracle.theirs(a, requires_grad=grad) for a in arrays]


@pytest.mark.parametrize("name", ACTIVATIONS)
@pytest.mark.parametrize("bias", (False, True))
def test_the_activation_of_a_layer_is_no_kernel_of_its_own(device: str, name: str, bias: bool) -> None:
    ours, theirs = operands(device)
    n = 3 if bias else 2
    got = ACTIVATIONS[name](torchlette, torchlette.nn.functional.linear(*ours[:n]))
    oracle.assert_equal(got, ACTIVATIONS[name](torch, torch.nn.functional.linear(*theirs[:n])))
    assert kernels(got) == ["matmul"]


def test_a_net_trains_through_it(device: str) -> None:
    ours, theirs = operands(device, grad=True)
    for lib, (x, w, b) in ((torchlette, ours), (torch, theirs)):
        y = lib.relu(lib.nn.functional.linear(x, w, b))
        (y * y).sum().backward()
    for a, b in zip(ours, theirs, strict=True):
        oracle.assert_equal(a.grad, b.grad)
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
    oracle.assert_equal(program(torchlette, torchlette.nn.functional.linear(*ours)), program(torch, torch.nn.functional.linear(*theirs)))


def test_a_product_that_is_kept_is_stored(device: str) -> None:
    ours, theirs = operands(device)
    y, want = torchlette.nn.functional.linear(*ours), torch.nn.functional.linear(*theirs)
    oracle.assert_equal(torchlette.relu(y), torch.relu(want))
    oracle.assert_equal(y, want)
