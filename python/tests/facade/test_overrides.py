"""__torch_function__: subclasses, objects that are no tensors, and modes answer calls as in PyTorch."""

from __future__ import annotations

import threading

import pytest
import torch

import torchlette
import torchlette.torch as facade

LIBS = [torch, facade]


def both(f):
    """Return what a function of a library returns for both."""
    return f(torch), f(facade)


def test_results_of_a_subclass_are_of_the_subclass():
    def names(t):
        class Sub(t.Tensor):
            pass

        x = t.ones(2, 3).as_subclass(Sub)
        y = t.ones(2, 3)
        results = [
            x + 1,
            1 - x,
            y * x,
            x @ y.T,
            x[0],
            x.sum(),
            t.cat([y, x]),
            x.view(3, 2),
            x.to(t.float64),
            x.max(1).values,
            x.split(1)[0],
            -x,
            x.T,
            x.data,
            x == 1,
            t.nn.functional.relu(x),
            t.nn.functional.cross_entropy(x, t.zeros(2, dtype=t.long)),
            x.clone().add_(1),
            t.zeros_like(x),
            y,
            t.nn.Parameter(y) + 1,
        ]
        return [type(r).__name__ for r in results]

    theirs, ours = both(names)
    assert ours == theirs


def test_a_subclass_keeps_the_history():
    class Sub(facade.Tensor):
        pass

    leaf = facade.ones(3, requires_grad=True)
    x = (leaf * 2).as_subclass(Sub)
    (x * x).sum().backward()
    assert leaf.grad.tolist() == [8.0] * 3 and x.requires_grad and not x.is_leaf
    assert facade.add(leaf, 1, out=None).requires_grad


def calls_of(t):
    """Return what a subclass hears of calls."""
    heard = []

    class Sub(t.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            heard.append((func, [k.__name__ for k in types], len(args), sorted(kwargs or {})))
            return super().__torch_function__(func, types, args, kwargs)

    x, y = t.ones(2, 3).as_subclass(Sub), t.ones(2, 3)
    wanted = [
        (lambda: t.add(x, y, alpha=2), t.add),
        (lambda: x + y, t.Tensor.add),
        (lambda: y + x, t.Tensor.add),
        (lambda: x.mul(y), t.Tensor.mul),
        (lambda: x.add_(1), t.Tensor.add_),
        (lambda: t.stack([y, x]), t.stack),
        (lambda: t.sum(x, dim=1), t.sum),
        (lambda: x.reshape(-1), t.Tensor.reshape),
        (lambda: x.view(6), t.Tensor.view),
        (lambda: x[0, 1], t.Tensor.__getitem__),
        (lambda: x.__setitem__(0, 1), t.Tensor.__setitem__),
        (lambda: x.T, t.Tensor.T.__get__),
        (lambda: x.to(t.float64), t.Tensor.to),
        (lambda: t.nn.functional.gelu(x), t.nn.functional.gelu),
        (lambda: t.linalg.norm(x), t.linalg.norm),
        (lambda: 1 - x, t.Tensor.__rsub__),
    ]
    found = []
    for call, func in wanted:
        del heard[:]
        call()
        found.append((heard[-1][0] == func, *heard[-1][1:]))
    return found


def test_a_subclass_hears_of_the_function_its_classes_and_arguments():
    theirs, ours = both(calls_of)
    assert [f[0] for f in ours] == [True] * len(ours)
    assert ours == theirs


@pytest.mark.parametrize("t", LIBS)
def test_objects_that_are_no_tensors_answer(t):
    handled = {}

    class Scalar:
        def __init__(self, n):
            self.n = n

        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            if func not in handled:
                return NotImplemented
            return handled[func](*args, **(kwargs or {}))

    handled[t.mean] = lambda x: x.n
    handled[t.add] = handled[t.Tensor.add] = lambda x, y: ("sum", type(x) is t.Tensor)
    assert t.mean(Scalar(5)) == 5
    assert t.add(t.ones(2), Scalar(1)) == ("sum", True)
    assert t.ones(2) + Scalar(1) == ("sum", True)
    with pytest.raises(TypeError, match="Multiple dispatch failed for 'torch.mul'; all __torch_function__"):
        t.mul(Scalar(1), t.ones(2))
    with pytest.raises(TypeError):
        t.mean("text")
    assert t.overrides.is_tensor_like(Scalar(1)) and not t.overrides.is_tensor_like(3)


@pytest.mark.parametrize("t", LIBS)
def test_subclasses_are_asked_before_their_bases(t):
    asked = []

    class Base(t.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            asked.append(cls.__name__)
            return NotImplemented

    class Derived(Base):
        pass

    class Other(Base):
        pass

    a, b, c = (t.ones(1).as_subclass(k) for k in (Base, Derived, Other))
    with pytest.raises(TypeError, match="Multiple dispatch failed"):
        t.cat([a, b, c, a])
    assert asked == ["Derived", "Other", "Base"]


@pytest.mark.parametrize("t", LIBS)
def test_modes_answer_all_calls_innermost_first(t):
    heard = []

    class Mode(t.overrides.TorchFunctionMode):
        def __init__(self, name):
            self.name = name

        def __torch_function__(self, func, types, args=(), kwargs=None):
            heard.append((self.name, func))
            return func(*args, **(kwargs or {}))

    x = t.ones(2)
    with Mode("outer"), Mode("inner"):
        made = t.add(x, 1)
    assert heard == [("inner", t.add), ("outer", t.add)] and made.tolist() == [2.0, 2.0]
    del heard[:]
    with Mode("outer"):
        with t._C.DisableTorchFunction():
            x + 1
        assert heard == []
        thread = threading.Thread(target=lambda: x + 1)
        thread.start()
        thread.join()
        assert heard == []
        with t._C.DisableTorchFunctionSubclass():
            x + 1
        assert heard == [("outer", t.Tensor.add)]
    with pytest.raises(ZeroDivisionError), Mode("outer"):
        1 / 0  # noqa: B018
    t.add(x, 1)
    assert len(heard) == 1


@pytest.mark.parametrize("t", LIBS)
def test_functions_of_programs_ask_too(t):
    def scale(x, k):
        if t.overrides.has_torch_function((x,)):
            return t.overrides.handle_torch_function(scale, (x,), x, k)
        return x * k

    class Sub(t.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return "answered" if func is scale else super().__torch_function__(func, types, args, kwargs)

    @t.overrides.wrap_torch_function(lambda x: (x,))
    def wrapped(x):
        return 1

    x = t.ones(2).as_subclass(Sub)
    assert scale(x, 2) == "answered" and scale(t.ones(2), 2).tolist() == [2.0, 2.0]
    assert t.overrides.has_torch_function_unary(x) and not t.overrides.has_torch_function_variadic(t.ones(1), 3)
    with t._C.DisableTorchFunctionSubclass():
        assert not t.overrides.has_torch_function_unary(x)
    assert wrapped(t.ones(1)) == 1


@pytest.mark.parametrize("t", LIBS)
def test_parameters_leave_calls_alone(t):
    assert t.nn.Parameter.__torch_function__ is t._C._disabled_torch_function_impl
    assert t._C._disabled_torch_function_impl(t.add, (), (t.ones(1), 2)).tolist() == [3.0]

    class Weight(t.nn.Parameter):
        pass

    assert type(Weight(t.ones(1)) + 1) is t.Tensor


def test_names_resolve_as_in_pytorch():
    for path in ("add", "Tensor.add", "Tensor.__add__", "nn.functional.gelu", "linalg.inv", "Tensor.T.__get__"):
        found = []
        for t in LIBS:
            f = t
            for part in path.split("."):
                f = getattr(f, part)
            found.append(t.overrides.resolve_name(f))
        assert found[0] == found[1] or path == "Tensor.__add__", found
    functions = facade.overrides.get_overridable_functions()
    assert facade.add in functions[facade] and facade.Tensor.add in functions[facade.Tensor]
    assert facade.ones in facade.overrides.get_ignored_functions()
    assert facade.overrides.is_tensor_method_or_property(facade.Tensor.add)
    assert facade.overrides.get_testing_overrides()[facade.add](1, 2) == -1


def test_calls_look_for_classes_only_when_there_is_one():
    """Importing the library, modules and a training step make no class that answers."""
    import subprocess
    import sys

    script = (
        "import sys, torchlette.torch as torch\n"
        "net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.LazyLinear(2))\n"
        "o = torch.optim.SGD(net.parameters())\n"
        "net(torch.ones(1, 2)).sum().backward(); o.step()\n"
        "assert 'torchlette.overrides' not in sys.modules\n"
        "class Sub(torch.Tensor): pass\n"
        "assert 'torchlette.overrides' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def test_a_class_that_answered_is_not_kept_alive():
    import gc
    import weakref

    class Sub(facade.Tensor):
        pass

    facade.ones(1).as_subclass(Sub) + 1
    alive = weakref.ref(Sub)
    del Sub
    gc.collect()
    assert alive() is None


def test_torchlette_functions_are_heard_by_their_own_names():
    heard = []

    class Sub(torchlette.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            heard.append(func)
            return super().__torch_function__(func, types, args, kwargs)

    assert type(torchlette.add(torchlette.ones(1).as_subclass(Sub), 1)) is Sub
    assert heard == [torchlette.add]


@pytest.mark.parametrize("t", LIBS)
def test_functions_that_are_written_in_python_ask_too(t):
    class Names(t.overrides.TorchFunctionMode):
        def __init__(self):
            super().__init__()
            self.heard = []

        def __torch_function__(self, func, types, args=(), kwargs=None):
            self.heard.append(func.__name__)
            return func(*args, **(kwargs or {}))

    a, f = t.ones(1, 2, 4), t.nn.functional
    with Names() as names:
        f.max_pool1d(f.relu(a), 2)
        t.einsum("bij,bij->b", [a, a])
        t.tensordot(a, a, 3)
        f.softmax(a, 1)
    assert [name for name in names.heard if name != "einsum"] == ["relu", "max_pool1d", "tensordot", "softmax"]
    assert "einsum" in names.heard


def test_a_proxy_outside_of_a_trace_answers_functions_written_in_python():
    for t in LIBS:
        graph = t.fx.Graph()
        x = t.fx.Proxy(graph.placeholder("x"))
        graph.output(t.nn.functional.silu(t.einsum("ij,kj->ik", x, x)).node)
        module = t.fx.GraphModule(t.nn.Module(), graph)
        assert [node.name for node in graph.nodes] == ["x", "einsum", "silu", "output"]
        assert module(t.ones(2, 2)).shape == (2, 2)


def test_a_tensor_of_pytorch_is_refused_and_not_asked():
    class Sub(facade.Tensor):
        pass

    for theirs in (torch.ones(2), torch.nn.Parameter(torch.ones(2))):
        with pytest.raises(TypeError):
            facade.add(facade.ones(2).as_subclass(Sub), theirs)
        with pytest.raises(TypeError):
            facade.nn.functional.relu(theirs)
