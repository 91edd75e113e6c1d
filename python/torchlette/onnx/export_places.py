"""How operators are written as ONNX's: those that read or write elements at places that tensors or strides name."""

from __future__ import annotations

import math
from typing import Any

from torchlette import _C, finfo, iinfo
from torchlette._runtime.errors import NotSupportedError
from torchlette.onnx.export_shapes import flipped
from torchlette.onnx.exporter import Exporter, Step, rule
from torchlette.onnx.terms import Term, where

F32, I64, BOOL = _C.float32, _C.int64, _C.bool
#: ONNX's names of the reductions of ``scatter_reduce``.
REDUCTIONS = {"sum": "add", "prod": "mul", "amax": "max", "amin": "min"}


def _turned(x: Exporter, value: str, order: list[int]) -> str:
    return value if order == sorted(order) else x.node("Transpose", [value], perm=order)


def along(x: Exporter, index: Any, dim: int, shape: list[Any]) -> str:
    """Return an index of a dim, [n] or a number, as ScatterElements takes it: expanded to ``shape``."""
    places = [-1 if d == dim % len(shape) else 1 for d in range(len(shape))]
    return x.node("Expand", [x.node("Reshape", [x.value(index), x.constant(places, I64)]), x.sizes(shape)])


def cut(x: Exporter, value: str, have: list[Any], want: list[Any]) -> str:
    """Return the first elements along each dim: as many as an index has, where the source has more."""
    if have == want:
        return value
    zeros, axes = x.constant([0] * len(want), I64), x.constant(list(range(len(want))), I64)
    return x.node("Slice", [value, zeros, x.sizes(want), axes])


@rule("scatter", "scatter_add", "scatter_reduce")
def _scatter(x: Exporter, s: Step) -> str:
    base = s.op.partition(".")[0]
    index, source = s["index"], s.get("src", s.get("value"))
    values, shape = x.as_type(source, s.dtype), x.shape_of(index)
    if x.number_of(source) is None:
        values = x.node("Expand", [values, x.sizes(shape)])
    else:
        values = cut(x, values, x.shape_of(source), shape)
    if s.get("reduce"):
        # "add" and "multiply" are those of scatter.
        reduction = {"add": "sum", "multiply": "prod"}.get(s["reduce"], s["reduce"])
        return _reduced_at(x, s, x.value(index), values, s["dim"], reduction)
    kind = "add" if base == "scatter_add" else "none"
    return x.node("ScatterElements", [x.value(s.operand), x.value(index), values], axis=s["dim"], reduction=kind)


def _reduced_at(x: Exporter, s: Step, index: str, values: str, dim: int, reduction: str) -> str:
    """Return the operand where values are added, multiplied, compared or averaged at places of a dim.

    Args:
        x: Gets the nodes.
        s: Has the operand, and says whether its elements count at these places.
        index: Of each value.
        values: Of the index's shape.
        dim: The dim.
        reduction: PyTorch's name.
    """
    operand, alone = x.value(s.operand), not s.get("include_self", True)
    averaged = reduction == "mean"
    if s.dtype is BOOL:
        raise NotSupportedError(f"onnx.export: {s.op} with reduce={reduction!r} of {s.dtype}")
    count = Term(x, operand, s.dtype)
    if averaged or alone:
        none = x.node("Expand", [x.constant(0, I64), x.node("Shape", [operand])])
        ones = x.node("Expand", [x.constant(1, I64), x.node("Shape", [index])])
        count = Term(x, x.node("ScatterElements", [none, index, ones], axis=dim, reduction="add"), I64)
    if alone:
        info = finfo(s.dtype) if s.dtype.is_floating_point else iinfo(s.dtype)
        low, high = (-math.inf, math.inf) if s.dtype.is_floating_point else (info.min, info.max)
        start = {"sum": 0, "mean": 0, "prod": 1, "amax": low, "amin": high}[reduction]
        operand = where(count > 0, Term(x, x.as_type(start, s.dtype), s.dtype), Term(x, operand, s.dtype)).name
    kind = "add" if averaged else REDUCTIONS[reduction]
    found = x.node("ScatterElements", [operand, index, values], axis=dim, reduction=kind)
    if not averaged:
        return found
    total = count.call("Max", 1) if alone else count + 1
    mean, total = Term(x, found, s.dtype), total.to(s.dtype)
    if not s.dtype.is_floating_point:  # rounded down
        mean = mean - mean.call("Mod", total)
    return (mean / total).name


@rule("index_reduce")
def _index_reduce(x: Exporter, s: Step) -> str:
    dim, shape = s["dim"] % x.rank(s.operand), x.shape_of(s["source"])
    return _reduced_at(x, s, along(x, s["index"], dim, shape), x.as_type(s["source"], s.dtype), dim, s["reduce"])


@rule("index_add", "index_copy", "index_fill", "_unsafe_index_copy")
def _index_rows(x: Exporter, s: Step) -> str:
    base, dim = s.op.partition(".")[0], s["dim"] % x.rank(s.operand)
    source = s.get("source", s.get("value"))
    rows = x.shape_of(s["index"])[0] if x.rank(s["index"]) else 1
    shape = [rows if d == dim else n for d, n in enumerate(x.shape_of(s.operand))]
    values = x.as_type(source, s.dtype)
    if base == "index_add" and s.get("alpha", 1) != 1:
        values = x.node("Mul", [values, x.as_type(s["alpha"], s.dtype)])
    values = x.node("Expand", [values, x.sizes(shape)])
    index = along(x, s["index"], dim, shape)
    kind = "add" if base == "index_add" else "none"
    return x.node("ScatterElements", [x.value(s.operand), index, values], axis=dim, reduction=kind)


@rule("_rows_under_mask")
def _rows_under_mask(x: Exporter, s: Step) -> str:
    """Return the rows: ONNX has no operator that checks their number."""
    return x.value(s.operand)


def _rows(x: Exporter, indices: list[Any], shape: list[Any]) -> str:
    """Return tensors of indices as GatherND and ScatterND take them: expanded to ``shape``, beside each other."""
    if any(x.type_of(i) is BOOL for i in indices):
        raise NotSupportedError("onnx.export: an index of bools")
    last = x.constant([-1], I64)
    parts = [x.node("Unsqueeze", [x.node("Expand", [x.as_type(i, I64), x.sizes(shape)]), last]) for i in indices]
    return x.node("Concat", parts, axis=-1) if len(parts) > 1 else parts[0]


@rule("_index_tensor")
def _index_tensor(x: Exporter, s: Step) -> str:
    """Tensors as indices of dims that follow one another."""
    dims, indices = list(s["which"]), list(s["indices"])
    v, rank = x.value(s.operand), x.rank(s.operand)
    if len(dims) == 1 and x.type_of(indices[0]) is not BOOL:
        return x.node("Gather", [v, x.value(indices[0])], axis=dims[0])
    if dims != list(range(dims[0], dims[0] + len(dims))):
        raise NotSupportedError("onnx.export: indices of dims that do not follow one another")
    count = max(x.rank(i) for i in indices)
    rows = _rows(x, indices, s.shape[dims[0] : dims[0] + count])
    y = x.node("GatherND", [_turned(x, v, dims + [d for d in range(rank) if d not in dims]), rows])
    total = count + rank - len(dims)
    return _turned(x, y, [*range(count, count + dims[0]), *range(count), *range(count + dims[0], total)])


@rule("_index_put")
def _index_put(x: Exporter, s: Step) -> str:
    """Write at tensors as indices of some dims. These dims come first while ScatterND writes."""
    dims, indices = list(s["which"]), list(s["indices"])
    shape, rank = x.shape_of(s.operand), x.rank(s.operand)
    rest = [d for d in range(rank) if d not in dims]
    count = max(x.rank(i) for i in indices)
    found = _broadcast([x.shape_of(i) for i in indices])
    # The dims of the indices replace the indexed dims in the values where these are adjacent, and come first elsewhere.
    before = dims[0] if dims == list(range(dims[0], dims[0] + len(dims))) else 0
    sizes = [shape[d] for d in rest]
    values = x.node("Expand", [x.as_type(s["values"], s.dtype), x.sizes(sizes[:before] + found + sizes[before:])])
    order = [*range(before, before + count), *range(before), *range(before + count, count + len(rest))]
    data, rows = _turned(x, x.value(s.operand), dims + rest), _rows(x, indices, found)
    kind = "add" if s.get("accumulate") else "none"
    y = x.node("ScatterND", [data, rows, _turned(x, values, order)], reduction=kind)
    return _turned(x, y, [(dims + rest).index(d) for d in range(rank)])


def _broadcast(shapes: list[list[Any]]) -> list[Any]:
    """Return the shape of tensors together."""
    count = max(len(shape) for shape in shapes)
    wide = [[1] * (count - len(shape)) + list(shape) for shape in shapes]
    return [next((n for n in sizes if n != 1), 1) for sizes in zip(*wide, strict=True)]


@rule("masked_scatter")
def _masked_scatter(x: Exporter, s: Step) -> str:
    """Element number n of those that the mask shows becomes element n of the source."""
    flat, zero = x.constant([-1], I64), x.constant(0, I64)
    mask = x.node("Expand", [x.value(s["mask"]), x.sizes(s.shape)])
    shown = x.cast(x.node("Reshape", [mask, flat]), BOOL, I64)
    number = x.node("Sub", [x.node("CumSum", [shown, zero]), x.constant(1, I64)])
    source = x.node("Reshape", [x.as_type(s["source"], s.dtype), flat])
    found = x.node("Gather", [source, x.node("Max", [number, zero])], axis=0)
    operand = x.node("Expand", [x.value(s.operand), x.sizes(s.shape)])
    return x.node("Where", [mask, x.node("Reshape", [found, x.sizes(s.shape)]), operand])


@rule("as_strided")
def _as_strided(x: Exporter, s: Step) -> str:
    """Read the elements of a contiguous tensor by the sums of multiples of strides."""
    if x.made_by(s.operand) != "contiguous":
        raise NotSupportedError("onnx.export: as_strided of a tensor that is not the result of contiguous()")
    zero, one = x.constant(0, I64), x.constant(1, I64)
    places = x.size(s.get("storage_offset", 0))
    for d, (size, stride) in enumerate(zip(s["size"], s["stride"], strict=True)):
        steps = x.node("Mul", [x.node("Range", [zero, x.size(size), one]), x.size(stride)])
        wide = x.constant([-1] + [1] * (len(s["size"]) - 1 - d), I64)
        places = x.node("Add", [places, x.node("Reshape", [steps, wide])])
    flat = x.node("Reshape", [x.value(s.operand), x.constant([-1], I64)])
    return x.node("Gather", [flat, places], axis=0)


def diagonal(x: Exporter, ref: Any, offset: int, a: int, b: int) -> str:
    """Return the diagonal of dims a and b, as the last dim."""
    rank, shape = x.rank(ref), x.shape_of(ref)
    rows, columns = x.static([shape[a], shape[b]], "a diagonal")
    rest = [d for d in range(rank) if d not in (a, b)]
    v = _turned(x, x.value(ref), [*rest, a, b])
    v = x.node("Reshape", [v, x.sizes([shape[d] for d in rest] + [rows * columns])])
    places = [r * columns + r + offset for r in range(rows) if 0 <= r + offset < columns]
    return x.node("Gather", [v, x.constant(places, I64)], axis=rank - 2)


@rule("diagonal", "trace", "linalg_diagonal")
def _diagonal(x: Exporter, s: Step) -> str:
    ref, usual = s.get("A", s.operand), (-2, -1) if s.op == "linalg_diagonal" else (0, 1)
    rank = x.rank(ref)
    a, b = (s.get(name, d) % rank for name, d in zip(("dim1", "dim2"), usual, strict=True))
    found = diagonal(x, ref, s.get("offset", 0), a, b)
    if s.op == "trace":
        found = x.node("ReduceSum", [x.cast(found, x.type_of(s.operand), s.dtype), x.constant([0], I64)], keepdims=0)
    return found


@rule("diag")
def _diag(x: Exporter, s: Step) -> str:
    offset = s.get("diagonal", 0)
    if x.rank(s.operand) == 2:
        return diagonal(x, s.operand, offset, 0, 1)
    size = x.static(s.shape, "a matrix of a diagonal")[0]
    count = size - abs(offset)
    places = [(r + max(0, -offset)) * size + r + max(0, offset) for r in range(count)]
    zeros = x.node("Expand", [x.as_type(0, s.dtype), x.constant([size * size], I64)])
    y = x.node("ScatterElements", [zeros, x.constant(places, I64), x.value(s.operand)], axis=0)
    return x.node("Reshape", [y, x.sizes(s.shape)])


@rule("rot90")
def _rot90(x: Exporter, s: Step) -> str:
    rank, turns = x.rank(s.operand), s.get("k", 1) % 4
    a, b = (d % rank for d in s.get("dims", [0, 1]))
    order = list(range(rank))
    order[a], order[b] = order[b], order[a]

    v = x.value(s.operand)
    match turns:
        case 0:
            return x.node("Identity", [v])
        case 1:
            return x.node("Transpose", [flipped(x, v, [b])], perm=order)
        case 2:
            return flipped(x, v, [a, b])
    return flipped(x, x.node("Transpose", [v], perm=order), [b])


@rule("meshgrid")
def _meshgrid(x: Exporter, s: Step) -> list[str]:
    found = []
    for i, t in enumerate(s["tensors"]):
        axis = 1 - i if s.get("indexing") == "xy" and i < 2 and len(s["tensors"]) > 1 else i
        wide = x.constant([-1 if d == axis else 1 for d in range(len(s["tensors"]))], I64)
        found.append(x.node("Expand", [x.node("Reshape", [x.value(t), wide]), x.sizes(s.shape)]))
    return found


def _kth(x: Exporter, v: str, k: int, dim: int, keepdim: bool) -> list[str]:
    """Return the k-th smallest elements along a dim, and where they are. ONNX leaves open where a NaN comes."""
    last = x.constant([k - 1] if keepdim else k - 1, I64)
    sorted_values = x.node("TopK", [v, x.constant([k], I64)], 2, axis=dim, largest=0, sorted=1)
    return [x.node("Gather", [part, last], axis=dim) for part in sorted_values]


@rule("kthvalue")
def _kthvalue(x: Exporter, s: Step) -> list[str]:
    return _kth(x, x.value(s.operand), s["k"], s.get("dim", -1), bool(s.get("keepdim")))


@rule("median.dim", "median")
def _median(x: Exporter, s: Step) -> Any:
    v, shape = x.value(s.operand), x.shape_of(s.operand)
    if s.get("dim") is not None:
        size = x.static(shape[s["dim"]], "the size of a dim with a median")[0]
        return _kth(x, v, (size + 1) // 2, s["dim"], bool(s.get("keepdim")))
    size = 1
    for n in x.static(shape, "the number of elements with a median"):
        size *= n
    return _kth(x, x.node("Reshape", [v, x.constant([-1], I64)]), (size + 1) // 2, 0, False)[0]


def _count(x: Exporter, s: Step, sequence: str, value: str, right: bool) -> str:
    """Count the elements of a sequence that are smaller than each value, or not greater: its last dim is a new one."""
    last = x.constant([-1], I64)
    below = x.node("LessOrEqual" if right else "Less", [sequence, x.node("Unsqueeze", [value, last])])
    return x.cast(x.node("ReduceSum", [x.cast(below, BOOL, I64), last], keepdims=0), I64, s.dtype)


@rule("bucketize")
def _bucketize(x: Exporter, s: Step) -> str:
    return _count(x, s, x.as_type(s["boundaries"], F32), x.as_type(s.operand, F32), bool(s.get("right")))


@rule("searchsorted")
def _searchsorted(x: Exporter, s: Step) -> str:
    sequence = x.value(s["sorted_sequence"])
    if s.get("sorter") is not None:
        sequence = x.node("GatherElements", [sequence, x.value(s["sorter"])], axis=-1)
    if x.rank(s["sorted_sequence"]) > 1:
        sequence = x.node("Unsqueeze", [sequence, x.constant([-2], I64)])
    right = s["side"] == "right" if s.get("side") else bool(s.get("right"))
    return _count(x, s, sequence, x.as_type(s.operand, x.type_of(s["sorted_sequence"])), right)


@rule("histc")
def _histc(x: Exporter, s: Step) -> str:
    """Count elements in bins of equal width."""
    low, high, bins = float(s.get("min", 0)), float(s.get("max", 0)), s.get("bins", 100)
    v = Term.of(x, s.operand, s.dtype if s.dtype.itemsize > 2 else F32).ints("Reshape", [-1])
    first, last = (Term(x, x.constant(n, v.dtype), v.dtype) for n in (low, high))
    if low == high:  # from the least element to the largest, or around the one value
        first, last = (v.call(kind, keepdims=0) for kind in ("ReduceMin", "ReduceMax"))
        same = first == last
        first, last = where(same, first - 1.0, first), where(same, last + 1.0, last)
    inside = (v >= first) & (v <= last)
    place = where(inside, (v - first) * float(bins) / (last - first), 0.0).call("Min", float(bins - 1))
    counts = x.node("Expand", [x.constant(0.0, v.dtype), x.constant([bins], I64)])
    rows = [counts, place.to(I64).name, inside.to(v.dtype).name]
    return x.cast(x.node("ScatterElements", rows, axis=0, reduction="add"), v.dtype, s.dtype)
