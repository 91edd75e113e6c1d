"""Timing and recording for the benchmarks: sides alternate within one process, results are ratios."""

from __future__ import annotations

import argparse
import datetime
import gc
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

import torchlette
from torchlette import _C

RESULTS = Path(__file__).parent / "results"
#: Threads of both sides on the CPU, where the environment does not say.
THREADS = "2"


@dataclass
class Row:
    """One line of a table: our seconds and PyTorch's, or a figure without a rival."""

    name: str
    ours: float
    rival: float | None
    unit: str = "s"
    detail: dict[str, Any] = field(default_factory=dict)

    @property
    def ratio(self) -> float | None:
        """Ours over PyTorch's; below 1 we are faster."""
        return None if not self.rival else self.ours / self.rival

    def __str__(self) -> str:
        extra = "  ".join(f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in self.detail.items())
        if self.rival is None:
            return f"{self.name:<34} {_show(self.ours, self.unit):>11}  {extra}"
        ours, rival = _show(self.ours, self.unit), _show(self.rival, self.unit)
        return f"{self.name:<34} {ours:>11} {rival:>11}  x{self.ratio:.2f}  {extra}"


def _show(x: float, unit: str) -> str:
    if unit != "s":
        return f"{x:.4g} {unit}"
    for scale, name in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")):
        if x >= scale:
            return f"{x / scale:.3g} {name}"
    return f"{x * 1e9:.3g} ns"


#: After a call OpenBLAS's threads spin for 2^26 cycles and OpenMP's for some milliseconds, on cores that the next side
#: needs.
REST_SECONDS = 0.04


def seconds(f: Callable[[], Any], before: Callable[[], Any] | None = None) -> float:
    """Time one call of ``f`` with the cyclic collector off; ``before`` is called first, after the collector has walked
    through the caches.
    """
    gc.collect()
    gc.disable()
    try:
        if before:
            before()
        begin = time.perf_counter()
        f()
        return time.perf_counter() - begin
    finally:
        gc.enable()


def rest() -> None:
    """Wait until the threads of the side before sleep."""
    time.sleep(REST_SECONDS)


def race(
    ours: Callable[[], Any],
    rival: Callable[[], Any],
    rounds: int = 7,
    warm: int = 2,
    before: Callable[[], Any] | None = None,
) -> tuple[float, float]:
    """Return the medians of both sides over alternating rounds, after ``warm`` untimed ones; ``before`` is called
    before each call of ``ours``, untimed.
    """
    for _ in range(warm):
        if before:
            before()
        ours()
        rival()
    a, b = [], []
    for _ in range(rounds):
        a.append(seconds(ours, before))
        b.append(seconds(rival))
    return statistics.median(a), statistics.median(b)


def settle(run: Callable[[], Any]) -> None:
    """Call ``run`` until a GPU compiles no kernels beside the runs, for 10 seconds at most, and once more by these
    kernels.
    """
    for _ in range(3):
        run()
    end = time.perf_counter() + 10
    while torchlette.stats()["plans_compiling"] and time.perf_counter() < end:
        run()
    run()


@contextmanager
def other_core_busy(cores: int = 2) -> Iterator[None]:
    """Hold every thread of this process on its first ``cores`` cores, and keep the last of these busy with a process
    that spins.
    """
    pinned = hasattr(os, "sched_setaffinity")
    whole = os.sched_getaffinity(0) if pinned else set()
    kept = set(sorted(whole)[:cores])
    spin = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        if pinned:
            os.sched_setaffinity(spin.pid, {max(kept)})
            _pin(kept)
        yield
    finally:
        spin.kill()
        spin.wait()
        if pinned:
            _pin(whole)


def _pin(cores: set[int]) -> None:
    for thread in os.listdir("/proc/self/task"):
        with suppress(ProcessLookupError):  # it ended
            os.sched_setaffinity(int(thread), cores)


def _commit() -> str:
    done = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, cwd=RESULTS.parent, check=False
    )
    return done.stdout.strip() or "unknown"


def _processor() -> str:
    if os.path.exists("/proc/cpuinfo"):
        with open("/proc/cpuinfo") as f:
            for line in f:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def environment(device: str) -> dict[str, Any]:
    """Describe where a result was measured."""
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "commit": _commit(),
        "device": device,
        "processor": _processor(),
        "cores": os.cpu_count(),
        "system": platform.platform(),
        "python": sys.version.split()[0],
        "torch": torch.__version__,
        "torch_threads": torch.get_num_threads(),
        "torchlette": torchlette.__version__,
        "devices": json.loads(_C._info("devices")),
        "cuda": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
    }


def record(suite: str, device: str, rows: list[Row]) -> Path:
    """Write the rows and their environment to ``results/<suite>.json``."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{suite}.json"
    table = [
        {"name": r.name, "ours": r.ours, "torch": r.rival, "ratio": r.ratio, "unit": r.unit, **r.detail} for r in rows
    ]
    path.write_text(json.dumps({"environment": environment(device), "rows": table}, indent=1) + "\n")
    return path


def print_rows(suites: Iterable[Callable[[], Iterable[Row]]]) -> list[Row]:
    """Print the rows of suites as they come and return them."""
    print(f"{'':<34} {'torchlette':>11} {'torch':>11}  ratio")
    rows = []
    for suite in suites:
        for row in suite():
            rows.append(row)
            print(row, flush=True)
    return rows


def main(suite: str, rows: Callable[..., Iterable[Row]], device: str = "cpu", named: bool = False) -> None:
    """Run one suite as a program: its table, and with ``--record`` its file in ``results``.

    ``rows`` of a ``named`` suite takes the texts of which one must be in a row's name; none: all rows.
    """
    parser = argparse.ArgumentParser(description=f"{sys.modules[rows.__module__].__doc__}")
    parser.add_argument("--record", action="store_true", help=f"write results/{suite}.json")
    if named:
        parser.add_argument("name", nargs="*", help="a text of the rows to run")
    options = parser.parse_args()
    if device == "cpu":
        torchlette.set_num_threads(int(os.environ.get("TORCHLETTE_NUM_THREADS", THREADS)))
        torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", THREADS)))
    table = print_rows([lambda: rows(options.name) if named else rows()])
    if options.record:
        print(f"recorded in {record(suite, device, table)}")
