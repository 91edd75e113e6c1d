"""The autocast context: accepted where PyTorch's has no effect, refused where it would change numbers."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from types import TracebackType
from typing import Any, ParamSpec, TypeVar

from torchlette import _C

__all__ = ["autocast", "custom_bwd", "custom_fwd", "get_autocast_dtype", "is_autocast_available", "is_autocast_enabled"]

P = ParamSpec("P")
R = TypeVar("R")

# What PyTorch knows and this library does not drive: there autocast warns and is disabled.
_ABSENT = ("cuda", "mps", "xpu", "mtia", "maia", "hpu", "ipu", "xla", "privateuseone")


def is_autocast_available(device_type: str) -> bool:
    """Return ``False``: operators compute in their operands' dtype."""
    if not isinstance(device_type, str):
        raise TypeError(f"is_autocast_available: device_type is wrong: got {type(device_type).__name__}, want str")
    return False


def is_autocast_enabled(device_type: str | None = None) -> bool:
    """Return ``False``: no context casts."""
    return False


def get_autocast_dtype(device_type: str) -> _C.dtype:
    """Return what PyTorch would cast to: bfloat16 on the CPU, else float16."""
    return _C.bfloat16 if device_type == "cpu" else _C.float16


class autocast:
    """A context and decorator that leaves every operator in its operands' dtype.

    With ``enabled=False``, or for a device that is not there (PyTorch warns then, and so does this), a program
    computes what it would under PyTorch.

    Args:
        device_type: ``"cuda"``, ``"cpu"``, ``"wgpu"`` and so on.
        dtype: The type that PyTorch would cast to.
        enabled: Whether to cast.
        cache_enabled: No effect.

    Raises:
        NotImplementedError: If PyTorch would cast here.
    """

    def __init__(self, device_type: str, dtype: _C.dtype | None = None, enabled: bool = True, cache_enabled: bool | None = None) -> None:
        """Check that nothing would be cast."""
        if not isinstance(device_type, str):
            raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
        if device_type not in ("cpu", "wgpu", *_ABSENT):
            raise RuntimeError(f"autocast: device_type is wrong: got {device_type!r}, want 'cpu' or 'wgpu'")
        self.device, self.fast_dtype = device_type, dtype
        if enabled and device_type in _ABSENT:
            warnings.warn(f"User provided device_type of '{device_type}', but {device_type.upper()} is not available. Disabling", stacklevel=2)
        elif enabled:
            raise NotImplementedError(
                f"autocast: casting on {device_type!r} is not supported, operators compute in their operands' dtype: got enabled=True, "
                "want enabled=False, or the model and its inputs converted by .bfloat16() or .half()"
            )

    def __enter__(self) -> autocast:
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        return None

    def __call__(self, func: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(func)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            return func(*args, **kwargs)

        return call


def custom_fwd(fwd: Any = None, *, device_type: str, cast_inputs: _C.dtype | None = None) -> Any:
    """Return ``forward`` of a custom function as it is: nothing is cast."""
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)
    return fwd


def custom_bwd(bwd: Any = None, *, device_type: str) -> Any:
    """Return ``backward`` of a custom function as it is: nothing is cast."""
    return functools.partial(custom_bwd, device_type=device_type) if bwd is None else bwd
