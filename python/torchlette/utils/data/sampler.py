"""Samplers: iterables of indices."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence, Sized
from typing import Any, Generic, TypeVar

from torchlette import _C
from torchlette._runtime.random import Generator, default_generator

__all__ = [
    "BatchSampler",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "SubsetRandomSampler",
    "WeightedRandomSampler",
    "permutation",
]

Index = TypeVar("Index", covariant=True)


def permutation(n: int, generator: Generator | None = None) -> list[int]:
    """Return the numbers below ``n`` in random order.

    Samplers draw on the host: an index is needed at once, and sampling leaves the engine's Philox offsets unchanged.
    """
    order = list(range(n))
    (default_generator if generator is None else generator).host.shuffle(order)
    return order


class Sampler(Generic[Index]):
    """Base class: a subclass gives ``__iter__`` over indices."""

    def __iter__(self) -> Iterator[Index]:
        raise NotImplementedError(f"{type(self).__name__} does not implement __iter__")


class SequentialSampler(Sampler[int]):
    """Indices in order."""

    def __init__(self, data_source: Sized) -> None:
        """Keep the source."""
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler[int]):
    """Indices at random.

    Args:
        data_source: The dataset to sample.
        replacement: Whether an index may be drawn again.
        num_samples: How many; the length of the source by default.
        generator: Source of randomness; the default one follows ``manual_seed``.
    """

    def __init__(
        self,
        data_source: Sized,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: Generator | None = None,
    ) -> None:
        """Check the options."""
        self.data_source = data_source
        self.replacement = replacement
        self._num_samples = num_samples
        self.generator = generator
        if not isinstance(replacement, bool):
            raise TypeError(f"replacement should be a boolean value, but got replacement={replacement}")
        if not isinstance(self.num_samples, int) or self.num_samples <= 0:
            raise ValueError(f"num_samples should be a positive integer value, but got num_samples={self.num_samples}")

    @property
    def num_samples(self) -> int:
        """The number of indices of one pass."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        n = len(self.data_source)
        if self.replacement:
            host = (default_generator if self.generator is None else self.generator).host
            for _ in range(self.num_samples):
                yield host.randrange(n)
            return
        left = self.num_samples
        while left > 0 and n > 0:
            yield from permutation(n, self.generator)[:left]
            left -= n

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler[int]):
    """Given indices in random order."""

    def __init__(self, indices: Sequence[int], generator: Generator | None = None) -> None:
        """Keep the indices."""
        self.indices = indices
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        for i in permutation(len(self.indices), self.generator):
            yield self.indices[i]

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler[int]):
    """Indices with probabilities in proportion to weights.

    Args:
        weights: One for each index; they need not add up to 1.
        num_samples: How many indices.
        replacement: Whether an index may be drawn again.
        generator: Source of randomness.
    """

    def __init__(
        self, weights: Sequence[float], num_samples: int, replacement: bool = True, generator: Generator | None = None
    ) -> None:
        """Check the options."""
        if not isinstance(num_samples, int) or isinstance(num_samples, bool) or num_samples <= 0:
            raise ValueError(f"num_samples should be a positive integer value, but got num_samples={num_samples}")
        if not isinstance(replacement, bool):
            raise ValueError(f"replacement should be a boolean value, but got replacement={replacement}")
        self.weights = [float(w) for w in (weights.tolist() if isinstance(weights, _C.Tensor) else weights)]
        self.num_samples = num_samples
        self.replacement = replacement
        self.generator = generator
        if not replacement and sum(w > 0 for w in self.weights) < num_samples:
            raise ValueError(
                f"{num_samples} samples without replacement need as many weights above zero, got "
                f"{sum(w > 0 for w in self.weights)}"
            )

    def __iter__(self) -> Iterator[int]:
        host = (default_generator if self.generator is None else self.generator).host
        if self.replacement:
            return iter(host.choices(range(len(self.weights)), self.weights, k=self.num_samples))
        # The largest u^(1/w) give a sample without replacement (Efraimidis and Spirakis, 2006).
        keys = [(host.random() ** (1 / w), i) for i, w in enumerate(self.weights) if w > 0]
        return iter([i for _, i in sorted(keys, reverse=True)[: self.num_samples]])

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler[list[int]]):
    """Lists of ``batch_size`` indices of another sampler; a short last one may be dropped.

    Args:
        sampler: Gives indices.
        batch_size: Indices of a batch.
        drop_last: Whether a last batch of fewer is left out.
    """

    def __init__(self, sampler: Iterable[Any], batch_size: int, drop_last: bool) -> None:
        """Check the options."""
        if not isinstance(batch_size, int) or isinstance(batch_size, bool) or batch_size <= 0:
            raise ValueError(f"batch_size should be a positive integer value, but got batch_size={batch_size}")
        if not isinstance(drop_last, bool):
            raise ValueError(f"drop_last should be a boolean value, but got drop_last={drop_last}")
        self.sampler = sampler
        self.batch_size = batch_size
        self.drop_last = drop_last

    def __iter__(self) -> Iterator[list[int]]:
        indices = iter(self.sampler)
        while batch := list(itertools.islice(indices, self.batch_size)):
            if len(batch) == self.batch_size or not self.drop_last:
                yield batch

    def __len__(self) -> int:
        full, rest = divmod(len(self.sampler), self.batch_size)  # type: ignore[arg-type]
        return full if self.drop_last or not rest else full + 1
