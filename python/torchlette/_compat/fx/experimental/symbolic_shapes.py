"""``torch.fx.experimental.symbolic_shapes``: sizes are numbers here, so each question about a symbol has its answer."""

from __future__ import annotations

from typing import Any

__all__ = [
    "GuardOnDataDependentSymNode",
    "free_symbols",
    "free_unbacked_symbols",
    "guard_or_false",
    "guard_or_true",
    "guard_size_oblivious",
    "has_free_symbols",
    "is_symbolic",
    "statically_known_true",
    "sym_eq",
]


class GuardOnDataDependentSymNode(RuntimeError):
    """The error of a condition on an unknown size, which there is not: for ``except``."""


def free_symbols(val: Any) -> set[Any]:
    """Return the symbols of a size: none."""
    return set()


free_unbacked_symbols = free_symbols


def has_free_symbols(val: Any) -> bool:
    """Return False: sizes are numbers."""
    return False


def is_symbolic(val: Any) -> bool:
    """Return False: sizes are numbers."""
    return False


def guard_or_false(a: Any) -> bool:
    """Return the condition."""
    return bool(a)


guard_or_true = guard_size_oblivious = statically_known_true = guard_or_false


def sym_eq(x: Any, y: Any) -> bool:
    """Return whether two sizes, or nests of sizes, are equal."""
    return bool(x == y)
