"""How inverses, solutions and factors of matrices are written: loops of ONNX's, over columns, in float64."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from torchlette import _C
from torchlette.onnx.export_functions import BODY
from torchlette.onnx.exporter import Exporter, Step, graph_of, rule
from torchlette.onnx.terms import Term, where

F64, I64, BOOL = _C.float64, _C.int64, _C.bool


def _real(x: Exporter, ref: Any) -> Term:
    return Term.of(x, ref, F64)


def _turned(v: Term, rank: int) -> Term:
    return v.call("Transpose", perm=[*range(rank - 2), rank - 1, rank - 2])


def _rows(x: Exporter, size: Any) -> Term:
    """Return the numbers of rows."""
    return Term(x, x.node("Range", [x.constant(0, I64), x.size(size), x.constant(1, I64)]), I64)


def _columns(
    x: Exporter, size: Any, state: list[tuple[Term, list[Any]]], body: Callable[[Term, list[Term]], list[Term]]
) -> list[Term]:
    """Return values after a loop over the columns of a matrix.

    Args:
        x: Gets the nodes.
        size: The number of columns.
        state: What the loop carries, with sizes.
        body: Gives the next values for the number of a column and the values before.
    """
    number, goes_on = x.fresh(), x.fresh()
    names = [x.fresh() for _ in state]
    with x.nested(BODY):
        given = [Term(x, name, v.dtype) for name, (v, _) in zip(names, state, strict=True)]
        found = body(Term(x, number, I64), given)
        inputs = [(number, I64, []), (goes_on, BOOL, [])]
        inputs += [(name, v.dtype, shape) for name, (v, shape) in zip(names, state, strict=True)]
        outputs = [(x.node("Identity", [goes_on]), BOOL, [])]
        outputs += [(x.node("Identity", [v.name]), v.dtype, shape) for v, (_, shape) in zip(found, state, strict=True)]
        graph = graph_of(x.nodes, inputs, outputs)
    last = x.node("Loop", [x.size(size), None, *(v.name for v, _ in state)], len(state), body=graph)
    return [Term(x, n, v.dtype) for n, (v, _) in zip([last] if len(state) == 1 else last, state, strict=True)]


def _pick(v: Term, k: Term, axis: int) -> Term:
    """Return one place along a dim, which stays with the size 1."""
    return Term(v.x, v.x.node("Gather", [v.name, k.ints("Reshape", [1]).name], axis=axis), v.dtype)


def _pivoted(m: Term, rows: Term, k: Term) -> tuple[Term, Term]:
    """Swap row k with the one from there on whose element in column k is the largest; also return which that is."""
    x = m.x
    size = abs(_pick(m, k, -1).ints("Squeeze", [-1]))
    best = Term(x, x.node("ArgMax", [where(rows >= k, size, -1.0).name], axis=-1, keepdims=1), I64)
    order = where(rows == k, best, where(rows == best, k, rows)).ints("Unsqueeze", [-1])
    wide = x.node("Expand", [order.name, x.node("Shape", [m.name])])
    return m.call("GatherElements", Term(x, wide, I64), axis=-2), best


def _solved(x: Exporter, a: Term, b: Term, shape: list[Any], swaps: bool = True) -> Term:
    """Return the inverse of a times b, by Gauss's and Jordan's elimination.

    Args:
        x: Gets the nodes.
        a: Square matrices.
        b: Right sides, with the dims of ``a`` before the last two.
        shape: Of ``b``.
        swaps: Whether rows are swapped for the largest pivots.
    """
    size, rows = shape[-2], _rows(x, shape[-2])
    column = rows.ints("Unsqueeze", [-1])

    def body(k: Term, state: list[Term]) -> list[Term]:
        m = _pivoted(state[0], rows, k)[0] if swaps else state[0]
        row = _pick(m, k, -2)
        row = row / _pick(row, k, -1)
        return [where(column == k, row, m - _pick(m, k, -1) * row)]

    beside = a.call("Concat", b, axis=-1)
    # The number of columns stays open: it is a sum of sizes.
    (found,) = _columns(x, size, [(beside, [*shape[:-1], "columns of both"])], body)
    ends = [x.sizes([n]) for n in (size, 1 << 62)]
    return Term(x, x.node("Slice", [found.name, *ends, x.constant([-1], I64)]), F64)


def _batched(x: Exporter, v: Term, shape: list[Any], batch: list[Any]) -> Term:
    """Return matrices for each place of the dims before."""
    if shape[:-2] == batch:
        return v
    return Term(x, x.node("Expand", [v.name, x.sizes([*batch, *shape[-2:]])]), v.dtype)


def _unit(x: Exporter, size: Any) -> Term:
    """Return the unit matrix."""
    return (_rows(x, size).ints("Unsqueeze", [-1]) == _rows(x, size)).to(F64)


@rule("linalg_inv", "inverse")
def _inv(x: Exporter, s: Step) -> str:
    size = s.shape[-1]
    unit = _unit(x, size)
    b = _batched(x, unit, [size, size], s.shape[:-2]) if len(s.shape) > 2 else unit
    return _solved(x, _real(x, s.get("A", s.operand)), b, s.shape).to(s.dtype).name


@rule("linalg_solve")
def _solve(x: Exporter, s: Step) -> str:
    a, b = s["A"], s["B"]
    have, given = x.shape_of(a), x.shape_of(b)
    vector = len(given) == 1 or len(given) == len(have) - 1 and given == have[:-1]
    left, right = _real(x, a), _real(x, b)
    if vector:
        right, given = right.ints("Unsqueeze", [-1]), [*given, 1]
    batch = s.shape[:-1] if vector else s.shape[:-2]
    left, right = _batched(x, left, have, batch), _batched(x, right, given, batch)
    rank = len(batch) + 2
    if not s.get("left", True):
        left, right = _turned(left, rank), _turned(right, rank)
        given = [*given[:-2], given[-1], given[-2]]
    found = _solved(x, left, right, [*batch, *given[-2:]])
    found = found if s.get("left", True) else _turned(found, rank)
    return (found.ints("Squeeze", [-1]) if vector else found).to(s.dtype).name


def _triangle(x: Exporter, v: Term, upper: bool, unit: bool) -> Term:
    found = Term(x, x.node("Trilu", [v.name, x.constant(0, I64)], upper=int(upper)), F64)
    if not unit:
        return found
    size = Term(x, x.node("Shape", [v.name], start=-1), I64).ints("Squeeze", [0])
    rows = Term(x, x.node("Range", [x.constant(0, I64), size.name, x.constant(1, I64)]), I64)
    return where(rows.ints("Unsqueeze", [-1]) == rows, 1.0, found)


@rule("linalg_solve_triangular")
def _solve_triangular(x: Exporter, s: Step) -> str:
    a, b = s["self"], s["B"]
    left, right, rank = _real(x, a), _real(x, b), len(s.shape)
    left = _triangle(x, left, s["upper"], s.get("unitriangular", False))
    left = _batched(x, left, x.shape_of(a), s.shape[:-2])
    right = _batched(x, right, x.shape_of(b), s.shape[:-2])
    if s.get("left", True):
        return _solved(x, left, right, s.shape, swaps=False).to(s.dtype).name
    shape = [*s.shape[:-2], s.shape[-1], s.shape[-2]]
    found = _solved(x, _turned(left, rank), _turned(right, rank), shape, swaps=False)
    return _turned(found, rank).to(s.dtype).name


@rule("cholesky_solve", "cholesky_inverse")
def _cholesky_solve(x: Exporter, s: Step) -> str:
    factor = s["input2"] if s.op == "cholesky_solve" else s.operand
    f = _triangle(x, _real(x, factor), s.get("upper", False), False)
    rank = x.rank(factor)
    product = _turned(f, rank) @ f if s.get("upper", False) else f @ _turned(f, rank)
    product = _batched(x, product, x.shape_of(factor), s.shape[:-2])
    if s.op == "cholesky_solve":
        b = _batched(x, _real(x, s["self"]), x.shape_of(s["self"]), s.shape[:-2])
    else:
        b = _batched(x, _unit(x, s.shape[-1]), s.shape[-2:], s.shape[:-2])
    return _solved(x, product, b, s.shape).to(s.dtype).name


@rule("linalg_cholesky", "cholesky")
def _cholesky(x: Exporter, s: Step) -> str:
    """Columns one after the other. A matrix that is not positive definite gives NaN."""
    upper, rank = bool(s.get("upper", False)), len(s.shape)
    a = _real(x, s.operand)
    a = _turned(a, rank) if upper else a
    rows = _rows(x, s.shape[-1])
    column = rows.ints("Unsqueeze", [-1])

    def body(k: Term, state: list[Term]) -> list[Term]:
        (found,) = state
        rest = _pick(a, k, -1) - found @ _turned(_pick(found, k, -2), rank)
        rest = where(column >= k, rest / _pick(rest, k, -2).call("Sqrt"), 0.0)
        return [found + rest * (rows == k).to(F64)]

    (found,) = _columns(x, s.shape[-1], [(a * 0.0, s.shape)], body)
    return (_turned(found, rank) if upper else found).to(s.dtype).name


@rule("linalg_slogdet", "slogdet", "logdet")
def _slogdet(x: Exporter, s: Step) -> Any:
    """The signs and logarithms of pivots."""
    ref = s.get("A", s.operand)
    shape, a = x.shape_of(ref), _real(x, ref)
    rows = _rows(x, shape[-1])
    column = rows.ints("Unsqueeze", [-1])

    def body(k: Term, state: list[Term]) -> list[Term]:
        m, best = _pivoted(state[0], rows, k)
        row = _pick(m, k, -2)
        pivot = _pick(row, k, -1)
        # After a pivot of zero, the signs stay zero.
        row = row / where(pivot == 0.0, 1.0, pivot)
        pivot = pivot.ints("Squeeze", [-2])
        swapped = where(best == k, Term(x, x.constant(1.0, F64), F64), -1.0)
        sign, logarithm = state[1] * swapped * pivot.call("Sign"), state[2] + abs(pivot).call("Log")
        return [where(column > k, m - _pick(m, k, -1) * row, m), sign, logarithm]

    each = [*shape[:-2], 1]
    begins = [Term(x, x.node("Expand", [x.constant(v, F64), x.sizes(each)]), F64) for v in (1.0, 0.0)]
    state = [(a, shape), (begins[0], each), (begins[1], each)]
    found = [v.ints("Squeeze", [-1]) for v in _columns(x, shape[-1], state, body)[1:]]
    if s.op == "logdet":
        return where(found[0] < 0.0, float("nan"), found[1]).to(s.dtype).name
    return [v.to(s.dtype).name for v in found]


@rule("linalg_matrix_power", "matrix_power")
def _matrix_power(x: Exporter, s: Step) -> str:
    n = s["n"]
    v = Term.of(x, s.operand, s.dtype)
    if n == 0:
        unit = _unit(x, s.shape[-1])
        return x.node("Expand", [unit.to(s.dtype).name, x.sizes(s.shape)])
    if n < 0:
        v, n = Term(x, _inv(x, s), s.dtype), -n
    found: Term | None = None
    while n:
        if n % 2:
            found = v if found is None else found @ v
        n //= 2
        v = v @ v if n else v
    assert found is not None
    return found.name


@rule("linalg_multi_dot")
def _multi_dot(x: Exporter, s: Step) -> str:
    found, *rest = (Term.of(x, t, s.dtype) for t in s["tensors"])
    for t in rest:
        found = found @ t
    return found.name


@rule("linalg_inv_ex", "linalg_solve_ex", "linalg_cholesky_ex")
def _checked(x: Exporter, s: Step) -> list[str]:
    """The result, and that there was no error: a matrix that has none gives infinities or NaN."""
    write = {"linalg_inv_ex": _inv, "linalg_solve_ex": _solve, "linalg_cholesky_ex": _cholesky}[s.op]
    return [write(x, s), x.node("Expand", [x.as_type(0, s.out[1][0]), x.sizes(s.out[1][1])])]


@rule("linalg_tensorinv", "linalg_tensorsolve")
def _tensorinv(x: Exporter, s: Step) -> str:
    """The tensor as a matrix, the dims of the result beside the others."""
    shape = x.static(x.shape_of(s["self"]), s.op)
    v = _real(x, s["self"])
    if s.op == "linalg_tensorinv":
        size = math.prod(shape[: s["ind"]])
        found = _solved(x, v.ints("Reshape", [size, size]), _unit(x, size), [size, size])
    else:
        last = [d % len(shape) for d in s.get("dims", [])]
        v = v.call("Transpose", perm=[*(d for d in range(len(shape)) if d not in last), *last])
        size = math.prod(x.static(x.shape_of(s["other"]), s.op))
        b = _real(x, s["other"]).ints("Reshape", [size, 1])
        found = _solved(x, v.ints("Reshape", [size, size]), b, [size, 1])
    return str(x.node("Reshape", [found.to(s.dtype).name, x.sizes(s.shape)]))


@rule("linalg_vander")
def _vander(x: Exporter, s: Step) -> str:
    v = Term.of(x, s.get("x", s.operand), s.dtype).ints("Unsqueeze", [-1])
    powers = x.node("Range", [x.constant(0, I64), x.size(s.shape[-1]), x.constant(1, I64)])
    found = v ** Term(x, powers, I64).to(s.dtype)
    return str(x.node("Reshape", [found.name, x.sizes(s.shape)]))
