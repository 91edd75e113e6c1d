"""Handles of registered hooks."""

from __future__ import annotations

import itertools
import weakref
from collections import OrderedDict
from collections.abc import MutableMapping
from types import TracebackType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["RemovableHandle"]


class RemovableHandle:
    """Takes a hook out of the table it was registered in.

    Args:
        hooks_dict: The table, keyed by :attr:`id`.
        extra_dict: Further tables that hold flags under the same key.
    """

    id: int
    _ids = itertools.count()

    def __init__(self, hooks_dict: Any, *, extra_dict: Any = None) -> None:
        """Reserve a key of ``hooks_dict``; the caller stores the hook under it."""
        self.id = next(RemovableHandle._ids)
        self._tables: list[weakref.ref[MutableMapping[int, Any]]] = [weakref.ref(hooks_dict)]
        if extra_dict is not None:
            extras = [extra_dict] if isinstance(extra_dict, MutableMapping) else extra_dict
            self._tables.extend(weakref.ref(extra) for extra in extras)

    @property
    def hooks_dict_ref(self) -> weakref.ref[MutableMapping[int, Any]]:
        """A weak reference to the table."""
        return self._tables[0]

    def remove(self) -> None:
        """Remove the hook; a second call does nothing."""
        for ref in self._tables:
            table = ref()
            if table is not None:
                table.pop(self.id, None)

    def __getstate__(self) -> tuple[int, list[Any]]:
        return (self.id, [ref() for ref in self._tables])

    def __setstate__(self, state: tuple[int, list[Any]]) -> None:
        self.id = state[0]
        # A deleted table is replaced by an empty one, so that remove() still works.
        self._tables = [weakref.ref(OrderedDict() if table is None else table) for table in state[1]]
        RemovableHandle._ids = itertools.count(max(next(RemovableHandle._ids), self.id + 1))

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        self.remove()
