"""Mixed precision, after ``torch.amp``: loss scaling works; operators are never cast behind a program's back."""

from torchlette.amp import autocast_mode, grad_scaler
from torchlette.amp.autocast_mode import autocast, custom_bwd, custom_fwd, get_autocast_dtype, is_autocast_available, is_autocast_enabled
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
