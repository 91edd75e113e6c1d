"""The memory of GPUs, as this library and the driver count it."""

from __future__ import annotations

from typing import Any

from torchlette import _C
from torchlette._runtime import api
from torchlette._runtime.errors import OutOfMemoryError
from torchlette._runtime.gpus import cuda_adapters, cuda_count
from torchlette.torch.cuda.streams import index_of

__all__ = [
    "OutOfMemoryError",
    "empty_cache",
    "max_memory_allocated",
    "max_memory_cached",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_cached",
    "memory_reserved",
    "memory_stats",
    "memory_stats_as_nested_dict",
    "memory_summary",
    "reset_accumulated_memory_stats",
    "reset_max_memory_allocated",
    "reset_max_memory_cached",
    "reset_peak_memory_stats",
]


def _of(device: Any, function: str) -> dict[str, int]:
    """Return the engine's figures of a GPU; nothing without a GPU, or before it is used."""
    return api.memory_stats().get(f"wgpu:{index_of(device, function)}", {}) if cuda_count() else {}


def memory_allocated(device: Any = None) -> int:
    """Return the bytes of live values on a GPU; recorded work that has not run has none."""
    return _of(device, "memory_allocated").get("live_bytes", 0)


def max_memory_allocated(device: Any = None) -> int:
    """Return the most bytes that values on a GPU had, since the start or :func:`reset_peak_memory_stats`."""
    return _of(device, "max_memory_allocated").get("peak_bytes", 0)


def memory_reserved(device: Any = None) -> int:
    """Return the bytes that live values and the pool hold on a GPU."""
    stats = _of(device, "memory_reserved")
    return stats.get("live_bytes", 0) + stats.get("pool_bytes", 0)


def max_memory_reserved(device: Any = None) -> int:
    """Return the larger of :func:`max_memory_allocated` and :func:`memory_reserved`."""
    return max(max_memory_allocated(device), memory_reserved(device))


def memory_stats(device: Any = None) -> dict[str, int]:
    """Return the figures under PyTorch's keys ``allocated_bytes.all.current`` and so on."""
    return {
        "allocated_bytes.all.current": memory_allocated(device),
        "allocated_bytes.all.peak": max_memory_allocated(device),
        "reserved_bytes.all.current": memory_reserved(device),
        "reserved_bytes.all.peak": max_memory_reserved(device),
    }


def memory_stats_as_nested_dict(device: Any = None) -> dict[str, Any]:
    """Return :func:`memory_stats` as dicts in dicts, one level for each part of a key."""
    nested: dict[str, Any] = {}
    for key, value in memory_stats(device).items():
        first, second, last = key.split(".")
        nested.setdefault(first, {}).setdefault(second, {})[last] = value
    return nested


def memory_summary(device: Any = None, abbreviated: bool = False) -> str:
    """Return the figures of :func:`memory_stats` as a table in MiB; ``abbreviated`` changes nothing."""
    stats = memory_stats(device)
    lines = [f"{'GPU ' + str(index_of(device, 'memory_summary')):<20}{'current':>14}{'peak':>14}"]
    for row, key in (("Allocated memory", "allocated_bytes"), ("GPU reserved memory", "reserved_bytes")):
        now, peak = (stats[f"{key}.all.{when}"] / 2**20 for when in ("current", "peak"))
        lines.append(f"{row:<20}{now:>10.1f} MiB{peak:>10.1f} MiB")
    return "\n".join(lines) + "\n"


def reset_peak_memory_stats(device: Any = None) -> None:
    """Reset the high-water marks of all devices."""
    _C._set_option("reset_peak", "1")


reset_max_memory_allocated = reset_max_memory_cached = reset_accumulated_memory_stats = reset_peak_memory_stats
memory_cached, max_memory_cached = memory_reserved, max_memory_reserved


def empty_cache() -> None:
    """Do nothing: pools give memory back by themselves."""


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """Return the free and the total bytes of a GPU's memory, as the driver tells them.

    Raises:
        NotImplementedError: The GPU is not reached through Vulkan; other drivers are not asked.
    """
    from torchlette.torch.cuda._vulkan import heaps

    index = index_of(device, "mem_get_info")
    adapter = cuda_adapters()[index]
    name = str(adapter["Adapter"])
    found = heaps().get(name) if str(adapter["Backend"]).lower() == "vulkan" else None
    if found is None:
        raise NotImplementedError(
            f"torch.cuda.mem_get_info: the memory of {name!r} is not known: it is asked of Vulkan drivers only"
        )
    return found
