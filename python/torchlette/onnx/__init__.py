"""ONNX export is not supported; the query whether an export is running returns False."""

from __future__ import annotations

from typing import Any, NoReturn

__all__ = ["export", "is_in_onnx_export", "register_custom_op_symbolic", "unregister_custom_op_symbolic"]


def is_in_onnx_export() -> bool:
    """Return ``False``."""
    return False


def export(*args: Any, **kwargs: Any) -> NoReturn:
    """Raise: there is no exporter."""
    raise NotImplementedError(
        "onnx.export is not supported: load the state_dict, saved as safetensors, into the module in PyTorch, and "
        "export that"
    )


def register_custom_op_symbolic(
    symbolic_name: str, symbolic_fn: Any, opset_version: int, custom_opsets: Any = None
) -> None:
    """Do nothing: what an exporter would write for an operator has no use without one."""


def unregister_custom_op_symbolic(symbolic_name: str, opset_version: int) -> None:
    """Do nothing, as :func:`register_custom_op_symbolic`."""
