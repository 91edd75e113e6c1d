"""Running results of an associative function along a dimension."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torchlette import _C
from torchlette.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

__all__ = ["associative_scan"]


def associative_scan(
    combine_fn: Callable[[Any, Any], Any], xs: Any, dim: int, reverse: bool = False, combine_mode: str = "pointwise"
) -> Any:
    """Return ``x0``, ``combine_fn(x0, x1)``, ``combine_fn(combine_fn(x0, x1), x2)``, ... along ``dim``.

    In log2(n) rounds, each of which combines every element with the one 1, 2, 4, ... places before (W. D. Hillis and G.
    L. Steele, 1986).

    Args:
        combine_fn: An associative function of two trees like ``xs`` that works element by element.
        xs: A tensor, or a tree of tensors of one size in ``dim``.
        dim: The dimension.
        reverse: From the last element to the first.
        combine_mode: Accepted for compatibility.
    """
    leaves, spec = tree_flatten(xs)
    if not leaves:
        raise ValueError("associative_scan: Expected at least 1 xs leaf")
    if not callable(combine_fn):
        raise ValueError(f"associative_scan: Combine_fn must be callable, but got {combine_fn}")
    if reverse:
        leaves = [leaf.flip(dim) for leaf in leaves]
    size, offset = leaves[0].shape[dim], 1
    while offset < size:
        before = [leaf.narrow(dim, 0, size - offset) for leaf in leaves]
        now = [leaf.narrow(dim, offset, size - offset) for leaf in leaves]
        combined = tree_leaves(combine_fn(tree_unflatten(before, spec), tree_unflatten(now, spec)))
        leaves = [_C.cat([leaf.narrow(dim, 0, offset), new], dim) for leaf, new in zip(leaves, combined, strict=True)]
        offset *= 2
    return tree_unflatten([leaf.flip(dim) for leaf in leaves] if reverse else leaves, spec)
