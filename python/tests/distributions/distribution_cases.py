"""Distributions with parameters and values, made in both libraries."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

import torchlette

RNG = np.random.default_rng(7)
REAL = RNG.standard_normal((3, 2)).astype(np.float32)
POSITIVE = (RNG.random((3, 2)) + 0.5).astype(np.float32)
UNIT = (RNG.random((3, 2)) * 0.8 + 0.1).astype(np.float32)
WEIGHTS = (RNG.random((3, 4)) + 0.1).astype(np.float32)
SIMPLEX = WEIGHTS / WEIGHTS.sum(-1, keepdims=True)
FACTOR = (np.tril(RNG.standard_normal((2, 3, 3)), -1) * 0.4 + np.eye(3)).astype(np.float32)
COVARIANCE = FACTOR @ FACTOR.transpose(0, 2, 1)
VECTORS = RNG.standard_normal((2, 3)).astype(np.float32)
MEANS = RNG.standard_normal((3, 4, 2)).astype(np.float32)
THIN = FACTOR[:, :, :2].copy()
CORRELATION = (FACTOR / np.linalg.norm(FACTOR, axis=-1, keepdims=True)).astype(np.float32)
COUNTS = np.array([[0, 1], [2, 3], [5, 4]], dtype=np.float32)
BITS = np.array([[0, 1], [1, 1], [0, 0]], dtype=np.float32)
CLASSES = np.array([0, 3, 2])
ONE_HOT = np.eye(4, dtype=np.float32)[CLASSES]

# Class, parameters by name, and a value.
CASES: dict[str, tuple[str, dict[str, Any], np.ndarray]] = {
    "Normal": ("Normal", {"loc": REAL, "scale": POSITIVE}, REAL[::-1].copy()),
    "Normal of numbers": ("Normal", {"loc": 0.5, "scale": 2.0}, REAL),
    "HalfNormal": ("HalfNormal", {"scale": POSITIVE}, POSITIVE),
    "LogNormal": ("LogNormal", {"loc": REAL, "scale": POSITIVE}, POSITIVE),
    "Uniform": ("Uniform", {"low": REAL, "high": REAL + 2}, REAL + 0.5),
    "Exponential": ("Exponential", {"rate": POSITIVE}, POSITIVE),
    "Laplace": ("Laplace", {"loc": REAL, "scale": POSITIVE}, REAL + 0.3),
    "Cauchy": ("Cauchy", {"loc": REAL, "scale": POSITIVE}, REAL + 0.3),
    "HalfCauchy": ("HalfCauchy", {"scale": POSITIVE}, POSITIVE),
    "Gumbel": ("Gumbel", {"loc": REAL, "scale": POSITIVE}, REAL + 0.3),
    "Weibull": ("Weibull", {"scale": POSITIVE, "concentration": POSITIVE + 1}, POSITIVE),
    "Pareto": ("Pareto", {"scale": POSITIVE, "alpha": POSITIVE + 2}, POSITIVE + 1),
    "Kumaraswamy": ("Kumaraswamy", {"concentration1": POSITIVE, "concentration0": POSITIVE + 1}, UNIT),
    "Bernoulli": ("Bernoulli", {"probs": UNIT}, BITS),
    "Bernoulli of logits": ("Bernoulli", {"logits": REAL}, BITS),
    "Geometric": ("Geometric", {"probs": UNIT}, COUNTS),
    "Geometric of logits": ("Geometric", {"logits": REAL}, COUNTS),
    "Binomial": ("Binomial", {"total_count": 5, "probs": UNIT}, COUNTS),
    "Binomial of logits": ("Binomial", {"total_count": 5, "logits": REAL}, COUNTS),
    "NegativeBinomial": ("NegativeBinomial", {"total_count": POSITIVE, "probs": UNIT}, COUNTS),
    "Poisson": ("Poisson", {"rate": POSITIVE * 3}, COUNTS),
    "Categorical": ("Categorical", {"probs": WEIGHTS}, CLASSES),
    "Categorical of logits": ("Categorical", {"logits": WEIGHTS}, CLASSES),
    "OneHotCategorical": ("OneHotCategorical", {"probs": WEIGHTS}, ONE_HOT),
    "OneHotCategoricalStraightThrough": ("OneHotCategoricalStraightThrough", {"logits": WEIGHTS}, ONE_HOT),
    "Multinomial": ("Multinomial", {"total_count": 6, "probs": WEIGHTS}, np.array([1, 2, 0, 3], dtype=np.float32)),
    "Gamma": ("Gamma", {"concentration": POSITIVE, "rate": POSITIVE + 1}, POSITIVE),
    "Chi2": ("Chi2", {"df": POSITIVE * 3}, POSITIVE),
    "InverseGamma": ("InverseGamma", {"concentration": POSITIVE + 2, "rate": POSITIVE}, POSITIVE),
    "Beta": ("Beta", {"concentration1": POSITIVE, "concentration0": POSITIVE + 1}, UNIT),
    "Dirichlet": ("Dirichlet", {"concentration": WEIGHTS * 3}, SIMPLEX),
    "StudentT": ("StudentT", {"df": POSITIVE + 4, "loc": REAL, "scale": POSITIVE}, REAL + 0.3),
    "FisherSnedecor": ("FisherSnedecor", {"df1": POSITIVE + 3, "df2": POSITIVE + 5}, POSITIVE),
    "MultivariateNormal": (
        "MultivariateNormal",
        {"loc": VECTORS, "covariance_matrix": COVARIANCE},
        VECTORS[::-1].copy(),
    ),
    "MultivariateNormal of a factor": (
        "MultivariateNormal",
        {"loc": np.zeros(3, np.float32), "scale_tril": FACTOR},
        np.ones((2, 3), np.float32),
    ),
    "MultivariateNormal of a precision": (
        "MultivariateNormal",
        {"loc": np.zeros(3, np.float32), "precision_matrix": COVARIANCE},
        np.ones((2, 3), np.float32),
    ),
    "LowRankMultivariateNormal": (
        "LowRankMultivariateNormal",
        {"loc": VECTORS, "cov_factor": THIN, "cov_diag": VECTORS**2 + 0.5},
        VECTORS[::-1].copy(),
    ),
    "Wishart": (
        "Wishart",
        {"df": np.array([3.5, 6.0], np.float32), "covariance_matrix": COVARIANCE},
        COVARIANCE[::-1] + np.eye(3, dtype=np.float32),
    ),
    "Wishart of a factor": (
        "Wishart",
        {"df": np.array([5.0, 3.2], np.float32), "scale_tril": FACTOR},
        COVARIANCE[::-1] + np.eye(3, dtype=np.float32),
    ),
    "Wishart of a precision": ("Wishart", {"df": np.float32(4.5), "precision_matrix": COVARIANCE}, COVARIANCE),
    "VonMises": ("VonMises", {"loc": REAL, "concentration": POSITIVE * 3}, REAL + 0.3),
    "ContinuousBernoulli": (
        "ContinuousBernoulli",
        {"probs": np.array([[0.1, 0.5], [0.4995, 0.501], [0.7, 0.95]], np.float32)},
        UNIT,
    ),
    "ContinuousBernoulli of logits": ("ContinuousBernoulli", {"logits": REAL}, UNIT),
    "GeneralizedPareto": (
        "GeneralizedPareto",
        {"loc": REAL, "scale": POSITIVE, "concentration": np.array([[0.0, 0.3], [-0.2, 1.5], [0.7, -0.5]], np.float32)},
        REAL + 0.4,
    ),
    "LKJCholesky": ("LKJCholesky", {"dim": 3, "concentration": np.array([0.7, 2.5], np.float32)}, CORRELATION),
    "LogisticNormal": (
        "LogisticNormal",
        {"loc": REAL, "scale": POSITIVE},
        SIMPLEX[:, :3] / SIMPLEX[:, :3].sum(-1, keepdims=True),
    ),
    "RelaxedBernoulli": ("RelaxedBernoulli", {"temperature": np.float32(0.7), "logits": REAL}, UNIT),
    "RelaxedOneHotCategorical": (
        "RelaxedOneHotCategorical",
        {"temperature": np.float32(0.7), "logits": WEIGHTS},
        SIMPLEX,
    ),
}

# Attributes and methods of the value that PyTorch has for a class; the others raise NotImplementedError in both.
MOMENTS = ("mean", "mode", "variance", "stddev")


def given(lib: Any, value: Any, grad: bool = False) -> Any:
    """Return a parameter for either library."""
    if not isinstance(value, (np.ndarray, np.generic)):
        return value
    t = lib.tensor(value)
    return t.requires_grad_() if grad and t.is_floating_point() else t


def both(case: str, grad: bool = False) -> tuple[Any, Any, Any, Any]:
    """Return a distribution and a value, in PyTorch and here."""
    name, parameters, value = CASES[case]
    made = [
        getattr(lib.distributions, name)(**{k: given(lib, v, grad) for k, v in parameters.items()})
        for lib in (torch, torchlette)
    ]
    return made[0], made[1], given(torch, value), given(torchlette, value)


def equal(ours: Any, theirs: Any, **tolerances: float) -> None:
    """Compare values, dtypes and shapes."""
    assert str(ours.dtype) == str(theirs.dtype)
    torch.testing.assert_close(
        torch.tensor(ours.detach().numpy()),
        theirs.detach().clone(),
        equal_nan=True,
        **(tolerances or {"rtol": 2e-5, "atol": 2e-5}),
    )


def answer(fn: Any) -> Any:
    """Return a result, or the class of the error."""
    try:
        return fn()
    except (NotImplementedError, AttributeError):
        return NotImplementedError
