"""Line search by cubic interpolation until the strong Wolfe conditions hold.

The method is Algorithm 3.5 and 3.6 of J. Nocedal and S. Wright, "Numerical Optimization" (2006), with the
safeguards of minFunc (M. Schmidt, 2005), in the form of ``torch.optim.LBFGS``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from torchlette import _C

__all__ = ["Point", "strong_wolfe"]


@dataclass
class Point:
    """A loss and its gradient; on a line also the position and the slope along the line."""

    loss: float
    gradient: _C.Tensor
    place: float = 0.0
    slope: float = 0.0

    def steepness(self) -> float:
        """Return the largest absolute element of the gradient."""
        return self.gradient.abs().max().item()


# Factors of the conditions: sufficient decrease and curvature.
_DECREASE, _CURVATURE = 1e-4, 0.9
_SMALLEST_BRACKET = 1e-9


def _cubic_minimum(a: Point, b: Point, bounds: tuple[float, float] | None = None) -> float:
    """Return the minimum of the cubic through losses and slopes of two points, clamped to ``bounds``."""
    low, high = bounds if bounds is not None else (min(a.place, b.place), max(a.place, b.place))
    if b.place < a.place:
        a, b = b, a
    d1 = a.slope + b.slope - 3 * (a.loss - b.loss) / (a.place - b.place)
    square = d1**2 - a.slope * b.slope
    if not square >= 0:
        return (low + high) / 2.0
    d2 = math.sqrt(square)
    divisor = b.slope - a.slope + 2 * d2
    lowest = b.place - (b.place - a.place) * ((b.slope + d2 - d1) / divisor) if divisor != 0 else math.nan
    return min(max(lowest, low), high)


def strong_wolfe(
    evaluate: Callable[[float], Point],
    length: float,
    direction: _C.Tensor,
    begin: Point,
    slope: float,
    width: float,
    most: int,
) -> tuple[Point, float, int]:
    """Search along a line.

    Args:
        evaluate: Returns the point at a distance.
        length: The first distance.
        direction: The line's direction.
        begin: The point at distance 0.
        slope: The slope there.
        width: The largest absolute element of ``direction``.
        most: Evaluations after the first one.

    Returns:
        The point found, its distance and the number of evaluations.
    """
    begin = replace(begin, place=0.0, slope=slope)

    def at(place: float) -> Point:
        point = evaluate(place)
        return replace(point, place=place, slope=point.gradient.dot(direction).item())

    bracket, done, used = _bracket(at, begin, length, most)
    if not done:
        bracket, used = _zoom(at, begin, bracket, width, used, most)
    best = min(bracket, key=lambda point: point.loss)
    return best, best.place, used + 1


def _bracket(at: Callable[[float], Point], begin: Point, length: float, most: int) -> tuple[list[Point], bool, int]:
    """Return one point that fulfils the conditions, or two that bracket one; and the number of further evaluations."""
    before, point = begin, at(length)
    for used in range(most):
        if point.loss > begin.loss + _DECREASE * point.place * begin.slope or (used > 1 and point.loss >= before.loss):
            return [before, point], False, used
        if abs(point.slope) <= -_CURVATURE * begin.slope:
            return [point], True, used
        if point.slope >= 0:
            return [before, point], False, used
        bounds = (point.place + 0.01 * (point.place - before.place), point.place * 10)
        before, point = point, at(_cubic_minimum(before, point, bounds))
    return [begin, point], False, max(most, 0)


def _zoom(
    at: Callable[[float], Point], begin: Point, bracket: list[Point], width: float, used: int, most: int
) -> tuple[list[Point], int]:
    """Narrow a bracket until its lower end fulfils the conditions."""
    low, high = bracket if bracket[0].loss <= bracket[1].loss else bracket[::-1]
    stuck = False
    while used < most and abs(high.place - low.place) * width >= _SMALLEST_BRACKET:
        ends = (low.place, high.place)
        place, stuck = _inside(_cubic_minimum(low, high), min(ends), max(ends), stuck)
        point = at(place)
        used += 1
        if point.loss > begin.loss + _DECREASE * place * begin.slope or point.loss >= low.loss:
            high = point
            if high.loss < low.loss:
                low, high = high, low
            continue
        if abs(point.slope) <= -_CURVATURE * begin.slope:
            return [point], used
        if point.slope * (high.place - low.place) >= 0:
            high = low
        low = point
    return [low, high], used


def _inside(place: float, left: float, right: float, stuck: bool) -> tuple[float, bool]:
    """Move ``place`` away from the ends of a bracket if it stays too close; return also whether it was close."""
    margin = 0.1 * (right - left)
    if min(right - place, place - left) >= margin:
        return place, False
    if stuck or place >= right or place <= left:
        return (right - margin if abs(place - right) < abs(place - left) else left + margin), False
    return place, True
