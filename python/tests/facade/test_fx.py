"""torch.fx: traced modules compute what the module computes, and programs read and change their graphs."""

from __future__ import annotations

import copy
import importlib
import math
import operator
import pickle

import pytest
import torch
import torch.fx.passes.shape_prop as torch_shape_prop
from torchlette.torch.fx.passes import shape_prop

import torchlette.torch as facade
from torchlette.torch import fx

helper_calls = []


def helper(x, k):
    """A function whose calls become nodes."""
    helper_calls.append(k)
    return x * k


fx.wrap("helper")
torch.fx.wrap("helper")


def block(t):
    """Return a module of either library that uses every kind of node."""

    class Block(t.nn.Module):
        def __init__(self):
            super().__init__()
            self.lin = t.nn.Linear(4, 4)
            self.w = t.nn.Parameter(t.ones(4))
            self.register_buffer("b", t.full((4,), 2.0))
            self.seq = t.nn.Sequential(t.nn.Linear(4, 4), t.nn.ReLU())

        def forward(self, x, scale=2.0, *, shift=None):
            y = self.lin(x) + self.w * self.b
            a, c = y.chunk(2, -1)
            z = t.cat([a, c], dim=-1).view(x.shape[0], -1)
            z = t.nn.functional.interpolate(z[None], size=4)[0]
            z = t.nn.functional.relu(z).mean(dim=-1, keepdim=True) * scale
            z = helper(z, 3) / math.sqrt(x.size(1))
            return {"out": self.seq(x) + z, "more": [(1 - z) ** 2, -z], "T": x.T.to(t.float64)}

    return Block()


def test_graphs_are_pytorchs():
    found = []
    for t in (facade, torch):
        graph = t.fx.symbolic_trace(block(t)).graph
        rows = []
        for node in graph.nodes:
            target = node.target if isinstance(node.target, str) else node.target.__name__
            # PyTorch notes the defaults of functions of nn.functional too.
            kwargs = "" if target in ("interpolate", "relu") else str(node.kwargs)
            rows.append((node.op, target, str(node), str(node.args), kwargs, len(node.users)))
        found.append(rows)
    ours, theirs = ([row for row in rows if row[0] != "output"] for rows in found)
    assert ours == theirs


def same(a, b):
    assert facade.equal(a["out"], b["out"]) and facade.equal(a["more"][0], b["more"][0])
    assert facade.equal(a["T"], b["T"])


def test_a_traced_module_computes_the_same():
    net, x = block(facade), facade.rand(3, 4)
    traced = fx.symbolic_trace(net)
    traced.graph.lint()
    del helper_calls[:]
    want = net(x)
    same(want, traced(x))
    assert helper_calls == [3, 3], "a wrapped function runs when the graph runs"
    same(want, copy.deepcopy(traced)(x))
    same(want, fx.Interpreter(traced).run(x))
    same(want, fx.Transformer(traced).transform()(x))
    assert traced.state_dict().keys() == net.state_dict().keys()
    traced(x)["out"].sum().backward()
    assert net.lin.weight.grad is not None, "the traced module has the parameters themselves"


def test_a_traced_module_is_pickled_as_its_code():
    net = facade.nn.Sequential(facade.nn.Linear(2, 2), facade.nn.ReLU())
    traced = fx.symbolic_trace(lambda x: facade.relu(x) + math.floor(2.5))
    assert facade.equal(pickle.loads(pickle.dumps(traced))(facade.ones(2)), facade.full((2,), 3.0))
    again = pickle.loads(pickle.dumps(fx.symbolic_trace(net)))
    assert facade.equal(again(facade.ones(1, 2)), net(facade.ones(1, 2)))


def test_tracing_leaves_modules_and_functions_as_they_were():
    before = facade.nn.functional.interpolate, facade.nn.Module.__call__, math.sqrt, helper
    attributes = set(vars(facade.nn.Module))
    fx.symbolic_trace(block(facade))
    with pytest.raises(ValueError, match="control flow"):
        fx.symbolic_trace(lambda x: x if x.sum() > 0 else -x)
    with pytest.raises(ValueError, match="cannot be iterated"):
        fx.symbolic_trace(lambda x: [y for y in x])
    assert before == (facade.nn.functional.interpolate, facade.nn.Module.__call__, math.sqrt, helper)
    assert set(vars(facade.nn.Module)) == attributes


def test_graphs_are_changed_and_recompiled():
    traced = fx.symbolic_trace(lambda x, y: facade.relu(x + y).neg())
    add = next(n for n in traced.graph.nodes if n.target is operator.add)
    with traced.graph.inserting_after(add):
        product = traced.graph.call_function(operator.mul, add.args)
        unused = traced.graph.call_function(operator.sub, (product, 1))
    add.replace_all_uses_with(product)
    with pytest.raises(RuntimeError, match="users"):
        traced.graph.erase_node(product)
    traced.graph.erase_node(add)
    assert traced.graph.eliminate_dead_code() and unused not in list(traced.graph.nodes)
    traced.recompile()
    assert traced(facade.tensor([2.0]), facade.tensor([3.0])).tolist() == [-6.0]
    assert "mul = x * y" in traced.code and "mul" in str(traced.graph)
    with pytest.raises(RuntimeError, match="before it has been defined"):
        next(iter(traced.graph.nodes)).prepend(product)
        traced.graph.lint()


def test_graphs_are_built_by_hand():
    graph = fx.Graph()
    x = graph.placeholder("x")
    y = graph.call_module("layer", (x,))
    graph.output((y, graph.call_method("sum", (y,), {"dim": 0}), graph.get_attr("weight")))
    layer = facade.nn.Linear(2, 2)
    made = fx.GraphModule({"layer": layer, "weight": facade.ones(1)}, graph, "Built")
    assert type(made).__name__ == "Built" and "weight" in dict(made.named_buffers())
    out = made(facade.ones(3, 2))
    assert facade.equal(out[1], layer(facade.ones(3, 2)).sum(0)) and out[2].tolist() == [1.0]
    made.add_submodule("deep.er", facade.nn.ReLU())
    made.delete_all_unused_submodules()
    assert [n for n, _ in made.named_modules()] == ["", "layer"]


def test_tracers_choose_leaves_and_constants():
    class Inner(facade.nn.Module):
        def forward(self, x, negate):
            return -x if negate else x * facade.ones(1)

    class Outer(facade.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = Inner()

        def forward(self, x, negate=False):
            return self.inner(x, negate)

    class Leafy(fx.Tracer):
        def is_leaf_module(self, m, module_qualified_name):
            return isinstance(m, Inner) or super().is_leaf_module(m, module_qualified_name)

    graph = Leafy().trace(Outer())
    assert [n.op for n in graph.nodes] == ["placeholder", "placeholder", "call_module", "output"]
    concrete = fx.symbolic_trace(Outer(), concrete_args={"negate": True})
    assert concrete(facade.ones(1)).tolist() == [-1.0]
    constant = fx.symbolic_trace(Outer(), concrete_args={"negate": False})
    assert [n.op for n in constant.graph.nodes] == ["placeholder", "get_attr", "call_function", "output"]
    assert constant(facade.ones(2)).tolist() == [1.0, 1.0]


def _chain(lib):
    return lib.fx.symbolic_trace(lambda x: lib.neg(lib.neg(lib.neg(x))))


def _model(lib):
    class Model(lib.nn.Module):
        def forward(self, x, v, w):
            first, second = lib.cat([v, w]).sum(), lib.cat([v, w]).sum()
            return x + lib.max(first) + lib.max(second)

    return lib.fx.symbolic_trace(Model())


_REPLACEMENTS = {
    "twice": (_model, lambda lib: lambda v, w: lib.cat([v, w]).sum(), lambda lib: lambda v, w: lib.stack([v, w])),
    "overlap": (_chain, lambda lib: lambda x: lib.neg(lib.neg(x)), lambda lib: lambda x: x),
    "nested": (_chain, lambda lib: lambda x: lib.neg(x), lambda lib: lambda x: lib.sigmoid(x) * 2 - 1),
    "results": (
        lambda lib: lib.fx.symbolic_trace(lambda x: lib.sin(x) * 2 + lib.cos(x)),
        lambda lib: lambda x: (lib.sin(x), lib.cos(x)),
        lambda lib: lambda x: (lib.cos(x), lib.sin(x)),
    ),
    "used outside": (
        lambda lib: lib.fx.symbolic_trace(lambda x: lib.relu(lib.neg(x)) + lib.neg(x)),
        lambda lib: lambda x: lib.relu(lib.neg(x)),
        lambda lib: lambda x: lib.abs(x),
    ),
    "shared": (
        lambda lib: lib.fx.symbolic_trace(lambda x: (lambda y: lib.relu(y) + y)(lib.neg(x))),
        lambda lib: lambda x: lib.relu(lib.neg(x)),
        lambda lib: lambda x: lib.abs(x),
    ),
}


@pytest.mark.parametrize("name", _REPLACEMENTS)
def test_replace_pattern_gives_pytorchs_code(name):
    traced, pattern, replacement = _REPLACEMENTS[name]
    codes = []
    for lib in (facade, torch):
        module = traced(lib)
        matches = lib.fx.replace_pattern(module, pattern(lib), replacement(lib))
        codes.append((len(matches), module.code))
    assert codes[0] == codes[1]


def test_replace_pattern_wants_as_many_arguments_and_results():
    module = _chain(facade)
    with pytest.raises(AssertionError, match="has 2 arguments and 1 results, the pattern 1 and 1"):
        fx.replace_pattern(module, lambda x: facade.neg(x), lambda x, y: x + y)


def annotated(t):
    """Return a module of either library with an annotated argument, a list of modules and a nested result."""

    class Net(t.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = t.nn.ModuleList([t.nn.Linear(2, 2)])

        def forward(self, x, k=1):
            y = self.layers[0](x) * k
            return {"y": y, "m": y.mean(dim=-1, keepdim=True)}

    Net.forward.__annotations__["k"] = int
    return Net()


def test_texts_of_graphs_are_pytorchs():
    """The text of a graph and its code, of annotated arguments, keywords and nested results."""
    ours, theirs = (t.fx.symbolic_trace(annotated(t)) for t in (facade, torch))
    assert str(ours.graph) == str(theirs.graph)
    assert ours.code == theirs.code


def test_shapes_of_a_graph():
    """``fx.passes.shape_prop`` notes shapes and dtypes of every node that has a tensor."""
    found = []
    for lib, prop in ((torch, torch_shape_prop.ShapeProp), (facade, shape_prop.ShapeProp)):
        traced = lib.fx.symbolic_trace(lib.nn.Sequential(lib.nn.Linear(3, 4), lib.nn.ReLU()))
        prop(traced).propagate(lib.ones(2, 3))
        metas = [node.meta["tensor_meta"] for node in traced.graph.nodes]
        found.append([(tuple(m.shape), str(m.dtype), m.requires_grad, m.stride) for m in metas])
    assert found[1] == found[0]


def optimized(t):
    """Return a model in evaluation mode, with the module of passes."""

    class Net(t.nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.bn, self.relu = t.nn.Conv2d(2, 3, 1), t.nn.BatchNorm2d(3), t.nn.ReLU()
            self.tail = t.nn.Sequential(t.nn.Dropout(0.5), t.nn.Linear(3, 3), t.nn.BatchNorm1d(3))
            self.lone, self.loose = t.nn.Conv2d(3, 3, 1), t.nn.BatchNorm2d(3, track_running_stats=False)

        def forward(self, x):
            x = self.relu(self.bn(self.conv(x)))
            x = self.loose(self.lone(x)) + self.lone(x)
            return self.tail(x.mean((2, 3)))

    net = Net().eval()
    with t.no_grad():
        for i, value in enumerate(net.state_dict().values()):
            value.copy_(t.arange(float(value.numel())).reshape(value.shape).mul(0.3).sin() + 0.1 * i)
            value.abs_() if i in (5, 14) else None
    return net, importlib.import_module(f"{t.__name__}.fx.experimental.optimization")


def test_batch_norms_are_folded_and_dropout_removed_as_in_pytorch():
    texts, values = [], []
    for t in (torch, facade):
        net, passes = optimized(t)
        net.bn.running_var.abs_(), net.tail[2].running_var.abs_()
        x = t.arange(16.0).reshape(2, 2, 2, 2).cos()
        want = net(x)
        fused = passes.fuse(net)
        values.append([fused(x).tolist(), passes.remove_dropout(fused)(x).tolist(), want.tolist()])
        lighter = passes.remove_dropout(net)
        assert not any(isinstance(m, t.nn.Dropout) for m in lighter.modules()) and net.bn is not None
        texts.append([fused.code, lighter.code])
        with pytest.raises(AssertionError, match="eval"):
            passes.fuse(net.train())
    assert texts[0] == texts[1] and "bn" not in texts[1][0] and "loose" in texts[1][0]
    for ours, theirs, base in zip(values[1], values[0], [values[1][2]] * 3, strict=True):
        torch.testing.assert_close(torch.tensor(ours), torch.tensor(theirs))
        torch.testing.assert_close(torch.tensor(ours), torch.tensor(base))
    light = optimized(facade)[1].optimize_for_inference(optimized(facade)[0])
    assert "dropout" not in light.code and "bn" not in light.code


@pytest.mark.parametrize("t", [torch, facade], ids=["torch", "ours"])
def test_nodes_become_a_module_of_their_own(t):
    passes = importlib.import_module(f"{t.__name__}.fx.experimental.optimization")
    traced = t.fx.symbolic_trace(t.nn.Sequential(t.nn.Linear(2, 2), t.nn.ReLU(), t.nn.Tanh()))
    start, linear, relu, tanh, _ = traced.graph.nodes
    part = passes.extract_subgraph(traced, [relu, tanh], [linear], [relu, tanh])
    assert [v.tolist() for v in part(t.tensor([-1.0, 0.0]))] == [[0.0, 0.0], [0.0, 0.0]]
    modules = dict(traced.named_modules())
    assert passes.matches_module_pattern((t.nn.Linear, t.nn.ReLU), relu, modules)
    assert not passes.matches_module_pattern((t.nn.Linear, t.nn.ReLU), tanh, modules)
    assert not passes.matches_module_pattern((t.nn.Linear,), start, modules)
    passes.replace_node_module(relu, modules, t.nn.Identity())
    assert type(modules["1"]) is type(traced.get_submodule("1")) is t.nn.Identity
