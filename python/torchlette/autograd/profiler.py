"""PyTorch's first names of :mod:`torchlette.profiler`."""

from __future__ import annotations

from torchlette.profiler import profile, record_function

__all__ = ["profile", "record_function"]


class EventList(list):  # type: ignore[type-arg]
    """The class of PyTorch's lists of events, for annotations."""


class emit_nvtx:  # noqa: N801
    """A block without effect: GPUs are reached through WebGPU, which NVIDIA's profiler shows no ranges of."""

    def __init__(self, enabled: bool = True, record_shapes: bool = False) -> None:
        """Accept PyTorch's arguments."""

    def __enter__(self) -> emit_nvtx:
        return self

    def __exit__(self, *exc: object) -> None:
        return None
