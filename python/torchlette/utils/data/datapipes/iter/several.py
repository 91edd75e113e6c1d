"""Pipes that read several pipes, and pipes that several read."""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from torchlette.utils.data.datapipes._decorator import functional_datapipe
from torchlette.utils.data.datapipes.datapipe import IterDataPipe, check_pipes, length

__all__ = [
    "ConcaterIterDataPipe",
    "DemultiplexerIterDataPipe",
    "ForkerIterDataPipe",
    "MultiplexerIterDataPipe",
    "ZipperIterDataPipe",
]


@functional_datapipe("concat")
class ConcaterIterDataPipe(IterDataPipe):
    """The items of pipes one after the other.

    Args:
        datapipes: The pipes.
    """

    def __init__(self, *datapipes: Any) -> None:
        """Check the pipes."""
        check_pipes(IterDataPipe, datapipes)
        self.datapipes = datapipes

    def __iter__(self) -> Iterator[Any]:
        for pipe in self.datapipes:
            yield from pipe

    def __len__(self) -> int:
        return sum(length(self, pipe) for pipe in self.datapipes)


@functional_datapipe("zip")
class ZipperIterDataPipe(IterDataPipe):
    """Tuples of the items of pipes, to the end of the shortest.

    Args:
        datapipes: The pipes.
    """

    def __init__(self, *datapipes: Any) -> None:
        """Check the pipes."""
        if not all(isinstance(pipe, IterDataPipe) for pipe in datapipes):
            raise TypeError("All inputs are required to be `IterDataPipe` for `ZipIterDataPipe`.")
        self.datapipes = datapipes

    def __iter__(self) -> Iterator[Any]:
        yield from zip(*self.datapipes, strict=False)

    def __len__(self) -> int:
        return min(length(self, pipe) for pipe in self.datapipes)


@functional_datapipe("mux")
class MultiplexerIterDataPipe(IterDataPipe):
    """One item of each pipe in turn, to the end of the shortest.

    Args:
        datapipes: The pipes.
    """

    def __init__(self, *datapipes: Any) -> None:
        """Keep the pipes."""
        self.datapipes = datapipes

    def __iter__(self) -> Iterator[Any]:
        for items in zip(*self.datapipes, strict=False):
            yield from items

    def __len__(self) -> int:
        return len(self.datapipes) * min(length(self, pipe) for pipe in self.datapipes)


class _Shared:
    """A pipe that several read, with the items that wait for each."""

    def __init__(self, datapipe: Any, readers: int, buffer_size: int) -> None:
        if readers < 1:
            raise ValueError(f"Expected `num_instances` larger than 0, but {readers} is found")
        self.datapipe, self.buffer_size, self.round = datapipe, buffer_size, 0
        self.waiting: list[deque[Any]] = [deque() for _ in range(readers)]
        self.items: Any = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "items": None}

    def restart(self) -> None:
        self.round += 1
        self.items = iter(self.datapipe)
        for waiting in self.waiting:
            waiting.clear()

    def give(self, reader: int, item: Any) -> None:
        """Put an item where it is wanted, after ``reader`` asked."""
        raise NotImplementedError


class _Forked(_Shared):
    copies: Callable[[Any], Any] | None = None

    def give(self, reader: int, item: Any) -> None:
        for number, waiting in enumerate(self.waiting):
            waiting.append(item if self.copies is None else self.copies(item))
            if number != reader and 0 <= self.buffer_size < len(waiting):
                raise BufferError(f"ForkerIterDataPipe buffer overflow,buffer size {self.buffer_size} is insufficient.")


class _Divided(_Shared):
    classify: Callable[[Any], Any]
    drop_none = False

    def give(self, reader: int, item: Any) -> None:
        kind = self.classify(item)
        if kind is None and self.drop_none:
            return
        if kind is None or not 0 <= kind < len(self.waiting):
            raise ValueError(
                f"Output of the classification fn should be between 0 and {len(self.waiting) - 1}. {kind} is returned."
            )
        self.waiting[kind].append(item)
        if kind != reader and 0 <= self.buffer_size < sum(map(len, self.waiting)):
            raise BufferError(
                f"DemultiplexerIterDataPipe buffer overflow, buffer size {self.buffer_size} is insufficient."
            )


class _Reader(IterDataPipe):
    """One of the pipes that read a shared one. The second iteration of any begins a new one of all."""

    def __init__(self, shared: _Shared, datapipe: Any, number: int) -> None:
        self.shared, self.main_datapipe, self.instance_id, self._round = shared, datapipe, number, 0

    def reset(self) -> None:
        if self._round == self.shared.round:
            self.shared.restart()
        self._round = self.shared.round

    def __iter__(self) -> Iterator[Any]:
        shared, waiting = self.shared, self.shared.waiting[self.instance_id]
        while True:
            if self._round != shared.round:
                raise RuntimeError(
                    "This iterator has been invalidated because another iterator has been created from the same "
                    f"IterDataPipe: {self!r}"
                )
            while not waiting:
                try:
                    item = next(shared.items)
                except StopIteration:
                    return
                shared.give(self.instance_id, item)
            yield waiting.popleft()

    def __len__(self) -> int:
        return length(self, self.main_datapipe if isinstance(self.shared, _Forked) else None)


@functional_datapipe("fork")
class ForkerIterDataPipe(IterDataPipe):
    """Pipes with the same items, which are read once: the class returns a list of them.

    Args:
        datapipe: The items.
        num_instances: How many pipes.
        buffer_size: How many items one pipe may be behind another, else BufferError; -1: any number.
        copy: Whether each pipe gets copies: None, "shallow" or "deep".
    """

    def __new__(cls, datapipe: Any, num_instances: int, buffer_size: int = 1000, copy: str | None = None) -> Any:
        """Return the pipes."""
        if copy not in (None, "shallow", "deep"):
            raise ValueError(f"Unknown copy method `{copy}` requested, choose one of None, `shallow` or `deep`.")
        shared = _Forked(datapipe, num_instances, buffer_size)
        shared.copies = {None: None, "shallow": _shallow, "deep": _deep}[copy]
        return datapipe if num_instances == 1 else [_Reader(shared, datapipe, i) for i in range(num_instances)]


_shallow, _deep = copy.copy, copy.deepcopy


@functional_datapipe("demux")
class DemultiplexerIterDataPipe(IterDataPipe):
    """Pipes among which items are divided: the class returns a list of them.

    Args:
        datapipe: The items.
        num_instances: How many pipes.
        classifier_fn: Returns the number of an item's pipe.
        drop_none: Whether items for which it returns None are left out.
        buffer_size: How many items may wait, else BufferError; -1: any number.
    """

    def __new__(
        cls,
        datapipe: Any,
        num_instances: int,
        classifier_fn: Callable[[Any], Any],
        drop_none: bool = False,
        buffer_size: int = 1000,
    ) -> Any:
        """Return the pipes."""
        shared = _Divided(datapipe, num_instances, buffer_size)
        shared.classify, shared.drop_none = classifier_fn, drop_none
        return [_Reader(shared, datapipe, i) for i in range(num_instances)]
