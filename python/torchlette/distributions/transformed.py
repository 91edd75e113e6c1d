"""Distributions of a function of a draw, and relaxed discrete distributions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from torchlette import _C
from torchlette.autograd import no_grad
from torchlette.distributions import constraints
from torchlette.distributions.compound import Independent
from torchlette.distributions.discrete import Binary, Classes
from torchlette.distributions.distribution import Distribution
from torchlette.distributions.location_scale import Normal, open_uniform
from torchlette.distributions.transforms import (
    ComposeTransform,
    ExpTransform,
    SigmoidTransform,
    StickBreakingTransform,
    Transform,
)
from torchlette.distributions.utils import broadcast_all, sum_rightmost
from torchlette.nn import functional as F

__all__ = [
    "LogisticNormal",
    "LogitRelaxedBernoulli",
    "RelaxedBernoulli",
    "RelaxedOneHotCategorical",
    "TransformedDistribution",
]

Tensor = _C.Tensor


class TransformedDistribution(Distribution):
    """The distribution of y = t_n(... t_1(x)), where x is a draw from a base distribution.

    Args:
        base_distribution: The distribution of x. It is expanded to the shape that the transforms need.
        transforms: A transform, or a list of them in the order in which they are applied.
        validate_args: See :class:`Distribution`.

    Raises:
        ValueError: If something else is among the transforms, or the base has fewer dims than they need.
    """

    def __init__(
        self,
        base_distribution: Distribution,
        transforms: Transform | Sequence[Transform],
        validate_args: bool | None = None,
    ) -> None:
        """Expand the base, and make event dims of the batch dims over which the transforms mix elements."""
        self.transforms = [transforms] if isinstance(transforms, Transform) else list(transforms)
        if not all(isinstance(t, Transform) for t in self.transforms):
            raise ValueError(f"transforms must be a Transform or list, but was {transforms}")
        whole = ComposeTransform(self.transforms)
        base_shape = base_distribution.batch_shape + base_distribution.event_shape
        if len(base_shape) < whole.domain.event_dim:
            raise ValueError(
                f"base_distribution needs to have shape with size at least {whole.domain.event_dim}, but got "
                f"{base_shape}."
            )
        shape = whole.forward_shape(base_shape)
        expanded = whole.inverse_shape(shape)
        if tuple(expanded) != tuple(base_shape):
            base_distribution = base_distribution.expand(expanded[: len(expanded) - len(base_distribution.event_shape)])
        extra = whole.domain.event_dim - len(base_distribution.event_shape)
        self.base_dist = Independent(base_distribution, extra) if extra > 0 else base_distribution
        event = max(
            len(self.base_dist.event_shape) + whole.codomain.event_dim - whole.domain.event_dim,
            whole.codomain.event_dim,
        )
        cut = len(shape) - event
        super().__init__(shape[:cut], shape[cut:], validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> TransformedDistribution:
        """Return the distribution with its batch expanded."""
        shape = ComposeTransform(self.transforms).inverse_shape((*batch_shape, *self._event_shape))
        base = self.base_dist.expand(shape[: len(shape) - len(self.base_dist.event_shape)])
        new = TransformedDistribution.__new__(TransformedDistribution) if _instance is None else _instance
        TransformedDistribution.__init__(new, base, self.transforms, validate_args=False)
        return new

    has_rsample = property(lambda self: self.base_dist.has_rsample, doc="Whether gradients pass through draws.")

    @constraints.dependent_property(is_discrete=False)
    def support(self) -> Any:
        """Where values lie."""
        if not self.transforms:
            return self.base_dist.support
        last = self.transforms[-1].codomain
        extra = len(self._event_shape) - last.event_dim
        return constraints.independent(last, extra) if extra > 0 else last

    def _applied(self, x: Tensor) -> Tensor:
        """Return the image of ``x`` under all transforms."""
        for transform in self.transforms:
            x = transform(x)
        return x

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Draw without gradients."""
        with no_grad():
            return self._applied(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Draw so that gradients reach the parameters."""
        return self._applied(self.base_dist.rsample(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the log density: the base's at x, minus the log absolute determinants of the transforms."""
        if self._validate_args:
            self._validate_sample(value)
        event_dim, change, y = len(self._event_shape), 0.0, value
        for transform in reversed(self.transforms):
            x = transform._inv_call(y)
            event_dim += transform.domain.event_dim - transform.codomain.event_dim
            change = change - sum_rightmost(
                transform.log_abs_det_jacobian(x, y), event_dim - transform.domain.event_dim
            )
            y = x
        return change + sum_rightmost(self.base_dist.log_prob(y), event_dim - len(self.base_dist.event_shape))

    def _monotone(self, value: Tensor) -> Tensor:
        """Return ``value``, a probability, or 1 minus it if the transforms together are decreasing."""
        sign = math.prod(transform.sign for transform in self.transforms)
        return value if isinstance(sign, int) and sign == 1 else sign * (value - 0.5) + 0.5

    def cdf(self, value: Tensor) -> Tensor:
        """Return the probability of values up to ``value``."""
        if self._validate_args:
            self._validate_sample(value)
        for transform in reversed(self.transforms):
            value = transform._inv_call(value)
        return self._monotone(self.base_dist.cdf(value))

    def icdf(self, value: Tensor) -> Tensor:
        """Return the value whose cdf is ``value``."""
        return self._applied(self.base_dist.icdf(self._monotone(value)))

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class LogisticNormal(TransformedDistribution):
    """The distribution of n + 1 positive weights with sum 1: :class:`StickBreakingTransform` of a normal draw [n].

    Args:
        loc: Mean of the normal draw [..., n].
        scale: Its standard deviation.
        validate_args: See :class:`Distribution`.
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        """Make the normal distribution."""
        base = Normal(loc, scale, validate_args=validate_args)
        super().__init__(
            base if base.batch_shape else base.expand((1,)), StickBreakingTransform(), validate_args=validate_args
        )

    loc = property(lambda self: self.base_dist.base_dist.loc, doc="Mean of the normal draw.")
    scale = property(lambda self: self.base_dist.base_dist.scale, doc="Standard deviation of the normal draw.")


class LogitRelaxedBernoulli(Binary):
    """The logit of a :class:`RelaxedBernoulli` draw (Maddison et al., The concrete distribution, 2016).

    Args:
        temperature: Positive. Lower values give samples whose sigmoid is nearer to 0 or 1.
        probs: Probability of 1. Give this or ``logits``, not both.
        logits: Log odds of 1.
        validate_args: See :class:`Distribution`.
    """

    support = constraints.real
    has_rsample = True

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        """Store the parameter."""
        self.temperature = temperature
        self._take(probs, logits)
        super().__init__(self._param.shape, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> LogitRelaxedBernoulli:
        """Return the distribution with its batch expanded; the temperature broadcasts."""
        return type(self)(self.temperature, validate_args=False, **{self._given: self._param.expand(batch_shape)})

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Draw so that gradients reach the parameter."""
        u = open_uniform(self._param, self._extended_shape(sample_shape))
        return (u.log() - (-u).log1p() + self.logits) / self.temperature

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the log density."""
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        difference = logits - value * self.temperature
        return _C.as_tensor(self.temperature).log() + difference - 2 * F.softplus(difference)


class RelaxedBernoulli(TransformedDistribution):
    """The relaxed Bernoulli distribution of numbers in (0, 1): the sigmoid of a :class:`LogitRelaxedBernoulli` draw.

    Args:
        temperature: Positive. Lower values give samples whose sigmoid is nearer to 0 or 1.
        probs: Probability of 1. Give this or ``logits``, not both.
        logits: Log odds of 1.
        validate_args: See :class:`Distribution`.
    """

    arg_constraints = Binary.arg_constraints

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        """Make the distribution of the logit."""
        super().__init__(
            LogitRelaxedBernoulli(temperature, probs, logits, validate_args=validate_args),
            SigmoidTransform(),
            validate_args=False,
        )

    temperature = property(lambda self: self.base_dist.temperature, doc="Lower values give samples nearer to 0 or 1.")
    probs = property(lambda self: self.base_dist.probs, doc="Probability of 1.")
    logits = property(lambda self: self.base_dist.logits, doc="Log odds of 1.")


class _LogRelaxedOneHot(Classes):
    """The logarithm of a :class:`RelaxedOneHotCategorical` draw."""

    support = constraints.real_vector
    has_rsample = True

    def __init__(self, temperature: Any, probs: Any, logits: Any, validate_args: bool | None) -> None:
        self.temperature = temperature
        self._take(probs, logits)
        super().__init__(self._param.shape[:-1], self._param.shape[-1:], validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> _LogRelaxedOneHot:
        param = {"probs": None, "logits": None, self._given: self._param.expand(*batch_shape, -1)}
        return _LogRelaxedOneHot(self.temperature, validate_args=False, **param)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        gumbel = -(-open_uniform(self._param, self._extended_shape(sample_shape)).log()).log()
        scores = (self.logits + gumbel) / self.temperature
        return scores - scores.logsumexp(dim=-1, keepdim=True)

    def log_prob(self, value: Tensor) -> Tensor:
        k = self._num_events
        logits, value = broadcast_all(self.logits, value)
        scale = math.lgamma(k) + (k - 1) * _C.as_tensor(self.temperature).log()
        score = logits - value * self.temperature
        return (score - score.logsumexp(dim=-1, keepdim=True)).sum(-1) + scale


class RelaxedOneHotCategorical(TransformedDistribution):
    """The relaxed one-hot distribution of weights [k] with sum 1: softmax((logits + g) / temperature) with g of Gumbel
    noise (Maddison et al., The concrete distribution, 2016; Jang et al., Categorical reparameterization, 2016).

    Args:
        temperature: Positive. Lower values give samples nearer to one-hot.
        probs: Weights of the classes [..., k], which need no sum of 1. Give these or ``logits``, not both.
        logits: Logarithms of the weights [..., k].
        validate_args: See :class:`Distribution`.
    """

    arg_constraints = Classes.arg_constraints

    def __init__(
        self,
        temperature: Any,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        """Make the distribution of the logarithm."""
        super().__init__(
            _LogRelaxedOneHot(temperature, probs, logits, validate_args), ExpTransform(), validate_args=False
        )

    @constraints.dependent_property(is_discrete=False, event_dim=1)
    def support(self) -> Any:
        """Where values lie."""
        return constraints.simplex

    temperature = property(lambda self: self.base_dist.temperature, doc="Lower values give samples nearer to one-hot.")
    probs = property(lambda self: self.base_dist.probs, doc="Probabilities of the classes.")
    logits = property(lambda self: self.base_dist.logits, doc="Logarithms of the probabilities.")
