"""Random state: seeds and generators.

The engine draws tensors with Philox4x32-10 over (seed, Philox offset, element); a draw takes its Philox offset when it
is recorded. Python code on the host (samplers, splits) draws from a second generator with the same seed.
"""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Iterator

from torchlette import _C

TYPE_CHECKING = False
if TYPE_CHECKING:
    import random
    from typing import Any

__all__ = [
    "Generator",
    "default_generator",
    "fork_rng",
    "get_rng_state",
    "initial_seed",
    "manual_seed",
    "seed",
    "set_rng_state",
]

# Seeds are 64-bit; negative ones wrap, as in PyTorch.
_SEED_MASK = (1 << 64) - 1


class Generator:
    """A source of randomness: for tensor draws as ``generator=``, and for samplers, splits and shuffles."""

    def __init__(self, device: Any = "cpu") -> None:
        """Start with the seed that a new PyTorch generator has."""
        self.device = _C.device(device)
        self._start(67280421310721)

    def _start(self, seed: int) -> None:
        self._seed = int(seed) & _SEED_MASK
        # The state that the engine draws from while this generator is in use; None: the engine's own state.
        self._words: tuple[int, int, int, int] | None = (self._seed, 0, 0, 0)
        self.__dict__.pop("host", None)

    def manual_seed(self, seed: int) -> Generator:
        """Start again from ``seed``."""
        if not hasattr(seed, "__index__"):
            raise RuntimeError(f"manual_seed expected a long, but got {type(seed).__name__}")
        self._start(seed)
        return self

    def clone_state(self) -> Generator:
        """Return a generator that will draw what this one will."""
        copy = Generator(self.device)
        copy._restore(self._state())
        return copy

    @functools.cached_property
    def host(self) -> random.Random:
        """The standard library's generator, made when it is first used."""
        import random

        return random.Random(self._seed)

    def seed(self) -> int:
        """Start again from a seed of the operating system; return it."""
        self.manual_seed(int.from_bytes(os.urandom(8), "little"))
        return self._seed

    def initial_seed(self) -> int:
        """Return the seed."""
        return self._seed

    def get_state(self) -> Any:
        """Return the state as a tensor of uint8, for :meth:`set_state`."""
        import json

        from torchlette.io.dlpack import frombuffer

        return frombuffer(bytearray(json.dumps(self._state()).encode()), dtype=_C.uint8)

    def set_state(self, state: Any) -> Generator:
        """Go back to a state that :meth:`get_state` returned.

        Raises:
            TypeError: ``state`` is no tensor of uint8.
            RuntimeError: ``state`` is not of :meth:`get_state`.
        """
        import json

        if not isinstance(state, _C.Tensor) or state.dtype is not _C.uint8:
            kind = f"a tensor of {state.dtype}" if isinstance(state, _C.Tensor) else type(state).__name__
            raise TypeError(f"expected a torch.ByteTensor, but got {kind}")
        try:
            seed, (version, numbers, gauss), words = json.loads(bytes(state.tolist()))
        except ValueError as error:
            raise RuntimeError("set_state: the state is not of get_state") from error
        self._restore((seed, (version, tuple(numbers), gauss), None if words is None else tuple(words)))
        return self

    def _state(self) -> Any:
        return self._seed, self.host.getstate(), self._words

    def _restore(self, state: Any) -> None:
        self._seed = state[0]
        self.host.setstate(state[1])
        self._words = state[2]


class _DefaultGenerator(Generator):
    """The generator of draws without ``generator=``; the engine holds its state."""

    def _start(self, seed: int) -> None:
        super()._start(seed)
        self._words = None

    def manual_seed(self, seed: int) -> Generator:
        """Start again from ``seed``, here and in the engine."""
        self._start(seed)
        _C._manual_seed(self._seed)
        return self

    def _state(self) -> Any:
        return *super()._state()[:2], _C._rng_state()

    def _restore(self, state: Any) -> None:
        super()._restore(state)
        self._words = None
        _C._set_rng_state(state[2])


default_generator = _DefaultGenerator()


def manual_seed(seed: int) -> Generator:
    """Seed all random numbers, of tensors and of samplers."""
    seed = int(seed)
    if not -0x8000_0000_0000_0000 <= seed <= 0xFFFF_FFFF_FFFF_FFFF:
        raise RuntimeError(f"Overflow when unpacking long long: the seed {seed} is outside [-2^63, 2^64)")
    return default_generator.manual_seed(seed)


def seed() -> int:
    """Seed all random numbers from the operating system; return the seed."""
    value = int.from_bytes(os.urandom(8), "little")
    manual_seed(value)
    return value


def initial_seed() -> int:
    """Return the seed that was set last."""
    return default_generator.initial_seed()


def get_rng_state() -> Any:
    """Return the state of the engine's and of the host's random numbers as a tensor of uint8."""
    return default_generator.get_state()


def set_rng_state(new_state: Any) -> None:
    """Go back to a state that :func:`get_rng_state` returned; see :meth:`Generator.set_state`."""
    default_generator.set_state(new_state)


def saved_state() -> Any:
    """Return the state for :func:`restore_state`, without a tensor."""
    return default_generator._state()


def restore_state(state: Any) -> None:
    """Go back to a state that :func:`saved_state` returned."""
    default_generator._restore(state)


@contextlib.contextmanager
def fork_rng(devices: Any = None, enabled: bool = True) -> Iterator[None]:
    """Put the random state back at the end of a block.

    Args:
        devices: Accepted for compatibility: all devices draw from one state.
        enabled: Whether to do anything.
    """
    state = saved_state() if enabled else None
    try:
        yield
    finally:
        if state is not None:
            restore_state(state)
