"""Names for annotations of code that TorchScript would compile."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple, TypeVar, Union  # noqa: UP035

__all__ = [
    "Any",
    "BroadcastingList1",
    "BroadcastingList2",
    "BroadcastingList3",
    "BroadcastingList4",
    "BroadcastingList5",
    "BroadcastingList6",
    "Dict",
    "List",
    "Optional",
    "Tuple",
    "Union",
]

_T = TypeVar("_T")
#: A list, or one value for all of its elements.
BroadcastingList1 = BroadcastingList2 = BroadcastingList3 = BroadcastingList4 = BroadcastingList5 = (
    BroadcastingList6
) = List[_T]  # noqa: UP006
