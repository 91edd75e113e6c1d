"""How operators that are formulas of others are written: of elements, of sums, of places in a result."""

from __future__ import annotations

import math
from typing import Any

from torchlette import _C, iinfo
from torchlette._runtime.errors import NotSupportedError
from torchlette.onnx.export_functions import scanned
from torchlette.onnx.exporter import Exporter, Step, rule
from torchlette.onnx.terms import Term, where

I64, BOOL = _C.int64, _C.bool


def _both(x: Exporter, s: Step, dtype: _C.dtype | None = None) -> tuple[Term, Term]:
    dtype = s.dtype if dtype is None else dtype
    return Term.of(x, s.operand, dtype), Term.of(x, s.get("other", s.get("exponent")), dtype)


def _negative(v: Term) -> Term:
    """Return which numbers have a minus, also zeros."""
    return (v < 0.0) | ((1.0 / v < 0.0) & (v == 0.0))


# Elements ----------------------------------------------------------------------------------


@rule("max.other", "min.other", "fmax", "fmin")
def _larger(x: Exporter, s: Step) -> str:
    a, b = _both(x, s)
    found = a.call("Max" if "max" in s.op else "Min", b)
    if s.op[0] == "f" and s.dtype.is_floating_point:
        found = where(a.call("IsNaN", dtype=BOOL), b, where(b.call("IsNaN", dtype=BOOL), a, found))
    return found.name


@rule("round.decimals")
def _rounded(x: Exporter, s: Step) -> str:
    factor = 10.0 ** abs(s["decimals"])
    v = Term.of(x, s.operand, s.dtype)
    if s["decimals"] < 0:
        return ((v / factor).call("Round") * factor).name
    return ((v * factor).call("Round") / factor).name


@rule("addcmul", "addcdiv")
def _products(x: Exporter, s: Step) -> str:
    v, a, b = (Term.of(x, s[n], s.dtype) for n in ("self", "tensor1", "tensor2"))
    value = s.get("value", 1)
    a = a if value == 1 else a * Term.of(x, value, s.dtype)
    return (v + (a * b if s.op == "addcmul" else a / b)).name


@rule("lerp")
def _lerp(x: Exporter, s: Step) -> str:
    a, b, weight = (Term.of(x, s[n], s.dtype) for n in ("self", "end", "weight"))
    return where(abs(weight) < 0.5, a + weight * (b - a), b - (b - a) * (1.0 - weight)).name


@rule("logaddexp", "logaddexp2")
def _logaddexp(x: Exporter, s: Step) -> str:
    return _log_of_sum(*_both(x, s), scale=math.log(2) if s.op == "logaddexp2" else 1.0).name


def _log_of_sum(a: Term, b: Term, scale: float = 1.0) -> Term:
    """Return log(exp(a) + exp(b)) where no exponential overflows; the base is e ** scale."""
    rest = (((-abs(a - b)) * scale).call("Exp") + 1.0).call("Log") * (1 / scale)
    return where((a == b) & a.call("IsInf", dtype=BOOL), a, a.call("Max", b) + rest)


@rule("xlogy", "special_xlog1py")
def _xlogy(x: Exporter, s: Step) -> str:
    a, b = _both(x, s)
    b = b if s.op == "xlogy" else b + 1.0
    found = where(a == 0.0, 0.0, a * b.call("Log"))
    return where(b.call("IsNaN", dtype=BOOL), b, found).name


@rule("hypot")
def _hypot(x: Exporter, s: Step) -> str:
    a, b = (abs(v) for v in _both(x, s))
    most, least = a.call("Max", b), a.call("Min", b)
    ratio = least / where(most == 0.0, 1.0, most)
    return where(most.call("IsInf", dtype=BOOL), math.inf, most * (ratio * ratio + 1.0).call("Sqrt")).name


@rule("signbit", "copysign")
def _signs(x: Exporter, s: Step) -> str:
    if s.op == "copysign":
        a, b = _both(x, s)
        return where(_negative(b), -abs(a), abs(a)).name
    v = Term.of(x, s.operand, x.type_of(s.operand))
    if v.dtype is BOOL:
        return (~(v | ~v)).name
    return (_negative(v) if v.dtype.is_floating_point else v < 0).name


@rule("heaviside")
def _heaviside(x: Exporter, s: Step) -> str:
    a = Term.of(x, s.operand, s.dtype)
    b = Term.of(x, s.get("values", s.get("other")), s.dtype)
    one = Term(x, x.constant(1, s.dtype), s.dtype)
    return where(a == 0, b, where(a < 0, 0, one)).name


@rule("float_power")
def _float_power(x: Exporter, s: Step) -> str:
    a, b = _both(x, s)
    return (a**b).name


@rule("isclose")
def _isclose(x: Exporter, s: Step) -> str:
    left, right = x.type_of(s["self"]), x.type_of(s["other"])
    dtype = left if left.is_floating_point else right if right.is_floating_point else _C.float64
    a, b = _both(x, s, dtype)
    near = abs(a - b) <= abs(b) * float(s["rtol"]) + float(s["atol"])
    found = (a == b) | (near & ~(a - b).call("IsInf", dtype=BOOL))
    if s.get("equal_nan"):
        found = found | (a.call("IsNaN", dtype=BOOL) & b.call("IsNaN", dtype=BOOL))
    return found.name


@rule("byte", "char", "short", "type_as", "_to", "_to_device")
def _typed(x: Exporter, s: Step) -> str:
    return x.as_type(s.operand, s.dtype)


@rule("tanhshrink", "special_entr", "sinc", "rad2deg", "deg2rad", "logit", "isposinf", "isneginf")
def _functions(x: Exporter, s: Step) -> str:
    if s.dtype is BOOL and not x.type_of(s.operand).is_floating_point:
        return x.node("Expand", [x.constant(False, BOOL), x.sizes(s.shape)])
    v = Term.of(x, s.operand, s.dtype if s.dtype is not BOOL else x.type_of(s.operand))
    match s.op:
        case "tanhshrink":
            return (v - v.call("Tanh")).name
        case "special_entr":
            return where(v < 0.0, -math.inf, where(v == 0.0, 0.0, -(v * v.call("Log")))).name
        case "sinc":
            angle = v * math.pi
            return where(v == 0.0, 1.0, angle.call("Sin") / where(v == 0.0, 1.0, angle)).name
        case "rad2deg" | "deg2rad":
            return (v * (180 / math.pi if s.op == "rad2deg" else math.pi / 180)).name
        case "logit":
            eps = s.get("eps")
            if eps is not None:  # with bounds in this order where the first is the larger one
                v = where(v < float(eps), float(eps), v.call("Min", 1.0 - float(eps)))
            return (v / (1.0 - v)).call("Log").name
    return (v == (math.inf if s.op == "isposinf" else -math.inf)).name


@rule("ldexp")
def _ldexp(x: Exporter, s: Step) -> str:
    a, b = _both(x, s)
    return (a * Term(x, x.constant(2.0, s.dtype), s.dtype) ** b).name


@rule("binary_cross_entropy")
def _bce(x: Exporter, s: Step) -> str:
    v, target = Term.of(x, s["input"], s.dtype), Term.of(x, s["target"], s.dtype)
    # The logarithms are cut off, as PyTorch does.
    yes, no = (p.call("Log").call("Max", -100.0) for p in (v, 1.0 - v))
    found = (target - 1.0) * no - target * yes
    if s.get("weight") is not None:
        found = found * Term.of(x, s["weight"], s.dtype)
    kind = {"none": None, "mean": "ReduceMean", "sum": "ReduceSum"}[s.get("reduction", "mean")]
    return found.name if kind is None else x.node(kind, [found.name, None], keepdims=0)


# Sums --------------------------------------------------------------------------------------


def _axes(x: Exporter, s: Step) -> list[int]:
    dims, rank = s.get("dim"), x.rank(s.operand)
    if dims is None or dims == []:
        return list(range(rank))
    return [d % rank for d in (dims if isinstance(dims, list) else [dims])]


def _reduced(x: Exporter, s: Step, kind: str, v: Term, axes: list[int]) -> Term:
    if not axes:
        return v
    keep = int(bool(s.get("keepdim", False)))
    return Term(x, x.node(kind, [v.name, x.constant(axes, I64)], keepdims=keep), v.dtype)


@rule("nansum", "nanmean")
def _nansum(x: Exporter, s: Step) -> str:
    v, axes = Term.of(x, s.operand, s.dtype), _axes(x, s)
    if not s.dtype.is_floating_point:
        return _reduced(x, s, "ReduceSum", v, axes).name
    bad = v.call("IsNaN", dtype=BOOL)
    total = _reduced(x, s, "ReduceSum", where(bad, 0, v), axes)
    if s.op.startswith("nansum"):
        return total.name
    return (total / _reduced(x, s, "ReduceSum", (~bad).to(s.dtype), axes)).name


@rule("count_nonzero")
def _count_nonzero(x: Exporter, s: Step) -> str:
    v = Term.of(x, s.operand, x.type_of(s.operand))
    there = v if v.dtype is BOOL else ~(v == 0)
    return _reduced(x, s, "ReduceSum", there.to(I64), _axes(x, s)).name


def _is_matrix_sum(s: Step, order: Any, axes: list[int]) -> bool:
    of_matrix = s.op.startswith("linalg_matrix") or s.op.startswith("linalg_norm") and len(axes) == 2
    return of_matrix and not isinstance(order, str | None) and abs(order) in (1, math.inf)


def _matrix_sum(x: Exporter, s: Step, order: float, axes: list[int]) -> str:
    """Return the largest or least sum of the absolute values of a column or row."""
    summed, compared = axes if abs(order) == 1 else axes[::-1]
    v = abs(Term.of(x, s.operand, s.dtype)).ints("ReduceSum", [summed], keepdims=1)
    v = v.ints("ReduceMax" if order > 0 else "ReduceMin", [compared], keepdims=1)
    return str(x.node("Reshape", [v.name, x.sizes(s.shape)]))


@rule("linalg_vector_norm", "norm", "linalg_norm", "linalg_matrix_norm", "dist")
def _norm(x: Exporter, s: Step) -> str:
    order, axes = s.get("ord", s.get("p", None)), _axes(x, s)
    order = float(order) if isinstance(order, str) and order not in ("nuc", "fro") else order
    if _is_matrix_sum(s, order, axes):
        return _matrix_sum(x, s, order, axes)
    order = 2 if order in (None, "fro") else order
    of_matrix = s.op.startswith("linalg_matrix") or s.op.startswith("linalg_norm") and len(axes) == 2
    if order == "nuc" or of_matrix and s.get("ord") not in (None, "fro"):
        raise NotSupportedError(f"onnx.export: {s.op} of order {order}")
    v = Term.of(x, s.operand, s.dtype)
    if s.op == "dist":
        a, b = _both(x, s)
        v, axes = a - b, list(range(max(x.rank(s["self"]), x.rank(s["other"]))))
    if not axes:
        return (~(v == 0.0)).to(s.dtype).name if order == 0 else abs(v).name
    if order in (1, 2):
        return _reduced(x, s, f"ReduceL{int(order)}", v, axes).name
    if order == 0:
        return _reduced(x, s, "ReduceSum", (~(v == 0.0)).to(s.dtype), axes).name
    if math.isinf(order):
        return _reduced(x, s, "ReduceMax" if order > 0 else "ReduceMin", abs(v), axes).name
    return (_reduced(x, s, "ReduceSum", abs(v) ** float(order), axes) ** (1 / order)).name


def _neighbours(v: Term, dim: int) -> tuple[Term, Term]:
    """Return all elements along a dim but the first, and all but the last."""
    at = v.x.constant([dim], I64)
    ends = (v.x.constant([n], I64) for n in (1, 1 << 62, 0, -1))
    first, last, begin, end = ends
    later, before = (v.x.node("Slice", [v.name, a, b, at]) for a, b in ((first, last), (begin, end)))
    return Term(v.x, later, v.dtype), Term(v.x, before, v.dtype)


@rule("diff")
def _diff(x: Exporter, s: Step) -> str:
    dim = s.get("dim", -1) % x.rank(s.operand)
    v = Term.of(x, s.operand, s.dtype if s.dtype is not BOOL else BOOL)
    around = [Term.of(x, s[n], v.dtype) if s.get(n) is not None else None for n in ("prepend", "append")]
    parts = [t.name for t in (around[0], v, around[1]) if t is not None]
    v = v if len(parts) == 1 else Term(x, x.node("Concat", parts, axis=dim), v.dtype)
    if s.get("n", 1) == 0:
        return x.value(s.operand)
    for _ in range(s.get("n", 1)):
        later, before = _neighbours(v, dim)
        v = later.call("Xor", before) if v.dtype is BOOL else later - before
    return v.name


@rule("logcumsumexp")
def _logcumsumexp(x: Exporter, s: Step) -> str:
    rank, v = x.rank(s.operand), Term.of(x, s.operand, s.dtype)
    if rank == 0:
        return v.name
    dim = s["dim"] % rank
    shape = [n for d, n in enumerate(s.shape) if d != dim]
    nothing = Term(x, x.node("Expand", [v.operand(-math.inf), x.sizes(shape)]), s.dtype)
    return scanned(x, _log_of_sum, v, nothing, dim, shape).name


def _so_far(x: Exporter, s: Step, v: Term, dim: int, kind: str = "Max") -> Term:
    """Return the largest or least of the elements so far along a dim."""
    shape = [n for d, n in enumerate(s.shape) if d != dim]
    worst = -math.inf if kind == "Max" else math.inf
    if not v.dtype.is_floating_point:
        worst = iinfo(v.dtype).min if kind == "Max" else iinfo(v.dtype).max
    first = Term(x, x.node("Expand", [v.operand(worst), x.sizes(shape)]), v.dtype)
    return scanned(x, lambda a, b: a.call(kind, b), v, first, dim, shape)


@rule("cummax", "cummin")
def _cummax(x: Exporter, s: Step) -> list[str]:
    """The index of a best element is the last place of it so far."""
    rank, kind = x.rank(s.operand), "Max" if s.op == "cummax" else "Min"
    v = Term.of(x, s.operand, s.dtype)
    if rank == 0:
        return [v.name, x.constant(0, I64)]
    dim = s["dim"] % rank
    best = _so_far(x, s, v, dim, kind)
    numbers = x.node("Range", [x.constant(0, I64), x.size(s.shape[dim]), x.constant(1, I64)])
    places = Term(x, numbers, I64).ints("Reshape", [-1, *[1] * (rank - 1 - dim)])
    new = v == best
    if s.dtype.is_floating_point:
        new = new | v.call("IsNaN", dtype=BOOL)
    return [best.name, _so_far(x, s, where(new, places, -1), dim).name]


@rule("trapezoid.dx", "trapezoid", "cumulative_trapezoid.dx", "cumulative_trapezoid")
def _trapezoid(x: Exporter, s: Step) -> str:
    y, dim = Term.of(x, s["y"], s.dtype), s.get("dim", -1) % x.rank(s["y"])
    at = x.constant([dim], I64)
    later, before = _neighbours(y, dim)
    if s.get("x") is None:
        width = Term.of(x, s.get("dx", 1), s.dtype)
    else:
        places, rank = Term.of(x, s["x"], s.dtype), x.rank(s["x"])
        if rank == 1:
            places = places.ints("Reshape", [-1] + [1] * (x.rank(s["y"]) - 1 - dim))
        high, low = _neighbours(places, dim - x.rank(s["y"]))
        width = high - low
    areas = (later + before) * width * 0.5
    if s.op.startswith("cumulative"):
        return x.node("CumSum", [areas.name, x.constant(dim, I64)])
    return x.node("ReduceSum", [areas.name, at], keepdims=0)


# Products of vectors and matrices ----------------------------------------------------------


@rule("outer", "ger", "kron", "inner", "linalg_vecdot", "vdot", "linalg_cross", "cross")
def _vectors(x: Exporter, s: Step) -> str:
    names = (
        ("x", "y") if s.op == "linalg_vecdot" else ("self", next(n for n in ("vec2", "other", "tensor") if n in s.args))
    )
    a, b = (Term.of(x, s[n], s.dtype) for n in names)
    ranks = [x.rank(s[n]) for n in names]
    if s.op in ("outer", "ger"):
        return (a.ints("Unsqueeze", [-1]) * b).name
    if s.op in ("linalg_vecdot", "vdot") or s.op == "inner" and ranks == [1, 1]:
        return (a * b).ints("ReduceSum", [s.get("dim", -1)], keepdims=0).name
    if s.op == "inner":
        if 0 in ranks:
            return (a * b).name
        (size,) = x.static(x.shape_of(s["self"])[-1], "inner")
        flat = [v.ints("Reshape", [-1, size]) for v in (a, b)]
        found = flat[0] @ flat[1].call("Transpose", perm=[1, 0])
        return x.node("Reshape", [found.name, x.sizes(s.shape)])
    if s.op == "kron":
        rank = max(ranks)
        wide = [
            x.node("Reshape", [v.name, x.sizes(_beside(x.shape_of(s[n]), rank, after))])
            for v, n, after in ((a, names[0], True), (b, names[1], False))
        ]
        return x.node("Reshape", [x.node("Mul", wide), x.sizes(s.shape)])
    dim = s.get("dim")
    dim = (dim if dim is not None else next(d for d, n in enumerate(s.shape) if n == 3)) - (
        0 if dim and dim < 0 else len(s.shape)
    )
    turned = [
        [Term(x, x.node("Gather", [v.name, x.constant(p, I64)], axis=dim), s.dtype) for v in (a, b)]
        for p in ([1, 2, 0], [2, 0, 1])
    ]
    return (turned[0][0] * turned[1][1] - turned[1][0] * turned[0][1]).name


def _beside(shape: list[Any], rank: int, first: bool) -> list[Any]:
    """Return sizes with a dim of size 1 behind each, or before each."""
    shape = [1] * (rank - len(shape)) + list(shape)
    return [n for size in shape for n in ((size, 1) if first else (1, size))]


@rule("addmv", "addr", "addbmm")
def _sums_of_products(x: Exporter, s: Step) -> str:
    names = {"addmv": ("mat", "vec"), "addr": ("vec1", "vec2"), "addbmm": ("batch1", "batch2")}[s.op]
    a, b = (Term.of(x, s[n], s.dtype) for n in names)
    y = a.ints("Unsqueeze", [-1]) * b if s.op == "addr" else a @ b
    y = y.ints("ReduceSum", [0], keepdims=0) if s.op == "addbmm" else y
    y = y if s.get("alpha", 1) == 1 else y * Term.of(x, s["alpha"], s.dtype)
    c = Term.of(x, s.operand, s.dtype)
    return (
        y if s.get("beta", 1) == 0 else y + (c if s.get("beta", 1) == 1 else c * Term.of(x, s["beta"], s.dtype))
    ).name


@rule("cov", "corrcoef")
def _cov(x: Exporter, s: Step) -> str:
    if s.get("fweights") is not None or s.get("aweights") is not None:
        raise NotSupportedError("onnx.export: cov with weights")
    v, rank = Term.of(x, s.operand, s.dtype), x.rank(s.operand)
    v = v if rank == 2 else v.ints("Reshape", [1, -1])
    center = v - v.ints("ReduceMean", [-1], keepdims=1)
    count = Term(x, x.cast(x.size(x.shape_of(s.operand)[-1] if rank else 1), I64, s.dtype), s.dtype)
    less = count - float(s.get("correction", 1))
    found = (center @ center.call("Transpose", perm=[1, 0])) / less.call("Max", 0.0)
    if s.op == "corrcoef":
        root = (center * center).ints("ReduceSum", [-1], keepdims=1)
        root = (root / less).call("Sqrt")
        found = found / root / root.call("Transpose", perm=[1, 0])
        found = found.call("Max", -1.0).call("Min", 1.0)
    return x.node("Reshape", [found.name, x.sizes(s.shape)])


@rule("_cell")
def _cell(x: Exporter, s: Step) -> list[str]:
    """One step of a recurrent layer: its input's and its state's part of the gates are computed before."""
    a, b = (Term.of(x, s[n], s.dtype) for n in ("input", "hidden"))
    mode = s["mode"]
    if mode.startswith("rnn"):
        return [(a + b).call("Tanh" if mode == "rnn_tanh" else "Relu").name]
    state = Term.of(x, s["state"], s.dtype)

    def gates(v: Term, count: int) -> list[Term]:
        found = x.node("Split", [v.name], count, axis=-1, num_outputs=count)
        return [Term(x, name, s.dtype) for name in found]

    if mode == "lstm":
        i, f, g, o = gates(a + b, 4)
        cell = f.call("Sigmoid") * state + i.call("Sigmoid") * g.call("Tanh")
        return [(o.call("Sigmoid") * cell.call("Tanh")).name, cell.name]
    (r, z, n), (hr, hz, hn) = gates(a, 3), gates(b, 3)
    update, new = (z + hz).call("Sigmoid"), (n + (r + hr).call("Sigmoid") * hn).call("Tanh")
    return [(new + update * (state - new)).name]
