"""Wrapper subclasses: tensors without memory, whose class answers operators by ``__torch_dispatch__``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torchlette import _C, autograd
from torchlette._runtime.aten import OpOverload
from torchlette._runtime.errors import NotSupportedError
from torchlette._runtime.nested import tensors_in

__all__ = ["dispatch", "make_wrapper_subclass", "wraps"]

Tensor = _C.Tensor

#: Methods that answer from what the object itself knows.
ANSWERED_BY_OBJECTS = frozenset(
    """
    __get__ __set__ __delete__ __repr__ __format__ __hash__ __len__ size dim ndimension numel nelement stride
    storage_offset element_size is_contiguous is_floating_point is_complex is_signed get_device requires_grad_
    register_hook retain_grad untyped_storage data_ptr is_inference is_conj is_neg _is_view is_pinned
    """.split()
)

#: Methods whose results have no history.
_DETACHED = frozenset({"detach", "detach_"})


def make_wrapper_subclass(
    cls: type,
    size: Sequence[int],
    *,
    strides: Sequence[int] | None = None,
    storage_offset: int | None = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    **options: Any,
) -> Tensor:
    """Return an object of a class with a shape, a dtype and a device, but without memory.

    Operators of it call ``cls.__torch_dispatch__(func, types, args, kwargs)``, with ``func`` in ``torch.ops.aten``.
    Unlike in PyTorch, the steps have no gradients: a call that should record one raises.

    Args:
        cls: A subclass of Tensor that defines ``__torch_dispatch__``.
        size: The shape.
        strides: None: dense.
        storage_offset: Must be 0 or None.
        dtype: None: the default dtype.
        device: What ``device`` says; None: the CPU.
        requires_grad: Whether it says that it requires a gradient.
        options: Accepted for compatibility: memory_format, layout, pin_memory and others.

    Raises:
        RuntimeError: ``cls`` has no ``__torch_dispatch__``.
        TypeError: ``cls`` is no subclass of Tensor.
    """
    if not (isinstance(cls, type) and issubclass(cls, Tensor)):
        raise TypeError(f"_make_wrapper_subclass(): {cls!r} is no subclass of Tensor")
    if not wraps(cls):
        raise RuntimeError(f"{cls.__name__}: _make_wrapper_subclass needs a class that defines __torch_dispatch__")
    if storage_offset:
        raise NotSupportedError(f"_make_wrapper_subclass: expected storage_offset 0, got {storage_offset}")
    dtype = dtype or _C.get_default_dtype()
    if strides is None:
        empty = _C.empty(tuple(size), dtype=dtype, device="meta")
    else:
        empty = _C.empty_strided(tuple(size), tuple(strides), dtype=dtype, device="meta")
    made = Tensor._make_subclass(cls, empty, requires_grad)
    made.__dict__["_wrapper_device"] = _C.device(device if device is not None else "cpu")
    if not isinstance(vars(cls).get("device"), property):
        type.__setattr__(cls, "device", property(_device))
    return made


def _device(self: Tensor) -> Any:
    given = self.__dict__.get("_wrapper_device")
    return Tensor.device.__get__(self) if given is None else given


def wraps(cls: type) -> bool:
    """Return whether a class answers operators by ``__torch_dispatch__``."""
    return callable(getattr(cls, "__torch_dispatch__", None))


def dispatch(
    kinds: Sequence[type], func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any] | None
) -> Any:
    """Let the classes with ``__torch_dispatch__`` among the arguments' answer.

    Args:
        kinds: The arguments' classes that answer calls.
        func: The function that was called.
        args: Its positional arguments.
        kwargs: Its keyword arguments.

    Raises:
        NotSupportedError: The call would need a gradient.
        TypeError: All answered NotImplemented.
    """
    from torchlette._compat.overrides import DisableTorchFunctionSubclass

    name = getattr(func, "__name__", "")
    if name in ANSWERED_BY_OBJECTS:
        with DisableTorchFunctionSubclass():
            return func(*args, **(kwargs or {}))
    operands = tensors_in([args, kwargs]) if autograd.is_grad_enabled() and name not in _DETACHED else []
    if any(t.requires_grad for t in operands):
        raise NotSupportedError(
            f"{name}: operators of {kinds[0].__name__}, which defines __torch_dispatch__, have no gradients; call them "
            "under torch.no_grad(), or with detached tensors"
        )
    operator = OpOverload(name.removeprefix("__").removesuffix("__") if name.startswith("__") else name)
    for kind in filter(wraps, kinds):
        with autograd.no_grad():
            result = kind.__torch_dispatch__(operator, tuple(kinds), args, kwargs or {})  # type: ignore[attr-defined]
        if result is not NotImplemented:
            return result
    raise TypeError(
        f"Multiple dispatch failed for '{operator}'; all __torch_dispatch__ handlers returned NotImplemented"
    )
