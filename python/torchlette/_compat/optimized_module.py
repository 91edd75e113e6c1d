"""The module that :func:`torchlette.compiler.compile` makes of a module."""

from __future__ import annotations

from collections.abc import Callable, Sized
from typing import Any

from torchlette._runtime.regions import Context
from torchlette.nn.modules.conversion import type_name
from torchlette.nn.modules.module import Module

__all__ = ["OptimizedModule"]

_OWN = {"_orig_mod", "dynamo_ctx", "_torchdynamo_orig_callable", "get_compiler_config", "forward", "_complete"}


class OptimizedModule(Module):
    """A module whose call runs the original module in a compiled region.

    It owns the original as its only submodule ``_orig_mod``, so the keys of its ``state_dict`` begin with
    ``_orig_mod.``. All other attributes are those of the original.
    """

    _orig_mod: Module
    get_compiler_config: Callable[[], dict[str, Any]]

    def __init__(self, mod: Module, dynamo_ctx: Context) -> None:
        """Wrap ``mod``."""
        object.__setattr__(self, "_complete", False)
        super().__init__()
        object.__setattr__(self, "_complete", True)
        self._orig_mod = mod
        self.dynamo_ctx = dynamo_ctx
        self._initialize()

    def _initialize(self) -> None:
        self.forward = self.dynamo_ctx.function(self._orig_mod.__call__)
        self._torchdynamo_orig_callable = self._orig_mod.forward
        self.get_compiler_config = self.dynamo_ctx.get_config

    def __len__(self) -> int:
        """Return the length of the original module."""
        if isinstance(self._orig_mod, Sized):
            return len(self._orig_mod)
        raise TypeError(f"{type_name(self._orig_mod)} does not support len()")

    def __reduce__(self) -> tuple[type[OptimizedModule], tuple[Module, Context]]:
        return type(self), (self._orig_mod, self.dynamo_ctx)

    @property
    def training(self) -> bool:
        """Whether the original module is in training mode."""
        return self._orig_mod.training

    @training.setter
    def training(self, value: bool) -> None:
        if self._complete:  # Module.__init__ sets the default before there is an original
            self._orig_mod.training = value

    def __getattr__(self, name: str) -> Any:
        if name == "_orig_mod":
            return self.__dict__["_modules"]["_orig_mod"]
        return getattr(self._orig_mod, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if hasattr(type(self), name) or name in _OWN:
            return super().__setattr__(name, value)
        return setattr(self._orig_mod, name, value)

    def __delattr__(self, name: str) -> None:
        if hasattr(type(self), name) or name in _OWN:
            return super().__delattr__(name)
        return delattr(self._orig_mod, name)

    def __dir__(self) -> list[str]:
        return sorted({*dir(self._orig_mod), *super().__dir__()})
