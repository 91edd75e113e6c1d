"""A loop over the elements of tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torchlette import _C, lax
from torchlette._compat._higher_order_ops.arguments import check_scan, dimension, recording
from torchlette.utils._pytree import tree_leaves, tree_map

__all__ = ["scan"]


def scan(
    combine_fn: Callable[[Any, Any], Any],
    init: Any,
    xs: Any,
    *,
    dim: int = 0,
    reverse: bool = False,
    length: int | None = None,
) -> Any:
    """Return the last carry of ``carry, y = combine_fn(carry, x)``, and all ``y`` stacked along ``dim``.

    Args:
        combine_fn: A function of a carry and of a slice of ``xs`` that returns a carry and a tree of tensors.
        init: The first carry: a tree of tensors.
        xs: A tree of tensors of one size in ``dim``; without leaves ``combine_fn`` gets ``None``, ``length`` times.
        dim: The dimension of ``xs`` and of the stacked results; those with fewer dims have it first.
        reverse: Begin with the last slice.
        length: The number of slices; needed where ``xs`` has none.
    """
    if length is not None and (isinstance(length, bool) or not isinstance(length, int) or length < 0):
        raise RuntimeError(f"scan() length must be a non-negative integer, got {length!r}")
    leaves = tree_leaves(xs)
    if not any(isinstance(leaf, _C.Tensor) for leaf in leaves):
        if length is None:
            return init, []
        with recording():
            return lax.scan(lambda carry, _: combine_fn(carry, None), init, None, length, reverse)
    check_scan(combine_fn, dim, reverse, RuntimeError)
    carries = tree_leaves(init)
    if not carries:
        raise RuntimeError("scan() operator requires init leaves.")
    for what, found in (("init", carries), ("xs", leaves)):
        for leaf in found:
            if not isinstance(leaf, _C.Tensor):
                raise RuntimeError(f"All {what} leaves must be a Tensor but got {leaf}")
    dim = dimension(leaves, dim, RuntimeError)
    if any(leaf.shape[dim] != leaves[0].shape[dim] for leaf in leaves):
        raise RuntimeError("All xs leaves must have the same scan dimension size")
    if length is not None and leaves[0].shape[dim] != length:
        raise RuntimeError(f"scan() length={length} does not match xs size along dim={dim}: {leaves[0].shape[dim]}")
    with recording():
        last, ys = lax.scan(combine_fn, init, tree_map(lambda x: x.movedim(dim, 0), xs), reverse=reverse)
    return last, tree_map(lambda y: y.movedim(0, dim) if isinstance(y, _C.Tensor) and dim < y.dim() else y, ys)
