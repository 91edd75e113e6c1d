"""Rows of tables by index; part of :mod:`torchlette.nn.functional`."""

from __future__ import annotations

from torchlette import _C
from torchlette._runtime.regions import is_compiling
from torchlette.autograd import no_grad

__all__ = ["embedding", "embedding_bag", "one_hot"]

Tensor = _C.Tensor


def one_hot(input: Tensor, num_classes: int = -1) -> Tensor:
    """Return 1 at the class and 0 elsewhere, along a new last dimension. For -1 classes, their number is the largest
    class plus 1, which is read.
    """
    if num_classes == -1 and input.dtype is _C.int64:
        if input.numel() == 0:
            raise RuntimeError("Can not infer total number of classes from empty tensor.")
        if input.min().item() < 0:
            raise RuntimeError("Class values must be non-negative.")
        num_classes = int(input.max().item()) + 1
    return _C.one_hot(input, num_classes)


def _row(padding_idx: int | None, rows: int) -> int:
    """Return the number of the padding row, -1 when there is none."""
    if padding_idx is None:
        return -1
    if not -rows <= padding_idx < rows:
        raise AssertionError("Padding_idx must be within num_embeddings")
    return padding_idx % rows


def _renormalize(weight: Tensor, input: Tensor, max_norm: float | None, norm_type: float) -> None:
    if max_norm is not None:
        with no_grad():
            _C.embedding_renorm_(weight, input, max_norm, norm_type)


def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """Return the rows of ``weight`` at the indices ``input``.

    Args:
        input: Indices of any shape.
        weight: The table, [rows, features].
        padding_idx: A row that gets no gradient.
        max_norm: Scale the rows that are looked up down to this norm, in the table itself.
        norm_type: The order of that norm.
        scale_grad_by_freq: Divide the gradient of a row by how often it is looked up.
        sparse: Accepted; gradients are dense.
    """
    if weight.dim() != 2:
        raise RuntimeError(f"'weight' must be 2-D, got {list(weight.shape)}")
    _renormalize(weight, input, max_norm, norm_type)
    return _C.embedding(weight, input, _row(padding_idx, weight.shape[0]), scale_grad_by_freq, sparse)


def embedding_bag(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """Return the sum, mean or maximum of the rows of ``weight`` in each bag of indices: [bags, features].

    Args:
        input: Indices: [bags, indices] or, with ``offsets``, all bags in one vector.
        weight: The table, [rows, features].
        offsets: Where each bag begins, from 0 on, in order. On the CPU the first and the last are checked, except in
            compiled functions and programs.
        max_norm: As for :func:`embedding`, as are the next two.
        norm_type: See there.
        scale_grad_by_freq: See there; not for maxima.
        mode: "sum", "mean" or "max".
        sparse: Accepted; gradients are dense.
        per_sample_weights: Factor of each index, for sums.
        include_last_offset: Whether the last offset is the end of the last bag.
        padding_idx: An index that counts for nothing and whose row gets no gradient.
    """
    if input.dtype not in (_C.int64, _C.int32):  # the older order of arguments: weight first
        input, weight = weight, input
    _check_bags(input, offsets, mode, per_sample_weights, scale_grad_by_freq)
    _renormalize(weight, input, max_norm, norm_type)
    half = weight.dtype in (_C.float16, _C.bfloat16)  # sums round once, at the end
    rows = _C.embedding(weight, input, -1, scale_grad_by_freq, sparse)
    rows = rows.float() if half else rows
    present = None if padding_idx is None else input != _row(padding_idx, weight.shape[0])
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.unsqueeze(-1)
    if offsets is None:
        result = _reduced(rows, present, mode)
    else:
        _check_offsets(input, offsets)
        result = _reduced_by_offsets(rows, present, offsets, mode, include_last_offset)
    return result.to(weight.dtype) if half else result


def _reduced(rows: Tensor, present: Tensor | None, mode: str) -> Tensor:
    """Reduce the rows [bags, longest, features] of each bag; rows that are not ``present`` are left out."""
    if mode == "max" and rows.shape[1] > 0:
        if present is None:
            return rows.max(1).values
        largest = rows.masked_fill(~present.unsqueeze(-1), float("-inf")).max(1).values
        return _C.where(present.any(1, keepdim=True), largest, 0.0)
    total = (rows if present is None else _C.where(present.unsqueeze(-1), rows, 0.0)).sum(1)
    if mode != "mean":
        return total
    return total / (max(rows.shape[1], 1) if present is None else present.sum(1, keepdim=True).clamp_min(1))


def _check_bags(
    input: Tensor, offsets: Tensor | None, mode: str, per_sample_weights: Tensor | None, scale_grad_by_freq: bool
) -> None:
    """Raise PyTorch's errors for arguments that do not fit together."""
    if mode not in ("sum", "mean", "max"):
        raise ValueError("mode has to be one of sum, mean or max")
    if mode == "max" and scale_grad_by_freq:
        raise ValueError("max mode does not support scaling the gradient by the frequency")
    if per_sample_weights is not None and mode != "sum":
        raise NotImplementedError(
            f"embedding_bag: per_sample_weights was not None. per_sample_weights is only supported for mode='sum' (got "
            f"mode='{mode}')."
        )
    if per_sample_weights is not None and per_sample_weights.shape != input.shape:
        raise ValueError(
            f"embedding_bag: If per_sample_weights ({per_sample_weights.shape}) is not None, then it must have the "
            f"same shape as the input ({input.shape})"
        )
    if input.ndim not in (1, 2):
        raise ValueError(f"input has to be 1D or 2D Tensor, but got Tensor of dimension {input.ndim}")
    if input.ndim == 2 and offsets is not None:
        raise ValueError(
            f"if input is 2D, then offsets has to be None, as input is treated is a mini-batch of fixed length "
            f"sequences, got {offsets.shape}"
        )
    if input.ndim == 1 and offsets is None:
        raise ValueError("offsets has to be a 1D Tensor but got None")
    if input.ndim == 1 and offsets.ndim != 1:
        raise ValueError("offsets has to be a 1D Tensor")


def _check_offsets(input: Tensor, offsets: Tensor) -> None:
    """Raise PyTorch's errors for offsets outside of the indices, where a read is possible and does not wait."""
    if offsets.shape[0] == 0 or offsets.device.type != "cpu" or is_compiling():
        return
    first, last = offsets[[0, -1]].tolist()
    if first != 0:
        raise RuntimeError(
            f"offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from position 0. "
            f"However, got {first}"
        )
    if last > input.shape[0]:
        raise RuntimeError(
            f"offsets[-1] can not be greater than input's length({input.shape[0]}), but got offsets[-1] of {last}"
        )


def bag_of_each(starts: Tensor, place: Tensor) -> Tensor:
    """Return the bag of each place: the last one that starts there or before."""
    return (_C.searchsorted(starts.to(_C.int64), place, right=True) - 1).clamp_min(0)


def _reduced_by_offsets(
    rows: Tensor, present: Tensor | None, offsets: Tensor, mode: str, include_last_offset: bool
) -> Tensor:
    """Reduce the rows [indices, features] of bags one after the other; rows that are not ``present`` are left out."""
    starts = offsets[:-1] if include_last_offset else offsets
    zeros = rows.new_zeros([starts.shape[0], rows.shape[1]])
    if rows.shape[0] == 0 or starts.shape[0] == 0:
        return zeros + rows.sum() * 0
    place = _C.arange(rows.shape[0], device=rows.device)
    if include_last_offset:  # what follows the last offset is in no bag
        inside = place < offsets[-1]
        present = inside if present is None else present & inside
    bag = bag_of_each(starts, place)
    if mode == "max":
        return _largest_by_bag(rows, present, bag, zeros)
    total = zeros.index_add(0, bag, rows if present is None else _C.where(present.unsqueeze(-1), rows, 0.0))
    if mode != "mean":
        return total
    counted = _C.ones_like(bag) if present is None else present.to(_C.int64)
    sizes = counted.new_zeros([starts.shape[0]]).index_add(0, bag, counted)
    return total / sizes.clamp_min(1).unsqueeze(-1)


def _largest_by_bag(rows: Tensor, present: Tensor | None, bag: Tensor, zeros: Tensor) -> Tensor:
    """Return the largest element of each bag and feature, 0 for empty bags; the first of equal ones has a gradient."""
    seen = rows.detach() if present is None else rows.detach().masked_fill(~present.unsqueeze(-1), float("-inf"))
    into = bag.unsqueeze(-1).expand(rows.shape)
    most = _C.full_like(zeros, float("-inf")).scatter_reduce(0, into, seen, "amax")
    none = rows.shape[0]
    place = _C.where(seen < most.gather(0, into), none, _C.arange(none, device=rows.device).unsqueeze(-1))
    if present is not None:
        place = _C.where(present.unsqueeze(-1), place, none)
    first = _C.full_like(zeros, none, dtype=_C.int64).scatter_reduce(0, into, place, "amin")
    return _C.where(first < none, rows.gather(0, first.clamp_max(none - 1)), 0.0)
