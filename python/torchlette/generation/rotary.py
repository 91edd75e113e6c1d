"""Rotary positions: how fast the elements of a head turn, and the stretchings of them for texts longer than trained."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torchlette import _C

__all__ = ["KINDS", "Rotary", "Rotation", "stretched"]

Tensor = _C.Tensor
#: Values of ``rope_type``.
KINDS = ("default", "dynamic", "linear", "llama3", "longrope", "yarn")


@dataclass(frozen=True)
class Rotary:
    """Rotary positions: the first ``2 * len(frequencies)`` elements of a head turn by position times frequency.

    Args:
        frequencies: Radians per position, for texts of up to ``limit`` tokens where a text's length matters.
        scale: What cosines and sines are multiplied by.
        limit: The longest text with these frequencies; None where they serve every length.
        beyond: The frequencies of all tokens of a longer text; None where ``growth`` says them.
        growth: How much faster than the text the slowest turn grows beyond ``limit``.
    """

    frequencies: tuple[float, ...]
    scale: float = 1.0
    limit: int | None = None
    beyond: tuple[float, ...] | None = None
    growth: float | None = None


def _number(values: Mapping[str, Any], name: str, default: float | None = None) -> float:
    """Return a positive number of a config."""
    found = values.get(name)
    found = default if found is None else found
    if isinstance(found, bool) or not isinstance(found, (int, float)) or not 0 < found < math.inf:
        raise ValueError(f"load: {name} of the rotary positions of config.json is {found!r}, want a number above 0")
    return float(found)


def stretched(kind: str, theta: float, dim: int, scaling: Mapping[str, Any], positions: int) -> Rotary:
    """Return the rotary positions of a config.

    Args:
        kind: One of :data:`KINDS`.
        theta: The base: frequencies are powers of it.
        dim: Elements of a head that turn.
        scaling: ``rope_parameters`` of the config.
        positions: The longest text that the model is for.
    """
    plain = [theta ** (-i / dim) for i in range(0, dim, 2)]
    if kind == "linear":
        factor = _number(scaling, "factor")
        return Rotary(tuple(f / factor for f in plain))
    if kind == "llama3":
        return Rotary(tuple(_llama3(f, scaling, positions) for f in plain))
    if kind == "dynamic":
        return Rotary(tuple(plain), limit=positions, growth=_number(scaling, "factor"))
    if kind == "yarn":
        return _yarn(plain, theta, dim, scaling, positions)
    return _longrope(plain, scaling, positions) if kind == "longrope" else Rotary(tuple(plain))


def _llama3(frequency: float, scaling: Mapping[str, Any], positions: int) -> float:
    """Return a frequency of Llama 3.1: slow ones are divided, fast ones kept, those between interpolated."""
    factor, low, high = (_number(scaling, k) for k in ("factor", "low_freq_factor", "high_freq_factor"))
    turns = _number(scaling, "original_max_position_embeddings", positions) * frequency / (2 * math.pi)
    smooth = min(max((turns - low) / (high - low), 0.0), 1.0)
    return (1 - smooth) * frequency / factor + smooth * frequency


def _yarn(plain: list[float], theta: float, dim: int, scaling: Mapping[str, Any], positions: int) -> Rotary:
    """Return YaRN's positions: turns that are slow over the trained length are divided, and scores sharpened."""
    trained = _number(scaling, "original_max_position_embeddings", positions)
    factor = _number(scaling, "factor", positions / trained)

    def magnitude(weight: float) -> float:
        return 1.0 if factor <= 1 else 0.1 * weight * math.log(factor) + 1.0

    def element(turns: float) -> float:
        return dim * math.log(trained / (turns * 2 * math.pi)) / (2 * math.log(theta))

    scale = magnitude(1.0)
    if scaling.get("mscale") and scaling.get("mscale_all_dim"):
        scale = magnitude(_number(scaling, "mscale")) / magnitude(_number(scaling, "mscale_all_dim"))
    low, high = element(_number(scaling, "beta_fast", 32.0)), element(_number(scaling, "beta_slow", 1.0))
    if scaling.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, dim - 1)
    width = high - low or 0.001
    slow = [min(max((i - low) / width, 0.0), 1.0) for i in range(len(plain))]
    frequencies = tuple(f / factor * part + f * (1 - part) for f, part in zip(plain, slow, strict=True))
    return Rotary(frequencies, _number(scaling, "attention_factor", scale))


def _longrope(plain: list[float], scaling: Mapping[str, Any], positions: int) -> Rotary:
    """Return LongRoPE's positions: a divisor for each frequency, and others for texts longer than trained."""
    trained = _number(scaling, "original_max_position_embeddings", positions)
    factor = _number(scaling, "factor", positions / trained)
    found = []
    for name in ("short_factor", "long_factor"):
        divisors = scaling[name]
        if len(divisors) != len(plain):
            raise ValueError(f"load: {name} of config.json has {len(divisors)} numbers, want {len(plain)}")
        found.append(tuple(f / float(d) for f, d in zip(plain, divisors, strict=True)))
    scale = 1.0 if factor <= 1 else math.sqrt(1 + math.log(factor) / math.log(trained))
    return Rotary(found[0], _number(scaling, "attention_factor", scale), int(trained), found[1])


class Rotation:
    """Cosines and sines of a :class:`Rotary` on a device.

    Frequencies are neither parameters nor buffers, for they stay float32 where a model becomes another dtype.

    Args:
        rotary: The frequencies.
        device: Where positions are.
    """

    def __init__(self, rotary: Rotary, device: _C.device) -> None:
        """Place the frequencies."""
        self.rotary = rotary
        self.place(device)

    def place(self, device: _C.device) -> None:
        """Go on with positions on this device. Not left to the first of them, which may belong to a captured step."""
        r, beyond = self.rotary, self.rotary.beyond
        if r.growth is not None:
            # The base grows by a power that divides the slowest turn by the growth, and the fastest by one.
            n = len(r.frequencies)
            beyond = tuple(-i / max(n - 1, 1) for i in range(n))
        self._short = _C.tensor(r.frequencies, dtype=_C.float32, device=device)
        self._long = None if beyond is None else _C.tensor(beyond, dtype=_C.float32, device=device)

    def _of(self, positions: Tensor, reach: Tensor | None) -> Tensor:
        """Return the frequencies of positions, a tensor."""
        r, short, long = self.rotary, self._short, self._long
        if long is None or r.limit is None:
            return short
        reach = positions.amax() + 1 if reach is None else reach
        if r.growth is None:
            return _C.where(reach > r.limit, long, short)
        excess = (reach.to(_C.float32) / r.limit - 1).clamp(min=0)
        return short * (1 + r.growth * excess) ** long

    def angles(self, positions: Tensor, reach: Tensor | None, dtype: _C.dtype) -> tuple[Tensor, Tensor]:
        """Return cosines and sines, [batch or 1, 1, steps, frequencies].

        Args:
            positions: int64 [batch or 1, steps].
            reach: Tokens of the longest text; None if its last one is among the positions.
            dtype: Of the results.
        """
        turns = (positions.unsqueeze(-1).to(_C.float32) * self._of(positions, reach)).unsqueeze(1)
        cos, sin = turns.cos(), turns.sin()
        if self.rotary.scale != 1.0:
            cos, sin = cos * self.rotary.scale, sin * self.rotary.scale
        return cos.to(dtype), sin.to(dtype)
