"""torchlette.export: programs do what the module does, at all sizes, and leave the module alone."""

import copy
import math

import numpy as np
import pytest

import torchlette as tl
import torchlette.nn.functional as F
from torchlette import nn
from torchlette.export import Dim, InputSpec, export, from_callable, load, save


class Attention(nn.Module):
    """Causal attention with learned positions, written with sizes as scripts do."""

    def __init__(self):
        super().__init__()
        self.token, self.place = nn.Embedding(11, 8), nn.Embedding(16, 8)
        self.qkv, self.out = nn.Linear(8, 24), nn.Linear(8, 11, bias=False)
        self.register_buffer("mask", tl.tril(tl.ones(16, 16)), persistent=False)

    def forward(self, ids):
        b, t = ids.shape
        x = self.token(ids) + self.place(tl.arange(t, dtype=tl.int64))
        q, k, v = (z.view(b, t, 2, -1).transpose(1, 2) for z in self.qkv(x).split(x.shape[2], dim=2))
        a = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        a = F.softmax(a.masked_fill(self.mask[:t, :t] == 0, float("-inf")), -1)
        return self.out((a @ v).transpose(1, 2).contiguous().view(b * t, -1)).view(b, t, -1)


class Convolution(nn.Module):
    """Strided windows, whose results have sizes by floor division."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.n = (
            nn.Conv2d(1, 2, 3, stride=2, padding=1),
            nn.Conv2d(2, 3, 3, stride=2),
            nn.BatchNorm2d(3),
        )

    def forward(self, x):
        y = F.max_pool2d(F.relu(self.n(self.b(self.a(x)))), 2)
        b, c, h, w = y.shape
        rows = y.reshape(b, c, h * w).transpose(1, 2)
        return tl.cat([rows.new_zeros(b, 1, c), rows], 1) + tl.ones(1, h * w + 1, c), y.flatten(1).sum(1) / (
            h * w
        ) ** 0.5


def sizes(x):
    """Numbers that follow from sizes, in all the forms that are known."""
    n, t = x.shape[0], x.shape[1]
    flat = x.reshape(n * t, -1)
    return {
        "sums": (flat.sum(0), x.sum() / t, x[:, : t // 2], x[:, -1], x[:, 1::2]),
        "made": [
            tl.arange(t),
            tl.tril(tl.ones(t, t)),
            tl.zeros(n + 1, n + t),
            tl.full((n,), 1.0 / math.sqrt(t)),
            tl.ones(t * t),
        ],
        "none": None,
        "word": (3, "word"),
    }


BATCH, LENGTH = Dim("batch", min=1), Dim("length", min=1, max=16)
CASES = {
    "attention": (Attention, (2, 7), {0: BATCH, 1: LENGTH}, [(5, 16), (1, 1), (3, 10)], True),
    "convolution": (Convolution, (1, 1, 24, 24), {0: BATCH, 2: Dim("h", min=12), 3: Dim("w", min=12)},
                    [(3, 1, 31, 19), (2, 1, 64, 33), (1, 1, 12, 70)], False),
    "sizes": (lambda: sizes, (3, 6, 4), {0: BATCH, 1: LENGTH}, [(2, 9, 4), (1, 16, 4), (7, 3, 4)], False),
}  # fmt: skip


def leaves(value):
    """Return what a nest holds, in order."""
    if isinstance(value, dict):
        return [x for key in value for x in leaves(value[key])]
    return [x for v in value for x in leaves(v)] if isinstance(value, (list, tuple)) else [value]


def same(a, b):
    """Assert that two nests have the same containers and the same bits."""
    assert type(a) is type(b)
    for x, y in zip(leaves(a), leaves(b), strict=True):
        assert tl.equal(x, y) if isinstance(x, tl.Tensor) else x == y


@pytest.mark.parametrize("case", CASES)
def test_a_program_gives_the_modules_bits_at_all_sizes(case, tmp_path):
    make, shape, dynamic, others, whole = CASES[case]
    fn = make()
    if isinstance(fn, nn.Module):
        fn.eval()
    draw = (lambda s: tl.randint(0, 11, s)) if whole else tl.randn
    example = draw(shape)
    program = export(fn, (example,), dynamic_shapes=(dynamic,))
    save(program, tmp_path / "p")
    again = load(tmp_path / "p")
    for s in [shape, *others]:
        x = draw(s)
        same(program.module()(x), fn(x))
        same(again.module()(x), fn(x))
    assert str(again.graph) == str(program.graph)
    assert again.graph_signature == program.graph_signature


class Normed(nn.Module):
    """Batch statistics, dropout, and a write through a view of a buffer."""

    def __init__(self):
        super().__init__()
        self.norm, self.drop = nn.BatchNorm1d(4), nn.Dropout(0.5)
        self.register_buffer("seen", tl.zeros(2, 2))

    def forward(self, x, scale=2.0, *, shift):
        self.seen[0].add_(1)
        x.mul_(1.0)
        return self.drop(self.norm(x)) * scale + shift["by"]


def test_state_is_written_and_the_module_is_left_alone():
    tl.manual_seed(0)
    m, x, shift = Normed(), tl.randn(6, 4), {"by": tl.ones(4)}
    before = {k: v.clone() for k, v in m.state_dict().items()}
    draws = tl.get_rng_state()
    program = export(m, (x,), {"shift": shift})
    assert tl.get_rng_state().tolist() == draws.tolist()
    for k, v in m.state_dict().items():
        assert tl.equal(v, before[k]), k
    assert program.graph_signature.user_inputs == ("x", "shift_by")
    assert set(program.graph_signature.buffers_to_mutate) == {
        "seen",
        *(k for k in before if "norm.r" in k or "num" in k),
    }
    module = program.module()
    for _ in range(3):
        tl.manual_seed(1)
        want = m(x, shift=shift)
        tl.manual_seed(1)
        assert tl.equal(module(x, shift=shift), want)
    for k, v in module.state_dict().items():
        assert tl.equal(v, m.state_dict()[k]), k


def test_a_program_differentiates():
    m, x = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)), tl.randn(5, 3)
    module = export(m, (x,)).module()
    for f in (m, module):
        f(x).sum().backward()
    assert [n for n, _ in module.named_parameters()] == [n for n, _ in m.named_parameters()]
    for a, b in zip(module.parameters(), m.parameters(), strict=True):
        assert tl.equal(a.grad, b.grad)


def test_modes_of_a_call_are_part_of_its_step():
    m = nn.Linear(4, 4)

    def fn(x):
        with tl.autocast("cpu", dtype=tl.bfloat16):
            y = m(x)
        with tl.no_grad():
            z = m(x)
        return y, z, tl.tensor([1.0, 2.0]).sum() + y.sum().float()

    x = tl.randn(2, 4)
    got, want = export(fn, (x,)).module()(x), fn(x)
    same(got, want)
    assert [t.requires_grad for t in got] == [t.requires_grad for t in want] == [True, False, True]


def test_from_callable_names_inputs_and_outputs():
    program = from_callable(
        lambda a, b: (a @ b, a.sum()),
        [InputSpec("left", tl.float32, ["n", 3]), InputSpec("right", tl.float32, [3, Dim("m", max=8)])],
        ["product", "total"],
    )
    a, b = tl.randn(5, 3), tl.randn(3, 8)
    same(program.module()(a, b), (a @ b, a.sum()))
    assert program.graph_signature.user_inputs == ("left", "right")
    assert program.graph_signature.user_outputs == ("product", "total")


def linear():
    return export(nn.Linear(3, 2), (tl.randn(4, 3),), dynamic_shapes={"input": {0: Dim("n", min=2, max=9)}}).module()


@pytest.mark.parametrize(
    ("args", "kwargs", "error", "text"),
    [
        (lambda: (tl.zeros(10, 3),), {}, ValueError, "dim 0 is 10, but n is from 2 to 9"),
        (lambda: (tl.zeros(4, 5),), {}, ValueError, "dim 1 is 5, want 3"),
        (lambda: (tl.zeros(4),), {}, ValueError, "want 2 dims"),
        (lambda: (tl.zeros(4, 3, dtype=tl.float64),), {}, TypeError, "got dtype float64, want float32"),
        (lambda: (3,), {}, TypeError, "want a tensor"),
        (lambda: (), {}, ValueError, "got 0 items, want 1"),
        (lambda: (tl.zeros(4, 3), tl.zeros(1)), {}, TypeError, "takes 1 positional"),
        (lambda: (tl.zeros(4, 3),), {"more": 1}, ValueError, "keys"),
    ],
)
def test_wrong_arguments_are_refused(args, kwargs, error, text):
    # args makes the tensors: those of a module would be pending during other tests, which count buffers.
    with pytest.raises(error, match=text):
        linear()(*args(), **kwargs)


def test_two_sizes_of_one_name_are_refused():
    n = Dim("n")
    module = export(lambda a, b: a + b, (tl.zeros(3), tl.zeros(3)), dynamic_shapes=({0: n}, {0: n})).module()
    assert module(tl.zeros(5), tl.ones(5)).sum().item() == 5
    with pytest.raises(ValueError, match="n is 5 by input"):
        module(tl.zeros(5), tl.zeros(1))


def branches(x):
    return x.relu() if x.shape[0] < 4 else x.sin()


def host_data(x):
    return x + tl.tensor(np.arange(x.shape[0], dtype="f"))


@pytest.mark.parametrize(
    ("fn", "error", "text"),
    [
        (branches, RuntimeError, "step 0 is relu at .* and sin at"),
        (host_data, RuntimeError, "constant 0 .* is another one"),
        (
            lambda x: tl.zeros(x.shape[0] ** 3),
            RuntimeError,
            r"step 0 \(zeros.*size\[0\]: a number is no known function",
        ),
        (lambda x: x * x.sum().item(), RuntimeError, "read"),
        (lambda x: x if x.shape[0] == 3 else 1 / 0, RuntimeError, "works for n = 3 only"),
        (lambda x: {1.5: x}, TypeError, "keys"),
        (lambda x: object(), TypeError, "object"),
    ],
)
def test_what_no_program_can_say_is_an_error(fn, error, text):
    with pytest.raises(error, match=text):
        export(fn, (tl.zeros(3),), dynamic_shapes=({0: Dim("n")},))
    assert tl.ones(2).sum().item() == 2  # nothing is left of the recording


@pytest.mark.parametrize(
    ("dynamic", "error"),
    [
        ({"y": {0: Dim("n")}}, ValueError), (({0: Dim("n")}, None), ValueError), (({0: "n"},), TypeError),
        (({5: Dim("n")},), ValueError), (({0: Dim("n", max=2)},), ValueError),
        (({0: Dim("n"), 1: Dim("n")},), ValueError), (({0: Dim("n"), 1: Dim("n", max=9)},), ValueError),
    ],
)  # fmt: skip
def test_wrong_dynamic_shapes_are_refused(dynamic, error):
    with pytest.raises(error):
        export(lambda x: x, (tl.zeros(3, 4),), dynamic_shapes=dynamic)
    with pytest.raises(ValueError, match="identifier"):
        Dim("1n")


def test_an_error_of_a_step_names_the_step_and_its_neighbours():
    program = export(lambda x: (x.exp() @ tl.ones(3, 2)).sin(), (tl.zeros(4, 3),))
    spec = copy.deepcopy(program.spec)
    i, step = next((k, s) for k, s in enumerate(spec["functions"]["forward"]["steps"]) if s["op"] == "matmul")
    step["args"]["other"] = "%0"
    module = type(program)(spec, program.constants).module()
    with pytest.raises(RuntimeError) as info:
        module(tl.zeros(4, 3))
    for part in (f"in step {i} of", "matmul(", "made by step", "goes to step", "test_export.py"):
        assert part in str(info.value)


def test_torch_export_is_this():
    import torchlette.torch as torch

    m = torch.nn.Linear(2, 2)
    program = torch.export.export(m, (torch.zeros(1, 2),))
    assert program.run_decompositions() is program
    assert float(program.module()(torch.ones(1, 2)).sum()) == float(m(torch.ones(1, 2)).sum())
    assert isinstance(program, torch.export.ExportedProgram)


class Turned(nn.Module):
    """A product with complex weights that train."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(tl.complex(tl.randn(4, 3), tl.randn(4, 3)))

    def forward(self, z):
        return (z @ self.weight).conj(), z[:, :1].angle(), tl.fft.ifft(z).abs()


def test_programs_and_sessions_take_and_give_complex_tensors(tmp_path):
    with tl.device("cpu"):
        net = Turned()
        z = tl.complex(tl.randn(5, 4), tl.randn(5, 4))
    program = export(net, (z,), dynamic_shapes=({0: Dim("n", min=1)},))
    save(program, tmp_path / "net.tl")
    module, session = load(tmp_path / "net.tl").module(), tl.InferenceSession(tmp_path / "net.tl", device="cpu")
    for given in (z, z[:2]):
        wanted, found = net(given), module(given)
        arrays = session.run(None, {"z": given.detach().numpy()})
        for a, b, c in zip(wanted, found, arrays, strict=True):
            assert a.dtype == b.dtype and a.shape == b.shape
            np.testing.assert_allclose(b.detach().numpy(), a.detach().numpy(), atol=1e-6)
            np.testing.assert_allclose(c, a.detach().numpy(), atol=1e-6)
    for side in (net, module):
        side(z)[0].abs().sum().backward()
    np.testing.assert_allclose(module.weight.grad.numpy(), net.weight.grad.numpy(), atol=1e-5)


def test_programs_leave_out_checks_of_values(tmp_path):
    window = tl.hann_window(8, device="cpu")
    signal = tl.randn(2, 32, device="cpu")

    def there_and_back(x, window, lengths):
        spectra = tl.stft(x, 8, hop_length=2, window=window, return_complex=True)
        return tl.istft(spectra, 8, hop_length=2, window=window), tl.segment_reduce(x, "max", lengths=lengths)

    args = signal, window, tl.tensor([1, 1], device="cpu")
    for a, b in zip(there_and_back(*args), export(there_and_back, args).module()(*args), strict=True):
        np.testing.assert_allclose(b.numpy(), a.numpy(), atol=1e-6)


def test_complex_numbers_are_kept(tmp_path):
    z = tl.randn(3, dtype=tl.complex64, device="cpu")

    def turned(z):
        return z * 1j, z + (2 - 3.5j), 0.5j**z, z.real * (1e-3 + 2j)

    program = export(turned, (z,))
    save(program, tmp_path / "m.tlp")
    session = tl.InferenceSession(tmp_path / "m.tlp")
    results = session.run(None, {session.get_inputs()[0].name: z.numpy()})
    for want, got, run in zip(turned(z), load(tmp_path / "m.tlp").module()(z), results, strict=True):
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-6)
        np.testing.assert_allclose(run, want.numpy(), rtol=1e-6)
