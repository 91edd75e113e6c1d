"""How operators are written as ONNX's: those that take several of ONNX's, and samples and draws of classes."""

from __future__ import annotations

import itertools
import math
from typing import Any

from torchlette import _C, finfo
from torchlette._runtime.errors import NotSupportedError
from torchlette.onnx.export_layers import batched
from torchlette.onnx.export_losses import reduced
from torchlette.onnx.exporter import Exporter, Step, rule
from torchlette.onnx.terms import Term, where

F32, I64, BOOL = _C.float32, _C.int64, _C.bool


@rule("trunc", "frac")
def _trunc(x: Exporter, s: Step) -> str:
    v = x.value(s.operand)
    whole = (
        x.node("Mul", [x.node("Sign", [v]), x.node("Floor", [x.node("Abs", [v])])]) if s.dtype.is_floating_point else v
    )
    return whole if s.op == "trunc" else x.node("Sub", [v, whole])


@rule("logsigmoid")
def _logsigmoid(x: Exporter, s: Step) -> str:
    return x.node("Neg", [x.node("Softplus", [x.node("Neg", [x.as_type(s.operand, s.dtype)])])])


@rule("glu")
def _glu(x: Exporter, s: Step) -> str:
    a, b = x.node("Split", [x.value(s.operand)], 2, axis=s.get("dim", -1), num_outputs=2)
    return x.node("Mul", [a, x.node("Sigmoid", [b])])


@rule("_T", "_mT", "_H")
def _turned(x: Exporter, s: Step) -> str:
    rank = x.rank(s.operand)
    order = list(range(rank))[::-1] if s.op == "_T" else [*range(rank - 2), rank - 1, rank - 2]
    return x.node("Transpose", [x.value(s.operand)], perm=order)


@rule("eye")
def _eye(x: Exporter, s: Step) -> str:
    zeros = x.node("Expand", [x.constant(0.0, F32), x.sizes(s.shape)])
    return x.cast(x.node("EyeLike", [zeros]), F32, s.dtype)


@rule("nan_to_num")
def _nan_to_num(x: Exporter, s: Step) -> str:
    v = x.value(s.operand)
    if not s.dtype.is_floating_point:
        return v
    top = finfo(s.dtype).max
    high, low, nan = s.get("posinf"), s.get("neginf"), s.get("nan")
    for value, sign in ((top if high is None else high, 1), (-top if low is None else low, -1)):
        limit = x.constant(float("inf") * sign, s.dtype)
        v = x.node("Where", [x.node("Equal", [v, limit]), x.constant(float(value), s.dtype), v])
    return x.node("Where", [x.node("IsNaN", [v]), x.constant(float(nan or 0.0), s.dtype), v])


@rule("take_along_dim")
def _take_along(x: Exporter, s: Step) -> str:
    v, index, dim = x.value(s.operand), x.value(s["indices"]), s.get("dim")
    if dim is None:
        flat = x.constant([-1], I64)
        return x.node("GatherElements", [x.node("Reshape", [v, flat]), x.node("Reshape", [index, flat])], axis=0)
    dim %= x.rank(s.operand)
    index = x.node("Expand", [index, x.sizes(s.shape)])
    wide = [x.shape_of(s.operand)[d] if d == dim else n for d, n in enumerate(s.shape)]
    return x.node("GatherElements", [x.node("Expand", [v, x.sizes(wide)]), index], axis=dim)


@rule("argsort")
def _argsort(x: Exporter, s: Step) -> str:
    dim = s.get("dim", -1)
    count = x.sizes([x.shape_of(s.operand)[dim]])
    found = x.node("TopK", [x.value(s.operand), count], 2, axis=dim, largest=int(bool(s.get("descending"))), sorted=1)
    return str(found[1])


@rule("aminmax")
def _aminmax(x: Exporter, s: Step) -> list[str]:
    dim, keep = s.get("dim"), int(bool(s.get("keepdim", False)))
    dims = None if dim is None else x.constant([dim], I64)
    return [x.node(f"Reduce{kind}", [x.value(s.operand), dims], keepdims=keep) for kind in ("Min", "Max")]


@rule("linalg_det")
def _det(x: Exporter, s: Step) -> str:
    return x.node("Det", [x.value(s["A"])])


@rule("repeat_interleave")
def _repeat_interleave(x: Exporter, s: Step) -> str:
    v, dim, count = x.value(s.operand), s.get("dim"), s["repeats"]
    if not isinstance(count, int):
        raise NotSupportedError("onnx.export: repeat_interleave with a tensor of counts")
    shape = list(x.shape_of(s.operand))
    if dim is None:
        v, shape, dim = x.node("Reshape", [v, x.constant([-1], I64)]), [-1], 0
    dim %= len(shape)
    wide = x.node("Unsqueeze", [v, x.constant([dim + 1], I64)])
    times = [1] * (len(shape) + 1)
    times[dim + 1] = count
    return x.node("Reshape", [x.node("Tile", [wide, x.constant(times, I64)]), x.sizes(s.shape)])


@rule("one_hot")
def _one_hot(x: Exporter, s: Step) -> str:
    return x.node("OneHot", [x.value(s.operand), x.sizes([s.shape[-1]]), x.constant([0, 1], I64)], axis=-1)


@rule("nll_loss")
def _nll_loss(x: Exporter, s: Step) -> str:
    inputs = [x.value(s["input"]), x.value(s["target"]), None if s.get("weight") is None else x.value(s["weight"])]
    options = {"ignore_index": s.get("ignore_index", -100), "reduction": s.get("reduction", "mean")}
    return x.node("NegativeLogLikelihoodLoss", inputs, **options)


def _length(x: Exporter, s: Step, d: Term, keepdim: bool = False) -> str:
    """Return the norm of order ``p`` along the last dim."""
    p, keep = float(s.get("p", 2)), int(keepdim)
    if p in (1, 2):
        return d.ints(f"ReduceL{int(p)}", [-1], keepdims=keep).name
    if p == 0:
        return (~(d == 0.0)).to(d.dtype).ints("ReduceSum", [-1], keepdims=keep).name
    if math.isinf(p):
        return abs(d).ints("ReduceMax" if p > 0 else "ReduceMin", [-1], keepdims=keep).name
    return ((abs(d) ** p).ints("ReduceSum", [-1], keepdims=keep) ** (1 / p)).name


@rule("cdist")
def _cdist(x: Exporter, s: Step) -> str:
    a, b = (Term.of(x, s[n], s.dtype).ints("Unsqueeze", [d]) for n, d in (("x1", -2), ("x2", -3)))
    return _length(x, s, a - b)


@rule("pdist")
def _pdist(x: Exporter, s: Step) -> str:
    (count,) = x.static(x.shape_of(s.operand)[0], "the number of rows of pdist")
    pairs = list(itertools.combinations(range(count), 2))
    rows = [x.node("Gather", [x.value(s.operand), x.constant([pair[k] for pair in pairs], I64)]) for k in (0, 1)]
    return _length(x, s, Term(x, rows[0], s.dtype) - Term(x, rows[1], s.dtype))


@rule("grid_sample")
def _grid_sample(x: Exporter, s: Step) -> str:
    mode = s.get("mode", "bilinear")
    options: dict[str, Any] = {"mode": {"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode)}
    options |= {"padding_mode": s.get("padding_mode", "zeros"), "align_corners": int(bool(s.get("align_corners")))}
    return x.node("GridSample", [x.value(s["input"]), x.value(s["grid"])], **options)


@rule("adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d")
def _adaptive_max(x: Exporter, s: Step) -> list[str]:
    dims = int(s.op[-2])
    have = x.static(x.shape_of(s.operand)[-dims:], s.op)
    want = x.static(s.shape[-dims:], s.op)
    if any(n % m for n, m in zip(have, want, strict=True)):
        return _unequal_max(x, s, have, want)
    kernel = [n // m for n, m in zip(have, want, strict=True)]
    found: list[str] = batched(x, s, dims, "MaxPool", outputs=2, kernel_shape=kernel, strides=kernel)
    # ONNX counts places from the first element of all, ours from the first of the channel.
    inner = x.constant(math.prod(have), I64)
    return [found[0], x.node("Mod", [found[1], inner])]


def _unequal_max(x: Exporter, s: Step, have: list[int], want: list[int]) -> list[str]:
    """Return the greatest elements of windows of unequal sizes, and their places; short windows repeat the last one."""
    each = []
    for n, m in zip(have, want, strict=True):
        spans = [(k * n // m, -(-(k + 1) * n // m)) for k in range(m)]
        longest = max(end - first for first, end in spans)
        each.append([[min(first + k, end - 1) for k in range(longest)] for first, end in spans])
    places = []
    for cell in itertools.product(*each):
        places += [sum(p * math.prod(have[d + 1 :]) for d, p in enumerate(point)) for point in itertools.product(*cell)]
    outer = s.shape[: len(s.shape) - len(have)]
    flat = x.node("Reshape", [x.value(s.operand), x.sizes([*outer, math.prod(have)])])
    shape = [*outer, *want, len(places) // math.prod(want)]
    index = x.constant(places, I64)
    windows = x.node("Reshape", [x.node("Gather", [flat, index], axis=-1), x.sizes(shape)])
    best = x.node("ArgMax", [windows], axis=-1, keepdims=1)
    table = x.node("Expand", [x.node("Reshape", [index, x.sizes(shape[len(outer) :])]), x.sizes(shape)])
    last = x.constant([-1], I64)
    found = [x.node("Squeeze", [x.node("GatherElements", [v, best], axis=-1), last]) for v in (windows, table)]
    return found


@rule("softshrink", "hardshrink")
def _shrink(x: Exporter, s: Step) -> str:
    width = float(s.get("lambd", 0.5))
    return x.node("Shrink", [x.value(s.operand)], lambd=width, bias=width if s.op == "softshrink" else 0.0)


@rule("threshold")
def _threshold(x: Exporter, s: Step) -> str:
    v = x.value(s.operand)
    above = x.node("Greater", [v, x.as_type(s["threshold"], s.dtype)])
    return x.node("Where", [above, v, x.as_type(s["value"], s.dtype)])


@rule("isfinite")
def _isfinite(x: Exporter, s: Step) -> str:
    v = x.value(s.operand)
    if not x.type_of(s.operand).is_floating_point:
        return x.node("Expand", [x.constant(True, BOOL), x.sizes(s.shape)])
    return x.node("Not", [x.node("Or", [x.node("IsNaN", [v]), x.node("IsInf", [v])])])


@rule("bitwise_left_shift", "bitwise_right_shift")
def _shift(x: Exporter, s: Step) -> str:
    """Products with, and rounded quotients by powers of two: ONNX shifts integers without a sign only."""
    a, power = x.as_type(s.operand, s.dtype), x.node("Pow", [x.constant(2, s.dtype), x.as_type(s["other"], s.dtype)])
    if s.op == "bitwise_left_shift":
        return x.node("Mul", [a, power])
    return x.node("Div", [x.node("Sub", [a, x.node("Mod", [a, power])]), power])


@rule("atan2")
def _atan2(x: Exporter, s: Step) -> str:
    a, b = x.as_type(s.operand, s.dtype), x.as_type(s["other"], s.dtype)
    zero = x.constant(0.0, s.dtype)
    half = x.node("Where", [x.node("Less", [a, zero]), x.constant(-math.pi, s.dtype), x.constant(math.pi, s.dtype)])
    turned = x.node("Where", [x.node("Less", [b, zero]), half, zero])
    upright = x.node("Mul", [x.node("Sign", [a]), x.constant(math.pi / 2, s.dtype)])
    angle = x.node("Where", [x.node("Equal", [b, zero]), upright, x.node("Atan", [x.node("Div", [a, b])])])
    return x.node("Add", [angle, turned])


@rule("linspace")
def _linspace(x: Exporter, s: Step) -> str:
    (count,) = x.static(s.shape, "linspace")
    low, high = float(s["start"]), float(s["end"])
    step = (high - low) / max(count - 1, 1)
    # From both ends, as the operator does: the last number is the end.
    values = [low + k * step if k < (count + 1) // 2 else high - (count - 1 - k) * step for k in range(count)]
    return x.constant(values, s.dtype)


@rule("affine_grid_generator")
def _affine_grid(x: Exporter, s: Step) -> str:
    return x.node("AffineGrid", [x.value(s["theta"]), x.sizes(s["size"])], align_corners=int(s["align_corners"]))


@rule("smooth_l1_loss", "huber_loss")
def _huber(x: Exporter, s: Step) -> str:
    width = float(s.get("beta", s.get("delta", 1.0)))
    d = x.node("Abs", [x.node("Sub", [x.value(s["input"]), x.value(s["target"])])])
    inner = x.node("Min", [d, x.constant(width, s.dtype)])
    # inner (d - inner / 2): half the square within the width, a line outside.
    y = x.node("Mul", [inner, x.node("Sub", [d, x.node("Mul", [inner, x.constant(0.5, s.dtype)])])])
    if s.op == "smooth_l1_loss":
        y = d if width == 0 else x.node("Div", [y, x.constant(width, s.dtype)])
    return reduced(x, s, y)


@rule("kl_div")
def _kl_div(x: Exporter, s: Step) -> str:
    v, target = x.value(s["input"]), x.value(s["target"])
    if s.get("log_target"):
        return reduced(x, s, x.node("Mul", [x.node("Exp", [target]), x.node("Sub", [target, v])]))
    y = x.node("Mul", [target, x.node("Sub", [x.node("Log", [target]), v])])
    zero = x.constant(0.0, s.dtype)
    return reduced(x, s, x.node("Where", [x.node("Equal", [target, zero]), zero, y]))


@rule("cosine_similarity")
def _cosine(x: Exporter, s: Step) -> str:
    a, b, dim = x.value(s["x1"]), x.value(s["x2"]), x.constant([s.get("dim", 1)], I64)
    least = x.constant(float(s.get("eps", 1e-8)), s.dtype)
    lengths = [x.node("Max", [x.node("ReduceL2", [v, dim], keepdims=0), least]) for v in (a, b)]
    return x.node("Div", [x.node("ReduceSum", [x.node("Mul", [a, b]), dim], keepdims=0), x.node("Mul", lengths)])


@rule("pairwise_distance")
def _pairwise(x: Exporter, s: Step) -> str:
    a, b = (Term.of(x, s[n], s.dtype) for n in ("x1", "x2"))
    return _length(x, s, a - b + float(s["eps"]), bool(s.get("keepdim", False)))


@rule("_repeat_interleave")
def _repeat_rows(x: Exporter, s: Step) -> str:
    """Row number n of the result is the row whose copies end behind it."""
    dim = s["dim"] % x.rank(s.operand)
    ends = x.node("CumSum", [x.as_type(s["repeats"], I64), x.constant(0, I64)])
    places = Term(x, x.node("Range", [x.constant(0, I64), x.size(s.shape[dim]), x.constant(1, I64)]), I64)
    passed = (Term(x, ends, I64) <= places.ints("Unsqueeze", [-1])).to(I64).ints("ReduceSum", [-1], keepdims=0)
    return str(x.node("Gather", [x.value(s.operand), passed.name], axis=dim))


@rule("_block_diag")
def _block_diag(x: Exporter, s: Step) -> str:
    """Zeros stand to the left and to the right of each matrix."""
    rows, left = [], 0
    for t in s["tensors"]:
        shape = x.static(x.shape_of(t), "a block of a matrix")
        height, width = [1] * (2 - len(shape)) + shape
        v = x.node("Reshape", [x.as_type(t, s.dtype), x.constant([height, width], I64)])
        pads = x.constant([0, left, 0, s.shape[1] - left - width], I64)
        rows.append(x.node("Pad", [v, pads, x.as_type(0, s.dtype)]))
        left += width
    return str(x.node("Concat", rows, axis=0))


@rule("isreal")
def _isreal(x: Exporter, s: Step) -> str:
    return str(x.node("Expand", [x.constant(True, BOOL), x.sizes(s.shape)]))


@rule("logspace")
def _logspace(x: Exporter, s: Step) -> str:
    (count,) = x.static(s.shape, "logspace")
    low, high, base = float(s["start"]), float(s["end"]), float(s.get("base", 10.0))
    step = (high - low) / max(count - 1, 1)
    places = [low + k * step if k < (count + 1) // 2 else high - (count - 1 - k) * step for k in range(count)]
    return str(x.cast(x.constant([math.pow(base, p) for p in places], _C.float64), _C.float64, s.dtype))


@rule("renorm")
def _renorm(x: Exporter, s: Step) -> str:
    rank, most, p = x.rank(s.operand), float(s["maxnorm"]), float(s["p"])
    v = Term.of(x, s.operand, s.dtype)
    axes = [d for d in range(rank) if d != s["dim"] % rank]
    if p in (1, 2):
        size = v.ints(f"ReduceL{int(p)}", axes, keepdims=1)
    elif math.isinf(p):
        size = abs(v).ints("ReduceMax", axes, keepdims=1)
    else:
        size = (abs(v) ** p).ints("ReduceSum", axes, keepdims=1) ** (1 / p)
    return (v * where(size > most, most / (size + 1e-7), 1.0)).name
