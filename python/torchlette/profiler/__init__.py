"""Times of operations and modules on their device, after ``torch.profiler``.

    with torchlette.profiler.profile() as prof:
        train_step()
    print(prof.key_averages().table(sort_by="device_time_total"))
    prof.export_chrome_trace("trace.json")

What is timed is each step of the programs that ran: by timestamps on a GPU, where every dispatch then has a
pass of its own, and by the clock on the CPU. Windows run one after the other while profiling, so that a
profiled run takes longer than its steps. Nothing is measured, and nothing costs anything, outside ``profile``.
"""

from __future__ import annotations

import contextlib
import enum
import functools
import gzip
import json
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from torchlette import _C
from torchlette.profiler.ceilings import Ceilings, ceilings

__all__ = ["Average", "Averages", "Ceilings", "Event", "ProfilerActivity", "ceilings", "profile", "record_function"]


class ProfilerActivity(enum.Enum):
    """What to time; accepted for compatibility: every device that is used is timed."""

    CPU = 0
    CUDA = 2
    GPU = 2


@dataclass(frozen=True)
class Event:
    """One step of a program that ran."""

    name: str
    kernel: str
    device: str
    #: Modules and :class:`record_function` blocks around the line that recorded it, outermost first.
    scope: tuple[str, ...]
    backward: bool
    #: The line of the program that recorded it.
    site: str
    start_ns: int
    duration_ns: int
    #: Arithmetic on floats; bytes that must be read and written at least.
    flops: int
    bytes: int


@dataclass
class Average:
    """Events of one key together. Times are in microseconds."""

    key: str
    device: str
    count: int = 0
    device_time_total: float = 0.0
    flops: int = 0
    bytes: int = 0

    @property
    def self_device_time_total(self) -> float:
        """The same as :attr:`device_time_total`: operations do not contain each other."""
        return self.device_time_total

    @property
    def device_time(self) -> float:
        """Mean time of an event."""
        return self.device_time_total / max(1, self.count)

    def share_of_peak(self, peak: Ceilings) -> float:
        """Return which part of the time the bytes or the arithmetic would take at the device's measured best."""
        need = max(self.bytes / peak.bytes_per_s, self.flops / peak.flops_per_s)
        return need / max(self.device_time_total * 1e-6, 1e-12)


_SORTS: dict[str, Callable[[Average], Any]] = {
    "device_time_total": lambda a: -a.device_time_total,
    "device_time": lambda a: -a.device_time,
    "count": lambda a: -a.count,
    "bytes": lambda a: -a.bytes,
    "flops": lambda a: -a.flops,
    "key": lambda a: a.key,
}
# PyTorch's names of the same columns.
for _name in ("cpu_time_total", "cuda_time_total", "self_cpu_time_total", "self_cuda_time_total", "self_device_time_total"):
    _SORTS[_name] = _SORTS["device_time_total"]
for _name in ("cpu_time", "cuda_time"):
    _SORTS[_name] = _SORTS["device_time"]


class Averages(list[Average]):
    """Averages by key, with the table of PyTorch's profiler."""

    def total_average(self) -> Average:
        """Return the sum over all keys."""
        total = Average("Total", "")
        for a in self:
            total.count += a.count
            total.device_time_total += a.device_time_total
            total.flops += a.flops
            total.bytes += a.bytes
        return total

    def table(self, sort_by: str | None = None, row_limit: int = 100, max_name_column_width: int = 55, header: str | None = None) -> str:
        """Return a table of text.

        Args:
            sort_by: A column: ``device_time_total``, ``device_time``, ``count``, ``bytes``, ``flops``, ``key``, or PyTorch's name of it.
            row_limit: Rows at most; -1 for all.
            max_name_column_width: Longer names are cut.
            header: A line above the table.
        """
        if sort_by is not None and sort_by not in _SORTS:
            raise ValueError(f"table: sort_by: got {sort_by!r}, want one of {', '.join(sorted(_SORTS))}")
        rows = sorted(self, key=_SORTS[sort_by]) if sort_by else list(self)
        total = max(self.total_average().device_time_total, 1e-9)
        cells = [["Name", "Device", "Total %", "Total", "Avg", "# of Calls", "MB", "GB/s", "MFLOP", "GFLOP/s", "% of peak"]]
        for a in rows if row_limit < 0 else rows[:row_limit]:
            seconds = max(a.device_time_total * 1e-6, 1e-12)
            name = a.key if len(a.key) <= max_name_column_width else a.key[: max_name_column_width - 3] + "..."
            cells.append(
                [name, a.device, f"{100 * a.device_time_total / total:.2f}%", _time(a.device_time_total), _time(a.device_time), str(a.count)]
                + [f"{a.bytes / 1e6:.3f}", f"{a.bytes / seconds / 1e9:.1f}", f"{a.flops / 1e6:.3f}", f"{a.flops / seconds / 1e9:.1f}"]
                + [f"{100 * a.share_of_peak(ceilings(a.device)):.0f}%"]
            )
        widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
        rule = "  ".join("-" * w for w in widths)
        lines = [f"{row[0]:<{widths[0]}}  " + "  ".join(f"{c:>{w}}" for c, w in zip(row[1:], widths[1:], strict=True)) for row in cells]
        end = f"Device time total: {_time(self.total_average().device_time_total)}"
        return "\n".join(([header] if header else []) + [rule, lines[0], rule, *lines[1:], rule, end, ""])


def _time(us: float) -> str:
    for unit, name in ((1e6, "s"), (1e3, "ms")):
        if us >= unit:
            return f"{us / unit:.3f}{name}"
    return f"{us:.3f}us"


@dataclass(frozen=True)
class _Span:
    """A block of Python code, for the trace."""

    name: str
    kind: str
    start_ns: int
    duration_ns: int


class _Recorder:
    """What the running profile notes in Python: the scope, and how long blocks took."""

    def __init__(self) -> None:
        self.scope: list[str] = []
        self.spans: list[_Span] = []
        self.paths: dict[int, str] = {}  # of the modules below the one called first, by id

    def enter(self, name: str) -> None:
        self.scope.append(name)
        _C._set_option("scope", json.dumps(self.scope))

    def leave(self, kind: str, start_ns: int) -> None:
        self.spans.append(_Span(self.scope.pop(), kind, start_ns, time.time_ns() - start_ns))
        _C._set_option("scope", json.dumps(self.scope) if self.scope else "")

    def module_name(self, module: Any) -> str:
        if id(module) not in self.paths:
            root = type(module).__name__
            for path, part in module.named_modules():
                self.paths[id(part)] = f"{root}.{path}" if path else root
        return self.paths[id(module)]


_recorder: _Recorder | None = None


@contextlib.contextmanager
def _block(name: str | Any, kind: str) -> Any:
    recorder = _recorder
    if recorder is None:
        yield
        return
    start = time.time_ns()
    recorder.enter(recorder.module_name(name) if kind == "module" else name)
    try:
        yield
    finally:
        if recorder is _recorder:
            recorder.leave(kind, start)


class record_function(contextlib.ContextDecorator):
    """Name a block of code in the profile; does nothing while no profile is taken.

    Args:
        name: What the operations recorded inside count under.
        args: Accepted for compatibility.
    """

    def __init__(self, name: str, args: str | None = None) -> None:
        """Keep the name."""
        self.name = name
        self._open: list[Any] = []

    def __enter__(self) -> record_function:
        """Enter the block."""
        block = _block(self.name, "block")
        block.__enter__()
        self._open.append(block)
        return self

    def __exit__(self, *error: Any) -> None:
        """Leave the block."""
        self._open.pop().__exit__(*error)


class profile:
    """Time the operations that run inside a ``with`` block.

    Args:
        activities: Accepted for compatibility.
        record_shapes: Accepted for compatibility.
        profile_memory: Accepted for compatibility; see ``torchlette.memory_stats``.
        with_stack: Accepted for compatibility: each event has the line that recorded it.
        with_flops: Accepted for compatibility: arithmetic is always counted.
        with_modules: Accepted for compatibility: modules are always named.
        on_trace_ready: Called with the profile when it ends.
    """

    def __init__(
        self,
        *,
        activities: Iterable[ProfilerActivity] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
        on_trace_ready: Callable[[profile], Any] | None = None,
    ) -> None:
        """Prepare; nothing is timed yet."""
        self._ready = on_trace_ready
        self._events: list[Event] = []
        self._spans: list[_Span] = []

    def start(self) -> None:
        """Begin: stores recorded before run now, untimed."""
        global _recorder
        if _recorder is not None:
            raise RuntimeError("profile: another profile is being taken: got a second one, want one at a time")
        _C.mark_step()
        _C._set_option("profile", "1")
        _recorder = _Recorder()
        _trace_modules(True)

    def stop(self) -> None:
        """End: stores recorded inside run first; a value that nobody asked for is never computed."""
        global _recorder
        if _recorder is None:
            raise RuntimeError("profile: stop without start")
        try:
            _C.mark_step()
        finally:
            _trace_modules(False)
            self._spans, _recorder = _recorder.spans, None
            _C._set_option("scope", "")
            _C._set_option("profile", "0")
        for e in json.loads(_C._info("profile")):
            scope = tuple(json.loads(e["scope"])) if e["scope"] else ()
            self._events.append(
                Event(e["op"], e["kernel"], e["device"], scope, e["backward"], e["site"], e["start_ns"], e["duration_ns"], e["flops"], e["bytes"])
            )
        if self._ready is not None:
            self._ready(self)

    def __enter__(self) -> profile:
        """Start."""
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Stop."""
        self.stop()

    def step(self) -> None:
        """Mark the end of a training step: its work runs."""
        _C.mark_step()

    def events(self) -> list[Event]:
        """Return every step that was timed, in order of execution."""
        return list(self._events)

    def key_averages(self, group_by: str = "op") -> Averages:
        """Return sums by key, in order of first execution.

        Args:
            group_by: ``op``, ``kernel``, ``module`` (the innermost module or block; its backward apart) or ``site`` (the line of code).
        """
        keys: dict[str, Callable[[Event], str]] = {
            "op": lambda e: e.name,
            "kernel": lambda e: e.kernel,
            "module": lambda e: (e.scope[-1] if e.scope else "(outside)") + (" backward" if e.backward else ""),
            "site": lambda e: e.site,
        }
        if group_by not in keys:
            raise ValueError(f"key_averages: group_by: got {group_by!r}, want one of {', '.join(keys)}")
        found: dict[tuple[str, str], Average] = {}
        for e in self._events:
            key = keys[group_by](e), e.device
            a = found.setdefault(key, Average(*key))
            a.count += 1
            a.device_time_total += e.duration_ns / 1e3
            a.flops += e.flops
            a.bytes += e.bytes
        return Averages(found.values())

    def export_chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """Write the events for ``chrome://tracing`` or Perfetto; a name that ends in ``.gz`` is compressed."""
        devices = sorted({e.device for e in self._events})
        out: list[dict[str, Any]] = [{"ph": "M", "name": "process_name", "pid": 0, "args": {"name": "Python"}}]
        out += [{"ph": "M", "name": "process_name", "pid": i + 1, "args": {"name": d}} for i, d in enumerate(devices)]
        for s in self._spans:
            out.append({"ph": "X", "cat": s.kind, "name": s.name, "pid": 0, "tid": 0, "ts": s.start_ns / 1e3, "dur": s.duration_ns / 1e3})
        for e in self._events:
            args = {"kernel": e.kernel, "scope": "/".join(e.scope), "backward": e.backward, "site": e.site, "flops": e.flops, "bytes": e.bytes}
            place = {"pid": devices.index(e.device) + 1, "tid": 0, "ts": e.start_ns / 1e3, "dur": e.duration_ns / 1e3}
            out.append({"ph": "X", "cat": "kernel", "name": e.name, **place, "args": args})
        text = json.dumps({"displayTimeUnit": "ms", "traceEvents": out})
        opened = gzip.open(path, "wt") if str(path).endswith(".gz") else open(path, "w")  # noqa: SIM115
        with opened as f:
            f.write(text)


def _trace_modules(on: bool) -> None:
    """Make calls of modules blocks of the profile, or calls again as they were."""
    from torchlette.nn import Module

    if not on:
        del Module.__call__
        return
    call = Module.__call__

    @functools.wraps(call)
    def traced(self: Any, *args: Any, **kwargs: Any) -> Any:
        with _block(self, "module"):
            return call(self, *args, **kwargs)

    Module.__call__ = traced  # type: ignore[method-assign]
