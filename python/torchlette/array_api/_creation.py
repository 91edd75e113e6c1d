"""Functions of the array API that make tensors."""

from __future__ import annotations

from typing import Any

from torchlette.array_api._dtypes import Array, Device, DType, Tensor, torch

__all__ = [
    "arange", "asarray", "empty", "empty_like", "eye", "from_dlpack", "full", "full_like", "linspace", "meshgrid",
    "ones", "ones_like", "tril", "triu", "zeros", "zeros_like",
]  # fmt: skip

Shape = int | tuple[int, ...]


def _sizes(shape: Shape) -> tuple[int, ...]:
    return (shape,) if isinstance(shape, int) else tuple(shape)


def asarray(
    obj: Any, /, *, dtype: DType | None = None, device: Device | None = None, copy: bool | None = None
) -> Array:
    """Return a tensor of a number, a nested sequence, a buffer or a tensor; ``copy=False`` shares memory or raises.

    Args:
        obj: The values.
        dtype: The dtype of the result; None: the default.
        device: Where the result is; None: the default device.
        copy: True: always copies; False: never; None: where it must.

    Raises:
        ValueError: ``copy`` is False and the memory cannot be shared.
    """
    if device is None and isinstance(obj, Tensor):
        device = obj.device
    return torch.asarray(obj, dtype=dtype, device=device, copy=copy)


def arange(
    start: float,
    /,
    stop: float | None = None,
    step: float = 1,
    *,
    dtype: DType | None = None,
    device: Device | None = None,
) -> Array:
    """Return values from ``start``, 0 where ``stop`` is None, to ``stop``, left out, at a distance of ``step``.

    Args:
        start: The first value, or ``stop`` where that is None.
        stop: The end, left out.
        step: The distance of neighbours.
        dtype: The dtype of the result; None: the default.
        device: Where the result is; None: the default device.
    """
    if stop is None:
        start, stop = 0, start
    if dtype is None and all(isinstance(v, int) for v in (start, stop, step)):
        dtype = torch.int64
    dtype = torch.get_default_dtype() if dtype is None else dtype
    if (step > 0 and stop <= start) or (step < 0 and stop >= start):
        return torch.empty(0, dtype=dtype, device=device)
    made = torch.int64 if not dtype.is_floating_point and not dtype.is_complex else dtype
    return torch.arange(start, stop, step, dtype=made, device=device).to(dtype)


def empty(shape: Shape, *, dtype: DType | None = None, device: Device | None = None) -> Array:
    """Return a tensor whose values are not set.

    Args:
        shape: The lengths of the axes.
        dtype: The dtype of the result; None: the default.
        device: Where the result is; None: the default device.
    """
    return torch.empty(_sizes(shape), dtype=dtype, device=device)


def ones(shape: Shape, *, dtype: DType | None = None, device: Device | None = None) -> Array:
    """Return a tensor of ones.

    Args:
        shape: The lengths of the axes.
        dtype: The dtype of the result; None: the default.
        device: Where the result is; None: the default device.
    """
    return torch.ones(_sizes(shape), dtype=dtype, device=device)


def zeros(shape: Shape, *, dtype: DType | None = None, device: Device | None = None) -> Array:
    """Return a tensor of zeros.

    Args:
        shape: The lengths of the axes.
        dtype: The dtype of the result; None: the default.
        device: Where the result is; None: the default device.
    """
    return torch.zeros(_sizes(shape), dtype=dtype, device=device)


def full(shape: Shape, fill_value: complex, *, dtype: DType | None = None, device: Device | None = None) -> Array:
    """Return a tensor of one value.

    Args:
        shape: The lengths of the axes.
        fill_value: The value.
        dtype: The dtype of the result; None: the default.
        device: Where the result is; None: the default device.
    """
    return torch.full(_sizes(shape), fill_value, dtype=dtype, device=device)


def empty_like(x: Array, /, *, dtype: DType | None = None, device: Device | None = None) -> Array:
    """Return a tensor of the shape of ``x`` whose values are not set.

    Args:
        x: The array.
        dtype: The dtype; None: that of ``x``.
        device: Where the result is; None: where ``x`` is.
    """
    return torch.empty_like(x, dtype=dtype, device=device)


def ones_like(x: Array, /, *, dtype: DType | None = None, device: Device | None = None) -> Array:
    """Return ones of the shape of ``x``.

    Args:
        x: The array.
        dtype: The dtype; None: that of ``x``.
        device: Where the result is; None: where ``x`` is.
    """
    return torch.ones_like(x, dtype=dtype, device=device)


def zeros_like(x: Array, /, *, dtype: DType | None = None, device: Device | None = None) -> Array:
    """Return zeros of the shape of ``x``.

    Args:
        x: The array.
        dtype: The dtype; None: that of ``x``.
        device: Where the result is; None: where ``x`` is.
    """
    return torch.zeros_like(x, dtype=dtype, device=device)


def full_like(x: Array, /, fill_value: complex, *, dtype: DType | None = None, device: Device | None = None) -> Array:
    """Return one value in the shape of ``x``.

    Args:
        x: The array.
        fill_value: The value.
        dtype: The dtype; None: that of ``x``.
        device: Where the result is; None: where ``x`` is.
    """
    return torch.full_like(x, fill_value, dtype=dtype, device=device)


def eye(
    n_rows: int,
    n_cols: int | None = None,
    /,
    *,
    k: int = 0,
    dtype: DType | None = None,
    device: Device | None = None,
) -> Array:
    """Return a matrix of zeros with ones on its k-th diagonal.

    Args:
        n_rows: The number of rows.
        n_cols: The number of columns; None: as many as rows.
        k: The diagonal: 0 is the main one, those above are positive.
        dtype: The dtype of the result; None: the default.
        device: Where the result is; None: the default device.
    """
    matrix = torch.zeros((n_rows, n_rows if n_cols is None else n_cols), dtype=dtype, device=device)
    if -matrix.shape[0] < k < matrix.shape[1]:
        torch.diagonal(matrix, k).fill_(1)
    return matrix


def from_dlpack(x: object, /, *, device: Device | None = None, copy: bool | None = None) -> Array:
    """Return a tensor over the memory of an object with ``__dlpack__``; with ``copy``, of memory of its own.

    Args:
        x: The object.
        device: Where the result is; None: where the object is.
        copy: Whether the memory is copied.

    Raises:
        BufferError: The memory is not the CPU's, or ``copy`` is False and ``device`` is another one.
    """
    return torch.from_dlpack(x, device=device, copy=copy)


def linspace(
    start: complex,
    stop: complex,
    /,
    num: int,
    *,
    dtype: DType | None = None,
    device: Device | None = None,
    endpoint: bool = True,
) -> Array:
    """Return ``num`` values at equal distances from ``start`` to ``stop``, without it where ``endpoint`` is False.

    Args:
        start: The first value.
        stop: The last value.
        num: How many values.
        dtype: The dtype of the result; None: the default.
        device: Where the result is; None: the default device.
        endpoint: Whether ``stop`` is one of them.
    """
    if not endpoint:
        return torch.linspace(start, stop, num + 1, dtype=dtype, device=device)[:-1]
    return torch.linspace(start, stop, num, dtype=dtype, device=device)


def meshgrid(*arrays: Array, indexing: str = "xy") -> tuple[Array, ...]:
    """Return the coordinate matrices of vectors, by columns and rows ("xy") or in the vectors' order ("ij")."""
    return tuple(torch.meshgrid(*arrays, indexing=indexing)) if arrays else ()


def tril(x: Array, /, *, k: int = 0) -> Array:
    """Return matrices with zeros above their k-th diagonal."""
    return torch.tril(x, k)


def triu(x: Array, /, *, k: int = 0) -> Array:
    """Return matrices with zeros below their k-th diagonal."""
    return torch.triu(x, k)
