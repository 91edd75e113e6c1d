"""The old names of mixed precision on the GPUs of ``torch.cuda``."""

from __future__ import annotations

from typing import Any

from torchlette import _C
from torchlette import amp as _amp

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]


class autocast(_amp.autocast):
    """``torch.amp.autocast("cuda")``: without a GPU it warns and is off.

    Args:
        enabled: Whether it casts.
        dtype: What operators are cast to; None: float16.
        cache_enabled: Accepted for compatibility.
    """

    def __init__(self, enabled: bool = True, dtype: _C.dtype = _C.float16, cache_enabled: bool = True) -> None:
        """Take the arguments."""
        super().__init__("cuda", dtype, enabled, cache_enabled)


class GradScaler(_amp.GradScaler):
    """``torch.amp.GradScaler("cuda")``: without a GPU it warns and is off."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Take the arguments."""
        super().__init__("cuda", *args, **kwargs)


def custom_fwd(fwd: Any = None, *, cast_inputs: _C.dtype | None = None) -> Any:
    """``torch.amp.custom_fwd`` for "cuda"."""
    return _amp.custom_fwd(fwd, device_type="cuda", cast_inputs=cast_inputs)


def custom_bwd(bwd: Any) -> Any:
    """``torch.amp.custom_bwd`` for "cuda"."""
    return _amp.custom_bwd(bwd, device_type="cuda")
