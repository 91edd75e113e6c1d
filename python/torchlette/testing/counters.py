"""The engine's counters, for tests and benchmarks.

:func:`stats` reads every counter; :class:`Delta` brackets a block and gives the differences.
"""

from __future__ import annotations

import gc
import json
from types import TracebackType

from torchlette import _C

__all__ = ["LEVELS", "Delta", "leaked", "levels", "stats"]

#: Counters that must return to their former values once the tensors of a block are freed.
LEVELS = ("live_handles", "live_bases", "live_nodes", "tape_nodes", "live_buffers", "live_bytes")


def stats() -> dict[str, int]:
    """Return the engine's counters.

    Events since the engine began: ``plans_built``, ``plans_replayed``, ``windows``,
    ``nodes_recorded``, ``nodes_executed``, ``kernels_run``, ``bytes_written``,
    ``effects_logged``. Levels now: those of :data:`LEVELS`, ``nodes_pending``,
    ``pool_bytes`` and ``peak_bytes``.
    """
    return json.loads(_C._info("stats"))


def levels(collect: bool = True) -> dict[str, int]:
    """Return the counters of :data:`LEVELS` after a drain of the finalize queue and, by default, a collection."""
    if collect:
        gc.collect()
    _C.zeros(()).dispose()  # the next call reports the dead handles
    now = stats()
    return {name: now.get(name, 0) for name in LEVELS}


def leaked(before: dict[str, int], after: dict[str, int]) -> dict[str, int]:
    """Return the increases between two results of :func:`levels`."""
    return {name: after[name] - before[name] for name in LEVELS if after[name] > before[name]}


class Delta:
    """Counts the events of a block.

    Example::

        with Delta() as seen:
            c.item()
        assert seen["kernels_run"] == 1
    """

    def __enter__(self) -> Delta:
        self._before = stats()
        self._after: dict[str, int] | None = None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._after = stats()

    def __getitem__(self, name: str) -> int:
        after = self._after if self._after is not None else stats()
        return after[name] - self._before[name]
