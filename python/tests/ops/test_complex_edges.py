"""Complex functions at zeros, infinities and NaN give what annex G of the C standard, and so PyTorch, has there."""

from __future__ import annotations

import itertools
import math

import pytest
import torch

import torchlette.torch as facade

EDGES = (0.0, 1.0, -1.0, math.inf, -math.inf, math.nan)
POINTS = [complex(re, im) for re, im in itertools.product(EDGES, EDGES)]
NAMES = ("exp", "sin", "cos", "tan", "sinh", "cosh", "tanh", "asin", "acos", "atan", "asinh", "acosh", "atanh")


@pytest.mark.parametrize("name", NAMES)
def test_edges_of_complex_functions(name):
    theirs = torch.view_as_real(getattr(torch, name)(torch.tensor(POINTS, dtype=torch.complex128)))
    ours = facade.view_as_real(getattr(facade, name)(facade.tensor(POINTS, dtype=facade.complex128)))
    for point, got, want in zip(POINTS, ours.tolist(), theirs.tolist(), strict=True):
        if any(map(math.isnan, want)):  # the standard leaves the sign of the other part open
            got, want = [abs(g) for g in got], [abs(w) for w in want]
        for g, w in zip(got, want, strict=True):
            same = math.isnan(g) if math.isnan(w) else g == pytest.approx(w, rel=1e-7, abs=1e-7)
            assert same, f"{name}({point}) is {got}, PyTorch's {want}"


def test_expm1_of_infinities():
    inf, nan = math.inf, math.nan
    points = [complex(-inf, inf), complex(-inf, nan), complex(inf, 0), complex(nan, 0)]
    got = facade.view_as_real(facade.expm1(facade.tensor(points))).tolist()
    assert got[:3] == [[-1, 0], [-1, 0], [inf, 0]]
    assert math.isnan(got[3][0]) and got[3][1] == 0


@pytest.mark.parametrize("name", NAMES)
def test_gradients_stay_those_of_the_formulas(name):
    x = [0j, 0.5j, 0.25 + 0j, -1.5 + 2j]
    theirs = torch.tensor(x, dtype=torch.complex128, requires_grad=True)
    ours = facade.tensor(x, dtype=facade.complex128, requires_grad=True)
    if name == "acosh":  # its slope at 0 is infinite on one side
        theirs, ours = (t.detach()[1:].requires_grad_() for t in (theirs, ours))
    for t in (theirs, ours):
        y = getattr(torch if t is theirs else facade, name)(t)
        (y.real + 2 * y.imag).sum().backward()
    torch.testing.assert_close(torch.from_numpy(ours.grad.numpy().copy()), theirs.grad)
