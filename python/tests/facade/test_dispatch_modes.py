"""torch.utils._python_dispatch: modes see operators of torch.ops.aten, as in PyTorch; helpers of wrapper subclasses."""

from __future__ import annotations

from importlib import import_module

import pytest
import torch

import torchlette.torch as facade

LIBS = pytest.mark.parametrize("t", [torch, facade], ids=["torch", "ours"])


def names(t):
    return import_module(f"{t.__name__}.utils._python_dispatch")


def logging(t):
    """Return a class of modes that note the operators they see, and compute them."""

    class Log(names(t).TorchDispatchMode):
        def __init__(self):
            super().__init__()
            self.calls = []

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            self.calls.append((str(func), [tuple(a.shape) for a in args if isinstance(a, t.Tensor)]))
            return func(*args, **(kwargs or {}))

    return Log


PROGRAMS = {
    "arithmetic": lambda t, x: (1 + x * 2 - x / 3, x.clone().add_(1), x.clone().__iadd__(1)),
    "products": lambda t, x: (x @ x.t(), t.mv(x, x[0]), t.bmm(x[None], x.t()[None])),
    "linear": lambda t, x: t.nn.functional.relu(t.nn.functional.linear(x, t.ones(4, 3), t.ones(4))),
    "convolution": lambda t, x: t.nn.functional.conv2d(t.ones(1, 1, 2, 2), t.ones(1, 1, 1, 1)),
    "softmax": lambda t, x: t.softmax(x, 1).view(6).sum(),
    "none": lambda t, x: (x.shape, x.dim(), x.requires_grad),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_mode_sees_pytorchs_operators(name):
    seen = []
    for t in (torch, facade):
        x = t.ones(2, 3)
        with logging(t)() as log:
            PROGRAMS[name](t, x)
        seen.append([call for call in log.calls if "select" not in call[0] and "index" not in call[0]])
        seen[-1] = [c for c in seen[-1] if "unsqueeze" not in c[0]]
    assert seen[1] == seen[0] and (seen[0] or name == "none")


@LIBS
def test_functions_of_rows_are_seen_with_the_arguments_of_their_parts(t):
    class Flops(names(t).TorchDispatchMode):
        total = 0

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            out = func(*args, **(kwargs or {}))
            if func == t.ops.aten.addmm.default:
                self.total += 2 * args[1].shape[1] * out.numel()
            if func == t.ops.aten.bmm.default or func == t.ops.aten.mm.default:
                self.total += 2 * args[0].shape[-1] * out.numel()
            return out

    x = t.ones(2, 5, 3)
    with Flops() as flops:
        y = t.nn.functional.linear(x, t.ones(4, 3), t.ones(4))
        z = t.matmul(x, x.transpose(1, 2)), t.matmul(x, t.ones(3, 2)), t.ones(2, 3) @ x.transpose(1, 2)
    assert y.tolist() == t.full((2, 5, 4), 4.0).tolist() and [tuple(v.shape) for v in z] == [
        (2, 5, 5),
        (2, 5, 2),
        (2, 2, 5),
    ]
    assert all((v == 3).all() for v in z)
    assert flops.total == 2 * 3 * (40 + 50 + 20 + 20)


@LIBS
def test_modes_nest_and_replace_results(t):
    class Zero(names(t).TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            if func == t.ops.aten.add.Tensor:
                return t.zeros(()) * 1
            return func(*args, **(kwargs or {}))

    with logging(t)() as outer:
        with Zero(), logging(t)() as inner:
            assert (t.ones(()) + 1).item() == 0
        after = t.ones(()) + 1
    assert after.item() == 2
    assert [c for c, _ in inner.calls][:2] == ["aten.ones.default", "aten.add.Tensor"]
    assert [c for c, _ in outer.calls if "scalar" not in c and "item" not in c] == [
        *["aten.ones.default", "aten.zeros.default", "aten.mul.Tensor"],
        *["aten.ones.default", "aten.add.Tensor"],
    ]


@LIBS
def test_a_block_without_modes(t):
    module = names(t)
    with logging(t)() as log:
        assert module._get_current_dispatch_mode() is log and module.is_in_torch_dispatch_mode()
        with module._disable_current_modes() as off:
            t.ones(1)
            assert module._get_current_dispatch_mode() is None
        assert list(off) == [log] and log.calls == []
        with pytest.raises(RuntimeError):
            t.ones(2).view(3)
        t.ones(1)
    assert [c for c, _ in log.calls] == ["aten.ones.default", "aten.view.default", "aten.ones.default"]
    assert not module.is_in_torch_dispatch_mode()


@LIBS
def test_gradients_flow_under_a_mode(t):
    x = t.ones(2, requires_grad=True)
    with logging(t)():
        (x * 3).sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]


@LIBS
def test_wrappers_are_taken_apart_and_put_together(t):
    module = names(t)

    class Pair(t.Tensor):
        @staticmethod
        def __new__(cls, a, b):
            return t.Tensor._make_wrapper_subclass(cls, a.shape, dtype=a.dtype)

        def __init__(self, a, b):
            self.a, self.b = a, b

        def __tensor_flatten__(self):
            return ["a", "b"], None

        @staticmethod
        def __tensor_unflatten__(inner, context, size, stride):
            return Pair(inner["a"], inner["b"])

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            out = func(*[a.a if isinstance(a, cls) else a for a in args])
            return module.return_and_correct_aliasing(func, args, kwargs, cls(out, out))

    pair = Pair(t.ones(2), t.zeros(2))
    assert module.is_traceable_wrapper_subclass(pair) and not module.is_traceable_wrapper_subclass(t.ones(1))
    seen = []
    doubled = module.transform_subclass(pair, lambda name, x: (seen.append(name), x + 2)[1])
    assert seen == ["a", "b"] and doubled.a.tolist() == [3.0, 3.0] and doubled.b.tolist() == [2.0, 2.0]
    with pytest.raises(AssertionError, match="shape equal to"):
        module.transform_subclass(pair, lambda name, x: x, (3,), (1,))
    assert pair.add_(1) is pair and (pair + 1) is not pair and type(pair + 1) is Pair
