"""Loss scaling: an adaptive factor keeps half-precision gradients from underflowing."""

from __future__ import annotations

import inspect
import warnings
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from torchlette import _C
from torchlette._runtime.gpus import is_gpu
from torchlette.autograd import no_grad
from torchlette.optim.optimizer import Optimizer

__all__ = ["GradScaler"]

Tensor = _C.Tensor

_READY, _UNSCALED, _STEPPED = "ready", "unscaled", "stepped"


class GradScaler:
    """Scales the loss, unscales gradients before a step, and skips steps whose gradients are not finite.

    The factor and whether a step overflowed stay on the device: :meth:`scale`, :meth:`unscale_`, :meth:`step` and
    :meth:`update` read nothing. :meth:`get_scale` and :meth:`state_dict` read.

    Where ``torch.cuda`` has no GPU, ``device="cuda"``, the default, warns and turns the scaler off, as in PyTorch.

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
        if enabled and device == "cuda" and not is_gpu(device):
            warnings.warn("torch.cuda.amp.GradScaler is enabled, but CUDA is not available.  Disabling.", stacklevel=2)
            enabled = False
        if enabled and not growth_factor > 1:
            raise AssertionError(f"The growth factor must be > 1.0: got {growth_factor}")
        if enabled and not 0 < backoff_factor < 1:
            raise AssertionError(f"The backoff factor must be < 1.0: got {backoff_factor}")
        self._device, self._enabled = device, enabled
        # The factor and the count of finite steps; made by the first call of scale, on the device of its argument.
        self._scale: Tensor | None = None
        self._growth_tracker: Tensor | None = None
        self._init_scale, self._init_growth_tracker = float(init_scale), 0
        self._growth_factor, self._backoff_factor, self._growth_interval = (
            growth_factor,
            backoff_factor,
            growth_interval,
        )
        self._per_optimizer_states: defaultdict[int, dict[str, Any]] = defaultdict(_fresh)

    def _check_scale_growth_tracker(self, name: str) -> tuple[Tensor, Tensor]:
        if self._scale is None or self._growth_tracker is None:
            raise AssertionError(
                f"Attempted {name} but _scale is None.  This may indicate your script did not use scaler.scale(loss or "
                f"outputs) earlier in the iteration."
            )
        return self._scale, self._growth_tracker

    def _get_scale_async(self) -> Tensor | None:
        return self._scale

    def scale(self, outputs: Any) -> Any:
        """Return a tensor, or the tensors of an iterable, times the factor."""
        if not self._enabled:
            return outputs
        if isinstance(outputs, Tensor):
            if self._scale is None:
                self._scale = _C.full((), self._init_scale, dtype=_C.float32, device=outputs.device)
                self._growth_tracker = _C.full((), self._init_growth_tracker, dtype=_C.int32, device=outputs.device)
            return outputs * self._scale.to(outputs.device)
        if isinstance(outputs, Iterable):
            scaled = map(self.scale, outputs)
            return type(outputs)(scaled) if isinstance(outputs, (list, tuple)) else scaled
        raise ValueError("outputs must be a Tensor or an iterable of Tensors")

    def _unscale_grads_(
        self, optimizer: Optimizer, inverse: Tensor | None, allow_fp16: bool
    ) -> dict[_C.device, Tensor]:
        """Multiply an optimizer's gradients by ``inverse``. Return, by device, a float32 number that is 1 if one of
        them is infinite or NaN, else 0.
        """
        finite: defaultdict[_C.device, list[Tensor]] = defaultdict(list)
        with no_grad():
            for p in (p for group in optimizer.param_groups for p in group["params"]):
                grad = p.grad
                if grad is None:
                    continue
                if not allow_fp16 and grad.dtype is _C.float16:
                    raise ValueError("Attempting to unscale FP16 gradients.")
                if inverse is not None:
                    grad.mul_(inverse.to(grad.device))
                finite[grad.device].append(grad.isfinite().all())
            return {device: (~_C.stack(flags).all()).to(_C.float32) for device, flags in finite.items()}

    def _check_inf_per_device(self, optimizer: Optimizer) -> dict[_C.device, Tensor]:
        self._check_scale_growth_tracker("_check_inf_per_device")
        found = self._unscale_grads_(optimizer, None, True)
        self._per_optimizer_states[id(optimizer)]["found_inf_per_device"] = found
        return found

    def _found_inf_per_device(self, optimizer: Optimizer) -> dict[_C.device, Tensor]:
        found: dict[_C.device, Tensor] = self._per_optimizer_states[id(optimizer)]["found_inf_per_device"]
        return found

    def unscale_(self, optimizer: Optimizer) -> None:
        """Divide the gradients of an optimizer's parameters by the factor, once between two updates."""
        if not self._enabled:
            return
        scale, _ = self._check_scale_growth_tracker("unscale_")
        state = self._per_optimizer_states[id(optimizer)]
        if state["stage"] is _UNSCALED:
            raise RuntimeError("unscale_() has already been called on this optimizer since the last update().")
        if state["stage"] is _STEPPED:
            raise RuntimeError("unscale_() is being called after step().")
        inverse = _wide(scale).reciprocal().to(_C.float32)
        state["found_inf_per_device"] = self._unscale_grads_(optimizer, inverse, False)
        state["stage"] = _UNSCALED

    def step(self, optimizer: Optimizer, *args: Any, **kwargs: Any) -> Any:
        """Step the optimizer unless a gradient is infinite or NaN; return what its step returned, else ``None``.

        The optimizers of this package select on the device: a step that overflowed writes nothing, and nothing is read.
        For an optimizer with other code in its step (a subclass, step hooks) the host reads whether to call it.

        Args:
            optimizer: Whose parameters are updated.
            *args: Given to the optimizer's step.
            **kwargs: Given to the optimizer's step.

        Raises:
            RuntimeError: With a closure, or on a second call since the last :meth:`update`.
            AssertionError: :meth:`scale` was not called before, or no parameter has a gradient.
        """
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
        scale, _ = self._check_scale_growth_tracker("step")
        state = self._per_optimizer_states[id(optimizer)]
        if state["stage"] is _STEPPED:
            raise RuntimeError("step() has already been called since the last update().")
        if getattr(optimizer, "_step_supports_amp_scaling", False):
            return self._step_of_scaling_optimizer(optimizer, scale, state, args, kwargs)
        if state["stage"] is _READY:
            self.unscale_(optimizer)
        found = state["found_inf_per_device"]
        if not found:
            raise AssertionError("No inf checks were recorded for this optimizer.")
        if not args and not kwargs and isinstance(optimizer, Optimizer) and optimizer._selects():
            result = _with_found_inf(optimizer, None, _total(found, scale.device), (), {})
        elif _total(found, scale.device).item() == 0:
            result = optimizer.step(*args, **kwargs)
        else:
            result = None
        state["stage"] = _STEPPED
        return result

    def _step_of_scaling_optimizer(
        self, optimizer: Any, scale: Tensor, state: dict[str, Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Step an optimizer that announces by ``_step_supports_amp_scaling`` that it takes ``grad_scale`` and
        ``found_inf`` itself.
        """
        if "grad_scaler" in inspect.signature(optimizer.step).parameters:
            warnings.warn(
                "GradScaler is going to stop passing itself as a keyword argument to the passed optimizer. In the near "
                "future GradScaler registers `grad_scale: Tensor` and `found_inf: Tensor` to the passed optimizer and "
                "let the optimizer use them directly.",
                FutureWarning,
                stacklevel=3,
            )
            result = optimizer.step(*args, **kwargs, grad_scaler=self)
        else:
            before = getattr(optimizer, "grad_scale", None)
            factor = before
            if state["stage"] is _READY:
                self._check_inf_per_device(optimizer)
                factor = scale if before is None else scale * before
            found = _total(state["found_inf_per_device"], scale.device)
            result = _with_found_inf(optimizer, factor, found, args, kwargs)
        state["stage"] = _STEPPED
        return result

    def update(self, new_scale: float | Tensor | None = None) -> None:
        """Adapt the factor to the steps since the last update, or set it."""
        if not self._enabled:
            return
        with no_grad():
            self._update(new_scale)
        self._per_optimizer_states = defaultdict(_fresh)

    def _update(self, new_scale: float | Tensor | None) -> None:
        scale, tracker = self._check_scale_growth_tracker("update")
        if isinstance(new_scale, Tensor):
            if new_scale.device.type != self._device or new_scale.numel() != 1 or new_scale.requires_grad:
                raise AssertionError(
                    "new_scale should be a float or a 1-element torch.cuda.FloatTensor or torch.FloatTensor with "
                    "requires_grad=False."
                )
            scale.copy_(new_scale.reshape(()))
        elif new_scale is not None:
            scale.fill_(new_scale)
        else:
            found = [f for state in self._per_optimizer_states.values() for f in state["found_inf_per_device"].values()]
            if not found:
                raise AssertionError("No inf checks were recorded prior to update.")
            overflowed = _total(dict(enumerate(found)), scale.device) != 0
            count, grown = tracker + 1, (_wide(scale) * self._growth_factor).to(_C.float32)
            full = count == self._growth_interval
            smaller = (_wide(scale) * self._backoff_factor).to(_C.float32)
            scale.copy_(_C.where(overflowed, smaller, _C.where(full & grown.isfinite(), grown, scale)))
            tracker.copy_(_C.where(overflowed | full, 0, count))

    def get_scale(self) -> float:
        """Return the factor, which is read from the device; 1.0 when disabled."""
        if not self._enabled:
            return 1.0
        return self._init_scale if self._scale is None else self._scale.item()

    def _get_growth_tracker(self) -> int:
        return self._init_growth_tracker if self._growth_tracker is None else int(self._growth_tracker.item())

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
            "scale": self.get_scale(),
            "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval,
            "_growth_tracker": self._get_growth_tracker(),
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load what :meth:`state_dict` gave; nothing when disabled."""
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError(
                "The source state dict is empty, possibly because it was saved from a disabled instance of GradScaler."
            )
        self._init_scale, self._init_growth_tracker = state_dict["scale"], state_dict["_growth_tracker"]
        if self._scale is not None and self._growth_tracker is not None:
            self._scale.fill_(self._init_scale)
            self._growth_tracker.fill_(self._init_growth_tracker)
        self._growth_factor, self._backoff_factor = state_dict["growth_factor"], state_dict["backoff_factor"]
        self._growth_interval = state_dict["growth_interval"]

    def __getstate__(self) -> dict[str, Any]:
        if self._enabled and self._per_optimizer_states:
            raise AssertionError(
                "A GradScaler instance may only be pickled at the beginning of an iteration, or at the end after "
                "scaler.update()."
            )
        lazy: dict[str, Any] = {"_scale": None, "_growth_tracker": None}
        if self._enabled:
            lazy.update(_init_scale=self.get_scale(), _init_growth_tracker=self._get_growth_tracker())
        return {**self.__dict__, **lazy}


def _fresh() -> dict[str, Any]:
    """Return the state of an optimizer after an update."""
    return {"stage": _READY, "found_inf_per_device": {}}


def _wide(t: Tensor) -> Tensor:
    """Return a number in double precision where the device has it: factors are products in double, then rounded."""
    return t.double() if t.device.type == "cpu" else t


def _total(found: Mapping[Any, Tensor], device: _C.device) -> Tensor:
    """Return the sum of numbers of several devices, on one."""
    first, *others = [f.to(device) for f in found.values()]
    return sum(others, start=first)


def _with_found_inf(optimizer: Any, factor: Tensor | None, found: Tensor, args: Any, kwargs: Any) -> Any:
    """Step an optimizer while its attributes ``grad_scale`` and ``found_inf`` are set."""
    optimizer.grad_scale, optimizer.found_inf = factor, found
    try:
        return optimizer.step(*args, **kwargs)
    finally:
        del optimizer.grad_scale, optimizer.found_inf
