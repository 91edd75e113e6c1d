"""The class of compiled modules, under PyTorch's path."""

from __future__ import annotations

from torchlette._compat.optimized_module import OptimizedModule

__all__ = ["OptimizedModule"]
