"""How operators that put elements elsewhere are written: stacks, splits, diagonals, parts that are replaced."""

from __future__ import annotations

from typing import Any

from torchlette import _C
from torchlette.onnx.exporter import Exporter, Step, rule
from torchlette.onnx.terms import Term

I64, BOOL = _C.int64, _C.bool


@rule("broadcast_to", "ravel", "atleast_1d", "atleast_2d", "atleast_3d", "adjoint", "swapdims", "flipud", "fliplr")
def _same_elements(x: Exporter, s: Step) -> str:
    v, rank = x.value(s.operand), x.rank(s.operand)
    if s.op == "broadcast_to":
        return x.node("Expand", [v, x.sizes(s.shape)])
    if s.op in ("adjoint", "swapdims"):
        a, b = (-2, -1) if s.op == "adjoint" else (s.get("dim0", 0), s.get("dim1", 1))
        order = list(range(rank))
        order[a], order[b] = order[b], order[a]
        return x.node("Transpose", [v], perm=order)
    if s.op in ("flipud", "fliplr"):
        ends = [x.constant([n], I64) for n in (-1, -(1 << 62), 0 if s.op == "flipud" else 1, -1)]
        return x.node("Slice", [v, *ends])
    return x.node("Reshape", [v, x.sizes(s.shape)])


@rule("hstack", "vstack", "dstack", "column_stack")
def _stacks(x: Exporter, s: Step) -> str:
    """Vectors become columns for column_stack, rows for vstack and dstack, which adds a last dim to matrices too."""
    most = max(x.rank(t) for t in s["tensors"])
    axis = {"hstack": 0 if most <= 1 else 1, "vstack": 0, "dstack": 2, "column_stack": 1}[s.op]
    least, parts = {"hstack": 1, "vstack": 2, "dstack": 3, "column_stack": 2}[s.op], []
    for t in s["tensors"]:
        v, shape, rank = x.as_type(t, s.dtype), list(x.shape_of(t)), x.rank(t)
        if rank < least:
            if s.op == "column_stack":
                shape = [*shape, *[1] * (2 - rank)]
            else:
                shape = [1] * (min(least, 2) - rank) + shape + [1] * (least - max(rank, 2))
            v = x.node("Reshape", [v, x.sizes(shape)])
        parts.append(v)
    return x.node("Concat", parts, axis=axis)


@rule("hsplit", "vsplit", "dsplit")
def _splits(x: Exporter, s: Step) -> Any:
    rank = x.rank(s.operand)
    dim = {"hsplit": 0 if rank == 1 else 1, "vsplit": 0, "dsplit": 2}[s.op.partition(".")[0]]
    sizes = x.sizes([shape[dim] for _, shape in s.out])
    found = x.node("Split", [x.value(s.operand), sizes], len(s.out), axis=dim)
    return found if isinstance(found, list) else [found]


@rule("msort")
def _msort(x: Exporter, s: Step) -> str:
    count = x.sizes([x.shape_of(s.operand)[0]])
    return x.node("TopK", [x.value(s.operand), count], 2, axis=0, largest=0, sorted=1)[0]


@rule("take")
def _take(x: Exporter, s: Step) -> str:
    return x.node(
        "Gather", [x.node("Reshape", [x.value(s.operand), x.constant([-1], I64)]), x.value(s["index"])], axis=0
    )


@rule("put")
def _put(x: Exporter, s: Step) -> str:
    flat = x.constant([-1], I64)
    rows = [x.node("Reshape", [v, flat]) for v in (x.value(s.operand), x.value(s["index"]), x.value(s["source"]))]
    found = x.node("ScatterElements", rows, axis=0, reduction="add" if s.get("accumulate") else "none")
    return x.node("Reshape", [found, x.sizes(s.shape)])


@rule("select_scatter", "slice_scatter")
def _scattered(x: Exporter, s: Step) -> str:
    """Elements along a dim are of the operand, or of the source where the place is one that is written."""
    shape = x.shape_of(s.operand)
    dim = s["dim"] % len(shape)
    src = Term.of(x, s["src"], s.dtype)
    if s.op == "select_scatter":
        src, first = src.ints("Unsqueeze", [dim]), x.sizes([s["index"]])
        if isinstance(s["index"], int) and s["index"] < 0:
            first = x.node("Add", [x.sizes([shape[dim]]), first])
        places = first
    else:
        ends = [x.sizes([n]) for n in (s.get("start") or 0, 1 << 62 if s.get("end") is None else s["end"])]
        numbers = x.node("Range", [x.constant(0, I64), x.size(shape[dim]), x.constant(1, I64)])
        places = x.node("Slice", [numbers, *ends, x.constant([0], I64), x.constant([s.get("step", 1)], I64)])
    wide = x.node("Reshape", [places, x.constant([-1 if d == dim else 1 for d in range(len(shape))], I64)])
    index = x.node("Expand", [wide, x.node("Shape", [src.name])])
    return x.node("ScatterElements", [x.value(s.operand), index, src.name], axis=dim)


@rule("diag_embed", "diagflat", "diagonal_scatter")
def _diagonals(x: Exporter, s: Step) -> str:
    """Places on the diagonal of the two dims, which come last, get the elements."""
    rank, offset = len(s.shape), s.get("offset", 0)
    a, b = (
        (s.get("dim1", -2) % rank, s.get("dim2", -1) % rank)
        if s.op != "diagonal_scatter"
        else (s.get("dim1", 0) % rank, s.get("dim2", 1) % rank)
    )
    rows, columns = x.static([s.shape[a], s.shape[b]], "a diagonal")
    rest = [d for d in range(rank) if d not in (a, b)]
    order = [*rest, a, b]
    sizes = [s.shape[d] for d in rest]
    places = [r * columns + r + offset for r in range(rows) if 0 <= r + offset < columns]
    if s.op == "diagonal_scatter":
        base, source = x.node("Transpose", [x.value(s.operand)], perm=order), x.as_type(s["src"], s.dtype)
        base = x.node("Reshape", [base, x.sizes([*sizes, rows * columns])])
    else:
        base, source = x.node("Expand", [x.as_type(0, s.dtype), x.sizes([*sizes, rows * columns])]), x.value(s.operand)
    source = x.node("Reshape", [source, x.sizes([*sizes, len(places)])])
    index = x.node("Expand", [x.constant(places, I64), x.sizes([*sizes, len(places)])])
    found = x.node("ScatterElements", [base, index, source], axis=-1)
    found = x.node("Reshape", [found, x.sizes([*sizes, rows, columns])])
    return x.node("Transpose", [found], perm=[order.index(d) for d in range(rank)])


@rule("cartesian_prod")
def _cartesian(x: Exporter, s: Step) -> str:
    count, tensors = len(s["tensors"]), s["tensors"]
    if count == 1:
        return x.value(tensors[0])
    sizes = [x.shape_of(t)[0] for t in tensors]
    parts = []
    for i, t in enumerate(tensors):
        wide = x.node("Reshape", [x.as_type(t, s.dtype), x.constant([-1 if d == i else 1 for d in range(count)], I64)])
        parts.append(x.node("Unsqueeze", [x.node("Expand", [wide, x.sizes(sizes)]), x.constant([-1], I64)]))
    return x.node("Reshape", [x.node("Concat", parts, axis=-1), x.constant([-1, count], I64)])


@rule("isin")
def _isin(x: Exporter, s: Step) -> str:
    left, right = s["elements"], s["test_elements"]
    dtype = x.type_of(left) if x.number_of(left) is not None else x.type_of(right)
    a, b = Term.of(x, left, dtype), Term.of(x, right, dtype).ints("Reshape", [-1])
    same = (a.ints("Unsqueeze", [-1]) == b).to(I64)
    found = ~(same.ints("ReduceSum", [-1], keepdims=0) == 0)
    found = Term(x, found.name, BOOL)
    return (~found if s.get("invert") else found).name


@rule("tril_indices", "triu_indices")
def _triangle(x: Exporter, s: Step) -> str:
    rows, columns, offset = s["row"], s["col"], s.get("offset", 0)
    low = s.op == "tril_indices"
    places = [(r, c) for r in range(rows) for c in range(columns) if (c - r <= offset if low else c - r >= offset)]
    flat = x.constant([p[k] for k in (0, 1) for p in places], s.dtype)
    return x.node("Reshape", [flat, x.constant([2, len(places)], I64)])


@rule("scalar_tensor")
def _scalar(x: Exporter, s: Step) -> str:
    return x.as_type(s["s"], s.dtype)


@rule("max_pool1d_with_indices", "max_pool2d_with_indices", "max_pool3d_with_indices")
def _max_pool(x: Exporter, s: Step) -> list[str]:
    from torchlette.onnx.export_layers import batched

    dims = int(s.op[8])
    each = {
        n: list(s.get(n) or [u]) * (dims if len(s.get(n) or [u]) == 1 else 1)
        for n, u in (("kernel_size", 1), ("dilation", 1), ("padding", 0))
    }
    strides = s.get("stride") or each["kernel_size"]
    options: dict[str, Any] = {"kernel_shape": each["kernel_size"], "dilations": each["dilation"]}
    options |= {"strides": list(strides) * (dims if len(strides) == 1 else 1), "pads": each["padding"] * 2}
    values, places = batched(x, s, dims, "MaxPool", outputs=2, ceil_mode=int(bool(s.get("ceil_mode"))), **options)
    # ONNX counts places from the first element of all, ours from the first of the channel.
    inner = x.node("ReduceProd", [x.sizes(x.shape_of(s.operand)[-dims:]), None], keepdims=0)
    return [values, x.node("Mod", [places, inner])]


@rule("_max_unpool")
def _unpool(x: Exporter, s: Step) -> str:
    dims = len(s["output_size"])
    shape = x.shape_of(s.operand)
    outer = shape[: len(shape) - dims]
    flat = [x.node("Reshape", [x.value(v), x.sizes([*outer, -1])]) for v in (s["indices"], s.operand)]
    size = x.node("ReduceProd", [x.sizes(s.shape[-dims:])], keepdims=1)
    sizes = x.node("Concat", [x.sizes(outer), size], axis=0) if outer else size
    zeros = x.node("Expand", [x.as_type(0, s.dtype), sizes])
    return x.node("Reshape", [x.node("ScatterElements", [zeros, *flat], axis=-1), x.sizes(s.shape)])
