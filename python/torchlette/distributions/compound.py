"""Distributions made of others: independent parts, and mixtures."""

from __future__ import annotations

from typing import Any

from torchlette import _C
from torchlette.autograd import no_grad
from torchlette.distributions import constraints
from torchlette.distributions.discrete import Categorical
from torchlette.distributions.distribution import Distribution
from torchlette.distributions.utils import sum_rightmost

__all__ = ["Independent", "MixtureSameFamily"]

Tensor = _C.Tensor


class Independent(Distribution):
    """A distribution with its last batch dims turned into event dims: log densities are summed over them.

    Args:
        base_distribution: The distribution of the parts.
        reinterpreted_batch_ndims: The number of batch dims to turn into event dims.
        validate_args: See :class:`Distribution`.
    """

    def __init__(
        self, base_distribution: Distribution, reinterpreted_batch_ndims: int, validate_args: bool | None = None
    ) -> None:
        """Move the dims."""
        shape, n = base_distribution.batch_shape, reinterpreted_batch_ndims
        if n > len(shape):
            raise ValueError(
                f"Expected reinterpreted_batch_ndims <= len(base_distribution.batch_shape), actual {n} vs "
                f"{len(base_distribution.batch_shape)}"
            )
        self.base_dist, self.reinterpreted_batch_ndims = base_distribution, n
        split = len(shape) - n
        super().__init__(shape[:split], shape[split:] + base_distribution.event_shape, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Independent:
        """Return the distribution with its batch expanded."""
        n = self.reinterpreted_batch_ndims
        base = self.base_dist.expand((*batch_shape, *self._event_shape[:n]))
        new = Independent.__new__(Independent) if _instance is None else _instance
        Independent.__init__(new, base, n, validate_args=False)
        return new

    has_rsample = property(lambda self: self.base_dist.has_rsample, doc="Whether gradients pass through draws.")

    @constraints.dependent_property
    def support(self) -> Any:
        """Where values lie."""
        base = self.base_dist.support
        return constraints.independent(base, self.reinterpreted_batch_ndims) if self.reinterpreted_batch_ndims else base

    mean = property(lambda self: self.base_dist.mean, doc="Mean.")
    mode = property(lambda self: self.base_dist.mode, doc="The likeliest value.")
    variance = property(lambda self: self.base_dist.variance, doc="Variance.")

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Draw without gradients."""
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Draw so that gradients reach the parameters."""
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the log density of all parts together."""
        return sum_rightmost(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self) -> Tensor:
        """Return the entropy of all parts together."""
        return sum_rightmost(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_dist!r}, {self.reinterpreted_batch_ndims})"


class MixtureSameFamily(Distribution):
    """A mixture of distributions of one class; the last batch dim numbers the components.

    Args:
        mixture_distribution: The ``Categorical`` distribution of the component's number.
        component_distribution: The components.
        validate_args: See :class:`Distribution`.
    """

    def __init__(
        self, mixture_distribution: Categorical, component_distribution: Distribution, validate_args: bool | None = None
    ) -> None:
        """Check the numbers of components."""
        if not isinstance(mixture_distribution, Categorical):
            raise ValueError("The Mixture distribution needs to be an instance of torch.distributions.Categorical")
        if not isinstance(component_distribution, Distribution):
            raise ValueError("The Component distribution need to be an instance of torch.distributions.Distribution")
        self.mixture_distribution, self.component_distribution = mixture_distribution, component_distribution
        components = component_distribution.batch_shape
        mixed, n = mixture_distribution.batch_shape, mixture_distribution.param_shape[-1]
        for a, b in zip(reversed(mixed), reversed(components[:-1]), strict=False):
            if 1 not in (a, b) and a != b:
                raise ValueError(
                    f"`mixture_distribution.batch_shape` ({mixed}) is not compatible with "
                    f"`component_distribution.batch_shape`({components[:-1]})"
                )
        if components[-1] != n:
            raise ValueError(
                f"`mixture_distribution component` ({n}) does not equal `component_distribution.batch_shape[-1]` "
                f"({components[-1]})"
            )
        super().__init__(components[:-1], component_distribution.event_shape, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> MixtureSameFamily:
        """Return the distribution with its batch expanded."""
        component = self.component_distribution.expand((*batch_shape, self.component_distribution.batch_shape[-1]))
        new = MixtureSameFamily.__new__(MixtureSameFamily) if _instance is None else _instance
        MixtureSameFamily.__init__(new, self.mixture_distribution.expand(batch_shape), component, validate_args=False)
        return new

    @constraints.dependent_property
    def support(self) -> Any:
        """Where values lie."""
        return self.component_distribution.support

    def _weights(self) -> Tensor:
        """Return the probabilities of the components, with the event's dims of size 1."""
        probs = self.mixture_distribution.probs
        return probs.reshape(*probs.shape, *(1,) * len(self._event_shape))

    @property
    def _component_dim(self) -> int:
        return -1 - len(self._event_shape)

    mean = property(
        lambda self: (self._weights() * self.component_distribution.mean).sum(self._component_dim), doc="Mean."
    )

    @property
    def variance(self) -> Tensor:
        """Variance: the mean of the variances, plus the variance of the means."""
        dim = self._component_dim
        away = (self.component_distribution.mean - self.mean.unsqueeze(dim)).square()
        return (self._weights() * (self.component_distribution.variance + away)).sum(dim)

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the log density."""
        if self._validate_args:
            self._validate_sample(value)
        log_prob = self.component_distribution.log_prob(value.unsqueeze(self._component_dim))
        return (log_prob + self.mixture_distribution.logits.log_softmax(-1)).logsumexp(dim=-1)

    def cdf(self, value: Tensor) -> Tensor:
        """Return the probability of values up to ``value``."""
        return (
            self.component_distribution.cdf(value.unsqueeze(self._component_dim)) * self.mixture_distribution.probs
        ).sum(-1)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Draw from every component and select one by a draw of the mixture."""
        with no_grad():
            drawn = self.component_distribution.sample(sample_shape)
            which = self.mixture_distribution.expand(self._batch_shape).sample(sample_shape)
            which = which.reshape(*which.shape, *(1,) * (1 + len(self._event_shape)))
            which = which.expand(*which.shape[: which.dim() - len(self._event_shape)], *self._event_shape)
            return drawn.gather(self._component_dim, which).squeeze(self._component_dim)

    def __repr__(self) -> str:
        return f"MixtureSameFamily(\n  {self.mixture_distribution!r},\n  {self.component_distribution!r})"
