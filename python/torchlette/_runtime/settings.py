"""PyTorch's global switches, their queries, and constants. Most switches only store their value."""

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
    """The values set last."""

    deterministic = False
    warn_only = False
    precision = "highest"
    warn_always = False


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Choose whether every result is bitwise reproducible, or devices may choose the order of sums.

    The switch affects GPUs only. Sums of floats at repeated indices (``scatter_add``, ``index_add``,
    ``index_put_(accumulate=True)``, the gradients of indexing, of embeddings and of overlapping views) and products at
    repeated indices are then computed in sorted order instead of atomically; of several values written to one place the
    last one stays.
    Every operator has a deterministic form, so ``warn_only`` never warns.
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
    """Return the value set last."""
    return _Choices.deterministic


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """Return the value set last."""
    return _Choices.warn_only


def get_deterministic_debug_mode() -> int:
    """Return 0, 1 or 2: off, warn, raise."""
    return 0 if not _Choices.deterministic else 1 if _Choices.warn_only else 2


def set_float32_matmul_precision(precision: str) -> None:
    """Store the value; float32 products are always computed in float32."""
    if precision not in ("highest", "high", "medium"):
        raise RuntimeError(
            f"set_float32_matmul_precision: precision is wrong: got {precision!r}, want 'highest', 'high' or 'medium'"
        )
    _Choices.precision = precision


def get_float32_matmul_precision() -> str:
    """Return the value set last."""
    return _Choices.precision


def set_flush_denormal(mode: bool) -> bool:
    """Set whether the CPU's kernels take subnormal numbers as 0 and give 0 in their place; return ``True``.

    It holds for all threads. Loops and chains whose values or gradients decay get up to ten times faster on processors
    where arithmetic with subnormal numbers is slow.

    Args:
        mode: Whether they are 0. The kernel interpreter keeps them.
    """
    _C._set_option("flush_denormal", str(int(bool(mode))))
    return True


def set_num_interop_threads(n: int) -> None:
    """Do nothing: planning uses one thread; for kernels see :func:`set_num_threads`."""


def get_num_interop_threads() -> int:
    """Return 1."""
    return 1


def set_warn_always(b: bool) -> None:
    """Store the value; it has no effect."""
    _Choices.warn_always = bool(b)


def is_warn_always_enabled() -> bool:
    """Return the value set last."""
    return _Choices.warn_always


def typename(obj: Any) -> str:
    """Return the name of an object's type; tensors have PyTorch's names."""
    if isinstance(obj, _C.Tensor):
        return obj.type()
    kind = obj if isinstance(obj, type) else type(obj)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def is_same_size(input: _C.Tensor, other: _C.Tensor) -> bool:
    """Return whether two tensors have the same shape."""
    return input.shape == other.shape


def is_storage(obj: Any) -> bool:
    """Return whether ``obj`` is what ``Tensor.untyped_storage`` gives."""
    from torchlette._ops.storage import UntypedStorage

    return isinstance(obj, UntypedStorage)
