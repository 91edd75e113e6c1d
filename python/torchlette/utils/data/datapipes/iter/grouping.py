"""Pipes of batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from torchlette.utils.data.datapipes._decorator import functional_datapipe
from torchlette.utils.data.datapipes.datapipe import DataChunk, IterDataPipe, batches

__all__ = ["BatcherIterDataPipe", "GrouperIterDataPipe", "UnBatcherIterDataPipe"]


@functional_datapipe("batch")
class BatcherIterDataPipe(IterDataPipe):
    """Lists of items.

    Args:
        datapipe: The items.
        batch_size: How many are in a list.
        drop_last: Whether a shorter last list is left out.
        wrapper_class: Makes the batch of a list.
    """

    def __init__(
        self, datapipe: Any, batch_size: int, drop_last: bool = False, wrapper_class: Callable[..., Any] = DataChunk
    ) -> None:
        """Check the size."""
        if batch_size <= 0:
            raise AssertionError("Batch size is required to be larger than 0!")
        self.datapipe, self.batch_size, self.drop_last = datapipe, batch_size, drop_last
        self.wrapper_class = wrapper_class

    def __iter__(self) -> Iterator[Any]:
        batch: list[Any] = []
        for item in self.datapipe:
            batch.append(item)
            if len(batch) == self.batch_size:
                yield self.wrapper_class(batch)
                batch = []
        if batch and not self.drop_last:
            yield self.wrapper_class(batch)

    def __len__(self) -> int:
        return batches(self)


@functional_datapipe("unbatch")
class UnBatcherIterDataPipe(IterDataPipe):
    """The items of batches.

    Args:
        datapipe: The batches.
        unbatch_level: How many levels of batches are taken apart; -1: all.

    Raises:
        IndexError: In iteration: there are fewer levels.
        ValueError: In iteration: the level is below -1.
    """

    def __init__(self, datapipe: Any, unbatch_level: int = 1) -> None:
        """Keep the level."""
        self.datapipe, self.unbatch_level = datapipe, unbatch_level

    def __iter__(self) -> Iterator[Any]:
        for element in self.datapipe:
            yield from self._items(element, self.unbatch_level)

    def _items(self, element: Any, level: int) -> Iterator[Any]:
        if level < -1:
            raise ValueError("unbatch_level must be -1 or >= 0")
        is_batch = isinstance(element, list)
        if level == 0 or (level == -1 and not is_batch):
            yield element
            return
        if not is_batch:
            raise IndexError(f"unbatch_level {self.unbatch_level} exceeds the depth of the DataPipe")
        for item in element:
            yield from self._items(item, level if level == -1 else level - 1)


@functional_datapipe("groupby")
class GrouperIterDataPipe(IterDataPipe):
    """Batches of the items that have the same key.

    Args:
        datapipe: The items.
        group_key_fn: Returns an item's key.
        keep_key: Whether (key, batch) is given in place of the batch.
        buffer_size: How many items wait at most: the greatest group of a full buffer is given.
        group_size: How many items a batch has at most.
        guaranteed_group_size: How many items a batch has at least, but those at the end.
        drop_remaining: Whether a full buffer's group that is too small is dropped, where else RuntimeError is raised.
    """

    def __init__(
        self,
        datapipe: Any,
        group_key_fn: Callable[[Any], Any],
        *,
        keep_key: bool = False,
        buffer_size: int = 10000,
        group_size: int | None = None,
        guaranteed_group_size: int | None = None,
        drop_remaining: bool = False,
    ) -> None:
        """Check the sizes."""
        if group_size is not None and buffer_size is not None and not 0 < group_size <= buffer_size:
            raise AssertionError("group_size must be > 0 and <= buffer_size")
        if guaranteed_group_size is not None and (group_size is None or not 0 < guaranteed_group_size <= group_size):
            raise AssertionError("guaranteed_group_size must be > 0 and <= group_size and group_size must be set")
        self.datapipe, self.group_key_fn, self.keep_key = datapipe, group_key_fn, keep_key
        self.max_buffer_size, self.group_size, self.drop_remaining = buffer_size, group_size, drop_remaining
        self.guaranteed_group_size = guaranteed_group_size if guaranteed_group_size is not None else group_size

    def __iter__(self) -> Iterator[Any]:
        groups: dict[Any, list[Any]] = {}
        waiting = 0

        def take(key: Any) -> Any:
            nonlocal waiting
            batch = groups.pop(key)
            waiting -= len(batch)
            return (key, DataChunk(batch)) if self.keep_key else DataChunk(batch)

        for item in self.datapipe:
            key = self.group_key_fn(item)
            groups.setdefault(key, []).append(item)
            waiting += 1
            if self.group_size == len(groups[key]):
                yield take(key)
            if waiting == self.max_buffer_size:
                greatest = max(groups, key=lambda k: len(groups[k]))
                enough = self.guaranteed_group_size is None or len(groups[greatest]) >= self.guaranteed_group_size
                if not enough and not self.drop_remaining:
                    raise RuntimeError("Failed to group items", str(groups[greatest]))
                batch = take(greatest)
                if enough:
                    yield batch
        for key in tuple(groups):
            yield take(key)
