"""``torch.cuda`` for scripts that query it: CUDA is not available; the GPU is the device "wgpu"."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace
from typing import Any, NoReturn

from torchlette import _C
from torchlette._runtime.errors import OutOfMemoryError
from torchlette._runtime.random import manual_seed, seed
from torchlette.torch.cuda import amp
from torchlette.torch.tensor_types import on_cuda

__all__ = [
    "CUDAGraph",
    "Event",
    "OutOfMemoryError",
    "Stream",
    "StreamContext",
    "amp",
    "current_device",
    "current_stream",
    "default_stream",
    "device",
    "device_count",
    "empty_cache",
    "get_arch_list",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "get_rng_state",
    "get_rng_state_all",
    "graph",
    "ipc_collect",
    "is_available",
    "is_bf16_supported",
    "is_current_stream_capturing",
    "is_initialized",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_reserved",
    "reset_max_memory_allocated",
    "reset_peak_memory_stats",
    "seed",
    "seed_all",
    "set_device",
    "set_rng_state",
    "set_rng_state_all",
    "stream",
    "synchronize",
]


def _refuse(name: str) -> NoReturn:
    raise RuntimeError(
        f"torch.cuda.{name}: there is no CUDA device: ask torch.cuda.is_available() first, or use the device 'wgpu' or "
        f"'cpu'"
    )


def is_available() -> bool:
    """Return ``False``."""
    return False


def is_initialized() -> bool:
    """Return ``False``."""
    return False


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Return ``False``."""
    return False


def device_count() -> int:
    """Return 0."""
    return 0


def get_arch_list() -> list[str]:
    """Return an empty list."""
    return []


def current_device() -> NoReturn:
    """Raise: there is no CUDA device."""
    _refuse("current_device")


def set_device(device: Any) -> NoReturn:
    """Raise: there is no CUDA device."""
    _refuse("set_device")


def get_device_name(device: Any = None) -> NoReturn:
    """Raise: there is no CUDA device."""
    _refuse("get_device_name")


def get_device_capability(device: Any = None) -> NoReturn:
    """Raise: there is no CUDA device."""
    _refuse("get_device_capability")


def get_device_properties(device: Any = None) -> NoReturn:
    """Raise: there is no CUDA device."""
    _refuse("get_device_properties")


def mem_get_info(device: Any = None) -> NoReturn:
    """Raise: there is no CUDA device."""
    _refuse("mem_get_info")


def current_stream(device: Any = None) -> NoReturn:
    """Raise: there is no CUDA device."""
    _refuse("current_stream")


def default_stream(device: Any = None) -> NoReturn:
    """Raise: there is no CUDA device."""
    _refuse("default_stream")


def get_rng_state(device: Any = "cuda") -> NoReturn:
    """Raise: there is no CUDA device."""
    _refuse("get_rng_state")


def set_rng_state(new_state: Any, device: Any = "cuda") -> NoReturn:
    """Raise: there is no CUDA device."""
    _refuse("set_rng_state")


class _Absent:
    """A CUDA class, for annotations; creating an instance raises."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _refuse(type(self).__name__)


class Stream(_Absent):
    """A queue of CUDA's."""


class Event(_Absent):
    """A CUDA event. To measure times here, use ``time.perf_counter()`` around ``mark_step()`` and a read."""


class CUDAGraph(_Absent):
    """A recorded sequence of kernels; the engine replays recorded work by itself."""


class graph(_Absent):
    """The context that records a :class:`CUDAGraph`."""


def is_current_stream_capturing() -> bool:
    """Return ``False``."""
    return False


class StreamContext(contextlib.nullcontext[None]):
    """The context of a stream, which can only be None: it changes nothing."""


def stream(stream: Stream | None) -> StreamContext:
    """Return a context that changes nothing: the only stream that can be given is None."""
    return StreamContext(stream)


class device(contextlib.nullcontext[None]):
    """The context of a current device: None and -1 change nothing, as in PyTorch; another one raises."""

    def __init__(self, device: Any) -> None:
        """Take the device."""
        if device is not None and device != -1:
            _refuse("device")
        super().__init__()


_initialized = False


def manual_seed_all(seed: int) -> None:
    """Seed all random numbers."""
    manual_seed(seed)


def seed_all() -> None:
    """Seed all random numbers from the operating system."""
    seed()


def synchronize(device: Any = None) -> None:
    """Wait for all recorded work."""
    _C.mark_step()


def get_rng_state_all() -> list[Any]:
    """Return an empty list: a state for each device."""
    return []


def set_rng_state_all(new_states: Any) -> None:
    """Do nothing: there are no devices to set the states of."""


# Marks for NVIDIA's profiler, which is not here.
nvtx = SimpleNamespace(range_push=lambda msg: 0, range_pop=lambda: 0, mark=lambda msg: None)


def empty_cache() -> None:
    """Do nothing: pools give memory back by themselves."""


def ipc_collect() -> None:
    """Do nothing: no memory is shared with other processes."""


def _no_bytes(device: Any = None) -> int:
    """Return 0: no CUDA memory is in use. For other devices see ``torchlette.memory_stats()``."""
    return 0


memory_allocated = max_memory_allocated = memory_reserved = max_memory_reserved = _no_bytes


def reset_peak_memory_stats(device: Any = None) -> None:
    """Do nothing: no memory of CUDA is in use."""


reset_max_memory_allocated = reset_peak_memory_stats
globals().update(on_cuda())
