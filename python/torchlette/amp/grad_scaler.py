"""Loss scaling: an adaptive factor keeps half-precision gradients from underflowing."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable
from typing import Any

from torchlette import _C
from torchlette.optim.optimizer import Optimizer

__all__ = ["GradScaler"]

_READY, _UNSCALED, _STEPPED = "ready", "unscaled", "stepped"


class GradScaler:
    """Scales the loss, unscales gradients before a step, and skips steps whose gradients are not finite.

    ``device="cuda"``, the default, warns and turns the scaler off, as PyTorch does without CUDA.

    Args:
        device: ``"cpu"``, ``"wgpu"`` or ``"cuda"``.
        init_scale: The first factor.
        growth_factor: Applied after ``growth_interval`` steps in a row with finite gradients.
        backoff_factor: Applied after a step that was skipped.
        growth_interval: Number of steps.
        enabled: If false, :meth:`scale` returns its argument and :meth:`step` calls the optimizer.
    """

    def __init__(
        self,
        device: str = "cuda",
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        """Check the factors."""
        if enabled and device == "cuda":
            warnings.warn("torch.cuda.amp.GradScaler is enabled, but CUDA is not available.  Disabling.", stacklevel=2)
            enabled = False
        if enabled and not growth_factor > 1:
            raise AssertionError(f"The growth factor must be > 1.0: got {growth_factor}")
        if enabled and not 0 < backoff_factor < 1:
            raise AssertionError(f"The backoff factor must be < 1.0: got {backoff_factor}")
        self._device, self._enabled = device, enabled
        self._scale, self._steps = float(init_scale), 0
        self._growth_factor, self._backoff_factor, self._growth_interval = (
            growth_factor,
            backoff_factor,
            growth_interval,
        )
        self._stages: dict[int, str] = {}
        self._overflowed: dict[int, bool] = {}

    def scale(self, outputs: Any) -> Any:
        """Return a tensor, or the tensors of an iterable, times the factor."""
        if not self._enabled:
            return outputs
        if isinstance(outputs, _C.Tensor):
            return outputs * self._scale
        if isinstance(outputs, Iterable):
            scaled = map(self.scale, outputs)
            return type(outputs)(scaled) if isinstance(outputs, (list, tuple)) else scaled
        raise ValueError("outputs must be a Tensor or an iterable of Tensors")

    def unscale_(self, optimizer: Optimizer) -> None:
        """Divide the gradients of an optimizer's parameters by the factor, once between two updates."""
        if not self._enabled:
            return
        stage = self._stages.get(id(optimizer), _READY)
        if stage is _UNSCALED:
            raise RuntimeError("unscale_() has already been called on this optimizer since the last update().")
        if stage is _STEPPED:
            raise RuntimeError("unscale_() is being called after step().")
        gradients = [p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
        if any(g.dtype is _C.float16 for g in gradients):
            raise ValueError("Attempting to unscale FP16 gradients.")
        finite = [g.mul_(1.0 / self._scale).isfinite().all() for g in gradients]
        self._overflowed[id(optimizer)] = bool(finite) and not _C.stack(finite).all().item()
        self._stages[id(optimizer)] = _UNSCALED

    def step(self, optimizer: Optimizer, *args: Any, **kwargs: Any) -> Any:
        """Step the optimizer unless a gradient is infinite or NaN; return what its step returned, else ``None``."""
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
        stage = self._stages.get(id(optimizer), _READY)
        if stage is _STEPPED:
            raise RuntimeError("step() has already been called since the last update().")
        if stage is _READY:
            self.unscale_(optimizer)
        self._stages[id(optimizer)] = _STEPPED
        return None if self._overflowed[id(optimizer)] else optimizer.step(*args, **kwargs)

    def update(self, new_scale: float | _C.Tensor | None = None) -> None:
        """Adapt the factor to the steps since the last update, or set it."""
        if not self._enabled:
            return
        if new_scale is not None:
            self._scale = float(new_scale.item() if isinstance(new_scale, _C.Tensor) else new_scale)
        elif not self._overflowed:
            raise AssertionError("No inf checks were recorded prior to update.")
        elif any(self._overflowed.values()):
            self._scale, self._steps = self._scale * self._backoff_factor, 0
        else:
            self._steps += 1
            if self._steps == self._growth_interval:
                grown = self._scale * self._growth_factor
                # PyTorch keeps the factor in float32.
                self._scale, self._steps = grown if math.isfinite(grown) and grown < 2.0**128 else self._scale, 0
        self._stages.clear()
        self._overflowed.clear()

    def get_scale(self) -> float:
        """Return the factor; 1.0 when disabled."""
        return self._scale if self._enabled else 1.0

    def get_growth_factor(self) -> float:
        """Return the growth factor."""
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """Set the growth factor."""
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        """Return the backoff factor."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """Set the backoff factor."""
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        """Return the growth interval."""
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """Set the growth interval."""
        self._growth_interval = new_interval

    def is_enabled(self) -> bool:
        """Return whether the scaler scales."""
        return self._enabled

    def state_dict(self) -> dict[str, Any]:
        """Return the factor, its rules and the count of steps; empty when disabled."""
        if not self._enabled:
            return {}
        return {
            "scale": self._scale,
            "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval,
            "_growth_tracker": self._steps,
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load what :meth:`state_dict` gave; nothing when disabled."""
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError(
                "The source state dict is empty, possibly because it was saved from a disabled instance of GradScaler."
            )
        self._scale, self._steps = state_dict["scale"], state_dict["_growth_tracker"]
        self._growth_factor, self._backoff_factor = state_dict["growth_factor"], state_dict["backoff_factor"]
        self._growth_interval = state_dict["growth_interval"]
