"""Pipes of items by key."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from itertools import accumulate
from typing import Any

from torchlette.utils.data.datapipes._decorator import functional_datapipe
from torchlette.utils.data.datapipes.datapipe import DataChunk, MapDataPipe, batches, check_pipes, length
from torchlette.utils.data.datapipes.iter.single import ShufflerIterDataPipe

__all__ = ["Batcher", "Concater", "Mapper", "SequenceWrapper", "Shuffler", "Zipper"]


class SequenceWrapper(MapDataPipe):
    """The items of a sequence or a mapping.

    Args:
        sequence: The items.
        deepcopy: Whether a copy of it is kept.
    """

    def __init__(self, sequence: Any, deepcopy: bool = True) -> None:
        """Keep the sequence."""
        self.sequence = copy.deepcopy(sequence) if deepcopy else sequence

    def __getitem__(self, index: Any) -> Any:
        return self.sequence[index]

    def __len__(self) -> int:
        return length(self, self.sequence)


@functional_datapipe("map")
class Mapper(MapDataPipe):
    """A function of each item.

    Args:
        datapipe: The items.
        fn: The function; by default none.
    """

    def __init__(self, datapipe: Any, fn: Callable[[Any], Any] = lambda item: item) -> None:
        """Keep the function."""
        self.datapipe, self.fn = datapipe, fn

    def __getitem__(self, index: Any) -> Any:
        return self.fn(self.datapipe[index])

    def __len__(self) -> int:
        return length(self, self.datapipe)


class Shuffler(ShufflerIterDataPipe):
    """The items of a pipe by key, one after the other in a drawn order.

    Args:
        datapipe: The items.
        indices: Their keys; None: 0 to the length.
    """

    def __init__(self, datapipe: Any, *, indices: list[Any] | None = None) -> None:
        """Keep the keys."""
        super().__init__(datapipe)
        self.indices = list(range(len(datapipe))) if indices is None else indices

    def __iter__(self) -> Iterator[Any]:
        order = self._rng.sample(self.indices, len(self.indices))[::-1] if self._enabled else self.indices
        for index in order:
            yield self.datapipe[index]


MapDataPipe.register_datapipe_as_function("shuffle", Shuffler)


@functional_datapipe("concat")
class Concater(MapDataPipe):
    """The items of pipes one after the other, by number.

    Args:
        datapipes: The pipes.
    """

    def __init__(self, *datapipes: Any) -> None:
        """Check the pipes."""
        check_pipes(MapDataPipe, datapipes)
        self.datapipes = datapipes

    def __getitem__(self, index: int) -> Any:
        before = 0
        for pipe, end in zip(self.datapipes, accumulate(length(self, p) for p in self.datapipes), strict=True):
            if index < end:
                return pipe[index - before]
            before = end
        raise IndexError(f"Index {index} is out of range.")

    def __len__(self) -> int:
        return sum(length(self, pipe) for pipe in self.datapipes)


@functional_datapipe("zip")
class Zipper(MapDataPipe):
    """Tuples of the items of pipes under the same key.

    Args:
        datapipes: The pipes.
    """

    def __init__(self, *datapipes: Any) -> None:
        """Check the pipes."""
        check_pipes(MapDataPipe, datapipes)
        self.datapipes = datapipes

    def __getitem__(self, index: Any) -> tuple[Any, ...]:
        try:
            return tuple(pipe[index] for pipe in self.datapipes)
        except IndexError as error:
            raise IndexError(f"Index {index} is out of range for one of the input MapDataPipes.") from error

    def __len__(self) -> int:
        return min(length(self, pipe) for pipe in self.datapipes)


@functional_datapipe("batch")
class Batcher(MapDataPipe):
    """Lists of items, by number.

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

    def __getitem__(self, index: int) -> Any:
        start = index * self.batch_size
        if not 0 <= index < len(self):
            raise IndexError(f"Index {index} is out of bound.")
        end = min(start + self.batch_size, length(self, self.datapipe))
        return self.wrapper_class([self.datapipe[i] for i in range(start, end)])

    def __len__(self) -> int:
        return batches(self)
