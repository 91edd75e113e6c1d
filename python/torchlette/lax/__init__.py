"""Loops whose body is recorded once: the functions and signatures of ``jax.lax``.

A body is traced on placeholders. Its operations become a program, which the engine runs for each iteration without
Python, with gradients of any order. ``docs/loops.md`` says more.
"""

from torchlette.lax.loops import fori_loop, map, scan

__all__ = ["fori_loop", "map", "scan"]
