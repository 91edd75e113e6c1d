"""Files of ``torch.export.save``: results and gradients equal PyTorch's."""

from __future__ import annotations

import io
import json
import zipfile

import pytest
import torch
from torch import nn
from torch._higher_order_ops.scan import scan
from torch.nn import functional as F

import torchlette
from torchlette._import.pt2 import read_module


class Net(nn.Module):
    """A module of a function; the modules that it uses are its own."""

    def __init__(self, function, **modules):
        super().__init__()
        self.function = function
        for name, module in modules.items():
            if isinstance(module, torch.Tensor):
                self.register_buffer(name, module)
            else:
                setattr(self, name, module)

    def forward(self, *args):
        return self.function(self, *args)


class Attention(nn.Module):
    def __init__(self, dim=16, heads=4):
        super().__init__()
        self.qkv, self.out, self.heads = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim), heads

    def forward(self, x, mask):
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        scores = (q @ k.transpose(-2, -1) / 2.0).masked_fill(~mask, float("-inf")).softmax(-1)
        return self.out((y + scores @ v).transpose(1, 2).reshape(b, t, d))


def _cond(self, x):
    return torch.cond(x.sum() > 0, lambda x: x * 2, lambda x: x - 1, (x,))


def _scan(self, x):
    w = x.sum()
    return scan(lambda c, r: (c * 0.5 + r * w, c.sin()), torch.zeros(4), x, dim=0, reverse=True)


def _indexing(self, x):
    rows = torch.tensor([0, 2, 1])
    y = x[rows, 1:3].clone()
    y[:, 0] = 5.0
    y[1:] += x[:2, ::2][:, :2]
    return y, x[..., None, -1], torch.where(x > 0, x, 0.0), x.new_zeros(2), torch.arange(x.shape[0])


def _nest(self, x, pair, *, flag=None):
    return {"a": x + pair[0], "b": [pair[1]["c"].cumsum(0), None, 3]}


class InPlace(nn.Module):
    """Activations that write into their argument, also through a view of it."""

    def __init__(self):
        super().__init__()
        kinds = (nn.SiLU, nn.Hardswish, nn.Mish, nn.ReLU6, nn.Hardsigmoid, nn.CELU, nn.SELU, nn.Hardtanh)
        self.layers = nn.ModuleList(nn.Sequential(nn.Linear(4, 4), kind(inplace=True)) for kind in kinds)

    def forward(self, x):
        for layer in self.layers:
            x = x + layer(x)
        rows = x * 1.0
        F.silu(rows[1:, ::2], inplace=True)
        torch.ops.aten.gelu_(rows[2, :3])
        return x, rows


def _spectra(self, x):
    window = torch.hann_window(8)
    frames = torch.stft(x, 8, hop_length=2, window=window, return_complex=True)
    back = torch.istft(frames, 8, hop_length=2, window=window)
    left = torch.stft(x, 8, hop_length=4, center=False, return_complex=True)
    shifted = torch.fft.fftshift(torch.fft.fft(x, dim=-1), dim=-1).abs() * torch.fft.fftfreq(x.shape[-1])
    return (
        torch.view_as_real(frames),
        back,
        torch.view_as_real(left),
        shifted,
        frames.mT.abs(),
        torch.fft.irfft2(frames, s=(17, 9)),
    )


def _more_losses(self, x, t):
    return (
        F.multi_margin_loss(x, t, margin=0.5),
        F.multilabel_margin_loss(x, F.pad(t[:, None], (0, 3), value=-1)),
        F.poisson_nll_loss(x, x.abs(), full=True),
        F.triplet_margin_loss(x, x * 2, x.flip(0), reduction="sum"),
    )


def _unpooled(self, x):
    pooled, places = F.max_pool2d(x, 2, return_indices=True)
    volume, inside = F.max_pool3d(x[None], 2, return_indices=True)
    return F.max_unpool2d(pooled, places, 2), F.max_unpool3d(volume, inside, (2, 2, 2), output_size=x[None].shape)


def _accumulated(self, x):
    rows, columns = torch.tensor([[0, 2], [1, 0], [2, 2]]), torch.tensor([1, 1])
    y, z = x.new_zeros(5, 4, 3, 4), x.new_zeros(3, 4, 2, 4)
    put = torch.ops.aten.index_put_
    put(y, [None, columns, columns], x[:1, :1].expand(5, 2, 4), True)
    put(z, [rows, None, columns, None], x[:, None, None].expand(3, 2, 4, 4), True)
    return y, z, torch.ops.aten.index_put(x, [None, columns], x[:, :2], True), put(x * 2, [None, columns], x[:, :1])


def _special(self, x):
    return (
        torch.special.hermite_polynomial_h(x, 2),
        torch.histogram(x.detach(), bins=4, range=(-1.0, 1.0))[0],
        torch.ops.aten.native_channel_shuffle(x.view(1, 4, 3), 2),
    )


x34 = torch.randn(3, 4)
IMAGE = torch.randn(2, 3, 12, 12)
CASES = {
    "mlp": (nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 2), nn.Softmax(-1)), (x34,)),
    "cnn": (
        nn.Sequential(
            nn.Conv2d(3, 6, 3, padding=1, bias=False),
            nn.BatchNorm2d(6),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(6, 4, 3, stride=2, groups=2, padding=1),
            nn.GroupNorm(2, 4),
            nn.SiLU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
        ).eval(),
        (IMAGE,),
    ),
    "more_layers": (
        nn.Sequential(
            nn.ConvTranspose2d(3, 4, 2, stride=2),
            nn.InstanceNorm2d(4, affine=True),
            nn.ReflectionPad2d(1),
            nn.Upsample(scale_factor=2, mode="bilinear"),
            nn.AvgPool2d(2, ceil_mode=True),
            nn.ZeroPad2d((1, 0, 2, 1)),
            nn.Hardswish(),
            nn.PReLU(),
            nn.LogSoftmax(1),
        ),
        (IMAGE,),
    ),
    "encoder_layer": (nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True), (torch.randn(2, 5, 16),)),
    "lstm": (nn.LSTM(4, 5, num_layers=2, bidirectional=True, batch_first=True), (torch.randn(2, 3, 4),)),
    "gru": (nn.GRU(4, 5), (torch.randn(3, 2, 4), torch.randn(1, 2, 5))),
    "attention": (Attention(), (torch.randn(2, 5, 16), torch.ones(5, 5, dtype=torch.bool).tril())),
    "embedding": (
        Net(lambda s, i: s.e(i).mean(1) + s.b(i), e=nn.Embedding(10, 4), b=nn.EmbeddingBag(10, 4, mode="sum")),
        (torch.randint(0, 10, (3, 5)),),
    ),
    "indexing": (Net(_indexing), (x34,)),
    "cond": (Net(_cond), (x34,)),
    "scan": (Net(_scan), (x34,)),
    "in_place": (InPlace(), (x34,)),
    "spectra": (Net(_spectra), (torch.randn(2, 32),)),
    "more_losses": (Net(_more_losses), (torch.randn(12, 4), torch.randint(0, 4, (12,)))),
    "unpooled": (Net(_unpooled), (IMAGE,)),
    "accumulated": (Net(_accumulated), (x34,)),
    "special": (Net(_special), (x34,)),
    "nest": (Net(_nest), (x34, (torch.ones(4), {"c": torch.arange(4)}))),
    "losses": (
        Net(lambda s, x, t: (F.cross_entropy(x, t, label_smoothing=0.1), F.mse_loss(x, x * 2), F.nll_loss(x, t))),
        (x34, torch.tensor([0, 3, 1])),
    ),
    "numbers": (
        Net(
            lambda s, x: (
                x.sort(-1).values.topk(2).values,
                x.std(0),
                x.var(dim=1, unbiased=False),
                x.to(torch.float16).float().clamp(-1, 1),
                torch.einsum("ij,kj->ik", x, s.c),
                torch.linalg.vector_norm(x, dim=1),
                x.pow(2).amax(0).rsqrt(),
                torch.cat([x, s.c], 1).chunk(2, 1)[1].roll(1, 0),
                torch.stack([x, -x]).flip(0).repeat(1, 2, 1),
                x.gather(1, torch.ones(3, 1, dtype=torch.long)),
                x.scatter_add(1, torch.zeros(3, 2, dtype=torch.long), x[:, :2]),
                F.pad(x, (1, 2)).unfold(1, 3, 2),
                torch.full((2, 2), 3),
                x.argmax(1) // 2,
            ),
            c=torch.randn(3, 4),
        ),
        (x34,),
    ),
}


def saved(program) -> io.BytesIO:
    f = io.BytesIO()
    torch.export.save(program, f)
    f.seek(0)
    return f


def ours(value):
    if isinstance(value, torch.Tensor):
        return torchlette.tensor(value.detach().numpy(), device="cpu").requires_grad_(value.requires_grad)
    if isinstance(value, dict):
        return {key: ours(item) for key, item in value.items()}
    return type(value)(map(ours, value)) if isinstance(value, (tuple, list)) else value


def check(theirs, found):
    if isinstance(theirs, torch.Tensor):
        assert str(theirs.dtype) == str(found.dtype)
        torch.testing.assert_close(torch.from_numpy(found.detach().numpy()), theirs.detach())
    elif hasattr(theirs, "keys"):
        assert list(theirs.keys()) == list(found.keys())
        for key in theirs.keys():
            check(theirs[key], found[key])
    elif isinstance(theirs, (tuple, list)):
        assert len(theirs) == len(found)
        for a, b in zip(theirs, found, strict=True):
            check(a, b)
    else:
        assert theirs == found


def floats(value):
    if isinstance(value, torch.Tensor) or isinstance(value, torchlette.Tensor):
        return [value] if value.requires_grad else []
    if hasattr(value, "keys"):
        value = list(value.values())
    return [leaf for item in value for leaf in floats(item)] if isinstance(value, (tuple, list)) else []


#: As exported, with in-place and higher-order operators; and core ATen. ``whole`` is between the two.
FORMS = {
    "as_exported": lambda p: p,
    "whole": lambda p: p.run_decompositions({}),
    "core": lambda p: p.run_decompositions(),
}


@pytest.mark.parametrize(
    ("case", "form"), [(case, form) for case in CASES for form in FORMS if form != "whole" or case in ("lstm", "cnn")]
)
def test_imported_module_computes_what_the_exported_one_does(case, form):
    module, args = CASES[case]
    module.zero_grad()
    program = FORMS[form](torch.export.export(module, args))
    imported = read_module(saved(program))
    module_there = program.module()
    theirs, found = module_there(*args), imported.nested(*ours(args))
    check(theirs, found)
    assert set(imported.state_dict()) == set(program.state_dict)
    if not floats(theirs):
        return
    for values in (theirs, found):
        sum((t.mean() for t in floats(values)[1:]), floats(values)[0].mean()).backward()
    grads = dict(imported.named_parameters())
    for name, p in module_there.named_parameters():
        if p.grad is not None:
            check(p.grad, grads[name].grad)


class Decoder(nn.Module):
    """Tokens and places, causal attention with a mask made of sizes, a state that is written."""

    def __init__(self):
        super().__init__()
        self.tokens, self.places, self.attention = nn.Embedding(20, 16), nn.Embedding(64, 16), Attention()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, ids):
        t = ids.shape[1]
        self.calls.add_(1)
        x = self.tokens(ids) + self.places(torch.arange(t))
        x = x + self.attention(x, torch.ones(t, t, dtype=torch.bool).tril())
        return {"logits": x @ self.tokens.weight.t(), "last": x[:, -1], "size": torch.full((t // 2 + 1,), 1.0 / t)}


@pytest.fixture
def decoder(tmp_path):
    dims = {"ids": {0: torch.export.Dim("rows", min=1, max=8), 1: torch.export.Dim("steps", min=2, max=64)}}
    program = torch.export.export(Decoder(), (torch.randint(0, 20, (2, 5)),), dynamic_shapes=dims)
    torch.export.save(program, tmp_path / "m.pt2")
    return program, tmp_path / "m.pt2"


def test_programs_have_the_file_s_names_sizes_and_state(decoder, tmp_path):
    theirs, path = decoder
    program = torchlette.export.load(path)
    assert program.graph_signature.user_inputs == tuple(theirs.graph_signature.user_inputs) == ("ids",)
    assert set(program.state_dict) == set(theirs.state_dict)
    assert program.graph_signature.buffers_to_mutate == ("calls",)
    torchlette.export.save(program, tmp_path / "m.tl")
    for loaded in (program, torchlette.export.load(tmp_path / "m.tl")):
        module = loaded.module()
        for shape in ((2, 5), (1, 9), (3, 2)):
            ids = torch.randint(0, 20, shape)
            check(theirs.module()(ids), module(ours(ids)))
        assert module.state_dict()["calls"].item() == 3
        with pytest.raises(ValueError):
            module(ours(torch.zeros(9, 5, dtype=torch.long)))


def test_programs_train(decoder):
    _, path = decoder
    module = torchlette.export.load(path).module()
    optimizer, ids = torchlette.optim.Adam(module.parameters(), lr=0.01), ours(torch.randint(0, 20, (4, 6)))
    losses = []
    for _ in range(4):
        logits = module(ids)["logits"][:, :-1]
        loss = torchlette.nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[3] < losses[0]


def test_older_archives_are_read(decoder):
    """Weights in a file of ``torch.save``; before, three files of which one has the graph."""
    theirs, path = decoder
    ids = torch.randint(0, 20, (2, 7))
    with zipfile.ZipFile(path) as source:
        graph = source.read(next(n for n in source.namelist() if n.endswith("models/model.json")))
    program = json.loads(graph)
    for node in program["graph_module"]["graph"]["nodes"]:
        node.pop("name")
        for item in node["inputs"]:
            item.pop("kind")
    weights, constants = io.BytesIO(), io.BytesIO()
    torch.save(dict(theirs.state_dict), weights)
    torch.save(dict(theirs.constants), constants)
    layouts = (
        ("m/data/weights/model.pt", "m/data/constants/model.pt", "m/models/model.json"),
        ("serialized_state_dict.pt", "serialized_constants.pt", "serialized_exported_program.json"),
    )
    for names in layouts:
        f = io.BytesIO()
        with zipfile.ZipFile(f, "w") as target:
            for name, data in zip(names, (weights.getvalue(), constants.getvalue(), json.dumps(program)), strict=True):
                target.writestr(name, data)
        check(theirs.module()(ids), read_module(f).nested(ours(ids)))


def test_sessions_standardize_weights_by_a_norm_without_running_statistics(tmp_path):
    """As NFNets do: a batch norm of the weights that trains, in an exported module that evaluates."""

    def forward(self, x):
        conv = self.conv
        w = F.batch_norm(conv.weight.reshape(1, 6, -1), None, None, weight=self.gain, training=True, momentum=0.0)
        return F.conv2d(x, w.reshape_as(conv.weight), conv.bias)

    module = Net(forward, conv=nn.Conv2d(3, 6, 3), gain=torch.rand(6)).eval()
    torch.export.save(torch.export.export(module, (IMAGE,)), tmp_path / "m.pt2")
    session = torchlette.InferenceSession(tmp_path / "m.pt2", device="cpu")
    (found,) = session.run(None, {session.get_inputs()[0].name: IMAGE.numpy()})
    torch.testing.assert_close(torch.from_numpy(found), module(IMAGE).detach())


def test_operators_that_are_not_supported_are_listed():
    class Odd(nn.Module):
        def forward(self, x):
            return torch._sample_dirichlet(x.abs()) + torch.fft.fft(x).real

    with pytest.raises(NotImplementedError, match="_sample_dirichlet"):
        read_module(saved(torch.export.export(Odd(), (x34,))))
