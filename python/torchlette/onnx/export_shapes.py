"""How operators of sizes and places are written as ONNX's."""

from __future__ import annotations

import math
from typing import Any

from torchlette import _C
from torchlette.onnx.exporter import Exporter, Step, rule

I64 = _C.int64


@rule("reshape", "view", "flatten", "unflatten", "unsqueeze", "squeeze", "view_as", "reshape_as")
def _reshape(x: Exporter, s: Step) -> str:
    return x.node("Reshape", [x.value(s.operand), x.sizes(s.shape)])


@rule("expand", "expand_as")
def _expand(x: Exporter, s: Step) -> str:
    return x.node("Expand", [x.value(s.operand), x.sizes(s.shape)])


@rule("broadcast_tensors")
def _broadcast(x: Exporter, s: Step) -> list[str]:
    return [x.node("Expand", [x.value(t), x.sizes(s.shape)]) for t in s["tensors"]]


@rule("permute")
def _permute(x: Exporter, s: Step) -> str:
    rank = x.rank(s.operand)
    return x.node("Transpose", [x.value(s.operand)], perm=[d % rank for d in s["dims"]])


@rule("transpose", "t", "swapaxes")
def _transpose(x: Exporter, s: Step) -> str:
    rank = x.rank(s.operand)
    order = list(range(rank))
    if rank > 1:
        a, b = s.get("dim0", s.get("axis0", 0)) % rank, s.get("dim1", s.get("axis1", 1)) % rank
        order[a], order[b] = order[b], order[a]
    return x.node("Transpose", [x.value(s.operand)], perm=order)


@rule("movedim")
def _movedim(x: Exporter, s: Step) -> str:
    rank = x.rank(s.operand)
    source, target = ([d % rank for d in (v if isinstance(v, list) else [v])] for v in (s["source"], s["destination"]))
    order: list[int] = [-1] * rank
    for a, b in zip(source, target, strict=True):
        order[b] = a
    rest = iter(d for d in range(rank) if d not in source)
    return x.node("Transpose", [x.value(s.operand)], perm=[next(rest) if d < 0 else d for d in order])


@rule("repeat", "tile")
def _repeat(x: Exporter, s: Step) -> str:
    counts = s.get("repeats", s.get("dims"))
    v, rank = x.value(s.operand), x.rank(s.operand)
    if len(counts) > rank:
        v = x.node("Reshape", [v, x.sizes([1] * (len(counts) - rank) + x.shape_of(s.operand))])
    return x.node("Tile", [v, x.sizes([1] * (rank - len(counts)) + list(counts))])


@rule("cat", "concat")
def _cat(x: Exporter, s: Step) -> str:
    parts = [t for t in s["tensors"] if x.shape_of(t) != [0]] or s["tensors"][:1]
    return x.node("Concat", [x.as_type(t, s.dtype) for t in parts], axis=s["dim"])


@rule("stack")
def _stack(x: Exporter, s: Step) -> str:
    axes = x.constant([s["dim"]], I64)
    return x.node("Concat", [x.node("Unsqueeze", [x.as_type(t, s.dtype), axes]) for t in s["tensors"]], axis=s["dim"])


@rule("split", "split_with_sizes", "chunk", "tensor_split")
def _split(x: Exporter, s: Step) -> Any:
    dim = s.get("dim", 0)
    sizes = x.sizes([shape[dim] for _, shape in s.out])
    found = x.node("Split", [x.value(s.operand), sizes], len(s.out), axis=dim)
    return found if isinstance(found, list) else [found]


@rule("unbind")
def _unbind(x: Exporter, s: Step) -> list[str]:
    v, dim = x.value(s.operand), s.get("dim", 0)
    return [x.node("Gather", [v, x.constant(i, I64)], axis=dim) for i in range(len(s.out))]


@rule("select")
def _select(x: Exporter, s: Step) -> str:
    return x.node("Gather", [x.value(s.operand), x.size(s["index"])], axis=s["dim"])


@rule("narrow")
def _narrow(x: Exporter, s: Step) -> str:
    start = x.sizes([s["start"]])
    stop = x.node("Add", [start, x.sizes([s["length"]])])
    return x.node("Slice", [x.value(s.operand), start, stop, x.constant([s["dim"]], I64)])


@rule("_index")
def _index(x: Exporter, s: Step) -> str:
    """Integers, slices, new dims and an ellipsis, encoded as numbers: a kind, then its values."""
    spec, items = list(s["spec"]), []
    while spec:
        size = {0: 2, 1: 5, 2: 1, 3: 1}[spec[0]]
        items.append(spec[:size])
        spec = spec[size:]
    taken = sum(item[0] in (0, 1) for item in items)
    v, dim, rank = x.value(s.operand), 0, x.rank(s.operand)
    shape = x.shape_of(s.operand)
    source = 0
    for item in items:
        if item[0] == 0:
            v = x.node("Gather", [v, x.size(item[1])], axis=dim)
            source += 1
        elif item[0] == 1:
            given, start, stop, step = item[1:]
            begin = start if given & 1 else 0
            end = stop if given & 2 else shape[source]
            parts = [x.sizes([begin]), x.sizes([end]), x.constant([dim], I64)]
            if given & 7:
                v = x.node("Slice", [v, *parts, x.sizes([step if given & 4 else 1])])
            dim, source = dim + 1, source + 1
        elif item[0] == 2:
            v = x.node("Unsqueeze", [v, x.constant([dim], I64)])
            dim += 1
        else:
            dim, source = dim + rank - taken, source + rank - taken
    return v


@rule("index_select")
def _index_select(x: Exporter, s: Step) -> str:
    return x.node("Gather", [x.value(s.operand), x.value(s["index"])], axis=s["dim"])


@rule("embedding")
def _embedding(x: Exporter, s: Step) -> str:
    return x.node("Gather", [x.value(s["weight"]), x.value(s["indices"])], axis=0)


@rule("gather")
def _gather(x: Exporter, s: Step) -> str:
    if 0 in s.shape:  # the index may have any shape, and any dtype
        return x.node("Expand", [x.as_type(0, s.dtype), x.sizes(s.shape)])
    index = x.as_type(s["index"], I64)
    if x.rank(s["index"]) or not x.rank(s.operand):
        return x.node("GatherElements", [x.value(s.operand), index], axis=s["dim"])
    return x.node("Gather", [x.value(s.operand), index], axis=0)


def flipped(x: Exporter, value: str, dims: list[int]) -> str:
    """Return a value with the order of some dims reversed."""
    back, end = (x.constant([n] * len(dims), I64) for n in (-1, -(1 << 62)))
    return x.node("Slice", [value, back, end, x.constant(dims, I64), back])


@rule("flip")
def _flip(x: Exporter, s: Step) -> str:
    return flipped(x, x.value(s.operand), s["dims"])


@rule("roll")
def _roll(x: Exporter, s: Step) -> str:
    v, shape, dims = x.value(s.operand), x.shape_of(s.operand), s["dims"]
    if not dims:  # of all elements in a row
        shape, dims = [math.prod(x.static(shape, "a rolled size"))], [0]
        v = x.node("Reshape", [v, x.constant([-1], I64)])
    for dim, shift in zip(dims, s["shifts"], strict=True):
        size = x.static(shape[dim], "a rolled size")[0]
        at = (size - shift) % size if size else 0
        axis = x.constant([dim], I64)
        head = x.node("Slice", [v, x.constant([at], I64), x.constant([size], I64), axis])
        v = x.node("Concat", [head, x.node("Slice", [v, x.constant([0], I64), x.constant([at], I64), axis])], axis=dim)
    return v if s["dims"] else x.node("Reshape", [v, x.sizes(s.shape)])


@rule("constant_pad_nd")
def _pad(x: Exporter, s: Step) -> str:
    pad, rank = s["pad"], x.rank(s.operand)
    before, after = [0] * rank, [0] * rank
    for k in range(len(pad) // 2):
        before[rank - 1 - k], after[rank - 1 - k] = pad[2 * k], pad[2 * k + 1]
    return x.node("Pad", [x.value(s.operand), x.sizes(before + after), x.as_type(s.get("value", 0), s.dtype)])


@rule("tril", "triu")
def _tri(x: Exporter, s: Step) -> str:
    work = s.dtype if s.dtype is not _C.bool else _C.uint8
    v = x.node("Trilu", [x.as_type(s.operand, work), x.constant(s.get("diagonal", 0), I64)], upper=int(s.op == "triu"))
    return x.cast(v, work, s.dtype)


@rule("unfold")
def _unfold(x: Exporter, s: Step) -> str:
    """Windows along a dim become a new last dim."""
    dim = s["dimension"] % x.rank(s.operand)
    count = x.static(s.shape[dim], "the number of windows")[0]
    rows = [[k * s["step"] + j for j in range(s["size"])] for k in range(count)]
    flat = x.constant([n for row in rows for n in row], I64)
    index = x.node("Reshape", [flat, x.constant([count, s["size"]], I64)])
    y = x.node("Gather", [x.value(s.operand), index], axis=dim)
    rank = x.rank(s.operand) + 1
    return x.node("Transpose", [y], perm=[d for d in range(rank) if d != dim + 1] + [dim + 1])
