"""One of several branches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torchlette import _C, lax
from torchlette._compat._higher_order_ops.arguments import all_tensors, recording
from torchlette.utils._pytree import tree_leaves

__all__ = ["switch"]


def switch(index: Any, branches: tuple[Callable[..., Any], ...] | list[Callable[..., Any]], operands: Any = ()) -> Any:
    """Return ``branches[index](*operands)``, with ``index`` clamped to the branches that there are.

    Args:
        index: An integer, or an integer tensor with one element.
        branches: Functions of the operands with results of the same types and shapes.
        operands: A tuple of trees of tensors.
    """
    if not isinstance(index, (int, _C.Tensor)) or isinstance(index, _C.Tensor) and index.numel() != 1:
        raise RuntimeError(f"Expected index to be int or single-element tensor, but got {index}.")
    if not isinstance(branches, (tuple, list)) or not branches:
        raise RuntimeError("Expected branches to be a non-empty tuple or list of callables.")
    for i, branch in enumerate(branches):
        if not callable(branch):
            raise RuntimeError(f"Expected all branches to be callable. branch{i} is not callable.")
    for leaf in tree_leaves(operands):
        if not all_tensors(leaf):
            raise RuntimeError(f"All operand leaves must be a Tensor but got {leaf}")
    with recording():
        return lax.switch(index.reshape(()) if isinstance(index, _C.Tensor) else int(index), branches, *operands)
