"""Checks of arguments, with PyTorch's errors."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from torchlette import _C
from torchlette._runtime.errors import UncapturedHigherOrderOpError
from torchlette.lax.body import BodyTypeError
from torchlette.utils._pytree import tree_leaves

__all__ = ["all_tensors", "check_scan", "dimension", "recording"]


@contextlib.contextmanager
def recording() -> Iterator[None]:
    """Context of a loop of :mod:`torchlette.lax`: what JAX calls a TypeError of a body has PyTorch's class."""
    try:
        yield
    except BodyTypeError as error:
        raise UncapturedHigherOrderOpError(str(error)) from None


def all_tensors(tree: Any) -> bool:
    """Whether all leaves of a tree are tensors."""
    return all(isinstance(leaf, _C.Tensor) for leaf in tree_leaves(tree))


def check_scan(combine_fn: Any, dim: Any, reverse: Any, error: Callable[[str], Exception]) -> None:
    """Check the arguments that all scans have."""
    if not callable(combine_fn):
        raise error(f"Combine_fn must be a callable, but got {combine_fn}")
    if not isinstance(dim, int):
        raise error("Dim must be an int, but got " + str(type(dim)))
    if not isinstance(reverse, bool):
        raise RuntimeError("Reverse must be a bool, but got " + str(type(reverse)))


def dimension(leaves: list[Any], dim: int, error: Callable[[str], Exception]) -> int:
    """Return ``dim``, counted from the first dim, of leaves that all have it."""
    rank = leaves[0].dim()
    if not -max(rank, 1) <= dim < max(rank, 1):
        raise IndexError(f"Dimension out of range (expected to be in range of [{-rank}, {rank - 1}], but got {dim})")
    dim += rank if dim < 0 else 0
    if any(leaf.dim() <= dim for leaf in leaves):
        raise error("All xs leaves must have at least 'dim + 1' dimensions")
    return dim
