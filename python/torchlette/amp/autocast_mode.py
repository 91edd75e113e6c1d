"""The autocast context: products in a half type, reductions and losses in float32, by PyTorch's lists of operators."""

from __future__ import annotations

import contextlib
import functools
import threading
import warnings
from collections.abc import Callable
from types import TracebackType
from typing import Any, ParamSpec, TypeVar

from torchlette import _C
from torchlette._runtime import casts
from torchlette._runtime.gpus import is_gpu
from torchlette._runtime.nested import replaced

__all__ = [
    "autocast",
    "clear_autocast_cache",
    "custom_bwd",
    "custom_fwd",
    "get_autocast_cpu_dtype",
    "get_autocast_dtype",
    "get_autocast_gpu_dtype",
    "is_autocast_available",
    "is_autocast_cache_enabled",
    "is_autocast_cpu_enabled",
    "is_autocast_enabled",
    "set_autocast_cache_enabled",
    "set_autocast_cpu_dtype",
    "set_autocast_cpu_enabled",
    "set_autocast_dtype",
    "set_autocast_enabled",
    "set_autocast_gpu_dtype",
]

P = ParamSpec("P")
R = TypeVar("R")

# PyTorch's other devices: for these, and for "cuda" without a GPU, autocast warns and is disabled.
_OTHERS = ("cuda", "mps", "xpu", "mtia", "maia", "hpu", "ipu", "xla", "privateuseone")
_HALVES = (_C.float16, _C.bfloat16)


def is_autocast_available(device_type: str) -> bool:
    """Return whether the device has autocast: the CPU, ``"wgpu"``, and ``"cuda"`` where torch.cuda has a GPU."""
    if not isinstance(device_type, str):
        raise TypeError(f"is_autocast_available: device_type is wrong: got {type(device_type).__name__}, want str")
    return device_type == "cpu" or is_gpu(device_type)


def is_autocast_enabled(device_type: str | None = None) -> bool:
    """Return whether operators are cast on the device. Without a device it asks for ``"cuda"``."""
    device_type = device_type or "cuda"
    return is_autocast_available(device_type) and _C._set_autocast(device_type != "cpu") is not None


# Device -> the default dtype of autocast.
_defaults = {"cpu": _C.bfloat16, "wgpu": _C.float16, "cuda": _C.float16}


def get_autocast_dtype(device_type: str) -> _C.dtype:
    """Return autocast's dtype on the device: by default bfloat16 on the CPU, else float16."""
    now = _C._set_autocast(device_type != "cpu") if is_autocast_available(device_type) else None
    return now or _defaults.get(device_type, _C.float16)


def set_autocast_dtype(device_type: str, dtype: _C.dtype) -> None:
    """Set the default dtype of ``autocast``; it also applies to an active autocast."""
    _defaults[device_type] = dtype
    if is_autocast_enabled(device_type):
        _C._set_autocast(device_type != "cpu", dtype)


def set_autocast_enabled(device_type: str | bool, enabled: bool | None = None) -> None:
    """Switch casting on the device on or off. With ``enabled`` alone it concerns ``"cuda"``."""
    kind, on = (device_type, enabled) if isinstance(device_type, str) else ("cuda", device_type)
    if is_autocast_available(kind):
        casts.count(bool(on) - is_autocast_enabled(kind))
        _C._set_autocast(kind != "cpu", get_autocast_dtype(kind) if on else None)


is_autocast_cpu_enabled = functools.partial(is_autocast_enabled, "cpu")
get_autocast_cpu_dtype = functools.partial(get_autocast_dtype, "cpu")
get_autocast_gpu_dtype = functools.partial(get_autocast_dtype, "cuda")
set_autocast_cpu_enabled = functools.partial(set_autocast_enabled, "cpu")
set_autocast_cpu_dtype = functools.partial(set_autocast_dtype, "cpu")
set_autocast_gpu_dtype = functools.partial(set_autocast_dtype, "cuda")


class _State(threading.local):
    cache_enabled = True


_state = _State()


def is_autocast_cache_enabled() -> bool:
    """Return what ``cache_enabled`` is in this thread."""
    return _state.cache_enabled


def set_autocast_cache_enabled(enabled: bool) -> None:
    """Set what :func:`is_autocast_cache_enabled` returns: a weight is cast once for a window in any case."""
    _state.cache_enabled = enabled


def clear_autocast_cache() -> None:
    """Do nothing: cast weights are kept no longer than the work that needs them."""


class autocast:
    """A context and decorator in which operators cast their float operands, as PyTorch's "Autocast Op Reference" says.

    On the CPU the lists are PyTorch's for the CPU, on ``"wgpu"`` those for CUDA: products, convolutions and attention
    run in ``dtype``; losses, and on ``"wgpu"`` also softmax, norms, powers and sums, in float32. In-place operators,
    those with ``out=`` and float64 are left alone. Backward passes follow the dtypes of the forward pass.

    Args:
        device_type: ``"cpu"``, ``"wgpu"`` or ``"cuda"``; for PyTorch devices that are not here it warns and is off.
        dtype: float16 or bfloat16; bfloat16 by default on the CPU, float16 on ``"wgpu"``.
        enabled: If false, nothing is cast inside, even within an enabled context.
        cache_enabled: What ``is_autocast_cache_enabled`` returns inside. A weight is cast once for a window anyway.
    """

    def __init__(
        self, device_type: str, dtype: _C.dtype | None = None, enabled: bool = True, cache_enabled: bool | None = None
    ) -> None:
        """Check the device and the dtype."""
        if not isinstance(device_type, str):
            raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
        if device_type not in ("cpu", "wgpu", *_OTHERS):
            raise RuntimeError(f"autocast: device_type is wrong: got {device_type!r}, want 'cpu' or 'wgpu'")
        self.device, self.fast_dtype = device_type, dtype or get_autocast_dtype(device_type)
        self._available = is_autocast_available(device_type)
        if enabled and not self._available:
            warnings.warn(
                f"User provided device_type of '{device_type}', but {device_type.upper()} is not available. Disabling",
                stacklevel=2,
            )
            enabled = False
        elif enabled and self.fast_dtype not in _HALVES:
            warnings.warn(
                f"In {device_type} autocast, but the target dtype {self.fast_dtype} is not supported. Disabling "
                f"autocast. "
                "It only supports torch.bfloat16 and torch.float16.",
                stacklevel=2,
            )
            enabled = False
        self._enabled = enabled
        self._cache_enabled = cache_enabled
        self._before: list[Any] = []

    def __enter__(self) -> autocast:
        if self._available:
            casts.count(1)
            old = _C._set_autocast(self.device != "cpu", self.fast_dtype if self._enabled else None)
            self._before.append((old, _state.cache_enabled))
            if self._cache_enabled is not None:
                _state.cache_enabled = self._cache_enabled
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        if self._available:
            casts.count(-1)
            dtype, _state.cache_enabled = self._before.pop()
            _C._set_autocast(self.device != "cpu", dtype)

    def __call__(self, func: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(func)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            with self:
                return func(*args, **kwargs)

        return call


def present() -> list[autocast]:
    """Return contexts that restore the present state, for functions that are run a second time."""
    return [autocast(device, get_autocast_dtype(device), is_autocast_enabled(device)) for device in ("cpu", "wgpu")]


def custom_fwd(fwd: Any = None, *, device_type: str, cast_inputs: _C.dtype | None = None) -> Any:
    """Decorate ``forward`` of a custom function. With ``cast_inputs``, inside autocast, its float arguments are cast to
    that dtype and it runs with autocast off.

    Args:
        fwd: The ``forward`` of a custom function; None for a decorator.
        device_type: The device whose autocast is meant, as "wgpu".
        cast_inputs: The dtype to which float arguments are cast if autocast is on; None: arguments stay, and autocast
            stays on.
    """
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    def cast(t: _C.Tensor) -> _C.Tensor:
        own = is_gpu(t.device.type) == is_gpu(device_type) and t.is_floating_point() and t.dtype is not _C.float64
        return t.to(cast_inputs) if own else t

    @functools.wraps(fwd)
    def forward(*args: Any, **kwargs: Any) -> Any:
        args[0]._autocast = is_autocast_enabled(device_type), get_autocast_dtype(device_type)
        if cast_inputs is None or not args[0]._autocast[0]:
            return fwd(*args, **kwargs)
        args[0]._autocast = False, cast_inputs
        with autocast(device_type, enabled=False):
            return fwd(*replaced(args, _C.Tensor, cast), **replaced(kwargs, _C.Tensor, cast))

    return forward


def custom_bwd(bwd: Any = None, *, device_type: str) -> Any:
    """Decorate ``backward`` of a custom function whose ``forward`` has :func:`custom_fwd`: it runs in the autocast
    state of ``forward``.
    """
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def backward(*args: Any, **kwargs: Any) -> Any:
        enabled, dtype = args[0]._autocast
        with autocast(device_type, dtype, enabled) if is_autocast_available(device_type) else contextlib.nullcontext():
            return bwd(*args, **kwargs)

    return backward
