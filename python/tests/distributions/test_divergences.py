"""Divergences of distributions are PyTorch's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from distribution_cases import (
    CASES,
    COVARIANCE,
    POSITIVE,
    REAL,
    THIN,
    VECTORS,
    equal,
    given,
)

import torchlette

KL = [
    "Normal",
    "HalfNormal",
    "LogNormal",
    "Bernoulli",
    "Binomial",
    "Categorical",
    "OneHotCategorical",
    "Geometric",
    "Poisson",
    "Exponential",
    "Gamma",
    "Beta",
    "Dirichlet",
    "Laplace",
    "Cauchy",
    "Gumbel",
    "Pareto",
    "Uniform",
    "MultivariateNormal",
    "LowRankMultivariateNormal",
    "LogisticNormal",
]


def other(name: str, value: Any) -> Any:
    """Return the parameter of a second distribution of the kind."""
    if not isinstance(value, np.ndarray):
        return value
    if name == "covariance_matrix":
        return value + np.eye(3, dtype=np.float32)
    return {"low": value - np.float32(0.5), "high": value + np.float32(0.5)}.get(name, value * np.float32(0.8))


@pytest.mark.parametrize("case", KL)
def test_divergences(case: str) -> None:
    """kl_divergence is PyTorch's, with its gradients."""
    name, parameters, _ = CASES[case]
    found = []
    for lib in (torch, torchlette):
        leaves = {k: given(lib, v, True) for k, v in parameters.items()}
        p = getattr(lib.distributions, name)(**leaves)
        q = getattr(lib.distributions, name)(**{k: given(lib, other(k, v)) for k, v in parameters.items()})
        kl = lib.distributions.kl_divergence(p, q)
        kl.sum().backward()
        found.append([kl, *(t.grad for t in leaves.values() if isinstance(t, lib.Tensor))])
    for want, got in zip(*found, strict=True):
        equal(got, want, rtol=1e-4, atol=1e-4)


def test_divergences_of_normal_vectors_of_both_kinds() -> None:
    """A covariance of low rank beside a full one; and its matrices."""
    found = []
    for lib in (torch, torchlette):
        d = lib.distributions
        thin = d.LowRankMultivariateNormal(given(lib, VECTORS), given(lib, THIN), given(lib, VECTORS**2 + 0.5))
        full = d.MultivariateNormal(given(lib, VECTORS), given(lib, COVARIANCE))
        found.append(
            [
                d.kl_divergence(thin, full),
                d.kl_divergence(full, thin),
                thin.covariance_matrix,
                thin.precision_matrix,
                thin.scale_tril,
            ]
        )
        for bad in (
            (VECTORS[0, 0], THIN, VECTORS),
            (VECTORS, THIN[0, 0], VECTORS),
            (VECTORS, THIN[:, :2], VECTORS),
            (VECTORS, THIN, VECTORS[:, :2]),
        ):
            with pytest.raises(ValueError):
                d.LowRankMultivariateNormal(*(given(lib, v) for v in bad))
    for want, got in zip(*found, strict=True):
        equal(got, want, rtol=1e-4, atol=1e-4)


def test_divergences_of_compounds() -> None:
    """Independent parts add up; Uniform from Normal has a formula; other pairs raise."""
    for lib, out in ((torch, []), (torchlette, [])):
        d = lib.distributions
        p = d.Independent(d.Normal(given(lib, REAL), given(lib, POSITIVE)), 1)
        q = d.Independent(d.Normal(lib.zeros(3, 2), lib.ones(3, 2)), 1)
        out += [
            d.kl_divergence(p, q),
            d.kl.kl_divergence(d.Uniform(lib.zeros(2), lib.ones(2)), d.Normal(0.5, 2.0)),
            p.log_prob(given(lib, REAL)),
            p.entropy(),
        ]
        with pytest.raises(NotImplementedError):
            d.kl_divergence(d.Normal(0.0, 1.0), d.Bernoulli(0.5))
        if lib is torch:
            wanted = out
    for want, got in zip(wanted, out, strict=True):
        equal(got, want)
