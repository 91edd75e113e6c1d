"""Helpers of ``torch.fft`` that need no complex numbers."""

from __future__ import annotations

from typing import Any

from torchlette import _C

__all__ = ["fftshift", "ifftshift"]


def _rolled(input: _C.Tensor, dim: Any, half: Any) -> _C.Tensor:
    dims = list(range(input.dim())) if dim is None else [dim] if isinstance(dim, int) else list(dim)
    return input.roll([half(input.shape[d]) for d in dims], dims) if dims else input.clone()


def fftshift(input: _C.Tensor, dim: Any = None) -> _C.Tensor:
    """Move the zero frequency of ``dim`` (all dims by default) to the middle."""
    return _rolled(input, dim, lambda n: n // 2)


def ifftshift(input: _C.Tensor, dim: Any = None) -> _C.Tensor:
    """Undo :func:`fftshift`."""
    return _rolled(input, dim, lambda n: (n + 1) // 2)
