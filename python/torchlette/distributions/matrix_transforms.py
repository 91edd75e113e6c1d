"""Transforms of matrices, and transforms that apply others to parts of a tensor."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from torchlette import _C
from torchlette._runtime.dtypes import finfo
from torchlette.distributions import constraints
from torchlette.distributions.transforms import LowerCholeskyTransform, Transform
from torchlette.distributions.utils import tril_matrix_to_vec, vec_to_tril_matrix
from torchlette.nn import functional as F

__all__ = ["CatTransform", "CorrCholeskyTransform", "PositiveDefiniteTransform", "StackTransform"]

Tensor, Size = _C.Tensor, _C.Size


class CorrCholeskyTransform(Transform):
    """Maps vectors of D (D - 1) / 2 numbers to Cholesky factors of D by D correlation matrices.

    The numbers fill the lower triangle row by row. The squares of a row are stick-breaking weights of tanh(x)^2.
    """

    domain, codomain = constraints.real_vector, constraints.corr_cholesky
    bijective = True

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash(type(self))

    def _call(self, x: Tensor) -> Tensor:
        bound = 1 - finfo(x.dtype).eps
        r = vec_to_tril_matrix(x.tanh().clamp(-bound, bound), diag=-1)
        left = (1 - r.square()).sqrt().cumprod(-1)
        r = r + _C.eye(r.shape[-1], dtype=r.dtype, device=r.device)
        return r * F.pad(left[..., :-1], [1, 0], value=1)

    def _inverse(self, y: Tensor) -> Tensor:
        left = F.pad((1 - y.square().cumsum(-1))[..., :-1], [1, 0], value=1)
        t = tril_matrix_to_vec(y, diag=-1) / tril_matrix_to_vec(left, diag=-1).sqrt()
        return (t.log1p() - (-t).log1p()) / 2

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the log determinant of the Jacobian of the elements below the diagonal."""
        left = tril_matrix_to_vec(1 - y.square().cumsum(-1), diag=-2)
        tanh = -2 * (x + F.softplus(-2 * x) - math.log(2.0)).sum(-1)
        return 0.5 * left.log().sum(-1) + tanh

    def forward_shape(self, shape: Any) -> Any:
        """Return the matrices' shape; ValueError unless the last size is D (D - 1) / 2."""
        if len(shape) < 1:
            raise ValueError("Too few dimensions on input")
        side = round((0.25 + 2 * shape[-1]) ** 0.5 + 0.5)
        if side * (side - 1) // 2 != shape[-1]:
            raise ValueError("Input is not a flattened lower-diagonal number")
        return Size((*shape[:-1], side, side))

    def inverse_shape(self, shape: Any) -> Any:
        """Return the vectors' shape; ValueError unless the matrices are square."""
        if len(shape) < 2:
            raise ValueError("Too few dimensions on input")
        if shape[-2] != shape[-1]:
            raise ValueError("Input is not square")
        return Size((*shape[:-2], shape[-1] * (shape[-1] - 1) // 2))


class PositiveDefiniteTransform(Transform):
    """Maps square matrices to positive definite ones: L L^T with L of :class:`LowerCholeskyTransform`."""

    domain, codomain = constraints.independent(constraints.real, 2), constraints.positive_definite

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash(type(self))

    def _call(self, x: Tensor) -> Tensor:
        factor = LowerCholeskyTransform()(x)
        return factor @ factor.mT

    def _inverse(self, y: Tensor) -> Tensor:
        from torchlette import linalg

        return LowerCholeskyTransform().inv(linalg.cholesky(y))


class _Parts(Transform):
    """Applies one transform to each part of a tensor along a dim."""

    def __init__(self, tseq: Sequence[Transform], dim: int, cache_size: int) -> None:
        super().__init__(cache_size)
        if not all(isinstance(t, Transform) for t in tseq):
            raise AssertionError("All elements of tseq must be Transform instances")
        self.transforms = [t.with_cache(cache_size) for t in tseq] if cache_size else list(tseq)
        self.dim = dim

    bijective = property(lambda self: all(t.bijective for t in self.transforms), doc="Whether all have an inverse.")

    def _split(self, x: Tensor) -> Sequence[Tensor]:
        raise NotImplementedError

    def _join(self, parts: list[Tensor]) -> Tensor:
        raise NotImplementedError

    def _call(self, x: Tensor) -> Tensor:
        return self._join([t(part) for t, part in zip(self.transforms, self._split(x), strict=True)])

    def _inverse(self, y: Tensor) -> Tensor:
        return self._join([t.inv(part) for t, part in zip(self.transforms, self._split(y), strict=True)])


class CatTransform(_Parts):
    """Applies transforms to consecutive parts along a dim.

    Args:
        tseq: The transforms.
        dim: The dim along which the parts lie.
        lengths: The sizes of the parts; None: 1 each.
        cache_size: See :class:`Transform`.
    """

    def __init__(
        self, tseq: Sequence[Transform], dim: int = 0, lengths: Sequence[int] | None = None, cache_size: int = 0
    ) -> None:
        """Store the parts."""
        super().__init__(tseq, dim, cache_size)
        self.lengths = [1] * len(self.transforms) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.transforms):
            raise AssertionError(f"lengths: got {len(self.lengths)}, want {len(self.transforms)}")

    event_dim = property(lambda self: max(t.event_dim for t in self.transforms), doc="The most event dims of a part.")
    length = property(lambda self: sum(self.lengths), doc="The size of the dim.")

    @constraints.dependent_property
    def domain(self) -> Any:
        """Where arguments lie."""
        return constraints.cat([t.domain for t in self.transforms], self.dim, self.lengths)

    @constraints.dependent_property
    def codomain(self) -> Any:
        """Where results lie."""
        return constraints.cat([t.codomain for t in self.transforms], self.dim, self.lengths)

    def _split(self, x: Tensor) -> Sequence[Tensor]:
        if not -x.dim() <= self.dim < x.dim() or x.size(self.dim) != self.length:
            raise AssertionError(f"dim {self.dim}: got shape {tuple(x.shape)}, want size {self.length}")
        return x.split(self.lengths, self.dim)

    def _join(self, parts: list[Tensor]) -> Tensor:
        return _C.cat(parts, dim=self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return those of the parts, side by side, or summed where the dim is one of an event."""
        found = []
        for t, a, b in zip(self.transforms, self._split(x), self._split(y), strict=True):
            part = t.log_abs_det_jacobian(a, b)
            if t.event_dim < self.event_dim:
                part = part.flatten(-(self.event_dim - t.event_dim)).sum(-1)
            found.append(part)
        dim = self.dim - x.dim() if self.dim >= 0 else self.dim
        dim += self.event_dim
        return _C.cat(found, dim=dim) if dim < 0 else sum(found[1:], found[0])


class StackTransform(_Parts):
    """Applies transforms to the slices of a dim.

    Args:
        tseq: The transforms, one for each slice.
        dim: The dim.
        cache_size: See :class:`Transform`.
    """

    def __init__(self, tseq: Sequence[Transform], dim: int = 0, cache_size: int = 0) -> None:
        """Store the slices' transforms."""
        super().__init__(tseq, dim, cache_size)

    @constraints.dependent_property
    def domain(self) -> Any:
        """Where arguments lie."""
        return constraints.stack([t.domain for t in self.transforms], self.dim)

    @constraints.dependent_property
    def codomain(self) -> Any:
        """Where results lie."""
        return constraints.stack([t.codomain for t in self.transforms], self.dim)

    def _split(self, x: Tensor) -> Sequence[Tensor]:
        if not -x.dim() <= self.dim < x.dim() or x.size(self.dim) != len(self.transforms):
            raise AssertionError(f"dim {self.dim}: got shape {tuple(x.shape)}, want size {len(self.transforms)}")
        return x.unbind(self.dim)

    def _join(self, parts: list[Tensor]) -> Tensor:
        return _C.stack(parts, dim=self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return those of the slices, stacked."""
        split = zip(self.transforms, self._split(x), self._split(y), strict=True)
        return self._join([t.log_abs_det_jacobian(a, b) for t, a, b in split])
