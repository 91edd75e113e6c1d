"""A function of each element."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torchlette import lax
from torchlette._compat._higher_order_ops.arguments import all_tensors, recording
from torchlette.utils._pytree import tree_leaves

__all__ = ["map"]


def map(f: Callable[..., Any], xs: Any, *args: Any) -> Any:  # noqa: A001
    """Return ``f(x, *args)`` of each element ``x`` of ``xs``, stacked.

    Args:
        f: A function of a tree of tensors, and of ``args``.
        xs: A tree of tensors [n, ...].
        args: The same in each call.
    """
    leaves = tree_leaves(xs)
    if not all_tensors(leaves):
        raise RuntimeError(f"Mapped xs can only consist of tensors. Got xs {leaves}.")
    shapes = [leaf.shape for leaf in leaves]
    if not all(shapes):
        raise IndexError("map: want xs with dims: the first one counts the elements")
    if any(shape[0] == 0 for shape in shapes):
        raise RuntimeError("Leading dimensions of mapped xs cannot be 0.")
    if any(shape[0] != shapes[0][0] for shape in shapes):
        raise RuntimeError(f"Leading dimensions of mapped xs must be consistent. Got shapes {shapes}.")
    with recording():
        return lax.map(lambda x: f(x, *args), xs)
