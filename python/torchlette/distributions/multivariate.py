"""The normal distribution of vectors."""

from __future__ import annotations

import math
from typing import Any

from torchlette import _C, linalg
from torchlette.distributions import constraints
from torchlette.distributions.distribution import Distribution
from torchlette.distributions.utils import lazy_property

__all__ = ["MultivariateNormal"]

Tensor = _C.Tensor


def mahalanobis(factor: Tensor, difference: Tensor) -> Tensor:
    """Return x^T (L L^T)^-1 x for vectors x that broadcast with the batch of L."""
    return linalg.solve_triangular(factor, difference.unsqueeze(-1), upper=False).squeeze(-1).square().sum(-1)


def half_log_det(factor: Tensor) -> Tensor:
    """Return half of the log determinant of L L^T."""
    return factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)


class MultivariateNormal(Distribution):
    """The normal distribution of vectors.

    Args:
        loc: Mean.
        covariance_matrix: Covariance, or one of the next two instead.
        precision_matrix: Its inverse.
        scale_tril: Its Cholesky factor.
        validate_args: See :class:`Distribution`.
    """

    arg_constraints = {
        "loc": constraints.real_vector,
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
    }
    support = constraints.real_vector
    has_rsample = True

    def __init__(
        self,
        loc: Tensor,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        """Broadcast the parameters and factorise the matrix that was given."""
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        given = {"covariance_matrix": covariance_matrix, "precision_matrix": precision_matrix, "scale_tril": scale_tril}
        named = [(name, matrix) for name, matrix in given.items() if matrix is not None]
        if len(named) != 1:
            raise ValueError("Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified.")
        name, matrix = named[0]
        if matrix.dim() < 2:
            raise ValueError(f"{name} must be at least two-dimensional, with optional leading batch dimensions")
        batch = _C.Size(_C.broadcast_tensors([matrix[..., 0, 0], loc[..., 0]])[0].shape)
        self.loc = loc.expand(*batch, -1)
        setattr(self, name, matrix.expand(*batch, -1, -1))
        super().__init__(batch, self.loc.shape[-1:], validate_args=validate_args)
        self._unbroadcasted_scale_tril = self._factor(name, matrix)

    @staticmethod
    def _factor(name: str, matrix: Tensor) -> Tensor:
        """Return the Cholesky factor of the covariance."""
        if name == "scale_tril":
            return matrix
        if name == "covariance_matrix":
            return linalg.cholesky(matrix)
        # The factor of the inverse is the inverse of the factor of the matrix read from its other end.
        flipped = linalg.cholesky(matrix.flip(-2, -1)).flip(-2, -1).mT
        return linalg.solve_triangular(flipped, _C.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device), upper=False)

    def expand(self, batch_shape: Any, _instance: Any = None) -> MultivariateNormal:
        """Return the distribution with its batch expanded."""
        factor = self.__dict__.pop("_unbroadcasted_scale_tril")
        try:
            new = super().expand(batch_shape)
        finally:
            self._unbroadcasted_scale_tril = factor
        new._unbroadcasted_scale_tril = factor
        return new

    def _whole(self, matrix: Tensor) -> Tensor:
        return matrix.expand(*self._batch_shape, *self._event_shape, *self._event_shape)

    @lazy_property
    def scale_tril(self) -> Tensor:
        """Cholesky factor of the covariance."""
        return self._whole(self._unbroadcasted_scale_tril)

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """Covariance."""
        return self._whole(self._unbroadcasted_scale_tril @ self._unbroadcasted_scale_tril.mT)

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """Inverse of the covariance."""
        return self._whole(_C.cholesky_inverse(self._unbroadcasted_scale_tril))

    mean = property(lambda self: self.loc, doc="Mean.")
    mode = property(lambda self: self.loc, doc="The likeliest value.")

    @property
    def variance(self) -> Tensor:
        """Variance of each element."""
        return self._unbroadcasted_scale_tril.square().sum(-1).expand(self._batch_shape + self._event_shape)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Draw so that gradients reach the parameters."""
        noise = _C.randn(self._extended_shape(sample_shape), dtype=self.loc.dtype, device=self.loc.device)
        return self.loc + (self._unbroadcasted_scale_tril @ noise.unsqueeze(-1)).squeeze(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the log density."""
        if self._validate_args:
            self._validate_sample(value)
        factor = self._unbroadcasted_scale_tril
        return -0.5 * (self._event_shape[0] * math.log(2 * math.pi) + mahalanobis(factor, value - self.loc)) - half_log_det(factor)

    def entropy(self) -> Tensor:
        """Return the entropy."""
        entropy = 0.5 * self._event_shape[0] * (1 + math.log(2 * math.pi)) + half_log_det(self._unbroadcasted_scale_tril)
        return entropy.expand(self._batch_shape)
