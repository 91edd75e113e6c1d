"""The errors of compiled functions, under PyTorch's path."""

from __future__ import annotations

from torchlette._runtime.errors import (
    InvalidBackend,
    TorchDynamoException,
    UncapturedHigherOrderOpError,
    Unsupported,
)

__all__ = ["InvalidBackend", "TorchDynamoException", "UncapturedHigherOrderOpError", "Unsupported"]
