"""Registration, state, hooks, names and errors of Module are PyTorch's line by line."""

from __future__ import annotations

import copy
import pickle
from collections import OrderedDict

import pytest

torch = pytest.importorskip("torch")

from module_oracle import copy_parameters, ours, theirs  # noqa: E402

import torchlette as tl  # noqa: E402
import torchlette.nn as tnn  # noqa: E402, PLR0402

LIBRARIES = {"torch": torch, "torchlette": tl}


def both(run):
    """Run ``run(library)`` under both libraries; return (result or exception) of each."""
    results = []
    for library in LIBRARIES.values():
        try:
            results.append(run(library))
        except Exception as exc:
            results.append(exc)
    return results


def net(t):
    return t.nn.Sequential(t.nn.Linear(2, 3), t.nn.ReLU(), t.nn.Linear(3, 1))


ERRORS = {
    "no_attribute": lambda t: net(t).foo,
    "parameter_dot": lambda t: net(t).register_parameter("a.b", None),
    "parameter_empty": lambda t: net(t).register_parameter("", None),
    "parameter_taken": lambda t: net(t).register_parameter("forward", None),
    "parameter_name": lambda t: net(t).register_parameter(1, None),
    "parameter_type": lambda t: net(t).register_parameter("x", 3),
    "buffer_dot": lambda t: net(t).register_buffer("a.b", None),
    "buffer_taken": lambda t: net(t).register_buffer("forward", None),
    "buffer_type": lambda t: net(t).register_buffer("x", 3),
    "module_dot": lambda t: net(t).add_module("a.b", None),
    "module_taken": lambda t: net(t).add_module("forward", None),
    "module_name": lambda t: net(t).add_module(1, None),
    "module_type": lambda t: net(t).add_module("x", 3),
    "submodule": lambda t: net(t).get_submodule("0.z"),
    "submodule_parameter": lambda t: net(t).get_submodule("0.weight"),
    "get_parameter": lambda t: net(t).get_parameter("0.z"),
    "train_mode": lambda t: net(t).train(3),
    "index": lambda t: net(t)[7],
    "state_type": lambda t: net(t).load_state_dict(3),
    "list_item": lambda t: t.nn.ModuleList([3]),
    "list_source": lambda t: t.nn.ModuleList(3),
    "dict_source": lambda t: t.nn.ModuleDict(3),
    "dict_item": lambda t: t.nn.ModuleDict({"a": 3}),
    "dict_pair": lambda t: t.nn.ModuleDict([(1,)]),
    "dict_key": lambda t: t.nn.ModuleDict({1: t.nn.ReLU()}),
    "sequential_item": lambda t: t.nn.Sequential(3),
    "dropout": lambda t: t.nn.Dropout(2),
    "padding": lambda t: t.nn.Embedding(3, 4, padding_idx=5),
    "unflatten": lambda t: t.nn.Unflatten(1, 3.0),
    "to_int": lambda t: net(t).to(t.int32),
    "no_forward": lambda t: t.nn.Module()(3),
    "list_call": lambda t: t.nn.ModuleList()(3),
    "delattr": lambda t: delattr(net(t), "qq"),
    "set_int_parameter": lambda t: setattr(t.nn.Linear(1, 1), "weight", 3),
    "set_int_module": lambda t: setattr(net(t), "0", 3),
}


@pytest.mark.parametrize("name", ERRORS)
def test_error_class_and_text(name):
    want, got = both(ERRORS[name])
    assert isinstance(want, Exception)
    assert type(got).__mro__[0].__name__ == type(want).__name__ or isinstance(got, type(want))
    assert str(got) == str(want)


@pytest.mark.parametrize("assigned", ["parameter", "module", "buffer"])
def test_assignment_before_init(assigned):
    def make(t):
        class Early(t.nn.Module):
            def __init__(self):
                if assigned == "parameter":
                    self.p = t.nn.Parameter(t.ones(1))
                elif assigned == "module":
                    self.m = t.nn.ReLU()
                else:
                    self.register_buffer("b", None)

        return Early()

    want, got = both(make)
    assert isinstance(want, AttributeError)
    assert isinstance(got, AttributeError)
    assert str(got) == str(want)


def test_load_errors_have_the_same_text():
    def run(t):
        module = net(t)
        state = module.state_dict()
        state["x"] = t.zeros(1)
        del state["0.bias"]
        state["2.weight"] = t.zeros(5)
        module.load_state_dict(state)

    want, got = both(run)
    assert isinstance(got, RuntimeError)
    assert str(got) == str(want)


def test_load_not_strict():
    module = net(tl)
    state = module.state_dict()
    state["x"] = tl.zeros(1)
    del state["0.bias"]
    result = module.load_state_dict(state, strict=False)
    assert result.missing_keys == ["0.bias"]
    assert result.unexpected_keys == ["x"]
    assert repr(result).startswith("_IncompatibleKeys(missing_keys=[")
    assert repr(module.load_state_dict(module.state_dict())) == "<All keys matched successfully>"


def test_load_copies_and_assign_takes():
    module, other = net(tl), net(tl)
    weight = module[0].weight
    module.load_state_dict(other.state_dict())
    assert module[0].weight is weight
    assert weight.tolist() == other[0].weight.tolist()
    module.load_state_dict(other.state_dict(), assign=True)
    assert module[0].weight is not weight
    assert isinstance(module[0].weight, tnn.Parameter)


def test_state_dict_aliases_parameters():
    module = net(tl)
    state = module.state_dict()
    assert isinstance(state, OrderedDict)
    assert not state["0.weight"].requires_grad
    with tl.no_grad():
        module[0].weight.fill_(2.0)
    assert state["0.weight"].tolist() == [[2.0, 2.0]] * 3
    assert module.state_dict(keep_vars=True)["0.weight"] is module[0].weight


def test_state_hooks_and_extra_state():
    class Extra(tnn.Module):
        def __init__(self):
            super().__init__()
            self.lin = tnn.Linear(1, 1)
            self.note = "a"

        def get_extra_state(self):
            return self.note

        def set_extra_state(self, state):
            self.note = state

    module = Extra()
    seen = []
    module.register_state_dict_pre_hook(lambda m, prefix, keep: seen.append(("pre", prefix)))
    module.register_state_dict_post_hook(lambda m, state, prefix, meta: seen.append(("post", list(state))))
    module.register_load_state_dict_pre_hook(lambda m, state, prefix, *rest: seen.append(("load", prefix)))
    module.register_load_state_dict_post_hook(lambda m, keys: seen.append(("loaded", keys.missing_keys)))
    state = module.state_dict()
    assert state["_extra_state"] == "a"
    state["_extra_state"] = "b"
    module.load_state_dict(state)
    assert module.note == "b"
    assert seen == [("pre", ""), ("post", ["_extra_state", "lin.weight", "lin.bias"]), ("load", ""), ("loaded", [])]


def test_non_persistent_buffer():
    module = tnn.Module()
    module.register_buffer("kept", tl.ones(1))
    module.register_buffer("lost", tl.ones(1), persistent=False)
    assert list(module.state_dict()) == ["kept"]
    assert [name for name, _ in module.named_buffers()] == ["kept", "lost"]
    module.marked = tnn.Buffer(tl.zeros(2))
    assert "marked" in module.state_dict()
    del module.lost
    assert [name for name, _ in module.named_buffers()] == ["kept", "marked"]


def test_shared_weights_are_listed_once():
    def names(t):
        class Tied(t.nn.Module):
            def __init__(self):
                super().__init__()
                self.a = t.nn.Linear(3, 3)
                self.b = t.nn.Linear(3, 3)
                self.b.weight = self.a.weight
                self.c = self.a

        m = Tied()
        return (
            [n for n, _ in m.named_parameters()],
            [n for n, _ in m.named_parameters(remove_duplicate=False)],
            [n for n, _ in m.named_modules()],
            [n for n, _ in m.named_children()],
            list(m.state_dict()),
        )

    want, got = both(names)
    assert got == want


def test_attribute_moves_between_tables():
    module = tnn.Module()
    module.x = 3
    module.x = tnn.Parameter(tl.ones(1))
    assert "x" not in module.__dict__
    assert [n for n, _ in module.named_parameters()] == ["x"]
    module.x = None
    assert module.x is None
    assert "x" in module._parameters
    module.y = tnn.ReLU()
    module.y = None
    assert module.y is None
    assert list(module.children()) == []


@pytest.mark.parametrize("path", ["0", "2", ""])
def test_get_submodule(path):
    module = net(tl)
    assert module.get_submodule(path) is (module[int(path)] if path else module)


def test_apply_and_modes():
    module = net(tl)
    seen = []
    module.apply(lambda m: seen.append(type(m).__name__))
    assert seen == ["Linear", "ReLU", "Linear", "Sequential"]
    assert not module.eval()[0].training
    assert module.train()[2].training
    module.requires_grad_(False)
    assert not any(p.requires_grad for p in module.parameters())


def test_conversion_keeps_parameter_identity():
    module = net(tl)
    weight = module[0].weight
    before = weight.tolist()
    module.double()
    assert module[0].weight is weight
    assert weight.dtype == tl.float64
    module.float()
    assert weight.tolist() == before
    module.to(tl.float64).to("cpu")
    assert weight.dtype == tl.float64
    module.register_buffer("count", tl.ones(1, dtype=tl.int64))
    module.half()
    assert module.count.dtype == tl.int64
    assert weight.dtype == tl.float16


def test_deepcopy_and_pickle():
    module = net(tl)
    twin = copy.deepcopy(module)
    assert twin[0].weight is not module[0].weight
    assert isinstance(twin[0].weight, tnn.Parameter)
    assert twin[0].weight.tolist() == module[0].weight.tolist()
    with tl.no_grad():
        twin[0].weight.zero_()
    assert module[0].weight.abs().sum().item() > 0
    loaded = pickle.loads(pickle.dumps(module))
    assert repr(loaded) == repr(module)
    assert loaded[0].weight.requires_grad
    assert loaded[0].weight.tolist() == module[0].weight.tolist()


def test_deepcopy_keeps_sharing():
    module = tnn.ModuleList([tnn.Linear(2, 2), tnn.Linear(2, 2)])
    module[1].weight = module[0].weight
    twin = copy.deepcopy(module)
    assert twin[1].weight is twin[0].weight


# Hooks -----------------------------------------------------------------------------------


def test_forward_hooks_in_order():
    def run(t):
        lin = t.nn.Linear(2, 2)
        with t.no_grad():
            lin.weight.fill_(1.0)
            lin.bias.zero_()
        seen = []
        lin.register_forward_pre_hook(lambda m, args: (seen.append("pre"), (args[0] * 2,))[1])
        lin.register_forward_pre_hook(lambda m, args: seen.append("first"), prepend=True)
        handle = lin.register_forward_hook(lambda m, args, out: (seen.append("post"), out + 1)[1])
        lin.register_forward_hook(lambda m, args, kwargs, out: seen.append(sorted(kwargs)), with_kwargs=True)
        first = lin(t.ones(1, 2)).tolist()
        handle.remove()
        handle.remove()
        return first, lin(t.ones(1, 2)).tolist(), seen

    want, got = both(run)
    assert got == want


def test_always_called_hook_runs_after_an_error():
    class Broken(tnn.Module):
        def forward(self):
            raise ValueError("broken")

    module, seen = Broken(), []
    module.register_forward_hook(lambda m, args, out: seen.append(out), always_call=True)
    module.register_forward_hook(lambda m, args, out: seen.append("not called"))
    with pytest.raises(ValueError, match="broken"):
        module()
    assert seen == [None]


def test_full_backward_hooks():
    def run(t):
        lin = t.nn.Linear(2, 2)
        with t.no_grad():
            lin.weight.copy_(t.tensor([[1.0, 2.0], [3.0, 4.0]]))
            lin.bias.zero_()
        seen = []
        lin.register_full_backward_pre_hook(lambda m, out: (seen.append(out[0].tolist()), (out[0] * 2,))[1])
        lin.register_full_backward_hook(
            lambda m, inp, out: (seen.append([inp[0].tolist(), out[0].tolist()]), (inp[0] * 10,))[1]
        )
        x = t.ones(1, 2, requires_grad=True)
        y = x * 1.0
        # y is used outside the module too: the hook must not see that gradient.
        (lin(y).sum() + y.sum()).backward()
        return x.grad.tolist(), lin.weight.grad.tolist(), seen

    want, got = both(run)
    assert got == want


def test_full_backward_hook_without_input_gradient():
    def run(t):
        lin = t.nn.Linear(2, 2)
        seen = []
        lin.register_full_backward_hook(lambda m, inp, out: seen.append((inp, out[0].tolist())))
        lin(t.ones(1, 2)).sum().backward()
        return seen

    want, got = both(run)
    assert got == want


# Containers ------------------------------------------------------------------------------


def test_containers_match():
    def run(t):
        nn = t.nn
        seq = nn.Sequential(OrderedDict([("a", nn.Linear(1, 2)), ("b", nn.ReLU())]))
        texts = [repr(seq), repr(seq[0:1]), repr(seq + nn.Sequential(nn.Tanh())), repr(seq * 2)]
        plain = nn.Sequential(nn.Linear(1, 2), nn.ReLU())
        plain.append(nn.Tanh()).insert(0, nn.Identity())
        plain.extend([nn.ReLU()])
        del plain[1]
        texts += [repr(plain), repr(plain.pop(0)), repr(plain[-1]), len(plain)]
        modules = nn.ModuleList([nn.Tanh(), nn.ReLU()])
        modules[0] = nn.GELU()
        modules.insert(1, nn.Tanh())
        modules += [nn.ReLU()]
        texts += [repr(modules), repr(modules[1:]), repr(modules + [nn.Tanh()]), repr(nn.ModuleList())]
        named = nn.ModuleDict({"x": nn.Linear(1, 1)})
        named["y"] = nn.ReLU()
        named.update([("z", nn.Tanh())])
        texts += [repr(named), list(named), "y" in named, repr(named.pop("y")), len(named), sorted(named.keys())]
        return texts

    want, got = both(run)
    assert got == want


def test_parameter_containers():
    params = tnn.ParameterList([tl.ones(2), tnn.Parameter(tl.zeros(3)), 4])
    assert isinstance(params[0], tnn.Parameter)
    assert [n for n, _ in params.named_parameters()] == ["0", "1"]
    params.append(tl.ones(1))
    assert len(params) == 4
    assert params[2] == 4
    assert len(params[1:3]) == 2
    with pytest.raises(IndexError):
        params[9]
    named = tnn.ParameterDict({"a": tl.ones(2), "b": tnn.Parameter(tl.zeros(1))})
    assert isinstance(named["a"], tnn.Parameter)
    assert list(named) == ["a", "b"]
    assert named.get("c") is None
    named.pop("a")
    assert list(named.state_dict()) == ["b"]
    with pytest.raises(KeyError):
        named["a"]


def test_parameter():
    p = tnn.Parameter(tl.ones(2))
    assert p.requires_grad
    assert p.is_leaf
    assert isinstance(p, tl.Tensor)
    assert not isinstance(p * 2, tnn.Parameter)
    assert not tnn.Parameter(tl.ones(2), requires_grad=False).requires_grad
    with pytest.raises(TypeError):
        tnn.Parameter([1.0])


# Utilities -------------------------------------------------------------------------------


@pytest.mark.parametrize("norm", [1.0, 2.0, float("inf")])
@pytest.mark.parametrize("limit", [0.1, 1e4])
def test_clip_grad_norm(norm, limit):
    expected, got = net(torch), net(tl)
    copy_parameters(expected, got)
    value = torch.randn(4, 2)
    expected(value).square().sum().backward()
    got(ours(value)).square().sum().backward()
    want = torch.nn.utils.clip_grad_norm_(expected.parameters(), limit, norm)
    have = tl.nn.utils.clip_grad_norm_(got.parameters(), limit, norm)
    torch.testing.assert_close(theirs(have), want)
    for p, q in zip(expected.parameters(), got.parameters(), strict=True):
        torch.testing.assert_close(theirs(q.grad), p.grad)


@pytest.mark.parametrize("size", [1000, 65536, 200_000])
def test_clip_grad_norm_of_large_parameters(size):
    """A 0-dim factor over a loop that threads share."""
    p = tnn.Parameter(tl.ones(size))
    p.grad = tl.full((size,), 2.0)
    total = tl.nn.utils.clip_grad_norm_([p], 1.0)
    assert total.item() == pytest.approx(2 * size**0.5, rel=1e-5)
    values = set(p.grad.tolist())
    assert len(values) == 1
    assert values.pop() == pytest.approx(size**-0.5, rel=1e-4)


def test_num_threads():
    before = tl.get_num_threads()
    try:
        tl.set_num_threads(3)
        assert tl.get_num_threads() == 3
        assert tl.ones(200_000).sum().item() == 200_000
        with pytest.raises(RuntimeError):
            tl.set_num_threads(0)
    finally:
        tl.set_num_threads(before)


def test_clip_grad_value_and_vectors():
    expected, got = net(torch), net(tl)
    copy_parameters(expected, got)
    value = torch.randn(4, 2)
    expected(value).sum().backward()
    got(ours(value)).sum().backward()
    torch.nn.utils.clip_grad_value_(expected.parameters(), 0.05)
    tl.nn.utils.clip_grad_value_(got.parameters(), 0.05)
    for p, q in zip(expected.parameters(), got.parameters(), strict=True):
        torch.testing.assert_close(theirs(q.grad), p.grad)
    vector = tl.nn.utils.parameters_to_vector(got.parameters())
    torch.testing.assert_close(theirs(vector), torch.nn.utils.parameters_to_vector(expected.parameters()).detach())
    tl.nn.utils.vector_to_parameters(vector * 2, got.parameters())
    torch.testing.assert_close(theirs(got[0].weight), expected[0].weight.detach() * 2)


def test_clip_grad_norm_nonfinite():
    p = tnn.Parameter(tl.ones(2))
    p.grad = tl.tensor([float("inf"), 1.0])
    with pytest.raises(RuntimeError, match="non-finite"):
        tl.nn.utils.clip_grad_norm_([p], 1.0, error_if_nonfinite=True)


@pytest.mark.parametrize("t", [torch, tl], ids=["torch", "torchlette"])
def test_what_a_hook_raises_after_forward_raised_is_a_warning(t):
    def fail(text):
        def hook(*args):
            raise RuntimeError(text)

        return hook

    module = t.nn.Linear(2, 2)
    module.register_forward_pre_hook(fail("before"))
    module.register_forward_hook(fail("always"), always_call=True)
    with pytest.raises(RuntimeError, match="before"), pytest.warns(UserWarning, match="always"):
        module(t.ones(2))


@pytest.mark.parametrize("t", [torch, tl], ids=["torch", "torchlette"])
@pytest.mark.parametrize("kind", ["buffer", "module", "parameter"])
def test_registrations_of_every_module_call_hooks_which_replace_the_value(t, kind):
    made = {
        "buffer": lambda: t.ones(1),
        "module": lambda: t.nn.ReLU(),
        "parameter": lambda: t.nn.Parameter(t.ones(1)),
    }[kind]
    other, seen = made(), []

    def hook(module, name, value):
        seen.append(name)
        return other if name == "replaced" else None

    module, kept = t.nn.Module(), made()
    add = {"buffer": "register_buffer", "module": "add_module", "parameter": "register_parameter"}[kind]
    handle = getattr(t.nn.modules.module, f"register_module_{kind}_registration_hook")(hook)
    try:
        getattr(module, add)("kept", kept)
        getattr(module, add)("replaced", made())
        if kind != "buffer":
            module.assigned = made()
    finally:
        handle.remove()
    getattr(module, add)("later", made())
    assert seen == ["kept", "replaced"] + ["assigned"] * (kind != "buffer")
    assert module.kept is kept
    assert module.replaced is other


def test_functions_and_modules_that_hold_them_are_pickled():
    import torchlette.torch as facade

    for function in (tl.relu, facade.relu, facade.linalg.det, tnn.functional.gelu):
        assert pickle.loads(pickle.dumps(function)) == function
    layer = facade.nn.TransformerEncoderLayer(4, 2, 8, activation="gelu", dropout=0.0)
    again = pickle.loads(pickle.dumps(layer))
    x = facade.ones(2, 3, 4)
    assert again(x).tolist() == layer(x).tolist()


@pytest.mark.parametrize("overwrite", [False, True])
def test_conversions_make_new_parameters_on_demand(overwrite):
    for lib in (torch, tl):
        future = lib.__future__
        assert not future.get_overwrite_module_params_on_conversion()
        net = lib.nn.Linear(2, 2)
        net(lib.ones(1, 2)).sum().backward()
        before = net.weight
        before.requires_grad_(False)
        future.set_overwrite_module_params_on_conversion(overwrite)
        try:
            net.double()
        finally:
            future.set_overwrite_module_params_on_conversion(False)
        assert (net.weight is before) is not overwrite
        assert (str(net.weight.dtype), net.weight.requires_grad) == ("torch.float64", False)
        assert net.weight.grad.tolist() == [[1, 1], [1, 1]]
        assert str(net.weight.grad.dtype) == "torch.float64"


@pytest.mark.parametrize("result", [list, lambda t: {"x": t[0]}])
def test_backward_hooks_of_other_results_are_not_called(result):
    def run(lib):
        class Other(lib.nn.Module):
            def forward(self, x):
                return result((x * 2,))

        module, called = Other(), []
        module.register_full_backward_pre_hook(lambda *args: called.append("before"))
        module.register_full_backward_hook(lambda *args: called.append("after"))
        x = lib.ones(2, requires_grad=True)
        with pytest.warns(UserWarning, match="module output should be a Tensor or a tuple of Tensors") as found:
            out = module(x)
        (out["x"] if isinstance(out, dict) else out[0]).sum().backward()
        return called, x.grad.tolist(), len(found)

    assert both(run) == [([], [2, 2], 1)] * 2


def test_pickles_of_older_modules_get_the_tables_that_they_lack():
    def run(lib):
        module = lib.nn.Linear(1, 1)
        for table in ("_load_state_dict_post_hooks", "_state_dict_pre_hooks", "_forward_hooks_with_kwargs"):
            delattr(module, table)
        again = pickle.loads(pickle.dumps(module))
        again.register_forward_hook(lambda m, args, out: out * 0)
        return again.load_state_dict(again.state_dict()) is not None, again(lib.ones(1, 1)).tolist()

    assert both(run) == [(True, [[0]])] * 2


def test_handles_refer_to_their_table():
    def run(lib):
        module = lib.nn.Linear(1, 1)
        handle = module.register_forward_hook(lambda *args: None)
        return list(handle.hooks_dict_ref()) == [handle.id], handle.remove(), len(handle.hooks_dict_ref())

    assert both(run) == [(True, None, 0)] * 2
