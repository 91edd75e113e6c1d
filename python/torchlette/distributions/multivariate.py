"""Normal distributions of vectors, and distributions of covariance and correlation matrices."""

from __future__ import annotations

import math
from typing import Any

from torchlette import _C, linalg
from torchlette._runtime.dtypes import finfo
from torchlette.distributions import constraints
from torchlette.distributions.distribution import Distribution
from torchlette.distributions.gamma import Beta, Chi2, without_gradient
from torchlette.distributions.utils import lazy_property

__all__ = ["LKJCholesky", "LowRankMultivariateNormal", "MultivariateNormal", "Wishart"]

Tensor = _C.Tensor


def mahalanobis(factor: Tensor, difference: Tensor) -> Tensor:
    """Return x^T (L L^T)^-1 x, [...], for L = ``factor`` [..., n, n] and x = ``difference`` [..., n]."""
    return linalg.solve_triangular(factor, difference.unsqueeze(-1), upper=False).squeeze(-1).square().sum(-1)


def half_log_det(factor: Tensor) -> Tensor:
    """Return half of the log determinant of L L^T, [...], for L = ``factor`` [..., n, n]."""
    return factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)


#: The three parametrisations of the covariance of a :class:`Factored` distribution.
_MATRICES = {
    "covariance_matrix": constraints.positive_definite,
    "precision_matrix": constraints.positive_definite,
    "scale_tril": constraints.lower_cholesky,
}


class Factored(Distribution):
    """A distribution with a covariance, which is given as a matrix, an inverse or a Cholesky factor.

    The factor is stored in ``_unbroadcasted_scale_tril``, without the batch dims that come from other parameters.
    """

    @staticmethod
    def _given(**matrices: Tensor | None) -> tuple[str, Tensor]:
        """Return the name and the value of the one matrix that is given; ValueError unless it is exactly one."""
        named = [(name, matrix) for name, matrix in matrices.items() if matrix is not None]
        if len(named) != 1:
            raise ValueError("Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified.")
        name, matrix = named[0]
        if matrix.dim() < 2:
            raise ValueError(f"{name} must be at least two-dimensional, with optional leading batch dimensions")
        return named[0]

    @staticmethod
    def _factor(name: str, matrix: Tensor) -> Tensor:
        """Return the Cholesky factor of the covariance, from the matrix of that name."""
        if name == "scale_tril":
            return matrix
        if name == "covariance_matrix":
            return linalg.cholesky(matrix)
        # Flip the matrix in both dims, factor it, flip back and invert: this gives the Cholesky factor of its inverse.
        flipped = linalg.cholesky(matrix.flip(-2, -1)).flip(-2, -1).mT
        return linalg.solve_triangular(
            flipped, _C.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device), upper=False
        )

    def expand(self, batch_shape: Any, _instance: Any = None) -> Factored:
        """Return the distribution with its batch expanded."""
        factor = self.__dict__.pop("_unbroadcasted_scale_tril")
        try:
            new = super().expand(batch_shape, _instance)
        finally:
            self._unbroadcasted_scale_tril = factor
        new._unbroadcasted_scale_tril = factor
        return new

    def _whole(self, matrix: Tensor) -> Tensor:
        """Return a matrix with the batch dims of the distribution."""
        n = self._event_shape[-1]
        return matrix.expand(*self._batch_shape, n, n)

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


class MultivariateNormal(Factored):
    """The normal distribution of vectors [n].

    Args:
        loc: Mean [..., n].
        covariance_matrix: Covariance [..., n, n]. Exactly one of the three matrices must be given.
        precision_matrix: Inverse of the covariance [..., n, n].
        scale_tril: Lower Cholesky factor of the covariance [..., n, n].
        validate_args: See :class:`Distribution`.

    Raises:
        ValueError: If ``loc`` is a scalar, a matrix has less than two dims, or not exactly one is given.
    """

    arg_constraints = {"loc": constraints.real_vector, **_MATRICES}
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
        name, matrix = self._given(
            covariance_matrix=covariance_matrix, precision_matrix=precision_matrix, scale_tril=scale_tril
        )
        batch = _C.Size(_C.broadcast_tensors([matrix[..., 0, 0], loc[..., 0]])[0].shape)
        self.loc = loc.expand(*batch, -1)
        setattr(self, name, matrix.expand(*batch, -1, -1))
        super().__init__(batch, self.loc.shape[-1:], validate_args=validate_args)
        self._unbroadcasted_scale_tril = self._factor(name, matrix)

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
        return -0.5 * (
            self._event_shape[0] * math.log(2 * math.pi) + mahalanobis(factor, value - self.loc)
        ) - half_log_det(factor)

    def entropy(self) -> Tensor:
        """Return the entropy."""
        entropy = 0.5 * self._event_shape[0] * (1 + math.log(2 * math.pi)) + half_log_det(
            self._unbroadcasted_scale_tril
        )
        return entropy.expand(self._batch_shape)


class LowRankMultivariateNormal(Distribution):
    """The normal distribution of vectors [n] with covariance W W^T + diag(D). Draws and densities factorise matrices
    of size rank, not n.

    Args:
        loc: Mean [..., n].
        cov_factor: W [..., n, rank].
        cov_diag: D [..., n].
        validate_args: See :class:`Distribution`.

    Raises:
        ValueError: If a parameter has too few dims, or the sizes n differ.
    """

    arg_constraints = {
        "loc": constraints.real_vector,
        "cov_factor": constraints.independent(constraints.real, 2),
        "cov_diag": constraints.independent(constraints.positive, 1),
    }
    support = constraints.real_vector
    has_rsample = True

    def __init__(self, loc: Tensor, cov_factor: Tensor, cov_diag: Tensor, validate_args: bool | None = None) -> None:
        """Check and broadcast the parameters."""
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        event = loc.shape[-1:]
        if cov_factor.dim() < 2:
            raise ValueError("cov_factor must be at least two-dimensional, with optional leading batch dimensions")
        if cov_factor.shape[-2:-1] != event:
            raise ValueError(f"cov_factor must be a batch of matrices with shape {event[0]} x m")
        if cov_diag.shape[-1:] != event:
            raise ValueError(f"cov_diag must be a batch of vectors with shape {event}")
        batch = _C.Size(_C.broadcast_tensors([loc[..., 0], cov_factor[..., 0, 0], cov_diag[..., 0]])[0].shape)
        self.loc, self.cov_diag = loc.expand(*batch, -1), cov_diag.expand(*batch, -1)
        self.cov_factor = cov_factor.expand(*batch, -1, -1)
        super().__init__(batch, event, validate_args=validate_args)

    @lazy_property
    def _capacitance_tril(self) -> Tensor:
        """Cholesky factor of the capacitance matrix I + W^T D^-1 W, [..., rank, rank]."""
        w = self.cov_factor
        eye = _C.eye(w.size(-1), dtype=w.dtype, device=w.device)
        return linalg.cholesky(eye + w.mT @ (w / self.cov_diag.unsqueeze(-1)))

    mean = property(lambda self: self.loc, doc="Mean.")
    mode = property(lambda self: self.loc, doc="The likeliest value.")

    @lazy_property
    def variance(self) -> Tensor:
        """Variance of each element."""
        return self.cov_factor.square().sum(-1) + self.cov_diag

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """Covariance."""
        return self.cov_factor @ self.cov_factor.mT + self.cov_diag.diag_embed()

    @lazy_property
    def scale_tril(self) -> Tensor:
        """Cholesky factor of the covariance."""
        return linalg.cholesky(self.covariance_matrix)

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """Inverse of the covariance, by Woodbury's identity."""
        part = linalg.solve_triangular(
            self._capacitance_tril, self.cov_factor.mT / self.cov_diag.unsqueeze(-2), upper=False
        )
        return self.cov_diag.reciprocal().diag_embed() - part.mT @ part

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Draw so that gradients reach the parameters."""
        shape = self._extended_shape(sample_shape)
        like = {"dtype": self.loc.dtype, "device": self.loc.device}
        low = _C.randn((*shape[:-1], self.cov_factor.size(-1)), **like)
        return (
            self.loc
            + (self.cov_factor @ low.unsqueeze(-1)).squeeze(-1)
            + self.cov_diag.sqrt() * _C.randn(shape, **like)
        )

    def _half_log_det(self) -> Tensor:
        """Return half of the covariance's log determinant, by the matrix determinant lemma."""
        return half_log_det(self._capacitance_tril) + 0.5 * self.cov_diag.log().sum(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the log density."""
        if self._validate_args:
            self._validate_sample(value)
        away = value - self.loc
        scaled = away / self.cov_diag
        along = mahalanobis(self._capacitance_tril, (self.cov_factor.mT @ scaled.unsqueeze(-1)).squeeze(-1))
        return (
            -0.5 * (self._event_shape[0] * math.log(2 * math.pi) + (away * scaled).sum(-1) - along)
            - self._half_log_det()
        )

    def entropy(self) -> Tensor:
        """Return the entropy."""
        return 0.5 * self._event_shape[0] * (1 + math.log(2 * math.pi)) + self._half_log_det()


class Wishart(Factored):
    """The Wishart distribution of positive definite matrices [n, n]: the sum of x x^T over ``df`` normal vectors x of
    mean 0.

    ``rsample`` passes gradients to the matrix. It raises NotImplementedError if ``df`` requires grad.

    Args:
        df: Degrees of freedom, above n - 1; a number or a tensor [...].
        covariance_matrix: Covariance of the vectors [..., n, n]. Exactly one of the three matrices must be given.
        precision_matrix: Inverse of the covariance [..., n, n].
        scale_tril: Lower Cholesky factor of the covariance [..., n, n].
        validate_args: See :class:`Distribution`.

    Raises:
        ValueError: If ``df`` is at most n - 1, a matrix has less than two dims, or not exactly one is given.
    """

    arg_constraints = {**_MATRICES, "df": constraints.positive}
    support = constraints.positive_definite
    has_rsample = True

    def __init__(
        self,
        df: Any,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        """Broadcast the parameters and factorise the matrix that was given."""
        name, matrix = self._given(
            covariance_matrix=covariance_matrix, precision_matrix=precision_matrix, scale_tril=scale_tril
        )
        df = df if isinstance(df, Tensor) else _C.tensor(df, dtype=matrix.dtype, device=matrix.device)
        batch = _C.Size(_C.broadcast_tensors([matrix[..., 0, 0], df])[0].shape)
        n = matrix.shape[-1]
        if (df <= n - 1).any().item():
            raise ValueError(f"Value of df={df} expected to be greater than ndim - 1 = {n - 1}.")
        self.df = df.expand(batch)
        setattr(self, name, matrix.expand(*batch, -1, -1))
        super().__init__(batch, matrix.shape[-2:], validate_args=validate_args)
        self._unbroadcasted_scale_tril = self._factor(name, matrix)

    @property
    def mean(self) -> Tensor:
        """Mean."""
        return self.df[..., None, None] * self.covariance_matrix

    @property
    def mode(self) -> Tensor:
        """The likeliest matrix; NaN if ``df`` is at most n + 1."""
        above = self.df - self._event_shape[-1] - 1
        return _C.where(above > 0, above, _C.full_like(above, math.nan))[..., None, None] * self.covariance_matrix

    @property
    def variance(self) -> Tensor:
        """Variance of each element."""
        v = self.covariance_matrix
        diagonal = v.diagonal(dim1=-2, dim2=-1)
        return self.df[..., None, None] * (v.square() + diagonal.unsqueeze(-1) * diagonal.unsqueeze(-2))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Draw so that gradients reach the matrix, by Bartlett's decomposition (M. S. Bartlett, 1933).

        A draw is F F^T. F is the Cholesky factor of the covariance times a lower triangular matrix, which has square
        roots of chi-square draws on its diagonal and normal draws below it.
        """
        without_gradient("Wishart", self.df)
        n, like = self._event_shape[-1], {"dtype": self.df.dtype, "device": self.df.device}
        diagonal = Chi2(self.df.unsqueeze(-1) - _C.arange(n, **like)).sample(sample_shape).sqrt().diag_embed()
        factor = self._unbroadcasted_scale_tril @ (
            diagonal + _C.randn(self._extended_shape(sample_shape), **like).tril(-1)
        )
        return factor @ factor.mT

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the log density."""
        if self._validate_args:
            self._validate_sample(value)
        n, factor = self._event_shape[-1], self._unbroadcasted_scale_tril
        scaled = _C.cholesky_solve(value, factor.expand(*value.shape)).diagonal(dim1=-2, dim2=-1).sum(-1)
        log_det = linalg.slogdet(value).logabsdet
        return (
            0.5 * ((self.df - n - 1) * log_det - scaled)
            - self.df * (0.5 * n * math.log(2) + half_log_det(factor))
            - (0.5 * self.df).mvlgamma(n)
        )

    def entropy(self) -> Tensor:
        """Return the entropy."""
        n, half = self._event_shape[-1], 0.5 * self.df
        digammas = (half.unsqueeze(-1) - 0.5 * _C.arange(n, dtype=half.dtype, device=half.device)).digamma().sum(-1)
        scale = (n + 1) * (0.5 * n * math.log(2) + half_log_det(self._unbroadcasted_scale_tril))
        return scale + half.mvlgamma(n) - 0.5 * (self.df - n - 1) * digammas + half * n


class LKJCholesky(Distribution):
    """The distribution of Cholesky factors [dim, dim] of correlation matrices whose density is proportional to
    det^(concentration - 1) (Lewandowski, Kurowicka and Joe, Generating random correlation matrices, 2009).

    Args:
        dim: The size of the matrices, at least 2; ValueError otherwise.
        concentration: A number or a tensor; 1 gives the uniform distribution over correlation matrices.
        validate_args: See :class:`Distribution`.
    """

    arg_constraints = {"concentration": constraints.positive}
    support = constraints.corr_cholesky

    def __init__(self, dim: int, concentration: Any = 1.0, validate_args: bool | None = None) -> None:
        """Check the size and make the concentration a tensor."""
        if dim < 2:
            raise ValueError(f"Expected dim to be an integer greater than or equal to 2. Found dim={dim}.")
        self.dim = dim
        self.concentration = concentration if isinstance(concentration, Tensor) else _C.tensor(float(concentration))
        super().__init__(self.concentration.shape, _C.Size((dim, dim)), validate_args=validate_args)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Draw by the onion method, without gradients.

        Left of the diagonal, row i (from 0) is a uniform direction in i dims, with a squared length drawn from
        Beta(i / 2, concentration + (dim - 1 - i) / 2). The diagonal makes the length of the row 1.
        """
        c = self.concentration.detach()
        i = _C.arange(1, self.dim, dtype=c.dtype, device=c.device)
        squares = (
            Beta((i / 2).expand(*c.shape, -1), c.unsqueeze(-1) + (self.dim - 1 - i) / 2)
            .sample(sample_shape)
            .unsqueeze(-1)
        )
        directions = _C.randn(self._extended_shape(sample_shape), dtype=c.dtype, device=c.device).tril(-1)[..., 1:, :]
        below = squares.sqrt() * directions / linalg.vector_norm(directions, dim=-1, keepdim=True)
        below = _C.cat([_C.zeros_like(below[..., :1, :]), below], -2)
        return below + (1 - below.square().sum(-1)).clamp(min=finfo(c.dtype).tiny).sqrt().diag_embed()

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the log density, with respect to the elements of the factor below the diagonal."""
        if self._validate_args:
            self._validate_sample(value)
        c, rest = self.concentration, self.dim - 1
        order = 2 * (c - 1).unsqueeze(-1) + self.dim - _C.arange(2, self.dim + 1, device=c.device)
        density = (order * value.diagonal(dim1=-1, dim2=-2)[..., 1:].log()).sum(-1)
        alpha = c + 0.5 * rest
        return density - (0.5 * rest * math.log(math.pi) + (alpha - 0.5).mvlgamma(rest) - alpha.lgamma() * rest)
