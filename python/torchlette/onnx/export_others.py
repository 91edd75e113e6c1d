"""How operators are written as ONNX's: those that take several of ONNX's, and samples and draws of classes."""

from __future__ import annotations

import itertools
import math
from typing import Any

from torchlette import _C, finfo
from torchlette._runtime.errors import NotSupportedError
from torchlette.onnx.exporter import Exporter, Step, rule

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


@rule("_T", "_mT")
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


@rule("cdist")
def _cdist(x: Exporter, s: Step) -> str:
    p = s.get("p", 2)
    if p not in (1, 2):
        raise NotSupportedError(f"onnx.export: cdist with p={p}")
    a = x.node("Unsqueeze", [x.value(s["x1"]), x.constant([-2], I64)])
    b = x.node("Unsqueeze", [x.value(s["x2"]), x.constant([-3], I64)])
    return x.node(f"ReduceL{int(p)}", [x.node("Sub", [a, b]), x.constant([-1], I64)], keepdims=0)


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
    found: list[str] = x.node("MaxPool", [x.value(s.operand)], 2, kernel_shape=kernel, strides=kernel)
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


def _reduced(x: Exporter, s: Step, y: str) -> str:
    kind = {"none": None, "mean": "ReduceMean", "sum": "ReduceSum"}[s.get("reduction", "mean")]
    return y if kind is None else str(x.node(kind, [y, None], keepdims=0))


@rule("smooth_l1_loss", "huber_loss")
def _huber(x: Exporter, s: Step) -> str:
    width = float(s.get("beta", s.get("delta", 1.0)))
    d = x.node("Abs", [x.node("Sub", [x.value(s["input"]), x.value(s["target"])])])
    inner = x.node("Min", [d, x.constant(width, s.dtype)])
    # inner (d - inner / 2): half the square within the width, a line outside.
    y = x.node("Mul", [inner, x.node("Sub", [d, x.node("Mul", [inner, x.constant(0.5, s.dtype)])])])
    if s.op == "smooth_l1_loss":
        y = d if width == 0 else x.node("Div", [y, x.constant(width, s.dtype)])
    return _reduced(x, s, y)


@rule("binary_cross_entropy_with_logits")
def _logits(x: Exporter, s: Step) -> str:
    if s.get("weight") is not None or s.get("pos_weight") is not None:
        raise NotSupportedError("onnx.export: binary_cross_entropy_with_logits with weights")
    v, target = x.value(s["input"]), x.value(s["target"])
    # softplus(v) - v target, where softplus has no overflow.
    rest = x.node("Softplus", [x.node("Neg", [x.node("Abs", [v])])])
    plus = x.node("Add", [x.node("Relu", [v]), rest])
    return _reduced(x, s, x.node("Sub", [plus, x.node("Mul", [v, target])]))


@rule("kl_div")
def _kl_div(x: Exporter, s: Step) -> str:
    v, target = x.value(s["input"]), x.value(s["target"])
    if s.get("log_target"):
        return _reduced(x, s, x.node("Mul", [x.node("Exp", [target]), x.node("Sub", [target, v])]))
    y = x.node("Mul", [target, x.node("Sub", [x.node("Log", [target]), v])])
    zero = x.constant(0.0, s.dtype)
    return _reduced(x, s, x.node("Where", [x.node("Equal", [target, zero]), zero, y]))


@rule("cosine_similarity")
def _cosine(x: Exporter, s: Step) -> str:
    a, b, dim = x.value(s["x1"]), x.value(s["x2"]), x.constant([s.get("dim", 1)], I64)
    least = x.constant(float(s.get("eps", 1e-8)), s.dtype)
    lengths = [x.node("Max", [x.node("ReduceL2", [v, dim], keepdims=0), least]) for v in (a, b)]
    return x.node("Div", [x.node("ReduceSum", [x.node("Mul", [a, b]), dim], keepdims=0), x.node("Mul", lengths)])


@rule("pairwise_distance")
def _pairwise(x: Exporter, s: Step) -> str:
    p = s.get("p", 2)
    if p not in (1, 2):
        raise NotSupportedError(f"onnx.export: pairwise_distance with p={p}")
    d = x.node("Add", [x.node("Sub", [x.value(s["x1"]), x.value(s["x2"])]), x.constant(float(s["eps"]), s.dtype)])
    return x.node(f"ReduceL{int(p)}", [d, x.constant([-1], I64)], keepdims=int(bool(s.get("keepdim", False))))
