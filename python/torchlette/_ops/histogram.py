"""Functions of sampled values: differences on a grid, histograms, coordinates."""

from __future__ import annotations

import builtins
import math
import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

from torchlette import _C

Tensor = _C.Tensor


class Histogram(NamedTuple):
    """What ``histogram`` returns."""

    hist: Tensor
    bin_edges: Tensor

    def __repr__(self) -> str:
        return f"torch.return_types.histogram(\nhist={self.hist},\nbin_edges={self.bin_edges})"


def _edges(input: Tensor, bins: int | Tensor, range: Sequence[float] | None) -> Tensor:
    if isinstance(bins, Tensor):
        if bins.dim() != 1 or range is not None:
            raise RuntimeError("torch.histogram(): bins tensor should have one dimension and excludes range")
        return bins
    if bins <= 0:
        raise RuntimeError(f"torch.histogram(): bins must be > 0, got {bins}")
    low, high = range if range is not None else (0.0, 1.0)
    if range is None and input.numel():
        low, high = _C.stack(
            list(_C.aminmax(input.detach().float() if input.dtype.itemsize < 4 else input.detach()))
        ).tolist()
    if not (math.isfinite(low) and math.isfinite(high)):
        raise RuntimeError(f"torch.histogram(): range [{low}, {high}] is not finite")
    if low > high:
        raise RuntimeError("torch.histogram(): max must be larger than min")
    if low == high:
        low, high = low - 0.5, high + 0.5
    kind = {"dtype": input.dtype, "device": input.device}
    return _C.cat([_C.linspace(low, high, bins + 1, **kind)[:-1], _C.full((1,), high, **kind)])


def _bin(values: Tensor, edges: Tensor) -> Tensor:
    """Return the bin of each value; values outside go to the first or the last bin."""
    return (_C.searchsorted(edges, values.contiguous(), right=True) - 1).clamp(0, len(edges) - 2)


def _summed(points: Tensor, place: Tensor, inside: Tensor, weight: Tensor | None, bins: int) -> Tensor:
    """Return, for each bin, the number of its points or the sum of their weights."""
    amount = (
        inside.to(points.dtype) if weight is None else _C.where(inside, weight.detach().reshape(-1).to(points.dtype), 0)
    )
    return _C.zeros(bins, dtype=points.dtype, device=points.device).index_add(0, place, amount)


def histogram(
    input: Tensor,
    bins: int | Tensor,
    *,
    range: Sequence[float] | None = None,
    weight: Tensor | None = None,
    density: bool = False,
) -> Histogram:
    """Return the counts (or sums of weights) between bin edges, and the edges. The last bin holds its right edge too.

    Raises RuntimeError where the range is not finite or out of order; reads the range when it is not given.

    Args:
        input: Values, of any shape.
        bins: The number of bins, or their edges in order.
        range: The least and the greatest edge; None: of the elements.
        weight: What each element counts, of the shape of ``input``; None: 1.
        density: Whether the result integrates to 1.

    >>> torchlette.histogram(torchlette.tensor([1.0, 2.0, 1.0]), bins=4, range=(0.0, 3.0)).hist.tolist()
    [0.0, 2.0, 1.0, 0.0]
    """
    if not input.dtype.is_floating_point:
        raise NotImplementedError(f"histogram: not implemented for {input.dtype}")
    edges = _edges(input, bins, range)
    values = input.detach().reshape(-1)
    if weight is not None and weight.numel() != len(values):
        raise RuntimeError(
            f"torch.histogram(): weight should have the shape of input: got {list(weight.shape)}, want "
            f"{list(input.shape)}"
        )
    inside = (values >= edges[0]) & (values <= edges[-1])
    hist = _summed(values, _bin(values, edges), inside, weight, len(edges) - 1)
    return Histogram(
        hist / (hist.sum() * edges.diff()) if density else hist, edges.clone() if isinstance(bins, Tensor) else edges
    )


class HistogramDD(NamedTuple):
    """What ``histogramdd`` returns."""

    hist: Tensor
    bin_edges: tuple[Tensor, ...]

    def __repr__(self) -> str:
        return f"torch.return_types.histogramdd(\nhist={self.hist},\nbin_edges={self.bin_edges})"


def histogramdd(
    input: Tensor,
    bins: int | Sequence[int] | Sequence[Tensor],
    *,
    range: Sequence[float] | None = None,
    weight: Tensor | None = None,
    density: bool = False,
) -> HistogramDD:
    """Return the counts (or sums of weights) of points in a grid of bins, and the edges of each dim. The last bins hold
    their right edges too.

    Args:
        input: Points, of shape (*, dims).
        bins: The number of bins of all dims or of each, or the edges of each dim.
        range: The least and the greatest edge of each dim. By default the points' extremes, which are read.
        weight: What each point counts, of shape (*).
        density: Whether to divide by the total and by the bins' volumes.

    Raises:
        RuntimeError: The sizes of ``bins``, ``range`` or ``weight`` do not fit the input.
    """
    if input.dim() < 2:
        raise RuntimeError("torch.histogramdd: input tensor should have at least 2 dimensions")
    if not input.dtype.is_floating_point:
        raise NotImplementedError(f"histogramdd: not implemented for {input.dtype}")
    dims = input.shape[-1]
    each = [bins] * dims if isinstance(bins, int) else list(bins)
    if len(each) != dims:
        raise RuntimeError("histogramdd: The size of bins must be equal to the innermost dimension of the input.")
    if range is not None and len(range) != 2 * dims:
        raise RuntimeError(
            f"torch.histogramdd: for a {dims}-dimensional histogram range should have {2 * dims} elements, but got "
            f"{len(range)}"
        )
    if weight is not None and weight.shape != input.shape[:-1]:
        raise RuntimeError(
            f"torch.histogramdd: weight has shape {list(weight.shape)}, want input's, {list(input.shape)}, without its "
            f"last dim"
        )
    points = input.detach().reshape(-1, dims)
    edges = [_edges(points[:, d], b, None if range is None else range[2 * d : 2 * d + 2]) for d, b in enumerate(each)]
    inside, place = (
        _C.ones(len(points), dtype=_C.bool, device=points.device),
        _C.zeros(len(points), dtype=_C.int64, device=points.device),
    )
    for values, e in zip(points.unbind(1), edges, strict=True):
        inside = inside & (values >= e[0]) & (values <= e[-1])
        place = place * (len(e) - 1) + _bin(values, e)
    hist = _summed(points, place, inside, weight, math.prod(len(e) - 1 for e in edges)).reshape(
        [len(e) - 1 for e in edges]
    )
    if density:
        hist = hist / hist.sum()
        for d, e in enumerate(edges):
            hist = hist / e.diff().reshape([-1 if i == d else 1 for i in builtins.range(dims)])
    return HistogramDD(hist, tuple(edges))


def _gradient_along(f: Tensor, h: Any, dim: int, edge_order: int) -> Tensor:
    """Differentiate along dim: h is the spacing, one for all neighbours or one for each pair."""
    n = f.shape[dim]

    def at(first: int, count: int) -> Tensor:
        return f.narrow(dim, first, count)

    if not isinstance(h, Tensor):
        inner = (at(2, n - 2) - at(0, n - 2)) / (2 * h)
        if edge_order == 1:
            left, right = (at(1, 1) - at(0, 1)) / h, (at(n - 1, 1) - at(n - 2, 1)) / h
        else:
            left = (-1.5 * at(0, 1) + 2 * at(1, 1) - 0.5 * at(2, 1)) / h
            right = (1.5 * at(n - 1, 1) - 2 * at(n - 2, 1) + 0.5 * at(n - 3, 1)) / h
        return _C.cat([left, inner, right], dim)
    h = h.reshape([n - 1 if i == dim else 1 for i in range(f.dim())])
    a, b = h.narrow(dim, 0, n - 2), h.narrow(dim, 1, n - 2)
    inner = (a * a * at(2, n - 2) + (b * b - a * a) * at(1, n - 2) - b * b * at(0, n - 2)) / (a * b * (a + b))
    first, last = h.narrow(dim, 0, 1), h.narrow(dim, n - 2, 1)
    if edge_order == 1:
        left, right = (at(1, 1) - at(0, 1)) / first, (at(n - 1, 1) - at(n - 2, 1)) / last
    else:
        p, q = h.narrow(dim, 1, 1), h.narrow(dim, n - 3, 1)
        left = (
            -(2 * first + p) / (first * (first + p)) * at(0, 1)
            + (first + p) / (first * p) * at(1, 1)
            - first / (p * (first + p)) * at(2, 1)
        )
        right = (
            last / (q * (last + q)) * at(n - 3, 1)
            - (last + q) / (last * q) * at(n - 2, 1)
            + (2 * last + q) / (last * (last + q)) * at(n - 1, 1)
        )
    return _C.cat([left, inner, right], dim)


def gradient(
    input: Tensor, *, spacing: Any = None, dim: int | Sequence[int] | None = None, edge_order: int = 1
) -> tuple[Tensor, ...]:
    """Estimate the gradient along each dim by central differences, of second order inside, of ``edge_order`` at the
    edges.

    ``spacing`` is a distance (1 when it is not given), or a list with one distance, or one tensor of coordinates, for
    each dim. Raises RuntimeError for dims shorter than ``edge_order + 1``.

    Args:
        input: Values, of any shape.
        spacing: The distance of neighbours, for all dimensions or for each; or a vector of coordinates for each.
        dim: The dimension, or a list of them; None: all.
        edge_order: The order of the estimate at the edges: 1 or 2.
    """
    dims = list(range(input.dim())) if dim is None else [dim] if isinstance(dim, int) else list(dim)
    dims = [operator.index(d) for d in dims]
    if any(not -input.dim() <= d < input.dim() for d in dims):
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-input.dim()}, {input.dim() - 1}], but got {dims})"
        )
    dims = [d % input.dim() for d in dims]
    if len(set(dims)) < len(dims):
        raise RuntimeError(f"torch.gradient: dim appears multiple times in the list of dims: {dims}")
    if edge_order not in (1, 2):
        raise RuntimeError("torch.gradient only supports edge_order=1 and edge_order=2.")
    spacing = 1 if spacing is None else spacing
    steps = list(spacing) if isinstance(spacing, (list, tuple)) else [spacing] * len(dims)
    if len(steps) != len(dims):
        raise RuntimeError(
            f"torch.gradient expected spacing to be unspecified, a scalar or {len(dims)} of them, but got {len(steps)}"
        )
    x = input if input.dtype.is_floating_point or input.is_complex() else input.to(_C.get_default_dtype())
    results = []
    for d, h in zip(dims, steps, strict=True):
        if input.shape[d] < edge_order + 1:
            raise RuntimeError("torch.gradient expected each dimension size to be at least edge_order+1")
        if isinstance(h, Tensor):
            if h.device != input.device:
                raise RuntimeError(
                    "torch.gradient expected each tensor to be on the same device, but got devices "
                    f"{input.device} and {h.device}!"
                )
            if h.dim() != 1 or len(h) != input.shape[d]:
                raise RuntimeError(
                    f"torch.gradient expected the coordinates of dim {d} to be {input.shape[d]} numbers, but got shape "
                    f"{list(h.shape)}"
                )
            h = h.diff()
        results.append(_gradient_along(x, h, d, edge_order))
    return tuple(results)


def unravel_index(indices: Tensor, shape: int | Sequence[int]) -> tuple[Tensor, ...]:
    """Turn row-major element numbers into coordinates in a tensor of the given shape."""
    if not isinstance(indices, Tensor) or indices.dtype.is_floating_point or indices.dtype is _C.bool:
        raise TypeError(f"expected 'indices' to be integer dtype, but got {getattr(indices, 'dtype', type(indices))}")
    if not isinstance(shape, (int, list, tuple)):
        raise TypeError(f"expected 'shape' to be int or sequence of ints, but got {type(shape)}")
    indices = indices.long()
    sizes = [shape] if isinstance(shape, int) else [operator.index(n) for n in shape]
    if any(n < 0 for n in sizes):
        raise ValueError(f"'shape' cannot have negative values, but got {tuple(sizes)}")
    coordinates = []
    for n in reversed(sizes):
        coordinates.append(indices % n)
        indices = indices // n
    return tuple(reversed(coordinates))
