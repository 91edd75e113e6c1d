"""Lists of tensors as one vector and back, under the names of ``torch._utils``."""

from __future__ import annotations

from collections.abc import Sequence

from torchlette import _C

__all__ = ["_flatten_dense_tensors", "_unflatten_dense_tensors"]

Tensor = _C.Tensor


def _flatten_dense_tensors(tensors: Sequence[Tensor]) -> Tensor:
    """Return the elements of all tensors in one vector."""
    return _C.cat([t.reshape(-1) for t in tensors])


def _unflatten_dense_tensors(flat: Tensor, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Return the parts of a vector in the shapes of ``tensors``."""
    parts = flat.split([t.numel() for t in tensors])
    return tuple(part.view_as(t) for part, t in zip(parts, tensors, strict=True))
