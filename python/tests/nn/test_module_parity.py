"""Every module: output, gradients, state_dict keys and repr equal PyTorch's."""

from __future__ import annotations

import warnings

import pytest

torch = pytest.importorskip("torch")

from module_oracle import check_call, pair, theirs  # noqa: E402


def x(*shape, grad=True):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1)).requires_grad_(grad)


def ints(high, *shape):
    return torch.randint(high, shape, generator=torch.Generator().manual_seed(2))


def probabilities(*shape, grad=False):
    return torch.rand(*shape, generator=torch.Generator().manual_seed(3)).clamp(0.02, 0.98).requires_grad_(grad)


MODULES = {
    "linear": (lambda nn: nn.Linear(4, 3), lambda: [x(2, 4)]),
    "linear_3d": (lambda nn: nn.Linear(4, 3), lambda: [x(2, 5, 4)]),
    "linear_1d": (lambda nn: nn.Linear(4, 3), lambda: [x(4)]),
    "linear_no_bias": (lambda nn: nn.Linear(4, 3, bias=False), lambda: [x(2, 4)]),
    "embedding": (lambda nn: nn.Embedding(7, 3), lambda: [ints(7, 2, 5)]),
    "embedding_padding": (
        lambda nn: nn.Embedding(7, 3, padding_idx=-2),
        lambda: [torch.tensor([[5, 1, 5], [0, 5, 5]])],
    ),
    "layer_norm": (lambda nn: nn.LayerNorm(6), lambda: [x(2, 3, 6)]),
    "layer_norm_2d": (lambda nn: nn.LayerNorm((3, 6), eps=1e-3), lambda: [x(2, 3, 6)]),
    "layer_norm_no_bias": (lambda nn: nn.LayerNorm(6, bias=False), lambda: [x(2, 6)]),
    "layer_norm_plain": (lambda nn: nn.LayerNorm(6, elementwise_affine=False), lambda: [x(2, 6)]),
    "rms_norm": (lambda nn: nn.RMSNorm(6), lambda: [x(2, 6)]),
    "rms_norm_eps": (lambda nn: nn.RMSNorm((3, 6), eps=1e-2), lambda: [x(2, 3, 6)]),
    "dropout_eval": (lambda nn: nn.Dropout(0.3).eval(), lambda: [x(2, 6)]),
    "dropout_zero": (lambda nn: nn.Dropout(0.0), lambda: [x(2, 6)]),
    "gelu": (lambda nn: nn.GELU(), lambda: [x(2, 6)]),
    "gelu_tanh": (lambda nn: nn.GELU(approximate="tanh"), lambda: [x(2, 6)]),
    "relu": (lambda nn: nn.ReLU(), lambda: [x(2, 6)]),
    "relu_inplace": (lambda nn: nn.Sequential(nn.Linear(6, 6), nn.ReLU(inplace=True)), lambda: [x(2, 6)]),
    "leaky_relu": (lambda nn: nn.LeakyReLU(0.2), lambda: [x(2, 6)]),
    "leaky_relu_inplace": (lambda nn: nn.Sequential(nn.Linear(6, 6), nn.LeakyReLU(0.2, True)), lambda: [x(2, 6)]),
    "elu": (lambda nn: nn.ELU(1.5), lambda: [x(2, 6)]),
    "tanh": (lambda nn: nn.Tanh(), lambda: [x(2, 6)]),
    "sigmoid": (lambda nn: nn.Sigmoid(), lambda: [x(2, 6)]),
    "silu": (lambda nn: nn.SiLU(), lambda: [x(2, 6)]),
    "softmax": (lambda nn: nn.Softmax(-1), lambda: [x(2, 6)]),
    "softmax_default": (lambda nn: nn.Softmax(), lambda: [x(2, 6)]),
    "softmin": (lambda nn: nn.Softmin(0), lambda: [x(2, 6)]),
    "log_softmax": (lambda nn: nn.LogSoftmax(1), lambda: [x(2, 6, 3)]),
    "softplus": (lambda nn: nn.Softplus(2.0, 1.5), lambda: [x(2, 6)]),
    "hardtanh": (lambda nn: nn.Hardtanh(-0.4, 0.6), lambda: [x(2, 6)]),
    "relu6": (lambda nn: nn.ReLU6(), lambda: [x(2, 6)]),
    "celu": (lambda nn: nn.CELU(0.7), lambda: [x(2, 6)]),
    "selu": (lambda nn: nn.SELU(), lambda: [x(2, 6)]),
    "mish": (lambda nn: nn.Mish(), lambda: [x(2, 6)]),
    "hardsigmoid": (lambda nn: nn.Hardsigmoid(), lambda: [x(2, 6)]),
    "hardswish": (lambda nn: nn.Hardswish(), lambda: [x(2, 6)]),
    "threshold": (lambda nn: nn.Threshold(0.1, 20.0), lambda: [x(2, 6)]),
    "logsigmoid": (lambda nn: nn.LogSigmoid(), lambda: [x(2, 6)]),
    "softsign": (lambda nn: nn.Softsign(), lambda: [x(2, 6)]),
    "tanhshrink": (lambda nn: nn.Tanhshrink(), lambda: [x(2, 6)]),
    "softshrink": (lambda nn: nn.Softshrink(0.2), lambda: [x(2, 6)]),
    "hardshrink": (lambda nn: nn.Hardshrink(0.2), lambda: [x(2, 6)]),
    "glu": (lambda nn: nn.GLU(), lambda: [x(2, 6)]),
    "prelu": (lambda nn: nn.PReLU(3), lambda: [x(2, 3, 4)]),
    "identity": (lambda nn: nn.Identity(3, a=4), lambda: [x(2, 6)]),
    "flatten": (lambda nn: nn.Flatten(), lambda: [x(2, 3, 4)]),
    "unflatten": (lambda nn: nn.Unflatten(1, (2, 3)), lambda: [x(2, 6)]),
    "cross_entropy": (lambda nn: nn.CrossEntropyLoss(), lambda: [x(5, 4), ints(4, 5)]),
    "cross_entropy_ignore": (
        lambda nn: nn.CrossEntropyLoss(ignore_index=1, reduction="sum"),
        lambda: [x(5, 4), ints(4, 5)],
    ),
    "cross_entropy_smooth": (lambda nn: nn.CrossEntropyLoss(label_smoothing=0.1), lambda: [x(5, 4), ints(4, 5)]),
    "cross_entropy_weight": (
        lambda nn: nn.CrossEntropyLoss(weight=weights(nn), reduction="none"),
        lambda: [x(5, 4), ints(4, 5)],
    ),
    "cross_entropy_probabilities": (
        lambda nn: nn.CrossEntropyLoss(),
        lambda: [x(5, 4), x(5, 4, grad=False).softmax(1)],
    ),
    "cross_entropy_2d": (lambda nn: nn.CrossEntropyLoss(), lambda: [x(2, 4, 3), ints(4, 2, 3)]),
    "nll": (lambda nn: nn.NLLLoss(weight=weights(nn)), lambda: [x(5, 4), ints(4, 5)]),
    "mse": (lambda nn: nn.MSELoss(), lambda: [x(5, 4), probabilities(5, 4)]),
    "mse_none": (lambda nn: nn.MSELoss(reduction="none"), lambda: [x(5, 4), probabilities(5, 4)]),
    "l1": (lambda nn: nn.L1Loss(reduction="sum"), lambda: [x(5, 4), probabilities(5, 4)]),
    "smooth_l1": (lambda nn: nn.SmoothL1Loss(beta=0.5), lambda: [x(5, 4), probabilities(5, 4)]),
    "huber": (lambda nn: nn.HuberLoss(delta=0.7), lambda: [x(5, 4), probabilities(5, 4)]),
    "bce": (lambda nn: nn.BCELoss(), lambda: [probabilities(5, 4, grad=True), probabilities(5, 4)]),
    "bce_logits": (lambda nn: nn.BCEWithLogitsLoss(pos_weight=weights(nn)), lambda: [x(5, 4), probabilities(5, 4)]),
    "kl_div": (lambda nn: nn.KLDivLoss(reduction="batchmean"), lambda: [x(5, 4), probabilities(5, 4)]),
    "kl_div_log": (lambda nn: nn.KLDivLoss(reduction="sum", log_target=True), lambda: [x(5, 4), x(5, 4, grad=False)]),
    "margin_ranking": (lambda nn: nn.MarginRankingLoss(0.3), lambda: [x(5), x(5).flip(0).detach(), signs(5)]),
    "hinge_embedding": (lambda nn: nn.HingeEmbeddingLoss(0.8, reduction="sum"), lambda: [x(5), signs(5)]),
    "cosine_embedding": (
        lambda nn: nn.CosineEmbeddingLoss(0.1, reduction="none"),
        lambda: [x(5, 4), probabilities(5, 4), signs(5)],
    ),
    "cosine_embedding_one": (lambda nn: nn.CosineEmbeddingLoss(), lambda: [x(4), probabilities(4), signs()]),
    "soft_margin": (lambda nn: nn.SoftMarginLoss(), lambda: [x(5, 4), signs(5, 4)]),
    "multilabel_soft_margin": (
        lambda nn: nn.MultiLabelSoftMarginLoss(weight=weights(nn)),
        lambda: [x(5, 4), ints(2, 5, 4).float()],
    ),
    "multi_margin": (lambda nn: nn.MultiMarginLoss(), lambda: [x(5, 4), ints(4, 5)]),
    "multi_margin_square": (
        lambda nn: nn.MultiMarginLoss(2, 0.7, weights(nn), reduction="sum"),
        lambda: [x(5, 4), ints(4, 5)],
    ),
    "multi_margin_one": (lambda nn: nn.MultiMarginLoss(), lambda: [x(4), ints(4)]),
    "multilabel_margin": (
        lambda nn: nn.MultiLabelMarginLoss(),
        lambda: [x(2, 4), torch.tensor([[3, 0, -1, 1], [2, -1, 3, 0]])],
    ),
    "multilabel_margin_one": (
        lambda nn: nn.MultiLabelMarginLoss(reduction="none"),
        lambda: [x(4), torch.tensor([1, 2, -1, 0])],
    ),
    "triplet": (
        lambda nn: nn.TripletMarginLoss(),
        lambda: [x(5, 4), probabilities(5, 4, grad=True), probabilities(5, 4).flip(0)],
    ),
    "triplet_swap": (
        lambda nn: nn.TripletMarginLoss(2.0, p=1, swap=True),
        lambda: [x(5, 4), probabilities(5, 4), probabilities(5, 4).flip(0)],
    ),
    "triplet_distance": (
        lambda nn: nn.TripletMarginWithDistanceLoss(distance_function=taxicab, margin=3.0, reduction="none"),
        lambda: [x(5, 4), probabilities(5, 4), probabilities(5, 4).flip(0)],
    ),
    "poisson": (lambda nn: nn.PoissonNLLLoss(), lambda: [x(5, 4), ints(6, 5, 4).float()]),
    "poisson_full": (
        lambda nn: nn.PoissonNLLLoss(log_input=False, full=True),
        lambda: [probabilities(5, 4, grad=True), ints(6, 5, 4).float()],
    ),
    "gaussian": (
        lambda nn: nn.GaussianNLLLoss(),
        lambda: [x(5, 4), probabilities(5, 4), probabilities(5, 4, grad=True)],
    ),
    "gaussian_full": (
        lambda nn: nn.GaussianNLLLoss(full=True, eps=0.5, reduction="sum"),
        lambda: [x(5, 4), probabilities(5, 4), probabilities(5, grad=True)],
    ),
    "pairwise_distance": (lambda nn: nn.PairwiseDistance(3.0, keepdim=True), lambda: [x(5, 4), probabilities(5, 4)]),
    "cosine_similarity": (lambda nn: nn.CosineSimilarity(0), lambda: [x(5, 4), probabilities(5, 4)]),
    "bilinear": (lambda nn: nn.Bilinear(3, 4, 2), lambda: [x(2, 5, 3), probabilities(2, 5, 4, grad=True)]),
    "bilinear_no_bias": (lambda nn: nn.Bilinear(3, 4, 2, bias=False), lambda: [x(3), probabilities(4)]),
    "embedding_bag": (lambda nn: nn.EmbeddingBag(7, 3), lambda: [ints(7, 2, 5)]),
    "embedding_bag_offsets": (
        lambda nn: nn.EmbeddingBag(7, 3, mode="sum"),
        lambda: [ints(7, 6), torch.tensor([0, 2, 2, 5])],
    ),
    "embedding_bag_weights": (
        lambda nn: nn.EmbeddingBag(7, 3, mode="sum", include_last_offset=True),
        lambda: [ints(7, 6), torch.tensor([0, 2, 6]), probabilities(6, grad=True)],
    ),
    "embedding_bag_max": (
        lambda nn: nn.EmbeddingBag(7, 3, mode="max"),
        lambda: [ints(7, 6), torch.tensor([0, 2, 2, 5])],
    ),
    "embedding_bag_padding": (
        lambda nn: nn.EmbeddingBag(7, 3, padding_idx=2),
        lambda: [torch.tensor([[2, 1, 2], [2, 2, 2], [0, 1, 3]])],
    ),
    "rrelu_eval": (lambda nn: nn.RReLU(0.1, 0.5).eval(), lambda: [x(2, 6)]),
    "softmax_2d": (lambda nn: nn.Softmax2d(), lambda: [x(2, 3, 2, 2)]),
    "dropout_1d": (lambda nn: nn.Dropout1d(0.3).eval(), lambda: [x(2, 3, 4)]),
    "dropout_2d": (lambda nn: nn.Dropout2d(0.0), lambda: [x(2, 3, 2, 2)]),
    "dropout_3d": (lambda nn: nn.Dropout3d(0.3).eval(), lambda: [x(2, 3, 2, 2, 2)]),
    "dropout_alpha": (lambda nn: nn.AlphaDropout(0.3).eval(), lambda: [x(2, 6)]),
    "dropout_feature_alpha": (lambda nn: nn.FeatureAlphaDropout(0.3).eval(), lambda: [x(2, 3, 4)]),
    "channel_shuffle": (lambda nn: nn.ChannelShuffle(3), lambda: [x(2, 6, 2, 2)]),
    "pixel_shuffle": (lambda nn: nn.PixelShuffle(2), lambda: [x(2, 8, 2, 3)]),
    "pixel_unshuffle": (lambda nn: nn.PixelUnshuffle(2), lambda: [x(2, 4, 6)]),
    "pad_zero_1d": (lambda nn: nn.ZeroPad1d((2, 1)), lambda: [x(2, 3, 4)]),
    "pad_zero_2d": (lambda nn: nn.ZeroPad2d(1), lambda: [x(2, 3, 4, 5)]),
    "pad_constant_2d": (lambda nn: nn.ConstantPad2d((1, -2, 0, 3), 1.5), lambda: [x(2, 3, 4, 5)]),
    "pad_constant_3d": (lambda nn: nn.ConstantPad3d((0, 0, 1, 0, -1, 2), -1.0), lambda: [x(1, 2, 3, 4, 5)]),
    "pad_reflection_1d": (lambda nn: nn.ReflectionPad1d(2), lambda: [x(2, 3)]),
    "pad_reflection_2d": (lambda nn: nn.ReflectionPad2d((1, 2, 3, 0)), lambda: [x(2, 3, 4, 5)]),
    "pad_reflection_3d": (lambda nn: nn.ReflectionPad3d(1), lambda: [x(1, 2, 3, 4, 5)]),
    "pad_replication_1d": (lambda nn: nn.ReplicationPad1d((5, 2)), lambda: [x(2, 3, 4)]),
    "pad_replication_2d": (lambda nn: nn.ReplicationPad2d((1, 2, 3, 0)), lambda: [x(3, 4, 5)]),
    "pad_replication_3d": (lambda nn: nn.ReplicationPad3d(2), lambda: [x(1, 2, 3, 4, 5)]),
    "pad_circular_1d": (lambda nn: nn.CircularPad1d((4, 2)), lambda: [x(2, 3, 4)]),
    "pad_circular_2d": (lambda nn: nn.CircularPad2d((1, 2, 3, 0)), lambda: [x(2, 3, 4, 5)]),
    "upsample": (lambda nn: nn.Upsample(scale_factor=2), lambda: [x(2, 3, 4)]),
    "upsample_down": (lambda nn: nn.Upsample(size=(3, 7)), lambda: [x(2, 3, 5, 4)]),
    "upsample_factor": (lambda nn: nn.Upsample(scale_factor=(1.7, 0.6)), lambda: [x(2, 3, 5, 4)]),
    "upsample_exact": (lambda nn: nn.Upsample(scale_factor=1.5, mode="nearest-exact"), lambda: [x(2, 3, 5, 4)]),
    "upsample_linear": (lambda nn: nn.Upsample(size=7, mode="linear"), lambda: [x(2, 3, 4)]),
    "upsample_bilinear": (lambda nn: nn.Upsample(scale_factor=2.3, mode="bilinear"), lambda: [x(2, 3, 5, 4)]),
    "upsample_recomputed": (
        lambda nn: nn.Upsample(scale_factor=2.3, mode="bilinear", recompute_scale_factor=True),
        lambda: [x(2, 3, 5, 4)],
    ),
    "upsample_trilinear": (
        lambda nn: nn.Upsample(size=(2, 6, 5), mode="trilinear", align_corners=True),
        lambda: [x(1, 2, 3, 4, 5)],
    ),
    "upsampling_nearest": (lambda nn: nn.UpsamplingNearest2d(scale_factor=3), lambda: [x(2, 3, 2, 2)]),
    "upsampling_bilinear": (lambda nn: nn.UpsamplingBilinear2d(size=(5, 7)), lambda: [x(2, 3, 3, 4)]),
    "attention": (lambda nn: nn.MultiheadAttention(8, 2), lambda: [x(5, 3, 8), x(6, 3, 8), x(6, 3, 8)]),
    "attention_batch_first": (
        lambda nn: nn.MultiheadAttention(8, 2, batch_first=True, bias=False),
        lambda: [x(3, 5, 8), x(3, 5, 8), x(3, 5, 8)],
    ),
    "attention_dims": (
        lambda nn: nn.MultiheadAttention(8, 2, kdim=4, vdim=6),
        lambda: [x(5, 3, 8), x(6, 3, 4), x(6, 3, 6)],
    ),
    "attention_extra": (
        lambda nn: nn.MultiheadAttention(8, 2, add_bias_kv=True, add_zero_attn=True),
        lambda: [x(5, 3, 8), x(6, 3, 8), x(6, 3, 8)],
    ),
    "mlp": (lambda nn: nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 2)), lambda: [x(3, 4)]),
}


def signs(*shape):
    return torch.randint(2, shape, generator=torch.Generator().manual_seed(4)).float() * 2 - 1


def taxicab(a, b):
    return (a - b).abs().sum(-1)


def weights(nn):
    """Weights of four classes, of the library that ``nn`` belongs to."""
    values = [0.5, 1.0, 2.0, 0.25]
    if nn is torch.nn:
        return torch.tensor(values)
    import torchlette

    return torchlette.tensor(values)


@pytest.mark.parametrize("name", MODULES)
def test_output_and_gradients(name):
    make, inputs = MODULES[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected, got = pair(make)
        check_call(expected, got, *inputs())


@pytest.mark.parametrize("name", MODULES)
def test_repr_and_keys(name):
    expected, got = pair(MODULES[name][0])
    assert repr(got) == repr(expected)
    assert list(got.state_dict()) == list(expected.state_dict())
    assert [n for n, _ in got.named_parameters()] == [n for n, _ in expected.named_parameters()]
    assert dict(got.state_dict()._metadata) == dict(expected.state_dict()._metadata)


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("average", [True, False])
def test_attention_masks(need_weights, average):
    expected, got = pair(lambda nn: nn.MultiheadAttention(8, 2))
    from module_oracle import ours

    mask = torch.triu(torch.ones(4, 4, dtype=torch.bool), 1)
    padding = torch.tensor([[False, False, False, True], [False, False, True, True]])
    value = x(4, 2, 8, grad=False)
    options = {"need_weights": need_weights, "average_attn_weights": average}
    want = expected(value, value, value, attn_mask=mask, key_padding_mask=padding, **options)
    have = got(ours(value), ours(value), ours(value), attn_mask=ours(mask), key_padding_mask=ours(padding), **options)
    for w, h in zip(want, have, strict=True):
        assert (w is None) == (h is None)
        if w is not None:
            torch.testing.assert_close(torch.tensor(h.detach().tolist()), w.detach())


def test_dropout_trains():
    import torchlette as tl

    tl.manual_seed(0)
    module = tl.nn.Dropout(0.25)
    kept = module(tl.ones(4000))
    values = set(round(v, 5) for v in kept.tolist())
    assert values == {0.0, round(1 / 0.75, 5)}
    assert 0.70 < sum(v != 0 for v in kept.tolist()) / 4000 < 0.80


@pytest.mark.parametrize("name", ["Dropout1d", "Dropout2d", "Dropout3d", "FeatureAlphaDropout"])
def test_channels_are_dropped_whole(name):
    import torchlette as tl

    tl.manual_seed(0)
    shape = {"Dropout1d": (40, 50, 3), "Dropout2d": (40, 50, 2, 2), "Dropout3d": (40, 50, 2, 2, 2)}.get(
        name, (40, 50, 3)
    )
    result = getattr(tl.nn, name)(0.25)(tl.ones(*shape)).reshape(40, 50, -1)
    assert tl.equal(result, result[:, :, :1].expand_as(result))
    values = sorted(set(round(v, 4) for v in result[:, :, 0].reshape(-1).tolist()))
    assert len(values) == 2
    dropped = (result[:, :, 0] < values[1] - 1e-3).float().mean().item()
    assert 0.2 < dropped < 0.3


def test_alpha_dropout_keeps_mean_and_variance():
    import torchlette as tl

    tl.manual_seed(0)
    result = tl.nn.AlphaDropout(0.3)(tl.randn(40000))
    assert abs(result.mean().item()) < 0.03
    assert abs(result.std().item() - 1) < 0.03


def test_random_slopes():
    import torchlette as tl

    tl.manual_seed(0)
    result = tl.nn.RReLU(0.2, 0.6)(tl.full((4000,), -1.0))
    assert -0.6 <= result.min().item() < -0.58
    assert -0.22 < result.max().item() <= -0.2


def test_gumbel_softmax():
    import torchlette as tl

    tl.manual_seed(0)
    logits = tl.tensor([0.1, 0.6, 0.3]).log().expand(4000, 3).clone().requires_grad_()
    hard = tl.nn.functional.gumbel_softmax(logits, tau=0.5, hard=True)
    assert hard.sum(1).tolist() == pytest.approx([1.0] * 4000, abs=1e-5)
    assert hard.mean(0).tolist() == pytest.approx([0.1, 0.6, 0.3], abs=0.03)
    (hard * tl.tensor([1.0, 2.0, 3.0])).sum().backward()
    assert logits.grad.abs().max().item() > 0


@pytest.mark.parametrize(
    "name",
    [
        "ReLU",
        "ReLU6",
        "LeakyReLU",
        "ELU",
        "CELU",
        "SELU",
        "SiLU",
        "Mish",
        "Hardtanh",
        "Hardsigmoid",
        "Hardswish",
        "Threshold",
    ],
)
def test_activations_in_place_differentiate(name):
    """The output of the layer before is overwritten."""
    options = (0.1, 2.0) if name == "Threshold" else ()
    check_call(*pair(lambda nn: nn.Sequential(nn.Linear(6, 6), getattr(nn, name)(*options, inplace=True))), x(4, 6))


@pytest.mark.parametrize(
    "options",
    [{"max_norm": 0.5}, {"max_norm": 1.0, "norm_type": 1.0}, {"scale_grad_by_freq": True}, {"padding_idx": 1}],
    ids=str,
)
@pytest.mark.parametrize("kind", ["Embedding", "EmbeddingBag"])
def test_embedding_options(kind, options):
    """Rows are renormalised in the table, and gradients divided by frequencies."""
    expected, got = pair(lambda nn: getattr(nn, kind)(5, 3, **options))
    assert repr(expected) == repr(got)
    check_call(expected, got, torch.tensor([[0, 1, 1], [4, 0, 1]]))
    torch.testing.assert_close(theirs(got.weight), expected.weight.detach())


@pytest.mark.parametrize(
    "bad",
    [
        lambda t: t.nn.functional.pad(t.ones(2), (1,)),
        lambda t: t.nn.functional.pad(t.ones(2), (1, 1, 1, 1)),
        lambda t: t.nn.functional.pad(t.ones(2), (-1, -2)),
        lambda t: t.nn.functional.pad(t.ones(1, 2), (2, 0), "reflect"),
        lambda t: t.nn.functional.pad(t.ones(1, 2), (3, 0), "circular"),
        lambda t: t.nn.functional.pad(t.ones(2), (1, 1), "reflect"),
        lambda t: t.nn.functional.pad(t.ones(1, 1, 2), (1, 1), "mirror"),
        lambda t: t.nn.functional.interpolate(t.ones(1, 1, 2)),
        lambda t: t.nn.functional.interpolate(t.ones(1, 1, 2), 2, 2),
        lambda t: t.nn.functional.interpolate(t.ones(1, 1, 2), (2, 2)),
        lambda t: t.nn.functional.interpolate(t.ones(1, 1, 2), 0),
        lambda t: t.nn.functional.interpolate(t.ones(1, 1, 2), 2, align_corners=True),
        lambda t: t.nn.functional.interpolate(t.ones(1, 1, 2), 2, mode="bilinear"),
    ],
)
def test_errors_of_padding_and_resampling(bad):
    import torchlette as tl

    with pytest.raises(Exception) as want:
        bad(torch)
    with pytest.raises(want.type):
        bad(tl)
