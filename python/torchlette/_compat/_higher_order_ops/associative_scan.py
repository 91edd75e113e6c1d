"""Running results of an associative function along a dimension."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torchlette import func, lax
from torchlette._compat._higher_order_ops.arguments import all_tensors, check_scan, dimension, recording
from torchlette.utils._pytree import tree_leaves, tree_map

__all__ = ["associative_scan"]


def associative_scan(
    combine_fn: Callable[[Any, Any], Any], xs: Any, dim: int, reverse: bool = False, combine_mode: str = "pointwise"
) -> Any:
    """Return ``x0``, ``combine_fn(x0, x1)``, ``combine_fn(combine_fn(x0, x1), x2)``, ... along ``dim``.

    Args:
        combine_fn: An associative function of two trees like ``xs``.
        xs: A tensor, or a tree of tensors of one size in ``dim``.
        dim: The dimension.
        reverse: From the last element to the first.
        combine_mode: "generic" calls ``combine_fn`` with elements, which lack ``dim``, under ``vmap``; "pointwise" with
            several elements at once, stacked along dim 0.
    """
    leaves = tree_leaves(xs)
    if not leaves:
        raise ValueError("Expected at least 1 xs leaf")
    if not all_tensors(leaves):
        raise ValueError("xs leaves must be a Tensor")
    check_scan(combine_fn, dim, reverse, ValueError)
    if combine_mode not in ("pointwise", "generic"):
        raise ValueError(f"Combine_mode must either 'pointwise' or 'generic', but got {combine_mode}")
    dim = dimension(leaves, dim, ValueError)
    combine = func.vmap(combine_fn) if combine_mode == "generic" else combine_fn
    moved = tree_map(lambda x: x.movedim(dim, 0), xs)
    with recording():
        scanned = lax.associative_scan(combine, moved, reverse)
    return tree_map(lambda y: y.movedim(0, dim), scanned)
