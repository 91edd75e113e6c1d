"""functional_call substitutes what PyTorch's does, and raises its errors."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

import torchlette as tl  # noqa: E402
import torchlette.func  # noqa: E402

pytestmark = pytest.mark.parametrize("t", [torch, tl], ids=["torch", "torchlette"])


def scaled(t):
    class Scaled(t.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = t.nn.Linear(1, 1)
            self.scale = t.ones(())
            self.label = 3.0

        def forward(self, x):
            return self.inner(x) * self.scale

    return Scaled()


def test_an_attribute_is_substituted_during_the_call(t):
    module, x = scaled(t), t.ones(1, 1)
    before = module.scale
    assert t.func.functional_call(module, {"scale": t.zeros(())}, x).item() == 0.0
    assert module.scale is before


def test_a_name_that_the_module_lacks_is_there_during_the_call_only(t):
    module = scaled(t)
    seen = []
    module.inner.register_forward_hook(lambda m, args, out: seen.append(m.extra.item()))
    t.func.functional_call(module, {"inner.extra": t.ones(())}, t.ones(1, 1))
    assert seen == [1.0]
    assert not hasattr(module.inner, "extra")


def test_what_is_no_tensor_raises(t):
    module, x = scaled(t), t.ones(1, 1)
    with pytest.raises(TypeError, match="is not an instance of torch.Tensor"):
        t.func.functional_call(module, {"label": t.ones(())}, x)
    with pytest.raises(TypeError, match="3 is not an instance of torch.Tensor"):
        t.func.functional_call(module, {"inner.weight": 3}, x)
    assert module.label == 3.0


def test_strict_calls_name_all_keys_that_are_wrong(t):
    with pytest.raises(
        RuntimeError, match=r"reparametrizing for Scaled:\s+Unexpected.*'nope'.\s+Missing.*'inner.bias', "
    ):
        t.func.functional_call(scaled(t), {"nope": t.ones(())}, t.ones(1, 1), strict=True)


def test_what_the_module_assigns_goes_into_the_dictionary(t):
    class Counter(t.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("count", t.tensor([0.0]))

        def forward(self, x):
            self.count = self.count + 1
            return x + self.count

    given, net = {"count": t.tensor([2.0])}, Counter()
    old = given["count"]
    assert t.func.functional_call(net, given, t.zeros(1)).tolist() == [3]
    assert (net.count.tolist(), old.tolist(), given["count"].tolist()) == ([0], [2], [3])


def test_none_takes_the_place_of_a_parameter(t):
    net = t.nn.Linear(1, 1)
    assert t.func.functional_call(net, {"weight": t.ones(1, 1), "bias": None}, t.ones(1, 1)).tolist() == [[1]]
    assert net.bias is not None


def test_a_new_parameter_is_among_the_parameters(t):
    class Names(t.nn.Linear):
        def forward(self, x):
            return [name for name, _ in self.named_parameters()]

    net, extra = Names(1, 1), {"extra": t.nn.Parameter(t.ones(1)), "other": t.ones(1)}
    assert t.func.functional_call(net, extra, t.ones(1)) == ["weight", "bias", "extra"]
    assert [name for name, _ in net.named_parameters()] == ["weight", "bias"]
