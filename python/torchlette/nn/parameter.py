"""Parameters and buffers: tensors that a module owns."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from torchlette import _C

__all__ = ["Buffer", "Parameter", "UninitializedBuffer", "UninitializedParameter", "is_lazy"]


class Parameter(_C.Tensor):
    """A tensor that becomes a parameter of a module when it is assigned to an attribute of it.

    Args:
        data: The initial value; ``None`` gives an empty tensor.
        requires_grad: Whether ``backward()`` fills ``.grad``.
    """

    __torch_function__ = _C._disabled_torch_function_impl

    def __new__(cls, data: _C.Tensor | None = None, requires_grad: bool = True) -> Parameter:
        """Wrap the value of ``data`` without copying it."""
        if data is None:
            data = _C.empty(0)
        elif not isinstance(data, _C.Tensor):
            raise TypeError(f"Parameter: data must be a Tensor, got {type(data).__name__}")
        return _C.Tensor._make_subclass(cls, data.detach(), requires_grad)

    def __deepcopy__(self, memo: dict[int, Any]) -> Parameter:
        if id(self) in memo:
            return memo[id(self)]
        copied = type(self)(self.detach().clone(), self.requires_grad)
        memo[id(self)] = copied
        return copied

    def __repr__(self) -> str:
        return "Parameter containing:\n" + super().__repr__()

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return (_rebuild_parameter, (self.detach(), self.requires_grad))


def _rebuild_parameter(data: _C.Tensor, requires_grad: bool) -> Parameter:
    """Unpickle a parameter."""
    return Parameter(data, requires_grad)


class _BufferMeta(type):
    """Makes ``isinstance(t, Buffer)`` check the mark that ``Buffer(t)`` sets on the tensor."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, _C.Tensor) and getattr(instance, "_is_buffer", False)


class Buffer(metaclass=_BufferMeta):
    """A tensor that becomes a buffer of a module when it is assigned to an attribute of it.

    Args:
        data: The initial value; ``None`` gives an empty tensor.
        persistent: Whether the buffer is part of the module's ``state_dict``.
    """

    def __new__(cls, data: _C.Tensor | None = None, *, persistent: bool = True) -> _C.Tensor:
        """Return an alias of ``data`` that is marked as a buffer."""
        alias = (_C.empty(0) if data is None else data).detach()
        alias.requires_grad_(False if data is None else data.requires_grad)
        alias.persistent = persistent
        alias._is_buffer = True
        return alias


class UninitializedTensorMixin:
    """A tensor whose shape is not known yet; it has a device and a dtype."""

    cls_to_become: type

    def materialize(self, shape: Any, device: Any = None, dtype: Any = None) -> None:
        """Become a tensor of the given shape, with undefined elements."""
        device = self.device if device is None else device
        self.data = _C.empty(
            (shape,) if isinstance(shape, int) else tuple(shape),
            device=device,
            dtype=self.dtype if dtype is None else dtype,
        )
        self.__class__ = self.cls_to_become

    @property
    def shape(self) -> Any:
        """Raise: the shape is unknown."""
        raise RuntimeError(
            "Can't access the shape of an uninitialized parameter or buffer. This error usually happens in "
            "`load_state_dict` when trying to load "
            "an uninitialized parameter into an initialized one. Call `forward` to initialize the parameters before "
            "accessing their attributes."
        )

    def detach(self) -> Any:
        """Return self: there is no history."""
        return self

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return memo.setdefault(id(self), type(self)(self.requires_grad, self.device, self.dtype))

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return (type(self), (self.requires_grad,))


class UninitializedParameter(UninitializedTensorMixin, Parameter):
    """A parameter whose shape is set by the first call of its lazy module."""

    cls_to_become = Parameter

    def __new__(cls, requires_grad: bool = True, device: Any = None, dtype: Any = None) -> UninitializedParameter:
        """Make one without elements."""
        return _C.Tensor._make_subclass(cls, _C.empty(0, device=device, dtype=dtype), requires_grad)


class _InitializedBuffer(_C.Tensor):
    """What an :class:`UninitializedBuffer` becomes."""

    __torch_function__ = _C._disabled_torch_function_impl


class UninitializedBuffer(UninitializedTensorMixin, _C.Tensor):
    """A buffer whose shape is set by the first call of its lazy module."""

    cls_to_become = _InitializedBuffer
    __torch_function__ = _C._disabled_torch_function_impl

    def __new__(
        cls, requires_grad: bool = False, device: Any = None, dtype: Any = None, persistent: bool = True
    ) -> UninitializedBuffer:
        """Make one without elements."""
        made = _C.Tensor._make_subclass(cls, _C.empty(0, device=device, dtype=dtype), requires_grad)
        made.persistent = persistent
        made._is_buffer = True
        return made


def is_lazy(param: Any) -> bool:
    """Return whether ``param`` is a parameter or buffer without a shape."""
    return isinstance(param, UninitializedTensorMixin)


# Values of a state dict: name -> tensor, with the attribute _metadata.
StateDict = OrderedDict[str, Any]
