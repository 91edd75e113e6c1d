"""Loops and branches by PyTorch's names and signatures; :mod:`torchlette.lax` computes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torchlette import lax
from torchlette.utils._pytree import tree_map

__all__ = ["cond", "map", "scan", "while_loop"]


def cond(
    pred: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any], operands: tuple[Any, ...] | list[Any] = ()
) -> Any:
    """Return ``true_fn(*operands)`` where ``pred`` is true, else ``false_fn(*operands)``; see :func:`lax.cond`.

    Args:
        pred: A bool, or a tensor with one element.
        true_fn: A function of the operands.
        false_fn: A function of the operands with results of the same types and shapes.
        operands: Trees of tensors.
    """
    if not isinstance(operands, (tuple, list)):
        raise RuntimeError(
            "Expect operands to be a tuple of possibly nested dict/list/tuple that only consists of tensor leaves, "
            f"but got {operands}."
        )
    return lax.cond(pred, true_fn, false_fn, *operands)


def while_loop(
    cond_fn: Callable[..., Any], body_fn: Callable[..., Any], carried_inputs: tuple[Any, ...] | list[Any]
) -> Any:
    """Return the values after ``values = body_fn(*values)`` as long as ``cond_fn(*values)`` is true."""
    if not isinstance(carried_inputs, (tuple, list)):
        raise RuntimeError(f"Expect carried_inputs to be a tuple, but got {type(carried_inputs)}.")
    return lax.while_loop(lambda v: cond_fn(*v), lambda v: tuple(body_fn(*v)), tuple(carried_inputs))


def scan(combine_fn: Callable[[Any, Any], Any], init: Any, xs: Any, *, dim: int = 0, reverse: bool = False) -> Any:
    """Return the last carry, and all results stacked along dim 0; ``dim`` is the dimension of ``xs``."""
    return lax.scan(combine_fn, init, tree_map(lambda x: x.movedim(dim, 0), xs), reverse=reverse)


def map(f: Callable[..., Any], xs: Any, *args: Any) -> Any:  # noqa: A001
    """Return ``f(x, *args)`` of each element ``x`` of ``xs``, stacked."""
    return lax.map(lambda x: f(x, *args), xs)
