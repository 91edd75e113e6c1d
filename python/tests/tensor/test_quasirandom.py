"""Sobol sequences have PyTorch's points, bit for bit, also scrambled ones of a seed."""

from __future__ import annotations

import copy
from typing import Any

import oracle
import pytest
import torch

import torchlette
import torchlette.torch as facade


def walk(T: Any, dimension: int, **options: Any) -> list[Any]:
    """Draw, skip, start again; return all points and the states between."""
    engine = T.quasirandom.SobolEngine(dimension, **options)
    out = [engine.sobolstate, engine.shift, engine.draw(1), engine.draw(5)]
    engine.fast_forward(13)
    out += [engine.draw(7, dtype=T.float64), engine.quasi.clone()]
    engine.reset().fast_forward(4)
    out += [engine.draw(3), copy.deepcopy(engine).draw(2)]
    into = T.empty(0)
    engine.reset().draw_base2(4, out=into)
    return [*out, into, engine.num_generated, repr(engine)]


@pytest.mark.parametrize(
    ("dimension", "options"),
    [(1, {}), (40, {}), (7, {"scramble": True, "seed": 11}), (2, {"scramble": True, "seed": -3})],
)
def test_points_are_pytorchs(dimension: int, options: dict[str, Any]) -> None:
    want = walk(torch, dimension, **options)
    oracle.assert_equal(walk(facade, dimension, **options), want, rtol=0, atol=0)


def test_the_last_dims_are_pytorchs() -> None:
    ours = torchlette.quasirandom.SobolEngine(21201)
    theirs = torch.quasirandom.SobolEngine(21201)
    oracle.assert_equal(ours.sobolstate, theirs.sobolstate, rtol=0, atol=0)


def test_a_scramble_without_a_seed_follows_the_default_generator() -> None:
    def points() -> list[Any]:
        return facade.quasirandom.SobolEngine(3, scramble=True).draw(8).tolist()

    facade.manual_seed(1)
    first, other = points(), points()
    facade.manual_seed(1)
    assert points() == first != other


@pytest.mark.parametrize(
    "call",
    [
        lambda T: T.quasirandom.SobolEngine(0),
        lambda T: T.quasirandom.SobolEngine(21202),
        lambda T: (
            T.quasirandom.SobolEngine(2).draw_base2(2) is T.quasirandom.SobolEngine(2).fast_forward(3).draw_base2(2)
        ),
    ],
)
def test_bad_calls_raise_pytorchs_class(call: Any) -> None:
    oracle.same_error(lambda T: call(facade if T is torchlette else T), [], "cpu")


def test_points_beyond_the_last_are_refused() -> None:
    with pytest.raises(ValueError, match="2\\*\\*30 points"):
        torchlette.quasirandom.SobolEngine(1).fast_forward(2**30 + 1)
