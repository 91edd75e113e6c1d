"""Lazy layers, hooks of every module, functional calls and fused modules behave as PyTorch's."""

from __future__ import annotations

import copy

import pytest

torch = pytest.importorskip("torch")

from module_oracle import check_call, copy_parameters, ours, pair, theirs  # noqa: E402

import torchlette.torch as facade  # noqa: E402
from torchlette.nn import functional as F  # noqa: E402


def x(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1)).requires_grad_()


LAZY = {
    "linear": (lambda nn: nn.LazyLinear(4), (3, 5)),
    "conv": (lambda nn: nn.LazyConv2d(4, 3, padding=1, groups=2), (2, 6, 5, 5)),
    "conv_no_batch": (lambda nn: nn.LazyConv1d(4, 3, bias=False), (6, 5)),
    "transposed": (lambda nn: nn.LazyConvTranspose2d(4, 3, stride=2, output_padding=1), (2, 3, 4, 4)),
    "batch_norm": (lambda nn: nn.LazyBatchNorm2d(), (2, 3, 4, 4)),
    "instance_norm": (lambda nn: nn.LazyInstanceNorm1d(), (2, 3, 4)),
}


@pytest.mark.parametrize("name", LAZY)
def test_lazy_layers_become_plain_ones(name):
    make, shape = LAZY[name]
    expected, got = make(torch.nn), make(facade.nn)
    assert repr(expected) == repr(got)
    waiting = copy.deepcopy(got)
    with pytest.raises(RuntimeError, match="uninitialized"):
        _ = next(got.parameters()).shape
    value = x(*shape)
    expected(value), got(ours(value))
    assert type(got).__name__ == type(expected).__name__
    assert repr(expected) == repr(got)
    copy_parameters(expected, got)
    check_call(expected, got, value)
    # A module that still waits takes its shapes from what it loads.
    waiting.load_state_dict(got.state_dict())
    assert [p.shape for p in waiting.parameters()] == [p.shape for p in got.parameters()]
    for a, b in zip(waiting.parameters(), got.parameters(), strict=True):
        torch.testing.assert_close(theirs(a), theirs(b))


def test_hooks_of_every_module():
    seen = {}
    for lib in (torch, facade):
        register = lib.nn.modules.module
        calls = seen[lib] = []
        model = lib.nn.Sequential(lib.nn.Linear(2, 2), lib.nn.ReLU())
        handles = [
            register.register_module_forward_pre_hook(
                lambda m, args, calls=calls: calls.append(("pre", type(m).__name__))
            ),
            register.register_module_forward_hook(
                lambda m, args, out, calls=calls: calls.append(("post", type(m).__name__))
            ),
            register.register_module_full_backward_hook(
                lambda m, gi, go, calls=calls: calls.append(("back", type(m).__name__, len(gi), len(go)))
            ),
        ]
        model[0].register_forward_hook(lambda m, args, out, calls=calls: calls.append("own"))
        model(lib.ones(3, 2, requires_grad=True)).sum().backward()
        for handle in handles:
            handle.remove()
        model(lib.ones(3, 2))
    assert seen[torch] == seen[facade]


def test_forward_hook_of_every_module_replaces_the_output():
    for lib in (torch, facade):
        with lib.nn.modules.module.register_module_forward_hook(lambda m, args, out: out * 2):
            assert lib.nn.Identity()(lib.ones(2)).tolist() == [2.0, 2.0]
        assert lib.nn.Identity()(lib.ones(2)).tolist() == [1.0, 1.0]


def test_functional_call():
    expected, got = pair(lambda nn: nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)))
    value, factor = x(4, 3), torch.linspace(1, 2, 9).reshape(3, 3).requires_grad_()
    given = ours(factor.detach()).requires_grad_()
    want = torch.func.functional_call(expected, {"0.weight": factor}, (value,))
    have = facade.func.functional_call(got, {"0.weight": given}, (ours(value),))
    torch.testing.assert_close(theirs(have), want.detach())
    want.square().sum().backward(), have.square().sum().backward()
    torch.testing.assert_close(theirs(given.grad), factor.grad, rtol=1e-4, atol=1e-5)
    assert got[0].weight.grad is None
    torch.testing.assert_close(theirs(got[1].running_mean), expected[1].running_mean)
    with pytest.raises(AttributeError):
        facade.func.functional_call(got, {"9.weight": given}, (ours(value),))


def test_functional_call_ties_weights():
    got = facade.nn.ModuleList([facade.nn.Linear(2, 2, bias=False), facade.nn.Linear(2, 2, bias=False)])
    got[1].weight = got[0].weight
    got.forward = lambda v: got[1](got[0](v))
    result = facade.func.functional_call(got, {"0.weight": 2 * facade.eye(2)}, (facade.ones(1, 2),))
    assert result.tolist() == [[4.0, 4.0]]


def test_fusion_of_batch_norm():
    for make, shape, name in (
        (lambda nn: (nn.Conv2d(3, 4, 3, bias=False), nn.BatchNorm2d(4)), (2, 3, 5, 5), "fuse_conv_bn_eval"),
        (lambda nn: (nn.Linear(3, 4), nn.BatchNorm1d(4)), (2, 3), "fuse_linear_bn_eval"),
    ):
        layer, norm = make(facade.nn)
        norm.running_mean.copy_(facade.arange(4.0)), norm.running_var.copy_(facade.arange(4.0) + 0.5)
        layer.eval(), norm.eval()
        value = ours(x(*shape))
        fused = getattr(facade.nn.utils, name)(layer, norm)
        torch.testing.assert_close(theirs(fused(value)), theirs(norm(layer(value))), rtol=1e-4, atol=1e-5)


def test_adaptive_log_softmax():
    expected, got = pair(lambda nn: nn.AdaptiveLogSoftmaxWithLoss(8, 20, [5, 12], div_value=2.0, head_bias=True))
    assert repr(expected) == repr(got)
    value = x(5, 8)
    check_call(expected, got, value, torch.tensor([1, 6, 19, 3, 13]))
    torch.testing.assert_close(theirs(got.log_prob(ours(value))), expected.log_prob(value).detach())
    assert got.predict(ours(value)).tolist() == expected.predict(value).tolist()


@pytest.mark.parametrize(
    "options", [{}, {"reduction": "sum"}, {"reduction": "none", "zero_infinity": True}, {"blank": 3}], ids=str
)
@pytest.mark.parametrize("flat", [False, True])
def test_ctc_loss(options, flat, device):
    logits = x(8, 3, 4)
    targets = torch.tensor([[1, 2, 2, 1], [2, 1, 1, 2], [1, 1, 1, 1]])
    wanted, lengths = [4, 3, 2], [8, 7, 2]
    targets = torch.cat([row[:n] for row, n in zip(targets, wanted, strict=True)]) if flat else targets
    if not options.get("zero_infinity"):
        lengths[2] = 5
    mine = ours(logits.detach()).to(device).requires_grad_()
    want = torch.nn.functional.ctc_loss(logits.log_softmax(2), targets, lengths, wanted, **options)
    have = F.ctc_loss(mine.log_softmax(2), ours(targets).to(device), lengths, wanted, **options)
    torch.testing.assert_close(theirs(have), want.detach())
    want.sum().backward(), have.sum().backward()
    torch.testing.assert_close(theirs(mine.grad), logits.grad, rtol=1e-4, atol=1e-5)
