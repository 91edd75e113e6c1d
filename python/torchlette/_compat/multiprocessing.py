"""Processes: the standard library's names, and :func:`spawn`. Tensors travel by value.

A child made by fork starts with an empty engine. There is no shared memory of tensors: gradients or results
are sent back through a queue.
"""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
from collections.abc import Callable
from multiprocessing import *  # noqa: F403
from typing import Any

__all__ = [
    *multiprocessing.__all__,  # noqa: PLE0604
    "ProcessExitedException",
    "ProcessRaisedException",
    "get_all_sharing_strategies",
    "get_sharing_strategy",
    "set_sharing_strategy",
    "spawn",
]

_STRATEGY = "file_system"


class ProcessExitedException(Exception):
    """A process of :func:`spawn` ended with a nonzero exit code."""


ProcessRaisedException = ProcessExitedException


def get_all_sharing_strategies() -> set[str]:
    """Return the only strategy: tensors are sent by value."""
    return {_STRATEGY}


def get_sharing_strategy() -> str:
    """Return the only strategy: tensors are sent by value."""
    return _STRATEGY


def set_sharing_strategy(new_strategy: str) -> None:
    """Accept PyTorch's names; tensors are sent by value."""
    if new_strategy not in ("file_system", "file_descriptor"):
        raise AssertionError(
            f"set_sharing_strategy: new_strategy is wrong: got {new_strategy!r}, want 'file_system' or "
            f"'file_descriptor'"
        )


def spawn(
    fn: Callable[..., None],
    args: tuple[Any, ...] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> Any:
    """Call ``fn(i, *args)`` in ``nprocs`` processes; return the processes, or ``None`` once they have ended.

    Raises:
        ProcessExitedException: If one of them failed, with its number and exit code; the others are ended.
    """
    context = multiprocessing.get_context(start_method)
    processes: list[Any] = [context.Process(target=fn, args=(i, *args), daemon=daemon) for i in range(nprocs)]
    for process in processes:
        process.start()
    if not join:
        return processes
    waiting = {p.sentinel: i for i, p in enumerate(processes)}
    while waiting:
        for sentinel in multiprocessing.connection.wait(list(waiting)):
            i = waiting.pop(sentinel)  # type: ignore[index]
            processes[i].join()
            if processes[i].exitcode != 0:
                for other in processes:
                    other.terminate()
                raise ProcessExitedException(f"process {i} terminated with exit code {processes[i].exitcode}")
    return None
