"""Mixed precision, after ``torch.amp``: ``autocast`` (products in a half type, reductions and losses in float32) and
loss scaling.
"""

from torchlette.amp import autocast_mode, grad_scaler
from torchlette.amp.autocast_mode import (
    autocast,
    custom_bwd,
    custom_fwd,
    get_autocast_dtype,
    is_autocast_available,
    is_autocast_enabled,
)
from torchlette.amp.grad_scaler import GradScaler

__all__ = [
    "GradScaler",
    "autocast",
    "autocast_mode",
    "custom_bwd",
    "custom_fwd",
    "get_autocast_dtype",
    "grad_scaler",
    "is_autocast_available",
    "is_autocast_enabled",
]
