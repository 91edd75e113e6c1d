"""Graphs of ``torch.export`` with kernels of attention and experts, rarer operators, and frozen parameters."""

from __future__ import annotations

import pytest
import torch
import transformers.integrations.moe  # noqa: F401  # defines grouped_mm_fallback
from importers.test_pt2 import Net, check, floats, ours
from torch import nn
from torch.export import Dim
from torch.nn import functional as F

import torchlette

aten = torch.ops.aten
X = torch.randn(2, 5, 8)
PADS = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
CAUSAL = torch.ones(5, 5, dtype=torch.bool).triu(1)
ROWS = torch.randn(11, 4)
#: Ends of groups: an empty one in front and in between, and rows that no group has.
ENDS = torch.tensor([0, 3, 3, 9])


class Layer(nn.Module):
    """The operator that a layer of an encoder becomes for inference."""

    def __init__(self, mask_type=None, **options):
        super().__init__()
        self.layer, self.mask_type = nn.TransformerEncoderLayer(8, 2, 16, **options), mask_type
        self.numbers = options.get("activation") == "gelu", options.get("norm_first", False), 1e-5

    def forward(self, x, mask=None):
        of = self.layer
        heads = of.self_attn.in_proj_weight, of.self_attn.in_proj_bias, *of.self_attn.out_proj.parameters()
        rest = (*of.norm1.parameters(), *of.norm2.parameters(), *of.linear1.parameters(), *of.linear2.parameters())
        return aten._transformer_encoder_layer_fwd(x, 8, 2, *heads, *self.numbers, *rest, mask, self.mask_type)


class Heads(nn.Module):
    """The operator that attention becomes for inference."""

    def __init__(self, *options):
        super().__init__()
        self.heads, self.options = nn.MultiheadAttention(8, 2), options

    def forward(self, x, mask):
        of = self.heads
        weights = of.in_proj_weight, of.in_proj_bias, *of.out_proj.parameters()
        return aten._native_multi_head_attention(x, x, x, 8, 2, *weights, mask, *self.options)


FUSED = {
    "encoder": (Layer(), (X,)),
    "encoder, norms first, gelu": (Layer(norm_first=True, activation="gelu"), (X,)),
    "mask": (Layer(0), (X, CAUSAL)),
    "padding": (Layer(1), (X, PADS)),
    "mask and padding": (Layer(2), (X, (CAUSAL | PADS[:, None, None]).expand(2, 2, 5, 5).contiguous())),
    "heads": (Heads(True, True, 1), (X, PADS)),
    "heads, weights of each": (Heads(True, False, 0), (X, CAUSAL)),
    "heads, no weights": (Heads(False, True, 0), (X, CAUSAL)),
}


@pytest.mark.parametrize("device", ["cpu", "wgpu"])
@pytest.mark.parametrize("case", FUSED)
def test_fused_layers_for_inference(case, device, tmp_path):
    module, args = FUSED[case]
    with torch.no_grad():
        torch.export.save(torch.export.export(module, args), tmp_path / "m.pt2")
        want = module(*args)
    program = torchlette.export.load(tmp_path / "m.pt2")
    with torchlette.no_grad():
        found = program.module().to(device)(*(a.to(device) for a in ours(args)))
    for a, b in zip(*((v if isinstance(v, (tuple, list)) else (v,)) for v in (want, found)), strict=True):
        if a is not None and a.numel():
            torch.testing.assert_close(torch.from_numpy(b.cpu().numpy()), a)


def _grouped(self, x, ends):
    return torch.ops.transformers.grouped_mm_fallback(x, self.weight.weight.reshape(4, 4, 3), ends)


@pytest.mark.parametrize("rows", [11, 9, 30])
def test_experts_multiply_their_own_rows(rows, tmp_path):
    module = Net(_grouped, weight=nn.Linear(4, 12, bias=False))
    shapes = (({0: Dim("rows", min=2)}, None),)
    torch.export.save(torch.export.export(module, (ROWS, ENDS), dynamic_shapes=shapes), tmp_path / "m.pt2")
    program = torchlette.export.load(tmp_path / "m.pt2")
    x = torch.randn(rows, 4, requires_grad=True)
    mine = ours(x)
    want, found = module(x, ENDS), program.module()(mine, ours(ENDS))
    check(want, found)
    for lib, out, inputs in ((torch, want, (x,)), (torchlette, found, (mine,))):
        out.square().sum().backward()
        assert inputs[0].grad is not None, lib
    check(x.grad, mine.grad)


def test_experts_of_half_precision_and_batches(tmp_path):
    def forward(self, x, w, ends):
        return torch._grouped_mm(x, w, offs=ends), torch._grouped_mm(w, w.mT.contiguous().mT.mT)

    args = (torch.randn(16, 16).bfloat16(), torch.randn(4, 16, 16).bfloat16(), torch.tensor([3, 3, 9, 16]).int())
    torch.export.save(torch.export.export(Net(forward), args), tmp_path / "m.pt2")
    program = torchlette.export.load(tmp_path / "m.pt2")
    given = [torchlette.tensor(a.float().numpy()).bfloat16() for a in args[:2]]
    given.append(torchlette.tensor(args[2].numpy()))
    for want, found in zip(Net(forward)(*args), program.module()(*given), strict=True):
        torch.testing.assert_close(torch.from_numpy(found.float().numpy()), want.float(), rtol=2e-2, atol=5e-2)


def _in_parts(self, x, weight, target):
    parts = nn.LinearCrossEntropyOptions(batch_chunk_size=4)
    return F.linear_cross_entropy(x, weight, target, options=parts, label_smoothing=0.1), F.linear_cross_entropy(
        x, weight, target, options=parts, reduction="none"
    )


Q = torch.randn(2, 4, 5, 8)
RARE = {
    "math": (lambda s, q, k: aten._scaled_dot_product_attention_math(q, k, k, enable_gqa=True), (Q, Q[:, :2])),
    "math, causal": (lambda s, q: aten._scaled_dot_product_attention_math(q, q, q, None, 0.0, True, scale=0.2), (Q,)),
    "math, mask": (lambda s, q, m: aten._scaled_dot_product_attention_math(q, q, q, m), (Q, torch.randn(5, 5))),
    "lanczos": (lambda s, x: F.interpolate(x, (7, 3), mode="lanczos", antialias=True), (Q,)),
    "lanczos, factor": (lambda s, x: F.interpolate(x, scale_factor=0.6, mode="lanczos", antialias=True), (Q,)),
    "int_mm": (lambda s, x: torch._int_mm(x, x.T), (torch.randint(-128, 128, (24, 16)).to(torch.int8),)),
    "gradient": (lambda s, x: torch.gradient(x, spacing=0.5, dim=(0, 1), edge_order=2), (ROWS,)),
    "norm_except_dim": (lambda s, x: torch.norm_except_dim(x, 2, 1), (Q,)),
    "nuclear_norm": (lambda s, x: aten.nuclear_norm(x) + aten.nuclear_norm.dim(x, [0, 1], True), (ROWS[:3, :2],)),
    "cdist": (
        lambda s, x: torch.cdist(x, x[:2], 2.5, "donot_use_mm_for_euclid_dist") + torch.cdist(x, x[2:4]),
        (ROWS,),
    ),
    "complex number": (lambda s, x: torch.view_as_real(torch.view_as_complex(x) * (2 - 1j) + 3j), (ROWS[:, :2],)),
    "complex fill": (lambda s, x: torch.view_as_real(torch.full((2,), 1 + 2j) * x[0, 0]), (ROWS,)),
    "ranges": (lambda s, x: (torch.linspace(x[0, 0], 3, 4), torch.logspace(-1, x[0, 1], 3, 2.0)), (ROWS,)),
    "linspace": (lambda s, x: torch.linspace(1, x[0, 0], 5, dtype=torch.float64), (ROWS,)),
    "lu": (lambda s, x: torch.lu(x), (ROWS[:4],)),
    "channels": (lambda s, x: (F.dropout3d(x[None], 1.0), aten.feature_dropout(x[0, 0], 1.0, True)), (Q,)),
    "bins": (lambda s, x: torch.histogramdd(x.detach()[:, :2], [2, 3], [-1.0, 1.0, -2.0, 2.0])[0], (ROWS,)),
    "losses in parts": (_in_parts, (ROWS, ROWS[:3], torch.tensor([0, 2, 1] * 3 + [-100, 1]))),
    "conj_physical": (lambda s, x: torch.view_as_real(aten._conj_physical(torch.view_as_complex(x))), (ROWS[:, :2],)),
}


@pytest.mark.parametrize("form", ["as_exported", "core"])
@pytest.mark.parametrize("case", RARE)
def test_rarer_operators(case, form, tmp_path):
    function, args = RARE[case]
    args = tuple(a.clone().requires_grad_(a.is_floating_point()) for a in args)
    program = torch.export.export(Net(function), args)
    torch.export.save(program if form == "as_exported" else program.run_decompositions(), tmp_path / "m.pt2")
    mine = ours(args)
    want, found = function(None, *args), torchlette.export.load(tmp_path / "m.pt2").module()(*mine)
    check(want, tuple(found) if isinstance(want, tuple) else found)
    for results in (floats(want), floats(found)):
        if results:
            sum(r.square().sum() for r in results).backward()
    for a, b in zip(args, mine, strict=True):
        if a.grad is not None:
            check(a.grad, b.grad)


@pytest.mark.parametrize("layout", ["raw", "pickled"])
def test_frozen_parameters_stay_frozen(layout, tmp_path):
    module = nn.Sequential(nn.Linear(3, 4).requires_grad_(False), nn.Linear(4, 2))
    torch.export.save(torch.export.export(module, (torch.ones(2, 3),)), tmp_path / "m.pt2")
    if layout == "pickled":
        older(tmp_path / "m.pt2", dict(module.named_parameters()))
    program = torchlette.export.load(tmp_path / "m.pt2")
    torchlette.export.save(program, tmp_path / "m.tlp")
    for loaded in (program.module(), torchlette.export.load(tmp_path / "m.tlp").module()):
        kept = {name: p.requires_grad for name, p in loaded.named_parameters()}
        assert kept == {name: p.requires_grad for name, p in module.named_parameters()}
        loaded(torchlette.ones(2, 3)).sum().backward()
        assert {name for name, p in loaded.named_parameters() if p.grad is not None} == {"1.weight", "1.bias"}


def older(path, weights):
    """Write a file with its weights in a file of ``torch.save``, as before PyTorch 2.9."""
    import zipfile

    with zipfile.ZipFile(path) as source:
        graph = source.read(next(n for n in source.namelist() if n.endswith("models/model.json")))
    with zipfile.ZipFile(path, "w") as target:
        target.writestr("m/models/model.json", graph)
        for folder, tensors in (("weights", weights), ("constants", {})):
            with target.open(f"m/data/{folder}/model.pt", "w") as f:
                torch.save(tensors, f)
