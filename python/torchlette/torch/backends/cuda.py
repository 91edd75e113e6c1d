"""The switches of CUDA may be set and change nothing: kernels are the library's own."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace
from typing import Any

from torchlette._runtime.gpus import cuda_count

__all__ = [
    "cudnn_sdp_enabled",
    "enable_cudnn_sdp",
    "enable_flash_sdp",
    "enable_math_sdp",
    "enable_mem_efficient_sdp",
    "flash_sdp_enabled",
    "is_built",
    "math_sdp_enabled",
    "matmul",
    "mem_efficient_sdp_enabled",
    "sdp_kernel",
]

matmul = SimpleNamespace(
    allow_tf32=False, allow_fp16_reduced_precision_reduction=True, allow_bf16_reduced_precision_reduction=True
)


def is_built() -> bool:
    """Return whether ``torch.cuda`` has a GPU."""
    return cuda_count() > 0


def _note(enabled: bool) -> None:
    """Do nothing: attention has one implementation, on either device."""


enable_flash_sdp = enable_mem_efficient_sdp = enable_math_sdp = enable_cudnn_sdp = _note


def sdp_kernel(
    enable_flash: bool = True, enable_math: bool = True, enable_mem_efficient: bool = True, enable_cudnn: bool = True
) -> contextlib.AbstractContextManager[dict[str, bool]]:
    """Return a context that changes nothing: attention has one implementation, on either device.

    Args:
        enable_flash: Accepted for compatibility.
        enable_math: Accepted for compatibility.
        enable_mem_efficient: Accepted for compatibility.
        enable_cudnn: Accepted for compatibility.
    """
    return contextlib.nullcontext(
        {
            "enable_flash": enable_flash,
            "enable_math": enable_math,
            "enable_mem_efficient": enable_mem_efficient,
            "enable_cudnn": enable_cudnn,
        }
    )


def flash_sdp_enabled() -> bool:
    """Return ``True``, PyTorch's default."""
    return True


math_sdp_enabled = mem_efficient_sdp_enabled = cudnn_sdp_enabled = flash_sdp_enabled


def __getattr__(name: str) -> Any:
    """Import ``SDPBackend`` when it is used: it is in ``nn``, which takes time to import."""
    if name == "SDPBackend":
        from torchlette.nn.attention import SDPBackend

        return SDPBackend
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
