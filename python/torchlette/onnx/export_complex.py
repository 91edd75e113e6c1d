"""How steps with complex numbers are written: ONNX has real ones, so a value is two, its real and imaginary part."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from torchlette import _C
from torchlette._runtime.errors import NotSupportedError
from torchlette.onnx.exporter import RULES, VIEWS, Exporter, Step, rule
from torchlette.onnx.messages import PARTS
from torchlette.onnx.terms import Term, where

__all__ = ["write_complex"]

I64, BOOL = _C.int64, _C.bool

#: Writes the real and the imaginary part of a step's result, or a real result.
COMPLEX: dict[str, Callable[[Exporter, Step], Any]] = {}
#: Operators that apply to the real parts and to the imaginary parts separately.
PARTWISE = frozenset(
    """
    _T _block_diag _index _index_put _index_tensor _mT _setitem_ _to_dtype alias as_strided atleast_1d atleast_2d
    atleast_3d broadcast_tensors broadcast_to byte cartesian_prod cat cdouble cfloat char chunk clone column_stack
    concat constant_pad_nd contiguous copy_ cumsum detach diag diag_embed diagflat diagonal diagonal_scatter diff
    double dsplit dstack empty empty_like expand expand_as fill fill_ flatten flip fliplr flipud float full full_like
    gather half hsplit hstack index_copy index_fill index_select int linalg_diagonal long masked_fill
    masked_scatter mean meshgrid movedim narrow neg new_empty new_full new_zeros permute ravel repeat
    repeat_interleave reshape reshape_as roll rot90 scatter_add select select_scatter short slice slice_scatter split
    split_with_sizes squeeze stack sum swapaxes swapdims t take take_along_dim tensor_split tile trace transpose tril
    triu unbind unflatten unfold unsqueeze view view_as vsplit vstack where zero_ zeros zeros_like
    """.split()
)


def complex_rule(*names: str) -> Callable[[Any], Any]:
    """Return a decorator that puts a function in the table."""

    def add(function: Any) -> Any:
        COMPLEX.update(dict.fromkeys(names, function))
        return function

    return add


def write_complex(x: Exporter, step: Step, base: str) -> int:
    """Write a step with complex numbers; return the number of its results.

    Args:
        x: Gets the nodes.
        step: The step.
        base: The name of its operator without the overload.

    Raises:
        NotImplementedError: There is no form for it.
    """
    write = COMPLEX.get(step.op) or COMPLEX.get(base) or (_partwise if base in PARTWISE else None)
    if write is None or step.in_place and base not in PARTWISE:
        raise NotSupportedError(
            f"onnx.export: the operator {step.op} of complex numbers has no form in ONNX here {step.at}"
        )
    if step.in_place:
        _in_place(x, step, base)
        return 0
    found = write(x, step)
    operand = x.number_of(step.operand)
    for i, name in enumerate(found if isinstance(found, list) else [found]):
        number = step.first + i
        x.names[number] = name if isinstance(name, str) else ""
        if not isinstance(name, str):
            x.known_parts[number] = [p.name if isinstance(p, Term) else p for p in name]
        if base in VIEWS and operand is not None:
            x.views[number] = operand, step, i
    return len(step.out)


def _partwise(x: Exporter, step: Step) -> Any:
    """Write a step of the real parts, and one of the imaginary parts."""
    write = RULES.get(step.op) or RULES[step.op.partition(".")[0]]
    out, found = step.out, []
    step.out = [(PARTS.get(dtype, dtype), shape) for dtype, shape in out]
    try:
        for x.part in (0, 1):
            names = x.apply(write, step)
            found.append([names] if isinstance(names, str) else list(names))
    finally:
        x.part, step.out = None, out
    if out[0][0] not in PARTS:
        return found[0]
    return list(zip(*found, strict=True))


def _in_place(x: Exporter, step: Step, base: str) -> None:
    """Write in place to the real parts, and then to the imaginary parts."""
    target = x.number_of(step.operand)
    root = -1 if target is None else x.chain(target)[-1]
    values = [root, *(i for i in x.views if x.chain(i)[-1] == root)]
    before = {i: x.parts(f"%{i}") for i in values if x.types[i][0] in PARTS}
    if len(before) < len(values):
        raise NotSupportedError(f"onnx.export: {step.op} writes to complex numbers with views as real ones {step.at}")
    names, types, after = dict(x.names), dict(x.types), {i: ["", ""] for i in before}
    x.split = frozenset(before)
    x.types.update({i: (PARTS[types[i][0]], types[i][1]) for i in before})
    try:
        for x.part in (0, 1):
            x.names.update({i: parts[x.part] for i, parts in before.items()})
            x.write_in_place(step, base)
            for i in before:
                after[i][x.part] = x.names[i]
    finally:
        x.part, x.split = None, frozenset()
        x.names.update({i: names[i] for i in before})
        x.types.update({i: types[i] for i in before})
    x.known_parts.update(after)


# Numbers -----------------------------------------------------------------------------------

Pair = tuple[Term, Term]


def pair(x: Exporter, ref: Any, dtype: _C.dtype) -> Pair:
    """Return the parts of an argument: of a complex or a real value, or of a number.

    Args:
        x: Gets the nodes.
        ref: The argument.
        dtype: Of the parts.
    """
    if x.is_complex(ref) and x.number_of(ref) is not None:
        have = PARTS[x.type_of(ref)]
        real, imaginary = (Term(x, name, have).to(dtype) for name in x.parts(ref))
        return real, imaginary
    if isinstance(ref, str) and ref.startswith("complex:"):
        a, b = (Term(x, x.constant(float(v), dtype), dtype) for v in ref.removeprefix("complex:").split(","))
        return a, b
    return Term.of(x, ref, dtype), Term(x, x.constant(0.0, dtype), dtype)


def _kind(x: Exporter, s: Step) -> _C.dtype:
    """Return the dtype of the parts of the result, or of the operand."""
    return PARTS.get(s.dtype) or PARTS.get(x.type_of(s.operand)) or s.dtype


def _product(a: Pair, b: Pair) -> Pair:
    return a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]


def length(v: Pair) -> Term:
    """Return absolute values; no square overflows."""
    a, b = abs(v[0]), abs(v[1])
    most, least = a.call("Max", b), a.call("Min", b)
    ratio = least / where(most == 0.0, 1.0, most)
    found = most * (ratio * ratio + 1.0).call("Sqrt")
    return where(most.call("IsInf", dtype=BOOL), math.inf, found)


def arc(y: Term, x: Term) -> Term:
    """Return the angle of the point (x, y) from -pi to pi. The sign of a zero y or x counts."""
    both = y.call("IsInf", dtype=BOOL) & x.call("IsInf", dtype=BOOL)
    y, x = where(both, y.call("Sign"), y), where(both, x.call("Sign"), x)
    low, left = ((v < 0.0) | ((1.0 / v < 0.0) & (v == 0.0)) for v in (y, x))
    zeros = (x == 0.0) & (y == 0.0)
    angle = where(x == 0.0, y.call("Sign") * (math.pi / 2), (y / x).call("Atan"))
    turned = left & (zeros | ~(x == 0.0))
    return angle + where(turned, where(low, y * 0.0 - math.pi, math.pi), 0.0)


def _quotient(a: Pair, b: Pair) -> Pair:
    size = abs(b[0]).call("Max", abs(b[1]))
    size = where((size == 0.0) | size.call("IsInf", dtype=BOOL), 1.0, size)
    c, d = b[0] / size, b[1] / size
    square = (c * c + d * d) * size
    real, imaginary = _product(a, (c, -d))
    return real / square, imaginary / square


def _exponential(v: Pair) -> Pair:
    size = v[0].call("Exp")
    return size * v[1].call("Cos"), size * v[1].call("Sin")


def _logarithm(v: Pair) -> Pair:
    return length(v).call("Log"), arc(v[1], v[0])


@complex_rule("add", "sub", "rsub")
def _sum(x: Exporter, s: Step) -> Pair:
    dtype = _kind(x, s)
    a, b = pair(x, s.operand, dtype), pair(x, s["other"], dtype)
    if s.op.startswith("rsub"):
        a, b = b, a
    if s.get("alpha", 1) != 1:
        if s.op.startswith("rsub"):
            raise NotSupportedError("onnx.export: rsub of complex numbers with alpha")
        b = _product(b, pair(x, s["alpha"], dtype))
    return (a[0] - b[0], a[1] - b[1]) if "sub" in s.op else (a[0] + b[0], a[1] + b[1])


@complex_rule("mul", "div", "true_divide", "reciprocal", "square")
def _products(x: Exporter, s: Step) -> Pair:
    dtype, base = _kind(x, s), s.op.partition(".")[0]
    a = pair(x, s.operand, dtype)
    if base == "reciprocal":
        return _quotient(pair(x, 1, dtype), a)
    b = a if base == "square" else pair(x, s["other"], dtype)
    if base in ("mul", "square"):
        real = next((r for r in (s.operand, s.get("other")) if not x.is_complex(r)), None)
        if base == "mul" and real is not None:  # infinities of the other part stay what they are
            v, factor = (a, b[0]) if x.is_complex(s.operand) else (b, a[0])
            return v[0] * factor, v[1] * factor
        return _product(a, b)
    return _quotient(a, b) if x.is_complex(s["other"]) else (a[0] / b[0], a[1] / b[0])


@complex_rule("pow")
def _pow(x: Exporter, s: Step) -> Pair:
    dtype, exponent = _kind(x, s), s.get("exponent", s.get("other"))
    v = pair(x, s.get("self", s.get("input")), dtype)
    if isinstance(exponent, int) and 1 <= exponent <= 8:
        found = v
        for _ in range(exponent - 1):
            found = _product(found, v)
        return found
    found = _exponential(_product(_logarithm(v), pair(x, exponent, dtype)))
    zero = (v[0] == 0.0) & (v[1] == 0.0)
    return where(zero, 0.0, found[0]), where(zero, 0.0, found[1])


@complex_rule("bool", "logical_not")
def _nonzero(x: Exporter, s: Step) -> str:
    a, b = pair(x, s.operand, _kind(x, s))
    zero = (a == 0.0) & (b == 0.0)
    return (zero if s.op == "logical_not" else ~zero).name


@complex_rule("sinh", "cosh", "tanh", "tan")
def _hyperbolic(x: Exporter, s: Step) -> Pair:
    a, b = pair(x, s.operand, _kind(x, s))
    if s.op == "tan":  # tan(z) is -i tanh(i z)
        a, b = -b, a
    if s.op in ("tanh", "tan"):
        # tanh(a) and the tangent of b: no exponential overflows.
        t, u = a.call("Tanh"), b.call("Tan")
        below = t * t * u * u + 1.0
        real, imaginary = t * (u * u + 1.0) / below, u * (1.0 - t * t) / below
        return (imaginary, -real) if s.op == "tan" else (real, imaginary)
    high, low = a.call("Cosh"), a.call("Sinh")
    c, d = b.call("Cos"), b.call("Sin")
    return (low * c, high * d) if s.op == "sinh" else (high * c, low * d)


@complex_rule("addmm", "baddbmm", "addmv", "addcmul", "addcdiv")
def _sums_of_products(x: Exporter, s: Step) -> Pair:
    dtype, base = _kind(x, s), s.op.partition(".")[0]
    names = ("tensor1", "tensor2") if base.startswith("addc") else ("mat1", "mat2")
    names = {"baddbmm": ("batch1", "batch2"), "addmv": ("mat", "vec")}.get(base, names)
    c, a, b = (pair(x, s[n], dtype) for n in ("self", *names))
    if base.startswith("addc"):
        a = _scaled(x, a, s.get("value", 1), dtype)
        found = _product(a, b) if base == "addcmul" else _quotient(a, b)
    else:
        found = a[0] @ b[0] - a[1] @ b[1], a[0] @ b[1] + a[1] @ b[0]
        found, c = _scaled(x, found, s.get("alpha", 1), dtype), _scaled(x, c, s.get("beta", 1), dtype)
    return c[0] + found[0], c[1] + found[1]


def _scaled(x: Exporter, v: Pair, factor: Any, dtype: _C.dtype) -> Pair:
    return v if factor == 1 else _product(v, pair(x, factor, dtype))


@complex_rule("exp", "log", "sqrt", "neg", "sgn", "sin", "cos")
def _functions(x: Exporter, s: Step) -> Pair:
    v, base = pair(x, s.operand, _kind(x, s)), s.op.partition(".")[0]
    if base in ("exp", "log"):
        return _exponential(v) if base == "exp" else _logarithm(v)
    if base in ("sin", "cos"):
        a, b = v[0].call("Sin"), v[0].call("Cos")
        high, low = v[1].call("Cosh"), v[1].call("Sinh")
        return (a * high, b * low) if base == "sin" else (b * high, -(a * low))
    if base == "neg":
        return -v[0], -v[1]
    size = length(v)
    if base == "sgn":
        size = where(size == 0.0, 1.0, size)
        return v[0] / size, v[1] / size
    # The root with a real part that is not negative; the sign of the imaginary part stays.
    real = ((size + abs(v[0])) * 0.5).call("Sqrt")
    other = v[1] / (where(real == 0.0, 1.0, real) * 2.0)
    low = (v[1] < 0.0) | ((1.0 / v[1] < 0.0) & (v[1] == 0.0))
    left = v[0] < 0.0
    return where(left, abs(other), real), where(left, where(low, -real, real), other)


@complex_rule("abs")
def _abs(x: Exporter, s: Step) -> str:
    return length(pair(x, s.operand, _kind(x, s))).name


@complex_rule("angle")
def _angle(x: Exporter, s: Step) -> str:
    v = pair(x, s.operand, _kind(x, s))
    return arc(v[1], v[0]).name


@rule("angle")
def _half_turn(x: Exporter, s: Step) -> str:
    """The angle of a real number: 0, pi or NaN."""
    v = Term.of(x, s.operand, s.dtype)
    return where(v < 0.0, math.pi, where(v.call("IsNaN", dtype=BOOL), v, 0.0)).name


@rule("conj", "conj_physical", "resolve_conj", "resolve_neg", "real", "positive")
def _real(x: Exporter, s: Step) -> str:
    return x.value(s.operand)


@rule("sgn")
def _sign(x: Exporter, s: Step) -> str:
    return str(x.node("Sign", [x.value(s.operand)]))


@complex_rule("real", "imag")
def _one(x: Exporter, s: Step) -> str:
    return x.parts(s.operand)[int(s.op == "imag")]


@complex_rule("conj", "conj_physical", "resolve_conj", "resolve_neg", "_H", "adjoint")
def _conj(x: Exporter, s: Step) -> Any:
    if s.op.startswith("resolve"):
        return tuple(x.parts(s.operand))
    real, imaginary = pair(x, s.operand, _kind(x, s))
    if s.op in ("_H", "adjoint"):
        rank = x.rank(s.operand)
        order = [*range(rank - 2), rank - 1, rank - 2]
        real, imaginary = real.call("Transpose", perm=order), imaginary.call("Transpose", perm=order)
    return real, -imaginary


@complex_rule("complex", "polar")
def _made(x: Exporter, s: Step) -> Pair:
    dtype = PARTS[s.dtype]
    if s.op == "complex":
        a, b = (Term.of(x, s[name], dtype) for name in ("real", "imag"))
        zeros = Term(x, x.node("Expand", [x.constant(0.0, dtype), x.sizes(s.shape)]), dtype)
        wide = x.shape_of(s["real"]) != x.shape_of(s["imag"])
        return (a + zeros, b + zeros) if wide else (a, b)
    size, angle = (Term.of(x, s[name], dtype) for name in ("abs", "angle"))
    return size * angle.call("Cos"), size * angle.call("Sin")


@complex_rule("view_as_real", "view_as_complex")
def _viewed(x: Exporter, s: Step) -> Any:
    if s.op == "view_as_real":
        return stacked(x, x.parts(s.operand))
    v = x.value(s.operand)
    return tuple(x.node("Gather", [v, x.constant(k, I64)], axis=-1) for k in (0, 1))


def stacked(x: Exporter, parts: Any) -> str:
    """Return pairs of a real and an imaginary part as a last dim."""
    last = x.constant([-1], I64)
    return str(x.node("Concat", [x.node("Unsqueeze", [p, last]) for p in parts], axis=-1))


@complex_rule("matmul", "mm", "bmm", "mv", "dot", "outer")
def _matmul(x: Exporter, s: Step) -> Pair:
    dtype = _kind(x, s)
    other = next(s[n] for n in ("other", "mat2", "vec2", "vec", "tensor") if n in s.args)
    a, b = pair(x, s.operand, dtype), pair(x, other, dtype)
    if s.op == "outer":
        a = a[0].ints("Unsqueeze", [-1]), a[1].ints("Unsqueeze", [-1])
        return _product(a, b)
    return a[0] @ b[0] - a[1] @ b[1], a[0] @ b[1] + a[1] @ b[0]


@complex_rule("eq", "ne")
def _equal(x: Exporter, s: Step) -> str:
    dtype = PARTS.get(x.type_of(s.operand)) or PARTS.get(x.type_of(s["other"])) or _C.float32
    a, b = pair(x, s.operand, dtype), pair(x, s["other"], dtype)
    same = (a[0] == b[0]) & (a[1] == b[1])
    return (~same if s.op.startswith("ne") else same).name


@complex_rule("isnan", "isinf", "isfinite")
def _tests(x: Exporter, s: Step) -> str:
    a, b = pair(x, s.operand, _kind(x, s))
    if s.op == "isfinite":
        bad = [v.call(kind, dtype=BOOL) for v in (a, b) for kind in ("IsNaN", "IsInf")]
        return (~(bad[0] | bad[1] | bad[2] | bad[3])).name
    kind = {"isnan": "IsNaN", "isinf": "IsInf"}[s.op]
    return (a.call(kind, dtype=BOOL) | b.call(kind, dtype=BOOL)).name


@complex_rule("ones", "ones_like", "new_ones")
def _ones(x: Exporter, s: Step) -> Any:
    sizes = x.sizes(s.shape)
    if s.dtype not in PARTS:
        return x.node("Expand", [x.as_type(1, s.dtype), sizes])
    return tuple(x.node("Expand", [x.constant(v, PARTS[s.dtype]), sizes]) for v in (1.0, 0.0))
