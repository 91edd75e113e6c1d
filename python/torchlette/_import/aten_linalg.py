"""Factorizations of matrices as core ATen has them: with results for their gradients, and without checks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torchlette import _C

__all__ = ["LINALG"]

Tensor = _C.Tensor


def _factors(a: Tensor) -> tuple[Tensor, Tensor]:
    """Return the LU factors and the pivots, without a check that the matrix can be inverted."""
    lu, pivots, _ = _C.linalg_lu_factor_ex(a)
    return lu, pivots


def _solve(a: Tensor, b: Tensor, *, left: bool = True, check_errors: bool = False) -> tuple[Tensor, ...]:
    result, info = _C.linalg_solve_ex(a, b, left=left, check_errors=check_errors)
    return (result, *_factors(a), info)


def _eigh(a: Tensor, uplo: str = "L", compute_v: bool = True) -> tuple[Tensor, Tensor]:
    if compute_v:
        return tuple(_C.linalg_eigh(a, uplo))
    return _C.linalg_eigvalsh(a, uplo), a.new_empty(0)


def _svd(
    a: Tensor, full_matrices: bool = False, compute_uv: bool = True, *, driver: str | None = None
) -> tuple[Tensor, ...]:
    if compute_uv:
        return tuple(_C.linalg_svd(a, full_matrices))
    return a.new_empty(0), _C.linalg_svdvals(a), a.new_empty(0)


def _lu_with_info(a: Tensor, pivot: bool = True, check_errors: bool = True) -> tuple[Tensor, ...]:
    return tuple(_C.linalg_lu_factor_ex(a, pivot=pivot, check_errors=check_errors))


#: By ATen's name.
LINALG: dict[str, Callable[..., Any]] = {
    "_linalg_det": lambda a: (_C.linalg_det(a), *_factors(a)),
    "_linalg_slogdet": lambda a: (*_C.linalg_slogdet(a), *_factors(a)),
    "_linalg_solve_ex": _solve,
    "_linalg_eigh": _eigh,
    "_linalg_svd": _svd,
    "_lu_with_info": _lu_with_info,
    "_linalg_check_errors": lambda *args, **kwargs: None,
}
