"""Decompositions of low rank by random projections: N. Halko, P. G. Martinsson and J. A. Tropp, 2009, algorithms 4.4
and 5.1.
"""

from __future__ import annotations

from torchlette import _C, linalg

__all__ = ["get_approximate_basis", "pca_lowrank", "svd_lowrank"]

Tensor = _C.Tensor


def get_approximate_basis(A: Tensor, q: int, niter: int | None = 2, M: Tensor | None = None) -> Tensor:
    """Return Q, of shape (*, m, q) with orthonormal columns, such that ``Q @ Q.mT @ (A - M)`` is close to ``A - M``; it
    is drawn.
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
        q: The rank: somewhat more than what is wanted of it.
        niter: Rounds of power iteration; more are more exact.
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
