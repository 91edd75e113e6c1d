"""Invertible functions, with the logarithms of the absolute determinants of their Jacobians."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from torchlette import _C
from torchlette._runtime.dtypes import finfo
from torchlette.distributions import constraints
from torchlette.distributions.distribution import Distribution
from torchlette.distributions.utils import sum_rightmost
from torchlette.nn import functional as F

__all__ = [
    "AbsTransform",
    "AffineTransform",
    "ComposeTransform",
    "CumulativeDistributionTransform",
    "ExpTransform",
    "IndependentTransform",
    "LowerCholeskyTransform",
    "PowerTransform",
    "ReshapeTransform",
    "SigmoidTransform",
    "SoftmaxTransform",
    "SoftplusTransform",
    "StickBreakingTransform",
    "TanhTransform",
    "Transform",
    "identity_transform",
]

Tensor, Size = _C.Tensor, _C.Size


class Transform:
    """A function with an inverse. ``domain`` and ``codomain`` are constraints; their event dims may differ.

    Args:
        cache_size: 1: the last argument and its result are kept, so that neither is computed again. 0: they are not.
    """

    bijective = False
    sign: Any = None
    domain: Any = constraints.real
    codomain: Any = constraints.real

    def __init__(self, cache_size: int = 0) -> None:
        """Check the cache size; ValueError unless it is 0 or 1."""
        if cache_size not in (0, 1):
            raise ValueError("cache_size must be 0 or 1")
        self._cache_size = cache_size
        self._cached: tuple[Any, Any] = (None, None)

    @property
    def event_dim(self) -> int:
        """The event dims of domain and codomain; ValueError if they differ."""
        if self.domain.event_dim == self.codomain.event_dim:
            return self.domain.event_dim
        raise ValueError("Please use either .domain.event_dim or .codomain.event_dim")

    @property
    def inv(self) -> Transform:
        """The inverse function."""
        return _InverseTransform(self)

    def with_cache(self, cache_size: int = 1) -> Transform:
        """Return a copy of the transform with a cache of that size."""
        import copy

        new = copy.copy(self)
        Transform.__init__(new, cache_size)
        return new

    def __call__(self, x: Tensor) -> Tensor:
        if self._cache_size == 0:
            return self._call(x)
        if x is not self._cached[0]:
            self._cached = x, self._call(x)
        return self._cached[1]

    def _inv_call(self, y: Tensor) -> Tensor:
        if self._cache_size == 0:
            return self._inverse(y)
        if y is not self._cached[1]:
            self._cached = self._inverse(y), y
        return self._cached[0]

    def _call(self, x: Tensor) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} does not implement the function")

    def _inverse(self, y: Tensor) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} has no inverse")

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return log \\|det dy/dx\\| without the event dims, given ``x`` and its image ``y``."""
        raise NotImplementedError(f"{type(self).__name__} has no log_abs_det_jacobian")

    def forward_shape(self, shape: Any) -> Any:
        """Return the result's shape for an argument of ``shape``."""
        return shape

    def inverse_shape(self, shape: Any) -> Any:
        """Return the argument's shape for a result of ``shape``."""
        return shape

    def __repr__(self) -> str:
        return type(self).__name__ + "()"


class _InverseTransform(Transform):
    """The inverse of a transform."""

    def __init__(self, transform: Transform) -> None:
        super().__init__()
        self._inv = transform

    bijective = property(lambda self: self._inv.bijective)
    sign = property(lambda self: self._inv.sign)
    domain = property(lambda self: self._inv.codomain)
    codomain = property(lambda self: self._inv.domain)
    inv = property(lambda self: self._inv)

    def with_cache(self, cache_size: int = 1) -> Transform:
        return self._inv.with_cache(cache_size).inv

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _InverseTransform) and self._inv == other._inv

    def __hash__(self) -> int:
        return hash((_InverseTransform, self._inv))

    def __call__(self, x: Tensor) -> Tensor:
        return self._inv._inv_call(x)

    def _inv_call(self, y: Tensor) -> Tensor:
        return self._inv(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -self._inv.log_abs_det_jacobian(y, x)

    def forward_shape(self, shape: Any) -> Any:
        return self._inv.inverse_shape(shape)

    def inverse_shape(self, shape: Any) -> Any:
        return self._inv.forward_shape(shape)

    def __repr__(self) -> str:
        return f"_InverseTransform({self._inv!r})"


class ComposeTransform(Transform):
    """The composition of transforms.

    Args:
        parts: The transforms, in the order in which they are applied.
        cache_size: See :class:`Transform`.
    """

    def __init__(self, parts: Sequence[Transform], cache_size: int = 0) -> None:
        """Give each part a cache of that size."""
        super().__init__(cache_size)
        self.parts = [part.with_cache(cache_size) for part in parts] if cache_size else list(parts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ComposeTransform) and self.parts == other.parts

    def __hash__(self) -> int:
        return hash(tuple(self.parts))

    def _event_dims(self) -> tuple[int, int]:
        """Return the event dims of arguments and of results: the fewest that suffice for all parts."""
        if not self.parts:
            return 0, 0
        into = self.parts[-1].codomain.event_dim
        for part in reversed(self.parts):
            into = max(into + part.domain.event_dim - part.codomain.event_dim, part.domain.event_dim)
        return into, into + sum(part.codomain.event_dim - part.domain.event_dim for part in self.parts)

    @constraints.dependent_property
    def domain(self) -> Any:
        """Where arguments lie."""
        base = self.parts[0].domain if self.parts else constraints.real
        extra = self._event_dims()[0] - base.event_dim
        return constraints.independent(base, extra) if extra else base

    @constraints.dependent_property
    def codomain(self) -> Any:
        """Where results lie."""
        base = self.parts[-1].codomain if self.parts else constraints.real
        extra = self._event_dims()[1] - base.event_dim
        return constraints.independent(base, extra) if extra else base

    bijective = property(
        lambda self: all(part.bijective for part in self.parts), doc="Whether every part has an inverse."
    )
    sign = property(lambda self: math.prod(part.sign for part in self.parts), doc="1 if it grows, -1 if it falls.")
    inv = property(lambda self: ComposeTransform([part.inv for part in reversed(self.parts)]), doc="The inverse.")

    def with_cache(self, cache_size: int = 1) -> Transform:
        """Return a copy of the transform with a cache of that size."""
        return ComposeTransform(self.parts, cache_size)

    def __call__(self, x: Tensor) -> Tensor:
        for part in self.parts:
            x = part(x)
        return x

    def _inv_call(self, y: Tensor) -> Tensor:
        for part in reversed(self.parts):
            y = part._inv_call(y)
        return y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the sum over the parts."""
        if not self.parts:
            return _C.zeros_like(x)
        terms, event_dim = [], self._event_dims()[0]
        for i, part in enumerate(self.parts):
            # The last result is the given object y, for which a cache may hold the inverse.
            out = y if i == len(self.parts) - 1 else part(x)
            terms.append(sum_rightmost(part.log_abs_det_jacobian(x, out), event_dim - part.domain.event_dim))
            event_dim += part.codomain.event_dim - part.domain.event_dim
            x = out
        return sum(terms[1:], terms[0])

    def forward_shape(self, shape: Any) -> Any:
        """Return the result's shape for an argument of ``shape``."""
        for part in self.parts:
            shape = part.forward_shape(shape)
        return shape

    def inverse_shape(self, shape: Any) -> Any:
        """Return the argument's shape for a result of ``shape``."""
        for part in reversed(self.parts):
            shape = part.inverse_shape(shape)
        return shape

    def __repr__(self) -> str:
        return "ComposeTransform(\n    " + ",\n    ".join(map(repr, self.parts)) + "\n)"


identity_transform = ComposeTransform([])


class IndependentTransform(Transform):
    """A transform that treats some batch dims as event dims, so that log determinants are summed over them.

    Args:
        base_transform: The transform.
        reinterpreted_batch_ndims: The number of additional event dims.
        cache_size: See :class:`Transform`.
    """

    def __init__(self, base_transform: Transform, reinterpreted_batch_ndims: int, cache_size: int = 0) -> None:
        """Store the base transform."""
        super().__init__(cache_size)
        self.base_transform, self.reinterpreted_batch_ndims = (
            base_transform.with_cache(cache_size),
            reinterpreted_batch_ndims,
        )

    @constraints.dependent_property
    def domain(self) -> Any:
        """Where arguments lie."""
        return constraints.independent(self.base_transform.domain, self.reinterpreted_batch_ndims)

    @constraints.dependent_property
    def codomain(self) -> Any:
        """Where results lie."""
        return constraints.independent(self.base_transform.codomain, self.reinterpreted_batch_ndims)

    bijective = property(lambda self: self.base_transform.bijective, doc="The base's.")
    sign = property(lambda self: self.base_transform.sign, doc="The base's.")

    def _call(self, x: Tensor) -> Tensor:
        return self.base_transform(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return self.base_transform._inv_call(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the base transform's value, summed over the additional event dims."""
        return sum_rightmost(self.base_transform.log_abs_det_jacobian(x, y), self.reinterpreted_batch_ndims)

    def __repr__(self) -> str:
        return f"IndependentTransform({self.base_transform!r}, {self.reinterpreted_batch_ndims})"


class ReshapeTransform(Transform):
    """A reshape of the last dims.

    Args:
        in_shape: Shape of an argument's event.
        out_shape: Shape of a result's event.
        cache_size: See :class:`Transform`.
    """

    bijective = True

    def __init__(self, in_shape: Any, out_shape: Any, cache_size: int = 0) -> None:
        """Check the shapes; ValueError if their numbers of elements differ."""
        self.in_shape, self.out_shape = Size(in_shape), Size(out_shape)
        if self.in_shape.numel() != self.out_shape.numel():
            raise ValueError("in_shape, out_shape have different numbers of elements")
        super().__init__(cache_size)
        self.domain = constraints.independent(constraints.real, len(self.in_shape))
        self.codomain = constraints.independent(constraints.real, len(self.out_shape))

    def _call(self, x: Tensor) -> Tensor:
        return x.reshape(self.forward_shape(x.shape))

    def _inverse(self, y: Tensor) -> Tensor:
        return y.reshape(self.inverse_shape(y.shape))

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return zeros without the event dims."""
        return x.new_zeros(x.shape[: x.dim() - len(self.in_shape)])

    @staticmethod
    def _reshaped(shape: Any, before: Size, after: Size) -> Size:
        """Return ``shape`` with its last dims ``before`` replaced by ``after``; ValueError if they are others."""
        cut = len(shape) - len(before)
        if cut < 0 or tuple(shape[cut:]) != tuple(before):
            raise ValueError(f"Shape mismatch: expected {shape[max(cut, 0) :]} but got {before}")
        return Size((*shape[:cut], *after))

    def forward_shape(self, shape: Any) -> Any:
        """Return the result's shape for an argument of ``shape``."""
        return self._reshaped(shape, self.in_shape, self.out_shape)

    def inverse_shape(self, shape: Any) -> Any:
        """Return the argument's shape for a result of ``shape``."""
        return self._reshaped(shape, self.out_shape, self.in_shape)


class _Elementwise(Transform):
    """An elementwise transform without parameters: all instances of a class are equal."""

    bijective = True
    sign = 1

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash(type(self))


class ExpTransform(_Elementwise):
    """y = exp(x)."""

    codomain = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return x.exp()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return x."""
        return x


class SigmoidTransform(_Elementwise):
    """y = 1 / (1 + exp(-x)), clamped away from 0 and 1."""

    codomain = constraints.unit_interval

    def _call(self, x: Tensor) -> Tensor:
        f = finfo(x.dtype)
        return x.sigmoid().clamp(f.tiny, 1.0 - f.eps)

    def _inverse(self, y: Tensor) -> Tensor:
        f = finfo(y.dtype)
        y = y.clamp(f.tiny, 1.0 - f.eps)
        return y.log() - (-y).log1p()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return log(y (1 - y)), in terms of x."""
        return -F.softplus(-x) - F.softplus(x)


class SoftplusTransform(_Elementwise):
    """y = log(1 + exp(x))."""

    codomain = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return F.softplus(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return (-y).expm1().neg().log() + y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return log(sigmoid(x))."""
        return -F.softplus(-x)


class TanhTransform(_Elementwise):
    """y = tanh(x)."""

    codomain = constraints.interval(-1.0, 1.0)

    def _call(self, x: Tensor) -> Tensor:
        return x.tanh()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.atanh()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return log(1 - tanh(x)^2) as 2 (log 2 - x - softplus(-2x)), which is accurate for large x too."""
        return 2.0 * (math.log(2.0) - x - F.softplus(-2.0 * x))


class AbsTransform(_Elementwise):
    """y = \\|x\\|. The inverse is taken to be x = y."""

    bijective = False
    sign = None
    codomain = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return x.abs()

    def _inverse(self, y: Tensor) -> Tensor:
        return y


class PowerTransform(Transform):
    """y = x^exponent, for positive x.

    Args:
        exponent: A number or a tensor.
        cache_size: See :class:`Transform`.
    """

    domain = codomain = constraints.positive
    bijective = True

    def __init__(self, exponent: Any, cache_size: int = 0) -> None:
        """Make the exponent a tensor."""
        super().__init__(cache_size)
        self.exponent = _C.as_tensor(exponent)

    sign = property(lambda self: self.exponent.sign(), doc="The exponent's sign.")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PowerTransform) and bool(self.exponent.eq(other.exponent).all().item())

    __hash__ = None  # type: ignore[assignment]

    def _call(self, x: Tensor) -> Tensor:
        return x.pow(self.exponent)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.pow(1 / self.exponent)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return log(\\|exponent y / x\\|)."""
        return (self.exponent * y / x).abs().log()


class AffineTransform(Transform):
    """y = loc + scale x.

    Args:
        loc: A number or a tensor.
        scale: A number or a tensor.
        event_dim: The number of last dims that are one event.
        cache_size: See :class:`Transform`.
    """

    bijective = True

    def __init__(self, loc: Any, scale: Any, event_dim: int = 0, cache_size: int = 0) -> None:
        """Store the parameters."""
        super().__init__(cache_size)
        self.loc, self.scale, self._event_dim = loc, scale, event_dim

    event_dim = property(lambda self: self._event_dim, doc="The number of last dims that are one event.")

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Any:
        """Where arguments lie."""
        return constraints.independent(constraints.real, self._event_dim) if self._event_dim else constraints.real

    codomain = domain

    @property
    def sign(self) -> Any:
        """The scale's sign."""
        return self.scale.sign() if isinstance(self.scale, Tensor) else (self.scale > 0) - (self.scale < 0)

    def _call(self, x: Tensor) -> Tensor:
        return self.loc + self.scale * x

    def _inverse(self, y: Tensor) -> Tensor:
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return log(\\|scale\\|), summed over the event."""
        scale = self.scale.abs().log() if isinstance(self.scale, Tensor) else _C.full_like(x, math.log(abs(self.scale)))
        return sum_rightmost(scale.expand(_C.broadcast_tensors([scale, x])[0].shape), self._event_dim)


class SoftmaxTransform(_Elementwise):
    """y = softmax(x) over the last dim. It is not injective, so it has no log determinant."""

    bijective = False
    sign = None
    domain, codomain = constraints.real_vector, constraints.simplex

    def _call(self, x: Tensor) -> Tensor:
        return F.softmax(x, dim=-1)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()


class StickBreakingTransform(_Elementwise):
    """Maps x [..., n] to weights [..., n + 1] with sum 1: weight i is sigmoid(x_i - log(n - i)) times what is left."""

    sign = None
    domain, codomain = constraints.real_vector, constraints.simplex

    def _offsets(self, like: Tensor) -> Tensor:
        n = like.shape[-1]
        return _C.arange(n, 0, -1, dtype=like.dtype, device=like.device).log()

    def _call(self, x: Tensor) -> Tensor:
        z = (x - self._offsets(x)).sigmoid()
        left = (1 - z).cumprod(-1)
        return F.pad(z, [0, 1], value=1) * F.pad(left, [1, 0], value=1)

    def _inverse(self, y: Tensor) -> Tensor:
        cropped = y[..., :-1]
        left = (1 - cropped.cumsum(-1)).clamp(min=finfo(y.dtype).tiny)
        return cropped.log() - left.log() + self._offsets(cropped)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the sum over i of log(dy_i / dx_i): the Jacobian is triangular."""
        x = x - self._offsets(x)
        return (-x + F.logsigmoid(x) + y[..., :-1].log()).sum(-1)

    def forward_shape(self, shape: Any) -> Any:
        """Return the shape with one more element."""
        return Size((*shape[:-1], shape[-1] + 1))

    def inverse_shape(self, shape: Any) -> Any:
        """Return the shape with one element less."""
        return Size((*shape[:-1], shape[-1] - 1))


class LowerCholeskyTransform(_Elementwise):
    """Maps square matrices to lower triangular ones: takes exp of the diagonal and drops what is above it."""

    sign = None
    domain, codomain = constraints.independent(constraints.real, 2), constraints.lower_cholesky

    def _call(self, x: Tensor) -> Tensor:
        return x.tril(-1) + x.diagonal(dim1=-2, dim2=-1).exp().diag_embed()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.tril(-1) + y.diagonal(dim1=-2, dim2=-1).log().diag_embed()


class CumulativeDistributionTransform(Transform):
    """y = cdf(x) of a distribution.

    Args:
        distribution: A distribution of numbers, with ``cdf`` and ``icdf``.
        cache_size: See :class:`Transform`.
    """

    bijective = True
    sign = 1
    codomain = constraints.unit_interval

    def __init__(self, distribution: Distribution, cache_size: int = 0) -> None:
        """Store the distribution."""
        super().__init__(cache_size)
        self.distribution = distribution

    domain = property(lambda self: self.distribution.support, doc="Where values of the distribution lie.")

    def _call(self, x: Tensor) -> Tensor:
        return self.distribution.cdf(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return self.distribution.icdf(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the log density."""
        return self.distribution.log_prob(x)
