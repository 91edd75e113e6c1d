"""Products and factorisations with arguments that Python code parses: lists of dimensions, any number of tensors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from torchlette import _C, linalg
from torchlette._runtime.casts import autocast_inputs

__all__ = [
    "block_diag",
    "chain_matmul",
    "get_approximate_basis",
    "lu",
    "pca_lowrank",
    "spmm",
    "svd_lowrank",
    "tensordot",
    "vander",
]

Tensor = _C.Tensor


def _contracted(a: Tensor, b: Tensor, dims: Any) -> tuple[list[int], list[int]]:
    """Return the dimensions of ``a`` and of ``b`` that are summed."""
    if isinstance(dims, Tensor):
        dims = dims.tolist()
    if isinstance(dims, Sequence):
        first, second = dims
        first, second = ([d] if isinstance(d, int) else list(d) for d in (first, second))
    else:
        if dims < 0:
            raise RuntimeError(f"tensordot expects dims >= 0, but got dims={dims}")
        if dims > min(a.ndim, b.ndim):
            raise RuntimeError(f"tensordot expects dims < ndim_a or ndim_b, but got dims={dims}")
        first, second = list(range(a.ndim - dims, a.ndim)), list(range(dims))
    if len(first) != len(second):
        raise RuntimeError("both dimension lists should have same length")
    for i, j in zip(first, second, strict=True):
        if a.shape[i] != b.shape[j] and 1 not in (a.shape[i], b.shape[j]):
            raise RuntimeError(
                f"contracted dimensions need to match, but first has size {a.shape[i]} in dim {i} and second has size "
                f"{b.shape[j]} in dim {j}"
            )
    return [d % a.ndim for d in first], [d % b.ndim for d in second]


def spmm(mat1: Tensor, mat2: Tensor) -> Tensor:
    """Return the product of two matrices. In PyTorch ``mat1`` is sparse; here it is dense."""
    return _C.mm(mat1, mat2)


@autocast_inputs(gpu="widest")
def tensordot(a: Tensor, b: Tensor, dims: Any = 2, out: Tensor | None = None) -> Tensor:
    """Sum products over dimensions of two tensors.

    Args:
        a: The left operand.
        b: The right operand, of the same dtype.
        dims: The number of last dimensions of ``a`` and first ones of ``b``, or a list of each; sizes must match or be
            1.
        out: Takes the result.
    """
    if a.dtype != b.dtype:
        raise RuntimeError(f"tensordot: both inputs should have same dtype, but got {a.dtype} and {b.dtype}")
    first, second = _contracted(a, b, dims)
    for i, j in zip(first, second, strict=True):  # a size of 1 broadcasts: sum the other operand first
        if a.shape[i] == 1 != b.shape[j]:
            b = b.sum(j, keepdim=True, dtype=b.dtype)
        elif b.shape[j] == 1 != a.shape[i]:
            a = a.sum(i, keepdim=True, dtype=a.dtype)
    left, right = [d for d in range(a.ndim) if d not in first], [d for d in range(b.ndim) if d not in second]
    shape = [a.shape[d] for d in left] + [b.shape[d] for d in right]
    terms = math.prod(a.shape[d] for d in first)
    rows, columns = math.prod(a.shape[d] for d in left), math.prod(b.shape[d] for d in right)
    a, b = a.permute(left + first).reshape(rows, terms), b.permute(second + right).reshape(terms, columns)
    # Autocast casts products of matrices only, so others must be no mm.
    if terms == 1:
        product = a * b
    elif rows == columns == 1 and a.is_floating_point():
        product = _C.dot(a.reshape(terms), b.reshape(terms))
    else:
        product = _C.mm(a, b)
    product = product.reshape(shape)
    return product if out is None else _C.add(product, 0, out=out)


def chain_matmul(*matrices: Tensor, out: Tensor | None = None) -> Tensor:
    """Multiply matrices in the cheapest order, as :func:`linalg.multi_dot` does."""
    if len(matrices) == 1:
        return matrices[0]
    return linalg.multi_dot(matrices, out=out)


def block_diag(*tensors: Tensor) -> Tensor:
    """Return the matrix with the given matrices (vectors are rows) along its diagonal, zero elsewhere."""
    return _C._block_diag(tensors)


@autocast_inputs(cpu="full")
def lu(A: Tensor, pivot: bool = True, get_infos: bool = False, out: Any = None) -> Any:
    """Return ``linalg.lu_factor(A)`` and, with ``get_infos``, the number of the first pivot that is zero.

    Args:
        A: [..., m, n], floating point.
        pivot: Whether rows are exchanged.
        get_infos: Whether to return also whether each factorization succeeded.
        out: Gets the results.
    """
    result = linalg.lu_factor_ex(A, pivot=pivot, check_errors=not get_infos)
    result = tuple(result) if get_infos else tuple(result)[:2]
    if out is None:
        return result
    for to, t in zip(out, result, strict=True):
        to.resize_(t.shape).copy_(t)
    return out


def vander(x: Tensor, N: int | None = None, increasing: bool = False) -> Tensor:
    """Return the powers of each element of a vector [n] as the rows of a matrix [n, N], the highest first.

    Args:
        x: The vector.
        N: How many powers, from 0 on: n of them if not given.
        increasing: Whether the highest comes last.

    Raises:
        RuntimeError: For other than one dim, or a negative ``N``.
    """
    if x.dim() != 1:
        raise RuntimeError("x must be a one-dimensional tensor.")
    if N is not None and N < 0:
        raise RuntimeError("N must be non-negative.")
    count = x.numel() if N is None else N
    powers = linalg.vander(x, N=max(2, count))[:, :count]
    return powers if increasing else powers.flip(-1)


# Low rank by random projections: N. Halko, P. G. Martinsson and J. A. Tropp, 2009, algorithms 4.4 and 5.1 -----


def get_approximate_basis(A: Tensor, q: int, niter: int | None = 2, M: Tensor | None = None) -> Tensor:
    """Return Q, of shape (*, m, q) with orthonormal columns, such that ``Q @ Q.mT @ (A - M)`` is close to ``A - M``.
    The result is random.
    """
    if M is not None:
        A = A - M
    Q = linalg.qr(A @ _C.randn(*A.shape[:-2], A.shape[-1], q, dtype=A.dtype, device=A.device)).Q
    for _ in range(2 if niter is None else niter):
        Q = linalg.qr(A.mT @ Q).Q
        Q = linalg.qr(A @ Q).Q
    return Q


def svd_lowrank(
    A: Tensor, q: int | None = 6, niter: int | None = 2, M: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Return U, S and V of an approximate singular value decomposition ``A - M = U @ diag(S) @ V.mT`` of rank ``q``.

    Args:
        A: Shape (*, m, n).
        q: The rank of the approximation; choose it somewhat above the rank that is needed.
        niter: Rounds of power iteration; more rounds give a better approximation.
        M: Subtracted from ``A``; it broadcasts.
    """
    q = 6 if q is None else q
    m, n = A.shape[-2:]
    if not 0 <= q <= min(m, n):
        raise ValueError(f"q(={q}) must be non-negative integer and not greater than min(m, n)={min(m, n)}")
    if niter is not None and niter < 0:
        raise ValueError(f"niter(={niter}) must be non-negative integer")
    if M is not None:
        A = A - M.broadcast_to(A.shape)
    wide = m < n  # the projection is of the longer side
    B = A.mT if wide else A
    Q = get_approximate_basis(B, q, niter)
    U, S, Vh = linalg.svd(Q.mT @ B, full_matrices=False)
    U, V = Q @ U, Vh.mT
    return (V, S, U) if wide else (U, S, V)


def pca_lowrank(A: Tensor, q: int | None = None, center: bool = True, niter: int = 2) -> tuple[Tensor, Tensor, Tensor]:
    """Return :func:`svd_lowrank` of ``A`` less the mean of its rows: the columns of V are the principal directions.

    Args:
        A: Shape (*, m, n), m samples of n numbers.
        q: The rank, at most 6 and at most m and n by default.
        center: Whether to subtract the mean.
        niter: Rounds of power iteration.
    """
    rank = min(6, *A.shape[-2:]) if q is None else q
    return svd_lowrank(A, rank, niter, A.mean(-2, keepdim=True) if center else None)
