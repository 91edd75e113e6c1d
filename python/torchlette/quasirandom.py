"""Sobol sequences: points that fill the unit cube more evenly than random ones."""

from __future__ import annotations

import os
import random
from typing import Any

from torchlette import _C

__all__ = ["SobolEngine"]

#: How many primitive polynomials over GF(2) there are of degree 1, 2, ... 18.
_POLYNOMIALS = (1, 1, 2, 2, 6, 6, 18, 16, 48, 60, 176, 144, 630, 756, 1800, 2048, 7710, 7776)
_MAXBIT = 30


def _degrees(dimension: int) -> list[int]:
    """Return the degrees of the polynomials of dims 1 up to ``dimension``; dim 0 has none."""
    return [d for d, count in enumerate(_POLYNOMIALS, 1) for _ in range(count)][: dimension - 1]


def _directions(dimension: int) -> list[list[int]]:
    """Return the direction numbers [dimension][30], as integers of 30 bits.

    The file has for each dim after the first the inner coefficients of its primitive polynomial and its first direction
    numbers, the last bit of which is 1 and left out: those of S. Joe and F. Kuo ("Constructing Sobol sequences with
    better two-dimensional projections", SIAM J. Sci. Comput. 30, 2008), search criterion D(6).
    """
    degrees = _degrees(dimension)
    bits = sum(d - 1 + d * (d - 1) // 2 for d in degrees)
    with open(os.path.join(os.path.dirname(__file__), "_runtime", "sobol.bin"), "rb") as file:
        data = file.read(-(-bits // 8))
    at = 0

    def take(count: int) -> int:
        nonlocal at
        word = int.from_bytes(data[at >> 3 : (at + count + 7) >> 3], "little") >> (at & 7)
        at += count
        return word & ((1 << count) - 1)

    rows = [[1] * _MAXBIT]
    for d in degrees:
        polynomial = take(d - 1)
        m = [1] + [take(j) << 1 | 1 for j in range(1, d)]
        for j in range(d, _MAXBIT):
            v = m[j - d] ^ m[j - d] << d
            for k in range(1, d):
                if polynomial >> (k - 1) & 1:
                    v ^= m[j - k] << k
            m.append(v)
        rows.append(m)
    return [[v << (_MAXBIT - 1 - j) for j, v in enumerate(m)] for m in rows]


def _seeded_bits(seed: int, count: int) -> Any:
    """Return the bits that PyTorch's CPU generator of that seed draws for ``randint(2, (count,))``.

    That generator is the Mersenne Twister MT19937 with the initialization of its authors, which takes 32 bits.
    """
    words = [seed & 0xFFFFFFFF]
    for i in range(1, 624):
        words.append((1812433253 * (words[-1] ^ words[-1] >> 30) + i) & 0xFFFFFFFF)
    generator = random.Random()
    generator.setstate((3, (*words, 624), None))
    drawn = generator.getrandbits(32 * count).to_bytes(4 * count, "little")
    return _C.tensor(bytearray(drawn[::4]), dtype=_C.uint8).to(_C.int64) & 1


class SobolEngine:
    """Draws the points of a Sobol sequence, scrambled if asked for.

    Args:
        dimension: The number of coordinates of a point, from 1 to 21201.
        scramble: Apply a random linear scramble and a random shift (Owen, "Scrambling Sobol and Niederreiter-Xing
            points", J. Complexity 14, 1998).
        seed: Of the scramble. The points are then those that PyTorch gives for the seed. None: the scramble is drawn
            from the default generator.

    Raises:
        ValueError: If ``dimension`` is out of range.

    Example:
        >>> from torchlette.quasirandom import SobolEngine
        >>> SobolEngine(2).draw(3).tolist()
        [[0.0, 0.0], [0.5, 0.5], [0.75, 0.25]]
    """

    MAXBIT = _MAXBIT
    MAXDIM = 21201

    def __init__(self, dimension: int, scramble: bool = False, seed: int | None = None) -> None:
        if dimension > self.MAXDIM or dimension < 1:
            raise ValueError(f"Supported range of dimensionality for SobolEngine is [1, {self.MAXDIM}]")
        self.seed = seed
        self.scramble = scramble
        self.dimension = dimension
        self.sobolstate = _C.tensor(_directions(dimension), dtype=_C.int64, device="cpu")
        self.shift = _C.zeros(dimension, dtype=_C.int64, device="cpu")
        if scramble:
            self._scramble()
        self.quasi = self.shift.clone()
        self.num_generated = 0

    @property
    def _first_point(self) -> _C.Tensor:
        point: _C.Tensor = (self.shift / 2**_MAXBIT).reshape(1, -1)
        return point

    def _scramble(self) -> None:
        count, corner = self.dimension, (self.dimension, _MAXBIT, _MAXBIT)
        sizes = count * _MAXBIT, count * _MAXBIT * _MAXBIT
        if self.seed is None:
            drawn = _C.randint(0, 2, (sum(sizes),), dtype=_C.int64, device="cpu")
        else:
            drawn = _seeded_bits(self.seed, sum(sizes)).cpu()
        weights = _C.tensor([1 << b for b in range(_MAXBIT)], dtype=_C.int64, device="cpu")
        self.shift = (drawn[: sizes[0]].reshape(count, _MAXBIT) * weights).sum(1)
        lower = drawn[sizes[0] :].reshape(corner).tril(-1) + _C.eye(_MAXBIT, dtype=_C.int64, device="cpu")
        falling = weights.flip(0)
        bits = self.sobolstate.unsqueeze(-1).bitwise_and(falling).ne(0).to(_C.int64)
        self.sobolstate = ((bits @ lower.transpose(1, 2)) % 2 * falling).sum(-1)

    def _advanced(self, start: int, steps: _C.Tensor) -> _C.Tensor:
        """Return the states [n, dimension] after so many steps [n] from the point of number ``start``.

        The state of point k is the sum modulo 2 of the direction numbers that the bits of k's Gray code name.
        """
        last = start + int(steps[-1].item())
        if last >> _MAXBIT:
            raise ValueError(f"SobolEngine has 2**{_MAXBIT} points")
        places: Any = steps + start
        codes = (places ^ places >> 1 ^ (start ^ start >> 1)).unsqueeze(1)
        state = self.quasi.expand(len(steps), self.dimension)
        for b in range(max(last.bit_length(), 1)):
            state = state ^ ((codes >> b & 1) * self.sobolstate[:, b])
        return state

    def draw(self, n: int = 1, out: _C.Tensor | None = None, dtype: _C.dtype | None = None) -> _C.Tensor:
        """Return the next points, [n, dimension].

        Args:
            n: The number of points.
            out: Resized and filled with the points.
            dtype: Of the points. None: the default dtype.

        Raises:
            ValueError: If the sequence has no so many points.
        """
        dtype = _C.get_default_dtype() if dtype is None else dtype
        first = self.num_generated == 0
        steps = _C.arange(0 if first else 1, n if first else n + 1, dtype=_C.int64, device="cpu")
        states = self._advanced(max(self.num_generated - 1, 0), steps) if n else self.quasi.new_empty(0, self.dimension)
        if n:
            self.quasi = states[-1].clone()
        self.num_generated += n
        points = states.to(dtype) * 2.0**-_MAXBIT
        if out is not None:
            out.resize_as_(points).copy_(points)
            return out
        return points

    def draw_base2(self, m: int, out: _C.Tensor | None = None, dtype: _C.dtype | None = None) -> _C.Tensor:
        """Return the next 2**m points, [2**m, dimension].

        Args:
            m: The logarithm of the number of points.
            out: Resized and filled with the points.
            dtype: Of the points. None: the default dtype.

        Raises:
            ValueError: If the number of all points is then no power of 2.
        """
        n = 2**m
        total = self.num_generated + n
        if total & (total - 1):
            raise ValueError(
                "The balance properties of Sobol' points require n to be a power of 2. "
                f"{self.num_generated} points have been previously generated, then: "
                f"n={self.num_generated}+2**{m}={total}. "
                "If you still want to do this, please use 'SobolEngine.draw()' instead."
            )
        return self.draw(n, out, dtype)

    def reset(self) -> SobolEngine:
        """Go back to the first point; return the engine."""
        self.quasi.copy_(self.shift)
        self.num_generated = 0
        return self

    def fast_forward(self, n: int) -> SobolEngine:
        """Skip ``n`` points; return the engine.

        Raises:
            ValueError: If the sequence has no so many points.
        """
        if n:
            skipped = n - 1 if self.num_generated == 0 else n
            steps = _C.full((1,), skipped, dtype=_C.int64, device="cpu")
            self.quasi = self._advanced(max(self.num_generated - 1, 0), steps)[0].clone()
            self.num_generated += n
        return self

    def __repr__(self) -> str:
        parts = [f"dimension={self.dimension}"]
        if self.scramble:
            parts.append("scramble=True")
        if self.seed is not None:
            parts.append(f"seed={self.seed}")
        return f"{type(self).__name__}({', '.join(parts)})"
