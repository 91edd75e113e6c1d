"""A branch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torchlette import _C, lax
from torchlette._compat._higher_order_ops.arguments import all_tensors, recording

__all__ = ["cond"]


def cond(
    pred: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any], operands: tuple[Any, ...] | list[Any] = ()
) -> Any:
    """Return ``true_fn(*operands)`` where ``pred`` is true, else ``false_fn(*operands)``; see :func:`lax.cond`.

    Args:
        pred: A number, or a tensor with one element.
        true_fn: A function of the operands.
        false_fn: A function of the operands with results of the same types and shapes.
        operands: Trees of tensors.
    """
    if not isinstance(pred, (bool, int, float, _C.Tensor)):
        raise RuntimeError(f"Expected pred to be bool or tensor, but got {pred}.")
    if isinstance(pred, _C.Tensor) and pred.numel() != 1:
        raise RuntimeError(f"Expected pred to be bool or single-element tensor, but got {pred}.")
    if not callable(true_fn) or not callable(false_fn):
        raise RuntimeError("Expect both branches to be callable.")
    if not isinstance(operands, (tuple, list)) or not all_tensors(operands):
        raise RuntimeError(
            "Expect operands to be a tuple of possibly nested dict/list/tuple that only consists of tensor leaves, "
            f"but got {operands}."
        )
    flag = pred.reshape(()) if isinstance(pred, _C.Tensor) else bool(pred)
    with recording():
        return lax.cond(flag, true_fn, false_fn, *operands)
