"""The array API's extension ``linalg``."""

from __future__ import annotations

from typing import Any

from torchlette.array_api._dtypes import Array, Axes, DType, promote, torch
from torchlette.array_api._reductions import (
    _product,
    axes_of,
    kept,
    matmul,
    matrix_transpose,
    sum,
    tensordot,
    vecdot,
)

__all__ = [
    "cholesky", "cross", "det", "diagonal", "eig", "eigh", "eigvals", "eigvalsh", "inv", "matmul", "matrix_norm",
    "matrix_power", "matrix_rank", "matrix_transpose", "outer", "pinv", "qr", "slogdet", "solve", "svd", "svdvals",
    "tensordot", "trace", "vecdot", "vector_norm",
]  # fmt: skip

_linalg = torch.linalg


def cholesky(x: Array, /, *, upper: bool = False) -> Array:
    """Return the lower factor of positive-definite matrices, or the upper one."""
    return _linalg.cholesky(x, upper=upper)


def cross(x1: Array, x2: Array, /, *, axis: int = -1) -> Array:
    """Return the cross products of vectors of three elements along an axis.

    Args:
        x1, x2: The arrays.
        axis: The axis; one counted from the back is negative.

    Raises:
        ValueError: The vectors have another length.
    """
    if x1.shape[axis] != 3 or x2.shape[axis] != 3:
        raise ValueError(f"cross: expected vectors of 3 elements, got {x1.shape[axis]} and {x2.shape[axis]}")
    return _product(lambda a, b: _linalg.cross(*torch.broadcast_tensors(a, b), dim=axis), x1, x2)


def det(x: Array, /) -> Array:
    """Return the determinants of square matrices."""
    return _linalg.det(x)


def diagonal(x: Array, /, *, offset: int = 0) -> Array:
    """Return a diagonal of matrices."""
    return torch.diagonal(x, offset, -2, -1)


def eig(x: Array, /) -> Any:
    """Return ``(eigenvalues, eigenvectors)`` of square matrices, both complex."""
    return _linalg.eig(x)


def eigvals(x: Array, /) -> Array:
    """Return the eigenvalues of square matrices, complex."""
    return _linalg.eigvals(x)


def eigh(x: Array, /) -> Any:
    """Return ``(eigenvalues, eigenvectors)`` of symmetric or Hermitian matrices, in ascending order."""
    return _linalg.eigh(x)


def eigvalsh(x: Array, /) -> Array:
    """Return the eigenvalues of symmetric or Hermitian matrices, in ascending order."""
    return _linalg.eigvalsh(x)


def inv(x: Array, /) -> Array:
    """Return the inverses of square matrices."""
    return _linalg.inv(x)


def matrix_norm(x: Array, /, *, keepdims: bool = False, ord: Any = "fro") -> Array:
    """Return the norms of matrices: "fro", "nuc", or of order 1, 2, infinity and their negatives.

    Args:
        x: The array.
        keepdims: Whether the axes stay, with length 1.
        ord: The norm.
    """
    return _linalg.matrix_norm(x, ord, keepdim=keepdims)


def matrix_power(x: Array, n: int, /) -> Array:
    """Return the n-th powers of square matrices."""
    return _linalg.matrix_power(x, n)


def matrix_rank(x: Array, /, *, rtol: Any = None) -> Array:
    """Return how many singular values exceed the greatest times ``rtol``: by default the longer side times epsilon."""
    return _linalg.matrix_rank(x, rtol=rtol)


def pinv(x: Array, /, *, rtol: Any = None) -> Array:
    """Return the pseudo-inverses of matrices, without singular values below the greatest times ``rtol``."""
    if rtol is None:
        rtol = max(x.shape[-2:]) * torch.finfo(x.dtype).eps
    return _linalg.pinv(x, rtol=rtol)


def outer(x1: Array, x2: Array, /) -> Array:
    """Return the products of each element of a vector with each of another."""
    return _product(torch.outer, x1, x2)


def qr(x: Array, /, *, mode: str = "reduced") -> Any:
    """Return ``(Q, R)`` of matrices: of the shorter side ("reduced") or with a square Q ("complete")."""
    return _linalg.qr(x, mode=mode)


def slogdet(x: Array, /) -> Any:
    """Return ``(sign, logabsdet)`` of square matrices."""
    return _linalg.slogdet(x)


def solve(x1: Array, x2: Array, /) -> Array:
    """Return the solutions of ``x1 @ x = x2``; ``x2`` of one axis is a vector, of more a stack of matrices."""
    x1, x2 = promote(x1, x2)
    if x2.ndim == 1:
        return _linalg.solve(x1, x2[:, None]).squeeze(-1)
    shape = torch.broadcast_shapes(x1.shape[:-2], x2.shape[:-2])
    return _linalg.solve(x1.expand(*shape, *x1.shape[-2:]), x2.expand(*shape, *x2.shape[-2:]))


def svd(x: Array, /, *, full_matrices: bool = True) -> Any:
    """Return ``(U, S, Vh)`` of matrices."""
    return _linalg.svd(x, full_matrices=full_matrices)


def svdvals(x: Array, /) -> Array:
    """Return the singular values of matrices, in descending order."""
    return _linalg.svdvals(x)


def trace(x: Array, /, *, offset: int = 0, dtype: DType | None = None) -> Array:
    """Return the sums of a diagonal of matrices.

    Args:
        x: The array.
        offset: The diagonal: 0 is the main one, those above are positive.
        dtype: The dtype of the result; None: the default.
    """
    return sum(diagonal(x, offset=offset), axis=-1, dtype=dtype)


def vector_norm(x: Array, /, *, axis: Axes = None, keepdims: bool = False, ord: float = 2) -> Array:
    """Return the norms over axes as of one vector.

    Args:
        x: The array.
        axis: One axis, several, or all where None; negative ones count from the back.
        keepdims: Whether the axes stay, with length 1.
        ord: The order.
    """
    axes = axes_of(x, axis)
    if not axes:
        found = torch.abs(x) if ord != 0 else (x != 0).to(torch.abs(x).dtype)
    else:
        found = _linalg.vector_norm(x, ord, dim=axes)
    return kept(found, x, axes, keepdims)
