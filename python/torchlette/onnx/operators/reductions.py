"""Reductions, running sums, sorting."""

from __future__ import annotations

from typing import Any

from torchlette import _C
from torchlette.onnx.registry import operator
from torchlette.onnx.spans import Span

Tensor = _C.Tensor


def _logsumexp(x: Tensor, dims: list[int], keep: bool) -> Tensor:
    return _C.logsumexp(x, dims, keep)


def _extremum(call: Any) -> Any:
    def apply(x: Tensor, dims: list[int], keep: bool) -> Tensor:
        if x.dtype is _C.bool:
            return apply(x.to(_C.uint8), dims, keep).to(_C.bool)
        if any(x.shape[d] == 0 for d in dims):
            return _empty_extremum(x, dims, keep, call is _C.amax)
        return call(x, dims, keep)

    return apply


def _empty_extremum(x: Tensor, dims: list[int], keep: bool, greatest: bool) -> Tensor:
    """Return the least or greatest number of the dtype, as of no elements."""
    shape = [1 if d in dims else n for d, n in enumerate(x.shape)]
    if not keep:
        shape = [n for d, n in enumerate(x.shape) if d not in dims]
    if x.is_floating_point():
        return _C.full(shape, float("-inf" if greatest else "inf"), dtype=x.dtype, device=x.device)
    bits = 8 * x.dtype.itemsize
    signed = x.dtype not in (_C.uint8, _C.uint32)
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    return _C.full(shape, low if greatest else high, dtype=x.dtype, device=x.device)


def _prod(x: Tensor, dims: list[int], keep: bool) -> Tensor:
    for d in sorted(dims, reverse=True):
        x = x.prod(d, keepdim=keep, dtype=x.dtype)
    return x


def _sum(x: Tensor, dims: list[int], keep: bool) -> Tensor:
    return x.sum(dims, keepdim=keep, dtype=x.dtype)


def _mean(x: Tensor, dims: list[int], keep: bool) -> Tensor:
    if any(x.shape[d] == 0 for d in dims):  # ONNX leaves it open, onnxruntime gives 0
        return _sum(x, dims, keep)
    if x.is_floating_point():
        return x.mean(dims, keepdim=keep)
    return x.to(_C.float64).mean(dims, keepdim=keep).to(x.dtype)


def _as_float(call: Any) -> Any:
    """Compute in floats, and return the operand's dtype."""

    def apply(x: Tensor, dims: list[int], keep: bool) -> Tensor:
        if x.is_floating_point():
            return call(x, dims, keep)
        return call(x.to(_C.float64), dims, keep).to(x.dtype)

    return apply


_REDUCTIONS = {
    "ReduceL1": lambda x, dims, keep: _sum(x.abs(), dims, keep),
    "ReduceL2": _as_float(lambda x, dims, keep: (x * x).sum(dims, keepdim=keep).sqrt()),
    "ReduceLogSum": _as_float(lambda x, dims, keep: x.sum(dims, keepdim=keep).log()),
    "ReduceLogSumExp": _as_float(_logsumexp),
    "ReduceMax": _extremum(_C.amax),
    "ReduceMean": _mean,
    "ReduceMin": _extremum(_C.amin),
    "ReduceProd": _prod,
    "ReduceSum": _sum,
    "ReduceSumSquare": lambda x, dims, keep: _sum(x * x, dims, keep),
}


def reduced(call: Any, name: str) -> Any:
    """Return a reduction with ONNX's arguments: axes are an input, before opset 18 an attribute."""

    def apply(
        x: Tensor | Span, dims: Any = None, *, axes: Any = None, keepdims: int = 1, noop_with_empty_axes: int = 0
    ) -> Any:
        wanted = dims if dims is not None else axes
        if isinstance(x, Span):
            if x.x.is_floating_point() and wanted and [d % x.x.dim() for d in wanted] == [x.axis]:
                return x.reduced(name, bool(keepdims))
            x = x.tensor()
        if not wanted and noop_with_empty_axes:
            return {"ReduceL1": _C.abs, "ReduceL2": _C.abs, "ReduceSumSquare": _C.square, "ReduceLogSum": _C.log}.get(
                name, lambda x: x
            )(x)
        if any(not -x.dim() <= d < x.dim() for d in wanted or []):
            raise ValueError(f"{name}: axes are {wanted}, the operand has {x.dim()} dims")
        places = sorted({d % x.dim() for d in wanted}) if wanted else list(range(x.dim()))
        return call(x, places, bool(keepdims)) if x.dim() else call(x.reshape(1), [0], False)

    return apply


for _name, _call in _REDUCTIONS.items():
    operator(_name, host=(1,))(reduced(_call, _name))


def _arg(call: Any) -> Any:
    def apply(x: Tensor, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Tensor:
        if select_last_index:
            return x.shape[axis] - 1 - call(x.flip(axis), axis, keepdim=bool(keepdims))
        return call(x, axis, keepdim=bool(keepdims))

    return apply


operator("ArgMax")(_arg(_C.argmax))
operator("ArgMin")(_arg(_C.argmin))


def _running(call: Any, neutral: int) -> Any:
    def apply(x: Tensor, axis: Any, *, exclusive: int = 0, reverse: int = 0) -> Tensor:
        axis = axis[0] if isinstance(axis, list) else axis
        if reverse:
            x = x.flip(axis)
        if exclusive:
            first = _C.full_like(x.narrow(axis, 0, 1), neutral)
            x = _C.cat([first, x.narrow(axis, 0, x.shape[axis] - 1)], axis)
        y = call(x, axis, dtype=x.dtype)
        return y.flip(axis) if reverse else y

    return apply


operator("CumSum", host=(1,))(_running(_C.cumsum, 0))
operator("CumProd", host=(1,))(_running(_C.cumprod, 1))


@operator("TopK", host=(1,))
def top_k(x: Tensor, k: Any, *, axis: int = -1, largest: int = 1, sorted: int = 1) -> tuple[Tensor, Tensor]:
    """Return the greatest elements along an axis, and their places; equal elements in the order of their places."""
    count = k[0] if isinstance(k, list) else k
    values, places = _C.sort(x, stable=True, dim=axis, descending=bool(largest))
    return values.narrow(axis, 0, count), places.narrow(axis, 0, count)
