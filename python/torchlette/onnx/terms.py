"""Formulas of ONNX's operators, written as Python writes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torchlette import _C
from torchlette.onnx.exporter import Exporter

__all__ = ["Term", "where"]

Operand = Any


class Term:
    """A value of a graph in a formula; numbers become constants of its dtype.

    Args:
        x: Gets the nodes.
        name: Of the value.
        dtype: Of the value.
    """

    __slots__ = ("dtype", "name", "x")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, x: Exporter, name: str, dtype: _C.dtype) -> None:
        """Note the value."""
        self.x, self.name, self.dtype = x, name, dtype

    @classmethod
    def of(cls, x: Exporter, ref: Any, dtype: _C.dtype) -> Term:
        """Return an argument of a step, a value or a number, in a dtype.

        Args:
            x: The exporter of the graph.
            ref: The argument.
            dtype: The dtype to cast to.
        """
        return cls(x, x.as_type(ref, dtype), dtype)

    def operand(self, value: Operand) -> str:
        """Return the name of a term or of a number."""
        if isinstance(value, Term):
            return value.name
        return self.x.constant(float(value) if self.dtype.is_floating_point else value, self.dtype)

    def call(self, kind: str, *others: Operand, dtype: _C.dtype | None = None, **attributes: Any) -> Term:
        """Return the result of an operator of ONNX.

        Args:
            kind: The operator.
            others: Its operands after this one.
            dtype: Of the result, if not this one's.
            attributes: By name.
        """
        name = self.x.node(kind, [self.name, *map(self.operand, others)], **attributes)
        return Term(self.x, name, self.dtype if dtype is None else dtype)

    def ints(self, kind: str, values: Sequence[int], **attributes: Any) -> Term:
        """Return the result of an operator that takes numbers after the value, such as axes or sizes."""
        given = self.x.constant(list(values), _C.int64)
        return Term(self.x, self.x.node(kind, [self.name, given], **attributes), self.dtype)

    def to(self, dtype: _C.dtype) -> Term:
        """Return the value in another dtype."""
        return Term(self.x, self.x.cast(self.name, self.dtype, dtype), dtype)

    def _left(self, kind: str, other: Operand) -> Term:
        return Term(self.x, self.x.node(kind, [self.operand(other), self.name]), self.dtype)

    def __add__(self, other: Operand) -> Term:
        return self.call("Add", other)

    def __radd__(self, other: Operand) -> Term:
        return self._left("Add", other)

    def __sub__(self, other: Operand) -> Term:
        return self.call("Sub", other)

    def __rsub__(self, other: Operand) -> Term:
        return self._left("Sub", other)

    def __mul__(self, other: Operand) -> Term:
        return self.call("Mul", other)

    def __rmul__(self, other: Operand) -> Term:
        return self._left("Mul", other)

    def __truediv__(self, other: Operand) -> Term:
        return self.call("Div", other)

    def __rtruediv__(self, other: Operand) -> Term:
        return self._left("Div", other)

    def __pow__(self, other: Operand) -> Term:
        return self.call("Pow", other)

    def __matmul__(self, other: Term) -> Term:
        return self.call("MatMul", other)

    def __neg__(self) -> Term:
        return self.call("Neg")

    def __abs__(self) -> Term:
        return self.call("Abs")

    def __invert__(self) -> Term:
        return self.call("Not")

    def __and__(self, other: Term) -> Term:
        return self.call("And", other)

    def __or__(self, other: Term) -> Term:
        return self.call("Or", other)

    def __lt__(self, other: Operand) -> Term:
        return self.call("Less", other, dtype=_C.bool)

    def __le__(self, other: Operand) -> Term:
        return self.call("LessOrEqual", other, dtype=_C.bool)

    def __gt__(self, other: Operand) -> Term:
        return self.call("Greater", other, dtype=_C.bool)

    def __ge__(self, other: Operand) -> Term:
        return self.call("GreaterOrEqual", other, dtype=_C.bool)

    def __eq__(self, other: Operand) -> Term:  # type: ignore[override]
        return self.call("Equal", other, dtype=_C.bool)


def where(condition: Term, yes: Operand, no: Operand) -> Term:
    """Return one value where a condition holds and another elsewhere.

    Args:
        condition: A term of bools.
        yes: The value where it holds, a term or a number.
        no: The value elsewhere; one of both at least is a term.
    """
    term: Term = yes if isinstance(yes, Term) else no
    name = term.x.node("Where", [condition.name, term.operand(yes), term.operand(no)])
    return Term(term.x, name, term.dtype)
