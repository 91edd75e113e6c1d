"""``randint`` and ``random_`` draw evenly from ranges of any size."""

from __future__ import annotations

import pytest
import torch

import torchlette.torch as facade

RANGES = [
    (0, 2**31),
    (0, 2**32),
    (-(2**31), 2**31),
    (-5, 2**40),
    (0, 2**63 - 1),
    (-(2**62), 2**62),
    (-(2**63), 5),
    (-(2**63), 2**63 - 1),
]


@pytest.mark.parametrize(("low", "high"), RANGES)
def test_draws_fill_their_range(low: int, high: int, device: str) -> None:
    """Each eighth of the range gets about an eighth of the draws, and no value lies outside."""
    facade.manual_seed(3)
    count, parts = 4096, 8
    drawn = facade.randint(low, high, (count,), device=device).tolist()
    assert min(drawn) >= low and max(drawn) < high
    found = [0] * parts
    for value in drawn:
        found[(value - low) * parts // (high - low)] += 1
    # Six standard deviations of a binomial of probability 1/8.
    assert max(abs(n - count / parts) for n in found) < 6 * (count * 7 / 64) ** 0.5


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "int64", "float32", "float64", "uint64"])
def test_random_draws_all_that_a_dtype_holds(dtype: str) -> None:
    """The greatest of many draws is near the greatest that PyTorch draws."""
    facade.manual_seed(3)
    x = facade.empty(2000, dtype=getattr(facade, dtype), device="cpu").random_().double()
    most = {"float32": 2.0**24, "float64": 2.0**53}.get(dtype)
    if most is None:
        most = float(min(torch.iinfo(getattr(torch, dtype)).max, 2**63 - 1))
    assert x.min() >= 0 and 0.98 * most < x.max().item() <= most
