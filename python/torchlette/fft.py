"""The real-valued helpers of ``torch.fft``. Its transforms need complex numbers: calling one raises."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from torchlette import _C
from torchlette._runtime import refused
from torchlette._runtime.errors import NotSupportedError

__all__ = ["fftfreq", "fftshift", "ifftshift", "rfftfreq"]


def _rolled(input: _C.Tensor, dim: Any, half: Any) -> _C.Tensor:
    dims = list(range(input.dim())) if dim is None else [dim] if isinstance(dim, int) else list(dim)
    return input.roll([half(input.shape[d]) for d in dims], dims) if dims else input.clone()


def fftshift(input: _C.Tensor, dim: Any = None) -> _C.Tensor:
    """Move the zero frequency of ``dim`` (all dims by default) to the middle."""
    return _rolled(input, dim, lambda n: n // 2)


def ifftshift(input: _C.Tensor, dim: Any = None) -> _C.Tensor:
    """Undo :func:`fftshift`."""
    return _rolled(input, dim, lambda n: (n + 1) // 2)


def fftfreq(n: int, d: float = 1.0, **options: Any) -> _C.Tensor:
    """Return the frequencies of a transform of ``n`` samples ``d`` apart: 0, 1, ..., then the negative ones, each
    divided by ``n * d``.
    """
    return _C.arange(-(n // 2), n - n // 2, **{"dtype": _C.get_default_dtype(), **options}).roll(-(n // 2)) / (n * d)


def rfftfreq(n: int, d: float = 1.0, **options: Any) -> _C.Tensor:
    """Return the frequencies of a transform of ``n`` real samples ``d`` apart: 0 to ``n // 2``, over ``n * d``."""
    return _C.arange(n // 2 + 1, **{"dtype": _C.get_default_dtype(), **options}) / (n * d)


def _refusal(name: str, reason: str) -> Callable[..., NoReturn]:
    def refuse(*args: Any, **kwargs: Any) -> NoReturn:
        raise NotSupportedError(f"fft.{name} is not supported: {reason}")

    refuse.__name__, refuse.__doc__ = name, "Raise: there are no complex numbers."
    return refuse


# The transforms exist as names, so that programs which import them without calling them run.
globals().update(
    {path[4:]: _refusal(path[4:], reason) for path, reason in refused.FUNCTIONS.items() if path.startswith("fft.")}
)
