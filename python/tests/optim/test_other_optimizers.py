"""Optimizers of other packages: the names that they take from the base class's module, hooks, schedules."""

from __future__ import annotations

import re
import sys
import types
import warnings
from importlib import import_module, util
from pathlib import Path

import pytest
import torch

import torchlette.torch as facade

#: PyTorch's own file of optimizers -> its class and options beside a rate.
SOURCES = {
    "adam": ("Adam", {"weight_decay": 0.1, "amsgrad": True}),
    "adadelta": ("Adadelta", {}),
    "adagrad": ("Adagrad", {"lr_decay": 0.1}),
    "adamax": ("Adamax", {}),
    "asgd": ("ASGD", {}),
    "lbfgs": ("LBFGS", {"max_iter": 3}),
    "nadam": ("NAdam", {}),
    "radam": ("RAdam", {}),
    "rmsprop": ("RMSprop", {"momentum": 0.5, "centered": True}),
    "rprop": ("Rprop", {}),
    "sgd": ("SGD", {"momentum": 0.9, "nesterov": True, "maximize": True}),
}


def of_pytorch(name):
    """Return the module of PyTorch's own file with ``torch`` answered by this library."""
    spec = util.find_spec(f"torch.optim.{name}")
    text = Path(spec.origin).read_text()
    text = re.sub(r"^(\s*)from torch(?=[. ])", r"\1from torchlette.torch", text, flags=re.M)
    text = re.sub(r"^(\s*)import torch$", r"\1import torchlette.torch as torch", text, flags=re.M)
    module = types.ModuleType(f"another_package_{name}")
    module.__package__ = "torchlette.torch.optim"
    sys.modules[module.__name__] = module
    exec(compile(text, spec.origin, "exec"), module.__dict__)
    return module


def trajectory(t, kind, options, start):
    p, q = (t.nn.Parameter(t.tensor(v)) for v in start)
    optimizer = kind([p, q], lr=0.1, **options)

    def closure():
        optimizer.zero_grad()
        loss = ((p - 1) ** 2).sum() * (q**2).sum()
        loss.backward()
        return loss

    for _ in range(3):
        if kind.__name__ == "LBFGS":
            optimizer.step(closure)
        else:
            closure()
            optimizer.step()
    return [p.tolist(), q.tolist()]


@pytest.mark.parametrize("foreach", [False, True])
@pytest.mark.parametrize("name", SOURCES)
def test_the_files_of_pytorch_are_such_a_package(name, foreach):
    kind, options = SOURCES[name]
    if name != "lbfgs":
        options = {**options, "foreach": foreach}
    start = [[0.5, -2.0, 3.0], [[1.5, 0.25]]]
    got = trajectory(facade, getattr(of_pytorch(name), kind), options, start)
    want = trajectory(torch, getattr(torch.optim, kind), options, start)
    for ours, theirs in zip(got, want, strict=True):
        torch.testing.assert_close(torch.tensor(ours), torch.tensor(theirs))


def helpers(t):
    """Return the module of the base class."""
    return import_module(f"{t.__name__}.optim.optimizer")


def descent(t):
    """Return an optimizer that a package wrote."""

    class Descent(t.optim.Optimizer):
        def __init__(self, params, lr=0.1, differentiable=False):
            super().__init__(params, {"lr": lr, "differentiable": differentiable})

        @helpers(t)._use_grad_for_differentiable
        def step(self, closure=None):
            """Go down."""
            for group in self.param_groups:
                for p in group["params"]:
                    p.add_(p.grad, alpha=-group["lr"])
            return t.is_grad_enabled()

    return Descent


@pytest.mark.parametrize("t", [torch, facade], ids=["torch", "ours"])
def test_hooks_run_around_the_step_of_a_package(t):
    kind, said = descent(t), []
    p = t.nn.Parameter(t.ones(1))
    p.grad = t.ones(1)
    optimizer = kind([p])
    optimizer.register_step_pre_hook(lambda o, args, kwargs: said.append((o is optimizer, len(args), kwargs)))
    optimizer.register_step_pre_hook(lambda o, args, kwargs: (args, {"closure": None}))
    optimizer.register_step_post_hook(lambda o, args, kwargs: said.append((p.tolist() < [1.0], args[0] is o, kwargs)))
    assert optimizer.step() is False
    assert said == [(True, 1, {}), (True, True, {"closure": None})]
    assert kind.step.__doc__ == "Go down."
    optimizer.register_step_pre_hook(lambda *_: 3)
    with pytest.raises(RuntimeError, match="must return None or a tuple"):
        optimizer.step()


def test_a_step_within_a_step_has_no_hooks_of_its_own():
    class Twice(facade.optim.SGD):
        def step(self, closure=None):
            super().step()
            return super().step(closure)

    p, said = facade.nn.Parameter(facade.ones(1)), []
    p.grad = facade.ones(1)
    optimizer = Twice([p], lr=0.25)
    optimizer.register_step_post_hook(lambda *_: said.append(p.item()))
    optimizer.step()
    optimizer.step()
    assert said == [0.5, 0.0]


@pytest.mark.parametrize("t", [torch, facade], ids=["torch", "ours"])
def test_a_schedule_knows_that_the_optimizer_of_a_package_has_stepped(t):
    p = t.nn.Parameter(t.ones(1))
    p.grad = t.ones(1)
    optimizer = descent(t)([p])
    schedule = t.optim.lr_scheduler.StepLR(optimizer, 1)
    optimizer.step()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        schedule.step()


def test_a_differentiable_step_is_recorded():
    p = facade.ones(1, requires_grad=True)
    q = p * 1
    q.grad = facade.ones(1)
    assert descent(facade)([q], differentiable=True).step() is True


def test_values_are_converted_as_in_pytorch():
    for t in (torch, facade):
        o = helpers(t)
        assert o._get_value(t.tensor(2.0)) == o._get_value(2.0) == 2.0
        assert o._to_scalar(t.tensor([2.0])).shape == () and o._to_scalar(2) == 2
        assert o._stack_if_compiling([1, 2]) == [1, 2]
        assert o._get_scalar_dtype() == t.float32 and o._get_scalar_dtype(True) == t.float32
        params, grads = [t.ones(2, dtype=t.complex64), t.ones(2)], [t.ones(2, dtype=t.complex64), t.ones(2)]
        o._view_as_real(params, grads)
        assert [x.shape for x in params + grads] == [(2, 2), (2,)] * 2
        assert o._default_to_fused_or_foreach([t.ones(1), None], False) == (False, False)
        with pytest.raises(RuntimeError, match="floating point Tensors of supported devices"):
            o._device_dtype_check_for_fused(t.ones(1, dtype=t.int64))
    assert o._dispatch_sqrt(4.0) == o._dispatch_sqrt(facade.tensor(4.0)) == 2
