"""Parameters and buffers: tensors that a module owns."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from torchlette import _C

__all__ = ["Buffer", "Parameter"]


class Parameter(_C.Tensor):
    """A tensor that becomes a parameter of a module when it is assigned to an attribute of it.

    Args:
        data: The initial value; ``None`` gives an empty tensor.
        requires_grad: Whether ``backward()`` fills ``.grad``.
    """

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
    """Makes ``isinstance(t, Buffer)`` ask for the mark that ``Buffer(t)`` leaves on the tensor."""

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


# Values of a state dict: name -> tensor, with the attribute _metadata.
StateDict = OrderedDict[str, Any]
