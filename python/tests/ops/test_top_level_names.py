"""Functions that PyTorch has at the top level in a form of their own: losses whose reduction is a number, others."""

from __future__ import annotations

from typing import Any

import numpy as np
import oracle
import pytest
import torch

import torchlette
import torchlette.torch as facade

REDUCTIONS = (0, 1, 2)
_P = torch.tensor([[0.2, 0.7, 0.1], [0.5, 0.25, 0.25]])
_X = torch.tensor([[0.3, -1.2, 2.0], [0.1, 0.9, -0.4]])
_SIGNS = torch.tensor([1.0, -1.0])

LOSSES = {
    "kl_div": lambda T, c, r: T.kl_div(c(_P).log(), c(_P.flip(0)), r),
    "kl_div of logarithms": lambda T, c, r: T.kl_div(c(_P).log(), c(_P.flip(0)).log(), r, log_target=True),
    "binary_cross_entropy_with_logits": lambda T, c, r: T.binary_cross_entropy_with_logits(
        c(_X), c(_P), None, c(_P[0]), r
    ),
    "margin_ranking_loss": lambda T, c, r: T.margin_ranking_loss(c(_X[0, :2]), c(_X[1, :2]), c(_SIGNS), 0.1, r),
    "cosine_embedding_loss": lambda T, c, r: T.cosine_embedding_loss(c(_X), c(_P), c(_SIGNS), 0.2, r),
    "hinge_embedding_loss": lambda T, c, r: T.hinge_embedding_loss(c(_P[0, :2]), c(_SIGNS), 0.5, r),
    "triplet_margin_loss": lambda T, c, r: T.triplet_margin_loss(c(_X), c(_P), c(_X.flip(0)), 1.5, 2.0, 1e-6, True, r),
    "poisson_nll_loss": lambda T, c, r: T.poisson_nll_loss(c(_X), c(_P), True, True, 1e-8, r),
    "ctc_loss": lambda T, c, r: T.ctc_loss(
        c(_X.expand(4, 2, 3)).log_softmax(-1), c(torch.tensor([[1, 2], [2, 0]])), (4, 4), (2, 1), 0, r
    ),
}


def convert(t):
    return torchlette.tensor(t.numpy())


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("name", LOSSES)
def test_losses_are_pytorchs(name, reduction):
    oracle.assert_equal(LOSSES[name](facade, convert, reduction), LOSSES[name](torch, lambda t: t, reduction))


@pytest.mark.parametrize("reduction", ["mean", 3, -1])
def test_a_reduction_that_is_no_number_of_one_is_refused(reduction):
    with pytest.raises(TypeError, match="reduction must be 0"):
        facade.kl_div(torchlette.ones(2), torchlette.ones(2), reduction)


OTHERS = {
    "instance_norm": lambda T, c: T.instance_norm(c(_X[None]), c(_SIGNS), None, None, None, True, 0.1, 1e-5, False),
    "native_channel_shuffle": lambda T, c: T.native_channel_shuffle(c(torch.arange(16.0).reshape(1, 4, 2, 2)), 2),
    "native_dropout": lambda T, c: T.native_dropout(c(_X), 0.5, False),
    "native_dropout of all": lambda T, c: T.native_dropout(c(_X), 1.0, True),
    "feature_dropout": lambda T, c: T.feature_dropout(c(_X), 0.5, False),
    "conv_tbc": lambda T, c: T.conv_tbc(c(torch.arange(12.0).reshape(3, 2, 2)), c(_X.reshape(1, 2, 3)), c(_P[0]), 1),
    "is_conj": lambda T, c: T.is_conj(c(_X)),
    "is_neg": lambda T, c: T.is_neg(c(_X)),
    "is_inference": lambda T, c: T.is_inference(c(_X)),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_functions_are_pytorchs(name):
    got, want = OTHERS[name](facade, convert), OTHERS[name](torch, lambda t: t)
    if isinstance(want, bool):
        assert got is want
        return
    for g, w in zip(oracle.tensors(got), oracle.tensors(want), strict=True):
        oracle.assert_equal(g, w)


def test_native_dropout_returns_the_mask_of_what_it_keeps():
    facade.manual_seed(3)
    x = facade.arange(1.0, 1001.0)
    out, mask = facade.native_dropout(x, 0.25, None)
    assert mask.dtype is facade.bool and 650 < int(mask.sum()) < 850
    facade.testing.assert_close(out, x * mask / 0.75)


def test_feature_dropout_drops_whole_channels():
    facade.manual_seed(3)
    channels = facade.feature_dropout(facade.ones(8, 16, 5), 0.5, True).sum(2)
    assert set(channels.flatten().tolist()) == {0.0, 10.0}
    with pytest.raises(RuntimeError, match="at least 2 dimensions"):
        facade.feature_dropout(facade.ones(3), 0.5, True)


def test_binomial_counts_successes():
    facade.manual_seed(3)
    count = facade.tensor([0.0, 10.0, 40.0, 7.0])
    drawn = facade.binomial(count.expand(4000, 4), facade.tensor([0.5, 0.3, 0.9, 1.0]))
    assert drawn.dtype is facade.float32 and drawn.shape == (4000, 4)
    assert bool((drawn >= 0).all()) and bool((drawn <= count).all())
    means, variances = drawn.mean(0).tolist(), drawn.var(0).tolist()
    assert means == pytest.approx([0, 3, 36, 7], abs=0.3)
    assert variances == pytest.approx([0, 2.1, 3.6, 0], abs=0.6)


def test_binomial_draws_from_its_generator():
    count, prob = facade.full((50,), 9.0), facade.full((50,), 0.5)
    first, second = (facade.binomial(count, prob, facade.Generator().manual_seed(5)) for _ in range(2))
    assert facade.equal(first, second)


def test_binomial_refuses_integers():
    for lib in (torch, facade):
        with pytest.raises((RuntimeError, ValueError), match="only supports floating-point dtypes for count"):
            lib.binomial(lib.tensor([3]), lib.tensor([0.5]))


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_adaptive_max_pools_refuse_empty_channels(dims):
    for lib in (torch, facade):
        pool = getattr(lib.nn.functional, f"adaptive_max_pool{dims}d")
        with pytest.raises(RuntimeError, match="with dimension 1 being empty"):
            pool(lib.ones(2, 0, *[4] * dims), 2)
        assert pool(lib.ones(0, 3, *[4] * dims), 2).shape == (0, 3, *[2] * dims)


@pytest.mark.parametrize("padding", [None, 2])
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("mode", [0, 1, 2])
def test_embedding_bag_has_pytorchs_order_of_arguments(mode: int, last: bool, padding: int | None) -> None:
    table = np.arange(15, dtype=np.float32).reshape(5, 3) / 7

    def run(t: Any) -> Any:
        weight = t.tensor(table).requires_grad_()
        indices, offsets = t.tensor([0, 1, 2, 2, 4]), t.tensor([0, 2, 5] if last else [0, 2])
        result, bags, sizes, _ = t.embedding_bag(weight, indices, offsets, False, mode, False, None, last, padding)
        result.square().sum().backward()
        return result, weight.grad, bags, sizes

    got, want = run(facade), run(torch)
    for g, w in zip(got[:2], want[:2], strict=True):
        oracle.assert_equal(g, w)
    assert got[2].tolist() == [0, 0, 1, 1, 1]
    if mode == 1 and not last:
        assert got[3].tolist() == want[3].tolist()


def test_norms_take_cudnn_enabled_in_order() -> None:
    x = np.arange(8, dtype=np.float32).reshape(2, 4)

    def run(t: Any) -> Any:
        y = t.tensor(x)
        return t.group_norm(y, 2, None, None, 1e-5, True), t.layer_norm(y, (4,), None, None, 1e-5, False)

    oracle.assert_equal(run(facade), run(torch))
