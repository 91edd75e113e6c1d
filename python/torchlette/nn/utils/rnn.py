"""Sequences of different lengths: padded, packed, and apart.

A packed sequence holds the elements of all sequences, longest first, step after step: element ``b`` of
step ``t`` for every sequence that is longer than ``t``.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from torchlette import _C

__all__ = [
    "PackedSequence",
    "invert_permutation",
    "pack_padded_sequence",
    "pack_sequence",
    "pad_packed_sequence",
    "pad_sequence",
    "unpack_sequence",
    "unpad_sequence",
]

Tensor = _C.Tensor


class _Packed(NamedTuple):
    data: Tensor
    batch_sizes: Tensor
    sorted_indices: Tensor | None
    unsorted_indices: Tensor | None


class PackedSequence(_Packed):
    """The elements of several sequences, step after step.

    Args:
        data: The elements, [sum of lengths, ...].
        batch_sizes: The number of sequences that have each step: int64 on the CPU.
        sorted_indices: The original index of each packed sequence; None if they were already sorted.
        unsorted_indices: The inverse; computed if it is not given.
    """

    def __new__(
        cls,
        data: Tensor,
        batch_sizes: Tensor | None = None,
        sorted_indices: Tensor | None = None,
        unsorted_indices: Tensor | None = None,
    ) -> PackedSequence:
        """Check the batch sizes."""
        if batch_sizes is None:
            raise ValueError("PackedSequence: batch_sizes is missing")
        if batch_sizes.device.type != "cpu":
            raise ValueError(
                f"batch_sizes should always be on CPU. Instances of PackedSequence should never be created manually, "
                f"got {batch_sizes.device}"
            )
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def to(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """Convert the elements; the indices follow the device."""
        data = self.data.to(*args, **kwargs)
        if data is self.data:
            return self
        places = (None if i is None else i.to(data.device) for i in (self.sorted_indices, self.unsorted_indices))
        return type(self)(data, self.batch_sizes, *places)

    def cpu(self) -> PackedSequence:
        """Return it on the CPU."""
        return self.to("cpu")

    def double(self) -> PackedSequence:
        """Return it in float64."""
        return self.to(_C.float64)

    def float(self) -> PackedSequence:
        """Return it in float32."""
        return self.to(_C.float32)

    def half(self) -> PackedSequence:
        """Return it in float16."""
        return self.to(_C.float16)

    def long(self) -> PackedSequence:
        """Return it in int64."""
        return self.to(_C.int64)

    def int(self) -> PackedSequence:
        """Return it in int32."""
        return self.to(_C.int32)

    def short(self) -> PackedSequence:
        """Return it in int16."""
        return self.to(_C.int16)

    def char(self) -> PackedSequence:
        """Return it in int8."""
        return self.to(_C.int8)

    def byte(self) -> PackedSequence:
        """Return it in uint8."""
        return self.to(_C.uint8)


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """Return the inverse of a permutation."""
    if permutation is None:
        return None
    places = _C.arange(permutation.numel(), device=permutation.device)
    return _C.empty_like(permutation).scatter_(0, permutation, places)


def _as_lengths(lengths: Tensor | Sequence[int]) -> list[int]:
    return [int(n) for n in (lengths.tolist() if isinstance(lengths, Tensor) else lengths)]


def _rows(lengths: Sequence[int]) -> tuple[list[int], list[int]]:
    """Return the batch size of each step and, for each packed element, its row in [steps * batch, ...]."""
    sizes = [sum(n > t for n in lengths) for t in range(lengths[0])]
    return sizes, list(
        itertools.chain.from_iterable(range(t * len(lengths), t * len(lengths) + size) for t, size in enumerate(sizes))
    )


def pack_padded_sequence(
    input: Tensor, lengths: Tensor | Sequence[int], batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """Pack sequences that were padded to one length.

    Args:
        input: [steps, batch, ...], or [batch, steps, ...] with ``batch_first``.
        lengths: The length of each sequence; a tensor is read.
        batch_first: See ``input``.
        enforce_sorted: Require non-increasing lengths; if false, the sequences are sorted.
    """
    counts = _as_lengths(lengths)
    order = None
    if not enforce_sorted:
        order = sorted(range(len(counts)), key=lambda i: -counts[i])
        counts = [counts[i] for i in order]
    if not counts or len(counts) != input.shape[0 if batch_first else 1]:
        raise RuntimeError(
            f"Expected `len(lengths)` to be equal to batch_size, but got {len(counts)} "
            f"(batch_size={input.shape[0 if batch_first else 1]})"
        )
    if min(counts) <= 0:
        raise RuntimeError(
            "Length of all samples has to be greater than 0, but found an element in 'lengths' that is <= 0"
        )
    if counts != sorted(counts, reverse=True):
        raise RuntimeError(
            "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. You can pass "
            "`enforce_sorted=False` to "
            "pack_padded_sequence and/or pack_sequence to sidestep this requirement if you do not need ONNX "
            "exportability."
        )
    if counts[0] > input.shape[1 if batch_first else 0]:
        raise RuntimeError(
            f"Expected all lengths to be at most {input.shape[1 if batch_first else 0]}, the padded length, but got "
            f"{counts[0]}"
        )
    steps = input.transpose(0, 1) if batch_first else input
    places = None if order is None else _C.tensor(order, dtype=_C.int64, device=input.device)
    if places is not None:
        steps = steps.index_select(1, places)
    sizes, rows = _rows(counts)
    data = steps.reshape(-1, *steps.shape[2:]).index_select(0, _C.tensor(rows, dtype=_C.int64, device=input.device))
    return PackedSequence(data, _C.tensor(sizes, dtype=_C.int64, device="cpu"), places)


def pad_packed_sequence(
    sequence: PackedSequence, batch_first: bool = False, padding_value: float = 0.0, total_length: int | None = None
) -> tuple[Tensor, Tensor]:
    """Pad a packed sequence; return [steps, batch, ...] and the lengths.

    Args:
        sequence: The packed sequence.
        batch_first: Return [batch, steps, ...].
        padding_value: The value after the end of a sequence.
        total_length: Pad to this many steps instead of those of the longest sequence.
    """
    sizes = sequence.batch_sizes.tolist()
    steps, batch = len(sizes), sizes[0]
    if total_length is not None:
        if total_length < steps:
            raise ValueError(
                f"Expected total_length to be at least the length of the longest sequence in input, but got "
                f"total_length={total_length} and max "
                f"sequence length being {steps}"
            )
        steps = total_length
    data = sequence.data
    counts = [sum(size > b for size in sizes) for b in range(batch)]
    rows = _C.tensor(_rows(counts)[1], dtype=_C.int64, device=data.device)
    padded = _C.full((steps * batch, *data.shape[1:]), padding_value, dtype=data.dtype, device=data.device).index_copy(
        0, rows, data
    )
    padded = padded.reshape(steps, batch, *data.shape[1:])
    lengths = _C.tensor(counts, dtype=_C.int64, device="cpu")
    if sequence.unsorted_indices is not None:
        padded = padded.index_select(1, sequence.unsorted_indices)
        lengths = lengths.index_select(0, sequence.unsorted_indices.cpu())
    return (padded.transpose(0, 1) if batch_first else padded), lengths


def pad_sequence(
    sequences: Iterable[Tensor], batch_first: bool = False, padding_value: float = 0.0, padding_side: str = "right"
) -> Tensor:
    """Stack sequences [length, ...] padded to the longest: [steps, batch, ...], or [batch, steps, ...] with
    ``batch_first``.

    Args:
        sequences: Tensors [length, ...].
        batch_first: Whether the result is [batch, steps, ...].
        padding_value: The value of the padding.
        padding_side: "right" or "left": where the padding is.

    >>> torchlette.nn.utils.rnn.pad_sequence([torchlette.ones(2), torchlette.ones(3)], batch_first=True).tolist()
    [[1.0, 1.0, 0.0], [1.0, 1.0, 1.0]]
    """
    if not isinstance(sequences, Iterable):
        raise RuntimeError(
            f"pad_sequence: Expected iterable for input sequences, but got arg of type: {type(sequences)}"
        )
    parts = list(sequences.unbind(0)) if isinstance(sequences, Tensor) else list(sequences)
    if padding_side not in ("left", "right"):
        raise RuntimeError(f"Expected padding_side to be one of left or right, but got {padding_side}")
    steps = max(part.shape[0] for part in parts)
    padded = []
    for part in parts:
        missing = part.new_full((steps - part.shape[0], *part.shape[1:]), padding_value)
        padded.append(_C.cat([missing, part] if padding_side == "left" else [part, missing]))
    return _C.stack(padded, 0 if batch_first else 1)


def unpad_sequence(padded_sequences: Tensor, lengths: Tensor, batch_first: bool = False) -> list[Tensor]:
    """Return the sequences [length, ...] of a padded batch.

    Args:
        padded_sequences: [steps, batch, ...], with ``batch_first`` [batch, steps, ...].
        lengths: The length of each, int64.
        batch_first: Whether the batch is the first dimension.
    """
    rows = padded_sequences if batch_first else padded_sequences.transpose(0, 1)
    return [rows[i, :n] for i, n in enumerate(_as_lengths(lengths))]


def pack_sequence(sequences: Sequence[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Pack sequences [length, ...]."""
    return pack_padded_sequence(pad_sequence(sequences), [s.shape[0] for s in sequences], enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """Return the sequences [length, ...] of a packed one."""
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)
