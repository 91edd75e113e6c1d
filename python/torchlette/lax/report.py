"""How loops run."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from torchlette._runtime.api import _info

__all__ = ["LoopPath", "loop_report"]

#: What ``accept_path`` may be.
Paths = str | Collection[str] | None


@dataclass(frozen=True)
class LoopPath:
    """How one loop runs.

    Attributes:
        path: "A": one kernel runs all iterations, and carries stay in registers. "B": a workgroup of a GPU runs all
            iterations, and carries stay in its memory. "C": each iteration runs the launches of the body.
        device: The device that runs the loop.
        length: The number of iterations; for a loop that a condition ends, a bound of it.
        reason: Why the loop is not on path A, or not on the device of its operands; "" if it is.
    """

    path: str
    device: str
    length: int
    reason: str


def _recent() -> list[dict[str, Any]]:
    return list(_info("loops"))


def loop_report(f: Callable[..., Any]) -> Callable[..., list[LoopPath]]:
    """Return a function that calls ``f`` and returns how each loop in it runs, in the order of recording.

    The loops of gradients are not listed. Only the last 256 loops of a call are.

    >>> from torchlette import lax
    >>> import torchlette.torch as torch
    >>> lax.loop_report(lambda x: lax.fori_loop(0, 9, lambda i, v: v * 0.5, x))(torch.ones(3))[0].path
    'A'
    """

    def report(*args: Any, **kwargs: Any) -> list[LoopPath]:
        before = max((r["number"] for r in _recent()), default=-1)
        f(*args, **kwargs)
        return [LoopPath(r["path"], r["device"], r["length"], r["reason"]) for r in _recent() if r["number"] > before]

    return report


def check_path(what: str, accepted: Paths) -> None:
    """Raise RuntimeError where the loop recorded last takes a path that is not accepted."""
    if accepted is None:
        return
    paths = {accepted} if isinstance(accepted, str) else set(accepted)
    unknown = paths - {"A", "B", "C"}
    if unknown or not paths:
        raise ValueError(f"lax.{what}: accept_path: got {accepted!r}, want some of A, B and C")
    taken = _recent()[-1]
    if taken["path"] not in paths:
        why = f": {taken['reason']}" if taken["reason"] else ""
        got = f"the loop takes path {taken['path']} on {taken['device']}"
        raise RuntimeError(f"lax.{what}: {got}, which accept_path={accepted!r} excludes{why}")
