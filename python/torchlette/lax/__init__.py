"""Loops whose body is recorded once: the functions and signatures of ``jax.lax``.

A body is traced on placeholders. Its operations become a program, which the engine runs for each iteration without
Python, with gradients of any order. ``docs/loops.md`` says more.
"""

from torchlette.lax.branches import cond, switch, while_loop
from torchlette.lax.loops import associative_scan, fori_loop, map, scan
from torchlette.lax.report import LoopPath, loop_report

__all__ = [
    "LoopPath",
    "associative_scan",
    "cond",
    "fori_loop",
    "loop_report",
    "map",
    "scan",
    "switch",
    "while_loop",
]
