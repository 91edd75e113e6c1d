"""The Go runtime's monitor thread leaves the cores to kernels; see capi/monitor_linux.c."""

import platform
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

import torchlette as torch

TASKS = Path("/proc/self/task")
NANOSLEEP = {"x86_64": "35", "aarch64": "101"}.get(platform.machine())


def read(name: str) -> dict[str, str]:
    """Read a file of each thread. Threads may end meanwhile."""
    found = {}
    for task in TASKS.iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):
            found[task.name] = (task / name).read_text()
    return found


def sleeps() -> dict[str, int]:
    """Count how often each thread has gone to sleep."""
    return {t: int(s.split("voluntary_ctxt_switches:")[1].split()[0]) for t, s in read("status").items()}


def in_nanosleep() -> set[str]:
    """List the threads that sleep as the monitor does, and no other thread of the runtime."""
    return {t for t, s in read("syscall").items() if s.split()[0] == NANOSLEEP}


@pytest.mark.skipif(not TASKS.exists(), reason="this system shows no threads in /proc")
def test_the_monitor_looks_seldom_after_a_pause():
    try:
        in_nanosleep()
    except OSError as exc:
        pytest.skip(f"/proc does not show what threads wait for: {exc}")
    a = torch.rand(1024, 1024)
    most = 0.0
    for _ in range(5):
        time.sleep(0.05)
        before, begin = sleeps(), time.perf_counter()
        work = threading.Thread(target=lambda: [(a @ a).sum().item() for _ in range(4)])
        work.start()
        monitors: set[str] = set()
        while work.is_alive():
            monitors |= in_nanosleep()
        after, ms = sleeps(), (time.perf_counter() - begin) * 1e3
        most = max([most, *((after[t] - before[t]) / ms for t in monitors & after.keys() & before.keys())])
    assert 0 < most < 1, "its timers are not coarse: it looks 14 times in a millisecond at first, not every 2 ms"
