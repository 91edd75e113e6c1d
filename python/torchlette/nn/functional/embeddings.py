"""Rows of tables by index; part of :mod:`torchlette.nn.functional`."""

from __future__ import annotations

from torchlette import _C
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
        offsets: Where each bag begins; they are read.
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
    if offsets is not None:
        place, filled = _bags(input, offsets.tolist(), include_last_offset)
        rows = rows.index_select(0, place.reshape(-1)).reshape(*place.shape, rows.shape[-1])
        present = (
            filled if present is None else filled & present.index_select(0, place.reshape(-1)).reshape(place.shape)
        )
    result = _reduced(rows, present, mode)
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


def _bags(input: Tensor, offsets: list[int], include_last_offset: bool) -> tuple[Tensor, Tensor]:
    """Return the positions in ``input`` of each bag's elements, [bags, longest], and the mask of those that exist."""
    if offsets and offsets[0] != 0:
        raise RuntimeError(
            f"offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from position 0. "
            f"However, got {offsets[0]}"
        )
    if offsets and offsets[-1] > input.shape[0]:
        raise RuntimeError(
            f"offsets[-1] can not be greater than input's length({input.shape[0]}), but got offsets[-1] of "
            f"{offsets[-1]}"
        )
    ends = offsets if include_last_offset else [*offsets, input.shape[0]]
    bags = list(zip(ends, ends[1:], strict=False))
    longest = max((end - start for start, end in bags), default=0)
    place = [[min(start + k, end - 1) if end > start else 0 for k in range(longest)] for start, end in bags]
    present = [[start + k < end for k in range(longest)] for start, end in bags]
    shape = (len(bags), longest)
    return (
        _C.tensor(place, dtype=_C.int64, device=input.device).reshape(shape),
        _C.tensor(present, dtype=_C.bool, device=input.device).reshape(shape),
    )
