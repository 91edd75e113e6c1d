"""torchlette.quantize: programs and models beside NumPy's arithmetic of the same integers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import torchlette as tl
from torchlette import generation, nn
from torchlette.export import Dim, export, export_training, load, save
from torchlette.quantized import SCHEMES, QuantizedLinear

rng = np.random.default_rng(5)


def bfloat16(x: np.ndarray) -> np.ndarray:
    """Round to bfloat16, halves to even."""
    bits = x.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32)


def reference(w: np.ndarray, scheme: str) -> np.ndarray:
    """Return the weight that a scheme stores, in float64."""
    s = SCHEMES[scheme]
    if s.bits == 8:
        scale = np.abs(w).max(1, keepdims=True) / np.float32(127)
        scale[scale == 0] = 1
        return np.clip(np.rint(w / scale), -127, 127).astype(np.float64) * scale
    out = np.empty(w.shape)
    for at in range(0, w.shape[1], s.group):
        part = w[:, at : at + s.group]
        low, high = part.min(1, keepdims=True), part.max(1, keepdims=True)
        offset = np.zeros_like(low)
        if s.asymmetric:
            middle = (low + high) / 2
            scale = bfloat16((high - low + np.abs(middle) / 256) / 15)
            scale[scale == 0] = 1
            offset = bfloat16(middle + scale / 2)
        else:
            scale = bfloat16(np.abs(part).max(1, keepdims=True) / np.float32(7.5))
            scale[scale == 0] = 1
        numbers = np.clip(np.rint((part - offset) / scale), -8, 7)
        out[:, at : at + s.group] = numbers.astype(np.float64) * scale + offset
    return out


def rows_of_int8(x: np.ndarray, group: int | None) -> np.ndarray:
    """Return what rows stand for whose groups are quantized."""
    out = np.empty(x.shape)
    for at in range(0, x.shape[-1], group or x.shape[-1]):
        part = x[..., at : at + (group or x.shape[-1])]
        top = np.abs(part).max(-1, keepdims=True)
        factor = np.float32(127) / np.where(top == 0, 1, top)
        out[..., at : at + part.shape[-1]] = np.rint(part * factor).astype(np.float64) * (top / np.float32(127))
    return out


@pytest.mark.parametrize("scheme", SCHEMES)
def test_products_are_those_of_the_stored_numbers(device: str, scheme: str) -> None:
    """Sizes beside panels of 16, words and groups; rows of zeros; inputs of several dims, and of half precision."""
    for out, k, lead in ((1, 1, (1,)), (19, 70, (2, 3)), (33, 128, (1,)), (16, 45, (21,))):
        w = rng.standard_normal((out, k)).astype(np.float32)
        w[out // 2] = 0
        bias = rng.standard_normal(out).astype(np.float32)
        layer = QuantizedLinear(tl.tensor(w, device=device), tl.tensor(bias, device=device), scheme)
        stored = reference(w, scheme)
        np.testing.assert_allclose(layer.dequantized().cpu().numpy(), stored, atol=1e-5)
        x = rng.standard_normal((*lead, k)).astype(np.float32)
        x[0] = 0
        given = rows_of_int8(x, SCHEMES[scheme].group) if SCHEMES[scheme].dynamic else x
        got = layer(tl.tensor(x, device=device))
        np.testing.assert_allclose(got.cpu().numpy(), given @ stored.T + bias, rtol=1e-4, atol=2e-4)
    half = layer(tl.tensor(x, device=device).to(tl.bfloat16))
    assert half.dtype == tl.bfloat16
    np.testing.assert_allclose(half.float().cpu().numpy(), got.cpu().numpy(), rtol=0.05, atol=0.2)


def test_a_batch_of_vmap_is_more_rows() -> None:
    """Whatever the batch, the product is recorded once."""
    layer = QuantizedLinear(tl.tensor(rng.standard_normal((20, 30)).astype(np.float32)), None, "int8")
    x = tl.tensor(rng.standard_normal((5, 4, 30)).astype(np.float32))
    batched = tl.func.vmap(layer, in_dims=1, out_dims=1)(x)
    assert tl.explain(batched, program=True)["program"].count("quantized_product") == 1
    np.testing.assert_array_equal(batched.numpy(), layer(x).numpy())


def test_sums_of_int8_are_exact() -> None:
    """Integers with the scale 1 on both sides: the result is NumPy's integer product."""
    w, x = rng.integers(-127, 128, (40, 300)), rng.integers(-127, 128, (9, 300))
    w[:, 0], x[:, 0] = 127, -127
    layer = QuantizedLinear(tl.tensor(w, dtype=tl.float32), None, "int8_dynamic")
    np.testing.assert_array_equal(layer(tl.tensor(x, dtype=tl.float32)).numpy(), x @ w.T)


@pytest.mark.parametrize("scheme", [name for name in SCHEMES if name.startswith("int4")])
def test_errors_of_a_weight_are_within_its_steps(scheme: str) -> None:
    w = rng.standard_normal((24, 100)).astype(np.float32) + np.float32(3 if SCHEMES[scheme].asymmetric else 0)
    found = QuantizedLinear(tl.tensor(w), None, scheme).dequantized().numpy()
    group = SCHEMES[scheme].group
    for at in range(0, 100, group):
        part = w[:, at : at + group]
        span = part.max(1) - part.min(1) if SCHEMES[scheme].asymmetric else 2 * np.abs(part).max(1)
        assert (np.abs(found[:, at : at + group] - part).max(1) <= 0.55 * span / 15).all()


class Layers(nn.Module):
    """Each way to write a product with a constant, and one that is none."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(11, 32)
        self.first = nn.Linear(32, 48)
        self.w = nn.Parameter(tl.randn(48, 32) / 8)
        self.b = nn.Parameter(tl.randn(32))
        self.u = nn.Parameter(tl.randn(32, 32) / 8)

    def forward(self, ids: Any) -> Any:
        x = self.embedding(ids)
        x = self.first(x).relu_() @ self.w
        y = tl.addmm(self.b, x.reshape(-1, 32), self.u.t())
        y = y + self.first.weight[0]
        return y @ self.embedding.weight.t(), y @ y.t()


@pytest.mark.parametrize("scheme", SCHEMES)
def test_programs_are_saved_and_run(tmp_path: Path, scheme: str) -> None:
    """From a module, a session and a file. Dynamic sizes still are, and weights that nothing reads are gone."""
    m = Layers().eval()
    ids = tl.tensor([[1, 2, 3, 4]])
    program = export(m, (ids,), dynamic_shapes=({1: Dim("n", min=2)},))
    quantized, report = tl.quantize(program, scheme, [ids, (tl.tensor([[5, 5]]),), {"ids": np.array([[9, 8, 7]])}])
    assert [r.name for r in report] == ["first.weight", "w", "u", "embedding.weight"]
    limit = 0.02 if scheme.startswith("int8") else 0.2
    for r in report:
        assert 0 < r.weight_error < limit
        assert r.output_error is not None and 0 < r.output_error < limit
    assert "w" not in quantized.state_dict
    assert "first.weight" in quantized.state_dict  # another operator reads it
    save(quantized, tmp_path / "q")
    session = tl.InferenceSession(load(tmp_path / "q"))
    names = [v.name for v in session.get_outputs()]
    for given in (ids, tl.tensor([[10, 0, 2, 2, 7]])):
        with tl.no_grad():
            want, got = m(given), quantized.module()(given)
        found = session.run(names, {"ids": given.numpy()})
        for a, b, c in zip(want, got, found, strict=True):
            np.testing.assert_array_equal(b.numpy(), c)
            assert ((a - b).norm() / a.norm()).item() < 3 * limit


class Parts(nn.Module):
    """Each way to multiply by a part of a matrix, as attention does with one matrix for queries, keys and values."""

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(tl.randn(48, 16) / 4)
        self.u = nn.Parameter(tl.randn(16, 40) / 4)
        self.b = nn.Parameter(tl.randn(48))

    def forward(self, x: Any) -> Any:
        (a, b, _), (c, _, _) = self.w.chunk(3), self.b.chunk(3)
        d, e = self.u.split([10, 30], dim=1)
        y = nn.functional.linear(x, a, c), x @ b.t(), x @ d, x @ e, x @ self.u.narrow(1, -8, 8)
        return (*y, x @ self.w.narrow(0, 8, 5).t(), x @ self.w.tensor_split(2)[1].t())


def test_parts_of_matrices_are_quantized(tmp_path: Path) -> None:
    m, x = Parts().eval(), tl.randn(3, 16)
    quantized, report = tl.quantize(export(m, (x,)), "int8", [x])
    assert [(r.name, r.shape) for r in report] == [
        ("w[0:16, 0:16]", (16, 16)),
        ("w[16:32, 0:16]", (16, 16)),
        ("u[0:16, 0:10]", (10, 16)),
        ("u[0:16, 10:40]", (30, 16)),
        ("u[0:16, 32:40]", (8, 16)),
        ("w[8:13, 0:16]", (5, 16)),
        ("w[24:48, 0:16]", (24, 16)),
    ]
    assert "w" not in quantized.state_dict and "u" not in quantized.state_dict
    save(quantized, tmp_path / "q")
    with tl.no_grad():
        for a, b in zip(m(x), load(tmp_path / "q").module()(x), strict=True):
            assert ((a - b).norm() / a.norm()).item() < 0.02


def test_every_matrix_of_an_encoder_layer_is_quantized() -> None:
    program = export(nn.TransformerEncoderLayer(32, 4, 64, batch_first=True).eval(), (tl.zeros(1, 3, 32),))
    quantized, report = tl.quantize(program, "int4")
    assert len(report) == 6
    assert not any(name.endswith("weight") and t.ndim == 2 for name, t in quantized.state_dict.items())


def test_reports_without_calibration_have_errors_of_weights() -> None:
    program = export(nn.Linear(64, 8).eval(), (tl.zeros(1, 64),))
    _, (layer,) = tl.quantize(program, "int4")
    assert layer.output_error is None
    assert layer.shape == (8, 64)
    assert layer.bytes == 16 * (32 + 2 * 2)
    assert 0 < layer.weight_error < 0.2


@pytest.mark.parametrize("scheme", ["int8", "int4", "int8_dynamic"])
def test_models_generate(device: str, scheme: str) -> None:
    """The quantized weights' values, written into another model of float32, give the same tokens."""
    config = {"model_type": "gpt2", "vocab_size": 61, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64}
    shapes = {"wte.weight": (61, 32), "wpe.weight": (64, 32), "ln_f.weight": (32,), "ln_f.bias": (32,)}
    for i in range(2):
        for name, a, b in (("attn.c_attn", 32, 96), ("attn.c_proj", 32, 32), ("mlp.c_fc", 32, 128)):
            shapes |= {f"h.{i}.{name}.weight": (a, b), f"h.{i}.{name}.bias": (b,)}
        shapes |= {f"h.{i}.mlp.c_proj.weight": (128, 32), f"h.{i}.mlp.c_proj.bias": (32,)}
        shapes |= {f"h.{i}.{ln}.{part}": (32,) for ln in ("ln_1", "ln_2") for part in ("weight", "bias")}
    tensors = {name: tl.tensor(rng.standard_normal(shape).astype(np.float32) / 4) for name, shape in shapes.items()}
    model = generation.build(config, dict(tensors), device=device)
    same, reports = tl.quantize(model, scheme)
    assert same is model
    assert len(reports) == 9
    assert reports[-1].name == "quantized_head"
    logits = model(tl.tensor([[3, 4, 5]], device=device)).cpu()
    want = generation.build(config, dict(tensors), device="cpu")(tl.tensor([[3, 4, 5]]))
    assert ((logits - want).norm() / want.norm()).item() < (0.4 if scheme == "int4" else 0.05)
    ids = tl.generate(model, [[3, 4, 5]], max_new_tokens=4).cpu()
    assert ids[0, :3].tolist() == [3, 4, 5]
    assert ids[0, 3].item() == logits[0, -1].argmax().item()
    half = model.to(tl.float16)(tl.tensor([[3, 4, 5]], device=device)).cpu()
    assert ((half - logits).norm() / logits.norm()).item() < 0.05
    assert tl.generate(model, [[3, 4, 5]], max_new_tokens=4).shape == (1, 7)
    with pytest.raises(ValueError, match="quantized already"):
        tl.quantize(model, scheme)


@pytest.mark.parametrize("dtype", [tl.float16, tl.bfloat16])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_cast_is_for_inputs_and_biases(device: str, scheme: str, dtype: tl.dtype) -> None:
    """The numbers of which a weight is made keep their dtypes, also back in float32 and on another device."""
    w, bias = (tl.tensor(rng.standard_normal(n).astype(np.float32)) for n in ((24, 64), (24,)))
    layer = QuantizedLinear(w, bias, scheme)
    stored = {name: (t.dtype, t.tolist()) for name, t in layer.named_packs()}
    x = tl.tensor(rng.standard_normal((3, 64)).astype(np.float32)).to(dtype)
    want = layer(x.float())
    net = nn.Sequential(layer).to(device)
    got = net.to(dtype)(x.to(device))
    assert got.dtype == layer.bias.dtype == dtype
    assert {name: (t.dtype, t.tolist()) for name, t in layer.named_packs()} == stored
    assert all(t.device == got.device for _, t in layer.named_packs())
    np.testing.assert_allclose(got.float().cpu().numpy(), want.numpy(), rtol=0.02, atol=0.1)
    assert net.float()(x.float().to(device)).dtype == tl.float32
    assert {name: (t.dtype, t.tolist()) for name, t in layer.named_packs()} == stored


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda p: tl.quantize(p, "int3"), "scheme: got 'int3', want one of int8, int8_dynamic"),
        (lambda p: tl.quantize(p, "int8", [(tl.zeros(1, 8), tl.zeros(1))]), "got 2 inputs, want 1"),
        (lambda p: tl.quantize(p, "int8", [{"x": tl.zeros(1, 8)}]), "got inputs .'x'., want .'input'."),
        (lambda p: tl.quantize(p, "int8", []), "calibration has no inputs"),
        (lambda p: tl.quantize(nn.Linear(8, 8), "int8"), "export the module first"),
        (lambda p: tl.quantize(export(lambda x: x + 1, (tl.zeros(2),)), "int8"), "no product with a constant matrix"),
        (lambda p: QuantizedLinear(tl.full((2, 8), float("nan")), None, "int4"), "not finite"),
        (
            lambda p: QuantizedLinear(tl.ones(2, 8), None, "int4")(tl.zeros(1, 64)).numpy(),
            "operand 1: got Int of shape",
        ),
    ],
)
def test_what_is_refused(call: Any, text: str) -> None:
    program = export(nn.Linear(8, 8).eval(), (tl.zeros(1, 8),))
    with pytest.raises((ValueError, RuntimeError), match=text):
        call(program)


def test_training_programs_are_refused() -> None:
    m = nn.Linear(4, 2)
    program = export_training(m, lambda m, x: m(x).sum(), tl.optim.SGD(m.parameters()), (tl.zeros(2, 4),))
    with pytest.raises(ValueError, match="training program"):
        tl.quantize(program, "int8")
