"""How medians and quantiles are written as ONNX's: by sorting along one dim."""

from __future__ import annotations

import math
from typing import Any

from torchlette import _C
from torchlette.onnx.exporter import Exporter, Step, rule
from torchlette.onnx.terms import Term, where

I64, BOOL = _C.int64, _C.bool


class Ordered:
    """The elements of a step's operand in order along the last dim, with NaN at the end.

    Args:
        x: Gets the nodes.
        s: The step: its ``dim`` comes last, or all elements are in one row.
    """

    def __init__(self, x: Exporter, s: Step) -> None:
        """Sort the elements."""
        v, rank, dim = Term.of(x, s.operand, s.dtype), x.rank(s.operand), s.get("dim")
        self.shape: list[Any] = [1] * rank if dim is None else list(x.shape_of(s.operand))
        if dim is None:
            v = v.ints("Reshape", [-1])
        else:
            dim %= rank
            self.shape[dim] = 1
            v = v.call("Transpose", perm=[*(d for d in range(rank) if d != dim), dim])
        size = x.node("Shape", [v.name], start=-1)
        nan = v.call("IsNaN", dtype=BOOL) if s.dtype.is_floating_point else None
        known = v if nan is None else where(nan, math.inf, v)
        values, places = x.node("TopK", [known.name, size], 2, axis=-1, largest=0, sorted=1)
        self.values, self.places = Term(x, values, s.dtype), Term(x, places, I64)
        #: The number of elements that are no NaN, and of all, for each row.
        count = (v == v).to(I64).ints("ReduceSum", [-1], keepdims=1)
        self.size, self.count = Term(x, size, I64), count

    def at(self, place: Term, of: Term | None = None) -> Term:
        """Return the elements at places of the order; -1 becomes 0.

        Args:
            place: For each row some places.
            of: What is taken: the values, unless it is given.
        """
        of = self.values if of is None else of
        return of.call("GatherElements", place.call("Max", 0), axis=-1)


@rule("nanmedian.dim", "nanmedian")
def _nanmedian(x: Exporter, s: Step) -> Any:
    order = Ordered(x, s)
    place = (order.count - 1) / 2
    value = order.at(place)
    if s.dtype.is_floating_point:
        value = where(order.count == 0, math.nan, value)
    found = [x.node("Reshape", [v.name, x.sizes(s.shape)]) for v in (value, order.at(place, order.places))]
    return found if len(s.out) == 2 else found[0]


@rule("quantile", "nanquantile")
def _quantile(x: Exporter, s: Step) -> str:
    order, mode = Ordered(x, s), s.get("interpolation", "linear")
    count = order.count if s.op.startswith("nan") else order.size
    q, several = s["q"], x.rank(s["q"]) == 1
    ranks = Term.of(x, q, s.dtype).ints("Reshape", [-1]) * (count.to(s.dtype) - 1.0)
    low, high = ranks.call("Floor"), ranks.call("Ceil")
    if mode in ("lower", "higher", "nearest"):
        ranks = {"lower": low, "higher": high, "nearest": ranks.call("Round")}[mode]
        found = _row(x, order, ranks)
    else:
        weight = Term(x, x.constant(0.5, s.dtype), s.dtype) if mode == "midpoint" else ranks - low
        a, b = _row(x, order, low), _row(x, order, high)
        found = where(a == b, a, a + (b - a) * weight)
    found = where(order.count < count, math.nan, found)
    found = where(order.count == 0, math.nan, found)
    if several:  # the ranks come first
        rank = 1 if s.get("dim") is None else x.rank(s.operand)
        found = found.call("Transpose", perm=[rank - 1, *range(rank - 1)])
    return str(x.node("Reshape", [found.name, x.sizes(s.shape)]))


def _row(x: Exporter, order: Ordered, ranks: Term) -> Term:
    """Return the elements at the ranks, which all rows may share."""
    rows = x.node("Slice", [x.node("Shape", [order.values.name]), *(x.constant([n], I64) for n in (0, -1))])
    shape = x.node("Concat", [rows, x.node("Shape", [ranks.name], start=-1)], axis=0)
    return order.at(Term(x, x.node("Expand", [ranks.to(I64).name, shape]), I64))
