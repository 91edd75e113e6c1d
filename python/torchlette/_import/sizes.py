"""Sizes of a ``.pt2`` file's inputs: numbers, names of dims, and linear functions of them."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from torchlette._import.files import damaged, unsupported

if TYPE_CHECKING:
    from torchlette.export import Dim

__all__ = ["Linear", "declare", "size_of"]

_LONGEST, _LARGEST = 200, 1 << 32


class Linear(NamedTuple):
    """``factor * name + offset``, with a positive factor."""

    name: str
    factor: int
    offset: int

    def __call__(self, n: int | None) -> int | None:
        """Return the size for a value of the name; None for no bound."""
        return None if n is None else self.factor * n + self.offset


def size_of(text: str) -> str | Linear:
    """Return the name or the function that a size is.

    Args:
        text: SymPy's, as ``Symbol('s0', integer=True)``, ``Mul(Integer(2), Symbol('s0'))`` or ``2*s0 + 1``.

    Raises:
        NotImplementedError: It is another function.
    """
    try:
        if len(text) > _LONGEST:
            raise ValueError
        name, factor, offset = _parsed(ast.parse(text, mode="eval").body)
        if name is None or factor <= 0 or max(factor, abs(offset)) > _LARGEST:
            raise ValueError
    except (SyntaxError, ValueError, RecursionError):
        raise unsupported(f"a size of an input is computed from others: {text[:_LONGEST]}") from None
    return name if (factor, offset) == (1, 0) else Linear(name, factor, offset)


def _parsed(node: ast.expr) -> tuple[str | None, int, int]:
    match node:
        case ast.Constant(value=int(n)):
            return None, 0, n
        case ast.Name(id=name):
            return name, 1, 0
        case ast.Call(func=ast.Name(id="Symbol"), args=[ast.Constant(value=str(name))]):
            return name, 1, 0
        case ast.Call(func=ast.Name(id="Integer"), args=[ast.Constant() | ast.UnaryOp() as n]):
            return _parsed(n)
        case ast.UnaryOp(op=ast.USub(), operand=n):
            return _product((None, 0, -1), _parsed(n))
        case ast.BinOp(left=a, op=ast.Add(), right=b) | ast.Call(func=ast.Name(id="Add"), args=[a, b]):
            return _sum(_parsed(a), _parsed(b))
        case ast.BinOp(left=a, op=ast.Sub(), right=b):
            return _sum(_parsed(a), _product((None, 0, -1), _parsed(b)))
        case ast.BinOp(left=a, op=ast.Mult(), right=b) | ast.Call(func=ast.Name(id="Mul"), args=[a, b]):
            return _product(_parsed(a), _parsed(b))
    raise ValueError


def _sum(a: tuple[str | None, int, int], b: tuple[str | None, int, int]) -> tuple[str | None, int, int]:
    if a[0] is not None and b[0] is not None and a[0] != b[0]:
        raise ValueError
    return a[0] or b[0], a[1] + b[1], a[2] + b[2]


def _product(a: tuple[str | None, int, int], b: tuple[str | None, int, int]) -> tuple[str | None, int, int]:
    if a[0] is not None and b[0] is not None:
        raise ValueError
    (name, factor, offset), n = (b, a[2]) if a[0] is None else (a, b[2])
    return name, factor * n, offset * n


def declare(
    shapes: Sequence[Sequence[int | str | Linear]], bounds: Mapping[str, tuple[int | None, int | None]]
) -> list[list[int | str | Dim]]:
    """Return shapes for a program, which has a dim for each name that is a size by itself.

    Where none is, the first function of the name becomes the dim, and the others are functions of that.

    Args:
        shapes: Of the inputs.
        bounds: The least and the greatest value of each name; None for none.
    """
    from torchlette.export import Dim

    base = {n: Linear(n, 1, 0) for shape in shapes for n in shape if isinstance(n, str)}
    for n in (n for shape in shapes for n in shape if isinstance(n, Linear)):
        base.setdefault(n.name, n)
    dims = {}
    for name, to in base.items():
        low, high = (to(n) for n in bounds.get(name, (None, None)))
        if low is not None and low < 0:
            raise damaged(f"the size {to.factor}*{name} + {to.offset} may be {low}")
        dims[name] = Dim(name, min=low, max=high)
        dims[name].step = to.factor, to.offset % to.factor

    def declared(n: int | str | Linear) -> int | str | Dim:
        if isinstance(n, int):
            return n
        of = base[n if isinstance(n, str) else n.name]
        if isinstance(n, str) or n == of:
            return dims[of.name]
        inner = n.name if of.factor == 1 and not of.offset else f"(({n.name} - {of.offset})//{of.factor})"
        return f"={n.factor}*{inner} + {n.offset}"

    return [[declared(n) for n in shape] for shape in shapes]
