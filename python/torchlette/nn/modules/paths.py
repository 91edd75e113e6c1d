"""Submodules, parameters and buffers by their dotted paths."""

from __future__ import annotations

from typing import Any

from torchlette import _C
from torchlette.nn.parameter import Parameter

__all__ = ["PathMixin"]


class PathMixin:
    """The methods of :class:`Module` that take a path, as in "encoder.layers.0.weight"."""

    def get_submodule(self, target: str) -> Any:
        """Return the submodule at the dotted path ``target``."""
        module: Any = self
        for item in target.split(".") if target else []:
            if not hasattr(module, item):
                raise AttributeError(f"{type(module).__name__} has no attribute `{item}`")
            module = getattr(module, item)
            if not isinstance(module, _C._ModuleBase):
                raise AttributeError(f"`{item}` is not an nn.Module")
        return module

    def set_submodule(self, target: str, module: Any, strict: bool = False) -> None:
        """Put ``module`` at the dotted path ``target``; ``strict`` demands that it replaces one.

        Args:
            target: The dotted path.
            module: The module to put there.
            strict: Whether there must be one at that path.
        """
        if not target:
            raise ValueError("Cannot set the submodule without a target name!")
        if not isinstance(module, _C._ModuleBase):
            raise ValueError(f"`module` is not an nn.Module, found {type(module)}")
        path, _, name = target.rpartition(".")
        parent = self.get_submodule(path)
        if strict and not hasattr(parent, name):
            raise AttributeError(f"{type(parent).__name__} has no attribute `{name}`")
        if hasattr(parent, name) and not isinstance(getattr(parent, name), _C._ModuleBase):
            raise AttributeError(f"`{name}` is not an nn.Module")
        setattr(parent, name, module)

    def _owner(self, target: str) -> tuple[Any, str]:
        path, _, name = target.rpartition(".")
        owner = self.get_submodule(path)
        if not hasattr(owner, name):
            raise AttributeError(f"{type(owner).__name__} has no attribute `{name}`")
        return owner, name

    def get_parameter(self, target: str) -> Parameter:
        """Return the parameter at the dotted path ``target``."""
        owner, name = self._owner(target)
        param = getattr(owner, name)
        if not isinstance(param, Parameter):
            raise AttributeError(f"`{name}` is not an nn.Parameter")
        return param

    def get_buffer(self, target: str) -> _C.Tensor:
        """Return the buffer at the dotted path ``target``."""
        owner, name = self._owner(target)
        if name not in owner._buffers:
            raise AttributeError(f"`{name}` is not a buffer")
        buffer: _C.Tensor = getattr(owner, name)
        return buffer
