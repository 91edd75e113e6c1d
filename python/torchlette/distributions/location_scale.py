"""Distributions of numbers, each drawn as a function of a uniform or normal draw."""

from __future__ import annotations

import math
from typing import Any

from torchlette import _C
from torchlette._runtime.dtypes import finfo
from torchlette.distributions import constraints
from torchlette.distributions.distribution import Distribution, ExponentialFamily
from torchlette.distributions.utils import broadcast_all

__all__ = [
    "Cauchy",
    "Exponential",
    "Gumbel",
    "HalfCauchy",
    "HalfNormal",
    "Kumaraswamy",
    "Laplace",
    "LogNormal",
    "Normal",
    "Pareto",
    "Uniform",
    "Weibull",
]

Tensor = _C.Tensor
_LOG_SQRT_2PI = 0.5 * math.log(2 * math.pi)
_EULER = 0.57721566490153286060


def open_uniform(like: Tensor, shape: Any) -> Tensor:
    """Return uniform draws from (0, 1) of that shape, with the dtype and on the device of ``like``."""
    f = finfo(like.dtype)
    return _C.rand(shape, dtype=like.dtype, device=like.device).clamp(f.tiny, 1 - f.eps / 2)


class Normal(ExponentialFamily):
    """The normal distribution: density exp(-(x - loc)^2 / (2 scale^2)) / (scale sqrt(2 pi)).

    Args:
        loc: Mean, a number or a tensor; the parameters broadcast.
        scale: Standard deviation.
        validate_args: See :class:`Distribution`.
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        """Broadcast the parameters."""
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.shape, validate_args=validate_args)

    mean = property(lambda self: self.loc, doc="Mean.")
    mode = property(lambda self: self.loc, doc="The likeliest value.")
    stddev = property(lambda self: self.scale, doc="Standard deviation.")
    variance = property(lambda self: self.scale.square(), doc="Variance.")

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Draw so that gradients reach the parameters."""
        shape = self._extended_shape(sample_shape)
        return self.loc + _C.randn(shape, dtype=self.loc.dtype, device=self.loc.device) * self.scale

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the log density."""
        if self._validate_args:
            self._validate_sample(value)
        return -((value - self.loc) ** 2) / (2 * self.variance) - self.scale.log() - _LOG_SQRT_2PI

    def cdf(self, value: Tensor) -> Tensor:
        """Return the probability of values up to ``value``."""
        if self._validate_args:
            self._validate_sample(value)
        return 0.5 * (1 + ((value - self.loc) * self.scale.reciprocal() / math.sqrt(2)).erf())

    def icdf(self, value: Tensor) -> Tensor:
        """Return the value whose cdf is ``value``."""
        return self.loc + self.scale * (2 * value - 1).erfinv() * math.sqrt(2)

    def entropy(self) -> Tensor:
        """Return the entropy."""
        return 0.5 + _LOG_SQRT_2PI + self.scale.log()


class Half(Distribution):
    """The absolute value of a draw from a distribution that is symmetric about 0: ``_whole``.

    Args:
        scale: Scale of the symmetric distribution.
        validate_args: See :class:`Distribution`.
    """

    arg_constraints = {"scale": constraints.positive}
    support = constraints.nonnegative
    _whole: type[Distribution]

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        """Make the symmetric distribution."""
        (self.scale,) = broadcast_all(scale)
        self.base_dist = self._whole(_C.zeros_like(self.scale), self.scale, validate_args=False)
        super().__init__(self.scale.shape, validate_args=validate_args)

    mode = property(lambda self: _C.zeros_like(self.scale), doc="The likeliest value.")

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the log density."""
        if self._validate_args:
            self._validate_sample(value)
        return _C.where(value >= 0, self.base_dist.log_prob(value) + math.log(2), -math.inf)

    def cdf(self, value: Tensor) -> Tensor:
        """Return the probability of values up to ``value``."""
        if self._validate_args:
            self._validate_sample(value)
        return 2 * self.base_dist.cdf(value) - 1

    def icdf(self, value: Tensor) -> Tensor:
        """Return the value whose cdf is ``value``."""
        return self.base_dist.icdf((value + 1) / 2)

    def entropy(self) -> Tensor:
        """Return the entropy."""
        return self.base_dist.entropy() - math.log(2)


class HalfNormal(Half):
    """The absolute value of a draw from the normal distribution with mean 0.

    Args:
        scale: Standard deviation of the normal distribution.
        validate_args: See :class:`Distribution`.
    """

    has_rsample = True
    _whole = Normal

    mean = property(lambda self: self.scale * math.sqrt(2 / math.pi), doc="Mean.")
    variance = property(lambda self: self.scale.square() * (1 - 2 / math.pi), doc="Variance.")

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Draw so that gradients reach the scale."""
        return self.base_dist.rsample(sample_shape).abs()


class LogNormal(Distribution):
    """The exponential of a normal draw, so that the logarithm is normal.

    Args:
        loc: Mean of the logarithm.
        scale: Standard deviation of the logarithm.
        validate_args: See :class:`Distribution`.
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.positive
    has_rsample = True

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        """Make the normal."""
        self.loc, self.scale = broadcast_all(loc, scale)
        self.base_dist = Normal(self.loc, self.scale, validate_args=False)
        super().__init__(self.loc.shape, validate_args=validate_args)

    mean = property(lambda self: (self.loc + self.scale.square() / 2).exp(), doc="Mean.")
    mode = property(lambda self: (self.loc - self.scale.square()).exp(), doc="The likeliest value.")

    @property
    def variance(self) -> Tensor:
        """Variance."""
        square = self.scale.square()
        return square.expm1() * (2 * self.loc + square).exp()

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Draw so that gradients reach the parameters."""
        return self.base_dist.rsample(sample_shape).exp()

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the log density."""
        if self._validate_args:
            self._validate_sample(value)
        return self.base_dist.log_prob(value.log()) - value.log()

    def cdf(self, value: Tensor) -> Tensor:
        """Return the probability of values up to ``value``."""
        if self._validate_args:
            self._validate_sample(value)
        return self.base_dist.cdf(value.log())

    def icdf(self, value: Tensor) -> Tensor:
        """Return the value whose cdf is ``value``."""
        return self.base_dist.icdf(value).exp()

    def entropy(self) -> Tensor:
        """Return the entropy."""
        return self.base_dist.entropy() + self.loc


class Inverted(Distribution):
    """A distribution that draws icdf(u) with u uniform in (0, 1). A subclass defines ``icdf`` and tensor parameters."""

    has_rsample = True

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Draw so that gradients reach the parameters."""
        first = self.__dict__[next(iter(self.arg_constraints))]
        return self.icdf(open_uniform(first, self._extended_shape(sample_shape)))


class Uniform(Inverted):
    """The uniform distribution on [low, high): density 1 / (high - low).

    Args:
        low: Lower bound.
        high: Upper bound; with validation, ValueError unless it is above ``low``.
        validate_args: See :class:`Distribution`.
    """

    arg_constraints = {
        "low": constraints.dependent(is_discrete=False, event_dim=0),
        "high": constraints.dependent(is_discrete=False, event_dim=0),
    }

    def __init__(self, low: Any, high: Any, validate_args: bool | None = None) -> None:
        """Broadcast the bounds and check their order."""
        self.low, self.high = broadcast_all(low, high)
        super().__init__(self.low.shape, validate_args=validate_args)
        if self._validate_args and not (self.low < self.high).all().item():
            raise ValueError("Uniform is not defined when low>= high")

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> constraints.Constraint:
        """Where values lie."""
        return constraints.interval(self.low, self.high)

    mean = property(lambda self: (self.high + self.low) / 2, doc="Mean.")
    mode = property(lambda self: math.nan * self.high, doc="NaN: no value is the likeliest.")
    stddev = property(lambda self: (self.high - self.low) / 12**0.5, doc="Standard deviation.")
    variance = property(lambda self: (self.high - self.low).square() / 12, doc="Variance.")

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the log density."""
        if self._validate_args:
            self._validate_sample(value)
        inside = self.low.le(value) & self.high.gt(value)
        return inside.type_as(self.low).log() - (self.high - self.low).log()

    def cdf(self, value: Tensor) -> Tensor:
        """Return the probability of values up to ``value``."""
        if self._validate_args:
            self._validate_sample(value)
        return ((value - self.low) / (self.high - self.low)).clamp(0, 1)

    def icdf(self, value: Tensor) -> Tensor:
        """Return the value whose cdf is ``value``."""
        return value * (self.high - self.low) + self.low

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Draw so that gradients reach the bounds."""
        return self.icdf(_C.rand(self._extended_shape(sample_shape), dtype=self.low.dtype, device=self.low.device))

    def entropy(self) -> Tensor:
        """Return the entropy."""
        return (self.high - self.low).log()


class Exponential(Inverted, ExponentialFamily):
    """The exponential distribution: density rate exp(-rate x) for x >= 0.

    Args:
        rate: The reciprocal of the mean.
        validate_args: See :class:`Distribution`.
    """

    arg_constraints = {"rate": constraints.positive}
    support = constraints.nonnegative

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        """Make the rate a tensor."""
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.shape, validate_args=validate_args)

    mean = property(lambda self: self.rate.reciprocal(), doc="Mean.")
    mode = property(lambda self: _C.zeros_like(self.rate), doc="The likeliest value.")
    stddev = property(lambda self: self.rate.reciprocal(), doc="Standard deviation.")
    variance = property(lambda self: self.rate.pow(-2), doc="Variance.")

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the log density."""
        if self._validate_args:
            self._validate_sample(value)
        return self.rate.log() - self.rate * value

    def cdf(self, value: Tensor) -> Tensor:
        """Return the probability of values up to ``value``."""
        if self._validate_args:
            self._validate_sample(value)
        return 1 - (-self.rate * value).exp()

    def icdf(self, value: Tensor) -> Tensor:
        """Return the value whose cdf is ``value``."""
        return -(-value).log1p() / self.rate

    def entropy(self) -> Tensor:
        """Return the entropy."""
        return 1 - self.rate.log()


class LocationScale(Inverted):
    """A distribution with a location and a scale: loc + scale times a standard draw."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        """Broadcast the parameters."""
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.shape, validate_args=validate_args)

    def _standard(self, value: Tensor) -> Tensor:
        """Return (value - loc) / scale."""
        if self._validate_args:
            self._validate_sample(value)
        return (value - self.loc) / self.scale


class Laplace(LocationScale):
    """The Laplace distribution: density exp(-\\|x - loc\\| / scale) / (2 scale)."""

    mean = property(lambda self: self.loc, doc="Mean.")
    mode = property(lambda self: self.loc, doc="The likeliest value.")
    variance = property(lambda self: 2 * self.scale.square(), doc="Variance.")
    stddev = property(lambda self: 2**0.5 * self.scale, doc="Standard deviation.")

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the log density."""
        return -(2 * self.scale).log() - self._standard(value).abs()

    def cdf(self, value: Tensor) -> Tensor:
        """Return the probability of values up to ``value``."""
        z = self._standard(value)
        return 0.5 - 0.5 * z.sign() * (-z.abs()).expm1()

    def icdf(self, value: Tensor) -> Tensor:
        """Return the value whose cdf is ``value``."""
        term = value - 0.5
        return self.loc - self.scale * term.sign() * (-2 * term.abs()).log1p()

    def entropy(self) -> Tensor:
        """Return the entropy."""
        return 1 + (2 * self.scale).log()


class Cauchy(LocationScale):
    """The Cauchy distribution: density 1 / (pi scale (1 + z^2)) with z = (x - loc) / scale."""

    mean = property(lambda self: _C.full_like(self.loc, math.nan), doc="NaN: the distribution has no mean.")
    mode = property(lambda self: self.loc, doc="The likeliest value.")
    variance = property(lambda self: _C.full_like(self.loc, math.inf), doc="Infinity.")

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the log density."""
        return -math.log(math.pi) - self.scale.log() - self._standard(value).square().log1p()

    def cdf(self, value: Tensor) -> Tensor:
        """Return the probability of values up to ``value``."""
        return self._standard(value).atan() / math.pi + 0.5

    def icdf(self, value: Tensor) -> Tensor:
        """Return the value whose cdf is ``value``."""
        return (math.pi * (value - 0.5)).tan() * self.scale + self.loc

    def entropy(self) -> Tensor:
        """Return the entropy."""
        return math.log(4 * math.pi) + self.scale.log()


class HalfCauchy(Half, Inverted):
    """The absolute value of a draw from the Cauchy distribution with location 0.

    Args:
        scale: Scale of the Cauchy distribution.
        validate_args: See :class:`Distribution`.
    """

    _whole = Cauchy

    mean = property(lambda self: _C.full_like(self.scale, math.inf), doc="Infinity.")
    variance = property(lambda self: self.base_dist.variance, doc="Infinity.")


class Gumbel(LocationScale):
    """The Gumbel distribution, of the largest of many draws: cdf exp(-exp(-(x - loc) / scale))."""

    mean = property(lambda self: self.loc + self.scale * _EULER, doc="Mean.")
    mode = property(lambda self: self.loc, doc="The likeliest value.")
    stddev = property(lambda self: math.pi / math.sqrt(6) * self.scale, doc="Standard deviation.")
    variance = property(lambda self: self.stddev.square(), doc="Variance.")

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the log density."""
        y = -self._standard(value)
        return (y - y.exp()) - self.scale.log()

    def cdf(self, value: Tensor) -> Tensor:
        """Return the probability of values up to ``value``."""
        return (-(-self._standard(value)).exp()).exp()

    def icdf(self, value: Tensor) -> Tensor:
        """Return the value whose cdf is ``value``."""
        return self.loc - self.scale * (-value.log()).log()

    def entropy(self) -> Tensor:
        """Return the entropy."""
        return self.scale.log() + (1 + _EULER)


class Weibull(Inverted):
    """The Weibull distribution: cdf 1 - exp(-(x / scale)^concentration) for x > 0.

    Args:
        scale: Scale.
        concentration: Exponent in the cdf.
        validate_args: See :class:`Distribution`.
    """

    arg_constraints = {"scale": constraints.positive, "concentration": constraints.positive}
    support = constraints.positive

    def __init__(self, scale: Any, concentration: Any, validate_args: bool | None = None) -> None:
        """Broadcast the parameters."""
        self.scale, self.concentration = broadcast_all(scale, concentration)
        super().__init__(self.scale.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """Mean."""
        return self.scale * (1 + self.concentration.reciprocal()).lgamma().exp()

    @property
    def mode(self) -> Tensor:
        """The likeliest value."""
        k = self.concentration
        return _C.where(k > 1, self.scale * ((k - 1) / k) ** k.reciprocal(), 0)

    @property
    def variance(self) -> Tensor:
        """Variance."""
        r = self.concentration.reciprocal()
        return self.scale.square() * ((1 + 2 * r).lgamma().exp() - (2 * (1 + r).lgamma()).exp())

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the log density."""
        if self._validate_args:
            self._validate_sample(value)
        z = value / self.scale
        return (self.concentration / self.scale).log() + (self.concentration - 1) * z.log() - z**self.concentration

    def cdf(self, value: Tensor) -> Tensor:
        """Return the probability of values up to ``value``."""
        if self._validate_args:
            self._validate_sample(value)
        return -(-((value / self.scale) ** self.concentration)).expm1()

    def icdf(self, value: Tensor) -> Tensor:
        """Return the value whose cdf is ``value``."""
        return self.scale * (-(-value).log1p()) ** self.concentration.reciprocal()

    def entropy(self) -> Tensor:
        """Return the entropy."""
        r = self.concentration.reciprocal()
        return _EULER * (1 - r) + (self.scale * r).log() + 1


class Pareto(Inverted):
    """The Pareto distribution: cdf 1 - (scale / x)^alpha for x >= scale.

    Args:
        scale: The least value.
        alpha: Exponent in the cdf.
        validate_args: See :class:`Distribution`.
    """

    arg_constraints = {"alpha": constraints.positive, "scale": constraints.positive}

    def __init__(self, scale: Any, alpha: Any, validate_args: bool | None = None) -> None:
        """Broadcast the parameters."""
        self.scale, self.alpha = broadcast_all(scale, alpha)
        super().__init__(self.scale.shape, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> constraints.Constraint:
        """Where values lie."""
        return constraints.greater_than_eq(self.scale)

    @property
    def mean(self) -> Tensor:
        """Mean; infinite for ``alpha`` up to 1."""
        a = self.alpha.clamp(min=1)
        return a * self.scale / (a - 1)

    mode = property(lambda self: self.scale, doc="The likeliest value.")

    @property
    def variance(self) -> Tensor:
        """Variance; infinite for ``alpha`` up to 2."""
        a = self.alpha.clamp(min=2)
        return self.scale.square() * a / ((a - 1).square() * (a - 2))

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the log density."""
        if self._validate_args:
            self._validate_sample(value)
        return self.alpha.log() + self.alpha * self.scale.log() - (self.alpha + 1) * value.log()

    def cdf(self, value: Tensor) -> Tensor:
        """Return the probability of values up to ``value``."""
        if self._validate_args:
            self._validate_sample(value)
        return 1 - (self.scale / value) ** self.alpha

    def icdf(self, value: Tensor) -> Tensor:
        """Return the value whose cdf is ``value``."""
        return self.scale * (-(-value).log1p() / self.alpha).exp()

    def entropy(self) -> Tensor:
        """Return the entropy."""
        return (self.scale / self.alpha).log() + (1 + self.alpha.reciprocal())


class Kumaraswamy(Inverted):
    """The Kumaraswamy distribution on (0, 1): cdf 1 - (1 - x^a)^b.

    Args:
        concentration1: The exponent a.
        concentration0: The exponent b.
        validate_args: See :class:`Distribution`.
    """

    arg_constraints = {"concentration1": constraints.positive, "concentration0": constraints.positive}
    support = constraints.unit_interval

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: bool | None = None) -> None:
        """Broadcast the parameters."""
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        super().__init__(self.concentration1.shape, validate_args=validate_args)

    def _moment(self, n: int) -> Tensor:
        """Return the ``n``-th moment: b B(1 + n/a, b)."""
        a, b = 1 + n / self.concentration1, self.concentration0
        return b * (a.lgamma() + b.lgamma() - (a + b).lgamma()).exp()

    mean = property(lambda self: self._moment(1), doc="Mean.")

    @property
    def mode(self) -> Tensor:
        """The likeliest value; NaN if a or b is below 1, or both are 1."""
        a, b = self.concentration1, self.concentration0
        inner = ((a - 1) / (a * b - 1)) ** a.reciprocal()
        return _C.where((a < 1) | (b < 1) | ((a == 1) & (b == 1)), math.nan, inner)

    variance = property(lambda self: self._moment(2) - self._moment(1).square(), doc="Variance.")

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the log density."""
        if self._validate_args:
            self._validate_sample(value)
        a, b = self.concentration1, self.concentration0
        return a.log() + b.log() + (a - 1) * value.log() + (b - 1) * (-(value**a)).log1p()

    def cdf(self, value: Tensor) -> Tensor:
        """Return the probability of values up to ``value``."""
        return 1 - (1 - value**self.concentration1) ** self.concentration0

    def icdf(self, value: Tensor) -> Tensor:
        """Return the value whose cdf is ``value``."""
        return (-((-value).log1p() / self.concentration0).expm1()) ** self.concentration1.reciprocal()

    def entropy(self) -> Tensor:
        """Return the entropy."""
        a, b = self.concentration1, self.concentration0
        return (1 - b.reciprocal()) + (1 - a.reciprocal()) * ((b + 1).digamma() + _EULER) - a.log() - b.log()
