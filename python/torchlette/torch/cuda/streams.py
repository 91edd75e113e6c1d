"""Streams and events. A GPU has one queue, so that all streams are one and every order is kept."""

from __future__ import annotations

import time
from typing import Any

from torchlette import _C
from torchlette._runtime.gpus import cuda_count

__all__ = [
    "Event",
    "ExternalStream",
    "Stream",
    "StreamContext",
    "current_stream",
    "default_stream",
    "set_stream",
    "stream",
    "synchronize",
]


def index_of(device: Any, function: str) -> int:
    """Return the number of the GPU that an argument of ``torch.cuda`` means; raise if it is not there."""
    count = cuda_count()
    if count == 0:
        raise RuntimeError(
            f"torch.cuda.{function}: there is no CUDA device: ask torch.cuda.is_available() first, or use the device "
            f"'wgpu' or 'cpu'"
        )
    if isinstance(device, str):
        device = _C.device(device)
    if isinstance(device, _C.device):
        if device.type not in ("cuda", "wgpu"):
            raise ValueError(f"Expected a cuda device, but got: {device}")
        device = device.index
    number = int(_C._set_cuda_device(-1) if device is None else device)
    if not 0 <= number < count:
        raise RuntimeError(f"CUDA error: invalid device ordinal: got {number}, want less than {count}")
    return number


def synchronize(device: Any = None) -> None:
    """Compute all recorded work and wait for it."""
    _C.mark_step()


class Event:
    """A point in the order of the work. :meth:`record` waits for the work recorded before it.

    Args:
        enable_timing: Whether :meth:`elapsed_time` may be asked.
        blocking: Accepted for compatibility.
        interprocess: Accepted for compatibility: events of other processes cannot be opened.
        external: Accepted for compatibility.
    """

    def __init__(
        self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False, external: bool = False
    ) -> None:
        """Check that there is a GPU."""
        index_of(None, "Event")
        self._timing = enable_timing
        self._time: float | None = None

    def record(self, stream: Any = None) -> None:
        """Compute and wait for what is recorded so far, and note the time."""
        synchronize()
        self._time = time.perf_counter()

    def elapsed_time(self, end_event: Event) -> float:
        """Return the milliseconds from this event to ``end_event``.

        Raises:
            ValueError: One of the events was made without ``enable_timing`` or was not recorded.
        """
        if not (self._timing and end_event._timing):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        if self._time is None or end_event._time is None:
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        return (end_event._time - self._time) * 1e3

    def query(self) -> bool:
        """Return ``True``: :meth:`record` has waited."""
        return True

    def wait(self, stream: Any = None) -> None:
        """Do nothing: work runs in the order of recording."""

    def synchronize(self) -> None:
        """Do nothing: :meth:`record` has waited."""


class Stream:
    """The queue of a GPU. All streams of a GPU are the same queue, in the order of recording.

    Args:
        device: The GPU; None: the current one.
        priority: Accepted for compatibility.
    """

    def __init__(self, device: Any = None, priority: int = 0, **kwargs: Any) -> None:
        """Check that there is such a GPU."""
        self.device = _C.device("cuda", index_of(device, "Stream"))
        self.priority = priority
        self.cuda_stream = self.stream_id = 0

    def synchronize(self) -> None:
        """Compute all recorded work and wait for it."""
        synchronize()

    def query(self) -> bool:
        """Compute all recorded work, and return ``True``."""
        synchronize()
        return True

    def record_event(self, event: Event | None = None) -> Event:
        """Record an event, by default a new one, and return it."""
        event = event or Event()
        event.record(self)
        return event

    def wait_event(self, event: Event) -> None:
        """Do nothing: work runs in the order of recording."""

    def wait_stream(self, stream: Stream) -> None:
        """Do nothing: work runs in the order of recording."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and other.device == self.device

    def __hash__(self) -> int:
        return hash(self.device)

    def __repr__(self) -> str:
        return f"<torch.cuda.Stream device={self.device} cuda_stream=0x0>"


class ExternalStream(Stream):
    """A queue of another library's."""

    def __init__(self, stream_ptr: int, device: Any = None, **kwargs: Any) -> None:
        """Raise: queues of CUDA cannot be used."""
        raise NotImplementedError("torch.cuda.ExternalStream: WebGPU cannot use a queue of CUDA: use torch.cuda.Stream")


class StreamContext:
    """The context of a stream: it makes the stream's GPU the current one."""

    def __init__(self, stream: Stream | None) -> None:
        """Take the stream; None changes nothing."""
        self.stream, self._former = stream, -1

    def __enter__(self) -> None:
        if self.stream is not None:
            self._former = _C._set_cuda_device(self.stream.device.index or 0)

    def __exit__(self, *exc: object) -> None:
        _C._set_cuda_device(self._former)


def stream(stream: Stream | None) -> StreamContext:
    """Return the context of a stream; None changes nothing."""
    return StreamContext(stream)


def current_stream(device: Any = None) -> Stream:
    """Return the stream of a GPU, by default of the current one."""
    return Stream(index_of(device, "current_stream"))


def default_stream(device: Any = None) -> Stream:
    """Return the stream of a GPU, by default of the current one."""
    return Stream(index_of(device, "default_stream"))


def set_stream(stream: Stream | None) -> None:
    """Make the GPU of a stream the current one."""
    if stream is not None:
        _C._set_cuda_device(stream.device.index or 0)
