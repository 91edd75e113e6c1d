"""Transformers: output, gradients, keys, repr and errors are PyTorch's, with and without masks."""

from __future__ import annotations

import warnings

import pytest

torch = pytest.importorskip("torch")

from module_oracle import check_call, ours, pair, theirs  # noqa: E402

import torchlette as tl  # noqa: E402
import torchlette.nn  # noqa: E402


def x(*shape, seed=1):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).requires_grad_()


def causal(n):
    return torch.ones(n, n, dtype=torch.bool).triu(1)


PADDING = torch.tensor([[False, False, False, False], [False, False, True, True]])


def nn_mask(n):
    return torch.nn.Transformer.generate_square_subsequent_mask(n)


MODULES = {
    "encoder_layer": (lambda nn: nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0), lambda: [x(4, 2, 8)]),
    "encoder_layer_first": (
        lambda nn: nn.TransformerEncoderLayer(
            8, 2, 16, dropout=0.0, activation="gelu", norm_first=True, batch_first=True, bias=False
        ),
        lambda: [x(2, 4, 8), causal(4)],
    ),
    "encoder": (
        lambda nn: nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0), 2, nn.LayerNorm(8)),
        lambda: [x(4, 2, 8), causal(4), PADDING],
    ),
    "decoder_layer": (
        lambda nn: nn.TransformerDecoderLayer(8, 2, 16, dropout=0.0, norm_first=True),
        lambda: [x(4, 2, 8), x(5, 2, 8), causal(4), None, PADDING],
    ),
    "decoder": (
        lambda nn: nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2, 16, dropout=0.0), 2),
        lambda: [x(4, 2, 8), x(5, 2, 8)],
    ),
    "transformer": (
        lambda nn: nn.Transformer(8, 2, 1, 2, 16, dropout=0.0, batch_first=True),
        lambda: [x(2, 3, 8), x(2, 4, 8), None, nn_mask(4)],
    ),
}


@pytest.mark.parametrize("name", MODULES)
def test_output_and_gradients(name):
    make, inputs = MODULES[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected, got = pair(make)
        values = inputs()
        while values and values[-1] is None:
            values.pop()
        named = {}
        if None in values:  # the oracle takes tensors only
            forward = list(expected.forward.__code__.co_varnames[1:])
            named = {k: v for k, v in zip(forward, values, strict=False) if v is not None}
            want, have = expected(**named), got(**{k: ours(v) for k, v in named.items()})
            torch.testing.assert_close(theirs(have), want.detach())
        else:
            check_call(expected, got, *values)


@pytest.mark.parametrize("name", MODULES)
def test_repr_and_keys(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected, got = pair(MODULES[name][0])
    assert list(got.state_dict()) == list(expected.state_dict())
    assert repr(got) == repr(expected)


@pytest.mark.parametrize(
    "bad",
    [
        lambda t: t.nn.TransformerEncoderLayer(8, 2, activation="sin"),
        lambda t: t.nn.Transformer(8, 2, 1, 1, 8)(t.ones(3, 2, 8), t.ones(3, 1, 8)),
        lambda t: t.nn.Transformer(8, 2, 1, 1, 8)(t.ones(3, 2, 8), t.ones(3, 2, 4)),
    ],
)
def test_errors(bad):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(Exception) as want:
            bad(torch)
        with pytest.raises(want.type):
            bad(tl)


@pytest.mark.parametrize(
    "change",
    [{}, {"norm_first": True}, {"nhead": 1}, {"batch_first": False}, {"bias": False}, {"activation": "tanh"}],
    ids=lambda change: next(iter(change), "plain"),
)
@pytest.mark.parametrize("nested", [True, False])
def test_padding_of_encoders_in_evaluation(change, nested):
    """Results at padding are 0 where PyTorch computes on nested tensors, in evaluation without gradients."""
    options = {"d_model": 8, "nhead": 2, "dim_feedforward": 16, "dropout": 0.0, "batch_first": True} | change
    for padding in (PADDING[:, :4], torch.tensor([[False] * 4, [True, False, False, True]])):
        theirs_, ours_ = [], []
        for lib, out in ((torch, theirs_), (tl, ours_)):
            own = options | ({"activation": lib.tanh} if "activation" in change else {})
            encoder = lib.nn.TransformerEncoder(lib.nn.TransformerEncoderLayer(**own), 2, enable_nested_tensor=nested)
            for k, p in enumerate(encoder.parameters()):
                p.data = (lib.arange(p.numel(), dtype=lib.float32) * (k + 1)).sin().reshape(p.shape) * 0.3
            src, mask = lib.tensor(x(2, 4, 8).detach().numpy()), lib.tensor(padding.numpy())
            if not own["batch_first"]:
                src = src.transpose(0, 1)
            out.append(encoder(src, src_key_padding_mask=mask))
            encoder.eval()
            out.append(encoder(src, src_key_padding_mask=mask))
            with lib.no_grad():
                out += [encoder(src, src_key_padding_mask=mask), encoder(src)]
        for want, got in zip(theirs_, ours_, strict=True):
            torch.testing.assert_close(torch.tensor(got.detach().numpy()), want.detach(), rtol=1e-4, atol=1e-5)
