"""The functions of ``torch.masked``: reductions and normalizations of the elements that a mask selects.

``mask`` is a bool tensor that broadcasts to the input's shape; other dtypes are compared with 0. Without a mask every
element counts. A masked-out element is replaced by the reduction's identity: 0 in a sum, 1 in a product, the dtype's
least value in a maximum. ``dim`` is a dim, several, or None for all; ``dtype`` is the dtype of the computation and of
the result.

All functions raise IndexError if ``dim`` is out of range or the mask has more dims than the input, and RuntimeError if
the mask does not broadcast.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from torchlette import _C, iinfo, linalg

__all__ = [
    "amax",
    "amin",
    "argmax",
    "argmin",
    "cumprod",
    "cumsum",
    "log_softmax",
    "logaddexp",
    "logsumexp",
    "mean",
    "median",
    "norm",
    "normalize",
    "prod",
    "softmax",
    "softmin",
    "std",
    "sum",
    "var",
]

Tensor = _C.Tensor
Dims = int | Sequence[int] | None


def _least(dtype: Any) -> Any:
    """Return the dtype's least value, the identity of a maximum."""
    if dtype is _C.bool:
        raise NotImplementedError(f"masked: no {dtype} is less than all others: convert to torchlette.uint8 first")
    return -math.inf if dtype.is_floating_point or dtype.is_complex else iinfo(dtype).min


def _greatest(dtype: Any) -> Any:
    """Return the dtype's greatest value, the identity of a minimum."""
    if dtype is _C.bool:
        raise NotImplementedError(f"masked: no {dtype} is greater than all others: convert to torchlette.uint8 first")
    return math.inf if dtype.is_floating_point else iinfo(dtype).max


def _as_bool(mask: Tensor, input: Tensor) -> Tensor:
    """Return the mask as bools of the input's shape."""
    if mask.dim() > input.dim():
        raise IndexError(f"mask has {mask.dim()} dims, the input {input.dim()}: a mask must broadcast to the input")
    return (mask if mask.dtype is _C.bool else mask != 0).broadcast_to(input.shape)


def _filled(input: Tensor, mask: Tensor | None, value: Any) -> Tensor:
    """Return the input with masked-out elements set to ``value``, or to ``value(dtype)`` where it is a function."""
    if mask is None:
        return input
    return _C.where(_as_bool(mask, input), input, value(input.dtype) if callable(value) else value)


def _dims(dim: Dims, rank: int) -> list[int]:
    """Return the dims of a reduction as non-negative numbers; raise if one is named twice."""
    dims = [] if dim is None else [dim] if isinstance(dim, int) else list(dim)
    out: list[int] = []
    for d in dims:
        if not -max(rank, 1) <= d < max(rank, 1):
            raise IndexError(
                f"Dimension out of range (expected to be in range of [{-max(rank, 1)}, {max(rank, 1) - 1}], but got "
                f"{d})"
            )
        if d % max(rank, 1) in out:
            raise RuntimeError(f"dim={d % max(rank, 1)} appears multiple times in the list of dims")
        out.append(d % max(rank, 1))
    return out if out else list(range(rank))


def _counted(input: Tensor, dims: list[int], keepdim: bool, mask: Tensor | None) -> Tensor:
    """Return the number of selected elements of each slice."""
    under = _C.ones(input.shape, dtype=_C.bool, device=input.device) if mask is None else _as_bool(mask, input)
    return under.sum(dims, keepdim=keepdim)


def _total(input: Tensor, dtype: Any) -> Tensor:
    """Return the input cast to the dtype of its sum: int64 for integers and bools."""
    return input.to(dtype or (input.dtype if input.dtype.is_floating_point or input.dtype.is_complex else _C.int64))


def sum(
    input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: Any = None, mask: Tensor | None = None
) -> Tensor:
    """Return the sum of the elements under the mask; 0 where there are none.

    Args:
        input: Values, of any shape.
        dim: The dimension, or a tuple of them, that is reduced; None: all.
        keepdim: Whether reduced dimensions stay, with size 1.
        dtype: Of the result; the input is cast to it first. None: the input's, and int64 for sums of integers.
        mask: Bool, of a shape that broadcasts to that of ``input``: where it is False, an element does not count. None:
            all count.
    """
    x = _total(input, dtype)
    return _filled(x, mask, 0).sum(_dims(dim, x.dim()), keepdim=keepdim, dtype=x.dtype)


def prod(
    input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: Any = None, mask: Tensor | None = None
) -> Tensor:
    """Return the product of the elements under the mask; 1 where there are none.

    Args:
        input: Values, of any shape.
        dim: The dimension, or a tuple of them, that is reduced; None: all.
        keepdim: Whether reduced dimensions stay, with size 1.
        dtype: Of the result; the input is cast to it first. None: the input's, and int64 for sums of integers.
        mask: Bool, of a shape that broadcasts to that of ``input``: where it is False, an element does not count. None:
            all count.
    """
    x = _total(input, dtype)
    x = _filled(x, mask, 1)
    for d in sorted(_dims(dim, x.dim()), reverse=True):
        x = x.prod(d, keepdim=keepdim, dtype=x.dtype)
    return x


def cumsum(input: Tensor, dim: int, *, dtype: Any = None, mask: Tensor | None = None) -> Tensor:
    """Return the running sums along ``dim`` of the elements under the mask.

    Args:
        input: Values, of any shape.
        dim: The dimension along which it works.
        dtype: Of the result; the input is cast to it first. None: the input's, and int64 for sums of integers.
        mask: Bool, of a shape that broadcasts to that of ``input``: where it is False, an element does not count. None:
            all count.
    """
    x = input.to(dtype or input.dtype)
    return _filled(x, mask, 0).cumsum(dim, dtype=x.dtype)


def cumprod(input: Tensor, dim: int, *, dtype: Any = None, mask: Tensor | None = None) -> Tensor:
    """Return the running products along ``dim`` of the elements under the mask.

    Args:
        input: Values, of any shape.
        dim: The dimension along which it works.
        dtype: Of the result; the input is cast to it first. None: the input's, and int64 for sums of integers.
        mask: Bool, of a shape that broadcasts to that of ``input``: where it is False, an element does not count. None:
            all count.
    """
    x = input.to(dtype or input.dtype)
    return _filled(x, mask, 1).cumprod(dim, dtype=x.dtype)


def amax(
    input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: Any = None, mask: Tensor | None = None
) -> Tensor:
    """Return the greatest element under the mask; the least value of the dtype where there is none.

    Args:
        input: Values, of any shape.
        dim: The dimension, or a tuple of them, that is reduced; None: all.
        keepdim: Whether reduced dimensions stay, with size 1.
        dtype: Of the result; the input is cast to it first. None: the input's, and int64 for sums of integers.
        mask: Bool, of a shape that broadcasts to that of ``input``: where it is False, an element does not count. None:
            all count.
    """
    x = input.to(dtype or input.dtype)
    return _filled(x, mask, _least).amax(_dims(dim, x.dim()), keepdim=keepdim)


def amin(
    input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: Any = None, mask: Tensor | None = None
) -> Tensor:
    """Return the least element under the mask; the greatest value of the dtype where there is none.

    Args:
        input: Values, of any shape.
        dim: The dimension, or a tuple of them, that is reduced; None: all.
        keepdim: Whether reduced dimensions stay, with size 1.
        dtype: Of the result; the input is cast to it first. None: the input's, and int64 for sums of integers.
        mask: Bool, of a shape that broadcasts to that of ``input``: where it is False, an element does not count. None:
            all count.
    """
    x = input.to(dtype or input.dtype)
    return _filled(x, mask, _greatest).amin(_dims(dim, x.dim()), keepdim=keepdim)


def argmax(
    input: Tensor, dim: int | None = None, *, keepdim: bool = False, dtype: Any = None, mask: Tensor | None = None
) -> Tensor:
    """Return the index of the greatest element under the mask, in ``dtype``, which is the input's by default.

    Args:
        input: Values, of any shape.
        dim: The dimension along which it looks; None: all, flattened.
        keepdim: Whether reduced dimensions stay, with size 1.
        dtype: Of the result; the input is cast to it first. None: the input's, and int64 for sums of integers.
        mask: Bool, of a shape that broadcasts to that of ``input``: where it is False, an element does not count. None:
            all count.
    """
    x = input.to(dtype or input.dtype)
    return _filled(x, mask, _least).argmax(dim, keepdim=keepdim).to(x.dtype)


def argmin(
    input: Tensor, dim: int | None = None, *, keepdim: bool = False, dtype: Any = None, mask: Tensor | None = None
) -> Tensor:
    """Return the index of the least element under the mask, in ``dtype``, which is the input's by default.

    Args:
        input: Values, of any shape.
        dim: The dimension along which it looks; None: all, flattened.
        keepdim: Whether reduced dimensions stay, with size 1.
        dtype: Of the result; the input is cast to it first. None: the input's, and int64 for sums of integers.
        mask: Bool, of a shape that broadcasts to that of ``input``: where it is False, an element does not count. None:
            all count.
    """
    x = input.to(dtype or input.dtype)
    return _filled(x, mask, _greatest).argmin(dim, keepdim=keepdim).to(x.dtype)


def mean(
    input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: Any = None, mask: Tensor | None = None
) -> Tensor:
    """Return the mean of the elements under the mask; NaN where there are none. Raises ValueError for integers without
    ``dtype``.

    Args:
        input: Values, of any shape.
        dim: The dimension, or a tuple of them, that is reduced; None: all.
        keepdim: Whether reduced dimensions stay, with size 1.
        dtype: Of the result; the input is cast to it first. None: the input's, and int64 for sums of integers.
        mask: Bool, of a shape that broadcasts to that of ``input``: where it is False, an element does not count. None:
            all count.

    >>> mask = torchlette.tensor([True, True, False])
    >>> torchlette.masked.mean(torchlette.tensor([1.0, 2.0, 9.0]), mask=mask).item()
    1.5
    """
    x = input.to(dtype or input.dtype)
    if not (x.dtype.is_floating_point or x.dtype.is_complex):
        raise ValueError(
            f"mean(): Could not infer output dtype. Input dtype must be either a floating point or complex dtype. Got: "
            f"{x.dtype}"
        )
    dims = _dims(dim, x.dim())
    if mask is None:
        return x.mean(dims, keepdim=keepdim)
    return _filled(x, mask, 0).sum(dims, keepdim=keepdim, dtype=x.dtype) / _counted(x, dims, keepdim, mask)


def median(
    input: Tensor, dim: int = -1, *, keepdim: bool = False, dtype: Any = None, mask: Tensor | None = None
) -> Tensor:
    """Return the median of the elements under the mask, or NaN where there are none; of two middle elements, the lower.

    Integers have no NaN: the mask is then read, and ValueError is raised if a slice has no element under it.

    Args:
        input: Values, of any shape.
        dim: The dimension, or a tuple of them, that is reduced; None: all.
        keepdim: Whether reduced dimensions stay, with size 1.
        dtype: Of the result; the input is cast to it first. None: the input's, and int64 for sums of integers.
        mask: Bool, of a shape that broadcasts to that of ``input``: where it is False, an element does not count. None:
            all count.
    """
    x = input.to(dtype or input.dtype)
    if x.dtype.is_floating_point:
        return _filled(x, mask, math.nan).nanmedian(dim, keepdim=keepdim).values
    count = _counted(x, _dims(dim, x.dim()), True, mask)
    if not bool((count > 0).all().item()):
        raise ValueError("masked median expects no fully masked out rows if dtype is not floating point")
    fill = True if x.dtype is _C.bool else iinfo(x.dtype).max
    middle = _filled(x, mask, fill).sort(dim).values.gather(dim, (count - 1) // 2)
    return middle if keepdim else middle.squeeze(dim)


def norm(
    input: Tensor,
    ord: float | None = 2.0,
    dim: Dims = None,
    *,
    keepdim: bool = False,
    dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Return the vector norm of order ``ord`` of the elements under the mask.

    Args:
        input: Values, of any shape.
        ord: The order of the norm: a number, inf or -inf.
        dim: The dimension, or a tuple of them, that is reduced; None: all.
        keepdim: Whether reduced dimensions stay, with size 1.
        dtype: Of the result; the input is cast to it first. None: the input's, and int64 for sums of integers.
        mask: Bool, of a shape that broadcasts to that of ``input``: where it is False, an element does not count. None:
            all count.
    """
    x = input.to(dtype or input.dtype)
    order = 2.0 if ord is None else ord
    filled = _filled(x, mask, math.inf if order < 0 else 0)
    found = linalg.vector_norm(filled, order, _dims(dim, x.dim()), keepdim)
    return found if x.is_complex() else found.to(x.dtype)


def var(
    input: Tensor,
    dim: Dims = None,
    unbiased: bool | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
    dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Return the variance of the elements under the mask; the divisor is their count less ``correction``, 1 by default.

    Args:
        input: Values, of any shape.
        dim: The dimension, or a tuple of them, that is reduced; None: all.
        unbiased: The older form of ``correction``: True for 1, False for 0.
        correction: Subtracted from the count in the divisor.
        keepdim: Whether reduced dimensions stay, with size 1.
        dtype: Of the result; the input is cast to it first. None: the input's, and int64 for sums of integers.
        mask: Bool, of a shape that broadcasts to that of ``input``: where it is False, an element does not count. None:
            all count.
    """
    taken = _corrected(unbiased, correction)
    inexact = input.is_floating_point() or input.is_complex()
    x = input.to(dtype or (input.dtype if inexact else _C.get_default_dtype()))
    dims = _dims(dim, x.dim())
    center = _filled(x, mask, 0).sum(dims, keepdim=True) / _counted(x, dims, True, mask)
    apart = x - center
    squares = _filled(apart * apart.conj(), mask, 0).sum(dims, keepdim=keepdim)
    return (squares / (_counted(x, dims, keepdim, mask) - taken).clamp(min=0)).to(x.dtype)


def std(
    input: Tensor,
    dim: Dims = None,
    unbiased: bool | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
    dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Return the root of :func:`var`.

    Args:
        input: Values, of any shape.
        dim: The dimension, or a tuple of them, that is reduced; None: all.
        unbiased: The older form of ``correction``: True for 1, False for 0.
        correction: Subtracted from the count in the divisor.
        keepdim: Whether reduced dimensions stay, with size 1.
        dtype: Of the result; the input is cast to it first. None: the input's, and int64 for sums of integers.
        mask: Bool, of a shape that broadcasts to that of ``input``: where it is False, an element does not count. None:
            all count.
    """
    return var(input, dim, unbiased, correction=correction, keepdim=keepdim, dtype=dtype, mask=mask).sqrt()


def _corrected(unbiased: bool | None, correction: float | None) -> float:
    """Return the correction of the count, from either of the two arguments."""
    if unbiased is not None and correction is not None:
        raise RuntimeError("Only one of unbiased and correction may be given")
    return correction if correction is not None else 1 if unbiased is None else int(unbiased)


_NORMALIZED_ARGS = """Args:
    input: Values, of any shape.
    dim: The dimension along which it works.
    dtype: Of the result; the input is cast to it first. None: the input's.
    mask: Bool, of a shape that broadcasts to that of ``input``: where it is False, an element does not count. None: all
        count.
"""


def _normalized(f: Callable[..., Tensor], outside: Callable[[Any], Any], doc: str) -> Callable[..., Tensor]:
    """Return ``f`` along a dim, with masked-out elements set to a value of zero weight."""

    def normalized(input: Tensor, dim: int, *, dtype: Any = None, mask: Tensor | None = None) -> Tensor:
        x = input.to(dtype or input.dtype)
        return f(_filled(x, mask, outside), dim, dtype=x.dtype if x.is_floating_point() else None)

    normalized.__name__ = normalized.__qualname__ = f.__name__
    normalized.__doc__ = f"{doc}\n\n{_NORMALIZED_ARGS}"
    return normalized


def _softmin(input: Tensor, dim: int, dtype: Any = None) -> Tensor:
    return _C.softmax(-input, dim, dtype=dtype)


softmax = _normalized(
    _C.softmax,
    _least,
    "Return the softmax along ``dim`` of the elements under the mask, 0 outside it; NaN where there are none.",
)
log_softmax = _normalized(_C.log_softmax, _least, "Return the logarithm of :func:`softmax`.")
softmin = _normalized(_softmin, _greatest, "Return :func:`softmax` of the negated input.")


def normalize(
    input: Tensor, ord: float, dim: int, *, eps: float = 1e-12, dtype: Any = None, mask: Tensor | None = None
) -> Tensor:
    """Divide the elements under the mask by their norm along ``dim``, at least ``eps``; the others become 0.

    Args:
        input: Values, of any shape.
        ord: The order of the norm: a number, inf or -inf.
        dim: The dimension along which the norm is taken.
        eps: Lower bound of the divisor.
        dtype: Of the result; the input is cast to it first. None: the input's.
        mask: Bool, of a shape that broadcasts to that of ``input``: where it is False, an element does not count. None:
            all count.
    """
    x = input.to(dtype or input.dtype)
    return _filled(x, mask, 0) / norm(x, ord, dim, keepdim=True, mask=mask).clamp(min=eps)


def logsumexp(
    input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: Any = None, mask: Tensor | None = None
) -> Tensor:
    """Return the logarithm of the sum of the exponentials of the elements under the mask; -inf where there are none.

    Args:
        input: Values, of any shape.
        dim: The dimension, or a tuple of them, that is reduced; None: all.
        keepdim: Whether reduced dimensions stay, with size 1.
        dtype: Of the result; the input is cast to it first. None: the input's, and int64 for sums of integers.
        mask: Bool, of a shape that broadcasts to that of ``input``: where it is False, an element does not count. None:
            all count.
    """
    x = input.to(dtype or input.dtype)
    return _C.logsumexp(_filled(x, mask, _least), _dims(dim, x.dim()), keepdim=keepdim).to(x.dtype)


def logaddexp(
    input: Tensor,
    other: Tensor,
    *,
    dtype: Any = None,
    input_mask: Tensor | None = None,
    other_mask: Tensor | None = None,
) -> Tensor:
    """Return ``log(exp(input) + exp(other))``; a masked-out term counts as 0.

    Args:
        input: Values, of any shape.
        other: Values that broadcast with ``input``.
        dtype: Of the result; the input is cast to it first. None: the input's, and int64 for sums of integers.
        input_mask: The mask of ``input``.
        other_mask: The mask of ``other``.
    """
    x, y = input.to(dtype or input.dtype), other.to(dtype or other.dtype)
    return _C.logaddexp(_filled(x, input_mask, _least), _filled(y, other_mask, _least)).to(x.dtype)
