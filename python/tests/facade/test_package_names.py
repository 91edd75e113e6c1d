"""Names that packages for PyTorch use: operators of their own, trees, futures, counters."""

from __future__ import annotations

import inspect
import threading
from collections import OrderedDict, namedtuple

import pytest
import torch

import torchlette
import torchlette.torch as facade


def test_a_library_defines_operators_and_functions_compute_them():
    library = facade.library.Library("test_names", "DEF")
    assert library.define("scale(Tensor x, float k) -> Tensor") == "scale"
    x = facade.tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(NotImplementedError, match="Could not run 'test_names::scale'"):
        facade.ops.test_names.scale(x, 2.0)
    library.impl("scale", lambda x, k: x / 0, "Meta")
    library.impl("scale", lambda x, k: x * k, "CPU")
    y = facade.ops.test_names.scale(x, k=3.0)
    y.sum().backward()
    assert y.tolist() == [3.0, 6.0] and x.grad.tolist() == [3.0, 3.0]
    facade.library.register_autograd("test_names::scale", lambda ctx, g: (g * 10, None))
    x.grad = None
    facade.ops.test_names.scale.default(x, 3.0).sum().backward()
    assert x.grad.tolist() == [10.0, 10.0]
    with pytest.raises(RuntimeError, match="IMPL library"):
        facade.library.Library("test_names", "IMPL").define("f() -> Tensor")
    with pytest.raises(ValueError, match="Unsupported kind"):
        facade.library.Library("test_names", "OTHER")


def test_decorators_register_functions():
    facade.library.define("test_names::plus", "(Tensor x) -> Tensor")

    @facade.library.impl("test_names::plus", "cpu")
    def plus(x):
        return x + 1

    @facade.library.impl(facade.library.Library("test_names", "FRAGMENT"), "plus", "AutogradCPU")
    def unused(x):
        raise AssertionError

    assert facade.ops.test_names.plus(facade.ones(1)).tolist() == [2.0]
    with pytest.raises(OSError, match="cannot be loaded"):
        facade.ops.load_library("/nowhere/library.so")


def greedy(boxes, scores, threshold):
    """Return what torchvision's nms keeps, box by box."""
    kept = []
    for i in scores.argsort(descending=True, stable=True).tolist():
        area = lambda b: (b[2] - b[0]) * (b[3] - b[1])  # noqa: E731
        for j in kept:
            a, b = boxes[i], boxes[j]
            w = (torch.minimum(a[2], b[2]) - torch.maximum(a[0], b[0])).clamp(min=0)
            h = (torch.minimum(a[3], b[3]) - torch.maximum(a[1], b[1])).clamp(min=0)
            if w * h / (area(a) + area(b) - w * h) > threshold:
                break
        else:
            kept.append(i)
    return kept


def test_nms_is_greedy(device):
    from torchlette._compat.torchvision_ops import nms

    generator = torch.Generator().manual_seed(0)
    for n in (0, 1, 40):
        corners = torch.rand(n, 2, generator=generator)
        boxes = torch.cat([corners, corners + torch.rand(n, 2, generator=generator)], 1)
        scores = torch.rand(n, generator=generator)
        ours = nms(
            torchlette.tensor(boxes.numpy(), device=device), torchlette.tensor(scores.numpy(), device=device), 0.3
        )
        assert ours.tolist() == greedy(boxes, scores, 0.3)
    with pytest.raises(RuntimeError, match="same number"):
        nms(torchlette.ones(2, 4), torchlette.ones(3), 0.5)
    with pytest.raises(RuntimeError, match="4 columns"):
        nms(torchlette.ones(2, 3), torchlette.ones(2), 0.5)


def test_supported_nodes_take_containers_apart_and_build_them():
    point = namedtuple("point", "x y")
    for value in ([1, 2], (1, 2), {"a": 1}, OrderedDict(b=2), point(1, 2)):
        found = []
        for tree in (torch.utils._pytree, facade.utils._pytree):
            definition = tree.SUPPORTED_NODES[tree._get_node_type(value)]
            children, context = definition.flatten_fn(value)
            assert definition.unflatten_fn(children, context) == value
            found.append(list(children))
        assert found[0] == found[1]
    tree = facade.utils._pytree
    spec = tree.TreeSpec(namedtuple, point, [tree.LeafSpec(), tree.LeafSpec()])
    assert tree.tree_unflatten([3, 4], spec) == point(3, 4)


@pytest.mark.parametrize("t", [torch, facade])
def test_futures_give_results_of_other_threads(t):
    first, second = t.futures.Future(), t.futures.Future()
    later = first.then(lambda f: f.value() + 1)
    both = t.futures.collect_all([first, second])
    thread = threading.Thread(target=lambda: (first.set_result(1), second.set_result(5)))
    thread.start()
    assert later.wait() == 2 and [f.value() for f in both.wait()] == [1, 5]
    assert t.futures.wait_all([first, second]) == [1, 5]
    thread.join()
    with pytest.raises(ZeroDivisionError):
        first.then(lambda f: 1 // 0).wait() if t is facade else 1 // 0


def test_operations_are_counted_as_in_pytorch():
    def count(t):
        from importlib import import_module

        net = t.nn.Sequential(t.nn.Conv2d(3, 4, 3), t.nn.ConvTranspose2d(4, 2, 2), t.nn.Flatten(), t.nn.Linear(98, 5))
        mode = import_module(f"{t.__name__}.utils.flop_counter").FlopCounterMode(display=False)
        with mode:
            net(t.ones(2, 3, 8, 8))
            t.ones(2, 3) @ t.ones(3, 4)
            t.addmm(t.ones(4), t.ones(2, 3), t.ones(3, 4))
            t.bmm(t.ones(2, 2, 3), t.ones(2, 3, 4))
            t.nn.functional.scaled_dot_product_attention(*(t.ones(1, 2, 3, 4) for _ in range(3)))
        return mode.get_total_flops()

    assert count(facade) == count(torch)


def test_texts_of_tensors_are_put_together():
    for make in (lambda t: t.arange(6.0).reshape(2, 3), lambda t: t.ones(30)):
        theirs, ours = (m._tensor_str._tensor_str(make(m), 7) for m in (torch, facade))
        assert ours == theirs
    found = [t._tensor_str._add_suffixes("x([1, 2]", ["a=1", "b=" + "2" * 70], 2, False) for t in (torch, facade)]
    assert found[0] == found[1]


def test_models_that_could_be_quantized_run_in_floats():
    stub = facade.ao.quantization.QuantStub()
    assert facade.ao.quantization.DeQuantStub()(stub(facade.ones(1))).tolist() == [1.0]
    with pytest.raises(NotImplementedError, match="no quantized dtypes"):
        facade.ao.quantization.prepare(stub)


def test_files_are_read_by_records(tmp_path):
    facade.save([facade.ones(2)], tmp_path / "x.pt")
    for t in (torch, facade):
        reader = (
            t._C.PyTorchFileReader(str(tmp_path / "x.pt")) if t is torch else t.PyTorchFileReader(tmp_path / "x.pt")
        )
        assert reader.has_record("data/0") and not reader.has_record("data/1")
        assert reader.get_record("data/0") == b"\0\0\x80?" * 2


def test_a_module_has_the_signature_of_a_call():
    for t in (torch, facade):
        assert str(inspect.signature(t.nn.Sequential(t.nn.ReLU()))) == "(*args, **kwargs)"
        assert next(iter(inspect.signature(t.nn.Linear).parameters)) == "in_features"


def test_results_of_one_device_are_gathered_as_in_pytorch():
    from torchlette.torch.nn.parallel.scatter_gather import gather, scatter_kwargs

    assert scatter_kwargs((1, 2), {"k": 3}, [0]) == (((1, 2),), ({"k": 3},))
    joined = gather([{"a": [facade.ones(2)], "b": None}, {"a": [facade.zeros(1)], "b": None}], "cpu")
    assert joined["a"][0].tolist() == [1.0, 1.0, 0.0] and joined["b"] is None


def test_names_of_what_there_is_not_are_there():
    from torchlette.torch._subclasses.fake_tensor import FakeTensorMode, is_fake
    from torchlette.torch.distributed import nn as collectives
    from torchlette.torch.distributed.optim import ZeroRedundancyOptimizer
    from torchlette.torch.functional import einsum
    from torchlette.torch.fx.experimental.proxy_tensor import get_proxy_mode
    from torchlette.torch.fx.experimental.symbolic_shapes import free_symbols, guard_or_false, sym_eq

    from torchlette.torch.serialization import DEFAULT_PROTOCOL, MAP_LOCATION

    assert not is_fake(facade.ones(1)) and get_proxy_mode() is None and free_symbols(3) == set()
    assert guard_or_false(1 < 2) and sym_eq((2, 3), (2, 3)) and DEFAULT_PROTOCOL == 2 and MAP_LOCATION
    assert einsum is facade.einsum and not isinstance(3, (facade.SymInt, facade.SymFloat, facade.SymBool))
    with pytest.raises(NotImplementedError, match="meta"):
        FakeTensorMode()
    with pytest.raises(ValueError, match="is_initialized"):
        collectives.all_reduce(facade.ones(1))
    with pytest.raises(NotImplementedError, match="use SGD itself"):
        ZeroRedundancyOptimizer([facade.ones(1)], facade.optim.SGD)


def test_numpy_of_a_tensor_with_a_gradient_needs_no_grad():
    for t in (torch, facade):
        x = t.ones(2, requires_grad=True)
        with pytest.raises(RuntimeError, match="requires grad"):
            x.numpy()
        with t.no_grad():
            assert x.numpy().tolist() == [1.0, 1.0]
        with t.autograd.graph.saved_tensors_hooks(lambda a: a.numpy(), lambda a, t=t: t.from_numpy(a.copy())):
            (x * x).sum().backward()
        assert x.grad.tolist() == [2.0, 2.0]
