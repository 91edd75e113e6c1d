"""Graphs of ``torch.export`` with modes, effects, complex numbers, quantization, and sizes that decide."""

from __future__ import annotations

import pytest
import torch
import torch.ao.quantization.fx._decomposed
from importers.test_pt2 import FORMS, Net, check, floats, ours
from torch import nn
from torch._higher_order_ops.map import map as mapped
from torch.export import Dim
from torch.nn import functional as F

import torchlette

R = torch.randn
qd = torch.ops.quantized_decomposed


def _modes(self, x):
    with torch.no_grad():
        a = self.layer(x).exp()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        b = self.layer(x)
        with torch.autocast("cpu", enabled=False):
            c = x @ x.T
    return a * x, b.float(), c


def _vmapped(self, x):
    return torch.vmap(lambda r: (self.layer(r).tanh() * r).sum())(x)


def _vmapped_twice(self, x):
    return torch.vmap(torch.vmap(lambda a: a.sin() * 2))(x)


def _factored(self, x):
    spd = x @ x.mT + 3 * torch.eye(3)
    return (
        torch.linalg.cholesky(spd),
        torch.linalg.slogdet(spd)[1],
        torch.linalg.det(spd),
        torch.linalg.solve(spd, x),
        torch.linalg.inv(spd),
        torch.linalg.eigvalsh(spd),
        torch.linalg.eigh(spd)[0],
        torch.linalg.svd(x, full_matrices=False)[1],
        torch.linalg.svdvals(x),
    )


def _complex(self, z):
    real = torch.view_as_real(z)
    turned = torch.view_as_complex(real) * self.turns.conj()
    spectrum = torch.fft.rfft(z.real) @ self.mix
    return turned.abs(), turned.mT, (z @ z.mH).imag, z[:, :1].angle(), torch.fft.irfft(spectrum, n=5)


def _signal(self, x):
    spectra = torch.stft(x, 8, hop_length=2, window=self.window, return_complex=True)
    return torch.istft(spectra.conj().resolve_conj(), 8, hop_length=2, window=self.window)


def _faked(self, x):
    weight = torch.fake_quantize_per_channel_affine(
        self.layer.weight,
        torch.tensor([0.02, 0.01, 0.1, 0.03]),
        torch.tensor([0, 3, -2, 1], dtype=torch.int32),
        0,
        -16,
        15,
    )
    return F.linear(torch.fake_quantize_per_tensor_affine(x, 0.05, 3, -20, 30), weight), self.fake(x)


def _fake_of_tensors(x):
    return torch.fake_quantize_per_tensor_affine(x, torch.tensor(0.03), torch.tensor(4, dtype=torch.int32), 0, 40)


def _quantized(self, x):
    scale, zero = qd.choose_qparams.tensor(x, -128, 127, 1e-5, torch.int8)
    scale2, zero2 = qd.choose_qparams_symmetric.tensor(x, -127, 127, 1e-5, torch.int8)
    a = qd.quantize_per_tensor.tensor(x, scale, zero, -128, 127, torch.int8)
    scales, zeros = torch.tensor([0.1, 0.02, 0.3]), torch.tensor([0, 5, -3])
    b = qd.quantize_per_channel.default(x, scales, zeros, 1, -128, 127, torch.int8)
    rows, places = qd.choose_qparams_per_token_asymmetric.default(x, torch.int8)
    c = qd.quantize_per_token.default(x, rows, places, -128, 127, torch.int8)
    return (
        *(a, b, c, scale2, zero2),
        qd.dequantize_per_tensor.tensor(a, scale, zero, -128, 127, torch.int8),
        qd.dequantize_per_channel.default(b, scales, zeros, 1, -128, 127, torch.int8),
        qd.dequantize_per_token.default(c, rows, places, -128, 127, torch.int8, torch.float32),
        qd.dequantize_per_tensor.default(
            qd.quantize_per_tensor.default(x, 0.1, 2, 0, 9, torch.uint8), 0.1, 2, 0, 9, torch.uint8
        ),
    )


def _grouped(self, x):
    scales, zeros = torch.full((4, 2), 0.03), torch.ones(4, 2)
    q = qd.quantize_per_channel_group.default(x, scales, zeros, -8, 7, torch.int8, 4)
    return q, qd.dequantize_per_channel_group.default(q, scales, zeros, -8, 7, torch.int8, 4, torch.float32)


def _pools(self, x):
    pooled, places = F.fractional_max_pool2d(x, 3, output_size=(3, 2), return_indices=True, _random_samples=self.draws)
    return pooled, places, F.fractional_max_pool3d(x[None], 2, output_size=(1, 3, 4), _random_samples=self.draws3)


def _bags(self, i):
    rest = F.embedding_bag(i, self.table, torch.tensor([0, 3, 3, 6]), mode="sum", include_last_offset=True)
    return rest, F.embedding_bag(
        i, self.bag.weight, torch.tensor([0, 2, 5, 8]), mode="max", include_last_offset=True, padding_idx=2
    )


def _others(self, x):
    return (
        nn.utils.rnn.pad_sequence([x, x[:2]], batch_first=True, padding_value=0.5),
        torch.segment_reduce(x, "max", lengths=torch.tensor([2, 1])),
        torch.block_diag(x, x[:1]),
        torch.einsum("ij,kj,j->ik", x, x, x[0]),
        torch.tensordot(x, x, dims=([1], [1])),
        torch.repeat_interleave(x, torch.tensor([1, 2, 0]), 0, output_size=3),
        self.bilinear(x, x),
        F.rrelu(x),
        torch.ops.aten._is_all_true(x > -9),
    )


def _mapped(self, xs, y):
    return mapped(lambda x, z: (self.layer(x) * z, x.sum()), xs, y)


def _checkpointed(self, x):
    return torch.utils.checkpoint.checkpoint(lambda a: self.layer(a).tanh(), x, use_reentrant=False)


def layer():
    return nn.Linear(4, 4)


CASES = {
    "modes": (Net(_modes, layer=layer()), (R(3, 4),)),
    "vmapped": (Net(_vmapped, layer=layer()), (R(3, 4),)),
    "vmapped_twice": (Net(_vmapped_twice), (R(3, 4),)),
    "factored": (Net(_factored), (R(3, 3),)),
    "complex": (
        Net(_complex, turns=torch.polar(torch.ones(4), R(4)), mix=R(3, 3, dtype=torch.complex64)),
        (R(3, 4, dtype=torch.complex64),),
    ),
    "signal": (Net(_signal, window=torch.hann_window(8)), (R(2, 32),)),
    "faked": (Net(_faked, layer=layer(), fake=Net(lambda s, x: _fake_of_tensors(x))), (R(3, 4),)),
    "quantized": (Net(_quantized), (R(4, 3),)),
    "grouped": (Net(_grouped), (R(4, 8),)),
    "pools": (Net(_pools, draws=torch.rand(1, 3, 2), draws3=torch.rand(1, 1, 3)), (R(1, 3, 8, 7),)),
    "bags": (Net(_bags, bag=nn.EmbeddingBag(9, 3), table=R(9, 3)), (torch.tensor([1, 2, 4, 5, 2, 8, 7, 3]),)),
    "others": (Net(_others, bilinear=nn.Bilinear(4, 4, 2)), (R(3, 4),)),
    "mapped": (Net(_mapped, layer=layer()), (R(5, 4), R(4))),
    "checkpointed": (Net(_checkpointed, layer=layer()), (R(3, 4),)),
}


def wanted_and_found(theirs, found, args):
    """Return results and gradients of both modules; the sum of what depends on the arguments is differentiated."""
    sides = []
    for module, given, lib in ((theirs, args, torch), (found, ours(args), torchlette)):
        given = [t.requires_grad_() if t.is_floating_point() or t.is_complex() else t for t in given]
        results = module(*given)
        total = sum((t.abs() if t.is_complex() else t).to(lib.float64).sin().sum() for t in floats(results))
        names = [n for n, p in theirs.named_parameters() if p.requires_grad]
        leaves = [t for t in given if t.requires_grad] + [dict(module.named_parameters())[n] for n in names]
        grads = lib.autograd.grad(total, leaves, allow_unused=True) if floats(results) else []
        sides.append(
            (results, [lib.view_as_real(g.resolve_conj()) if g is not None and g.is_complex() else g for g in grads])
        )
    return sides


def loaded(program, tmp_path):
    torch.export.save(program, tmp_path / "m.pt2")
    return torchlette.export.load(tmp_path / "m.pt2")


def check_all(program, tmp_path, args):
    imported = loaded(program, tmp_path)
    (theirs, grads), (found, own) = wanted_and_found(
        program.module(), imported.module(), [a.detach().clone() for a in args]
    )
    check(plain(theirs), plain(found))
    for want, got in zip(grads, own, strict=True):
        if want is not None and want.any():
            torch.testing.assert_close(torch.from_numpy(got.numpy()), want, atol=1e-4, rtol=1e-3)
    session = torchlette.InferenceSession(tmp_path / "m.pt2", device="cpu")
    names = [i.name for i in session.get_inputs()]
    results = session.run(None, {n: a.detach().numpy() for n, a in zip(names, args, strict=True)})
    wanted = [t for t in flat(plain(theirs)) if t.dtype != torch.bfloat16]
    got = [r for r, t in zip(results, flat(plain(theirs)), strict=True) if t.dtype != torch.bfloat16]
    for want, result in zip(wanted, got, strict=True):
        torch.testing.assert_close(torch.from_numpy(result), want, atol=1e-4, rtol=1e-3)


def flat(value):
    return [leaf for item in value for leaf in flat(item)] if isinstance(value, (tuple, list)) else [value]


def plain(value):
    """Return results without lazy conjugation, and of float32 where NumPy has no such dtype."""
    if isinstance(value, (tuple, list)):
        return [plain(item) for item in value]
    value = value.detach()
    return value.resolve_conj() if isinstance(value, torch.Tensor) and value.is_complex() else value


@pytest.mark.parametrize(("case", "form"), [(c, f) for c in CASES for f in ("as_exported", "core")])
def test_programs_and_sessions_of_graphs_compute_what_the_exported_module_does(case, form, tmp_path):
    module, args = CASES[case]
    check_all(FORMS[form](torch.export.export(module, args)), tmp_path, args)


def _regions(s, x, rois):
    from torchvision.ops import roi_align

    return roi_align(x, rois, 3, 0.5, 2, True), roi_align(x, rois, (2, 4), 1.0, 1, False)


def _moved(s, x, offset, mask):
    from torchvision.ops import deform_conv2d

    plain = deform_conv2d(x, offset, s.layer.weight, padding=1, stride=2)
    return plain, deform_conv2d(x, offset, s.layer.weight, s.layer.bias, padding=1, stride=2, mask=mask)


VISION = {
    "regions": (_regions, (R(2, 3, 12, 12), torch.tensor([[0, 1.0, 2, 9, 11], [1, 0, 0, 8, 8.5], [0, 3, 3, 3.5, 3]]))),
    "moved": (_moved, (R(2, 4, 8, 8), R(2, 36, 4, 4), torch.rand(2, 18, 4, 4))),
}


@pytest.mark.parametrize("case", VISION)
def test_operators_of_torchvision(case, tmp_path):
    pytest.importorskip("torchvision")
    function, args = VISION[case]
    parts = {"layer": nn.Conv2d(4, 6, 3, groups=2)} if case == "moved" else {}
    check_all(torch.export.export(Net(function, **parts), args), tmp_path, args)


def test_regions_with_samples_by_their_sizes(tmp_path):
    """The default of torchvision, which has no gradient here: a loop over the samples."""
    ops = pytest.importorskip("torchvision.ops")
    args = VISION["regions"][1]
    program = torch.export.export(Net(lambda s, x, rois: ops.roi_align(x, rois, 2, 0.5, -1, True)), args)
    found = loaded(program, tmp_path).module()(*ours(args))
    check(plain(program.module()(*args)), plain(found))


@pytest.mark.parametrize("function", [lambda s, x: x[x > 0], lambda s, x: x.nonzero()])
def test_sizes_that_values_tell_are_refused_by_the_name_of_the_step(function, tmp_path):
    program = torch.export.export(Net(function), (R(3, 4),))
    torch.export.save(program, tmp_path / "m.pt2")
    with pytest.raises(NotImplementedError, match="step '(index|nonzero)'.*depend on values of tensors"):
        torchlette.export.load(tmp_path / "m.pt2")


n, m = Dim("n", min=2, max=50), Dim("m", min=2, max=50)
SIZES = {
    "condition": (
        lambda s, x: torch.cond(x.shape[0] * 2 > 12, lambda a: a * 2, lambda a: a - 1, (x,)),
        [{0: n}],
        [(5,), (9,)],
    ),
    "conditions": (
        lambda s, x, y: torch.cond(x.shape[0] >= y.shape[0], lambda a: a.cos(), lambda a: a.sin(), (x,)),
        [{0: n}, {0: m}],
        [(5, 4), (3, 3), (3, 9)],
    ),
    "negated": (
        lambda s, x: torch.cond(torch.sym_not(x.shape[0] == 9), lambda a: a * 2, lambda a: a - 1, (x,)),
        [{0: n}],
        [(5,), (9,), (20,)],
    ),
    "multiple": (lambda s, x: x[1:].view(-1, 3).sum(0), [{0: 3 * n + 1}], [(10,), (19,)]),
    "far_apart": (lambda s, x: x[1:].view(-1, 64).sum(0), [{0: 64 * n + 1}], [(129,), (257,)]),
    "with_its_base": (lambda s, x, y: x.view(2, -1) + y, [{0: 2 * n}, {0: n}], [(6, 3), (10, 5)]),
    "two_multiples": (lambda s, x, y: torch.cat([x, x]) * y, [{0: 2 * n}, {0: 4 * n}], [(6, 12), (10, 20)]),
}


@pytest.mark.parametrize("case", SIZES)
def test_sizes_choose_branches_and_are_functions_of_others(case, tmp_path):
    function, dims, sizes = SIZES[case]
    args = tuple(R(size) for size in sizes[0])
    program = torch.export.export(Net(function), args, dynamic_shapes=(tuple(dims),))
    module = loaded(program, tmp_path).module()
    session = torchlette.InferenceSession(tmp_path / "m.pt2", device="cpu")  # its program is recorded at some sizes
    names = [i.name for i in session.get_inputs()]
    for shape in sizes:
        args = tuple(R(size) for size in shape)
        check(program.module()(*args), module(*ours(args)))
        (found,) = session.run(None, {name: a.numpy() for name, a in zip(names, args, strict=True)})
        torch.testing.assert_close(torch.from_numpy(found), program.module()(*args))


def test_sizes_that_break_their_function_are_refused(tmp_path):
    function, dims, sizes = SIZES["with_its_base"]
    args = tuple(R(size) for size in sizes[0])
    module = loaded(torch.export.export(Net(function), args, dynamic_shapes=(tuple(dims),)), tmp_path).module()
    with pytest.raises(ValueError):
        module(*ours((R(7), R(3))))


DRAWS = "bernoulli cauchy exponential geometric log_normal random".split()


@pytest.mark.parametrize("name", DRAWS)
def test_functional_draws_have_the_dtype_and_the_range_of_the_ones_in_place(name, tmp_path):
    arguments = [0.5] if name in ("bernoulli", "geometric") else []
    module = Net(lambda s, x: getattr(x.clone(), f"{name}_")(*arguments))
    x = torch.zeros(4000)
    program = torch.export.export(module, (x,)).run_decompositions()
    theirs, found = program.module()(x), loaded(program, tmp_path).module()(ours(x))
    assert found.shape == theirs.shape and str(found.dtype) == str(theirs.dtype)
    middle = theirs.median().item()
    assert abs((found <= middle).float().mean().item() - (theirs <= middle).float().mean().item()) < 0.08


def test_a_level_of_vmap_that_does_not_end_is_refused(tmp_path):
    from torchlette._import.pt2_graph import Nodes

    begin = {"target": "torch._functorch.predispatch._vmap_increment_nesting", "outputs": []}
    begin["inputs"] = [{"name": "", "arg": {"as_int": 3}}, {"name": "", "arg": {"as_string": "error"}}]
    end = {"target": "torch._functorch.predispatch._vmap_decrement_nesting", "inputs": [], "outputs": []}
    for nodes in ([begin], [end], [begin] * 5000):
        with pytest.raises(ValueError):
            Nodes().graph({"nodes": nodes})


class Cast(nn.Module):
    """A block of autocast whose operators have other dtypes on a GPU than on the CPU."""

    def __init__(self):
        super().__init__()
        self.layer = layer()

    def forward(self, x):
        with torch.autocast("cpu", dtype=torch.float16):
            y = self.layer(x)
            z = y.softmax(-1)
            return z @ y.mT, y.log_softmax(-1), F.scaled_dot_product_attention(y, y, y), z.sum(), F.layer_norm(y, (4,))


@pytest.mark.parametrize("device", ["cpu", "wgpu"])
@pytest.mark.parametrize("form", ["as_exported", "core"])
def test_blocks_of_float16_run_on_both_devices(form, device, tmp_path):
    program, x = FORMS[form](torch.export.export(Cast(), (R(1, 3, 4),))), R(1, 3, 4)
    found = loaded(program, tmp_path)
    session = torchlette.InferenceSession(tmp_path / "m.pt2", device=device)
    module, theirs = found.module().to(device), program.module()
    given = ours(x).to(device).requires_grad_()
    wanted, results = theirs(x.requires_grad_()), module(given)
    for want, got, run in zip(wanted, results, session.run(None, {"x": x.detach().numpy()}), strict=True):
        assert str(got.dtype) == str(want.dtype)
        for result in (torch.from_numpy(run), torch.from_numpy(got.detach().cpu().numpy())):
            torch.testing.assert_close(result, want.detach(), atol=1e-2, rtol=1e-2)
    (want,) = torch.autograd.grad(sum(t.float().sin().sum() for t in wanted), x)
    sum((t.float().sin().sum() for t in results), start=0.0).backward()
    torch.testing.assert_close(torch.from_numpy(given.grad.cpu().numpy()), want, atol=2e-2, rtol=2e-2)
