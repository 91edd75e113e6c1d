"""Slices whose places are values: a program has no tensors of such sizes, but reductions over their places."""

from __future__ import annotations

import math

from torchlette import _C

__all__ = ["SPANS", "Span"]

Tensor = _C.Tensor


class Span:
    """The places of a tensor from one to another along an axis, where the two are values of the program.

    Args:
        x: The tensor.
        axis: A dim of it.
        start: The first place, counted from the end if it is negative.
        end: The place behind the last.
    """

    def __init__(self, x: Tensor, axis: int, start: Tensor, end: Tensor) -> None:
        self.x, self.axis, self.start, self.end = x, axis, start, end

    def tensor(self) -> Tensor:
        """Return the slice. Its places are read, so that no program holds it."""
        first, last = int(self.start.item()), int(self.end.item())
        index: list[slice] = [slice(None)] * self.axis
        found: Tensor = self.x[(*index, slice(first, last))]
        return found

    def _only(self, other: float) -> tuple[Tensor, Tensor]:
        """Return the tensor with another number at the places outside, and how many are inside."""
        n = self.x.shape[self.axis]
        places = _C.arange(n, device=self.x.device)
        first, last = (_C.where(v < 0, v + n, v).to(_C.int64).reshape(()) for v in (self.start, self.end))
        inside = (places >= first) & (places < last)
        shape = [-1 if d == self.axis else 1 for d in range(self.x.dim())]
        return _C.where(inside.reshape(shape), self.x, _C.full_like(self.x, other)), inside.sum()

    def reduced(self, name: str, keep: bool) -> Tensor:
        """Return a reduction along the axis.

        Args:
            name: ONNX's name of it, one of SPANS.
            keep: Whether the axis stays, with one place.
        """
        if name in ("ReduceMax", "ReduceMin"):
            x, _ = self._only(-math.inf if name == "ReduceMax" else math.inf)
            return (_C.amax if name == "ReduceMax" else _C.amin)(x, self.axis, keepdim=keep)
        x, count = self._only(0)
        total: Tensor = x.sum(self.axis, keepdim=keep)
        return total / count.to(total.dtype) if name == "ReduceMean" else total


#: Operators that take slices whose places are values, of floats.
SPANS = frozenset(("ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum"))
