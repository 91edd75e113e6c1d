"""The base class of distributions."""

from __future__ import annotations

import copy
from typing import Any, ClassVar

from torchlette import _C
from torchlette.autograd import no_grad
from torchlette.distributions import constraints
from torchlette.distributions.utils import lazy_property

__all__ = ["Distribution"]

Tensor, Size = _C.Tensor, _C.Size


class Distribution:
    """A batch of independent distributions of one kind.

    Samples have the shape ``sample_shape + batch_shape + event_shape``; ``log_prob`` of values that broadcast
    with ``batch_shape + event_shape`` drops the event dims.

    A subclass stores its parameters as tensors of shape ``batch_shape + ...`` and names them in ``arg_constraints``.

    Args:
        batch_shape: Shape of the batch of distributions.
        event_shape: Shape of one draw.
        validate_args: Whether to read parameters and values and check that they are valid; the class's default
            (see :meth:`set_default_validate_args`) if ``None``. Checks wait for the device.
    """

    has_rsample = False
    has_enumerate_support = False
    arg_constraints: ClassVar[dict[str, Any]] = {}
    support: Any = constraints.dependent
    _validate_args = __debug__

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Set the default of ``validate_args``."""
        if value not in (True, False):
            raise ValueError(f"set_default_validate_args: value is wrong: got {value!r}, want True or False")
        Distribution._validate_args = value

    def __init__(self, batch_shape: Any = (), event_shape: Any = (), validate_args: bool | None = None) -> None:
        """Check the parameters."""
        self._batch_shape, self._event_shape = Size(batch_shape), Size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            self._validate_parameters()

    def _validate_parameters(self) -> None:
        for name, constraint in self.arg_constraints.items():
            # Check the given one of probs and logits only: computing the other would be wasted.
            if constraints.is_dependent(constraint) or (
                name not in self.__dict__ and isinstance(getattr(type(self), name, None), lazy_property)
            ):
                continue
            value = getattr(self, name)
            if not constraint.check(value).all().item():
                raise ValueError(
                    f"Expected parameter {name} ({type(value).__name__} of shape {tuple(value.shape)}) of distribution "
                    f"{self!r} to satisfy the "
                    f"constraint {constraint!r}, but found invalid values:\n{value}"
                )

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """Return the distribution with its batch expanded to ``batch_shape``: ``_instance``, if a subclass gives it,
        which becomes a copy of this one first.
        """
        new, before = copy.copy(self) if _instance is None else _instance, len(self._batch_shape)
        if new is _instance:
            new.__dict__.update(self.__dict__)
        new._batch_shape = Size(batch_shape)
        for name, value in self.__dict__.items():
            if isinstance(value, Tensor):
                new.__dict__[name] = value.expand(*new._batch_shape, *value.shape[before:])
            elif isinstance(value, Distribution):
                new.__dict__[name] = value.expand(new._batch_shape + value.batch_shape[before:])
        return new

    def _get_checked_instance(self, cls: type[Distribution], _instance: Any = None) -> Any:
        """Return ``_instance``, or an object without attributes, for ``expand``; third-party subclasses call this.

        Raises:
            NotImplementedError: For a subclass of ``cls`` with another ``__init__``, whose ``expand`` would have to
                differ too.
        """
        if _instance is not None:
            return _instance
        if type(self).__init__ is not cls.__init__:
            name = type(self).__name__
            raise NotImplementedError(
                f"Subclass {name} of {cls.__name__} that defines a custom __init__ method must also define a custom "
                f".expand() method."
            )
        return type(self).__new__(type(self))

    @property
    def batch_shape(self) -> Size:
        """Shape of the batch."""
        return self._batch_shape

    @property
    def event_shape(self) -> Size:
        """Shape of one draw."""
        return self._event_shape

    def _missing(self, what: str) -> NotImplementedError:
        return NotImplementedError(f"{type(self).__name__} has no {what}")

    @property
    def mean(self) -> Tensor:
        """Mean."""
        raise self._missing("mean")

    @property
    def mode(self) -> Tensor:
        """The likeliest value."""
        raise self._missing("mode")

    @property
    def variance(self) -> Tensor:
        """Variance."""
        raise self._missing("variance")

    @property
    def stddev(self) -> Tensor:
        """Standard deviation."""
        return self.variance.sqrt()

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Draw without gradients."""
        with no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Draw so that gradients reach the parameters."""
        raise self._missing("rsample: gradients do not reach its parameters, use sample and log_prob")

    def sample_n(self, n: int) -> Tensor:
        """Draw ``n`` times."""
        return self.sample((n,))

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the density or probability at ``value``."""
        raise self._missing("log_prob")

    def cdf(self, value: Tensor) -> Tensor:
        """Return the probability of values up to ``value``."""
        raise self._missing("cdf")

    def icdf(self, value: Tensor) -> Tensor:
        """Return the value whose cdf is ``value``."""
        raise self._missing("icdf")

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """Return all values along a new first dim, expanded over the batch or of size 1 there."""
        raise self._missing("enumerate_support: its values cannot be listed")

    def _enumerated(self, values: Tensor, expand: bool) -> Tensor:
        """Return scalar values along a new first dim."""
        values = values.reshape(-1, *(1,) * len(self._batch_shape))
        return values.expand(-1, *self._batch_shape) if expand else values

    def entropy(self) -> Tensor:
        """Return the entropy in nats, for each of the batch."""
        raise self._missing("entropy")

    def perplexity(self) -> Tensor:
        """Return the exponential of the entropy."""
        return self.entropy().exp()

    def _extended_shape(self, sample_shape: Any = ()) -> Size:
        """Return the shape of a sample."""
        return Size((*sample_shape, *self._batch_shape, *self._event_shape))

    def _validate_sample(self, value: Tensor) -> None:
        """Check a value's shape and that it lies in the support."""
        if not isinstance(value, Tensor):
            raise ValueError("The value argument to log_prob must be a Tensor")
        event = len(self._event_shape)
        if value.dim() < event or tuple(value.shape[value.dim() - event :]) != tuple(self._event_shape):
            raise ValueError(
                f"The right-most size of value must match event_shape: {value.shape} vs {self._event_shape}."
            )
        wanted = self._batch_shape + self._event_shape
        for i, j in zip(reversed(value.shape), reversed(wanted), strict=False):
            if i != 1 and j != 1 and i != j:
                raise ValueError(f"Value is not broadcastable with batch_shape+event_shape: {value.shape} vs {wanted}.")
        support = self.support
        if not constraints.is_dependent(support) and not support.check(value).all().item():
            raise ValueError(
                f"Expected value argument ({type(value).__name__} of shape {tuple(value.shape)}) to be within the "
                f"support ({support!r}) of the "
                f"distribution {self!r}, but found invalid values:\n{value}"
            )

    def __repr__(self) -> str:
        values = {name: self.__dict__[name] for name in self.arg_constraints if name in self.__dict__}
        texts = [
            f"{name}: {(v.item() if v.dim() == 0 else repr(v)) if v.numel() == 1 else v.shape}"
            for name, v in values.items()
        ]
        return f"{type(self).__name__}({', '.join(texts)})"


class ExponentialFamily(Distribution):
    """A distribution whose log density is linear in functions of the value; a marker class without behaviour."""
