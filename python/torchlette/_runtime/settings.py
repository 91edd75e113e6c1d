"""Switches that PyTorch has, most of which change nothing here, constants, and questions about both."""

from __future__ import annotations

import math
from types import SimpleNamespace

from torchlette import _C
from torchlette._version import __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = [
    "are_deterministic_algorithms_enabled",
    "e",
    "get_deterministic_debug_mode",
    "get_float32_matmul_precision",
    "get_num_interop_threads",
    "inf",
    "is_deterministic_algorithms_warn_only_enabled",
    "is_same_size",
    "is_storage",
    "is_warn_always_enabled",
    "nan",
    "newaxis",
    "pi",
    "set_deterministic_debug_mode",
    "set_float32_matmul_precision",
    "set_flush_denormal",
    "set_num_interop_threads",
    "set_warn_always",
    "typename",
    "use_deterministic_algorithms",
    "version",
]

e, inf, nan, pi, newaxis = math.e, math.inf, math.nan, math.pi, None
version = SimpleNamespace(__version__=__version__, cuda=None, hip=None, xpu=None, debug=False, git_version="unknown")


class _Choices:
    """What was set last."""

    deterministic = False
    warn_only = False
    precision = "highest"
    warn_always = False


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Make every result the same bits each time, or let devices choose the order of sums again.

    Only on a GPU does it change anything: sums of floats at repeated indices (``scatter_add``, ``index_add``,
    ``index_put_(accumulate=True)``, the gradients of indexing, of embeddings and of overlapping views) are then made in
    sorted order instead of by atomic additions, products likewise, and of values written to one place the last stays.
    Every operator can be deterministic, so that ``warn_only`` never has anything to warn of.
    """
    _C._set_deterministic(bool(mode))
    _Choices.deterministic, _Choices.warn_only = bool(mode), bool(warn_only)


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """Choose by number or name: 0 or "default", 1 or "warn", 2 or "error"; see :func:`use_deterministic_algorithms`."""
    if not isinstance(debug_mode, (int, str)):
        raise TypeError(f"debug_mode must be str or int, but got {type(debug_mode)}")
    names = ("default", "warn", "error")
    if debug_mode not in (names if isinstance(debug_mode, str) else (0, 1, 2)):
        raise RuntimeError(
            f"invalid value of debug_mode, expected `default`, `warn`, `error`, 0, 1 or 2, but got {debug_mode}"
        )
    number = names.index(debug_mode) if isinstance(debug_mode, str) else debug_mode
    use_deterministic_algorithms(number > 0, warn_only=number == 1)


def are_deterministic_algorithms_enabled() -> bool:
    """Return what was set last."""
    return _Choices.deterministic


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """Return what was set last."""
    return _Choices.warn_only


def get_deterministic_debug_mode() -> int:
    """Return 0, 1 or 2: off, warn, raise."""
    return 0 if not _Choices.deterministic else 1 if _Choices.warn_only else 2


def set_float32_matmul_precision(precision: str) -> None:
    """Note the wish; products of float32 are computed in float32."""
    if precision not in ("highest", "high", "medium"):
        raise RuntimeError(
            f"set_float32_matmul_precision: precision is wrong: got {precision!r}, want 'highest', 'high' or 'medium'"
        )
    _Choices.precision = precision


def get_float32_matmul_precision() -> str:
    """Return what was set last."""
    return _Choices.precision


def set_flush_denormal(mode: bool) -> bool:
    """Return ``False``: subnormal numbers are kept."""
    return False


def set_num_interop_threads(n: int) -> None:
    """Do nothing: one thread plans; :func:`set_num_threads` is for the kernels."""


def get_num_interop_threads() -> int:
    """Return 1."""
    return 1


def set_warn_always(b: bool) -> None:
    """Note the wish."""
    _Choices.warn_always = bool(b)


def is_warn_always_enabled() -> bool:
    """Return what was set last."""
    return _Choices.warn_always


def typename(obj: Any) -> str:
    """Return the name of a type, with PyTorch's names of tensors."""
    if isinstance(obj, _C.Tensor):
        return obj.type()
    kind = obj if isinstance(obj, type) else type(obj)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def is_same_size(input: _C.Tensor, other: _C.Tensor) -> bool:
    """Return whether two tensors have the same shape."""
    return input.shape == other.shape


def is_storage(obj: Any) -> bool:
    """Return whether ``obj`` is a storage: never, for there are none."""
    return False
