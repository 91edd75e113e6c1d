"""Expressions of named sizes for numbers that were seen at several sizes.

A number of a step, such as a size in a reshape, is seen in recordings at several sizes of the named dims. It is one of:

* affine in each dim, or quadratic in one: ``2*n + 1``, ``n*n``;
* a floor division, as strided windows and ``n // 2`` give: ``3*((n - 1)//2 + 1)``;
* a sum or a product of these for several dims, a product also with a constant added.

An expression is used only if it gives the number at all sizes that were seen; more sizes are seen than it has unknowns.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Sequence

__all__ = ["Sizes", "affine", "check_expression", "fit", "fit_float", "value_of"]

#: The sizes of the named dims in one recording.
Sizes = dict[str, int]
#: Divisors that are tried: products of strides.
MAX_DIVISOR = 256
#: The longest expression that a file may have outside of its steps.
MAX_TEXT = 500


def value_of(text: str, point: Sizes) -> float:
    """Return the value of an expression of sizes that the engine has checked, or that this module made."""
    names = {"__builtins__": {}, "sqrt": math.sqrt}
    value: float = eval(compile(text, "size", "eval"), names, dict(point))  # noqa: S307
    return value


def check_expression(text: str, names: Sequence[str]) -> bool:
    """Report that a text of a file is an expression of named sizes, with integers, ``+ - *`` and ``//``."""

    def good(node: ast.AST) -> bool:
        match node:
            case ast.Constant(value=n):
                return type(n) is int
            case ast.Name(id=name):
                return name in names
            case ast.UnaryOp(op=ast.USub(), operand=a):
                return good(a)
            case ast.BinOp(left=a, op=ast.Add() | ast.Sub() | ast.Mult() | ast.FloorDiv(), right=b):
                return good(a) and good(b)
        return False

    try:
        return len(text) <= MAX_TEXT and good(ast.parse(text, mode="eval").body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False


def _holds(text: str, values: Sequence[float], points: Sequence[Sizes]) -> bool:
    try:
        return all(value_of(text, p) == v for p, v in zip(points, values, strict=True))
    except (ArithmeticError, ValueError):
        return False


def _sum(text: str, b: int) -> str:
    return text if b == 0 else f"{text} + {b}" if b > 0 else f"{text} - {-b}"


def _times(a: int, text: str) -> str:
    return text if a == 1 else f"{a}*{text}"


def affine(factor: int, name: str, offset: int) -> str:
    """Return the text of ``factor * name + offset``.

    Args:
        factor: An integer other than 0.
        name: A name.
        offset: An integer.
    """
    return _sum(_times(factor, name), offset)


def _line(name: str, xs: list[int], ys: list[int]) -> str | None:
    """Return an expression of one dim through points of increasing size."""
    if len(set(ys)) == 1:
        return str(ys[0])
    if len(xs) < 2:
        return None
    (x0, x1), (y0, y1) = xs[:2], ys[:2]
    points = [{name: x} for x in xs]
    a, rest = divmod(y1 - y0, x1 - x0)
    if rest == 0 and a != 0:
        text = affine(a, name, y0 - a * x0)
        if _holds(text, ys, points):
            return text
    if len(xs) > 3 and (square := _square(name, xs, ys)) is not None:
        return square
    return _floor(name, xs, ys)


def _square(name: str, xs: list[int], ys: list[int]) -> str | None:
    (x0, x1, x2), (y0, y1, y2) = xs[:3], ys[:3]
    # Newton's divided differences.
    first, rest = divmod((y2 - y1) * (x1 - x0) - (y1 - y0) * (x2 - x1), (x2 - x1) * (x1 - x0) * (x2 - x0))
    if rest or first == 0:
        return None
    slope, rest = divmod(y1 - y0 - first * (x1 * x1 - x0 * x0), x1 - x0)
    if rest:
        return None
    text = _times(first, f"{name}*{name}")
    text = text if slope == 0 else f"{text} + {slope}*{name}"
    text = _sum(text, y0 - first * x0 * x0 - slope * x0)
    return text if _holds(text, ys, [{name: x} for x in xs]) else None


def _floor(name: str, xs: list[int], ys: list[int]) -> str | None:
    """Return ``g*((a*n + b)//m) + c`` with the least m."""
    unit = math.gcd(*(y - ys[0] for y in ys))
    low = ys[0] % unit if unit else 0
    for scale, c in {(unit, low): 0, (1, 0): 0} if unit else {}:
        zs = [(y - c) // scale for y in ys]
        for m in range(2, MAX_DIVISOR + 1):
            for a in (1, 2, 3, 4, -1):
                # Each point bounds b: m*z <= a*x + b < m*(z + 1).
                least = max(m * z - a * x for x, z in zip(xs, zs, strict=True))
                most = min(m * z + m - 1 - a * x for x, z in zip(xs, zs, strict=True))
                if least <= most:
                    b = min(max(0, least), most)
                    inner = _sum("-" + name if a < 0 else _times(a, name), b)
                    text = f"({inner})//{m}"
                    text = text if scale == 1 else f"{scale}*({text})"
                    return _sum(text, c)
    return None


def _lines(
    values: Sequence[int], points: Sequence[Sizes]
) -> tuple[dict[str, tuple[list[int], list[int]]], dict[tuple[int, ...], int]]:
    """Return for each dim the sizes and values where all other dims are as in the first point, and all values."""
    lines: dict[str, tuple[list[int], list[int]]] = {}
    base = points[0]
    for name in base:
        seen = {p[name]: v for p, v in zip(points, values, strict=True) if {**p, name: 0} == {**base, name: 0}}
        lines[name] = sorted(seen), [seen[x] for x in sorted(seen)]
    return lines, {tuple(p.values()): v for p, v in zip(points, values, strict=True)}


def _product(values: Sequence[int], points: Sequence[Sizes]) -> str | None:
    """Return a constant times one factor for each dim that matters."""
    lines, _ = _lines(values, points)
    parts, rest = [], values[0]
    for name, (xs, ys) in lines.items():
        if len(set(ys)) == 1:
            continue
        common = math.gcd(*ys)
        text = _line(name, xs, [y // common for y in ys]) if common else None
        if text is None:
            return None
        at_base = int(value_of(text, points[0]))
        if at_base == 0 or rest % at_base:
            return None
        rest //= at_base
        parts.append(text if text == name else f"({text})")
    text = "*".join(([str(rest)] if rest != 1 else []) + parts)
    return text if parts and _holds(text, values, points) else None


def _joined(values: Sequence[int], points: Sequence[Sizes]) -> str | None:
    """Return a sum of one expression for each dim, or a product and a constant."""
    lines, by_point = _lines(values, points)
    moving = [name for name, (_, ys) in lines.items() if len(set(ys)) > 1]
    if len(moving) == 1:
        text = _line(moving[0], *lines[moving[0]])
        return text if text is not None and _holds(text, values, points) else None
    texts, rest = [], values[0]
    for name in moving:
        xs, ys = lines[name]
        # Without the constant where the line is affine, so that it is written once.
        slope = (ys[1] - ys[0]) // (xs[1] - xs[0])
        low = ys[0] - slope * xs[0]
        text = _line(name, xs, [y - low for y in ys])
        texts.append(text)
        rest -= int(value_of(text, points[0])) if text is not None else 0
    if moving and all(text is not None for text in texts):
        text = _sum(" + ".join(t for t in texts if t is not None), rest)
        if _holds(text, values, points):
            return text
    if (text := _product(values, points)) is not None:
        return text
    if len(moving) != 2:
        return None
    first, second = moving
    for p, v in zip(points, values, strict=True):
        one = by_point.get(tuple({**points[0], first: p[first]}.values()))
        two = by_point.get(tuple({**points[0], second: p[second]}.values()))
        if one is None or two is None or (under := v + values[0] - one - two) == 0:
            continue
        c, left = divmod(v * values[0] - one * two, under)
        if left == 0 and c and (text := _product([x - c for x in values], points)) is not None:
            return _sum(text, c)
    return None


def fit(values: Sequence[int], points: Sequence[Sizes]) -> str | None:
    """Return an expression that gives each value at its point; None if no known form fits."""
    if len(set(values)) == 1:
        return str(values[0])
    return _joined(values, points)


#: Forms of a float by an integer: its text, and the integer that a value asks for.
_FORMS: tuple[tuple[str, Callable[[float], float]], ...] = (
    ("({})*1.0", lambda v: v),
    ("1.0/({})", lambda v: 1 / v),
    ("sqrt({})", lambda v: v * v),
    ("1.0/sqrt({})", lambda v: 1 / (v * v)),
    ("({})**0.5", lambda v: v * v),
    ("({})**-0.5", lambda v: 1 / (v * v)),
)


def fit_float(values: Sequence[float], points: Sequence[Sizes]) -> str | None:
    """Return an expression for floats that are functions of one integer: itself, its inverse, root, inverse root."""
    if not all(math.isfinite(v) and v != 0 for v in values):
        return None
    for form, integer in _FORMS:
        inner = fit([round(integer(v)) for v in values], points)
        if inner is not None and _holds(form.format(inner), values, points):
            return form.format(inner)
    return None
