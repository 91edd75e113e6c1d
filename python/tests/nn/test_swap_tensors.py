"""torch.utils.swap_tensors, and modules that swap their parameters, beside PyTorch."""

import gc
import weakref
from contextlib import contextmanager

import pytest
import torch

import torchlette.torch as tl

BOTH = pytest.mark.parametrize("lib", [torch, tl])


@contextmanager
def swapping(lib):
    lib.__future__.set_swap_module_params_on_conversion(True)
    try:
        yield
    finally:
        lib.__future__.set_swap_module_params_on_conversion(False)


@BOTH
def test_everything_is_swapped_but_identity(lib):
    a = lib.nn.Parameter(lib.arange(6.0).reshape(1, 1, 1, 2, 3))
    b = lib.tensor([1, 2], dtype=lib.int64)
    a.note, b.other = "a", "b"
    (a * 2).sum().backward()
    lib.utils.swap_tensors(a, b)
    assert (type(a), type(b)) == (lib.Tensor, lib.nn.Parameter)
    assert (a.tolist(), b.shape, b.sum().item()) == ([1, 2], (1, 1, 1, 2, 3), 15)
    assert (a.dtype, b.dtype, a.requires_grad, b.requires_grad) == (lib.int64, lib.float32, False, True)
    assert (b.note, a.other, hasattr(a, "note")) == ("a", "b", False)
    assert a.grad is None
    assert b.grad.sum().item() == 12


@BOTH
def test_hooks_and_gradients_go_with_the_values(lib):
    a, b = lib.ones(2, requires_grad=True), lib.zeros(3, requires_grad=True)
    seen = []
    handle = a.register_hook(lambda g: seen.append(g.tolist()))
    lib.utils.swap_tensors(a, b)
    (a.sum() * 3).backward()
    assert seen == []
    (b.sum() * 5).backward()
    assert (seen, a.grad.tolist(), b.grad.tolist()) == ([[5, 5]], [3, 3, 3], [5, 5])
    handle.remove()
    b.sum().backward()
    assert len(seen) == 1
    del a, b
    gc.collect()


@BOTH
def test_a_swapped_tensor_is_as_long_lived_as_its_object(lib):
    for _ in range(3):
        a, b = lib.nn.Parameter(lib.ones(2)), lib.zeros(2)
        a.own, b.own = a, b
        lib.utils.swap_tensors(a, b)
        gone = weakref.ref(a), weakref.ref(b)
        del a, b
        gc.collect()
        assert [r() for r in gone] == [None, None]
    assert [(lib.ones(2) + i).tolist() for i in range(3)] == [[1, 1], [2, 2], [3, 3]]


@BOTH
def test_what_cannot_be_swapped(lib):
    a, b = lib.ones(2), lib.zeros(2)
    watch = weakref.ref(b)
    with pytest.raises(RuntimeError, match="Cannot swap t2 because it has weakref"):
        lib.utils.swap_tensors(a, b)
    with pytest.raises(RuntimeError, match="Cannot swap t1 because it has weakref"):
        lib.utils.swap_tensors(b, a)
    assert watch() is b

    class Slotted(lib.Tensor):
        __slots__ = ("place",)

    with pytest.raises(RuntimeError, match="different slots"):
        lib.utils.swap_tensors(a, lib.Tensor._make_subclass(Slotted, a))
    assert a.tolist() == [1, 1]


@BOTH
def test_slots_are_swapped(lib):
    class Slotted(lib.Tensor):
        __slots__ = ("left", "right")

    a, b = (lib.Tensor._make_subclass(Slotted, t) for t in (lib.ones(2), lib.zeros(2)))
    a.left, a.right, b.left = 1, 2, 3
    lib.utils.swap_tensors(a, b)
    assert (a.left, hasattr(a, "right"), b.left, b.right) == (3, False, 1, 2)


@BOTH
def test_backward_through_a_swapped_leaf_raises(lib):
    a, b = lib.ones(2, requires_grad=True), lib.zeros(2)
    total = (a * 2).sum()
    lib.utils.swap_tensors(a, b)
    with pytest.raises(RuntimeError, match="poisoned by swap_tensors"):
        total.backward()
    c, d = lib.ones(2, requires_grad=True), lib.zeros(2)
    total = (c * 2).sum()
    total.backward()
    lib.utils.swap_tensors(c, d)
    del total
    assert d.grad.tolist() == [2, 2]


@BOTH
@pytest.mark.parametrize("with_grad", [True, False])
def test_conversion_swaps_parameters(lib, with_grad):
    net = lib.nn.Linear(2, 3)
    if with_grad:
        net(lib.ones(1, 2)).sum().backward()
    weight, bias, grad, before = net.weight, net.bias, net.weight.grad, net.weight.tolist()
    weight.mark = 1
    bias.requires_grad_(False)
    with swapping(lib):
        net.double()
    assert (net.weight is weight, net.bias is bias) == (True, True)
    assert (type(weight), weight.dtype, weight.tolist()) == (lib.nn.Parameter, lib.float64, before)
    assert (weight.requires_grad, bias.requires_grad, hasattr(weight, "mark")) == (True, False, False)
    assert (weight.grad is grad) is True
    assert not with_grad or (grad.dtype, grad.tolist()) == (lib.float64, [[1, 1]] * 3)
    net(lib.ones(1, 2, dtype=lib.float64)).sum().backward()
    assert weight.grad.tolist() == [[1 + with_grad] * 2] * 3


@BOTH
def test_conversion_names_the_parameter_that_cannot_be_swapped(lib):
    net = lib.nn.Linear(2, 3)
    watch = weakref.ref(net.weight)
    with swapping(lib), pytest.raises(RuntimeError, match="Couldn't swap Linear.weight"):
        net.double()
    assert watch() is net.weight
    with swapping(lib), pytest.raises(RuntimeError, match="While swapping the parameter named"):
        net.load_state_dict(net.state_dict())


@BOTH
@pytest.mark.parametrize("assign", [True, False])
def test_loading_swaps(lib, assign):
    net, other = lib.nn.BatchNorm1d(2), lib.nn.BatchNorm1d(2).double()
    other.weight.data.fill_(3)
    other.running_mean.fill_(4)
    kept = net.weight, net.running_mean
    with swapping(lib):
        net.load_state_dict(other.state_dict(), assign=assign)
    assert kept[0] is net.weight
    assert kept[1] is net.running_mean
    assert net.weight.dtype == net.running_mean.dtype == (lib.float64 if assign else lib.float32)
    assert (net.weight.tolist(), net.running_mean.tolist()) == ([3, 3], [4, 4])
    assert (type(net.weight), net.weight.requires_grad) == (lib.nn.Parameter, True)


@BOTH
def test_module_load_says_what_is_loaded(lib):
    class Doubling(lib.nn.Parameter):
        def module_load(self, other, assign=False):
            return other if assign else lib.nn.Parameter(other * 2)

    net = lib.nn.Module()
    net.weight = Doubling(lib.ones(2), requires_grad=False)
    value = lib.ones(2)
    with swapping(lib):
        with pytest.raises(RuntimeError, match="module_load returned one of self or other"):
            net.load_state_dict({"weight": value}, assign=True)
        net.load_state_dict({"weight": value})
    assert (net.weight.tolist(), net.weight.requires_grad, type(net.weight)) == ([2, 2], False, lib.nn.Parameter)


@BOTH
def test_module_load_of_tensors(lib):
    a, b = lib.zeros(2), lib.ones(2, dtype=lib.float64)
    assert a.module_load(b).dtype == lib.float32
    assert a.module_load(b, assign=True).dtype == lib.float64
    assert a.tolist() == [1, 1]


@BOTH
def test_loading_into_a_meta_parameter_warns(lib):
    net = lib.nn.Linear(2, 2, device="meta")
    with swapping(lib), pytest.warns(UserWarning, match="which is a no-op"):
        net.load_state_dict(lib.nn.Linear(2, 2).state_dict())
    assert net.weight.is_meta
