"""Products and factorisations whose arguments PyTorch reads in Python: lists of dimensions, tensors one after the
other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from torchlette import _C, linalg

__all__ = ["block_diag", "chain_matmul", "lu", "spmm", "tensordot", "vander"]

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
    """Return the product of two matrices, which graph networks call by this name for sparse ones; here both are dense."""
    return _C.mm(mat1, mat2)


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
    for i, j in zip(first, second, strict=True):  # a size of 1 is broadcast, which is a sum of the other operand
        if a.shape[i] == 1 != b.shape[j]:
            b = b.sum(j, keepdim=True, dtype=b.dtype)
        elif b.shape[j] == 1 != a.shape[i]:
            a = a.sum(i, keepdim=True, dtype=a.dtype)
    left, right = [d for d in range(a.ndim) if d not in first], [d for d in range(b.ndim) if d not in second]
    shape = [a.shape[d] for d in left] + [b.shape[d] for d in right]
    terms = math.prod(a.shape[d] for d in first)
    rows, columns = math.prod(a.shape[d] for d in left), math.prod(b.shape[d] for d in right)
    product = _C.mm(
        a.permute(left + first).reshape(rows, terms), b.permute(second + right).reshape(terms, columns)
    ).reshape(shape)
    return product if out is None else _C.add(product, 0, out=out)


def chain_matmul(*matrices: Tensor, out: Tensor | None = None) -> Tensor:
    """Multiply matrices in the order of least work: :func:`linalg.multi_dot` of its arguments."""
    if len(matrices) == 1:
        return matrices[0]
    return linalg.multi_dot(matrices, out=out)


def block_diag(*tensors: Tensor) -> Tensor:
    """Return the matrix with the given matrices (vectors are rows) along its diagonal, zero elsewhere."""
    return _C._block_diag(tensors)


def lu(A: Tensor, pivot: bool = True, get_infos: bool = False, out: Any = None) -> Any:
    """Return ``linalg.lu_factor(A)`` and, with ``get_infos``, the number of the first pivot that is zero."""
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
