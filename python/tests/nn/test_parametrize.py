"""Parametrisations, weight and spectral normalisation give PyTorch's values, gradients, copies and errors."""

from __future__ import annotations

import copy
import pickle
import warnings

import pytest

torch = pytest.importorskip("torch")

from module_oracle import check_call, copy_parameters, ours, theirs  # noqa: E402

import torchlette as tl  # noqa: E402
import torchlette.nn  # noqa: E402

NORMS = {
    "weight": lambda nn, m: nn.utils.parametrizations.weight_norm(m),
    "weight_dim": lambda nn, m: nn.utils.parametrizations.weight_norm(m, dim=1),
    "weight_whole": lambda nn, m: nn.utils.parametrizations.weight_norm(m, dim=None),
    "weight_old": lambda nn, m: nn.utils.weight_norm(m),
    "weight_old_whole": lambda nn, m: nn.utils.weight_norm(m, dim=None),
    "spectral": lambda nn, m: nn.utils.parametrizations.spectral_norm(m),
    "spectral_dim": lambda nn, m: nn.utils.parametrizations.spectral_norm(m, n_power_iterations=3, dim=1),
    "spectral_bias": lambda nn, m: nn.utils.parametrizations.spectral_norm(m, "bias"),
    "spectral_old": lambda nn, m: nn.utils.spectral_norm(m, n_power_iterations=2),
}


def x():
    return torch.randn(5, 4, generator=torch.Generator().manual_seed(1)).requires_grad_()


def normed(name):
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected, got = (NORMS[name](nn, nn.Linear(4, 3)) for nn in (torch.nn, tl.nn))
    copy_parameters(expected, got)
    return expected, got


@pytest.mark.parametrize("name", NORMS)
def test_normed_linear(name):
    expected, got = normed(name)
    assert list(got.state_dict()) == list(expected.state_dict())
    assert [n for n, _ in got.named_parameters()] == [n for n, _ in expected.named_parameters()]
    assert repr(got) == repr(expected)
    for _ in range(2):  # the second call goes on from the buffers of the first
        expected.zero_grad()
        got.zero_grad()
        check_call(expected, got, x())
    for key, value in expected.state_dict().items():
        torch.testing.assert_close(theirs(got.state_dict()[key]), value)
    if "old" not in name:
        check_call(copy.deepcopy(expected).eval(), copy.deepcopy(got).eval(), x())


@pytest.mark.parametrize("name", NORMS)
def test_removal(name):
    expected, got = normed(name)
    for m, nn, t in ((expected, torch.nn, torch), (got, tl.nn, tl)):
        if "old" in name:
            getattr(nn.utils, "remove_weight_norm" if "weight" in name else "remove_spectral_norm")(m)
        else:
            nn.utils.parametrize.remove_parametrizations(m, "bias" if "bias" in name else "weight")
        assert type(m) is nn.Linear
        assert isinstance(m.weight, t.nn.Parameter)
    assert list(got.state_dict()) == list(expected.state_dict())
    check_call(expected, got, x())


def symmetric(t):
    class Symmetric(t.nn.Module):
        def forward(self, m):
            return m.triu() + m.triu(1).transpose(-1, -2)

        def right_inverse(self, m):
            return m.triu()

    return Symmetric()


def doubled(t):
    class Doubled(t.nn.Module):
        def forward(self, m):
            return 2 * m

        def right_inverse(self, m):
            return m / 2

    return Doubled()


def two_parametrizations(t):
    m = t.nn.Linear(4, 4)
    t.nn.utils.parametrize.register_parametrization(m, "weight", symmetric(t))
    t.nn.utils.parametrize.register_parametrization(m, "weight", doubled(t))
    return m


def test_two_functions_and_assignment():
    torch.manual_seed(0)
    expected, got = two_parametrizations(torch), two_parametrizations(tl)
    copy_parameters(expected, got)
    check_call(expected, got, x())
    value = torch.arange(16.0).reshape(4, 4)
    value = value + value.t()
    expected.weight, got.weight = value, ours(value)
    torch.testing.assert_close(theirs(got.weight), expected.weight.detach())
    torch.testing.assert_close(
        theirs(got.parametrizations.weight.original), expected.parametrizations.weight.original.detach()
    )
    assert tl.nn.utils.parametrize.is_parametrized(got, "weight")
    assert not tl.nn.utils.parametrize.is_parametrized(got, "bias")
    assert tl.nn.utils.parametrize.type_before_parametrizations(got) is tl.nn.Linear
    for t, m in ((torch, expected), (tl, got)):
        t.nn.utils.parametrize.remove_parametrizations(m, "weight", leave_parametrized=False)
    check_call(expected, got, x())


@pytest.mark.parametrize("trivial", [True, False])
@pytest.mark.parametrize("kind", [None, "matrix_exp", "cayley", "householder"])
@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (2, 3, 5)])
def test_orthogonal(shape, kind, trivial):
    torch.manual_seed(0)
    start = torch.randn(shape)
    expected, got = torch.nn.Module(), tl.nn.Module()
    expected.weight, got.weight = torch.nn.Parameter(start), tl.nn.Parameter(ours(start))
    for t, m in ((torch, expected), (tl, got)):
        t.nn.utils.parametrizations.orthogonal(m, orthogonal_map=kind, use_trivialization=trivial)
    assert repr(got) == repr(expected)
    torch.testing.assert_close(theirs(got.weight), expected.weight, rtol=1e-4, atol=1e-5)
    if kind in ("matrix_exp", "cayley") and not trivial:
        for m in (expected, got):
            with pytest.raises(NotImplementedError):
                m.weight = m.weight
    copy_parameters(expected, got)
    if trivial and kind in ("matrix_exp", "cayley"):
        with torch.no_grad(), tl.no_grad():
            expected.parametrizations.weight.original.add_(start / 4)
            got.parametrizations.weight.original.add_(ours(start / 4))
    torch.testing.assert_close(theirs(got.weight), expected.weight, rtol=1e-4, atol=1e-5)
    expected.weight.mul(start).sum().backward()
    got.weight.mul(ours(start)).sum().backward()
    torch.testing.assert_close(
        theirs(got.parametrizations.weight.original.grad),
        expected.parametrizations.weight.original.grad,
        rtol=1e-4,
        atol=1e-5,
    )


def test_assigned_orthogonal_matrices_are_kept():
    for kind in ("matrix_exp", "cayley", "householder"):
        m = tl.nn.utils.parametrizations.orthogonal(tl.nn.Linear(4, 4), orthogonal_map=kind)
        wanted = tl.linalg.qr(tl.randn(4, 4))[0]
        m.weight = wanted
        tl.testing.assert_close(m.weight.detach(), wanted, rtol=1e-4, atol=1e-5)


def test_cache():
    m = two_parametrizations(tl)
    assert m.weight is not m.weight
    with tl.nn.utils.parametrize.cached():
        assert m.weight is m.weight
    assert m.weight is not m.weight


def test_copies_and_pickles():
    m = two_parametrizations(tl)
    twin = copy.deepcopy(m)
    assert tl.equal(twin.weight, m.weight)
    twin.weight = tl.zeros(4, 4)
    assert not tl.equal(twin.weight, m.weight)
    with pytest.raises(RuntimeError, match="only supported through state_dict"):
        pickle.dumps(m)


def test_old_weight_norm_loads_into_the_new():
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        old = tl.nn.utils.weight_norm(tl.nn.Linear(4, 3))
    new = tl.nn.utils.parametrizations.weight_norm(tl.nn.Linear(4, 3))
    new.load_state_dict(old.state_dict())
    assert tl.equal(new(ours(x())), old(ours(x())))


class Wrong:
    """Functions that may not be registered."""

    @staticmethod
    def shape(t):
        class Sum(t.nn.Module):
            def forward(self, m):
                return m.sum(0)

        return Sum()

    @staticmethod
    def dtype(t):
        class Wide(t.nn.Module):
            def forward(self, m):
                return m.double()

        return Wide()

    @staticmethod
    def kind(t):
        class Number(t.nn.Module):
            def forward(self, m):
                return 3

        return Number()


@pytest.mark.parametrize(
    "bad",
    [
        lambda t, m: t.nn.utils.parametrize.register_parametrization(m, "weight", Wrong.shape(t)),
        lambda t, m: t.nn.utils.parametrize.register_parametrization(m, "weight", Wrong.dtype(t)),
        lambda t, m: t.nn.utils.parametrize.register_parametrization(m, "weight", Wrong.kind(t)),
        lambda t, m: t.nn.utils.parametrize.register_parametrization(m, "wait", symmetric(t)),
        lambda t, m: t.nn.utils.parametrize.remove_parametrizations(m, "weight"),
        lambda t, m: t.nn.utils.parametrizations.spectral_norm(m, dim=2),
        lambda t, m: t.nn.utils.parametrizations.spectral_norm(m, n_power_iterations=0),
        lambda t, m: t.nn.utils.spectral_norm(m, n_power_iterations=0),
        lambda t, m: t.nn.utils.parametrizations.orthogonal(m, "bias"),
        lambda t, m: t.nn.utils.parametrizations.orthogonal(m, "wait"),
        lambda t, m: t.nn.utils.parametrizations.orthogonal(m, orthogonal_map="given"),
        lambda t, m: setattr(t.nn.utils.parametrizations.orthogonal(m), "weight", t.ones(3, 3)),
        lambda t, m: t.nn.utils.weight_norm(t.nn.utils.weight_norm(m)),
        lambda t, m: t.nn.utils.remove_weight_norm(m),
        lambda t, m: t.nn.utils.remove_spectral_norm(m),
    ],
)
def test_errors(bad):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(Exception) as want:
            bad(torch, torch.nn.Linear(4, 3))
        with pytest.raises(want.type):
            bad(tl, tl.nn.Linear(4, 3))
