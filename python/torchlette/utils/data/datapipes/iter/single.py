"""Pipes that read one pipe, item by item."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator
from typing import Any

from torchlette import _C
from torchlette.utils.data.collate import default_collate
from torchlette.utils.data.datapipes._decorator import functional_datapipe
from torchlette.utils.data.datapipes.datapipe import IterDataPipe, length
from torchlette.utils.data.sampler import SequentialSampler

__all__ = [
    "CollatorIterDataPipe",
    "FilterIterDataPipe",
    "IterableWrapperIterDataPipe",
    "MapperIterDataPipe",
    "SamplerIterDataPipe",
    "ShardingFilterIterDataPipe",
    "ShufflerIterDataPipe",
]


class IterableWrapperIterDataPipe(IterDataPipe):
    """The items of an iterable.

    Args:
        iterable: The items.
        deepcopy: Whether each iteration reads a copy of it.
    """

    def __init__(self, iterable: Any, deepcopy: bool = True) -> None:
        """Keep the iterable."""
        self.iterable, self.deepcopy = iterable, deepcopy

    def __iter__(self) -> Iterator[Any]:
        source = self.iterable
        if self.deepcopy:
            try:
                source = copy.deepcopy(source)
            except TypeError:  # a generator, a file
                pass
        yield from source

    def __len__(self) -> int:
        return length(self, self.iterable)


def arguments(item: Any, columns: Any) -> tuple[Any, ...]:
    """Return what a function gets of an item: the item, one of its columns, or several."""
    if columns is None:
        return (item,)
    return tuple(item[c] for c in columns) if isinstance(columns, (list, tuple)) else (item[columns],)


def applied(fn: Callable[..., Any], item: Any, inputs: Any, outputs: Any) -> Any:
    """Return ``fn`` of an item; of its columns ``inputs``, put into its column ``outputs``, where they are given."""
    if inputs is None and outputs is None:
        return fn(item)
    result = fn(*arguments(item, inputs))
    is_tuple = isinstance(item, tuple)
    columns = list(item) if is_tuple else copy.copy(item)
    if outputs is None:
        if isinstance(inputs, (list, tuple)):
            columns[inputs[0]] = result
            for column in sorted(inputs[1:], reverse=True):
                del columns[column]
        else:
            columns[inputs] = result
    elif outputs == -1:
        columns.append(result)
    else:
        columns[outputs[0] if isinstance(outputs, (list, tuple)) else outputs] = result
    return tuple(columns) if is_tuple else columns


@functional_datapipe("map")
class MapperIterDataPipe(IterDataPipe):
    """A function of each item.

    Args:
        datapipe: The items.
        fn: The function.
        input_col: The index, key, or list of them, of what the function gets of an item; None: the item.
        output_col: Where the result goes; None: in place of the input; -1: behind the last.

    Raises:
        ValueError: ``output_col`` without ``input_col``, or several of it.
    """

    def __init__(self, datapipe: Any, fn: Callable[..., Any], input_col: Any = None, output_col: Any = None) -> None:
        """Keep the function."""
        if input_col is None and output_col is not None:
            raise ValueError("`output_col` must be None when `input_col` is None.")
        if isinstance(output_col, (list, tuple)) and len(output_col) > 1:
            raise ValueError("`output_col` must be a single-element list or tuple")
        self.datapipe, self.fn, self.input_col = datapipe, fn, input_col
        self.output_col = output_col[0] if isinstance(output_col, (list, tuple)) else output_col

    def __iter__(self) -> Iterator[Any]:
        for item in self.datapipe:
            yield applied(self.fn, item, self.input_col, self.output_col)

    def __len__(self) -> int:
        return length(self, self.datapipe)


@functional_datapipe("collate")
class CollatorIterDataPipe(MapperIterDataPipe):
    """Batches as tensors.

    Args:
        datapipe: The batches.
        conversion: As ``collate_fn``.
        collate_fn: Makes one object of a list of items; None: ``default_collate``.
    """

    def __init__(self, datapipe: Any, conversion: Any = None, collate_fn: Callable[[Any], Any] | None = None) -> None:
        """Keep the function."""
        super().__init__(datapipe, collate_fn or conversion or default_collate)


@functional_datapipe("filter")
class FilterIterDataPipe(IterDataPipe):
    """The items for which a function returns True.

    Args:
        datapipe: The items.
        filter_fn: The function.
        input_col: What the function gets of an item, as for ``map``.

    Raises:
        ValueError: In iteration: the function returned no bool.
    """

    def __init__(self, datapipe: Any, filter_fn: Callable[..., Any], input_col: Any = None) -> None:
        """Keep the function."""
        self.datapipe, self.filter_fn, self.input_col = datapipe, filter_fn, input_col

    def __iter__(self) -> Iterator[Any]:
        for item in self.datapipe:
            keep = self.filter_fn(*arguments(item, self.input_col))
            if not isinstance(keep, bool):
                raise ValueError(f"Boolean output is required for `filter_fn` of FilterIterDataPipe, got {type(keep)}")
            if keep:
                yield item


@functional_datapipe("shuffle")
class ShufflerIterDataPipe(IterDataPipe):
    """The items in an order drawn within a buffer.

    Args:
        datapipe: The items.
        buffer_size: How many items are in the buffer from which the next is drawn.
        unbatch_level: How many levels of batches are taken apart first.
    """

    def __init__(self, datapipe: Any, *, buffer_size: int = 10000, unbatch_level: int = 0) -> None:
        """Begin with an empty buffer."""
        if buffer_size <= 0:
            raise AssertionError("buffer_size should be larger than 0")
        self.datapipe = datapipe.unbatch(unbatch_level=unbatch_level) if unbatch_level else datapipe
        self.buffer_size = buffer_size
        self._enabled, self._rng = True, random.Random()
        self._seed: int | None = None

    def set_shuffle(self, shuffle: bool = True) -> Any:
        """Switch the draws on or off; return the pipe."""
        self._enabled = shuffle
        return self

    def set_seed(self, seed: int) -> Any:
        """Set the seed of the next iteration; return the pipe."""
        self._seed = seed
        return self

    def reset(self) -> None:
        """Seed the draws: from the library's generator unless :meth:`set_seed` was called."""
        if self._enabled:
            seed = self._seed
            self._rng.seed(_C.randint(0, 2**31, ()).item() if seed is None else seed)
            self._seed = None

    def __iter__(self) -> Iterator[Any]:
        if not self._enabled:
            yield from self.datapipe
            return
        buffer: list[Any] = []
        for item in self.datapipe:
            if len(buffer) == self.buffer_size:
                at = self._rng.randint(0, len(buffer) - 1)
                drawn, buffer[at] = buffer[at], item
                yield drawn
            else:
                buffer.append(item)
        while buffer:
            yield buffer.pop(self._rng.randint(0, len(buffer) - 1))

    def __len__(self) -> int:
        return length(self, self.datapipe)


class SamplerIterDataPipe(IterDataPipe):
    """What a sampler of a pipe gives.

    Args:
        datapipe: The sampler's source: it must have a length.
        sampler: The sampler's class.
        sampler_args: Its positional arguments.
        sampler_kwargs: Its keyword arguments.
    """

    def __init__(
        self, datapipe: Any, sampler: Any = SequentialSampler, sampler_args: Any = None, sampler_kwargs: Any = None
    ) -> None:
        """Make the sampler."""
        if not hasattr(datapipe, "__len__"):
            raise AssertionError("Sampler class requires input datapipe implemented `__len__`")
        self.datapipe = datapipe
        self.sampler = sampler(*(sampler_args or ()), **{**(sampler_kwargs or {}), "data_source": datapipe})

    def __iter__(self) -> Iterator[Any]:
        return iter(self.sampler)

    def __len__(self) -> int:
        return length(self, self.sampler)


@functional_datapipe("sharding_filter")
class ShardingFilterIterDataPipe(IterDataPipe):
    """Every n-th item, for each of n workers another: a ``DataLoader`` with workers says which.

    Args:
        source_datapipe: The items.
    """

    def __init__(self, source_datapipe: Any, sharding_group_filter: Any = None) -> None:
        """Begin with one worker."""
        self.source_datapipe = source_datapipe
        self.num_of_instances, self.instance_id = 1, 0

    def apply_sharding(self, num_of_instances: int, instance_id: int, sharding_group: Any = None) -> None:
        """Choose the items of one worker.

        Args:
            num_of_instances: The number of workers.
            instance_id: The number of this worker.
            sharding_group: Accepted for compatibility: there is one group of workers.
        """
        if instance_id >= num_of_instances:
            raise ValueError(f"instance_id({instance_id}) should be smaller than num_of_instances({num_of_instances})")
        self.num_of_instances, self.instance_id = num_of_instances, instance_id

    def __iter__(self) -> Iterator[Any]:
        for i, item in enumerate(self.source_datapipe):
            if i % self.num_of_instances == self.instance_id:
                yield item

    def __len__(self) -> int:
        whole, rest = divmod(length(self, self.source_datapipe), self.num_of_instances)
        return whole + (self.instance_id < rest)
