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
    """Return values from ``start``, 0 where ``stop`` is None, to ``stop``, left out, at a distance of ``step``."""
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
    """Return a tensor whose values are not set."""
    return torch.empty(_sizes(shape), dtype=dtype, device=device)


def ones(shape: Shape, *, dtype: DType | None = None, device: Device | None = None) -> Array:
    """Return a tensor of ones."""
    return torch.ones(_sizes(shape), dtype=dtype, device=device)


def zeros(shape: Shape, *, dtype: DType | None = None, device: Device | None = None) -> Array:
    """Return a tensor of zeros."""
    return torch.zeros(_sizes(shape), dtype=dtype, device=device)


def full(shape: Shape, fill_value: complex, *, dtype: DType | None = None, device: Device | None = None) -> Array:
    """Return a tensor of one value."""
    return torch.full(_sizes(shape), fill_value, dtype=dtype, device=device)


def empty_like(x: Array, /, *, dtype: DType | None = None, device: Device | None = None) -> Array:
    """Return a tensor of the shape of ``x`` whose values are not set."""
    return torch.empty_like(x, dtype=dtype, device=device)


def ones_like(x: Array, /, *, dtype: DType | None = None, device: Device | None = None) -> Array:
    """Return ones of the shape of ``x``."""
    return torch.ones_like(x, dtype=dtype, device=device)


def zeros_like(x: Array, /, *, dtype: DType | None = None, device: Device | None = None) -> Array:
    """Return zeros of the shape of ``x``."""
    return torch.zeros_like(x, dtype=dtype, device=device)


def full_like(x: Array, /, fill_value: complex, *, dtype: DType | None = None, device: Device | None = None) -> Array:
    """Return one value in the shape of ``x``."""
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
    """Return a matrix of zeros with ones on its k-th diagonal."""
    matrix = torch.zeros((n_rows, n_rows if n_cols is None else n_cols), dtype=dtype, device=device)
    if -matrix.shape[0] < k < matrix.shape[1]:
        torch.diagonal(matrix, k).fill_(1)
    return matrix


def from_dlpack(x: object, /, *, device: Device | None = None, copy: bool | None = None) -> Array:
    """Return a tensor over the memory of an object with ``__dlpack__``; with ``copy``, of memory of its own.

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
    """Return ``num`` values at equal distances from ``start`` to ``stop``, without it where ``endpoint`` is False."""
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
