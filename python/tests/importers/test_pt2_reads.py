"""Graphs of ``torch.export`` that read numbers from tensors by ``item()``, observe ranges, or draw counts."""

from __future__ import annotations

import copy
import itertools

import pytest
import torch
from importers.test_pt2 import FORMS, Net, check, ours
from torch import nn

import torchlette

R, T = torch.randn, torch.tensor


def loaded(program, tmp_path):
    torch.export.save(program, tmp_path / "m.pt2")
    return torchlette.export.load(tmp_path / "m.pt2")


def _within(n, end):
    torch._check_is_size(n)
    torch._check(n < end)
    return n


I3 = torch.arange(9, dtype=torch.int8)
NUMBERS = {
    "product": (lambda s, x, n: (x * n.item(), 1 - n.item() * x, x / n.item()), R(3), [T(2.5), T(-1.5)]),
    "of_integers": (lambda s, x, n: (x * n.item(), x + (n.item() // 2) % 5, x > n.item()), R(3), [T(7), T(20)]),
    "promoted": (lambda s, x, n: (I3 * n.item(), I3[3] * n.item(), x * n.item()), R(3), [T(7), T(2)]),
    "float_of_integers": (lambda s, x, n: I3 * n.item(), R(3), [T(7.5), T(2.5)]),
    "double": (lambda s, x, n: x.double() * n.item(), R(3), [T(7.1234, dtype=torch.float64)]),
    "power": (lambda s, x, n: (x.abs() ** (n.item() * 2 + 1), n.item() ** x), R(3), [T(2.5), T(0.5)]),
    "made": (
        lambda s, x, n: (
            torch.full((3,), n.item()),
            torch.full_like(x, n.item()),
            x.new_full((2,), n.item()),
            x + torch.tensor(n.item()),
            x.clone().fill_(n.item()),
        ),
        R(3),
        [T(2.5), T(-1.5)],
    ),
    "scaled": (
        lambda s, x, n: (
            torch.add(x, x, alpha=n.item()),
            torch.addcmul(x, x, x, value=n.item()),
        ),
        R(3),
        [T(2.5), T(-1.5)],
    ),
    "bounds": (
        lambda s, x, n: (x.clamp(0, n.item()), x.clamp_min(n.item()), torch.where(x > n.item(), x, n.item())),
        R(9),
        [T(0.5), T(0.1)],
    ),
    "filled": (lambda s, x, n: x.masked_fill(x > 0.5, n.item()), R(9), [T(0.5), T(0.1)]),
    "result": (lambda s, x, n: (x, n.item() * 2, n.long().item()), R(9), [T(5.0), T(2.0)]),
    "computed": (lambda s, x, n: (x / x.sum().item(), x * x.argmax().item()), R(9), [T(5.0)]),
    "listed": (lambda s, x, n: x * n.tolist()[0] + n.tolist()[1], R(9), [T([5.0, 2]), T([2.0, 1])]),
    "condition": (
        lambda s, x, n: torch.cond(n.item() > 3, lambda a: a + 1, lambda a: a - 1, (x,)),
        R(9),
        [T(5), T(2)],
    ),
    "greatest": (lambda s, x, n: x * torch.sym_max(n.item(), 3) + torch.sym_min(n.item(), 3), R(9), [T(5), T(2)]),
    "root": (lambda s, x, n: x * torch.sym_sqrt(n.item()), R(9), [T(5.0), T(2.0)]),
    "element": (lambda s, x, n: (x[n.item()], x.view(3, 3).select(0, n.item() // 3)), R(9), [T(7), T(2)]),
    "part": (lambda s, x, n: x.narrow(0, _within(n.item(), 6), 2), R(9), [T(5), T(2)]),
}


@pytest.mark.parametrize(("case", "form"), [(c, f) for c in NUMBERS for f in ("as_exported", "core")])
def test_numbers_that_a_graph_reads_are_operands(case, form, tmp_path):
    function, x, numbers = NUMBERS[case]
    module = Net(function)
    program = loaded(FORMS[form](torch.export.export(module, (x, numbers[0]))), tmp_path)
    session = torchlette.InferenceSession(program)
    for n in numbers:
        wanted = module(x, n)
        wanted = [torch.as_tensor(w) for w in (wanted if isinstance(wanted, tuple) else [wanted])]
        found = program.module()(*ours((x, n)))
        found = found if isinstance(found, tuple) else [found]
        for want, got in zip(wanted, found, strict=True):
            torch.testing.assert_close(torch.from_numpy(got.numpy()), want, check_dtype=case != "result")
        names = [i.name for i in session.get_inputs()]
        given = [x.numpy(), n.numpy()][-len(names) :]
        for want, got in zip(wanted, session.run(None, dict(zip(names, given, strict=True))), strict=True):
            torch.testing.assert_close(torch.from_numpy(got), want, check_dtype=case != "result")


class Cache(nn.Module):
    """Writes at a place that is read, also through views of that place."""

    def __init__(self):
        super().__init__()
        self.register_buffer("k", torch.zeros(2, 8, 3))
        self.register_buffer("n", torch.zeros(1))

    def forward(self, x, pos):
        n = _within(pos.item(), 7)
        self.k[:, n : n + 1] = x[:, None]
        self.n += 1
        v = self.k.narrow(1, n, 2)
        v.transpose(1, 2).add_(1)
        v[:, 0] += x
        v.view(2, 2, 3).select(1, 1).mul_(2)
        a, b = v.unbind(1)
        b += 100
        self.k[0].select(0, n).copy_(x[0])
        self.k[:, n][:, 1:] = 7
        mask = torch.arange(8) <= n
        return (self.k * mask[None, :, None]).sum(1), self.k.clone(), v * 1, a + b, self.n * 1


@pytest.mark.parametrize("form", ["as_exported", "core"])
def test_places_that_are_read_can_be_written(form, tmp_path):
    program = FORMS[form](torch.export.export(Cache(), (R(2, 3), T(3))))
    module, theirs = loaded(program, tmp_path).module(), program.module()
    for pos in (3, 0, 5, 6, 3):
        args = R(2, 3), T(pos)
        check(theirs(*args), module(*ours(args)))


def _sized(self, x, n):
    return x[: _within(n.item(), 6)]


def _made(self, x, n):
    return torch.zeros(_within(n.item(), 6))


@pytest.mark.parametrize("function", [_sized, _made, lambda s, x, n: x.roll(n.item())])
def test_sizes_and_options_that_are_read_are_refused(function, tmp_path):
    with pytest.raises(NotImplementedError, match="same steps and sizes for all values"):
        loaded(torch.export.export(Net(function), (R(9), T(3))), tmp_path)


class Observer(nn.Module):
    def __init__(self, on, fakes, least, most, low, high, rows, symmetric):
        super().__init__()
        self.options, n = (0.25, low, high, 0, rows, symmetric), 2 if rows else 1
        held = {"on": T([on]), "fakes": T([fakes]), "least": torch.full((n,), least), "most": torch.full((n,), most)}
        held |= {"scale": torch.full((n,), 0.5), "zero": torch.full((n,), 3, dtype=torch.int)}
        for name, value in held.items():
            self.register_buffer(name, value)

    def forward(self, x):
        return torch.fused_moving_avg_obs_fake_quant(x, *self._buffers.values(), *self.options)


RANGES = [(float("inf"), float("-inf")), (-0.5, 1.0), (0.0, 0.5)]
MODES = [
    m
    for m in itertools.product((0, 1), (0, 1), RANGES, [(0, 255), (-8, 7)], (False, True))
    if m[0] or m[2] != RANGES[0]
]


@pytest.mark.parametrize("form", ["as_exported", "core"])
@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize(("on", "fakes", "span", "places", "rows"), MODES)
def test_observers_that_round_have_pytorchs_results_state_and_gradients(
    on, fakes, span, places, rows, symmetric, form, tmp_path
):
    if symmetric and places[0] == 0:
        pytest.skip("PyTorch refuses it")
    xs = [torch.linspace(-1, 2.3, 6).view(2, 3), torch.zeros(2, 3), torch.rand(2, 3), -torch.rand(2, 3) * 1e-4]
    start = Observer(on, fakes, *span, *places, rows, symmetric)
    program = FORMS[form](torch.export.export(copy.deepcopy(start), (xs[0],)))
    module = loaded(program, tmp_path).module()
    for x in xs:
        x.requires_grad_()
        want, given = start(x), ours((x,))[0].requires_grad_()
        got = module(given)
        check(want.detach(), got.detach())
        (gradient,) = torch.autograd.grad(want.sum(), x)
        got.sum().backward()
        check(gradient, given.grad)
        for name, value in module.named_buffers():
            torch.testing.assert_close(torch.from_numpy(value.numpy()), start.get_buffer(name))


def _moments(drawn):
    drawn = drawn.double()
    return drawn.mean().item(), drawn.var().item()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
@pytest.mark.parametrize("rate", [0.0, 0.3, 4.0, 90.0, 5000.0])
def test_poisson_draws_of_programs_have_the_moments(rate, dtype, tmp_path):
    torchlette.manual_seed(3)
    x = torch.full((200, 100), rate, dtype=dtype)
    program = loaded(torch.export.export(Net(lambda s, x: torch.poisson(x)), (x,)), tmp_path)
    found = program.module()(*ours((x,)))
    assert str(found.dtype) == str(dtype) and found.shape == x.shape
    assert ((found == found.round()) & (found >= 0)).all().item()
    mean, variance = _moments(found)
    # Six standard deviations of the mean and of the variance of 20,000 draws.
    assert abs(mean - rate) <= 6 * (rate / 20000) ** 0.5 + 1e-9
    assert abs(variance - rate) <= 6 * ((2 * rate**2 + rate) / 20000) ** 0.5 + (1 if dtype == torch.float16 else 1e-9)
    if rate:
        session = torchlette.InferenceSession(program)
        first, second = (session(*ours((x,))) for _ in range(2))
        assert (first != second).any().item()


@pytest.mark.parametrize(
    ("n", "p"),
    [
        (1, 0.3),
        (10, 0.5),
        (10, 0.9),
        (0, 0.5),
        (7, 0.0),
        (7, 1.0),
        (1000, 0.01),
        (1000, 0.99),
        (1e6, 0.25),
        (1e6, 1e-5),
    ],
)
def test_binomial_draws_of_programs_have_the_moments(n, p, tmp_path):
    torchlette.manual_seed(3)
    args = torch.full((200, 100), n, dtype=torch.float32), torch.full((200, 100), p)
    program = loaded(torch.export.export(Net(lambda s, n, p: torch.binomial(n, p)), args), tmp_path)
    found = program.module()(*ours(args))
    assert found.dtype == torchlette.float32 and found.shape == args[0].shape
    assert ((found == found.round()) & (found >= 0) & (found <= n)).all().item()
    mean, variance = _moments(found)
    want = n * p * (1 - p)
    assert abs(mean - n * p) <= 6 * (want / 20000) ** 0.5 + 1e-9
    assert abs(variance - want) <= 6 * ((2 * want**2 + want) / 20000) ** 0.5 + 1e-9
