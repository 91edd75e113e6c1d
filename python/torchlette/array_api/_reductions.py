"""Reductions and scans of the array API, and products of matrices."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from torchlette.array_api._dtypes import SIGNED, UNSIGNED, Array, Axes, DType, promote, torch
from torchlette.array_api._elementwise import signed_order, unsigned_value

__all__ = [
    "all", "any", "argmax", "argmin", "count_nonzero", "cumulative_prod", "cumulative_sum", "diff", "matmul",
    "matrix_transpose", "max", "mean", "min", "prod", "std", "sum", "tensordot", "var", "vecdot",
]  # fmt: skip


def axes_of(x: Array, axis: Axes) -> tuple[int, ...]:
    """Return the axes that a reduction takes, counted from the front: all where ``axis`` is None.

    Raises:
        IndexError: An axis is out of range, or comes twice.
    """
    chosen = range(x.ndim) if axis is None else (axis,) if isinstance(axis, int) else axis
    found = tuple(a + x.ndim if a < 0 else a for a in chosen)
    if len(set(found)) < len(found) or not set(found) <= set(range(x.ndim)):
        raise IndexError(f"expected distinct axes from {-x.ndim} to {x.ndim - 1}, got {axis}")
    return found


def kept(result: Array, x: Array, axes: tuple[int, ...], keepdims: bool) -> Array:
    """Return a reduction's result, with the axes that it took as axes of length 1 where ``keepdims`` says so."""
    if not keepdims:
        return result
    return torch.reshape(result, tuple(1 if a in axes else n for a, n in enumerate(x.shape)))


def _gathered(x: Array, axes: tuple[int, ...]) -> Array:
    """Return ``x`` with the axes of a reduction as one, the last."""
    rest = [a for a in range(x.ndim) if a not in axes]
    shape = [x.shape[a] for a in rest]
    return torch.reshape(torch.permute(x, (*rest, *axes)), (*shape, math.prod(x.shape[a] for a in axes)))


def _accumulated(x: Array, dtype: DType | None) -> DType:
    """Return the dtype of a sum or a product: a small integer's is the default integer of its sign."""
    if dtype is not None:
        return dtype
    return (
        torch.int64 if x.dtype in SIGNED or x.dtype is torch.bool else torch.uint64 if x.dtype in UNSIGNED else x.dtype
    )


def _over(x: Array, dtype: DType | None, f: Callable[[Array], Array]) -> Array:
    """Return ``f(x)`` in the dtype of a sum or a product. int64 holds unsigned integers: both count modulo 2**64."""
    wanted = _accumulated(x, dtype)
    return f(x.to(torch.int64 if wanted in UNSIGNED else wanted)).to(wanted)


def sum(x: Array, /, *, axis: Axes = None, dtype: DType | None = None, keepdims: bool = False) -> Array:
    """Return the sum over axes, all where ``axis`` is None.

    Args:
        x: The array.
        axis: One axis, several, or all where None; negative ones count from the back.
        dtype: The dtype of the result; None: the default.
        keepdims: Whether the axes stay, with length 1.
    """
    axes = axes_of(x, axis)
    return kept(_over(x, dtype, lambda v: torch.sum(_gathered(v, axes), -1)), x, axes, keepdims)


def prod(x: Array, /, *, axis: Axes = None, dtype: DType | None = None, keepdims: bool = False) -> Array:
    """Return the product over axes, all where ``axis`` is None.

    Args:
        x: The array.
        axis: One axis, several, or all where None; negative ones count from the back.
        dtype: The dtype of the result; None: the default.
        keepdims: Whether the axes stay, with length 1.
    """
    axes = axes_of(x, axis)
    return kept(_over(x, dtype, lambda v: torch.prod(_gathered(v, axes), -1)), x, axes, keepdims)


def _scan(
    x: Array, axis: int | None, dtype: DType | None, initial: float | None, f: Callable[[Array, int], Array]
) -> Array:
    if axis is None and x.ndim != 1:
        raise ValueError(f"expected an axis for an array of {x.ndim} dims, got None")
    axis = 0 if axis is None else axis

    def scanned(v: Array) -> Array:
        found = f(v, axis)
        if initial is None:
            return found
        first = [1 if a == axis % v.ndim else n for a, n in enumerate(v.shape)]
        return torch.cat([torch.full(first, initial, dtype=found.dtype, device=found.device), found], axis)

    return _over(x, dtype, scanned)


def cumulative_sum(
    x: Array, /, *, axis: int | None = None, dtype: DType | None = None, include_initial: bool = False
) -> Array:
    """Return the sums of the elements up to each along an axis, after a 0 where ``include_initial`` says so.

    Args:
        x: The array.
        axis: The axis; None: of a vector.
        dtype: The dtype of the result; None: the default.
        include_initial: Whether a 0 comes first.

    Raises:
        ValueError: ``x`` has several axes and none is given.
    """
    return _scan(x, axis, dtype, 0 if include_initial else None, torch.cumsum)


def cumulative_prod(
    x: Array, /, *, axis: int | None = None, dtype: DType | None = None, include_initial: bool = False
) -> Array:
    """Return the products of the elements up to each along an axis, after a 1 where ``include_initial`` says so.

    Args:
        x: The array.
        axis: The axis; None: of a vector.
        dtype: The dtype of the result; None: the default.
        include_initial: Whether a 1 comes first.

    Raises:
        ValueError: ``x`` has several axes and none is given.
    """
    return _scan(x, axis, dtype, 1 if include_initial else None, torch.cumprod)


def _extreme(x: Array, axis: Axes, keepdims: bool, f: Callable[[Array, int], Array]) -> Array:
    axes = axes_of(x, axis)
    values = _gathered(signed_order(x) if x.dtype in UNSIGNED else x, axes)
    found = kept(f(values, -1), x, axes, keepdims)
    return unsigned_value(found, x.dtype) if x.dtype in UNSIGNED else found


def max(x: Array, /, *, axis: Axes = None, keepdims: bool = False) -> Array:
    """Return the greatest value over axes, all where ``axis`` is None.

    Args:
        x: The array.
        axis: One axis, several, or all where None; negative ones count from the back.
        keepdims: Whether the axes stay, with length 1.
    """
    return _extreme(x, axis, keepdims, torch.amax)


def min(x: Array, /, *, axis: Axes = None, keepdims: bool = False) -> Array:
    """Return the least value over axes, all where ``axis`` is None.

    Args:
        x: The array.
        axis: One axis, several, or all where None; negative ones count from the back.
        keepdims: Whether the axes stay, with length 1.
    """
    return _extreme(x, axis, keepdims, torch.amin)


def _position(x: Array, axis: int | None, keepdims: bool, f: Callable[..., Array]) -> Array:
    axes = axes_of(x, axis)
    return kept(f(_gathered(signed_order(x) if x.dtype in UNSIGNED else x, axes), -1), x, axes, keepdims)


def argmax(x: Array, /, *, axis: int | None = None, keepdims: bool = False) -> Array:
    """Return the position of the greatest value along an axis, or among all elements.

    Args:
        x: The array.
        axis: The axis; None: all elements.
        keepdims: Whether the axes stay, with length 1.
    """
    return _position(x, axis, keepdims, torch.argmax)


def argmin(x: Array, /, *, axis: int | None = None, keepdims: bool = False) -> Array:
    """Return the position of the least value along an axis, or among all elements.

    Args:
        x: The array.
        axis: The axis; None: all elements.
        keepdims: Whether the axes stay, with length 1.
    """
    return _position(x, axis, keepdims, torch.argmin)


def all(x: Array, /, *, axis: Axes = None, keepdims: bool = False) -> Array:
    """Return whether all elements over axes differ from 0.

    Args:
        x: The array.
        axis: One axis, several, or all where None; negative ones count from the back.
        keepdims: Whether the axes stay, with length 1.
    """
    axes = axes_of(x, axis)
    return kept(torch.all(_gathered(x.to(torch.bool), axes), -1), x, axes, keepdims)


def any(x: Array, /, *, axis: Axes = None, keepdims: bool = False) -> Array:
    """Return whether an element over axes differs from 0.

    Args:
        x: The array.
        axis: One axis, several, or all where None; negative ones count from the back.
        keepdims: Whether the axes stay, with length 1.
    """
    axes = axes_of(x, axis)
    return kept(torch.any(_gathered(x.to(torch.bool), axes), -1), x, axes, keepdims)


def count_nonzero(x: Array, /, *, axis: Axes = None, keepdims: bool = False) -> Array:
    """Return how many elements over axes differ from 0.

    Args:
        x: The array.
        axis: One axis, several, or all where None; negative ones count from the back.
        keepdims: Whether the axes stay, with length 1.
    """
    return sum(x != 0, axis=axis, dtype=torch.int64, keepdims=keepdims)


def mean(x: Array, /, *, axis: Axes = None, keepdims: bool = False) -> Array:
    """Return the mean over axes, all where ``axis`` is None.

    Args:
        x: The array.
        axis: One axis, several, or all where None; negative ones count from the back.
        keepdims: Whether the axes stay, with length 1.
    """
    axes = axes_of(x, axis)
    return kept(torch.mean(_gathered(x, axes), -1), x, axes, keepdims)


def var(x: Array, /, *, axis: Axes = None, correction: float = 0.0, keepdims: bool = False) -> Array:
    """Return the variance over axes: squared deviations from the mean, divided by their number less ``correction``.

    Args:
        x: The array.
        axis: One axis, several, or all where None; negative ones count from the back.
        correction: The number that is subtracted from the number of elements.
        keepdims: Whether the axes stay, with length 1.
    """
    axes = axes_of(x, axis)
    return kept(torch.var(_gathered(x, axes), -1, correction=correction), x, axes, keepdims)


def std(x: Array, /, *, axis: Axes = None, correction: float = 0.0, keepdims: bool = False) -> Array:
    """Return the standard deviation over axes: the square root of :func:`var`.

    Args:
        x: The array.
        axis: One axis, several, or all where None; negative ones count from the back.
        correction: The number that is subtracted from the number of elements.
        keepdims: Whether the axes stay, with length 1.
    """
    return torch.sqrt(var(x, axis=axis, correction=correction, keepdims=keepdims))


def diff(
    x: Array, /, *, axis: int = -1, n: int = 1, prepend: Array | None = None, append: Array | None = None
) -> Array:
    """Return the n-th differences of neighbours along an axis of ``prepend``, ``x`` and ``append`` together.

    Args:
        x: The array.
        axis: The axis; one counted from the back is negative.
        n: How often differences are taken.
        prepend: What comes before ``x``; None: nothing.
        append: What comes behind it; None: nothing.
    """
    parts = [part for part in (prepend, x, append) if part is not None]
    joined = torch.cat(promote(*parts), axis)
    if joined.dtype in UNSIGNED:
        return torch.diff(joined.to(torch.int64), n, axis).to(joined.dtype)
    return torch.diff(joined, n, axis)


def _product(f: Callable[[Array, Array], Array], x1: Array, x2: Array) -> Array:
    """Return a product of tensors of their common dtype. int64 holds unsigned integers: both count modulo 2**64."""
    x1, x2 = promote(x1, x2)
    if x1.dtype in UNSIGNED:
        return f(x1.to(torch.int64), x2.to(torch.int64)).to(x1.dtype)
    return f(x1, x2)


def matmul(x1: Array, x2: Array, /) -> Array:
    """Return the product of matrices, or of a matrix and a vector."""
    return _product(torch.matmul, x1, x2)


def matrix_transpose(x: Array, /) -> Array:
    """Return matrices with rows and columns exchanged.

    Raises:
        ValueError: ``x`` has fewer than two axes.
    """
    if x.ndim < 2:
        raise ValueError(f"matrix_transpose: expected at least 2 dims, got {x.ndim}")
    return torch.transpose(x, -1, -2)


def tensordot(x1: Array, x2: Array, /, *, axes: int | tuple[Sequence[int], Sequence[int]] = 2) -> Array:
    """Return the sums of products over axes: the last ``axes`` of ``x1`` and first of ``x2``, or two lists of them.

    Args:
        x1, x2: The arrays.
        axes: How many, or the axes of both arrays.
    """
    return _product(lambda a, b: torch.tensordot(a, b, dims=axes), x1, x2)


def vecdot(x1: Array, x2: Array, /, *, axis: int = -1) -> Array:
    """Return the products of vectors along an axis; the first is conjugated.

    Args:
        x1, x2: The arrays.
        axis: The axis; one counted from the back is negative.
    """
    if x1.shape[axis] != x2.shape[axis]:
        raise ValueError(f"vecdot: expected vectors of one length, got {x1.shape[axis]} and {x2.shape[axis]}")

    def product(a: Array, b: Array) -> Array:
        rows, columns = torch.moveaxis(a, axis, -1), torch.moveaxis(b, axis, -1)
        return torch.matmul(torch.conj(rows)[..., None, :], columns[..., None])[..., 0, 0]

    return _product(product, x1, x2)
