"""Wrapper subclasses: classes with __torch_dispatch__ answer operators, in torchlette as in PyTorch."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import torchlette.torch as facade

LIBS = pytest.mark.parametrize("t", [torch, facade], ids=["torch", "ours"])


def scaled(t: Any, disabled: bool) -> Any:
    """Return a class of tensors that hold integers and a scale; its list ``calls`` names the operators."""

    class Scaled(t.Tensor):
        calls: list[str] = []

        @staticmethod
        def __new__(cls, elements, scale):
            return t.Tensor._make_wrapper_subclass(cls, elements.shape, dtype=t.float32, device=elements.device)

        def __init__(self, elements, scale):
            self.elements, self.scale = elements, scale

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            cls.calls.append(str(func).split(".")[1])
            if func is t.ops.aten.detach.default or func == t.ops.aten.detach.default:
                return cls(args[0].elements, args[0].scale)
            plain = [a.elements.float() * a.scale if isinstance(a, cls) else a for a in args]
            return func(*plain, **(kwargs or {}))

    if disabled:
        Scaled.__torch_function__ = t._C._disabled_torch_function_impl
    return Scaled


@LIBS
def test_a_wrapper_says_its_shape_dtype_and_device(t):
    kind = scaled(t, False)
    x = kind(t.tensor([[1, 2], [3, 4]]), 0.5)
    assert type(x) is kind and isinstance(x, t.Tensor)
    assert (tuple(x.shape), x.dtype, str(x.device), x.requires_grad) == ((2, 2), t.float32, "cpu", False)
    assert (x.dim(), x.numel(), x.stride(), tuple(x.size())) == (2, 4, (2, 1), (2, 2))
    assert t.nn.Parameter(x, requires_grad=False).shape == x.shape


@pytest.mark.parametrize("disabled", [False, True])
@LIBS
def test_operators_of_a_wrapper_call_its_class(t, disabled):
    kind = scaled(t, disabled)
    x = kind(t.tensor([[1, 2], [3, 4]]), 0.5)
    results = [x + 1, t.add(t.ones(2), x), t.mm(x, t.eye(2)), x.sum(), x.relu()]
    wanted = t.tensor([[0.5, 1.0], [1.5, 2.0]])
    for got, want in zip(results, [wanted + 1, wanted + 1, wanted, wanted.sum(), wanted], strict=True):
        assert type(got) is t.Tensor and t.equal(got, want)
    assert kind.calls == ["add", "add", "mm", "sum", "relu"]


@LIBS
def test_a_wrapper_needs_a_class_that_dispatches(t):
    class Plain(t.Tensor):
        pass

    with pytest.raises((RuntimeError, TypeError)):
        t.Tensor._make_wrapper_subclass(Plain, (2,))
    with pytest.raises(TypeError):
        t.Tensor._make_wrapper_subclass(int, (2,))


@LIBS
def test_no_answer_is_a_type_error(t):
    class Refuses(t.Tensor):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            return NotImplemented

    x = t.Tensor._make_wrapper_subclass(Refuses, (2,))
    with pytest.raises(TypeError, match="Multiple dispatch failed"):
        t.add(x, 1)


def test_a_call_that_needs_a_gradient_raises():
    x = scaled(facade, False)(facade.tensor([1, 2]), 0.5)
    w = facade.ones(2, requires_grad=True)
    with pytest.raises(NotImplementedError, match="Scaled, which defines __torch_dispatch__, have no gradients"):
        facade.mul(x, w)
    with facade.no_grad():
        assert facade.mul(x, w).tolist() == [0.5, 1.0]
    assert facade.mul(x, w.detach()).tolist() == [0.5, 1.0]
