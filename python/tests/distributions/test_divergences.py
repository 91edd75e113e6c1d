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


def pairs() -> list[tuple[str, str]]:
    """Return the pairs of different classes that PyTorch has a formula for."""
    known = {(p.__name__, q.__name__) for p, q in torch.distributions.kl._KL_REGISTRY}
    names = [name for name in CASES if " " not in name]
    return [(p, q) for p in names for q in names if p != q and "Multi" not in p and (CASES[p][0], CASES[q][0]) in known]


def test_divergences_of_different_classes() -> None:
    """Each pair that PyTorch has a formula for, with gradients where the divergence is finite."""
    names = pairs()
    assert len(names) > 60
    for name, other_name in names:
        found = []
        for lib in (torch, torchlette):
            parameters = {k: given(lib, v, True) for k, v in CASES[name][1].items()}
            p = getattr(lib.distributions, CASES[name][0])(**parameters)
            q = getattr(lib.distributions, CASES[other_name][0])(
                **{k: given(lib, v) for k, v in CASES[other_name][1].items()}
            )
            kl = lib.distributions.kl_divergence(p, q)
            grads: list[Any] = []
            if kl.requires_grad and kl.isfinite().all().item():
                kl.sum().backward()
                grads = [t.grad for t in parameters.values() if isinstance(t, lib.Tensor)]
            found.append([kl, *grads])
        for want, got in zip(*found, strict=True):
            equal(got, want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["HalfCauchy", "InverseGamma", "Weibull", "Kumaraswamy", "ContinuousBernoulli"])
def test_divergences_of_the_same_class(name: str) -> None:
    """A distribution from one of other parameters; transformed ones that PyTorch has a formula for only when alike."""
    found = []
    for lib in (torch, torchlette):
        kind, parameters = getattr(lib.distributions, CASES[name][0]), CASES[name][1]
        p = kind(**{k: given(lib, v) for k, v in parameters.items()})
        alike = name in ("Weibull", "Kumaraswamy")
        q = kind(**{k: given(lib, v if alike else other(k, v)) for k, v in parameters.items()})
        found.append(lib.distributions.kl_divergence(p, q))
    equal(found[1], found[0].nan_to_num(0.0), rtol=1e-4, atol=1e-4)


def test_divergence_of_weibull_from_weibull() -> None:
    """The closed formula is the mean of the difference of log densities, by quadrature."""
    d = torchlette.distributions
    p, q = d.Weibull(1.3, 2.0), d.Weibull(0.8, 1.4)
    x = torchlette.linspace(1e-4, 8, 20001, dtype=torchlette.float64)
    gap = (p.log_prob(x).exp() * (p.log_prob(x) - q.log_prob(x))).sum() * (x[1] - x[0])
    assert abs(d.kl_divergence(p, q).item() - gap.item()) < 1e-3


def test_divergence_of_wishart_from_wishart() -> None:
    """As PyTorch's of one pair; of a batch that of each pair (PyTorch's differs)."""
    found = []
    for lib in (torch, torchlette):
        d = lib.distributions
        p, q = (
            d.Wishart(lib.tensor(df), given(lib, matrix)) for df, matrix in ((6.0, COVARIANCE[0]), (4.5, COVARIANCE[1]))
        )
        found.append(d.kl_divergence(p, q))
    equal(found[1], found[0].detach(), rtol=1e-4, atol=1e-4)
    d, covariance = torchlette.distributions, torchlette.tensor(COVARIANCE)
    p = d.Wishart(torchlette.tensor([4.5, 6.0]), covariance)
    q = d.Wishart(torchlette.tensor([3.6, 4.8]), covariance + torchlette.eye(3))
    p1, q1 = (d.Wishart(w.df[0], w.covariance_matrix[0]) for w in (p, q))
    equal(d.kl_divergence(p, q)[0], torch.tensor(d.kl_divergence(p1, q1).item()), rtol=1e-5, atol=0)


def test_uniform_beyond_the_support() -> None:
    """The divergence is infinite where the uniform distribution reaches beyond the other's support."""
    for lib, out in ((torch, []), (torchlette, [])):
        d = lib.distributions
        p = d.Uniform(lib.tensor([-0.5, 0.2, 0.3]), lib.tensor([0.5, 0.7, 1.5]))
        for q in (
            d.Beta(2.0, 3.0),
            d.Gamma(2.0, 3.0),
            d.Exponential(2.0),
            d.ContinuousBernoulli(0.3),
            d.Pareto(0.25, 2.0),
        ):
            out.append(d.kl_divergence(p, q))
        for low, high in ((0.1, 2.0), (-1.0, 0.9), (-1.0, 2.0)):
            out.append(d.kl_divergence(d.Beta(2.0, 3.0), d.Uniform(low, high)))
        if lib is torch:
            wanted = out
    for want, got in zip(wanted, out, strict=True):
        equal(got, want)


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
