"""The gamma distribution and what is made of it."""

from __future__ import annotations

import math
from typing import Any

from torchlette import _C
from torchlette._runtime.dtypes import finfo
from torchlette.autograd import no_grad
from torchlette.distributions import constraints
from torchlette.distributions.distribution import Distribution, ExponentialFamily
from torchlette.distributions.utils import broadcast_all

__all__ = ["Beta", "Chi2", "Dirichlet", "FisherSnedecor", "Gamma", "InverseGamma", "StudentT"]

Tensor, Size = _C.Tensor, _C.Size

# Each proposal of the method below is taken with a probability of at least 0.95: that none of twelve is has
# a probability under 3e-16.
_PROPOSALS = 12


def standard_gamma(concentration: Tensor) -> Tensor:
    """Return gamma draws of rate 1, without gradients.

    Marsaglia and Tsang, A simple method for generating gamma variables (2000), with all proposals made at once
    and the first that is taken picked. Below a concentration of 1, the draw of concentration + 1 is scaled by u^(1/a).
    """
    with no_grad():
        options = {"dtype": concentration.dtype, "device": concentration.device}
        shape = (_PROPOSALS, *concentration.shape)
        d = _C.where(concentration < 1, concentration + 1, concentration) - 1 / 3
        x = _C.randn(shape, **options)
        v = (1 + x / (9 * d).sqrt()) ** 3
        tiny = finfo(concentration.dtype).tiny
        taken = (v > 0) & (
            _C.rand(shape, **options).clamp(min=tiny).log() < 0.5 * x * x + d * (1 - v + v.clamp(min=tiny).log())
        )
        first = taken.to(_C.int32).argmax(0, keepdim=True)
        drawn = d * v.gather(0, first).squeeze(0)
        boost = _C.rand(concentration.shape, **options).clamp(min=tiny) ** concentration.reciprocal()
        return _C.where(concentration < 1, drawn * boost, drawn).clamp(min=tiny)


def without_gradient(name: str, concentration: Tensor) -> None:
    """Raise where a gradient with respect to the concentration would be wanted."""
    if concentration.requires_grad and _C.is_grad_enabled():
        raise NotImplementedError(
            f"{name}.rsample: gradients with respect to the concentration are not supported: use sample() with "
            f"log_prob(), or Kumaraswamy, "
            "whose rsample has them, or detach the concentration"
        )


class Gamma(ExponentialFamily):
    """The gamma distribution.

    ``rsample`` passes gradients to the rate; where the concentration requires grad it raises ``NotImplementedError``.

    Args:
        concentration: Shape.
        rate: One over the scale.
        validate_args: See :class:`Distribution`.
    """

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        """Broadcast the parameters."""
        self.concentration, self.rate = broadcast_all(concentration, rate)
        super().__init__(self.concentration.shape, validate_args=validate_args)

    mean = property(lambda self: self.concentration / self.rate, doc="Mean.")
    mode = property(lambda self: ((self.concentration - 1) / self.rate).clamp(min=0), doc="The likeliest value.")
    variance = property(lambda self: self.concentration / self.rate.square(), doc="Variance.")

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Draw so that gradients reach the rate."""
        without_gradient("Gamma", self.concentration)
        return standard_gamma(self.concentration.expand(self._extended_shape(sample_shape))) / self.rate

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the log density."""
        value = _C.as_tensor(value, dtype=self.rate.dtype, device=self.rate.device)
        if self._validate_args:
            self._validate_sample(value)
        a, b = self.concentration, self.rate
        return a.xlogy(b) + (a - 1).xlogy(value) - b * value - a.lgamma()

    def cdf(self, value: Tensor) -> Tensor:
        """Return the probability of values up to ``value``."""
        if self._validate_args:
            self._validate_sample(value)
        return _C.igamma(self.concentration, self.rate * value)

    def entropy(self) -> Tensor:
        """Return the entropy."""
        a = self.concentration
        return a - self.rate.log() + a.lgamma() + (1 - a) * a.digamma()


class Chi2(Gamma):
    """The sum of ``df`` squared normal draws.

    Args:
        df: Degrees of freedom.
        validate_args: See :class:`Distribution`.
    """

    arg_constraints = {"df": constraints.positive}

    def __init__(self, df: Any, validate_args: bool | None = None) -> None:
        """Make the gamma."""
        (df,) = broadcast_all(df)
        super().__init__(0.5 * df, _C.full_like(df, 0.5), validate_args=validate_args)

    df = property(lambda self: 2 * self.concentration, doc="Degrees of freedom.")


class InverseGamma(Distribution):
    """One over a gamma draw.

    Args:
        concentration: Shape.
        rate: Scale.
        validate_args: See :class:`Distribution`.
    """

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.positive
    has_rsample = True

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        """Make the gamma."""
        self.concentration, self.rate = broadcast_all(concentration, rate)
        self.base_dist = Gamma(self.concentration, self.rate, validate_args=False)
        super().__init__(self.concentration.shape, validate_args=validate_args)

    mode = property(lambda self: self.rate / (self.concentration + 1), doc="The likeliest value.")

    @property
    def mean(self) -> Tensor:
        """Mean; infinite for a concentration up to 1."""
        return _C.where(self.concentration > 1, self.rate / (self.concentration - 1), math.inf)

    @property
    def variance(self) -> Tensor:
        """Variance; infinite for a concentration up to 2."""
        a = self.concentration
        return _C.where(a > 2, self.rate.square() / ((a - 1).square() * (a - 2)), math.inf)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Draw so that gradients reach the rate."""
        return self.base_dist.rsample(sample_shape).reciprocal()

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the log density."""
        if self._validate_args:
            self._validate_sample(value)
        return self.base_dist.log_prob(value.reciprocal()) - 2 * value.log()

    def cdf(self, value: Tensor) -> Tensor:
        """Return the probability of values up to ``value``."""
        if self._validate_args:
            self._validate_sample(value)
        return 1 - self.base_dist.cdf(value.reciprocal())

    def entropy(self) -> Tensor:
        """Return the entropy."""
        a = self.concentration
        return a + self.rate.log() + a.lgamma() - (1 + a) * a.digamma()


class Dirichlet(ExponentialFamily):
    """Weights that add up to 1: gamma draws over their sum.

    Args:
        concentration: One for each weight, along the last dim.
        validate_args: See :class:`Distribution`.
    """

    arg_constraints = {"concentration": constraints.independent(constraints.positive, 1)}
    support = constraints.simplex
    has_rsample = True

    def __init__(self, concentration: Tensor, validate_args: bool | None = None) -> None:
        """Keep the concentrations."""
        if concentration.dim() < 1:
            raise ValueError("`concentration` parameter must be at least one-dimensional.")
        self.concentration = concentration
        super().__init__(concentration.shape[:-1], concentration.shape[-1:], validate_args=validate_args)

    mean = property(lambda self: self.concentration / self.concentration.sum(-1, True), doc="Mean.")

    @property
    def mode(self) -> Tensor:
        """The likeliest value; where no concentration is 1 or more, the corner of the largest."""
        less = (self.concentration - 1).clamp(min=0)
        corner = _C.zeros_like(less).scatter(-1, self.concentration.argmax(-1, keepdim=True), 1.0)
        return _C.where((self.concentration < 1).all(-1, keepdim=True), corner, less / less.sum(-1, True))

    @property
    def variance(self) -> Tensor:
        """Variance."""
        total = self.concentration.sum(-1, True)
        return self.concentration * (total - self.concentration) / (total.square() * (total + 1))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Draw; raises where gradients would be wanted."""
        without_gradient(type(self).__name__, self.concentration)
        drawn = standard_gamma(self.concentration.expand(self._extended_shape(sample_shape)))
        return drawn / drawn.sum(-1, keepdim=True)

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the log density."""
        if self._validate_args:
            self._validate_sample(value)
        a = self.concentration
        return (a - 1).xlogy(value).sum(-1) + a.sum(-1).lgamma() - a.lgamma().sum(-1)

    def entropy(self) -> Tensor:
        """Return the entropy."""
        a, k = self.concentration, self.concentration.shape[-1]
        total = a.sum(-1)
        return a.lgamma().sum(-1) - total.lgamma() - (k - total) * total.digamma() - ((a - 1) * a.digamma()).sum(-1)


class Beta(ExponentialFamily):
    """The beta distribution on (0, 1).

    Args:
        concentration1: Often alpha.
        concentration0: Often beta.
        validate_args: See :class:`Distribution`.
    """

    arg_constraints = {"concentration1": constraints.positive, "concentration0": constraints.positive}
    support = constraints.unit_interval
    has_rsample = True

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: bool | None = None) -> None:
        """Make the Dirichlet distribution of the value and its rest."""
        pair = _C.stack(broadcast_all(concentration1, concentration0), -1)
        self._dirichlet = Dirichlet(pair, validate_args=False)
        super().__init__(pair.shape[:-1], validate_args=validate_args)

    concentration1 = property(lambda self: self._dirichlet.concentration[..., 0], doc="Often alpha.")
    concentration0 = property(lambda self: self._dirichlet.concentration[..., 1], doc="Often beta.")
    mean = property(lambda self: self.concentration1 / (self.concentration1 + self.concentration0), doc="Mean.")
    mode = property(lambda self: self._dirichlet.mode[..., 0], doc="The likeliest value.")
    variance = property(lambda self: self._dirichlet.variance[..., 0], doc="Variance.")

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Draw; raises where gradients would be wanted."""
        without_gradient("Beta", self._dirichlet.concentration)
        return self._dirichlet.rsample(sample_shape).select(-1, 0)

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the log density."""
        if self._validate_args:
            self._validate_sample(value)
        return self._dirichlet.log_prob(_C.stack([value, 1 - value], -1))

    def entropy(self) -> Tensor:
        """Return the entropy."""
        return self._dirichlet.entropy()


class StudentT(Distribution):
    """Student's t distribution.

    Args:
        df: Degrees of freedom.
        loc: Centre.
        scale: Scale.
        validate_args: See :class:`Distribution`.
    """

    arg_constraints = {"df": constraints.positive, "loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True

    def __init__(self, df: Any, loc: Any = 0.0, scale: Any = 1.0, validate_args: bool | None = None) -> None:
        """Broadcast the parameters."""
        self.df, self.loc, self.scale = broadcast_all(df, loc, scale)
        super().__init__(self.df.shape, validate_args=validate_args)

    mode = property(lambda self: self.loc, doc="The likeliest value.")

    @property
    def mean(self) -> Tensor:
        """Mean; NaN up to one degree of freedom."""
        return _C.where(self.df > 1, self.loc, math.nan)

    @property
    def variance(self) -> Tensor:
        """Variance; infinite from one to two degrees of freedom, NaN below."""
        known = self.scale.square() * self.df / (self.df - 2)
        return _C.where(self.df > 2, known, _C.where(self.df > 1, math.inf, math.nan))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Draw so that gradients reach location and scale."""
        without_gradient("StudentT", self.df)
        shape = self._extended_shape(sample_shape)
        normal = _C.randn(shape, dtype=self.df.dtype, device=self.df.device)
        return self.loc + self.scale * normal * (2 * standard_gamma((0.5 * self.df).expand(shape)) / self.df).rsqrt()

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the log density."""
        if self._validate_args:
            self._validate_sample(value)
        n, y = self.df, (value - self.loc) / self.scale
        z = self.scale.log() + 0.5 * n.log() + 0.5 * math.log(math.pi) + (0.5 * n).lgamma() - (0.5 * (n + 1)).lgamma()
        return -0.5 * (n + 1) * (y.square() / n).log1p() - z

    def entropy(self) -> Tensor:
        """Return the entropy."""
        n = self.df
        beta = (0.5 * n).lgamma() + math.lgamma(0.5) - (0.5 * (n + 1)).lgamma()
        return (
            self.scale.log() + 0.5 * (n + 1) * ((0.5 * (n + 1)).digamma() - (0.5 * n).digamma()) + 0.5 * n.log() + beta
        )


class FisherSnedecor(Distribution):
    """The ratio of two Chi2 draws, each over its degrees of freedom.

    Args:
        df1: Degrees of freedom above.
        df2: Degrees of freedom below.
        validate_args: See :class:`Distribution`.
    """

    arg_constraints = {"df1": constraints.positive, "df2": constraints.positive}
    support = constraints.positive
    has_rsample = True

    def __init__(self, df1: Any, df2: Any, validate_args: bool | None = None) -> None:
        """Broadcast the parameters."""
        self.df1, self.df2 = broadcast_all(df1, df2)
        super().__init__(self.df1.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """Mean; NaN up to ``df2`` of 2."""
        return _C.where(self.df2 > 2, self.df2 / (self.df2 - 2), math.nan)

    @property
    def mode(self) -> Tensor:
        """The likeliest value; NaN up to ``df1`` of 2."""
        return _C.where(self.df1 > 2, (self.df1 - 2) / self.df1 * self.df2 / (self.df2 + 2), math.nan)

    @property
    def variance(self) -> Tensor:
        """Variance; NaN up to ``df2`` of 4."""
        m, n = self.df1, self.df2
        return _C.where(n > 4, 2 * n.square() * (m + n - 2) / (m * (n - 2).square() * (n - 4)), math.nan)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Draw; raises where gradients would be wanted."""
        without_gradient("FisherSnedecor", self.df1)
        without_gradient("FisherSnedecor", self.df2)
        shape = self._extended_shape(sample_shape)
        above, below = (standard_gamma((0.5 * df).expand(shape)) / df for df in (self.df1, self.df2))
        return above / below

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the log density."""
        if self._validate_args:
            self._validate_sample(value)
        m, n = 0.5 * self.df1, 0.5 * self.df2
        ratio = self.df1 / self.df2
        return (
            (m + n).lgamma()
            - m.lgamma()
            - n.lgamma()
            + m * ratio.log()
            + (m - 1) * value.log()
            - (m + n) * (ratio * value).log1p()
        )
