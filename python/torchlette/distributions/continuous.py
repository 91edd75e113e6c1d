"""Other continuous distributions of a number: on the circle, between 0 and 1, above a threshold."""

from __future__ import annotations

import math
from typing import Any

from torchlette import _C, special
from torchlette._runtime.dtypes import finfo
from torchlette.autograd import no_grad
from torchlette.distributions import constraints
from torchlette.distributions.distribution import Distribution, ExponentialFamily
from torchlette.distributions.utils import broadcast_all, clamp_probs, lazy_property, logits_to_probs, probs_to_logits
from torchlette.nn import functional as F

__all__ = ["ContinuousBernoulli", "GeneralizedPareto", "VonMises"]

Tensor = _C.Tensor

# VonMises.sample accepts at least 66 % of its proposals: the probability that all of forty are rejected is below 2e-19.
_PROPOSALS = 40


class VonMises(Distribution):
    """The von Mises distribution of an angle: exp(concentration * cos(angle - loc)), normalised.

    Args:
        loc: Mean angle, radians.
        concentration: 0 for the uniform distribution; about one over the variance when large.
        validate_args: See :class:`Distribution`.
    """

    arg_constraints = {"loc": constraints.real, "concentration": constraints.positive}
    support = constraints.real

    def __init__(self, loc: Any, concentration: Any, validate_args: bool | None = None) -> None:
        """Broadcast the parameters."""
        self.loc, self.concentration = broadcast_all(loc, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    mean = property(lambda self: self.loc, doc="The circular mean.")
    mode = property(lambda self: self.loc, doc="The likeliest angle.")

    @lazy_property
    def variance(self) -> Tensor:
        """Circular variance: 1 - I1(concentration) / I0(concentration)."""
        return 1 - special.i1e(self.concentration) / special.i0e(self.concentration)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Draw by rejection (D. J. Best and N. I. Fisher, 1979): make all proposals at once and take the first accepted
        one.
        """
        with no_grad():
            shape = self._extended_shape(sample_shape)
            loc, k = self.loc.expand(shape), self.concentration.expand(shape)
            # rho = (tau - sqrt(2 tau)) / (2 k) with tau = 1 + sqrt(1 + 4 k^2), without its cancellations.
            root = (1 + 4 * k.square()).sqrt()
            tau = (1 + root).sqrt()
            rho = 2 * k * tau / ((tau + math.sqrt(2)) * (1 + root))
            r = (1 + rho.square()) / (2 * rho)
            z, u, side = _C.rand((3, _PROPOSALS, *shape), dtype=k.dtype, device=k.device).unbind(0)
            z = (math.pi * z).cos()
            f = (1 + r * z) / (r + z)
            c = k * (r - f)
            u = u.clamp(min=finfo(k.dtype).tiny)
            taken = (c * (2 - c) > u) | ((c / u).log() + 1 - c >= 0)
            first = taken.to(_C.int32).argmax(0, keepdim=True)
            angle = ((side - 0.5).sign() * f.clamp(-1, 1).acos()).gather(0, first).squeeze(0)
            return (angle + math.pi + loc) % (2 * math.pi) - math.pi

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the log density by the angle."""
        if self._validate_args:
            self._validate_sample(value)
        k = self.concentration
        return k * ((value - self.loc).cos() - 1) - math.log(2 * math.pi) - special.i0e(k).log()


class ContinuousBernoulli(ExponentialFamily):
    """The continuous Bernoulli distribution on [0, 1] (G. Loaiza-Ganem and J. P. Cunningham, 2019): probs^x (1 -
    probs)^(1 - x), normalised.

    Args:
        probs: Parameter between 0 and 1, or the next one instead.
        logits: Its log odds.
        lims: For probs between these limits, formulas that divide by 1 - 2 probs are replaced by Taylor series at 0.5.
        validate_args: See :class:`Distribution`.
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    has_rsample = True

    def __init__(
        self,
        probs: Any = None,
        logits: Any = None,
        lims: tuple[float, float] = (0.499, 0.501),
        validate_args: bool | None = None,
    ) -> None:
        """Broadcast the parameter."""
        if (probs is None) == (logits is None):
            raise ValueError("Either `probs` or `logits` must be specified, but not both.")
        self._lims = lims
        if probs is not None:
            (self.probs,) = broadcast_all(probs)
            if validate_args and not self.arg_constraints["probs"].check(self.probs).all().item():
                raise ValueError("The parameter probs has invalid values")
            self.probs = clamp_probs(self.probs)
        else:
            (self.logits,) = broadcast_all(logits)
        super().__init__((self.probs if probs is not None else self.logits).shape, validate_args=validate_args)

    @lazy_property
    def probs(self) -> Tensor:
        """The parameter, kept off 0 and 1."""
        return clamp_probs(logits_to_probs(self.logits, is_binary=True))

    @lazy_property
    def logits(self) -> Tensor:
        """Its log odds."""
        return probs_to_logits(self.probs, is_binary=True)

    param_shape = property(
        lambda self: (self.__dict__.get("probs", self.__dict__.get("logits"))).shape, doc="The parameter's shape."
    )

    def _outside(self) -> Tensor:
        """Return the mask where the closed formulas are used."""
        return (self.probs <= self._lims[0]) | (self.probs > self._lims[1])

    def _kept(self) -> Tensor:
        """Return the parameter, replaced by a limit where the series are used: gradients then never divide by zero."""
        return _C.where(self._outside(), self.probs, self._lims[0] * _C.ones_like(self.probs))

    def _log_normalizer(self) -> Tensor:
        p, x = self._kept(), (self.probs - 0.5).square()
        below, above = _C.where(p <= 0.5, p, _C.zeros_like(p)), _C.where(p >= 0.5, p, _C.ones_like(p))
        exact = ((-p).log1p() - p.log()).abs().log() - _C.where(p <= 0.5, (-2 * below).log1p(), (2 * above - 1).log())
        return _C.where(self._outside(), exact, math.log(2) + (4 / 3 + 104 / 45 * x) * x)

    @property
    def mean(self) -> Tensor:
        """Mean."""
        p, x = self._kept(), self.probs - 0.5
        exact = p / (2 * p - 1) + 1 / ((-p).log1p() - p.log())
        return _C.where(self._outside(), exact, 0.5 + (1 / 3 + 16 / 45 * x.square()) * x)

    @property
    def variance(self) -> Tensor:
        """Variance."""
        p, x = self._kept(), (self.probs - 0.5).square()
        exact = p * (p - 1) / (1 - 2 * p).square() + 1 / ((-p).log1p() - p.log()).square()
        return _C.where(self._outside(), exact, 1 / 12 - (1 / 15 - 128 / 945 * x) * x)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Draw so that gradients reach the parameter."""
        return self.icdf(_C.rand(self._extended_shape(sample_shape), dtype=self.probs.dtype, device=self.probs.device))

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the log density."""
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        return self._log_normalizer() - F.binary_cross_entropy_with_logits(logits, value, reduction="none")

    def cdf(self, value: Tensor) -> Tensor:
        """Return the probability of values up to ``value``."""
        if self._validate_args:
            self._validate_sample(value)
        p = self._kept()
        exact = (p**value * (1 - p) ** (1 - value) + p - 1) / (2 * p - 1)
        return _C.where(self._outside(), exact, value).clamp(0, 1)

    def icdf(self, value: Tensor) -> Tensor:
        """Return the value whose cdf is ``value``."""
        p = self._kept()
        exact = ((-p + value * (2 * p - 1)).log1p() - (-p).log1p()) / (p.log() - (-p).log1p())
        return _C.where(self._outside(), exact, value)

    def entropy(self) -> Tensor:
        """Return the entropy."""
        against = (-self.probs).log1p()
        return self.mean * (against - self.probs.log()) - self._log_normalizer() - against


class GeneralizedPareto(Distribution):
    """The generalized Pareto distribution of values above a threshold.

    Args:
        loc: Threshold.
        scale: Scale.
        concentration: Shape: 0 for the exponential distribution; below 0 values end at ``loc - scale / concentration``.
        validate_args: See :class:`Distribution`.
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive, "concentration": constraints.real}
    has_rsample = True

    def __init__(self, loc: Any, scale: Any, concentration: Any, validate_args: bool | None = None) -> None:
        """Broadcast the parameters."""
        self.loc, self.scale, self.concentration = broadcast_all(loc, scale, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> constraints.Constraint:
        """Where values lie."""
        end = _C.where(
            self.concentration < 0, self.loc - self.scale / self.concentration, _C.full_like(self.loc, math.inf)
        )
        return constraints.interval(self.loc, end)

    def _split(self) -> tuple[Tensor, Tensor]:
        """Return the mask where the shape is 0, and the shape with 1 in those places."""
        zero = _C.isclose(self.concentration, _C.zeros_like(self.concentration))
        return zero, _C.where(zero, _C.ones_like(self.concentration), self.concentration)

    def log_survival_function(self, value: Tensor) -> Tensor:
        """Return the log probability of values above ``value``."""
        zero, c = self._split()
        z = (value - self.loc) / self.scale
        return _C.where(zero, -z, -(c * z).log1p() / c)

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the log density."""
        if self._validate_args:
            self._validate_sample(value)
        zero, c = self._split()
        z = (value - self.loc) / self.scale
        return _C.where(zero, -z, -(1 + 1 / c) * (c * z).log1p()) - self.scale.log()

    def cdf(self, value: Tensor) -> Tensor:
        """Return the probability of values up to ``value``."""
        return -self.log_survival_function(value).expm1()

    def log_cdf(self, value: Tensor) -> Tensor:
        """Return its logarithm."""
        return (-self.log_survival_function(value).exp()).log1p()

    def icdf(self, value: Tensor) -> Tensor:
        """Return the value whose cdf is ``value``."""
        zero, c = self._split()
        left = (-value).log1p()
        return self.loc + self.scale * _C.where(zero, -left, (-c * left).expm1() / c)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Draw so that gradients reach the parameters."""
        return self.icdf(_C.rand(self._extended_shape(sample_shape), dtype=self.loc.dtype, device=self.loc.device))

    @property
    def mean(self) -> Tensor:
        """Mean, NaN for shapes of 1 and more."""
        kept = _C.where(self.concentration < 1, self.concentration, _C.full_like(self.concentration, 0.5))
        return _C.where(self.concentration < 1, self.loc + self.scale / (1 - kept), _C.full_like(self.loc, math.nan))

    @property
    def variance(self) -> Tensor:
        """Variance, NaN for shapes of a half and more."""
        kept = _C.where(self.concentration < 0.5, self.concentration, _C.full_like(self.concentration, 0.25))
        exact = self.scale.square() / ((1 - kept).square() * (1 - 2 * kept))
        return _C.where(self.concentration < 0.5, exact, _C.full_like(self.loc, math.nan))

    mode = property(lambda self: self.loc, doc="The likeliest value.")

    def entropy(self) -> Tensor:
        """Return the entropy."""
        return self.scale.log() + self.concentration + 1
