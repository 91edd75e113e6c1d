"""ONNX export is not supported; the query whether an export is running returns False."""

from __future__ import annotations

from typing import Any, NoReturn

__all__ = ["export", "is_in_onnx_export"]


def is_in_onnx_export() -> bool:
    """Return ``False``."""
    return False


def export(*args: Any, **kwargs: Any) -> NoReturn:
    """Raise: there is no exporter."""
    raise NotImplementedError(
        "onnx.export is not supported: load the state_dict, saved as safetensors, into the module in PyTorch, and "
        "export that"
    )
