"""Data loading and hook handles."""

import importlib
from types import ModuleType

from torchlette.utils import hooks

__all__ = ["data", "hooks"]


def __getattr__(name: str) -> ModuleType:
    """Import ``data`` when it is first used: most programs that only compute never need it."""
    if name == "data":
        return importlib.import_module("torchlette.utils.data")
    raise AttributeError(f"module 'torchlette.utils' has no attribute {name!r}")
