"""Sequences of tensors, and optional values: Python's lists and None."""

from __future__ import annotations

from typing import Any

from torchlette import _C
from torchlette.onnx.registry import operator
from torchlette.onnx.tensors import Host

Tensor = _C.Tensor


def _one(place: Any) -> int:
    """Return a number that may be alone in a list."""
    return int(place[0] if isinstance(place, list) else place)


@operator("SequenceConstruct", raw=(-1,))
def construct(*parts: Any) -> list[list[Any]]:
    """Return a sequence of the inputs."""
    return [list(parts)]


@operator("SequenceEmpty", raw=(-1,))
def empty(*, dtype: int = 1) -> list[list[Any]]:
    """Return a sequence without tensors."""
    return [[]]


@operator("SequenceLength", raw=(-1,))
def length(sequence: list[Any]) -> Host:
    """Return the number of tensors."""
    return Host([len(sequence)], [], _C.int64)


@operator("SequenceAt", host=(1,), raw=(-1,))
def at(sequence: list[Any], place: Any) -> list[Any]:
    """Return the tensor at a place."""
    return [sequence[_one(place)]]


@operator("SequenceInsert", host=(2,), raw=(-1,))
def insert(sequence: list[Any], value: Any, place: Any = None) -> list[list[Any]]:
    """Return the sequence with one more tensor."""
    made = list(sequence)
    made.insert(len(made) if place is None else _one(place), value)
    return [made]


@operator("SequenceErase", host=(1,), raw=(-1,))
def erase(sequence: list[Any], place: Any = None) -> list[list[Any]]:
    """Return the sequence without a tensor."""
    made = list(sequence)
    del made[-1 if place is None else _one(place)]
    return [made]


@operator("SplitToSequence", host=(1,), raw=(-1,))
def split(x: Tensor, sizes: Any = None, *, axis: int = 0, keepdims: int = 1) -> list[list[Tensor]]:
    """Return a sequence of parts along an axis."""
    if sizes is None:
        parts = list(x.split(1, axis))
        return [parts if keepdims else [part.squeeze(axis) for part in parts]]
    return [list(x.split(sizes, axis))]


@operator("ConcatFromSequence", raw=(-1,))
def concat(sequence: list[Any], *, axis: int, new_axis: int = 0, device: Any) -> Tensor:
    """Join the tensors along an axis, or along a new one."""
    sequence = [v.tensor(device) if isinstance(v, Host) else v for v in sequence]
    return _C.stack(sequence, axis) if new_axis else _C.cat(sequence, axis)


@operator("Optional", raw=(-1,))
def optional(value: Any = None, *, type: Any = None) -> list[Any]:  # noqa: A002
    """Return the value, or nothing."""
    return [value]


@operator("OptionalHasElement", raw=(-1,))
def has_element(value: Any = None) -> Host:
    """Return whether there is a value."""
    return Host([value is not None], [], _C.bool)


@operator("OptionalGetElement", raw=(-1,))
def get_element(value: Any) -> list[Any]:
    """Return the value."""
    if value is None:
        raise ValueError("OptionalGetElement: there is no value")
    return [value]
