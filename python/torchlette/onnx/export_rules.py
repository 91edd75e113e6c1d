"""How operators are written as ONNX's: elements, reductions, sizes."""

from __future__ import annotations

import math
from typing import Any

from torchlette import _C
from torchlette._runtime.errors import NotSupportedError
from torchlette.onnx import export_layers, export_others  # noqa: F401
from torchlette.onnx.exporter import Exporter, Step, rule

F32, I64, BOOL = _C.float32, _C.int64, _C.bool

_UNARY = {
    "abs": "Abs",
    "acos": "Acos",
    "acosh": "Acosh",
    "asin": "Asin",
    "asinh": "Asinh",
    "atan": "Atan",
    "atanh": "Atanh",
    "bitwise_not": "BitwiseNot",
    "ceil": "Ceil",
    "cos": "Cos",
    "cosh": "Cosh",
    "erf": "Erf",
    "exp": "Exp",
    "floor": "Floor",
    "hardswish": "HardSwish",
    "log": "Log",
    "mish": "Mish",
    "neg": "Neg",
    "reciprocal": "Reciprocal",
    "relu": "Relu",
    "round": "Round",
    "sigmoid": "Sigmoid",
    "sign": "Sign",
    "sin": "Sin",
    "sinh": "Sinh",
    "softsign": "Softsign",
    "sqrt": "Sqrt",
    "tan": "Tan",
    "tanh": "Tanh",
}


@rule(*_UNARY)
def _unary(x: Exporter, s: Step) -> str:
    kind = _UNARY[s.op.partition(".")[0].removesuffix("_")]
    if kind == "BitwiseNot" and s.dtype is BOOL:
        kind = "Not"
    v = x.as_type(s.operand, s.dtype)
    if s.dtype.is_floating_point or kind not in ("Ceil", "Floor", "Round", "Relu"):
        return x.node(kind, [v])
    return x.node("Max", [v, x.constant(0, s.dtype)]) if kind == "Relu" else v


@rule("isnan", "isinf", "logical_not")
def _tests(x: Exporter, s: Step) -> str:
    if s.op != "logical_not" and not x.type_of(s.operand).is_floating_point:
        return x.node("Expand", [x.constant(False, BOOL), x.sizes(s.shape)])
    kind = {"isnan": "IsNaN", "isinf": "IsInf", "logical_not": "Not"}[s.op]
    return x.node(kind, [x.as_type(s.operand, BOOL if kind == "Not" else x.type_of(s.operand))])


@rule("rsqrt")
def _rsqrt(x: Exporter, s: Step) -> str:
    return x.node("Reciprocal", [x.node("Sqrt", [x.as_type(s.operand, s.dtype)])])


@rule("square")
def _square(x: Exporter, s: Step) -> str:
    v = x.value(s.operand)
    return x.node("Mul", [v, v])


@rule("log2", "log10", "log1p", "expm1", "exp2")
def _logs(x: Exporter, s: Step) -> str:
    v = x.as_type(s.operand, s.dtype)

    def number(value: float) -> str:
        return x.constant(value, s.dtype)

    if s.op == "log1p":
        return x.node("Log", [x.node("Add", [v, number(1.0)])])
    if s.op == "expm1":
        return x.node("Sub", [x.node("Exp", [v]), number(1.0)])
    if s.op == "exp2":
        return x.node("Exp", [x.node("Mul", [v, number(math.log(2))])])
    return x.node("Mul", [x.node("Log", [v]), number(1 / math.log(2 if s.op == "log2" else 10))])


@rule("silu")
def _silu(x: Exporter, s: Step) -> str:
    v = x.value(s.operand)
    return x.node("Mul", [v, x.node("Sigmoid", [v])])


@rule("gelu")
def _gelu(x: Exporter, s: Step) -> str:
    return x.node("Gelu", [x.value(s.operand)], approximate=s["approximate"])


@rule("elu", "celu", "leaky_relu")
def _alphas(x: Exporter, s: Step) -> str:
    kind = {"elu": "Elu", "celu": "Celu", "leaky_relu": "LeakyRelu"}[s.op]
    if s.op == "elu" and (s.get("scale", 1) != 1 or s.get("input_scale", 1) != 1):
        raise NotSupportedError("onnx.export: elu with scales")
    return x.node(kind, [x.value(s.operand)], alpha=float(s.get("alpha", s.get("negative_slope", 0.01))))


@rule("selu")
def _selu(x: Exporter, s: Step) -> str:
    return x.node("Selu", [x.value(s.operand)])


@rule("softplus")
def _softplus(x: Exporter, s: Step) -> str:
    beta, limit = float(s.get("beta", 1)), float(s.get("threshold", 20))
    v = x.value(s.operand)
    scaled = v if beta == 1 else x.node("Mul", [v, x.constant(beta, s.dtype)])
    y = x.node("Softplus", [scaled])
    y = y if beta == 1 else x.node("Div", [y, x.constant(beta, s.dtype)])
    return x.node("Where", [x.node("Greater", [scaled, x.constant(limit, s.dtype)]), v, y])


@rule("prelu")
def _prelu(x: Exporter, s: Step) -> str:
    slope, rank = x.value(s["weight"]), x.rank(s.operand)
    if rank != 2:
        slope = x.node("Reshape", [slope, x.constant([-1] * min(rank, 1) + [1] * (rank - 2), I64)])
    return x.node("PRelu", [x.value(s.operand), slope])


@rule("hardtanh", "clamp", "clamp_min", "clamp_max", "clip", "relu6")
def _clamp(x: Exporter, s: Step) -> str:
    low, high = (s.get(n) for n in (("min_val", "max_val") if s.op == "hardtanh" else ("min", "max")))
    if s.op == "relu6":
        low, high = 0, 6
    v = x.as_type(s.operand, s.dtype)
    if low is not None:
        v = x.node("Max", [v, x.as_type(low, s.dtype)])
    return v if high is None else x.node("Min", [v, x.as_type(high, s.dtype)])


@rule("hardsigmoid")
def _hardsigmoid(x: Exporter, s: Step) -> str:
    return x.node("HardSigmoid", [x.value(s.operand)], alpha=1 / 6, beta=0.5)


_BINARY = {"mul": "Mul", "maximum": "Max", "minimum": "Min", "pow": "Pow", "add": "Add", "sub": "Sub", "div": "Div"}


@rule(*_BINARY, "true_divide", "floor_divide", "rsub")
def _binary(x: Exporter, s: Step) -> str:
    base = s.op.partition(".")[0].removesuffix("_")
    mode = "floor" if base == "floor_divide" else s.get("rounding_mode")
    a = x.as_type(s.get("self", s.get("input")), s.dtype)
    other = s.get("other", s.get("exponent"))
    b = x.as_type(other, s.dtype)
    if base in ("add", "sub", "rsub") and s.get("alpha", 1) != 1:
        if base == "rsub":
            a = x.node("Mul", [a, x.as_type(s["alpha"], s.dtype)])
        else:
            b = x.node("Mul", [b, x.as_type(s["alpha"], s.dtype)])
    if base == "rsub":
        return x.node("Sub", [b, a])
    if mode is None:
        return x.node(_BINARY.get(base, "Div"), [a, b])
    if s.dtype.is_floating_point:
        quotient = x.node("Div", [a, b])
        if mode == "floor":
            return x.node("Floor", [quotient])
        return x.node("Mul", [x.node("Sign", [quotient]), x.node("Floor", [x.node("Abs", [quotient])])])
    if mode == "floor":
        a = x.node("Sub", [a, x.node("Mod", [a, b])])
    return x.node("Div", [a, b])


@rule("remainder", "fmod")
def _remainder(x: Exporter, s: Step) -> str:
    a, b = x.as_type(s.operand, s.dtype), x.as_type(s["other"], s.dtype)
    if s.op == "fmod" or not s.dtype.is_floating_point:
        return x.node("Mod", [a, b], fmod=int(s.op.startswith("fmod")))
    return x.node("Sub", [a, x.node("Mul", [b, x.node("Floor", [x.node("Div", [a, b])])])])


_COMPARISONS = {
    "eq": "Equal",
    "lt": "Less",
    "le": "LessOrEqual",
    "gt": "Greater",
    "ge": "GreaterOrEqual",
    "ne": "Equal",
}


def _common(x: Exporter, a: Any, b: Any) -> _C.dtype:
    """Return the dtype in which two operands are compared: a number takes the tensor's kind."""
    if x.number_of(b) is not None:
        if x.number_of(a) is None:
            return _common(x, b, a)
        left, right = x.type_of(a), x.type_of(b)
        if (x.rank(a) == 0) != (x.rank(b) == 0) and left.is_floating_point == right.is_floating_point:
            return right if x.rank(a) == 0 else left
        return _C.promote_types(left, right) if hasattr(_C, "promote_types") else _promoted(left, right)
    have = x.type_of(a)
    is_float = x.type_of(b).is_floating_point
    return F32 if is_float and not have.is_floating_point else I64 if have is BOOL and not isinstance(b, bool) else have


def _promoted(a: _C.dtype, b: _C.dtype) -> _C.dtype:
    import torchlette

    return torchlette.promote_types(a, b)


@rule(*_COMPARISONS)
def _compare(x: Exporter, s: Step) -> str:
    base = s.op.partition(".")[0]
    dtype = _common(x, s.operand, s["other"])
    y = x.node(_COMPARISONS[base], [x.as_type(s.operand, dtype), x.as_type(s["other"], dtype)])
    return x.node("Not", [y]) if base == "ne" else y


@rule("logical_and", "logical_or", "logical_xor", "bitwise_and", "bitwise_or", "bitwise_xor")
def _logical(x: Exporter, s: Step) -> str:
    kind, _, word = s.op.partition(".")[0].partition("_")
    logical = kind == "logical" or s.dtype is BOOL
    dtype = BOOL if logical else s.dtype
    return x.node(
        ("" if logical else "Bitwise") + word.title(), [x.as_type(s.operand, dtype), x.as_type(s["other"], dtype)]
    )


@rule("where")
def _where(x: Exporter, s: Step) -> str:
    parts = [x.as_type(s["condition"], BOOL), x.as_type(s["self"], s.dtype), x.as_type(s["other"], s.dtype)]
    return x.node("Where", parts)


@rule("masked_fill")
def _masked_fill(x: Exporter, s: Step) -> str:
    return x.node("Where", [x.as_type(s["mask"], BOOL), x.as_type(s["value"], s.dtype), x.value(s.operand)])


@rule("clone", "detach", "contiguous", "alias", "dropout", "alpha_dropout")
def _same(x: Exporter, s: Step) -> str:
    if s.get("train", False) and s.get("p", 0) != 0:
        raise NotSupportedError("onnx.export: dropout in training mode: export the module in evaluation mode")
    return x.value(s.operand)


@rule("_to_dtype", "float", "bool", "long", "int", "half", "double", "bfloat16", "cfloat", "cdouble")
def _to_dtype(x: Exporter, s: Step) -> str:
    return x.as_type(s.operand, s.dtype)


@rule("copy_", "fill_", "zero_", "_setitem_")
def _filled(x: Exporter, s: Step) -> str:
    given = s.get("src", s.get("value", 0))
    return x.node("Expand", [x.as_type(given, s.dtype), x.sizes(s.shape)])


# Reductions --------------------------------------------------------------------------------

_REDUCTIONS = {"sum": "ReduceSum", "mean": "ReduceMean", "amax": "ReduceMax", "amin": "ReduceMin", "prod": "ReduceProd"}
_REDUCTIONS |= {"logsumexp": "ReduceLogSumExp", "all": "ReduceMin", "any": "ReduceMax"}


def _dims(x: Exporter, s: Step) -> str | None:
    dims = s.get("dim")
    if dims is None or dims == []:
        return None
    return x.constant(dims if isinstance(dims, list) else [dims], I64)


@rule(*_REDUCTIONS)
def _reduce(x: Exporter, s: Step) -> str:
    base = s.op.partition(".")[0]
    work = I64 if s.dtype is BOOL else s.dtype
    v = x.as_type(s.operand, work if s.dtype is not BOOL else BOOL)
    v = x.cast(v, BOOL, I64) if s.dtype is BOOL else v
    if x.rank(s.operand) == 0:
        return x.cast(v, work, s.dtype)
    y = x.node(_REDUCTIONS[base], [v, _dims(x, s)], keepdims=int(bool(s.get("keepdim", False))))
    return x.cast(y, work, s.dtype)


@rule("argmax", "argmin")
def _arg(x: Exporter, s: Step) -> str:
    v, dim = x.value(s.operand), s.get("dim")
    if dim is None:
        v, dim = x.node("Reshape", [v, x.constant([-1], I64)]), 0
        return x.node(s.op.title().replace("m", "M"), [v], axis=dim, keepdims=0)
    return x.node({"argmax": "ArgMax", "argmin": "ArgMin"}[s.op], [v], axis=dim, keepdims=int(bool(s.get("keepdim"))))


@rule("max", "min")
def _extremum(x: Exporter, s: Step) -> Any:
    kind = "Max" if s.op.startswith("max") else "Min"
    v = x.value(s.operand)
    if len(s.out) == 1:
        return x.node(f"Reduce{kind}", [v, None], keepdims=0)
    keep = int(bool(s.get("keepdim", False)))
    dim = s["dim"]
    places = x.node(f"Arg{kind}", [v], axis=dim, keepdims=keep)
    return [x.node(f"Reduce{kind}", [v, x.constant([dim], I64)], keepdims=keep), places]


@rule("var", "std", "var_mean", "std_mean")
def _var(x: Exporter, s: Step) -> Any:
    v, dims, rank = x.value(s.operand), s.get("dim"), x.rank(s.operand)
    axes = list(range(rank)) if dims in (None, []) else [d % rank for d in (dims if isinstance(dims, list) else [dims])]
    names = x.constant(axes, I64)
    center = x.node("Sub", [v, x.node("ReduceMean", [v, names], keepdims=1)])
    keep = int(bool(s.get("keepdim", False)))
    total = x.node("ReduceSum", [x.node("Mul", [center, center]), names], keepdims=keep)
    correction = s.get("correction", int(bool(s.get("unbiased", True))))
    count: str | None = None
    for d in axes:
        size = x.size(x.shape_of(s.operand)[d])
        count = size if count is None else x.node("Mul", [count, size])
    assert count is not None
    less = x.node("Sub", [x.cast(count, I64, s.dtype), x.constant(float(correction), s.dtype)])
    y = x.node("Div", [total, x.node("Max", [less, x.constant(0.0, s.dtype)])])
    y = x.node("Sqrt", [y]) if s.op.startswith("std") else y
    if len(s.out) == 1:
        return y
    return [y, x.node("ReduceMean", [v, names], keepdims=keep)]


@rule("cumsum")
def _cumsum(x: Exporter, s: Step) -> str:
    return x.node("CumSum", [x.as_type(s.operand, s.dtype), x.constant(s["dim"], I64)])


@rule("topk")
def _topk(x: Exporter, s: Step) -> Any:
    count = x.sizes([s["k"]])
    return x.node("TopK", [x.value(s.operand), count], 2, axis=s["dim"], largest=int(s["largest"]), sorted=1)


@rule("sort")
def _sort(x: Exporter, s: Step) -> Any:
    count = x.sizes([x.shape_of(s.operand)[s["dim"]]])
    return x.node("TopK", [x.value(s.operand), count], 2, axis=s["dim"], largest=int(bool(s["descending"])), sorted=1)


@rule("softmax", "log_softmax")
def _softmax(x: Exporter, s: Step) -> str:
    kind = "Softmax" if s.op == "softmax" else "LogSoftmax"
    return x.node(kind, [x.as_type(s.operand, s.dtype)], axis=s["dim"])


@rule(
    "promoted_zeros",
    "zeros",
    "ones",
    "full",
    "fill",
    "empty",
    "new_zeros",
    "new_ones",
    "new_full",
    "new_empty",
    "zeros_like",
)
@rule("ones_like", "full_like", "empty_like")
def _full(x: Exporter, s: Step) -> str:
    base = s.op.partition(".")[0]
    fill = 1 if "ones" in base else s.get("fill_value", s.get("value", 0))
    return x.node("Expand", [x.as_type(fill, s.dtype), x.sizes(s.shape)])


@rule("arange")
def _arange(x: Exporter, s: Step) -> str:
    """Write start + step * (0, 1, ...): ONNX's own count of a range is rounded otherwise."""
    work = s.dtype if s.dtype in (F32, _C.float64) else F32 if s.dtype.is_floating_point else I64
    start, step = s.get("start", 0), s.get("step", 1)
    v = x.cast(x.node("Range", [x.constant(0, I64), x.size(s.shape[0]), x.constant(1, I64)]), I64, work)
    v = v if step == 1 else x.node("Mul", [v, x.as_type(step, work)])
    v = v if start == 0 else x.node("Add", [v, x.as_type(start, work)])
    return x.cast(v, work, s.dtype)
