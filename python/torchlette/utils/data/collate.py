"""Batches from lists of items."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from torchlette import _C

__all__ = ["default_collate", "default_convert"]

#: The types of NumPy's arrays of text and of objects, as packages test for them.
np_str_obj_array_pattern = re.compile(r"[SaUO]")


def _is_numpy(x: Any, kind: str) -> bool:
    """Return whether ``x`` is a NumPy array or scalar, without importing NumPy."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(x, getattr(numpy, kind))


def _rebuild(like: Any, values: Any) -> Any:
    """Make a container of the type of ``like``; a tuple or list where the type takes other arguments."""
    try:
        return type(like)(values)
    except TypeError:
        return dict(values) if isinstance(like, Mapping) else list(values)


def default_convert(data: Any) -> Any:
    """Turn NumPy arrays inside containers into tensors."""
    if isinstance(data, _C.Tensor):
        return data
    if _is_numpy(data, "ndarray") or _is_numpy(data, "generic"):
        return data if data.dtype.kind in "SUO" else _C.as_tensor(data)
    if isinstance(data, Mapping):
        return _rebuild(data, {key: default_convert(value) for key, value in data.items()})
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*(default_convert(value) for value in data))
    if isinstance(data, tuple):
        return [default_convert(value) for value in data]
    if isinstance(data, Sequence) and not isinstance(data, (str, bytes)):
        return _rebuild(data, [default_convert(value) for value in data])
    return data


def default_collate(batch: Sequence[Any]) -> Any:
    """Stack the items of a batch: tensors along a new first dim, numbers into a tensor, containers item by item."""
    first = batch[0]
    if isinstance(first, _C.Tensor):
        return _C.stack(list(batch), 0)
    if _is_numpy(first, "ndarray"):
        if first.dtype.kind in "SUO":
            raise TypeError(
                f"default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found "
                f"{first.dtype}"
            )
        return _C.stack([_C.as_tensor(item) for item in batch], 0)
    if _is_numpy(first, "generic"):
        return _C.tensor([item.item() for item in batch], dtype=_C.as_tensor(first).dtype)
    if isinstance(first, float):
        return _C.tensor(batch, dtype=_C.float64)
    if isinstance(first, int):
        return _C.tensor(batch)
    if isinstance(first, (str, bytes)):
        return batch
    if isinstance(first, Mapping):
        return _rebuild(first, {key: default_collate([item[key] for item in batch]) for key in first})
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return type(first)(*(default_collate(column) for column in zip(*batch, strict=True)))
    if isinstance(first, Sequence):
        if any(len(item) != len(first) for item in batch):
            raise RuntimeError("each element in list of batch should be of equal size")
        columns = [default_collate(column) for column in zip(*batch, strict=True)]
        return columns if isinstance(first, tuple) else _rebuild(first, columns)
    raise TypeError(
        f"default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {type(first)}"
    )
