"""Data loading, checkpoints, DLPack and hook handles."""

from __future__ import annotations

import importlib

from torchlette.utils import hooks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["checkpoint", "data", "dlpack", "hooks", "swap_tensors"]


_LAZY = ("checkpoint", "cpp_extension", "data", "dlpack", "model_zoo")


def __getattr__(name: str) -> Any:
    """Import a submodule, or what only some programs use, at its first use."""
    if name == "swap_tensors":
        return importlib.import_module("torchlette._runtime.swap").swap_tensors
    if name in _LAZY:
        return importlib.import_module(f"torchlette.utils.{name}")
    raise AttributeError(f"module 'torchlette.utils' has no attribute {name!r}")
