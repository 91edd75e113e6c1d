"""Kernels whose loops would be longer than a software driver lets them be: Mesa ends those of a thread after 65,535."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import torchlette.torch as facade

pytestmark = pytest.mark.usefixtures("wgpu")


def numbers(*shape: int) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(5).random(shape, dtype=np.float32))


def both(f: Callable[..., Any], *args: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    got = f(facade, *[facade.from_numpy(a.numpy()).to("wgpu") for a in args])
    return torch.from_numpy(got.detach().to("cpu").numpy()), f(torch, *[a.double() for a in args])


CASES: dict[str, tuple[Callable[..., Any], list[tuple[int, ...]]]] = {
    "a sum of all": (lambda m, x: x.sum(), [(20_000_000,)]),
    "a sum of columns": (lambda m, x: x.sum(0), [(3_000_000, 2)]),
    "the greatest": (lambda m, x: x.argmax(), [(5_000_000,)]),
    "a variance": (lambda m, x: x.var(1), [(1, 20_000_000)]),
    "a batch norm": (lambda m, x: m.nn.functional.batch_norm(x, None, None, training=True), [(2_000_000, 3)]),
    "running sums": (lambda m, x: (x - 0.5).cumsum(0) / 100, [(5_000_000,)]),
    "running sums of columns": (lambda m, x: (x - 0.5).cumsum(0) / 100, [(1_500_000, 2)]),
    "a product by element": (lambda m, x, y: x @ y, [(2, 700_000), (700_000, 2)]),
    "a product in tiles": (lambda m, x, y: x @ y, [(5, 700_000), (700_000, 5)]),
    "a weight's gradient": (lambda m, x, y: x.T @ y, [(700_000, 6), (700_000, 2)]),
    "a product with a vector": (lambda m, x, y: x @ y, [(1, 20_000_000), (20_000_000,)]),
    "r of a tall matrix": (lambda m, x: m.linalg.qr(x)[1].abs(), [(20_000, 16)]),
    "lu of a tall matrix": (lambda m, x: m.linalg.lu_factor(x)[0][:20], [(150_000, 16)]),
}


@pytest.mark.parametrize("name", CASES)
def test_long_kernels_have_the_values_of_float64(name: str) -> None:
    f, shapes = CASES[name]
    got, want = both(f, *[numbers(*s) for s in shapes])
    torch.testing.assert_close(got.double(), want.double(), rtol=1e-3, atol=1e-4)


def test_attention_over_more_keys_than_a_software_driver_walks_is_refused() -> None:
    """It would leave out keys. A GPU has no such limit."""
    q, k, v = numbers(1, 1, 2, 4), numbers(1, 1, 600_000, 4), numbers(1, 1, 600_000, 4)
    try:
        got, want = both(lambda m, *a: m.nn.functional.scaled_dot_product_attention(*a), q, k * 8, v)
    except RuntimeError as e:
        assert "too long for wgpu:0: a thread has" in str(e)
        assert "move its operands to the CPU" in str(e)
    else:
        torch.testing.assert_close(got.double(), want, rtol=1e-3, atol=1e-4)
