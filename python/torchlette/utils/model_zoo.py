"""The former name of the download functions of :mod:`torchlette.hub`."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from torchlette._compat.hub import load_state_dict_from_url as load_url

__all__ = ["load_url"]


def __getattr__(name: str) -> Any:
    """Import tqdm, the progress bar, at its first use."""
    if name == "tqdm":
        return import_module("tqdm").tqdm
    raise AttributeError(f"module 'torchlette.utils.model_zoo' has no attribute {name!r}")
