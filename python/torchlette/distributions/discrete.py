"""Distributions of counts and classes."""

from __future__ import annotations

import math
from typing import Any

from torchlette import _C
from torchlette._compat.counted import poisson_in_loop
from torchlette._compat.native_names import binomial
from torchlette._runtime.dtypes import finfo
from torchlette._runtime.regions import refuses_reads
from torchlette.autograd import no_grad
from torchlette.distributions import constraints
from torchlette.distributions.distribution import Distribution, ExponentialFamily
from torchlette.distributions.utils import broadcast_all, lazy_property, logits_to_probs, probs_to_logits
from torchlette.nn import functional as F

__all__ = [
    "Bernoulli",
    "Binomial",
    "Categorical",
    "Geometric",
    "Multinomial",
    "NegativeBinomial",
    "OneHotCategorical",
    "OneHotCategoricalStraightThrough",
    "Poisson",
]

Tensor, Size = _C.Tensor, _C.Size

# The greatest number of draws for one Poisson sample; it bounds the memory.
_MAX_ARRIVALS = 4096


def one_of(probs: Any, logits: Any) -> str:
    """Return which of two parametrisations was given; exactly one must be given."""
    if (probs is None) == (logits is None):
        raise ValueError("Either `probs` or `logits` must be specified, but not both.")
    return "logits" if probs is None else "probs"


class Binary(Distribution):
    """A distribution of trials that succeed with ``probs``, given as such or as log odds."""

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}

    def _take(self, probs: Any, logits: Any, *others: Any) -> list[Tensor]:
        """Keep the parameter that was given, broadcast with the others, which are returned."""
        self._given = one_of(probs, logits)
        *rest, value = broadcast_all(*others, probs if logits is None else logits)
        setattr(self, self._given, value)
        return rest

    @property
    def _param(self) -> Tensor:
        return self.__dict__[self._given]

    @lazy_property
    def probs(self) -> Tensor:
        """Probability of success."""
        return logits_to_probs(self.logits, is_binary=True)

    @lazy_property
    def logits(self) -> Tensor:
        """Log odds of success."""
        return probs_to_logits(self.probs, is_binary=True)

    @property
    def param_shape(self) -> Size:
        """Shape of the parameter."""
        return self._param.shape

    def _trials(self, shape: Any) -> Tensor:
        """Return draws of 0 and 1."""
        with no_grad():
            return _C.bernoulli(self.probs.expand(shape))


def _binary_entropy(logits: Tensor, probs: Tensor) -> Tensor:
    return F.binary_cross_entropy_with_logits(logits, probs, reduction="none")


class Bernoulli(Binary, ExponentialFamily):
    """0 or 1.

    Args:
        probs: Probability of 1.
        logits: Its log odds, instead.
        validate_args: See :class:`Distribution`.
    """

    support = constraints.boolean
    has_enumerate_support = True

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        """Keep the parameter."""
        self._take(probs, logits)
        super().__init__(self._param.shape, validate_args=validate_args)

    mean = property(lambda self: self.probs, doc="Mean.")
    variance = property(lambda self: self.probs * (1 - self.probs), doc="Variance.")

    @property
    def mode(self) -> Tensor:
        """The likeliest value; NaN where both are."""
        return _C.where(self.probs == 0.5, math.nan, (self.probs >= 0.5).to(self.probs))

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Draw."""
        return self._trials(self._extended_shape(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the log probability."""
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        return -F.binary_cross_entropy_with_logits(logits, value, reduction="none")

    def entropy(self) -> Tensor:
        """Return the entropy."""
        return _binary_entropy(self.logits, self.probs)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """Return 0 and 1 along a new first dim."""
        return self._enumerated(_C.arange(2, dtype=self._param.dtype, device=self._param.device), expand)


class Geometric(Binary):
    """The number of failures before the first success.

    Args:
        probs: Probability of success.
        logits: Its log odds, instead.
        validate_args: See :class:`Distribution`.
    """

    support = constraints.nonnegative_integer

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        """Keep the parameter."""
        self._take(probs, logits)
        super().__init__(self._param.shape, validate_args=validate_args)
        if self._validate_args and probs is not None and not (self.probs > 0).all().item():
            raise ValueError(
                f"Expected parameter probs of distribution {self!r} to be positive, but found invalid "
                f"values:\n{self.probs!r}"
            )

    mean = property(lambda self: 1 / self.probs - 1, doc="Mean.")
    mode = property(lambda self: _C.zeros_like(self.probs), doc="The likeliest value.")
    variance = property(lambda self: (1 / self.probs - 1) / self.probs, doc="Variance.")

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Draw."""
        shape = self._extended_shape(sample_shape)
        with no_grad():
            u = _C.rand(shape, dtype=self.probs.dtype, device=self.probs.device).clamp(min=finfo(self.probs.dtype).tiny)
            return (u.log() / (-self.probs).log1p()).floor()

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the log probability."""
        if self._validate_args:
            self._validate_sample(value)
        value, probs = broadcast_all(value, self.probs)
        probs = _C.where((probs == 1) & (value == 0), 0, probs)
        return value * (-probs).log1p() + self.probs.log()

    def entropy(self) -> Tensor:
        """Return the entropy."""
        return _binary_entropy(self.logits, self.probs) / self.probs


class Binomial(Binary):
    """The number of successes among ``total_count`` trials.

    Args:
        total_count: Number of trials, a number or a tensor.
        probs: Probability of success.
        logits: Its log odds, instead.
        validate_args: See :class:`Distribution`.
    """

    arg_constraints = {"total_count": constraints.nonnegative_integer, **Binary.arg_constraints}
    has_enumerate_support = True

    def __init__(
        self, total_count: Any = 1, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        """Keep the parameters."""
        (self.total_count,) = self._take(probs, logits, total_count)
        self.total_count = self.total_count.type_as(self._param)
        super().__init__(self._param.shape, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> constraints.Constraint:
        """Where values lie."""
        return constraints.integer_interval(0, self.total_count)

    mean = property(lambda self: self.total_count * self.probs, doc="Mean.")
    mode = property(
        lambda self: ((self.total_count + 1) * self.probs).floor().clamp(max=self.total_count),
        doc="The likeliest value.",
    )
    variance = property(lambda self: self.total_count * self.probs * (1 - self.probs), doc="Variance.")

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Draw: as many trials as the largest ``total_count``, which is read."""
        return binomial(self.total_count, self.probs.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the log probability."""
        if self._validate_args:
            self._validate_sample(value)
        n, logits = self.total_count, self.logits
        choices = (n + 1).lgamma() - (value + 1).lgamma() - (n - value + 1).lgamma()
        # log(1 - p) is -softplus(logits), written so that large logits do not overflow.
        return choices + value * logits - n * (logits.clamp(min=0) + (-logits.abs()).exp().log1p())

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """Return 0 to ``total_count`` along a new first dim."""
        most = int(self.total_count.max().item())
        if not (self.total_count == most).all().item():
            raise NotImplementedError("Inhomogeneous total count not supported by `enumerate_support`.")
        return self._enumerated(_C.arange(1 + most, dtype=self._param.dtype, device=self._param.device), expand)

    def entropy(self) -> Tensor:
        """Return the entropy: a sum over all values."""
        log_prob = self.log_prob(self.enumerate_support(False))
        return -(log_prob.exp() * log_prob).sum(0)


class NegativeBinomial(Binary):
    """The number of successes before ``total_count`` failures.

    Args:
        total_count: Number of failures.
        probs: Probability of success, below 1.
        logits: Its log odds, instead.
        validate_args: See :class:`Distribution`.
    """

    arg_constraints = {
        "total_count": constraints.greater_than_eq(0),
        "probs": constraints.half_open_interval(0.0, 1.0),
        "logits": constraints.real,
    }
    support = constraints.nonnegative_integer

    def __init__(
        self, total_count: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        """Keep the parameters."""
        (self.total_count,) = self._take(probs, logits, total_count)
        self.total_count = self.total_count.type_as(self._param)
        super().__init__(self._param.shape, validate_args=validate_args)

    mean = property(lambda self: self.total_count * self.logits.exp(), doc="Mean.")
    mode = property(
        lambda self: ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0), doc="The likeliest value."
    )
    variance = property(lambda self: self.mean / (-self.logits).sigmoid(), doc="Variance.")

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Draw from a Poisson distribution whose rate is a gamma draw."""
        from torchlette.distributions.gamma import Gamma

        with no_grad():
            rate = Gamma(self.total_count, (-self.logits).exp(), validate_args=False).sample(sample_shape)
            return Poisson(rate, validate_args=False).sample()

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the log probability."""
        if self._validate_args:
            self._validate_sample(value)
        n = self.total_count
        weight = n * F.logsigmoid(-self.logits) + value * F.logsigmoid(self.logits)
        choices = (n + value).lgamma() - (1 + value).lgamma() - n.lgamma()
        return weight + choices.masked_fill(n + value == 0, 0)


class Poisson(ExponentialFamily):
    """The number of events in a unit of time.

    Args:
        rate: Mean.
        validate_args: See :class:`Distribution`.
    """

    arg_constraints = {"rate": constraints.nonnegative}
    support = constraints.nonnegative_integer

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        """Make the rate a tensor."""
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.shape, validate_args=validate_args)

    mean = property(lambda self: self.rate, doc="Mean.")
    mode = property(lambda self: self.rate.floor(), doc="The likeliest value.")
    variance = property(lambda self: self.rate, doc="Variance.")

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Draw by counting arrivals with exponential gaps within one unit of time; the largest rate is read.

        Where a read is an error, as in a program, the gaps are drawn in a loop.

        Raises:
            NotImplementedError: If a rate is above about 3,600.
        """
        shape = self._extended_shape(sample_shape)
        if refuses_reads():
            return poisson_in_loop(self.rate.expand(shape))
        most = self.rate.max().item() if self.rate.numel() else 0.0
        arrivals = int(most + 10 * math.sqrt(most)) + 20  # more than 10 standard deviations above the mean
        if arrivals > _MAX_ARRIVALS:
            raise NotImplementedError(
                f"Poisson.sample: rate is too large: got {most}, want at most 3600: use the normal distribution of its "
                f"mean and variance"
            )
        with no_grad():
            times = (
                _C.empty((arrivals, *shape), dtype=self.rate.dtype, device=self.rate.device).exponential_().cumsum(0)
            )
            return (times < self.rate).sum(0).to(self.rate.dtype)

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the log probability."""
        if self._validate_args:
            self._validate_sample(value)
        rate, value = broadcast_all(self.rate, value)
        return value.xlogy(rate) - rate - (value + 1).lgamma()


class Classes(Distribution):
    """A distribution over the classes that the last dim of a parameter numbers."""

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}

    def _take(self, probs: Any, logits: Any) -> None:
        """Keep the parameter that was given, normalised."""
        self._given = one_of(probs, logits)
        value = probs if logits is None else logits
        if value.dim() < 1:
            raise ValueError(f"`{self._given}` parameter must be at least one-dimensional.")
        if logits is None:
            self.probs = probs / probs.sum(-1, keepdim=True)
        else:
            self.logits = logits - logits.logsumexp(dim=-1, keepdim=True)

    @property
    def _param(self) -> Tensor:
        return self.__dict__[self._given]

    @lazy_property
    def probs(self) -> Tensor:
        """Probabilities of the classes."""
        return logits_to_probs(self.logits)

    @lazy_property
    def logits(self) -> Tensor:
        """Logarithms of the probabilities."""
        return probs_to_logits(self.probs)

    @property
    def param_shape(self) -> Size:
        """Shape of the parameter."""
        return self._param.shape

    @property
    def _num_events(self) -> int:
        return self._param.shape[-1]

    def _numbers(self, shape: Any) -> Tensor:
        """Return draws of class numbers."""
        with no_grad():
            rows = self.probs.reshape(-1, self._num_events)
            n = math.prod(shape)
            drawn = (
                _C.multinomial(rows, n // rows.shape[0] if rows.shape[0] else 0, True)
                if n
                else _C.zeros((rows.shape[0], 0), dtype=_C.int64, device=rows.device)
            )
            return drawn.T.reshape(shape)

    def entropy(self) -> Tensor:
        """Return the entropy; a class of probability 0 adds nothing."""
        return -(self.logits.clamp(min=finfo(self.logits.dtype).min) * self.probs).sum(-1)


class Categorical(Classes):
    """The number of a class.

    Args:
        probs: Weights of the classes, along the last dim.
        logits: Their logarithms, instead.
        validate_args: See :class:`Distribution`.
    """

    has_enumerate_support = True

    def __init__(
        self, probs: Tensor | None = None, logits: Tensor | None = None, validate_args: bool | None = None
    ) -> None:
        """Normalise the parameter."""
        self._take(probs, logits)
        super().__init__(self._param.shape[:-1], validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> constraints.Constraint:
        """Where values lie."""
        return constraints.integer_interval(0, self._num_events - 1)

    mean = property(
        lambda self: _C.full(self._extended_shape(), math.nan, dtype=self.probs.dtype, device=self.probs.device),
        doc="NaN.",
    )
    mode = property(lambda self: self.probs.argmax(dim=-1), doc="The likeliest class.")
    variance = property(lambda self: self.mean, doc="NaN.")

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Draw."""
        return self._numbers(self._extended_shape(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the log probability."""
        if self._validate_args:
            self._validate_sample(value)
        value, logits = _C.broadcast_tensors([value.to(_C.int64).unsqueeze(-1), self.logits])
        return logits.gather(-1, value[..., :1]).squeeze(-1)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """Return the class numbers along a new first dim."""
        return self._enumerated(_C.arange(self._num_events, device=self._param.device), expand)


class OneHotCategorical(Classes):
    """A class as a one-hot vector.

    Args:
        probs: Weights of the classes, along the last dim.
        logits: Their logarithms, instead.
        validate_args: See :class:`Distribution`.
    """

    support = constraints.one_hot
    has_enumerate_support = True

    def __init__(
        self, probs: Tensor | None = None, logits: Tensor | None = None, validate_args: bool | None = None
    ) -> None:
        """Normalise the parameter."""
        self._take(probs, logits)
        super().__init__(self._param.shape[:-1], self._param.shape[-1:], validate_args=validate_args)

    mean = property(lambda self: self.probs, doc="Mean.")
    mode = property(
        lambda self: F.one_hot(self.probs.argmax(dim=-1), self._num_events).to(self.probs), doc="The likeliest vector."
    )
    variance = property(lambda self: self.probs * (1 - self.probs), doc="Variance.")

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Draw."""
        numbers = self._numbers(Size((*sample_shape, *self._batch_shape)))
        return F.one_hot(numbers, self._num_events).to(self._param.dtype)

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the log probability."""
        if self._validate_args:
            self._validate_sample(value)
        value, logits = _C.broadcast_tensors([value, self.logits])
        return logits.gather(-1, value.argmax(-1, keepdim=True)).squeeze(-1)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """Return the vectors along a new first dim."""
        n = self._num_events
        values = _C.eye(n, dtype=self._param.dtype, device=self._param.device).view(
            n, *(1,) * len(self._batch_shape), n
        )
        return values.expand(n, *self._batch_shape, n) if expand else values


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """A one-hot class whose gradient passes straight to the probabilities."""

    has_rsample = True

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Draw; the gradient passes to the probabilities as it is."""
        return self.sample(sample_shape) + (self.probs - self.probs.detach())


class Multinomial(Classes):
    """The number of times that each class occurs in ``total_count`` draws.

    Args:
        total_count: Number of draws.
        probs: Weights of the classes, along the last dim.
        logits: Their logarithms, instead.
        validate_args: See :class:`Distribution`.
    """

    def __init__(
        self,
        total_count: int = 1,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        """Normalise the parameter."""
        if not isinstance(total_count, int):
            raise NotImplementedError("inhomogeneous total_count is not supported")
        self.total_count = total_count
        self._take(probs, logits)
        super().__init__(self._param.shape[:-1], self._param.shape[-1:], validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> constraints.Constraint:
        """Where values lie."""
        return constraints.multinomial(self.total_count)

    mean = property(lambda self: self.probs * self.total_count, doc="Mean.")
    variance = property(lambda self: self.total_count * self.probs * (1 - self.probs), doc="Variance.")

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Draw."""
        numbers = self._numbers(Size((self.total_count, *sample_shape, *self._batch_shape)))
        return F.one_hot(numbers, self._num_events).sum(0).to(self._param.dtype)

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the log probability."""
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        logits = logits.masked_fill((value == 0) & (logits == -math.inf), 0)
        return (value.sum(-1) + 1).lgamma() - (value + 1).lgamma().sum(-1) + (logits * value).sum(-1)

    def entropy(self) -> Tensor:
        """Return the entropy: that of the ordered draws minus that of their order."""
        n = self.total_count
        counts = Binomial(n, probs=self.probs, validate_args=False)
        support = counts.enumerate_support(expand=False)[1:]
        weights = counts.log_prob(support).exp()
        return n * super().entropy() - math.lgamma(n + 1) + (weights * (support + 1).lgamma()).sum((0, -1))
