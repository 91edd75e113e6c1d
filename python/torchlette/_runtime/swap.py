"""Tensors that swap what they hold."""

from __future__ import annotations

import copyreg
import weakref

from torchlette import _C

__all__ = ["swap_tensors"]


def _slots(tensor: _C.Tensor) -> set[str]:
    return set(copyreg._slotnames(type(tensor)))  # type: ignore[attr-defined]


def _refuse_gradient(grad: _C.Tensor) -> None:
    raise RuntimeError(
        "Trying to execute AccumulateGrad node that was poisoned by swap_tensors: the tensor was swapped after a "
        "forward pass had used it. Convert or load a module before its forward pass, or after the backward pass."
    )


def _close_history(tensor: _C.Tensor) -> None:
    """Let backward fail that reaches a leaf through steps recorded before the swap."""
    if tensor.is_leaf and tensor.requires_grad:
        hook = tensor.register_hook(_refuse_gradient)
        if tensor._owns_hook(hook.id):  # no step has used it
            hook.remove()


def _swap_slot(t1: _C.Tensor, t2: _C.Tensor, name: str) -> None:
    values = [(t2, getattr(t1, name))] if hasattr(t1, name) else []
    values += [(t1, getattr(t2, name))] if hasattr(t2, name) else []
    for tensor in (t1, t2):
        if hasattr(tensor, name):
            delattr(tensor, name)
    for tensor, value in values:
        setattr(tensor, name, value)


def swap_tensors(t1: _C.Tensor, t2: _C.Tensor) -> None:
    """Swap what two tensors hold: values, class, attributes, gradients and hooks. Each object keeps its identity.

    A backward pass through steps that used one of them before raises.

    Args:
        t1: One tensor.
        t2: The other.

    Raises:
        RuntimeError: There is a weak reference to one of them, or their classes have different ``__slots__``.
    """
    for name, tensor in (("t1", t1), ("t2", t2)):
        if weakref.getweakrefs(tensor):
            raise RuntimeError(f"Cannot swap {name} because it has weakref associated with it")
    slots = _slots(t1)
    if slots != _slots(t2):
        raise RuntimeError("Cannot swap t1 and t2 if they have different slots")
    if t1 is t2:
        return
    _close_history(t1)
    _close_history(t2)
    if type(t1) is not type(t2):
        t1.__class__, t2.__class__ = t2.__class__, t1.__class__
    for name in slots:
        _swap_slot(t1, t2, name)
    t1._swap(t2)
