"""onnx.export: files that onnx.checker accepts, and with which onnxruntime gives this library's results."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest

import torchlette
import torchlette.onnx
import torchlette.torch as facade
from torchlette import lax, nn
from torchlette.nn import functional as F


class Net(nn.Module):
    def __init__(self, function, **modules):
        super().__init__()
        self.function = function
        for name, module in modules.items():
            setattr(self, name, module)

    def forward(self, *args):
        return self.function(self, *args)


def _attention(self, x):
    b, t, d = x.shape
    q, k, v = self.qkv(x).view(b, t, 3, 2, d // 2).permute(2, 0, 3, 1, 4).unbind(0)
    mask = torchlette.ones(t, t, device="cpu").tril() > 0
    y = F.scaled_dot_product_attention(q, k, v, is_causal=True) + F.scaled_dot_product_attention(
        q, k, v, attn_mask=mask
    )
    places = torchlette.arange(t, device="cpu")
    return (
        self.norm(y.transpose(1, 2).reshape(b, t, d) + self.places(places)),
        y.mean(-1),
        x[:, -1, ::2],
        x[..., None, 0],
    )


def _writes(self, x):
    y = x * 2
    y[:, 0] = 5.0
    y[1:, 1:3].mul_(x[1:, 1:3])
    z = y.t()
    y.add_(1)
    return y, z, y[[0, 1], 1:]


def _numbers(self, x):
    return (
        x.var(0),
        x.std(1, unbiased=False),
        x.sort(-1)[0],
        x.topk(2)[1],
        (x > 0) & (x.long() != 1),
        x.long() // 2,
        x.remainder(0.7),
        x.cumsum(0).clamp(-1, 1),
        torchlette.cat([x, x.flip(1)], 1).chunk(2, 1)[1],
        torchlette.where(x > 0, x, 0.0).amax(0),
        x.unsqueeze(1).expand(-1, 3, -1).sum((0, 1)),
        F.pad(x, (1, 2), value=3.0).roll(1, 1),
        x.max(1)[1],
        F.softplus(x, 2.0) + F.gelu(x, approximate="tanh") + F.hardtanh(x),
        x.gather(1, x.argmax(1, keepdim=True)),
        x.half().float().log_softmax(-1),
        x.new_full((2, 2), 3.0).matmul(x[:2]),
    )


def _elements(self, x):
    wide = torchlette.cat([x, x * 0, x / 0])
    return (
        F.logsigmoid(x),
        (x * 3).trunc(),
        (x * 3).frac(),
        F.glu(x),
        x.T,
        wide.nan_to_num(),
        wide.nan_to_num(1.0, 2.0, -2.0),
        wide.isfinite(),
        F.softshrink(x),
        F.hardshrink(x),
        F.threshold(x, 0.1, 2.0),
        torchlette.atan2(x, x.flip(1)),
        torchlette.atan2(x, torchlette.zeros_like(x)),
        x.long() << 2,
        (x * 9).long() >> 1,
        torchlette.eye(3, device="cpu"),
        torchlette.linspace(-1, 2, 7, device="cpu"),
    )


def _choices(self, x, i):
    return (
        torchlette.take_along_dim(x, i[:, None], 1),
        torchlette.take_along_dim(x, i),
        x.argsort(1),
        x.argsort(0, descending=True),
        *x.aminmax(dim=1, keepdim=True),
        *x.aminmax(),
        x.repeat_interleave(3),
        x.repeat_interleave(2, 1),
        F.one_hot(i, 5),
        torchlette.bucketize(x, torchlette.tensor([-1.0, 0.0, 1.0], device="cpu")),
        torchlette.bucketize(i, torchlette.tensor([0.0, 1.0, 3.0], device="cpu"), right=True),
        torchlette.linalg.det(x[:, :3] @ x[:, :3].mT + torchlette.eye(3, device="cpu")),
    )


def _compared(self, x, y, i):
    return (
        F.nll_loss(x.log_softmax(1), i),
        F.nll_loss(x.log_softmax(1), i, reduction="none"),
        F.smooth_l1_loss(x, y * 3),
        F.smooth_l1_loss(x, y, beta=0.3, reduction="sum"),
        F.huber_loss(x, y, delta=0.5, reduction="none"),
        F.binary_cross_entropy_with_logits(x * 30, (y > 0).float()),
        F.kl_div(x, (y > 0) * y),
        F.kl_div(x, y, log_target=True, reduction="sum"),
        F.cosine_similarity(x, y),
        F.pairwise_distance(x, y, keepdim=True),
        torchlette.cdist(x, y),
        torchlette.cdist(x, y, 1),
    )


def _placed(self, x, grid):
    return (
        F.grid_sample(x, grid, align_corners=False),
        F.grid_sample(x, grid, "nearest", "border", align_corners=True),
        F.grid_sample(x, grid, "bicubic", "reflection", align_corners=False),
        F.affine_grid(grid[:, :2, :3, 0], (2, 3, 4, 5), align_corners=False),
        *F.adaptive_max_pool2d(x, (3, 4), return_indices=True),
    )


def _put(x, where, values):
    y = x.clone()
    y[where] = values
    return y


def _indexed(self, x, i, k):
    """Tensor ``x`` is [3, 4, 5], ``i`` two numbers below 3, ``k`` four in a square."""
    y = torchlette.arange(40.0, device="cpu").reshape(2, 2, 2, 5)
    return (
        _put(x, i, 1.0),
        _put(x, k, y[:, :, :, None].sum(2).expand(2, 2, 4, 5)),
        _put(x, (slice(None), k), y[0, 0, 0]),
        _put(x, (slice(None), slice(None), k), x.sum(-1)[:, :, None, None]),
        _put(x, (i, slice(None), -i - 1), x[:2, :, 0]),
        _put(x, (k, slice(None), i), y[..., :4].sum(2)),
        _put(x, (i[:, None], k[0]), y[0]),
        x.index_put((torchlette.zeros_like(i),), x[0], accumulate=True),
        (x > 0).index_put((i,), (x < 0)[0]),
        x.index_copy(1, i, x[:, 2:] * 2),
        x.index_fill(-1, i, 3.0),
        x.index_add(1, i, x[:, :2], alpha=3),
        x.scatter(1, k[None], x),
        x.scatter(1, k[None], 4.0),
        x.scatter_add(0, k[None], x),
        *(x.scatter_reduce(0, k[None], x, how) for how in ("sum", "prod", "amax", "amin")),
        x.masked_scatter(x > 0, torchlette.arange(60.0, device="cpu")),
        x.masked_scatter((x > 0)[0, 0], torchlette.arange(60.0, device="cpu")),
    )


def _turned(self, x):
    return (
        *(x.rot90(turns, (2, 0)) for turns in range(-1, 4)),
        *(x.diagonal(offset, 2, 0) for offset in (-2, 0, 1)),
        *(torchlette.diag(x[0, 0], offset) for offset in (-1, 0, 2)),
        torchlette.diag(x[0], 1),
        x[0].trace(),
        F.unfold(x[None], (2, 3), dilation=(2, 1), padding=(1, 0), stride=(1, 2)),
        F.fold(F.unfold(x[None], 2), (4, 5), 2),
        *torchlette.meshgrid(x[0, 0], x[1, :, 0], x[:, 0, 0], indexing="xy"),
        *torchlette.meshgrid(x[0, 0], x[1, :, 0], indexing="ij"),
    )


def _ranked(self, x):
    edges = torchlette.arange(5.0, device="cpu") - 2
    return (
        x.median(1, True)[0],
        x.median(),
        *x.kthvalue(3, 1, keepdim=True),
        x.kthvalue(2)[0],
        torchlette.searchsorted(edges, x, right=True),
        torchlette.searchsorted(x.sort(-1)[0], x, side="right"),
        torchlette.searchsorted(x, x, sorter=x.argsort(-1)),
        torchlette.searchsorted(edges, x[0, 0, 0], out_int32=True),
    )


def _conditions(self, x):
    def several(a):
        return a + 1, a.sum(0)

    return (
        *lax.cond(x.sum() > 0, several, lambda a: (a.sin(), a[0]), x),
        *lax.cond(x.sum() <= 0, several, lambda a: (a.sin(), a[0]), x),
        lax.switch((x.sum() > 0).long() + 1, [lambda a: a, lambda a: a * 2, lambda a: a - 7], x),
    )


def _inner(c, a):
    b = c.clone()
    b[0] = a[1]
    b.add_(lax.fori_loop(0, 3, lambda i, d: d * 0.5 + a + i, c))
    return b, lax.cond(a.sum() > 0, lambda q: q + 1, lambda q: q.sin(), b)


def _loops(self, x):
    return (
        *lax.scan(lambda c, a: (c + a, c * 2), x[0], x),
        *lax.scan(lambda c, a: (c + a, (c * 2, a.sum(0))), x[0], x, reverse=True)[1],
        *lax.scan(_inner, x[0], x),
        *lax.while_loop(lambda c: c[0].sum() < 10, lambda c: (c[0] + 1, c[1] * 2), (x, x)),
        lax.while_loop(lambda c: c.sum() < -1e9, lambda c: c + 1, x),
        lax.fori_loop(0, (x[0, 0, 0] * 0).long() + 4, lambda i, c: c + i, x),
        lax.map(lambda a: a.softmax(-1), x),
    )


def modules():
    def image():
        return torchlette.randn(2, 3, 12, 12, device="cpu")

    cnn = nn.Sequential(
        nn.Conv2d(3, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 4, 3, 2, 1, groups=2)
    )
    more = nn.Sequential(nn.GroupNorm(2, 4), nn.SiLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3))
    yield "cnn", nn.Sequential(*cnn, *more), (image(),), {0: "n"}
    up = nn.Sequential(nn.ConvTranspose2d(3, 4, 2, stride=2), nn.InstanceNorm2d(4), nn.AvgPool2d(3, 2, 1), nn.PReLU())
    yield "up", up, (image(),), {0: "n"}
    parts = {"qkv": nn.Linear(8, 24), "norm": nn.LayerNorm(8), "places": nn.Embedding(64, 8)}
    yield "attention", Net(_attention, **parts), (torchlette.randn(2, 5, 8, device="cpu"),), {0: "n", 1: "t"}
    yield "lstm", nn.LSTM(4, 5, bidirectional=True), (torchlette.randn(3, 2, 4, device="cpu"),), {}
    yield "gru", nn.GRU(4, 5, batch_first=True), (torchlette.randn(2, 3, 4, device="cpu"),), {}
    yield "writes", Net(_writes), (torchlette.randn(3, 4, device="cpu"),), {0: "n"}
    yield "numbers", Net(_numbers), (torchlette.randn(5, 4, device="cpu"),), {}
    yield "rms", nn.Sequential(nn.RMSNorm(4), nn.Softmax(-1)), (torchlette.randn(3, 4, device="cpu"),), {0: "n"}

    x, i = torchlette.randn(3, 4, device="cpu"), torchlette.tensor([2, 0, 1], device="cpu")
    yield "elements", Net(_elements), (x,), {}
    yield "choices", Net(_choices), (x, i), {}
    yield "compared", Net(_compared), (x, torchlette.randn(3, 4, device="cpu"), i), {}
    block, k = torchlette.randn(3, 4, 5, device="cpu"), torchlette.tensor([[0, 1], [2, 0]], device="cpu")
    yield "indexed", Net(_indexed), (block, i[:2], k), {}
    for name, function in (("turned", _turned), ("ranked", _ranked), ("conditions", _conditions), ("loops", _loops)):
        yield name, Net(function), (block,), {}
    yield "placed", Net(_placed), (image(), torchlette.rand(2, 4, 4, 2, device="cpu") * 2 - 1), {}


def case(name):
    torchlette.manual_seed(0)
    return next((module.to("cpu").eval(), args, dims) for label, module, args, dims in modules() if label == name)


NAMES = ("cnn", "up", "attention", "lstm", "gru", "writes", "numbers", "rms")
MORE = ("elements", "choices", "compared", "placed", "indexed", "turned", "ranked", "conditions", "loops")


def leaves(value):
    if isinstance(value, torchlette.Tensor):
        return [value]
    return [leaf for item in value for leaf in leaves(item)]


def run(path, *arrays):
    onnx.checker.check_model(onnx.load(path), full_check=True)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    session = onnxruntime.InferenceSession(path, options)
    feeds = {i.name: a.detach().numpy() for i, a in zip(session.get_inputs(), arrays, strict=True)}
    return session, session.run(None, feeds)


def compare(found, want):
    for got, expected in zip(found, leaves(want), strict=True):
        expected = expected.detach().numpy()
        assert (got.dtype, got.shape) == (expected.dtype, expected.shape)
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_onnxruntime_gives_the_module_s_results(name, tmp_path):
    module, args, dims = case(name)
    shapes = [{d: torchlette.export.Dim(label) for d, label in dims.items()}] if dims else None
    path = str(tmp_path / "m.onnx")
    torchlette.onnx.export(module, args, path, input_names=["x"], dynamic_shapes=shapes)
    session, found = run(path, *args)
    compare(found, module(*args))
    (x,) = args
    assert session.get_inputs()[0].shape == [dims.get(d, n) for d, n in enumerate(x.shape)]
    again = torchlette.onnx.load(path)
    compare([t.detach().numpy() for t in leaves(again.module()(*args))], module(*args))
    if dims:
        wider = torchlette.cat([x, x + 1, x * 2]) if 1 not in dims else torchlette.cat([x, x], 1)
        compare(run(path, wider)[1], module(wider))


@pytest.mark.parametrize("name", MORE)
def test_operators_that_take_several_of_onnx_have_the_module_s_results(name, tmp_path):
    module, args, _ = case(name)
    path = str(tmp_path / "m.onnx")
    torchlette.onnx.export(module, args, path)
    want = module(*args)
    compare(run(path, *args)[1], want)
    again = torchlette.onnx.load(path).module()(*args)
    for got, expected in zip(leaves(again), leaves(want), strict=True):
        np.testing.assert_allclose(got.detach().numpy(), expected.detach().numpy(), rtol=1e-4, atol=1e-5)


def test_names_and_pytorch_s_arguments(tmp_path):
    path = str(tmp_path / "m.onnx")
    model = nn.Linear(4, 2, device="cpu")
    x = torchlette.randn(3, 4, device="cpu")
    facade.onnx.export(model, x, path, input_names=["a"], output_names=["b"], dynamic_axes={"a": {0: "rows"}})
    session, found = run(path, x)
    assert [o.name for o in session.get_outputs()] == ["b"]
    assert session.get_inputs()[0].shape == ["rows", 4]
    compare(found, model(x))
    assert {t.name for t in onnx.load(path).graph.initializer} >= {"weight", "bias"}


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (lambda x: torchlette.linalg.svdvals(x), "svd"),
        (lambda x: x.clone().i0_(), "i0"),
        (lambda x: x.add_(1), "in place to an input"),
        (lambda x: x.mT.contiguous().mT.as_strided((2, 2), (1, 2)), "not the result of contiguous"),
    ],
)
def test_what_onnx_has_no_form_for_is_named(function, text, tmp_path):
    with pytest.raises(NotImplementedError, match=text):
        torchlette.onnx.export(function, (torchlette.ones(3, 3, device="cpu"),), tmp_path / "m.onnx")


def test_wrong_numbers_of_names_are_refused(tmp_path):
    with pytest.raises(ValueError, match="2 inputs|1 inputs"):
        torchlette.onnx.export(
            lambda x: x + 1, (torchlette.ones(3, device="cpu"),), tmp_path / "m.onnx", input_names=["a", "b"]
        )


def test_a_scan_of_any_length_is_one_loop(tmp_path):
    weight = torchlette.randn(5, 5, device="cpu")

    def rnn(x):
        return lax.scan(lambda h, a: ((a @ weight + h).tanh(), a.sum() + h), x[0] * 0, x)

    path = str(tmp_path / "m.onnx")
    x, longer = torchlette.randn(3, 4, 5, device="cpu"), torchlette.randn(7, 4, 5, device="cpu")
    torchlette.onnx.export(rnn, (x,), path, dynamic_shapes=({0: torchlette.export.Dim("n", min=2, max=50)},))
    compare(run(path, longer)[1], rnn(longer))
    assert [n.op_type for n in onnx.load(path).graph.node].count("Loop") == 1


def test_a_branch_is_an_if(tmp_path):
    path = str(tmp_path / "m.onnx")
    x = torchlette.ones(3, device="cpu")
    torchlette.onnx.export(lambda x: lax.cond(x.sum() > 0, lambda a: a + 1, lambda a: a - 1, x), (x,), path)
    kinds = {n.op_type for n in onnx.load(path).graph.node}
    assert "If" in kinds
    assert "Loop" not in kinds
    for sign in (1, -1):
        np.testing.assert_array_equal(run(path, x * sign)[1][0], (x * sign + sign).numpy())
