"""Transforms, transformed distributions and the transforms of constraints are PyTorch's."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from distribution_cases import (
    FACTOR,
    POSITIVE,
    REAL,
    UNIT,
    equal,
    given,
)

import torchlette


@pytest.mark.parametrize(
    ("name", "args", "value"),
    [
        ("ExpTransform", (), REAL),
        ("SigmoidTransform", (), REAL),
        ("TanhTransform", (), REAL),
        ("SoftplusTransform", (), REAL),
        ("AffineTransform", (0.5, -2.0), REAL),
        ("PowerTransform", (2.0,), POSITIVE),
        ("StickBreakingTransform", (), REAL),
        ("ReshapeTransform", ((2,), (1, 2)), REAL),
    ],
)
def test_transforms(name: str, args: tuple[Any, ...], value: np.ndarray) -> None:
    """A transform, its inverse and its log determinant are PyTorch's."""
    results = []
    for lib in (torch, torchlette):
        t = getattr(lib.distributions, name)(*args)
        x = given(lib, value)
        y = t(x)
        results.append([y, t.inv(y), t.log_abs_det_jacobian(x, y), t.inv.log_abs_det_jacobian(y, x)])
        assert tuple(t.forward_shape(x.shape)) == tuple(y.shape)
        assert tuple(t.inverse_shape(y.shape)) == tuple(x.shape)
        assert (t.domain.event_dim, t.codomain.event_dim) == (
            getattr(torch.distributions, name)(*args).domain.event_dim,
            getattr(torch.distributions, name)(*args).codomain.event_dim,
        )
    for want, got in zip(*results, strict=True):
        equal(got, want, rtol=1e-4, atol=1e-5)


def test_transformed_distributions() -> None:
    """Chains of transforms: the squashed policy of SAC, and a flow with a cache."""
    results = []
    for lib in (torch, torchlette):
        d = lib.distributions
        base = d.Normal(given(lib, REAL), given(lib, POSITIVE))
        squashed = d.TransformedDistribution(base, [d.TanhTransform(cache_size=1), d.AffineTransform(1.0, 2.0)])
        weights = d.TransformedDistribution(d.Independent(base, 1), [d.StickBreakingTransform()])
        falling = d.TransformedDistribution(base, d.AffineTransform(lib.zeros(2), -lib.ones(2)))
        y = squashed.transforms[1](squashed.transforms[0](given(lib, REAL)))
        results.append(
            [squashed.log_prob(y), squashed.cdf(y), falling.cdf(given(lib, REAL)), falling.icdf(given(lib, UNIT))]
        )
        w = weights.transforms[0](given(lib, REAL))
        results[-1] += [weights.log_prob(w), d.ComposeTransform(squashed.transforms).inv(y)]
        assert tuple(weights.event_shape) == (3,)
        assert tuple(squashed.rsample((4,)).shape) == (4, 3, 2)
        drawn = squashed.rsample()
        assert tuple(squashed.log_prob(drawn).shape) == (3, 2)
    for want, got in zip(*results, strict=True):
        equal(got, want, rtol=1e-4, atol=1e-4)


CONSTRAINTS = [
    "real",
    "positive",
    "nonnegative",
    "unit_interval",
    "simplex",
    "lower_cholesky",
    "real_vector",
    "greater_than",
    "less_than",
    "interval",
]


@pytest.mark.parametrize("name", CONSTRAINTS)
@pytest.mark.parametrize("registry", ["transform_to", "biject_to"])
def test_transforms_to_constraints(name: str, registry: str) -> None:
    """Unconstrained numbers are taken to a region by PyTorch's transform."""
    if (name, registry) == ("lower_cholesky", "biject_to"):
        registry = "transform_to"  # PyTorch has only this one
    bounds = {"greater_than": (1.5,), "less_than": (1.5,), "interval": (-1.0, 2.0)}.get(name)
    results = []
    for lib in (torch, torchlette):
        constraint = getattr(lib.distributions.constraints, name)
        constraint = constraint if bounds is None else constraint(*bounds)
        x = given(lib, FACTOR if name == "lower_cholesky" else REAL)
        y = getattr(lib.distributions, registry)(constraint)(x)
        assert constraint.check(y).all().item()
        results.append(y)
    equal(results[1], results[0])


JOINED: dict[str, Any] = {
    "corr cholesky": (lambda d: d.CorrCholeskyTransform(), (2, 6)),
    "positive definite": (lambda d: d.PositiveDefiniteTransform(), (2, 3, 3)),
    "cat": (lambda d: d.CatTransform([d.ExpTransform(), d.transforms.identity_transform], 1, [2, 4]), (2, 6)),
    "stack": (lambda d: d.StackTransform([d.ExpTransform(), d.SigmoidTransform()], -1), (3, 2)),
}


@pytest.mark.parametrize("name", JOINED)
def test_transforms_of_parts_and_matrices(name: str) -> None:
    """Their values, inverses, log determinants and regions are PyTorch's."""
    make, shape = JOINED[name]
    value = np.linspace(-1, 1, math.prod(shape)).reshape(shape).astype("float32")
    results = []
    for lib in (torch, torchlette):
        t, x = make(lib.distributions), given(lib, value)
        y = t(x)
        results.append([y, t.inv(y), t.codomain.check(y), lib.tensor(list(t.forward_shape(x.shape)))])
        if name != "positive definite":
            results[-1].append(t.log_abs_det_jacobian(x, y))
    for want, got in zip(*results, strict=True):
        equal(got, want, rtol=1e-4, atol=1e-5)


REGIONS: dict[str, Any] = {
    "positive": lambda c: c.positive,
    "interval": lambda c: c.interval(2.0, 3.0),
    "half open": lambda c: c.half_open_interval(lower_bound=2.0, upper_bound=3.0),
    "less": lambda c: c.less_than(upper_bound=2.0),
    "simplex": lambda c: c.simplex,
    "independent": lambda c: c.independent(c.positive, 1),
    "corr cholesky": lambda c: c.corr_cholesky,
    "cat": lambda c: c.cat([c.positive, c.real], -1, [2, 4]),
    "stack": lambda c: c.stack([c.positive, c.real], 0),
}


@pytest.mark.parametrize("name", REGIONS)
def test_registries_lead_into_the_region(name: str) -> None:
    """Values and checks are PyTorch's."""
    value = np.linspace(-1, 1, 12).reshape(2, 6).astype("float32")
    results: list[list[Any]] = []
    for lib in (torch, torchlette):
        d, region = lib.distributions, REGIONS[name](lib.distributions.constraints)
        results.append([])
        for registry in (d.biject_to, d.transform_to):
            y = registry(region)(given(lib, value))
            results[-1] += [y, region.check(y)]
    for want, got in zip(*results, strict=True):
        equal(got, want, rtol=1e-4, atol=1e-5)


def test_programs_register_transforms() -> None:
    """A class of constraints of the program's own has a transform once it is registered."""
    d = torchlette.distributions

    class Even(d.constraints.Constraint):  # type: ignore[name-defined,misc]
        pass

    with pytest.raises(NotImplementedError, match="Even"):
        d.transform_to(Even())
    d.transform_to.register(Even)(lambda constraint: d.ExpTransform())
    assert isinstance(d.transform_to(Even()), d.ExpTransform)
    with pytest.raises(TypeError, match="Constraint subclass or instance"):
        d.transform_to.register(3, lambda constraint: d.ExpTransform())
