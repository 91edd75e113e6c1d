"""Functions whose result shapes depend on values: each reads a mask or a number from the device."""

from __future__ import annotations

import math

from torchlette import _C
from torchlette._runtime.dtypes import can_cast

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

Tensor = _C.Tensor


def into(result: Tensor, out: Tensor | None) -> Tensor:
    """Return the result, or ``out`` resized and filled with it. RuntimeError: the result cannot be cast to ``out``'s
    dtype.
    """
    if out is None:
        return result
    if not can_cast(result.dtype, out.dtype):
        raise RuntimeError(f"result type {result.dtype} can't be cast to the desired output type {out.dtype}")
    if _C.is_grad_enabled() and (result.requires_grad or out.requires_grad):
        raise RuntimeError(
            "functions with out=... arguments don't support automatic differentiation, but one of the arguments "
            "requires grad."
        )
    return out.resize_(result.shape).copy_(result)


def _into(result: Tensor, out: Tensor | None, name: str) -> Tensor:
    """Return the result, or ``out`` resized and filled with it; ``out`` must have the same dtype."""
    if out is not None and out.dtype is not result.dtype:
        raise RuntimeError(f"{name}: expected out to have dtype {result.dtype}, but got {out.dtype}")
    return into(result, out)


def nonzero(input: Tensor, *, out: Tensor | None = None, as_tuple: bool = False) -> Any:
    """Return the indices of the elements that are not zero; reads the tensor.

    Args:
        input: Values, of any shape.
        out: Gets the result.
        as_tuple: Whether to return a vector of indices for each dimension.
    """
    mask = input if input.dtype is _C.bool else input != 0
    if as_tuple:
        return _C._nonzero(mask.unsqueeze(0) if mask.dim() == 0 else mask)
    if mask.dim() == 0:
        return _into(_C.empty(int(mask.item()), 0, dtype=_C.int64, device=input.device), out, "nonzero")
    return _into(_C.stack(list(_C._nonzero(mask)), 1), out, "nonzero")


def nonzero_static(input: Tensor, *, size: int, fill_value: int = -1) -> Tensor:
    """Return the first ``size`` rows of :func:`nonzero`, padded with rows of ``fill_value``. Reads nothing.

    Raises RuntimeError for a negative ``size``.

    Args:
        input: Values, of any shape.
        size: The number of rows.
        fill_value: The value of the padding rows.
    """
    if size < 0:
        raise RuntimeError("nonzero_static: 'size' must be an non-negative integer")
    mask = (input if input.dtype is _C.bool else input != 0).reshape(-1)
    place = _C.where(mask, mask.cumsum(0) - 1, size).clamp(max=size)  # elements beyond the last row go to one extra row
    at = _C.arange(mask.shape[0], device=input.device)
    columns = []
    for d, n in enumerate(input.shape):
        inner = math.prod(input.shape[d + 1 :])
        column = _C.full((size + 1,), fill_value, dtype=_C.int64, device=input.device)
        columns.append(column.scatter(0, place, at // max(inner, 1) % max(n, 1))[:size])
    return _C.stack(columns, 1) if columns else _C.empty(size, 0, dtype=_C.int64, device=input.device)


def where(condition: Tensor, *operands: Any, **named: Any) -> Any:
    """Return ``input`` where ``condition`` holds and ``other`` elsewhere; of a condition alone, :func:`nonzero` as a
    tuple.

    Args:
        condition: A bool tensor.
        operands: ``input`` and ``other``, tensors or numbers that broadcast with the condition.
        named: The same by name, and ``out``.
    """
    return _C.where(condition, *operands, **named) if operands or named else nonzero(condition, as_tuple=True)


def argwhere(input: Tensor) -> Tensor:
    """Return the indices of the elements that are not zero; reads the tensor."""
    return nonzero(input)


def masked_select(input: Tensor, mask: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the elements under a mask, as a vector; reads the mask.

    Args:
        input: Values, of any shape.
        mask: Bool, of a shape that broadcasts with that of ``input``.
        out: Gets the result.
    """
    if mask.dtype is not _C.bool:
        raise RuntimeError(f"masked_select: expected BoolTensor for mask, got {mask.dtype}")
    shape = (
        (input.detach() + _C.zeros_like(mask, dtype=input.dtype)).shape if input.shape != mask.shape else input.shape
    )
    chosen = input.expand(shape)[mask.expand(shape)]
    return _into(chosen.reshape(-1), out, "masked_select")


def put_under(input: Tensor, mask: Tensor, values: Tensor, dim: int, accumulate: bool) -> Tensor:
    """Write values where a mask holds, in place, and read nothing: row number n goes to the n-th true element.

    The number of rows is compared with that of true elements where the values are computed: a read of the result raises
    RuntimeError if they differ. One row is for all elements.

    Args:
        input: Gets the values.
        mask: Bool: of the sizes of some dims of ``input``.
        values: Broadcast to ``input`` with one dim, for the true elements, in place of the mask's dims.
        dim: The first dim of the mask.
        accumulate: Whether to add to what is there.

    Raises:
        RuntimeError: The values have more rows than the mask has elements.
    """
    mask, values = mask.to(input.device), values.to(input.device)
    behind = input.dim() - dim - mask.dim()
    shown = mask.reshape(*mask.shape, *(1,) * behind)
    if values.dim() > behind:
        place = values.dim() - 1 - behind
        n, flat = values.shape[place], mask.reshape(-1)
        if n > max(flat.shape[0], 1):
            raise RuntimeError(
                f"shape mismatch: value tensor of shape {list(values.shape)} cannot be broadcast to indexing result: "
                f"the mask has {flat.shape[0]} elements"
            )
        if n == 0:  # nothing may be true
            values = values.new_zeros([*values.shape[:place], 1, *values.shape[place + 1 :]])
        if n == 1:
            rows = _C.zeros_like(flat, dtype=_C.int64)
        else:
            rows = _C._rows_under_mask(_C.where(flat, flat.cumsum(0) - 1, 0), flat.sum(), n)
        wide = (*values.shape[:place], *mask.shape, *values.shape[place + 1 :])
        values = values.index_select(place, rows).reshape(wide)
    if accumulate:
        return input.add_(values.masked_fill(~shown, 0))
    return input.copy_(_C.where(shown, values.to(input.dtype), input))


def _changes(x: Tensor) -> Tensor:
    """Mark the rows of x, along dim 0, that differ from the row before; the first row is marked."""
    differs = x[1:] != x[:-1]
    if x.dim() > 1:
        differs = differs.any(1)
    return _C.cat([_C.ones(min(len(x), 1), dtype=_C.bool, device=x.device), differs])


def _dense_ranks(x: Tensor) -> Tensor:
    """Number the distinct values of each column of x in their order."""
    values, order = _C.sort(x, 0)
    first = _C.zeros_like(values[:1], dtype=_C.bool)
    ranks = _C.cat([first, values[1:] != values[:-1]]).cumsum(0)
    return _C.empty_like(order).scatter(0, order, ranks)


def _row_ranks(rows: Tensor) -> Tensor:
    """Number the distinct rows of a matrix in lexicographic order: columns are joined two by two."""
    ranks = _dense_ranks(rows)
    while ranks.shape[1] > 1:
        pairs = ranks.shape[1] // 2
        joined = ranks[:, 0 : 2 * pairs : 2] * len(rows) + ranks[:, 1 : 2 * pairs : 2]
        ranks = _dense_ranks(_C.cat([joined, ranks[:, 2 * pairs :]], 1))
    return ranks[:, 0]


def _rows(input: Tensor, dim: int) -> Tensor:
    """Give the slices of input along dim as rows of a matrix."""
    moved = input.movedim(dim, 0)
    if moved.numel() == 0 and len(moved) > 0:
        raise RuntimeError("There are 0 sized dimensions, and they aren't selected, so unique cannot be applied")
    return moved.reshape(len(moved), moved.numel() // max(len(moved), 1))


def _answer(output: Tensor, inverse: Tensor | None, starts: Tensor, total: int, return_counts: bool) -> Any:
    """Build the results of unique; runs of equal elements begin at ``starts``."""
    results = [output]
    if inverse is not None:
        results.append(inverse)
    if return_counts:
        end = _C.full((1,), total, dtype=_C.int64, device=starts.device)
        counts = _C.diff(starts, append=end)
        counts._door = output._door
        results.append(counts)
    return tuple(results) if len(results) > 1 else output


def unique(
    input: Tensor,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any:
    """Return the sorted distinct elements, or slices along ``dim``; on request also each element's index among them and
    their counts. Reads the number of distinct elements.

    Args:
        input: Values, of any shape.
        sorted: Accepted for compatibility: elements are always in order.
        return_inverse: Whether to return also each element's index in the result, int64.
        return_counts: Whether to return also the number of occurrences of each, int64.
        dim: The dimension whose slices are compared; None: elements.

    >>> x = torchlette.tensor([3, 1, 3, 2])
    >>> [t.tolist() for t in torchlette.unique(x, return_counts=True)]
    [[1, 2, 3], [1, 1, 2]]
    """
    x = input.detach()
    keys = x.reshape(-1) if dim is None else x
    if dim is not None:
        rows = _rows(x, dim)
        keys = _row_ranks(rows) if rows.numel() else _C.zeros(len(rows), dtype=_C.int64, device=x.device)
    values, order = _C.sort(keys)
    if dim is None and not return_inverse:
        del order  # the sort does not compute it then
    first = _changes(values)
    starts = _C._nonzero(first)[0]
    output = values[starts] if dim is None else x.index_select(dim, order[starts])
    inverse = None
    if return_inverse:
        inverse = _C.empty_like(order).scatter(0, order, first.cumsum(0) - 1)
        inverse = inverse.reshape(x.shape) if dim is None else inverse
    return _answer(output, inverse, starts, len(keys), return_counts)


def unique_consecutive(
    input: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """Drop each element, or slice along ``dim``, that equals the one before it. Reads the size of the result.

    Args:
        input: Values, of any shape.
        return_inverse: Whether to return also each element's index in the result, int64.
        return_counts: Whether to return also the number of occurrences of each, int64.
        dim: The dimension whose slices are compared; None: elements.
    """
    x = input.detach()
    first = _changes(x.reshape(-1) if dim is None else _rows(x, dim))
    starts = _C._nonzero(first)[0]
    output = x.reshape(-1)[starts] if dim is None else x.index_select(dim, starts)
    inverse = first.cumsum(0) - 1 if return_inverse else None
    if inverse is not None and dim is None:
        inverse = inverse.reshape(x.shape)
    return _answer(output, inverse, starts, len(first), return_counts)


def bincount(input: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    """Count each non-negative integer, or sum its weights; reads the largest.

    Args:
        input: A vector of integers, none negative.
        weights: What each element counts, of the shape of ``input``; None: 1.
        minlength: The least number of counts.

    >>> torchlette.bincount(torchlette.tensor([0, 2, 2, 5])).tolist()
    [1, 0, 2, 0, 0, 1]
    """
    if input.dtype.is_floating_point or input.dtype is _C.bool:
        kind = {_C.float16: "Half", _C.float32: "Float", _C.float64: "Double"}.get(input.dtype, "BFloat16")
        kind = "Bool" if input.dtype is _C.bool else kind
        raise NotImplementedError(f"\"bincount_cpu\" not implemented for '{kind}'")
    if minlength < 0:
        raise RuntimeError("minlength should be >= 0")
    if input.dim() != 1:
        raise RuntimeError("bincount only supports 1-d non-negative integral inputs.")
    if weights is not None and weights.shape != input.shape:
        raise RuntimeError("weights should be 1-d and have the same length as input")
    if len(input) == 0:
        return _C.zeros(minlength, dtype=_C.int64, device=input.device)
    low, high = _C.stack(list(_C.aminmax(input.long()))).tolist()
    if low < 0:
        raise RuntimeError("bincount only supports 1-d non-negative integral inputs.")
    if weights is None:
        weights = _C.ones_like(input, dtype=_C.int64)
    elif weights.dtype is not _C.float32:
        weights = weights.to(_C.float64 if input.device.type == "cpu" else _C.float32)
    return _C.zeros(max(minlength, high + 1), dtype=weights.dtype, device=input.device).index_add(
        0, input.long(), weights
    )
