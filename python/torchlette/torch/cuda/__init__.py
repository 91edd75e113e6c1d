"""``torch.cuda``: the GPUs that there are, as in PyTorch's build for ROCm. ``cuda:0`` is the GPU of ``wgpu:0``.

Hardware adapters count; ``TORCHLETTE_CUDA=0`` leaves none, and ``TORCHLETTE_CUDA=software`` counts software adapters
too. Without a GPU, queries answer as PyTorch's do without CUDA, and what needs a device raises.
"""

from __future__ import annotations

import contextlib
from typing import Any

from torchlette import _C
from torchlette._runtime.errors import OutOfMemoryError
from torchlette._runtime.gpus import cuda_adapters, cuda_count
from torchlette.torch.cuda import amp, graphs, memory, nvtx, random, streams
from torchlette.torch.cuda.graphs import (
    CUDAGraph,
    graph,
    graph_pool_handle,
    is_current_stream_capturing,
    make_graphed_callables,
)
from torchlette.torch.cuda.memory import (
    empty_cache,
    max_memory_allocated,
    max_memory_cached,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_cached,
    memory_reserved,
    memory_stats,
    memory_stats_as_nested_dict,
    memory_summary,
    reset_accumulated_memory_stats,
    reset_max_memory_allocated,
    reset_max_memory_cached,
    reset_peak_memory_stats,
)
from torchlette.torch.cuda.random import (
    get_rng_state,
    get_rng_state_all,
    initial_seed,
    manual_seed,
    manual_seed_all,
    seed,
    seed_all,
    set_rng_state,
    set_rng_state_all,
)
from torchlette.torch.cuda.streams import (
    Event,
    ExternalStream,
    Stream,
    StreamContext,
    current_stream,
    default_stream,
    set_stream,
    stream,
    synchronize,
)
from torchlette.torch.tensor_types import on_cuda

__all__ = [
    "CUDAGraph",
    "Event",
    "ExternalStream",
    "OutOfMemoryError",
    "Stream",
    "StreamContext",
    "amp",
    "can_device_access_peer",
    "current_device",
    "current_stream",
    "default_stream",
    "device",
    "device_count",
    "device_of",
    "empty_cache",
    "get_arch_list",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "get_rng_state",
    "get_rng_state_all",
    "graph",
    "graph_pool_handle",
    "graphs",
    "init",
    "initial_seed",
    "ipc_collect",
    "is_available",
    "is_bf16_supported",
    "is_current_stream_capturing",
    "is_initialized",
    "make_graphed_callables",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_cached",
    "max_memory_reserved",
    "mem_get_info",
    "memory",
    "memory_allocated",
    "memory_cached",
    "memory_reserved",
    "memory_stats",
    "memory_stats_as_nested_dict",
    "memory_summary",
    "nvtx",
    "random",
    "reset_accumulated_memory_stats",
    "reset_max_memory_allocated",
    "reset_max_memory_cached",
    "reset_peak_memory_stats",
    "seed",
    "seed_all",
    "set_device",
    "set_rng_state",
    "set_rng_state_all",
    "set_stream",
    "stream",
    "streams",
    "synchronize",
]


def is_available() -> bool:
    """Return whether there is a GPU. The first call loads the graphics driver."""
    return cuda_count() > 0


def is_initialized() -> bool:
    """Return :func:`is_available`: a GPU is opened when it is first used."""
    return is_available()


def init() -> None:
    """Raise if there is no GPU; a GPU is opened when it is first used."""
    streams.index_of(None, "init")


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Return whether there is a GPU and emulation counts: kernels compute bfloat16 in float32 and round."""
    return is_available() and including_emulation


def device_count() -> int:
    """Return the number of GPUs."""
    return cuda_count()


def get_arch_list() -> list[str]:
    """Return an empty list: the driver compiles kernels for its GPU."""
    return []


def current_device() -> int:
    """Return the number of the GPU that ``"cuda"`` means."""
    return streams.index_of(None, "current_device")


def set_device(device: Any) -> None:
    """Choose the GPU that ``"cuda"`` means, for all threads. A negative number changes nothing."""
    if not (isinstance(device, int) and device < 0):
        _C._set_cuda_device(streams.index_of(device, "set_device"))


def get_device_name(device: Any = None) -> str:
    """Return the name that the driver gives the GPU."""
    return str(cuda_adapters()[streams.index_of(device, "get_device_name")]["Adapter"])


def get_device_capability(device: Any = None) -> tuple[int, int]:
    """Return ``(0, 0)``: no compute capability of NVIDIA's is claimed, so that scripts choose their general code."""
    streams.index_of(device, "get_device_capability")
    return 0, 0


class _DeviceProperties:
    """What is known of a GPU: ``name``, ``driver``, ``backend``, ``major`` and ``minor`` (0), ``total_memory``."""

    major = minor = 0

    def __init__(self, index: int) -> None:
        adapter = cuda_adapters()[index]
        self.name, self.driver, self.backend = str(adapter["Adapter"]), adapter["Driver"], adapter["Backend"]
        self._index = index

    @property
    def total_memory(self) -> int:
        """The bytes of the GPU's memory; raises where the driver does not tell."""
        return mem_get_info(self._index)[1]

    def __repr__(self) -> str:
        return f"_CudaDeviceProperties(name='{self.name}', driver='{self.driver}', backend='{self.backend}')"


def get_device_properties(device: Any = None) -> _DeviceProperties:
    """Return the known properties of a GPU."""
    return _DeviceProperties(streams.index_of(device, "get_device_properties"))


class device(contextlib.AbstractContextManager[None]):
    """The context of a current device; None and negative numbers change nothing."""

    def __init__(self, device: Any) -> None:
        """Take the device."""
        none = device is None or (isinstance(device, int) and device < 0)
        self.idx = -1 if none else streams.index_of(device, "device")
        self.prev_idx = -1

    def __enter__(self) -> None:
        self.prev_idx = _C._set_cuda_device(self.idx)

    def __exit__(self, *exc: object) -> None:
        _C._set_cuda_device(self.prev_idx)


class device_of(device):
    """The context of a tensor's device; a tensor on the CPU changes nothing."""

    def __init__(self, obj: Any) -> None:
        """Take the tensor."""
        super().__init__(obj.get_device() if obj.is_cuda else -1)


def can_device_access_peer(device: Any, peer_device: Any) -> bool:
    """Return ``False``: a GPU does not read another's memory."""
    for d in (device, peer_device):
        streams.index_of(d, "can_device_access_peer")
    return False


def ipc_collect() -> None:
    """Do nothing: no memory is shared with other processes."""


globals().update(on_cuda())
