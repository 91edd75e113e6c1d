"""Invertible functions, with the logarithms of the absolute determinants of their Jacobians."""

from __future__ import annotations

import math
from typing import Any

from torchlette import _C
from torchlette._runtime.dtypes import finfo
from torchlette.distributions import constraints
from torchlette.distributions.composed_transforms import (
    CatTransform,
    ComposeTransform,
    IndependentTransform,
    StackTransform,
    Transform,
    identity_transform,
)
from torchlette.distributions.distribution import Distribution
from torchlette.distributions.utils import sum_rightmost
from torchlette.nn import functional as F

__all__ = [
    "AbsTransform",
    "AffineTransform",
    "CatTransform",
    "ComposeTransform",
    "CorrCholeskyTransform",
    "CumulativeDistributionTransform",
    "ExpTransform",
    "IndependentTransform",
    "LowerCholeskyTransform",
    "PositiveDefiniteTransform",
    "PowerTransform",
    "ReshapeTransform",
    "SigmoidTransform",
    "SoftmaxTransform",
    "SoftplusTransform",
    "StackTransform",
    "StickBreakingTransform",
    "TanhTransform",
    "Transform",
    "identity_transform",
]

Tensor, Size = _C.Tensor, _C.Size


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
    """Maps x [..., n] to weights [..., n + 1] with sum 1: weight i is sigmoid(x_i - log(n - i)) times the rest.

    The rest is 1 minus the sum of the weights before.
    """

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


class PositiveDefiniteTransform(_Elementwise):
    """Maps square matrices to positive definite ones: L L' of what :class:`LowerCholeskyTransform` gives."""

    bijective = False
    sign = None
    domain, codomain = constraints.independent(constraints.real, 2), constraints.positive_definite

    def _call(self, x: Tensor) -> Tensor:
        factor = LowerCholeskyTransform()(x)
        return factor @ factor.mT

    def _inverse(self, y: Tensor) -> Tensor:
        return LowerCholeskyTransform().inv(_C.linalg_cholesky(y))


class CorrCholeskyTransform(_Elementwise):
    """Maps vectors of n (n - 1) / 2 numbers to Cholesky factors [n, n] of correlation matrices.

    With r = tanh(x), element j < i of row i is r_ij sqrt(1 - sum of the squares before it), and the diagonal makes the
    row's norm 1 (Stan Reference Manual, Cholesky factors of correlation matrices).
    """

    sign = None
    domain, codomain = constraints.real_vector, constraints.corr_cholesky

    @staticmethod
    def _below(like: Tensor, n: int, diagonal: int = -1) -> tuple[Tensor, Tensor]:
        """Return the rows and columns of the elements below the diagonal, row by row."""
        rows, columns = _C.tril_indices(n, n, diagonal, device=like.device).unbind(0)
        return rows, columns

    def _call(self, x: Tensor) -> Tensor:
        eps = finfo(x.dtype).eps
        n = self.forward_shape(x.shape)[-1]
        r = x.tanh().clamp(-1 + eps, 1 - eps)
        full = r.new_zeros((*x.shape[:-1], n, n))
        full[(..., *self._below(x, n))] = r
        left = (1 - full * full).sqrt().cumprod(-1)
        full = full + _C.eye(n, dtype=r.dtype, device=r.device)
        return full * F.pad(left[..., :-1], [1, 0], value=1)

    def _inverse(self, y: Tensor) -> Tensor:
        below = self._below(y, y.shape[-1])
        left = F.pad((1 - (y * y).cumsum(-1))[..., :-1], [1, 0], value=1)
        return (y[(..., *below)] / left[(..., *below)].sqrt()).atanh()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the sum of the logarithms of dr/dx and of dy/dr: the Jacobian is triangular."""
        left = (1 - (y * y).cumsum(-1))[(..., *self._below(y, y.shape[-1], -2))]
        tanh = -2 * (x + F.softplus(-2 * x) - math.log(2.0))
        return left.log().sum(-1) / 2 + tanh.sum(-1)

    def forward_shape(self, shape: Any) -> Any:
        """Return the factor's shape; ValueError unless the last size is n (n - 1) / 2."""
        n = round((0.25 + 2 * shape[-1]) ** 0.5 + 0.5) if len(shape) else 0
        if n * (n - 1) // 2 != (shape[-1] if len(shape) else -1):
            raise ValueError("Input is not a flattened lower-diagonal number")
        return Size((*shape[:-1], n, n))

    def inverse_shape(self, shape: Any) -> Any:
        """Return the vector's shape; ValueError unless the matrix is square."""
        if len(shape) < 2 or shape[-2] != shape[-1]:
            raise ValueError("Input is not square")
        return Size((*shape[:-2], shape[-1] * (shape[-1] - 1) // 2))


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
