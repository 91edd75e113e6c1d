"""Sizes given once for all dims, and lists of parameters spelled out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torchlette.nn.functional.conv_pool import as_tuple

__all__ = ["consume_prefix_in_state_dict_if_present"]


def _ntuple(n: int) -> Callable[[Any], tuple[Any, ...]]:
    def parse(x: Any) -> tuple[Any, ...]:
        return as_tuple(x, n)

    return parse


_single, _pair, _triple, _quadruple = _ntuple(1), _ntuple(2), _ntuple(3), _ntuple(4)


def _reverse_repeat_tuple(t: Sequence[Any], n: int) -> tuple[Any, ...]:
    """Return the items from last to first, each ``n`` times."""
    return tuple(x for x in reversed(t) for _ in range(n))


def consume_prefix_in_state_dict_if_present(state_dict: dict[str, Any], prefix: str) -> None:
    """Remove ``prefix``, which wrappers such as DataParallel add, from the keys of a state dict, in place."""
    for key in list(state_dict):
        if key.startswith(prefix):
            state_dict[key[len(prefix) :]] = state_dict.pop(key)
    metadata = getattr(state_dict, "_metadata", None) or {}
    for key in list(metadata):
        if key and key.startswith(prefix.removesuffix(".")):
            metadata[key[len(prefix) :]] = metadata.pop(key)
