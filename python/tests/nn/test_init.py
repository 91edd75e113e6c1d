"""Initialisers give PyTorch's values where these are exact, and its moments and bounds where they are drawn."""

from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch")

import torchlette as tl  # noqa: E402
from torchlette.nn import init  # noqa: E402

N = 200


def moments(t):
    values = t.detach().reshape(-1).tolist()
    mean = sum(values) / len(values)
    return mean, math.sqrt(sum((v - mean) ** 2 for v in values) / len(values)), min(values), max(values)


@pytest.fixture(autouse=True)
def _seed():
    tl.manual_seed(7)


@pytest.mark.parametrize("name", ["linear", "conv2d", "sigmoid", "tanh", "relu", "leaky_relu", "selu"])
@pytest.mark.parametrize("param", [None, 0.3])
def test_gain(name, param):
    assert init.calculate_gain(name, param) == pytest.approx(torch.nn.init.calculate_gain(name, param))


def test_gain_errors():
    with pytest.raises(ValueError, match="Unsupported nonlinearity"):
        init.calculate_gain("nothing")
    with pytest.raises(ValueError, match="not a valid number"):
        init.calculate_gain("leaky_relu", True)


def test_constants():
    assert init.ones_(tl.empty(2, 2)).tolist() == [[1, 1], [1, 1]]
    assert init.zeros_(tl.ones(2)).tolist() == [0, 0]
    assert init.constant_(tl.ones(2), 0.25).tolist() == [0.25, 0.25]
    assert init.eye_(tl.empty(2, 3)).tolist() == torch.eye(2, 3).tolist()
    for groups in (1, 2):
        want = torch.nn.init.dirac_(torch.empty(4, 2, 3, 3), groups)
        assert init.dirac_(tl.empty(4, 2, 3, 3), groups).tolist() == want.tolist()


UNIFORM = {
    "uniform": (lambda t: init.uniform_(t, -2.0, 3.0), -2.0, 3.0),
    "xavier": (lambda t: init.xavier_uniform_(t, gain=2.0), -2 * math.sqrt(6 / (2 * N)), 2 * math.sqrt(6 / (2 * N))),
    "kaiming": (lambda t: init.kaiming_uniform_(t, a=1.0), -math.sqrt(3 / N), math.sqrt(3 / N)),
    "kaiming_out": (
        lambda t: init.kaiming_uniform_(t, mode="fan_out", nonlinearity="relu"),
        -math.sqrt(6 / N),
        math.sqrt(6 / N),
    ),
}


@pytest.mark.parametrize("name", UNIFORM)
def test_uniform(name):
    fill, low, high = UNIFORM[name]
    mean, std, least, most = moments(fill(tl.empty(N, N)))
    assert low <= least < low + (high - low) * 1e-3
    assert high - (high - low) * 1e-3 < most <= high
    assert mean == pytest.approx((low + high) / 2, abs=(high - low) * 0.01)
    assert std == pytest.approx((high - low) / math.sqrt(12), rel=0.02)


NORMAL = {
    "normal": (lambda t: init.normal_(t, 1.0, 2.0), 1.0, 2.0),
    "xavier": (lambda t: init.xavier_normal_(t), 0.0, math.sqrt(1 / N)),
    "kaiming": (lambda t: init.kaiming_normal_(t, nonlinearity="relu"), 0.0, math.sqrt(2 / N)),
}


@pytest.mark.parametrize("name", NORMAL)
def test_normal(name):
    fill, want_mean, want_std = NORMAL[name]
    mean, std, _, _ = moments(fill(tl.empty(N, N)))
    assert mean == pytest.approx(want_mean, abs=want_std * 0.03)
    assert std == pytest.approx(want_std, rel=0.02)


@pytest.mark.parametrize(
    ("mean", "std", "a", "b"),
    [(0.0, 1.0, -2.0, 2.0), (0.0, 0.02, -2.0, 2.0), (1.0, 2.0, 0.0, 1.5), (0.0, 1.0, 1.0, 3.0)],
)
def test_trunc_normal(mean, std, a, b):
    want = moments(
        torch.nn.init.trunc_normal_(torch.empty(N, N), mean, std, a, b, generator=torch.Generator().manual_seed(1))
    )
    got = moments(init.trunc_normal_(tl.empty(N, N), mean, std, a, b))
    assert a <= got[2] <= got[3] <= b
    assert got[0] == pytest.approx(want[0], abs=0.03 * std)
    assert got[1] == pytest.approx(want[1], rel=0.03)


@pytest.mark.parametrize("shape", [(5, 5), (3, 8), (8, 3), (4, 2, 3)])
def test_orthogonal(shape):
    t = init.orthogonal_(tl.empty(*shape), gain=2.0)
    m = torch.tensor(t.tolist()).reshape(shape[0], -1)
    product = m @ m.T if m.shape[0] <= m.shape[1] else m.T @ m
    torch.testing.assert_close(product, 4 * torch.eye(min(m.shape)), atol=1e-4, rtol=1e-4)


def test_sparse():
    rows = torch.tensor(init.sparse_(tl.empty(20, 6), 0.3, std=1.0).tolist())
    assert (rows == 0).sum(0).tolist() == [6] * 6


def test_errors():
    for fill in (init.xavier_uniform_, init.kaiming_normal_, init.orthogonal_):
        with pytest.raises(ValueError):
            fill(tl.empty(3))
    with pytest.raises(ValueError, match="Mode"):
        init.kaiming_uniform_(tl.empty(2, 2), mode="fan")
    with pytest.raises(ValueError):
        init.eye_(tl.empty(3))


def test_linear_bounds():
    module = tl.nn.Linear(64, 32)
    for p in module.parameters():
        assert p.abs().max().item() <= 1 / 8
        assert p.requires_grad
        assert p.is_leaf
