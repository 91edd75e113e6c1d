"""Functions of the array API that change shapes, pick elements, search, sort and find distinct values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from torchlette.array_api._dtypes import UNSIGNED, Array, Axes, Tensor, promote, torch
from torchlette.array_api._elementwise import signed_order, unsigned_value

__all__ = [
    "argsort", "broadcast_arrays", "broadcast_shapes", "broadcast_to", "concat", "expand_dims", "flip", "isin",
    "moveaxis", "nonzero", "permute_dims", "repeat", "reshape", "roll", "searchsorted", "sort", "squeeze", "stack",
    "take", "take_along_axis", "tile", "unique_all", "unique_counts", "unique_inverse", "unique_values", "unstack",
    "where",
]  # fmt: skip


def broadcast_shapes(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape that all ``shapes`` expand to.

    Raises:
        ValueError: There is none.
    """
    try:
        return tuple(torch.broadcast_shapes(*shapes)) if shapes else ()
    except RuntimeError as error:
        raise ValueError(str(error)) from None


def broadcast_arrays(*arrays: Array) -> tuple[Array, ...]:
    """Return tensors expanded to their common shape."""
    shape = broadcast_shapes(*(tuple(a.shape) for a in arrays))
    return tuple(torch.broadcast_to(a, shape) for a in arrays)


def broadcast_to(x: Array, /, shape: tuple[int, ...]) -> Array:
    """Return ``x`` expanded to a shape."""
    return torch.broadcast_to(x, shape)


def concat(arrays: Sequence[Array], /, *, axis: int | None = 0) -> Array:
    """Return tensors one after the other along an axis; where it is None, of all their elements."""
    arrays = promote(*arrays)
    return torch.cat([a.flatten() for a in arrays] if axis is None else arrays, 0 if axis is None else axis)


def stack(arrays: Sequence[Array], /, *, axis: int = 0) -> Array:
    """Return tensors of one shape along a new axis."""
    return torch.stack(promote(*arrays), axis)


def unstack(x: Array, /, *, axis: int = 0) -> tuple[Array, ...]:
    """Return the slices of ``x`` along an axis."""
    return tuple(torch.unbind(x, axis))


def expand_dims(x: Array, /, axis: int | tuple[int, ...]) -> Array:
    """Return ``x`` with an axis of length 1 at each position, counted in the result.

    Raises:
        IndexError: A single position is out of range.
        ValueError: One of several is out of range, or comes twice.
    """
    if isinstance(axis, int):
        return torch.unsqueeze(x, axis)
    ndim = x.ndim + len(axis)
    places = {a + ndim if a < 0 else a for a in axis}
    if len(places) != len(axis) or any(not 0 <= a < ndim for a in places):
        raise ValueError(f"expand_dims: expected distinct axes from {-ndim} to {ndim - 1}, got {axis}")
    for place in sorted(places):
        x = torch.unsqueeze(x, place)
    return x


def squeeze(x: Array, /, axis: int | tuple[int, ...]) -> Array:
    """Return ``x`` without axes of length 1.

    Raises:
        IndexError: An axis is out of range.
        ValueError: An axis has another length.
    """
    axes = (axis,) if isinstance(axis, int) else axis
    for a in axes:
        if x.shape[a] != 1:
            raise ValueError(f"squeeze: expected an axis of length 1, got axis {a} of shape {tuple(x.shape)}")
    return torch.squeeze(x, axes)


def permute_dims(x: Array, /, axes: tuple[int, ...]) -> Array:
    """Return ``x`` with its axes in another order."""
    return torch.permute(x, axes)


def moveaxis(x: Array, source: int | tuple[int, ...], destination: int | tuple[int, ...], /) -> Array:
    """Return ``x`` with some axes at other positions.

    Args:
        x: The array.
        source: The axes.
        destination: Their positions in the result.
    """
    return torch.moveaxis(x, source, destination)


def flip(x: Array, /, *, axis: Axes = None) -> Array:
    """Return ``x`` with elements in reverse order along axes, all where it is None."""
    axes = tuple(range(x.ndim)) if axis is None else (axis,) if isinstance(axis, int) else axis
    return torch.flip(x, axes)


def roll(x: Array, /, shift: int | tuple[int, ...], *, axis: Axes = None) -> Array:
    """Return ``x`` with elements moved along axes, those beyond the end to the front.

    Args:
        x: The array.
        shift: By how many places, for all axes or for each.
        axis: The axes; None: of the elements as a vector.
    """
    return torch.roll(x, shift) if axis is None else torch.roll(x, shift, axis)


def repeat(x: Array, repeats: Any, /, *, axis: int | None = None) -> Array:
    """Return each element of ``x``, or each slice along an axis, ``repeats`` times.

    Args:
        x: The array.
        repeats: How often, for all or for each.
        axis: The axis; None: of the elements as a vector.
    """
    if isinstance(repeats, Tensor):
        repeats = repeats.to(torch.int64)
    return torch.repeat_interleave(x, repeats, axis)


def tile(x: Array, repetitions: tuple[int, ...], /) -> Array:
    """Return ``x`` side by side, as often along each axis as ``repetitions`` says."""
    return torch.tile(x, repetitions)


def reshape(x: Array, /, shape: tuple[int, ...], *, copy: bool | None = None) -> Array:
    """Return the elements of ``x`` in another shape.

    Args:
        x: The array.
        shape: The lengths of the axes; one may be -1 and is then inferred.
        copy: True: always copies; False: never; None: where it must.

    Raises:
        ValueError: ``copy`` is False and the layout of ``x`` asks for one.
    """
    if copy:
        return torch.reshape(x.clone(), shape)
    if copy is None:
        return torch.reshape(x, shape)
    try:
        return x.view(shape)
    except RuntimeError as error:
        raise ValueError(str(error)) from None


def _counted_from_front(indices: Array, length: int) -> Array:
    indices = indices.to(torch.int64)
    return torch.where(indices < 0, indices + length, indices)


def take(x: Array, indices: Array, /, *, axis: int | None = None) -> Array:
    """Return the slices of ``x`` at the positions ``indices`` of an axis.

    Args:
        x: The array.
        indices: The positions.
        axis: The axis; None: of a vector.

    Raises:
        ValueError: ``x`` has several axes and none is given.
    """
    if axis is None and x.ndim != 1:
        raise ValueError(f"take: expected an axis for an array of {x.ndim} dims, got None")
    axis = 0 if axis is None else axis
    return torch.index_select(x, axis, _counted_from_front(indices, x.shape[axis]))


def take_along_axis(x: Array, indices: Array, /, *, axis: int = -1) -> Array:
    """Return the elements of ``x`` at the positions ``indices`` of an axis, a position for each element.

    Args:
        x: The array.
        indices: The positions.
        axis: The axis; one counted from the back is negative.
    """
    return torch.take_along_dim(x, _counted_from_front(indices, x.shape[axis]), dim=axis)


def nonzero(x: Array, /) -> tuple[Array, ...]:
    """Return the positions of elements other than zero, a tensor for each axis.

    Raises:
        ValueError: ``x`` has no axis.
    """
    if x.ndim == 0:
        raise ValueError("nonzero: expected at least one axis, got an array of no dims")
    return tuple(torch.nonzero(x, as_tuple=True))


def where(condition: Array, x1: Any, x2: Any, /) -> Array:
    """Return ``x1`` where the condition holds, ``x2`` elsewhere, in their common dtype.

    Args:
        condition: The condition.
        x1, x2: The arrays or numbers.
    """
    numbers = not isinstance(x1, Tensor) and not isinstance(x2, Tensor)
    return torch.where(condition, *((x1, x2) if numbers else promote(x1, x2)))


def isin(x1: Any, x2: Any, /, *, invert: bool = False) -> Array:
    """Return whether each element of ``x1`` is among those of ``x2``.

    Args:
        x1: The elements that are looked for.
        x2: Where they are looked for.
        invert: Whether the answers are negated.
    """
    x1, x2 = promote(x1, x2)
    found = torch.eq(torch.unsqueeze(x1, -1), x2.flatten()).any(-1)
    return ~found if invert else found


def _sortable(x: Array) -> Array:
    return signed_order(x) if x.dtype in UNSIGNED else x


def searchsorted(x1: Array, x2: Any, /, *, side: str = "left", sorter: Array | None = None) -> Array:
    """Return where ``x2`` belongs in the sorted vector ``x1``: before equal values ("left") or after them ("right").

    Args:
        x1: The sorted vector.
        x2: The values.
        side: "left" or "right".
        sorter: The positions that sort ``x1``; None: it is sorted.
    """
    x1, x2 = (_sortable(x) for x in promote(x1, x2))
    return torch.searchsorted(x1, x2, side=side, sorter=None if sorter is None else sorter.to(torch.int64))


def sort(x: Array, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Array:
    """Return the elements in order along an axis.

    Args:
        x: The array.
        axis: The axis; one counted from the back is negative.
        descending: Whether the greatest comes first.
        stable: Whether equal elements keep their order.
    """
    values = torch.sort(_sortable(x), dim=axis, descending=descending, stable=stable).values
    return unsigned_value(values, x.dtype) if x.dtype in UNSIGNED else values


def argsort(x: Array, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Array:
    """Return the positions of the elements in order along an axis.

    Args:
        x: The array.
        axis: The axis; one counted from the back is negative.
        descending: Whether the greatest comes first.
        stable: Whether equal elements keep their order.
    """
    return torch.argsort(_sortable(x), dim=axis, descending=descending, stable=stable)


class UniqueAll(NamedTuple):
    """Distinct values, where each comes first, which of them each element is, how often each comes."""

    values: Array
    indices: Array
    inverse_indices: Array
    counts: Array


class UniqueCounts(NamedTuple):
    """Distinct values, how often each comes."""

    values: Array
    counts: Array


class UniqueInverse(NamedTuple):
    """Distinct values, which of them each element is."""

    values: Array
    inverse_indices: Array


def unique_all(x: Array, /) -> UniqueAll:
    """Return the distinct values of ``x`` with positions and counts; each NaN is a separate value."""
    if x.dtype.is_complex:
        rows = torch.view_as_real(x.flatten())
        values, inverse, counts = torch.unique(rows, return_inverse=True, return_counts=True, dim=0)
        values = torch.view_as_complex(values)
    else:
        values, inverse, counts = torch.unique(_sortable(x), return_inverse=True, return_counts=True)
    positions = torch.arange(x.numel(), device=x.device)
    first = torch.full(values.shape, x.numel(), dtype=torch.int64, device=x.device)
    first = first.scatter_reduce(0, inverse.flatten(), positions, "amin")
    if x.dtype in UNSIGNED:
        values = unsigned_value(values, x.dtype)
    return UniqueAll(values, first, inverse.reshape(x.shape), counts)


def unique_counts(x: Array, /) -> UniqueCounts:
    """Return the distinct values of ``x`` with counts; each NaN is a separate value."""
    found = unique_all(x)
    return UniqueCounts(found.values, found.counts)


def unique_inverse(x: Array, /) -> UniqueInverse:
    """Return the distinct values of ``x``, and which of them each element is."""
    found = unique_all(x)
    return UniqueInverse(found.values, found.inverse_indices)


def unique_values(x: Array, /) -> Array:
    """Return the distinct values of ``x``; each NaN is a separate value."""
    return unique_all(x).values
