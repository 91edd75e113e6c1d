"""Autocast of functions that are several operators here and one in PyTorch's lists."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from torchlette import _C
from torchlette._runtime.nested import replaced, tensors_in

__all__ = ["autocast_inputs", "count"]

F = TypeVar("F", bound=Callable[..., Any])
# The autocast contexts of all threads that are entered: without any, functions look no further.
_entered = 0


def count(more: int) -> None:
    """Note that ``more`` contexts are entered, or fewer where it is negative."""
    global _entered
    _entered += more


def autocast_inputs(cpu: str | None = None, gpu: str | None = None) -> Callable[[F], F]:
    """Decorate a function: inside autocast, its float arguments are cast and it runs with autocast off.

    Args:
        cpu: To what arguments on the CPU are cast: "lower", autocast's dtype; "full", float32; "widest", float32 if one
            of them is float32; None: the function has no policy there.
        gpu: The same on GPUs.
    """

    def decorate(fn: F) -> F:
        @functools.wraps(fn)
        def call(*args: Any, **kwargs: Any) -> Any:
            if _entered == 0:
                return fn(*args, **kwargs)
            return _cast_call(fn, args, kwargs, cpu, gpu)

        return call  # type: ignore[return-value]

    return decorate


def _kind(t: _C.Tensor) -> str:
    return "cpu" if t.device.type == "cpu" else "wgpu"


def _cast_call(
    fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], cpu: str | None, gpu: str | None
) -> Any:
    on = {  # device -> policy and autocast's dtype
        device: (policy, lower)
        for device, policy, is_gpu in (("cpu", cpu, False), ("wgpu", gpu, True))
        if policy and (lower := _C._set_autocast(is_gpu)) is not None
    }
    tensors = [t for t in tensors_in((args, kwargs)) if t.is_floating_point() and _kind(t) in on] if on else []
    if not tensors:
        return fn(*args, **kwargs)
    full = any(t.dtype is _C.float32 for t in tensors)

    def cast(t: _C.Tensor) -> _C.Tensor:
        if not t.is_floating_point() or t.dtype is _C.float64 or _kind(t) not in on:
            return t
        policy, lower = on[_kind(t)]
        if policy == "lower":
            return t.to(lower)
        return t.float() if full or policy == "full" else t

    before = {device: _C._set_autocast(device == "wgpu", None) for device in on}
    try:
        return fn(*replaced(args, _C.Tensor, cast), **replaced(kwargs, _C.Tensor, cast))
    finally:
        for device, dtype in before.items():
            _C._set_autocast(device == "wgpu", dtype)
