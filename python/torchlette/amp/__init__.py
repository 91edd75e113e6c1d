"""Mixed precision, after ``torch.amp``: loss scaling works; operators are never cast behind a program's back."""

from torchlette.amp import autocast_mode, grad_scaler
from torchlette.amp.autocast_mode import autocast, custom_bwd, custom_fwd, is_autocast_available
from torchlette.amp.grad_scaler import GradScaler

__all__ = ["GradScaler", "autocast", "autocast_mode", "custom_bwd", "custom_fwd", "grad_scaler", "is_autocast_available"]
