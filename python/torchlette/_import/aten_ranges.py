"""ATen's operators of ranges whose ends are tensors, and of bins."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torchlette
from torchlette import _C

__all__ = ["RANGES"]

Tensor = _C.Tensor


def _linspace(start: Any, end: Any, steps: int, *, dtype: _C.dtype | None = None, **kwargs: Any) -> Tensor:
    """Count from both ends, as the operator of numbers does: the last one is the end."""
    ends = [t for t in (start, end) if isinstance(t, Tensor)]
    if not ends:
        return _C.linspace(start, end, steps, dtype=dtype, **kwargs)
    kind = dtype or torchlette.get_default_dtype()
    if dtype is None and any(t.is_complex() for t in ends):
        kind = _C.complex64
    work = kind if kind.is_floating_point or kind.is_complex else _C.float32
    device = ends[0].device
    low, high = (
        (t.detach() if isinstance(t, Tensor) else _C.full([], t, device=device)).to(kind).to(work) for t in (start, end)
    )
    number = _C.arange(steps, device=device)
    step = (high - low) / max(steps - 1, 1)
    found = _C.where(number < (steps + 1) // 2, low + step * number, high - step * (steps - 1 - number))
    return found.to(kind)


def _logspace(
    start: Any, end: Any, steps: int, base: float = 10.0, *, dtype: _C.dtype | None = None, **kwargs: Any
) -> Tensor:
    if not isinstance(start, Tensor) and not isinstance(end, Tensor):
        return _C.logspace(start, end, steps, base, dtype=dtype, **kwargs)
    kind = dtype or torchlette.get_default_dtype()
    work = kind if kind.is_floating_point or kind.is_complex else _C.float32
    start, end = (t.to(kind) if isinstance(t, Tensor) else t for t in (start, end))
    return _C.pow(base, _linspace(start, end, steps, dtype=work, **kwargs)).to(kind)


def _histogramdd(x: Tensor, bins: Any, range: Any = None, *rest: Any, **kwargs: Any) -> tuple[Tensor, list[Tensor]]:
    for name, value in zip(("weight", "density"), rest, strict=False):
        kwargs[name] = value
    hist, edges = torchlette.histogramdd(x, bins, range=range, **kwargs)
    return hist, list(edges)


#: By ATen's name.
RANGES: dict[str, Callable[..., Any]] = {
    "histogramdd": _histogramdd,
    "_histogramdd_bin_edges": lambda *args, **kwargs: _histogramdd(*args, **kwargs)[1],
    **dict.fromkeys(
        ("_histogramdd_from_bin_cts", "_histogramdd_from_bin_tensors"),
        lambda *args, **kwargs: _histogramdd(*args, **kwargs)[0],
    ),
    "linspace": _linspace,
    "logspace": _logspace,
    "tensor_split.tensor_indices_or_sections": torchlette.tensor_split,
}
