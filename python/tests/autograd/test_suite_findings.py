"""Behaviour that PyTorch's own tests of autograd ask for, beside PyTorch."""

from __future__ import annotations

from typing import Any

import pytest
import torch as pytorch

import torchlette.torch as torchlette_torch

LIBRARIES = pytest.mark.parametrize("torch", [torchlette_torch, pytorch], ids=["torchlette", "pytorch"])


@LIBRARIES
def test_retained_gradients_add_up(torch: Any) -> None:
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    y = x * 3
    y.retain_grad()
    (y * y).sum().backward(retain_graph=True)
    first = y.grad
    (y * 2).sum().backward()
    assert y.grad.tolist() == [8.0, 14.0]
    assert first.tolist() == [6.0, 12.0], "the sum is a new tensor"


@LIBRARIES
@pytest.mark.parametrize("writes", [1, 2])
def test_a_written_tensor_retains_the_gradient_of_what_was_written(torch: Any, writes: int) -> None:
    y = torch.tensor([1.0], requires_grad=True).clone()
    y.retain_grad()
    for _ in range(writes):
        y.mul_(2)
    (y * 5).sum().backward()
    assert y.grad.tolist() == [5.0]


@LIBRARIES
def test_backward_fills_inputs_that_are_no_leaves(torch: Any) -> None:
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    y = x * 3
    (y * y).sum().backward(inputs=[y])
    assert (y.grad.tolist(), x.grad) == ([6.0, 12.0], None)


@LIBRARIES
def test_a_variable_is_another_leaf_over_the_same_memory(torch: Any) -> None:
    x = torch.tensor([1.0, 2.0])
    v = torch.autograd.Variable(x, requires_grad=True)
    assert (v.requires_grad, x.requires_grad, v is x) == (True, False, False)
    x.mul_(2)
    assert v.tolist() == [2.0, 4.0]


@LIBRARIES
def test_setup_context_gets_the_defaults_of_forward(torch: Any) -> None:
    class Power(torch.autograd.Function):
        @staticmethod
        def forward(x: Any, exponent: int = 3) -> Any:
            return x**exponent

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            x, ctx.exponent = inputs
            ctx.save_for_backward(x)

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            (x,) = ctx.saved_tensors
            return grad * ctx.exponent * x ** (ctx.exponent - 1), None

    x = torch.tensor([2.0], requires_grad=True)
    Power.apply(x).sum().backward()
    assert x.grad.tolist() == [12.0]


@LIBRARIES
def test_a_post_accumulate_hook_returns_nothing(torch: Any) -> None:
    x = torch.tensor([2.0], requires_grad=True)
    x.register_post_accumulate_grad_hook(lambda t: t.grad)
    with pytest.raises(RuntimeError, match="hooks should return None"):
        x.sum().backward()


@LIBRARIES
def test_names_of_the_accumulator_and_of_saved_tensors(torch: Any) -> None:
    x = torch.tensor([2.0], requires_grad=True)
    node = (x * 2).grad_fn.next_functions[0][0]
    assert (node.name(), type(node).__name__) == ("torch::autograd::AccumulateGrad", "AccumulateGrad")
    with pytest.raises(RuntimeError, match="Trying to create a SavedTensor object from Python is forbidden"):
        torch.autograd.SavedTensor()


@LIBRARIES
def test_multithreading_is_remembered(torch: Any) -> None:
    switch = torch.autograd.set_multithreading_enabled
    x = torch.tensor([2.0], requires_grad=True)
    with switch(False):
        (x * x).sum().backward()
    switch(True)
    assert x.grad.tolist() == [4.0]
