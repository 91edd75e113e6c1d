"""A loop that a condition ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torchlette import lax
from torchlette._compat._higher_order_ops.arguments import recording

__all__ = ["while_loop"]


def while_loop(
    cond_fn: Callable[..., Any], body_fn: Callable[..., Any], carried_inputs: tuple[Any, ...] | list[Any]
) -> Any:
    """Return the values after ``values = body_fn(*values)`` as long as ``cond_fn(*values)`` is true.

    Args:
        cond_fn: A function of the values that returns a bool without dims.
        body_fn: A function of the values that returns values of the same types and shapes.
        carried_inputs: The first values: trees of tensors and numbers. Numbers become tensors.
    """
    if not callable(cond_fn) or not callable(body_fn):
        raise RuntimeError("Expect cond_fn and body_fn to be callable.")
    if not isinstance(carried_inputs, (tuple, list)):
        raise RuntimeError(f"Expect carried_inputs to be a tuple, but got {type(carried_inputs)}.")
    with recording():
        return lax.while_loop(lambda v: cond_fn(*v), lambda v: tuple(body_fn(*v)), tuple(carried_inputs))
