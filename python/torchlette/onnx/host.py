"""Operators on Python numbers: what graphs compute of sizes."""

from __future__ import annotations

import itertools
import math
import operator
from array import array
from collections.abc import Callable, Sequence
from typing import Any

from torchlette import _C
from torchlette.onnx.operators.shapes import clamped_slice, unsqueezed, wanted_shape
from torchlette.onnx.tensors import HOST_LIMIT, Host, dtype_of

__all__ = ["HOST", "TooLarge"]

Ints = Sequence[int]


class TooLarge(Exception):
    """A result is no number that Python keeps, such as one of many elements: the operator runs on tensors."""


#: By ONNX's name: a function of Host values and attributes.
HOST: dict[str, Callable[..., Any]] = {}


def _host(*names: str) -> Callable[[Any], Any]:
    def add(function: Any) -> Any:
        HOST.update(dict.fromkeys(names, function))
        return function

    return add


def _made(values: Sequence[Any], shape: Ints, dtype: _C.dtype, *of: Host) -> Host:
    if len(values) > HOST_LIMIT:
        raise TooLarge
    if any(type(v) is int and not -(1 << 63) <= v < 1 << 63 for v in values):
        raise ValueError("a number of a size does not fit in 64 bits")
    if any(type(v) is complex for v in values):
        raise TooLarge  # NaN: the power of a negative number
    if dtype is _C.float32:
        values = array("f", values).tolist()
    return Host(values, shape, dtype, any(v.moving for v in of))


def _fixed(*values: Host | None) -> None:
    """Leave an operator to tensors where the number of its results depends on the sizes of inputs."""
    if any(v is not None and v.moving for v in values):
        raise TooLarge


def _steps(shape: Ints) -> list[int]:
    return [math.prod(shape[d + 1 :]) for d in range(len(shape))]


def _places(shape: Ints) -> Any:
    if math.prod(shape) > HOST_LIMIT:
        raise TooLarge
    return itertools.product(*map(range, shape))


def _joined(shapes: Sequence[Ints]) -> list[int]:
    rank = max(map(len, shapes))
    out = [1] * rank
    for shape in shapes:
        for d, n in zip(range(rank - len(shape), rank), shape, strict=True):
            if n != out[d] and 1 not in (n, out[d]):
                raise ValueError(f"sizes do not match: {[list(s) for s in shapes]}")
            out[d] = n if out[d] == 1 else out[d]
    return out


def _expanded(x: Host, shape: Ints) -> list[Any]:
    if x.shape == list(shape):
        return x.values
    lead = len(shape) - len(x.shape)
    steps = [0] * lead + [0 if n == 1 else s for n, s in zip(x.shape, _steps(x.shape), strict=True)]
    return [x.values[sum(map(operator.mul, place, steps))] for place in _places(shape)]


def _whole_div(a: Any, b: Any) -> Any:
    if isinstance(a, float) or isinstance(b, float):
        return a / b if b else math.copysign(math.inf, a) if a else math.nan
    q = abs(a) // abs(b)
    return q if (a < 0) == (b < 0) else -q


def _pow(a: Any, b: Any) -> Any:
    if isinstance(a, int) and (abs(b) > 63 or abs(a) > 1 << 32):
        raise ValueError(f"a size is {a} ** {b}")
    found = a**b
    return int(found) if isinstance(a, int) else found


def _elementwise(function: Callable[..., Any], result: _C.dtype | None = None) -> Callable[..., Host]:
    def apply(*operands: Host) -> Host:
        shape = _joined([x.shape for x in operands])
        columns = [_expanded(x, shape) for x in operands]
        values = [function(*row) for row in zip(*columns, strict=True)]
        return _made(values, shape, result or operands[0].dtype, *operands)

    return apply


_FUNCTIONS: dict[str, tuple[Callable[..., Any], _C.dtype | None]] = {
    "Add": (operator.add, None),
    "Sub": (operator.sub, None),
    "Mul": (operator.mul, None),
    "Div": (_whole_div, None),
    "Pow": (_pow, None),
    "Neg": (operator.neg, None),
    "Abs": (abs, None),
    "Sqrt": (lambda x: math.sqrt(x) if x >= 0 else math.nan, None),
    "Floor": (lambda x: float(math.floor(x)), None),
    "Ceil": (lambda x: float(math.ceil(x)), None),
    "Round": (lambda x: float(round(x)), None),
    "Max": (max, None),
    "Min": (min, None),
    "Sum": (lambda *row: sum(row), None),
    "Not": (operator.not_, _C.bool),
    "And": (lambda a, b: a and b, _C.bool),
    "Or": (lambda a, b: a or b, _C.bool),
    "Xor": (operator.xor, _C.bool),
    "Equal": (operator.eq, _C.bool),
    "Less": (operator.lt, _C.bool),
    "LessOrEqual": (operator.le, _C.bool),
    "Greater": (operator.gt, _C.bool),
    "GreaterOrEqual": (operator.ge, _C.bool),
}
for _name, (_function, _dtype) in _FUNCTIONS.items():
    HOST[_name] = _elementwise(_function, _dtype)
for _name in ("Max", "Min"):
    HOST[_name] = _elementwise(lambda *row, _f=_FUNCTIONS[_name][0]: _f(row))


@_host("Mod")
def _mod(a: Host, b: Host, *, fmod: int = 0) -> Host:
    return _elementwise(math.fmod if fmod else operator.mod)(a, b)


@_host("Where")
def _where(condition: Host, a: Host, b: Host) -> Host:
    made = _elementwise(lambda c, x, y: x if c else y, a.dtype)(condition, a, b)
    return made


@_host("Cast")
def _cast(x: Host, *, to: int, saturate: int = 1, round_mode: str = "up") -> Host:
    return _in_dtype(x, dtype_of(to))


@_host("CastLike")
def _cast_like(x: Host, like: Host, *, saturate: int = 1, round_mode: str = "up") -> Host:
    return _in_dtype(x, like.dtype)


def _in_dtype(x: Host, dtype: _C.dtype) -> Host:
    if dtype is _C.bool:
        return _made([v != 0 for v in x.values], x.shape, dtype, x)
    if dtype.is_floating_point:
        return _made([float(v) for v in x.values], x.shape, dtype, x)
    if not all(math.isfinite(v) for v in x.values):
        raise TooLarge
    return _made([int(v) for v in x.values], x.shape, dtype, x)


@_host("Shape")
def _shape(x: Host, *, start: int = 0, end: int | None = None) -> Host:
    sizes = x.shape[slice(start, end)]
    return Host(sizes, [len(sizes)], _C.int64)


@_host("Size")
def _size(x: Host) -> Host:
    return Host([len(x.values)], [], _C.int64)


@_host("Identity")
def _identity(x: Host) -> Host:
    return x


@_host("Reshape")
def _reshape(x: Host, sizes: Host, *, allowzero: int = 0) -> Host:
    shape = wanted_shape(x.shape, sizes.values, allowzero)
    if -1 in shape:
        known = -math.prod(shape)
        if shape.count(-1) != 1 or known <= 0 or len(x.values) % known:
            raise ValueError(f"Reshape: sizes {shape} of {len(x.values)} elements")
        shape[shape.index(-1)] = len(x.values) // known
    if math.prod(shape) != len(x.values) or min(shape, default=0) < 0:
        raise ValueError(f"Reshape: sizes {shape} of {len(x.values)} elements")
    return _made(x.values, shape, x.dtype, x)


@_host("Flatten")
def _flatten(x: Host, *, axis: int = 1) -> Host:
    axis += len(x.shape) if axis < 0 else 0
    return _made(x.values, [math.prod(x.shape[:axis]), math.prod(x.shape[axis:])], x.dtype, x)


@_host("Squeeze")
def _squeeze(x: Host, dims: Host | None = None, *, axes: list[int] | None = None) -> Host:
    wanted = dims.values if dims is not None else axes
    rank = len(x.shape)
    places = {d for d in range(rank) if x.shape[d] == 1} if wanted is None else {d % rank for d in wanted}
    if any(x.shape[d] != 1 for d in places):
        raise ValueError(f"Squeeze: axes are {wanted}, the sizes {x.shape}")
    return _made(x.values, [n for d, n in enumerate(x.shape) if d not in places], x.dtype, x)


@_host("Unsqueeze")
def _unsqueeze(x: Host, dims: Host | None = None, *, axes: list[int] | None = None) -> Host:
    return _made(x.values, unsqueezed(x.shape, dims.values if dims is not None else axes or []), x.dtype, x)


@_host("Transpose")
def _transpose(x: Host, *, perm: list[int] | None = None) -> Host:
    order = list(reversed(range(len(x.shape)))) if perm is None else perm
    shape, steps = [x.shape[d] for d in order], _steps(x.shape)
    values = [x.values[sum(i * steps[d] for i, d in zip(place, order, strict=True))] for place in _places(shape)]
    return _made(values, shape, x.dtype, x)


@_host("Concat")
def _concat(*parts: Host, axis: int) -> Host:
    rank = len(parts[0].shape)
    axis += rank if axis < 0 else 0
    if not 0 <= axis < rank or any(len(p.shape) != rank for p in parts):
        raise ValueError(f"Concat: axis {axis} of sizes {[p.shape for p in parts]}")
    inner = [math.prod(p.shape[axis:]) for p in parts]
    values: list[Any] = []
    for row in range(math.prod(parts[0].shape[:axis])):
        for part, n in zip(parts, inner, strict=True):
            values += part.values[row * n : row * n + n]
    shape = list(parts[0].shape)
    shape[axis] = sum(p.shape[axis] for p in parts)
    return _made(values, shape, parts[0].dtype, *parts)


def _taken(x: Host, axis: int, places: Sequence[int], shape: Ints) -> list[Any]:
    """Return the elements at places along an axis; the result's sizes there are ``shape``."""
    n, inner = x.shape[axis], math.prod(x.shape[axis + 1 :])
    if any(not -n <= p < n for p in places):
        raise ValueError(f"a place of {list(places)} is outside of {n}")
    values: list[Any] = []
    for row in range(math.prod(x.shape[:axis])):
        for p in places:
            at = (row * n + p % n) * inner
            values += x.values[at : at + inner]
    return values


@_host("Gather")
def _gather(x: Host, indices: Host, *, axis: int = 0) -> Host:
    axis += len(x.shape) if axis < 0 else 0
    values = _taken(x, axis, indices.values, indices.shape)
    return _made(values, [*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]], x.dtype, x, indices)


@_host("Slice")
def _slice(x: Host, starts: Host, ends: Host, axes: Host | None = None, steps: Host | None = None) -> Host:
    _fixed(starts, ends)
    dims = list(range(len(starts.values))) if axes is None else [d % len(x.shape) for d in axes.values]
    walk = [1] * len(dims) if steps is None else steps.values
    for d, start, end, step in zip(dims, starts.values, ends.values, walk, strict=True):
        places = clamped_slice(x.shape[d], start, end, step)
        shape = [*x.shape[:d], len(places), *x.shape[d + 1 :]]
        x = _made(_taken(x, d, places, [len(places)]), shape, x.dtype, x, starts, ends)
    return x


@_host("Split")
def _split(
    x: Host, sizes: Host | None = None, *, axis: int = 0, num_outputs: int = 0, n_outputs: int = 0
) -> list[Host]:
    _fixed(sizes)
    axis += len(x.shape) if axis < 0 else 0
    total, count = x.shape[axis], num_outputs or n_outputs
    each = -(-total // max(count, 1))
    wanted = sizes.values if sizes is not None else [each] * (count - 1) + [total - each * (count - 1)]
    out, at = [], 0
    for n in wanted:
        shape = [*x.shape[:axis], n, *x.shape[axis + 1 :]]
        out.append(_made(_taken(x, axis, range(at, at + n), [n]), shape, x.dtype, x))
        at += n
    return out


@_host("Expand")
def _expand(x: Host, sizes: Host) -> Host:
    _fixed(sizes)
    shape = _joined([x.shape, sizes.values])
    return _made(_expanded(x, shape), shape, x.dtype, x, sizes)


@_host("Tile")
def _tile(x: Host, repeats: Host) -> Host:
    _fixed(repeats)
    if len(x.shape) != 1 or len(repeats.values) != 1 or len(x.values) * repeats.values[0] > HOST_LIMIT:
        raise TooLarge
    return _made(x.values * repeats.values[0], [len(x.values) * repeats.values[0]], x.dtype, x, repeats)


@_host("ConstantOfShape")
def _constant_of_shape(sizes: Host, *, value: Any = None) -> Host:
    _fixed(sizes)
    count = math.prod(sizes.values)
    if (
        count > HOST_LIMIT
        or not isinstance(value, Host)
        or value.dtype.is_floating_point
        or min(sizes.values, default=0) < 0
    ):
        raise TooLarge
    return _made(value.values * count, sizes.values, value.dtype, sizes)


@_host("Range")
def _range(start: Host, limit: Host, delta: Host) -> Host:
    first, last, step = start.values[0], limit.values[0], delta.values[0]
    _fixed(start, limit, delta)
    if not all(isinstance(v, int) for v in (first, last, step)) or abs(last - first) > HOST_LIMIT * abs(step):
        raise TooLarge
    values = list(range(first, last, step))
    return _made(values, [len(values)], start.dtype)


def _reduction(function: Callable[[Sequence[Any]], Any]) -> Callable[..., Host]:
    def apply(
        x: Host, dims: Host | None = None, *, axes: Any = None, keepdims: int = 1, noop_with_empty_axes: int = 0
    ) -> Host:
        wanted = dims.values if dims is not None else axes
        if len(x.shape) > 1 or not wanted and noop_with_empty_axes or not x.values:
            raise TooLarge
        return _made([function(x.values)], [1] * (len(x.shape) if keepdims else 0), x.dtype, x)

    return apply


HOST["ReduceSum"], HOST["ReduceProd"] = _reduction(sum), _reduction(math.prod)
HOST["ReduceMax"], HOST["ReduceMin"] = _reduction(max), _reduction(min)


@_host("NonZero")
def _nonzero(x: Host) -> Host:
    _fixed(x)
    found = [place for place, v in zip(_places(x.shape), x.values, strict=True) if v]
    rank = len(x.shape)
    return _made([place[d] for d in range(rank) for place in found], [rank, len(found)], _C.int64, x)


@_host("ScatterND")
def _scatter_nd(x: Host, indices: Host, updates: Host, *, reduction: str = "none") -> Host:
    depth = indices.shape[-1] if indices.shape else 0
    if depth != len(x.shape) or depth != 1 or reduction != "none":
        raise TooLarge
    values = list(x.values)
    for place, value in zip(indices.values, updates.values, strict=True):
        values[place] = value
    return _made(values, x.shape, x.dtype, x, indices, updates)


@_host("CumSum")
def _cumsum(x: Host, axis: Host, *, exclusive: int = 0, reverse: int = 0) -> Host:
    if len(x.shape) != 1 or exclusive or reverse:
        raise TooLarge
    return _made(list(itertools.accumulate(x.values)), x.shape, x.dtype, x)


@_host("Pad")
def _pad(x: Host, pads: Host, value: Host | None = None, axes: Host | None = None, *, mode: str = "constant") -> Host:
    _fixed(pads)
    if len(x.shape) != 1 or mode != "constant" or len(pads.values) != 2 or sum(map(abs, pads.values)) > HOST_LIMIT:
        raise TooLarge
    before, after = pads.values
    if before < 0 or after < 0:
        raise TooLarge
    fill = value.values[0] if value is not None else 0
    values = [fill] * before + x.values + [fill] * after
    return _made(values, [len(values)], x.dtype, x, pads)
