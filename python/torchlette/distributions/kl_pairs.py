"""Divergences of distributions of two classes, in nats.

The divergence of p from q is -H(p) - E_p[log q(x)]. The logarithm of each density q here is linear in few functions
of x (x, x squared, log x), so the mean over p needs only the moments that the class of p has.
"""

from __future__ import annotations

import math
from typing import Any

from torchlette import _C, linalg
from torchlette.distributions.continuous import ContinuousBernoulli
from torchlette.distributions.discrete import Bernoulli, Binomial, Poisson
from torchlette.distributions.gamma import Beta, Gamma, InverseGamma
from torchlette.distributions.kl import kl_divergence, register_kl
from torchlette.distributions.location_scale import (
    Exponential,
    Gumbel,
    HalfCauchy,
    Kumaraswamy,
    Laplace,
    Normal,
    Pareto,
    Uniform,
    Weibull,
)
from torchlette.distributions.multivariate import Wishart, half_log_det

__all__: list[str] = []

Tensor = _C.Tensor
_UNIT = (Beta, ContinuousBernoulli)

#: Class of p: classes of q whose support does not contain that of p.
_NARROWER: dict[type, tuple[type, ...]] = {
    Beta: (Pareto,),
    ContinuousBernoulli: (Pareto,),
    Exponential: (*_UNIT, Pareto, Uniform),
    Gamma: (*_UNIT, Pareto, Uniform),
    Gumbel: (*_UNIT, Exponential, Gamma, Pareto, Uniform),
    Laplace: (*_UNIT, Exponential, Gamma, Pareto, Uniform),
    Normal: (*_UNIT, Exponential, Gamma, Pareto, Uniform),
    Pareto: (*_UNIT, Uniform),
    Poisson: (Bernoulli, Binomial),
}


def _infinite(p: Any, q: Any) -> Tensor:
    first = getattr(p, next(iter(p.arg_constraints)))
    return _C.full_like(first, math.inf)


for _p, _all in _NARROWER.items():
    for _q in _all:
        register_kl(_p, _q)(_infinite)


def _uniform_mean_log(p: Uniform) -> Tensor:
    """Return the mean of log x over a uniform distribution."""
    width = p.high - p.low
    return (p.high.xlogy(p.high) - p.low.xlogy(p.low)) / width - 1


def _mean_log(p: Any) -> Tensor:
    """Return the mean of log x."""
    if isinstance(p, Gamma):
        return p.concentration.digamma() - p.rate.log()
    if isinstance(p, Exponential):
        return -p.rate.log() - 0.57721566490153286060
    if isinstance(p, Beta):
        return p.concentration1.digamma() - (p.concentration1 + p.concentration0).digamma()
    if isinstance(p, Pareto):
        return p.scale.log() + p.alpha.reciprocal()
    return _uniform_mean_log(p)


def _outside(p: Any, kl: Tensor, low: Any = None, high: Any = None) -> Tensor:
    """Return the divergence, infinite where a uniform p reaches beyond the support of q."""
    if not isinstance(p, Uniform):
        return kl
    if low is not None:
        kl = _C.where(p.low < low, math.inf, kl)
    return kl if high is None else _C.where(p.high > high, math.inf, kl)


@register_kl(Beta, Normal)
@register_kl(ContinuousBernoulli, Normal)
@register_kl(Exponential, Normal)
@register_kl(Gamma, Normal)
@register_kl(Gumbel, Normal)
@register_kl(Laplace, Normal)
@register_kl(Pareto, Normal)
def _from_normal(p: Any, q: Normal) -> Tensor:
    away = (p.variance + (p.mean - q.loc).square()) / (2 * q.scale.square())
    return 0.5 * math.log(2 * math.pi) + q.scale.log() + away - p.entropy()


@register_kl(Beta, Exponential)
@register_kl(ContinuousBernoulli, Exponential)
@register_kl(Gamma, Exponential)
@register_kl(Pareto, Exponential)
@register_kl(Uniform, Exponential)
def _from_exponential(p: Any, q: Exponential) -> Tensor:
    return _outside(p, q.rate * p.mean - q.rate.log() - p.entropy(), low=0)


@register_kl(Beta, Gamma)
@register_kl(Exponential, Gamma)
@register_kl(Pareto, Gamma)
@register_kl(Uniform, Gamma)
def _from_gamma(p: Any, q: Gamma) -> Tensor:
    a = q.concentration
    return _outside(p, a.lgamma() - a * q.rate.log() - (a - 1) * _mean_log(p) + q.rate * p.mean - p.entropy(), low=0)


@register_kl(Uniform, Beta)
def _uniform_beta(p: Uniform, q: Beta) -> Tensor:
    a, b = q.concentration1, q.concentration0
    against = _uniform_mean_log(Uniform(1 - p.high, 1 - p.low, validate_args=False))  # the mean of log(1 - x)
    kl = a.lgamma() + b.lgamma() - (a + b).lgamma() - (a - 1) * _mean_log(p) - (b - 1) * against - p.entropy()
    return _outside(p, kl, low=0, high=1)


@register_kl(Beta, ContinuousBernoulli)
@register_kl(ContinuousBernoulli, ContinuousBernoulli)
@register_kl(Uniform, ContinuousBernoulli)
def _from_continuous_bernoulli(p: Any, q: ContinuousBernoulli) -> Tensor:
    kl = -p.entropy() - p.mean * q.logits - (-q.probs).log1p() - q._log_normalizer()
    return _C.where((p.low <= 0) | (p.high >= 1), math.inf, kl) if isinstance(p, Uniform) else kl


@register_kl(Beta, Uniform)
@register_kl(ContinuousBernoulli, Uniform)
def _from_uniform(p: Any, q: Uniform) -> Tensor:
    return _C.where((q.low > 0) | (q.high < 1), math.inf, (q.high - q.low).log() - p.entropy())


@register_kl(Exponential, Gumbel)
@register_kl(Gamma, Gumbel)
@register_kl(Normal, Gumbel)
@register_kl(Uniform, Gumbel)
def _from_gumbel(p: Any, q: Gumbel) -> Tensor:
    if isinstance(p, Normal):
        falling = (0.5 * (p.scale / q.scale).square() - (p.loc - q.loc) / q.scale).exp()
    elif isinstance(p, Uniform):
        low, high = (p.low - q.loc) / q.scale, (p.high - q.loc) / q.scale
        falling = ((-low).exp() - (-high).exp()) / (high - low)
    else:
        power = p.concentration if isinstance(p, Gamma) else 1
        falling = (q.loc / q.scale).exp() * (1 + (q.scale * p.rate).reciprocal()) ** -power
    return q.scale.log() + (p.mean - q.loc) / q.scale + falling - p.entropy()


@register_kl(Normal, Laplace)
def _normal_laplace(p: Normal, q: Laplace) -> Tensor:
    away = p.loc - q.loc
    z = away / p.scale
    mean = p.scale * math.sqrt(2 / math.pi) * (-0.5 * z.square()).exp() + away * (z / math.sqrt(2)).erf()
    return (2 * q.scale).log() + mean / q.scale - p.entropy()


@register_kl(Uniform, Pareto)
def _uniform_pareto(p: Uniform, q: Pareto) -> Tensor:
    kl = (q.alpha + 1) * _mean_log(p) - q.alpha.log() - q.alpha * q.scale.log() - p.entropy()
    return _outside(p, kl, low=q.scale)


@register_kl(Bernoulli, Poisson)
def _bernoulli_poisson(p: Bernoulli, q: Poisson) -> Tensor:
    return q.rate - p.probs * q.rate.log() - p.entropy()


@register_kl(HalfCauchy, HalfCauchy)
@register_kl(InverseGamma, InverseGamma)
def _of_bases(p: Any, q: Any) -> Tensor:
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(Weibull, Weibull)
def _weibull(p: Weibull, q: Weibull) -> Tensor:
    a, b = p.concentration, q.concentration
    mean_log = p.scale.log() - 0.57721566490153286060 / a
    power = (b * (p.scale / q.scale).log() + (1 + b / a).lgamma()).exp()
    return b * q.scale.log() - b.log() - (b - 1) * mean_log + power - p.entropy()


@register_kl(Kumaraswamy, Kumaraswamy)
def _kumaraswamy(p: Kumaraswamy, q: Kumaraswamy) -> Tensor:
    same = (p.concentration1 == q.concentration1) & (p.concentration0 == q.concentration0)
    if not same.all().item():
        raise NotImplementedError("KL of two Kumaraswamy distributions: want the same concentrations")
    return _C.zeros_like(p.concentration1)


@register_kl(Wishart, Wishart)
def _wishart(p: Wishart, q: Wishart) -> Tensor:
    n, a, b = p.event_shape[-1], p.df, q.df
    mine, other = p.scale_tril, q.scale_tril
    trace = linalg.solve_triangular(other, mine, upper=False).square().flatten(-2).sum(-1)
    digammas = (a.unsqueeze(-1) / 2 - _C.arange(n, dtype=a.dtype, device=a.device) / 2).digamma().sum(-1)
    return (
        b * (half_log_det(other) - half_log_det(mine))
        + a / 2 * (trace - n)
        + (b / 2).mvlgamma(n)
        - (a / 2).mvlgamma(n)
        + (a - b) / 2 * digammas
    )
