"""Deprecated functions of PyTorch, and small checks that its libraries call."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

from torchlette import _C
from torchlette._runtime.errors import ExecutionError

__all__ = ["poisson", "range"]

Tensor = _C.Tensor


def poisson(input: Tensor, generator: Any = None) -> Tensor:
    """Draw from Poisson distributions whose rates are the elements of ``input``; see :class:`distributions.Poisson`.

    Raises:
        RuntimeError: A rate is negative or NaN; the read of the result raises it.
    """
    from torchlette.distributions import Poisson

    if generator is None:
        return Poisson(_C._poisson_rate(input), validate_args=False).sample()
    raise NotImplementedError("poisson: a generator is not supported: seed all draws by manual_seed")


def range(
    start: float = 0,
    end: float | None = None,
    step: float = 1,
    *,
    out: Tensor | None = None,
    dtype: Any = None,
    **options: Any,
) -> Tensor:
    """Return ``start``, ``start + step``, ... up to and with ``end``: :func:`arange` leaves the end out.

    Args:
        start: The first number; 0 where one is given only.
        end: The last number, which is part of the result.
        step: The distance of two numbers.
        out: Gets the result.
        dtype: Of the result; the input is cast to it first. None: the input's.
    """
    warnings.warn(
        "torch.range is deprecated because its behavior is inconsistent with Python's range builtin; use torch.arange",
        UserWarning,
        stacklevel=2,
    )
    if end is None:
        start, end = 0, start
    if step == 0:
        raise ExecutionError("step must be nonzero")
    if (end - start) * step < 0:
        raise ExecutionError("upper bound and lower bound inconsistent with step sign")
    count = math.floor((end - start) / step) + 1
    made = _C.arange(count, dtype=_C.get_default_dtype() if dtype is None else dtype, **options) * step + start
    return made if out is None else out.resize_(made.shape).copy_(made)


def _assert(condition: Any, message: str) -> None:
    """Raise ``AssertionError`` unless ``condition`` holds."""
    if not condition:
        raise AssertionError(message)


def _assert_async(condition: Tensor, message: str = "") -> None:
    """Raise ``RuntimeError`` unless the one element of ``condition`` is true; reads it."""
    if not condition.item():
        raise ExecutionError(message or "Expected Tensor with single nonzero value, but got zero")


def _check(cond: bool, message: Callable[[], str] | None = None) -> None:
    """Raise ``RuntimeError`` with the text that ``message`` gives unless ``cond`` holds."""
    _check_with(RuntimeError, cond, message)


def _check_with(error_type: type[Exception], cond: bool, message: Callable[[], str] | None = None) -> None:
    """Raise ``error_type`` with the text that ``message`` gives unless ``cond`` holds."""
    if not cond:
        raise error_type(message() if message is not None else "Expected cond to be True, but got False.")


def _check_index(cond: bool, message: Callable[[], str] | None = None) -> None:
    _check_with(IndexError, cond, message)


def _check_value(cond: bool, message: Callable[[], str] | None = None) -> None:
    _check_with(ValueError, cond, message)


def _check_type(cond: bool, message: Callable[[], str] | None = None) -> None:
    _check_with(TypeError, cond, message)


def _shape_as_tensor(self: Tensor) -> Tensor:
    """Return the sizes as int64, on the CPU."""
    return _C.tensor(list(self.shape), dtype=_C.int64, device="cpu")
