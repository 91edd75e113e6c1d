"""Discrete Fourier transforms, as ``torch.fft`` has them.

Transforms are not normalised in one direction and divided by the number of elements in the other: ``norm="backward"``
(the default) divides the inverse transforms, ``"forward"`` the others, ``"ortho"`` both by its root. ``n`` (of several
dims ``s``) cuts the operand, or appends zeros. Transforms of real tensors give the first ``n // 2 + 1`` elements, whose
conjugates are the others. The functions take float32, float64, complex64 and complex128; integers become the default
dtype.
"""

from __future__ import annotations

from typing import Any

from torchlette import _C

__all__ = ["fftfreq", "fftshift", "ifftshift", "rfftfreq"]

_PLACE = 64
_PREFIX = "fft_"

_names = {
    name.removeprefix(_PREFIX): getattr(_C, name)
    for name, places in _C._where.items()
    if places & _PLACE and name.startswith(_PREFIX)
}
globals().update(_names)
__all__ += sorted(_names)


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
