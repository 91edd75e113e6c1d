"""Reductions of consecutive slices of unequal lengths."""

from __future__ import annotations

import math
from typing import Any

from torchlette import _C
from torchlette._runtime.regions import refuses_reads

__all__ = ["segment_reduce"]

Tensor = _C.Tensor
#: Reduction -> its name in scatter_reduce and its initial value.
_REDUCTIONS = {
    "sum": ("sum", 0.0),
    "mean": ("sum", 0.0),
    "prod": ("prod", 1.0),
    "max": ("amax", -math.inf),
    "min": ("amin", math.inf),
}


def segment_reduce(
    data: Tensor,
    reduce: str,
    *,
    lengths: Tensor | None = None,
    indices: Tensor | None = None,
    offsets: Tensor | None = None,
    axis: int = 0,
    unsafe: bool = False,
    initial: float | None = None,
) -> Tensor:
    """Reduce segments along ``axis``; the result's size along it is the number of segments.

    Args:
        data: Floats, of shape (*before, n, *after), where ``before`` has ``axis`` dims.
        reduce: "sum", "mean", "prod", "max" or "min".
        lengths: Integers of shape (*before, segments) that sum to n along the last dim.
        indices: Not supported, as in PyTorch.
        offsets: Instead of lengths: the start of each segment and the end of the last, (*before, segments + 1).
        axis: The dim of the segments, the last of ``lengths`` and of ``offsets``.
        unsafe: Whether to skip the check of the lengths' sums, which reads them; a program has none.
        initial: The initial value of each reduction; a mean adds it to the sum. Without it, an empty segment gives 0
            (sum), nan (mean), 1 (prod), -inf (max) or inf (min).
    """
    if reduce not in _REDUCTIONS:
        raise RuntimeError(f"reduce argument must be either sum, prod, mean, max or min, got {reduce}")
    if indices is not None:
        raise RuntimeError("segment_reduce(): indices based reduction is not supported yet.")
    if not data.dtype.is_floating_point:
        raise NotImplementedError(f"segment_reduce is not implemented for {data.dtype}")
    axis = axis % data.dim()
    starts = _starts(data, lengths, offsets, axis, unsafe)
    segments = starts.shape[-1] - 1
    row = _C.arange(data.shape[axis], device=data.device).expand(data.shape[: axis + 1]).contiguous()
    place = _C.searchsorted(starts.contiguous(), row, right=True) - 1
    place = _C.where(place < 0, segments, place)  # elements outside the segments go to one extra segment
    place = place.reshape(place.shape + (1,) * (data.dim() - axis - 1)).expand(data.shape)
    kind, identity = _REDUCTIONS[reduce]
    shape = (*data.shape[:axis], segments + 1, *data.shape[axis + 1 :])
    extreme = reduce in ("max", "min")
    start: Any = identity if initial is None or extreme else initial
    result = (
        _C.full(shape, start, dtype=data.dtype, device=data.device)
        .scatter_reduce(axis, place, data, kind)
        .narrow(axis, 0, segments)
    )
    if extreme and initial is not None:  # an element equal to it gets the whole gradient
        return _C.where(result < initial if reduce == "max" else result > initial, initial, result)
    if reduce != "mean":
        return result
    count = starts.diff(dim=-1).reshape(starts.shape[:-1] + (segments,) + (1,) * (data.dim() - axis - 1)).to(data.dtype)
    return result / (count if initial is None else count.clamp(min=1))


def _starts(data: Tensor, lengths: Tensor | None, offsets: Tensor | None, axis: int, unsafe: bool) -> Tensor:
    """Return where the segments start, and where the last one ends."""
    given = offsets if lengths is None else lengths
    if given is None:
        raise RuntimeError("segment_reduce(): Either lengths or offsets must be defined.")
    if given.dtype.is_floating_point:
        raise NotImplementedError(f"segment_reduce is not implemented for lengths of {given.dtype}")
    if axis != given.dim() - 1:
        raise RuntimeError(f"segment_reduce(): Expected axis to be the last dimension of lengths but got {axis}.")
    if lengths is None:
        return given
    unsafe = unsafe or refuses_reads()
    if not unsafe and not bool(((lengths.sum(-1) == data.shape[axis]).all() & (lengths >= 0).all()).item()):
        raise RuntimeError(
            "segment_reduce(): Expected all rows of lengths along axis to sum to data.size(lengths.dim()-1) when "
            "!unsafe."
        )
    return _C.cat([lengths.new_zeros((*lengths.shape[:-1], 1)), lengths.cumsum(-1)], -1)
