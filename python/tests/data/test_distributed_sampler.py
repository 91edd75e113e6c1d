"""The parts that a distributed sampler gives to each process are PyTorch's."""

from __future__ import annotations

import torch

import torchlette


def test_distributed_sampler() -> None:
    """The parts of all processes are the data; an unshuffled part is PyTorch's."""
    data = list(range(10))
    for drop_last in (False, True):
        parts = []
        for rank in range(3):
            want, got = (
                lib.utils.data.DistributedSampler(data, 3, rank, shuffle=False, drop_last=drop_last)
                for lib in (torch, torchlette)
            )
            assert list(got) == list(want)
            assert len(got) == len(want)
            shuffled = torchlette.utils.data.DistributedSampler(data, 3, rank, drop_last=drop_last)
            shuffled.set_epoch(2)
            parts += list(shuffled)
        assert set(parts) <= set(data)
        assert drop_last or set(parts) == set(data)
