"""Kullback-Leibler divergences of one distribution from another, in nats, by closed formulas."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from torchlette import _C, linalg
from torchlette.distributions.compound import Independent
from torchlette.distributions.discrete import Bernoulli, Binomial, Categorical, Geometric, OneHotCategorical, Poisson
from torchlette.distributions.distribution import Distribution
from torchlette.distributions.gamma import Beta, Dirichlet, Gamma
from torchlette.distributions.location_scale import (
    Cauchy,
    Exponential,
    Gumbel,
    HalfNormal,
    Laplace,
    LogNormal,
    Normal,
    Pareto,
    Uniform,
)
from torchlette.distributions.multivariate import (
    LowRankMultivariateNormal,
    MultivariateNormal,
    half_log_det,
    mahalanobis,
)
from torchlette.distributions.transformed import TransformedDistribution
from torchlette.distributions.utils import sum_rightmost
from torchlette.nn import functional as F

__all__ = ["kl_divergence", "register_kl"]

Tensor = _C.Tensor
Formula = Callable[[Any, Any], Tensor]
_FORMULAS: dict[tuple[type, type], Formula] = {}


def register_kl(type_p: type, type_q: type) -> Callable[[Formula], Formula]:
    """Return a decorator that registers a formula for distributions of two classes and their subclasses."""
    for name, kind in (("type_p", type_p), ("type_q", type_q)):
        if not isinstance(kind, type):  # other classes too: packages register bases of theirs
            raise TypeError(f"Expected {name} to be a Distribution subclass but got {kind}")

    def decorate(formula: Formula) -> Formula:
        _FORMULAS[type_p, type_q] = formula
        return formula

    return decorate


def _formula(p: type, q: type) -> Formula | None:
    """Return the formula registered for the nearest base classes of two classes."""
    found = [
        (p.__mro__.index(a) + q.__mro__.index(b), f)
        for (a, b), f in _FORMULAS.items()
        if issubclass(p, a) and issubclass(q, b)
    ]
    return min(found, key=lambda pair: pair[0])[1] if found else None


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """Return the divergence of ``p`` from ``q``, the mean of log p(x) - log q(x) over ``p``, of shape ``batch_shape``.

    Raises:
        NotImplementedError: If no formula is registered for the two classes.
    """
    formula = _formula(type(p), type(q))
    if formula is None:
        raise NotImplementedError(
            f"No KL(p || q) is implemented for p type {type(p).__name__} and q type {type(q).__name__}"
        )
    return formula(p, q)


@register_kl(Normal, Normal)
def _normal(p: Normal, q: Normal) -> Tensor:
    ratio = (p.scale / q.scale).square()
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale).square() - 1 - ratio.log())


@register_kl(LogNormal, LogNormal)
@register_kl(HalfNormal, HalfNormal)
def _of_bases(p: Any, q: Any) -> Tensor:
    return _normal(p.base_dist, q.base_dist)


@register_kl(Bernoulli, Bernoulli)
def _bernoulli(p: Bernoulli, q: Bernoulli) -> Tensor:
    a, b = p.probs, q.probs
    one = _C.where(b == 0, math.inf, a * (F.softplus(-q.logits) - F.softplus(-p.logits)))
    zero = _C.where(b == 1, math.inf, (1 - a) * (F.softplus(q.logits) - F.softplus(p.logits)))
    return _C.where(a == 0, 0, one) + _C.where(a == 1, 0, zero)


@register_kl(Binomial, Binomial)
def _binomial(p: Binomial, q: Binomial) -> Tensor:
    if (p.total_count < q.total_count).any().item():
        raise NotImplementedError("KL between Binomials where q.total_count > p.total_count is not implemented")
    kl = p.total_count * (p.probs * (p.logits - q.logits) + (-p.probs).log1p() - (-q.probs).log1p())
    return _C.where(p.total_count > q.total_count, math.inf, kl)


@register_kl(Categorical, Categorical)
@register_kl(OneHotCategorical, OneHotCategorical)
def _categorical(p: Any, q: Any) -> Tensor:
    terms = p.probs * (p.logits - q.logits)
    terms = _C.where(q.probs == 0, math.inf, terms)
    return _C.where(p.probs == 0, 0, terms).sum(-1)


@register_kl(Geometric, Geometric)
def _geometric(p: Geometric, q: Geometric) -> Tensor:
    return -p.entropy() - (-q.probs).log1p() / p.probs - q.logits


@register_kl(Poisson, Poisson)
def _poisson(p: Poisson, q: Poisson) -> Tensor:
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@register_kl(Exponential, Exponential)
def _exponential(p: Exponential, q: Exponential) -> Tensor:
    ratio = q.rate / p.rate
    return -ratio.log() + ratio - 1


@register_kl(Gamma, Gamma)
def _gamma(p: Gamma, q: Gamma) -> Tensor:
    a, b = p.concentration, q.concentration
    return (
        b * (p.rate / q.rate).log() + b.lgamma() - a.lgamma() + (a - b) * a.digamma() + (q.rate - p.rate) * (a / p.rate)
    )


@register_kl(Dirichlet, Dirichlet)
def _dirichlet(p: Dirichlet, q: Dirichlet) -> Tensor:
    a, b = p.concentration, q.concentration
    total, other = a.sum(-1), b.sum(-1)
    terms = (a - b) * (a.digamma() - total.digamma().unsqueeze(-1)) - (a.lgamma() - b.lgamma())
    return total.lgamma() - other.lgamma() + terms.sum(-1)


@register_kl(Beta, Beta)
def _beta(p: Beta, q: Beta) -> Tensor:
    return _dirichlet(p._dirichlet, q._dirichlet)


@register_kl(Laplace, Laplace)
def _laplace(p: Laplace, q: Laplace) -> Tensor:
    ratio, away = p.scale / q.scale, (p.loc - q.loc).abs()
    return -ratio.log() + away / q.scale + ratio * (-away / p.scale).exp() - 1


@register_kl(Cauchy, Cauchy)
def _cauchy(p: Cauchy, q: Cauchy) -> Tensor:
    return ((p.scale + q.scale).square() + (p.loc - q.loc).square()).log() - (4 * p.scale * q.scale).log()


@register_kl(Gumbel, Gumbel)
def _gumbel(p: Gumbel, q: Gumbel) -> Tensor:
    euler = 0.57721566490153286060
    ratio, away = p.scale / q.scale, (q.loc - p.loc) / q.scale
    return -ratio.log() - away + ratio * euler + (away + (1 + ratio).lgamma()).exp() - (1 + euler)


@register_kl(Pareto, Pareto)
def _pareto(p: Pareto, q: Pareto) -> Tensor:
    ratio = q.alpha / p.alpha
    kl = q.alpha * (p.scale / q.scale).log() - ratio.log() + ratio - 1
    return _C.where(p.scale < q.scale, math.inf, kl)


@register_kl(Uniform, Uniform)
def _uniform(p: Uniform, q: Uniform) -> Tensor:
    kl = ((q.high - q.low) / (p.high - p.low)).log()
    return _C.where((q.low > p.low) | (q.high < p.high), math.inf, kl)


@register_kl(Uniform, Normal)
def _uniform_normal(p: Uniform, q: Normal) -> Tensor:
    width = p.high - p.low
    away = (width / q.scale).square() / 12 + ((p.high + p.low - 2 * q.loc) / (2 * q.scale)).square()
    return (math.sqrt(2 * math.pi) * q.scale / width).log() + 0.5 * away


@register_kl(LowRankMultivariateNormal, LowRankMultivariateNormal)
@register_kl(LowRankMultivariateNormal, MultivariateNormal)
@register_kl(MultivariateNormal, LowRankMultivariateNormal)
@register_kl(MultivariateNormal, MultivariateNormal)
def _multivariate_normal(
    p: MultivariateNormal | LowRankMultivariateNormal, q: MultivariateNormal | LowRankMultivariateNormal
) -> Tensor:
    if p.event_shape != q.event_shape:
        raise ValueError(
            "KL-divergence between two Multivariate Normals with different event shapes cannot be computed"
        )
    a, b = p.scale_tril, q.scale_tril
    trace = linalg.solve_triangular(b, a, upper=False).square().flatten(-2).sum(-1)
    return half_log_det(b) - half_log_det(a) + 0.5 * (trace + mahalanobis(b, q.loc - p.loc) - p.event_shape[0])


@register_kl(Independent, Independent)
def _independent(p: Independent, q: Independent) -> Tensor:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError(
            "KL of Independent distributions with different reinterpreted_batch_ndims: want the same number"
        )
    return sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)


@register_kl(TransformedDistribution, TransformedDistribution)
def _transformed(p: TransformedDistribution, q: TransformedDistribution) -> Tensor:
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError("KL of transformed distributions: want the same transforms and event_shape")
    return kl_divergence(p.base_dist, q.base_dist)
