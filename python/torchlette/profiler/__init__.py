"""Times of operations and modules on their device, after ``torch.profiler``.

    with torchlette.profiler.profile() as prof:
        train_step()
    print(prof.key_averages().table(sort_by="device_time_total"))
    prof.export_chrome_trace("trace.json")

Each executed step of a program is timed: by timestamps on a GPU, where every dispatch then has its own pass, and by the
clock on the CPU. While profiling, windows run one after the other, so a profiled run takes longer than the sum of its
steps. Outside ``profile`` nothing is measured and there is no cost.
"""

from __future__ import annotations

import contextlib
import enum
import functools
import gzip
import json
import os
import platform
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from torchlette import _C
from torchlette.profiler.ceilings import Ceilings, ceilings

__all__ = [
    "Average",
    "Averages",
    "Ceilings",
    "Event",
    "ProfilerAction",
    "ProfilerActivity",
    "ceilings",
    "kineto_available",
    "profile",
    "record_function",
    "schedule",
    "tensorboard_trace_handler",
]


class ProfilerActivity(enum.Enum):
    """What to time; accepted for compatibility: every device that is used is timed."""

    CPU = 0
    CUDA = 2
    GPU = 2


class ProfilerAction(enum.Enum):
    """What a profile does during a step."""

    NONE = 0
    #: Accepted for compatibility: the profiler needs no warm-up, so this equals NONE.
    WARMUP = 1
    RECORD = 2
    #: Record, and hand the profile to ``on_trace_ready`` at the end of the step.
    RECORD_AND_SAVE = 3


def schedule(
    *, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0, skip_first_wait: int = 0
) -> Callable[[int], ProfilerAction]:
    """Return the schedule of cycles with ``wait`` and ``warmup`` untimed steps, then ``active`` timed steps.

    Args:
        wait: Untimed steps at the start of a cycle.
        warmup: Further untimed steps, after ``wait``.
        active: Timed steps; ``on_trace_ready`` is called after the last.
        repeat: The number of cycles; 0 means no limit.
        skip_first: Steps before the first cycle.
        skip_first_wait: If not 0, the first cycle has no ``wait`` steps.
    """
    if min(wait, warmup, repeat, skip_first) < 0 or active <= 0:
        raise AssertionError(
            f"Invalid profiler schedule arguments: got wait={wait}, warmup={warmup}, active={active}, repeat={repeat}, "
            f"skip_first={skip_first}"
        )
    cycle = wait + warmup + active

    def action(step: int) -> ProfilerAction:
        if step < 0:
            raise AssertionError(f"Step must be non-negative. Got {step}.")
        at = step - skip_first + (wait if skip_first_wait else 0)
        if step < skip_first or (repeat and at >= repeat * cycle) or at % cycle < wait:
            return ProfilerAction.NONE
        if at % cycle < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD if at % cycle < cycle - 1 else ProfilerAction.RECORD_AND_SAVE

    return action


def tensorboard_trace_handler(
    dir_name: str, worker_name: str | None = None, use_gzip: bool = False
) -> Callable[[profile], None]:
    """Return a function for ``on_trace_ready`` that writes each trace to its own file in TensorBoard's folder.

    Args:
        dir_name: The folder; it is created if it does not exist.
        worker_name: The prefix of the file's name; by default the host and the process.
        use_gzip: Whether to compress.
    """

    def write(prof: profile) -> None:
        os.makedirs(dir_name, exist_ok=True)
        worker = worker_name or f"{platform.node()}_{os.getpid()}"
        prof.export_chrome_trace(
            os.path.join(dir_name, f"{worker}.{time.time_ns()}.pt.trace.json" + (".gz" if use_gzip else ""))
        )

    return write


@dataclass(frozen=True)
class Member:
    """One operation of a fusion group, of an epilogue or of a prologue."""

    name: str
    scope: tuple[str, ...]
    backward: bool
    site: str


def _scope(text: str) -> tuple[str, ...]:
    return tuple(json.loads(text)) if text else ()


def _members(found: Iterable[dict[str, Any]]) -> tuple[Member, ...]:
    return tuple(Member(m["op"], _scope(m["scope"]), m["backward"], m["site"]) for m in found)


@dataclass(frozen=True)
class Event:
    """One executed step of a program."""

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
    #: Floating point operations, and the least number of bytes read and written.
    flops: int
    bytes: int
    #: The operations of a fusion group. The name of the event joins their names; its line and scope are those of the
    #: last one.
    members: tuple[Member, ...] = ()
    #: The operations that a product or a convolution applies to its result. Its time is the event's.
    epilogue: tuple[Member, ...] = ()
    #: The norm that a product computes of the rows of its first operand. Its time is the event's.
    prologue: tuple[Member, ...] = ()


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
        """Equal to :attr:`device_time_total`: operations do not nest."""
        return self.device_time_total

    @property
    def device_time(self) -> float:
        """Mean time of an event."""
        return self.device_time_total / max(1, self.count)

    def share_of_peak(self, peak: Ceilings) -> float:
        """Return the least possible time, at the device's measured peak rates, divided by the actual time."""
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
for _name in (
    "cpu_time_total",
    "cuda_time_total",
    "self_cpu_time_total",
    "self_cuda_time_total",
    "self_device_time_total",
):
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

    def table(
        self,
        sort_by: str | None = None,
        row_limit: int = 100,
        max_name_column_width: int = 55,
        header: str | None = None,
    ) -> str:
        """Return a table of text.

        Args:
            sort_by: A column: ``device_time_total``, ``device_time``, ``count``, ``bytes``, ``flops``, ``key``, or
                PyTorch's name of it.
            row_limit: Rows at most; -1 for all.
            max_name_column_width: Longer names are cut.
            header: A line above the table.
        """
        if sort_by is not None and sort_by not in _SORTS:
            raise ValueError(f"table: sort_by: got {sort_by!r}, want one of {', '.join(sorted(_SORTS))}")
        rows = sorted(self, key=_SORTS[sort_by]) if sort_by else list(self)
        total = max(self.total_average().device_time_total, 1e-9)
        cells = [
            ["Name", "Device", "Total %", "Total", "Avg", "# of Calls", "MB", "GB/s", "MFLOP", "GFLOP/s", "% of peak"]
        ]
        for a in rows if row_limit < 0 else rows[:row_limit]:
            seconds = max(a.device_time_total * 1e-6, 1e-12)
            name = a.key if len(a.key) <= max_name_column_width else a.key[: max_name_column_width - 3] + "..."
            cells.append(
                [
                    name,
                    a.device,
                    f"{100 * a.device_time_total / total:.2f}%",
                    _time(a.device_time_total),
                    _time(a.device_time),
                    str(a.count),
                ]
                + [
                    f"{a.bytes / 1e6:.3f}",
                    f"{a.bytes / seconds / 1e9:.1f}",
                    f"{a.flops / 1e6:.3f}",
                    f"{a.flops / seconds / 1e9:.1f}",
                ]
                + [f"{100 * a.share_of_peak(ceilings(a.device)):.0f}%"]
            )
        widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
        rule = "  ".join("-" * w for w in widths)
        lines = [
            f"{row[0]:<{widths[0]}}  " + "  ".join(f"{c:>{w}}" for c, w in zip(row[1:], widths[1:], strict=True))
            for row in cells
        ]
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


_TIMED = (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)


class _Recorder:
    """The Python state of the running profile: the current scope, and the times of blocks."""

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
        name: The scope's name, given to the operations recorded inside.
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
        schedule: The action of each step; :meth:`step` ends a step. By default every step is timed.
        on_trace_ready: Called with the profile at the end of each cycle of the schedule, or at the end of the block.
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
        schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: Callable[[profile], Any] | None = None,
    ) -> None:
        """Prepare; nothing is timed yet."""
        self._ready = on_trace_ready
        self._schedule = schedule or (lambda step: ProfilerAction.RECORD)
        self._action = ProfilerAction.NONE
        self._started = False
        #: Steps that ended.
        self.step_num = 0
        self._events: list[Event] = []
        self._spans: list[_Span] = []

    def start(self) -> None:
        """Start timing. Work recorded before runs first, untimed."""
        self._turn(self._schedule(self.step_num))
        self._started = True

    def stop(self) -> None:
        """Stop timing. Stores recorded inside run first; other unread values are not computed."""
        if not self._started:
            raise RuntimeError("profile: stop without start")
        self._started = False
        self._turn(ProfilerAction.NONE)

    def step(self) -> None:
        """End a training step and run its work."""
        _C.mark_step()
        self.step_num += 1
        self._turn(self._schedule(self.step_num))

    def _turn(self, action: ProfilerAction) -> None:
        """Switch from the current action to ``action``."""
        before, self._action = self._action, action
        if before in _TIMED and (action not in _TIMED or before is ProfilerAction.RECORD_AND_SAVE):
            self._end()
            if self._ready is not None:
                self._ready(self)
            before = ProfilerAction.NONE
        if action in _TIMED and before not in _TIMED:
            self._begin()

    def _begin(self) -> None:
        global _recorder
        if _recorder is not None:
            raise RuntimeError("profile: another profile is being taken: got a second one, want one at a time")
        self._events.clear()
        _C.mark_step()
        _C._set_option("profile", "1")
        _recorder = _Recorder()
        _trace_modules(True)

    def _end(self) -> None:
        global _recorder
        assert _recorder is not None
        try:
            _C.mark_step()
        finally:
            _trace_modules(False)
            self._spans, _recorder = _recorder.spans, None
            _C._set_option("scope", "")
            _C._set_option("profile", "0")
        for e in json.loads(_C._info("profile")):
            self._events.append(
                Event(
                    e["op"],
                    e["kernel"],
                    e["device"],
                    _scope(e["scope"]),
                    e["backward"],
                    e["site"],
                    e["start_ns"],
                    e["duration_ns"],
                    e["flops"],
                    e["bytes"],
                    _members(e.get("members", ())),
                    _members(e.get("epilogue", ())),
                    _members(e.get("prologue", ())),
                )
            )

    def __enter__(self) -> profile:
        """Start."""
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop."""
        self.stop()

    def events(self) -> list[Event]:
        """Return every step that was timed, in order of execution."""
        return list(self._events)

    def key_averages(self, group_by: str = "op") -> Averages:
        """Return sums by key, in order of first execution.

        Where modules or lines are the keys, the operations of a fusion group share its time equally, and it counts once
        for each key.

        Args:
            group_by: ``op``, ``kernel``, ``module`` (the innermost module or block; its backward apart) or ``site``
                (the line of code).
        """
        keys: dict[str, Callable[[Any], str]] = {
            "op": lambda e: e.name,
            "kernel": lambda e: e.kernel,
            "module": lambda e: (e.scope[-1] if e.scope else "(outside)") + (" backward" if e.backward else ""),
            "site": lambda e: e.site,
        }
        if group_by not in keys:
            raise ValueError(f"key_averages: group_by: got {group_by!r}, want one of {', '.join(keys)}")
        found: dict[tuple[str, str], Average] = {}
        for e in self._events:
            parts: tuple[Event | Member, ...] = (e,)
            n = 1
            if group_by in ("module", "site"):
                parts = e.members or parts
                n = len(parts)
                parts += e.epilogue + e.prologue
            for i, part in enumerate(parts):
                key = keys[group_by](part), e.device
                a = found.setdefault(key, Average(*key))
                a.count += all(keys[group_by](earlier) != key[0] for earlier in parts[:i])
                if i >= n:  # what an epilogue or a prologue takes is its product's
                    continue
                a.device_time_total += e.duration_ns / 1e3 / n
                a.flops += e.flops * (i + 1) // n - e.flops * i // n
                a.bytes += e.bytes * (i + 1) // n - e.bytes * i // n
        return Averages(found.values())

    def export_chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """Write the events for ``chrome://tracing`` or Perfetto; a name that ends in ``.gz`` is compressed."""
        devices = sorted({e.device for e in self._events})
        out: list[dict[str, Any]] = [{"ph": "M", "name": "process_name", "pid": 0, "args": {"name": "Python"}}]
        out += [{"ph": "M", "name": "process_name", "pid": i + 1, "args": {"name": d}} for i, d in enumerate(devices)]
        for s in self._spans:
            out.append(
                {
                    "ph": "X",
                    "cat": s.kind,
                    "name": s.name,
                    "pid": 0,
                    "tid": 0,
                    "ts": s.start_ns / 1e3,
                    "dur": s.duration_ns / 1e3,
                }
            )
        for e in self._events:
            args = {
                "kernel": e.kernel,
                "scope": "/".join(e.scope),
                "backward": e.backward,
                "site": e.site,
                "flops": e.flops,
                "bytes": e.bytes,
            }
            place = {"pid": devices.index(e.device) + 1, "tid": 0, "ts": e.start_ns / 1e3, "dur": e.duration_ns / 1e3}
            out.append({"ph": "X", "cat": "kernel", "name": e.name, **place, "args": args})
        text = json.dumps({"displayTimeUnit": "ms", "traceEvents": out})
        opened = gzip.open(path, "wt") if str(path).endswith(".gz") else open(path, "w")  # noqa: SIM115
        with opened as f:
            f.write(text)


def _trace_modules(on: bool) -> None:
    """Turn the tracing of module calls on or off."""
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


def kineto_available() -> bool:
    """Return ``False``: profiles come from the engine, and not from PyTorch's library of that name."""
    return False
