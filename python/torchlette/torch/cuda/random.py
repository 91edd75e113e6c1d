"""``torch.cuda.random``: all devices share the generator of the CPU."""

from __future__ import annotations

from typing import Any

from torchlette._runtime import random as _random
from torchlette._runtime.gpus import cuda_count
from torchlette._runtime.random import initial_seed, manual_seed, seed
from torchlette.torch.cuda.streams import index_of

__all__ = [
    "get_rng_state",
    "get_rng_state_all",
    "initial_seed",
    "manual_seed",
    "manual_seed_all",
    "seed",
    "seed_all",
    "set_rng_state",
    "set_rng_state_all",
]


def manual_seed_all(seed: int) -> None:
    """Seed all random numbers: the devices share one generator."""
    manual_seed(seed)


def seed_all() -> None:
    """Seed all random numbers from the operating system."""
    seed()


def get_rng_state(device: Any = "cuda") -> Any:
    """Return the state of the random numbers, which all devices share."""
    index_of(device, "get_rng_state")
    return _random.get_rng_state()


def set_rng_state(new_state: Any, device: Any = "cuda") -> None:
    """Go back to a state of :func:`get_rng_state`."""
    index_of(device, "set_rng_state")
    _random.set_rng_state(new_state)


def get_rng_state_all() -> list[Any]:
    """Return the state of each GPU."""
    return [_random.get_rng_state()] * cuda_count()


def set_rng_state_all(new_states: Any) -> None:
    """Go back to the states of :func:`get_rng_state_all`."""
    for state in new_states:
        _random.set_rng_state(state)
