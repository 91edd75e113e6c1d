"""Datasets."""

from __future__ import annotations

import bisect
import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any, Generic, TypeVar

from torchlette import _C
from torchlette.utils.data.sampler import permutation

__all__ = [
    "ChainDataset",
    "ConcatDataset",
    "Dataset",
    "IterableDataset",
    "StackDataset",
    "Subset",
    "TensorDataset",
    "random_split",
]

Item = TypeVar("Item", covariant=True)


class Dataset(Generic[Item]):
    """Items by index: a subclass gives ``__getitem__`` and usually ``__len__``.

    A subclass may give ``__getitems__``, which takes a list of indices and returns a list of items.
    """

    def __getitem__(self, index: Any) -> Item:
        raise NotImplementedError("Subclasses of Dataset should implement __getitem__.")

    def __add__(self, other: Dataset[Any]) -> ConcatDataset[Any]:
        return ConcatDataset([self, other])


class IterableDataset(Dataset[Item]):
    """Items one after the other: a subclass gives ``__iter__``."""

    def __iter__(self) -> Iterator[Item]:
        raise NotImplementedError("Subclasses of IterableDataset should implement __iter__.")

    def __add__(self, other: Dataset[Any]) -> ChainDataset[Any]:  # type: ignore[override]
        return ChainDataset([self, other])  # type: ignore[list-item]


class TensorDataset(Dataset[tuple[Any, ...]]):
    """Tensors of equal first size; an item is a tuple of their rows."""

    def __init__(self, *tensors: _C.Tensor) -> None:
        """Check the sizes."""
        if any(t.shape[0] != tensors[0].shape[0] for t in tensors):
            raise AssertionError("Size mismatch between tensors")
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[_C.Tensor, ...]:
        return tuple(t[index] for t in self.tensors)

    def __len__(self) -> int:
        return self.tensors[0].shape[0]


class StackDataset(Dataset[Any]):
    """Datasets of equal length side by side; an item is a tuple or, from keywords, a dictionary."""

    def __init__(self, *args: Dataset[Any], **kwargs: Dataset[Any]) -> None:
        """Check the lengths."""
        if args and kwargs:
            raise ValueError(
                "Supported either ``tuple``- (via ``args``) or ``dict``- (via ``kwargs``) like input/output, but both "
                "types are given."
            )
        if not args and not kwargs:
            raise ValueError("At least one dataset should be passed")
        self.datasets: Any = args or kwargs
        members = list(args or kwargs.values())
        self._length = len(members[0])  # type: ignore[arg-type]
        if any(len(member) != self._length for member in members):  # type: ignore[arg-type]
            raise ValueError("Size mismatch between datasets")

    def __getitem__(self, index: Any) -> Any:
        if isinstance(self.datasets, dict):
            return {key: dataset[index] for key, dataset in self.datasets.items()}
        return tuple(dataset[index] for dataset in self.datasets)

    def __len__(self) -> int:
        return self._length


class ConcatDataset(Dataset[Item]):
    """Datasets one after the other."""

    def __init__(self, datasets: Iterable[Dataset[Any]]) -> None:
        """Add up the lengths."""
        self.datasets = list(datasets)
        if not self.datasets:
            raise AssertionError("datasets should not be an empty iterable")
        if any(isinstance(d, IterableDataset) for d in self.datasets):
            raise AssertionError("ConcatDataset does not support IterableDataset")
        self.cumulative_sizes = list(accumulate(len(d) for d in self.datasets))  # type: ignore[arg-type]

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, index: int) -> Any:
        if index < 0:
            if -index > len(self):
                raise ValueError("absolute value of index should not exceed dataset length")
            index += len(self)
        which = bisect.bisect_right(self.cumulative_sizes, index)
        return self.datasets[which][index - (self.cumulative_sizes[which - 1] if which else 0)]


class ChainDataset(IterableDataset[Item]):
    """Iterable datasets one after the other."""

    def __init__(self, datasets: Iterable[IterableDataset[Any]]) -> None:
        """Keep the datasets."""
        super().__init__()
        self.datasets = datasets

    def __iter__(self) -> Iterator[Any]:
        for dataset in self.datasets:
            if not isinstance(dataset, IterableDataset):
                raise AssertionError("ChainDataset only supports IterableDataset")
            yield from dataset

    def __len__(self) -> int:
        return sum(len(dataset) for dataset in self.datasets)  # type: ignore[arg-type]


class Subset(Dataset[Item]):
    """The items of a dataset at some indices."""

    def __init__(self, dataset: Dataset[Any], indices: Sequence[int]) -> None:
        """Keep both."""
        self.dataset = dataset
        self.indices = indices

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, list):
            return self.dataset[[self.indices[i] for i in index]]
        return self.dataset[self.indices[index]]

    def __getitems__(self, indices: list[int]) -> list[Any]:
        """Return the items at ``indices`` in one call where the dataset can."""
        inner = [self.indices[i] for i in indices]
        many = getattr(self.dataset, "__getitems__", None)
        return many(inner) if callable(many) else [self.dataset[i] for i in inner]

    def __len__(self) -> int:
        return len(self.indices)


def random_split(dataset: Dataset[Any], lengths: Sequence[float], generator: Any = None) -> list[Subset[Any]]:
    """Split a dataset at random into parts of the given lengths, or fractions that add up to 1.

    Args:
        dataset: The dataset to split.
        lengths: Lengths that add up to the dataset's, or fractions.
        generator: Source of the permutation, see :class:`RandomSampler`.
    """
    size = len(dataset)  # type: ignore[arg-type]
    parts = list(lengths)
    if math.isclose(sum(parts), 1) and sum(parts) <= 1:
        for i, fraction in enumerate(parts):
            if fraction < 0 or fraction > 1:
                raise ValueError(f"Fraction at index {i} is not between 0 and 1")
        parts = [math.floor(size * fraction) for fraction in parts]
        for i in range(size - sum(parts)):  # distribute the remainder, one item to each part
            parts[i % len(parts)] += 1
    if sum(parts) != size:
        raise ValueError("Sum of input lengths does not equal the length of the input dataset!")
    order = permutation(size, generator)
    return [Subset(dataset, order[end - part : end]) for end, part in zip(accumulate(parts), parts, strict=True)]
