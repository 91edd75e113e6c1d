"""CUDA is not here; its switches may be set and change nothing."""

from __future__ import annotations

from types import SimpleNamespace

matmul = SimpleNamespace(allow_tf32=False, allow_fp16_reduced_precision_reduction=True, allow_bf16_reduced_precision_reduction=True)


def is_built() -> bool:
    """Return ``False``."""
    return False


def _note(enabled: bool) -> None:
    """Do nothing: attention has one implementation, on either device."""


enable_flash_sdp = enable_mem_efficient_sdp = enable_math_sdp = enable_cudnn_sdp = _note
