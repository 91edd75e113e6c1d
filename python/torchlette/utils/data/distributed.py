"""A sampler for one of several processes."""

from __future__ import annotations

from collections.abc import Iterator, Sized

from torchlette._runtime.random import Generator
from torchlette.utils.data.sampler import Sampler, permutation

__all__ = ["DistributedSampler"]


class DistributedSampler(Sampler[int]):
    """Every ``num_replicas``-th index from ``rank`` on, so that each process sees a part of the data.

    Args:
        dataset: The dataset to sample.
        num_replicas: How many processes there are.
        rank: The number of this one.
        shuffle: Whether to draw a new order for each epoch, the same in all processes.
        seed: The seed of the orders.
        drop_last: Whether unequal parts are shortened by dropping indices, instead of filled by repeating some.
    """

    def __init__(
        self,
        dataset: Sized,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        """Check the numbers; without process groups they have no defaults."""
        if num_replicas is None or rank is None:
            raise RuntimeError(
                "DistributedSampler: there is no process group: got num_replicas or rank None, want both given"
            )
        if not 0 <= rank < num_replicas:
            raise ValueError(f"Invalid rank {rank}, rank should be in the interval [0, {num_replicas - 1}]")
        self.dataset, self.num_replicas, self.rank = dataset, num_replicas, rank
        self.shuffle, self.seed, self.drop_last, self.epoch = shuffle, seed, drop_last, 0
        whole = len(dataset) // num_replicas
        self.num_samples = whole if drop_last or len(dataset) % num_replicas == 0 else whole + 1
        self.total_size = self.num_samples * num_replicas

    def __iter__(self) -> Iterator[int]:
        n = len(self.dataset)
        order = permutation(n, Generator().manual_seed(self.seed + self.epoch)) if self.shuffle else list(range(n))
        order = (order * (-(-self.total_size // max(n, 1))))[: self.total_size]
        return iter(order[self.rank :: self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Choose the order of the next pass."""
        self.epoch = epoch
