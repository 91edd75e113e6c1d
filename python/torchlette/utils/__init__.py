"""Data loading, checkpoints, DLPack and hook handles."""

import importlib
from types import ModuleType

from torchlette._runtime.swap import swap_tensors
from torchlette.utils import hooks

__all__ = ["checkpoint", "data", "dlpack", "hooks", "swap_tensors"]


_LAZY = ("checkpoint", "cpp_extension", "data", "dlpack", "model_zoo")


def __getattr__(name: str) -> ModuleType:
    """Import a submodule at its first use."""
    if name in _LAZY:
        return importlib.import_module(f"torchlette.utils.{name}")
    raise AttributeError(f"module 'torchlette.utils' has no attribute {name!r}")
