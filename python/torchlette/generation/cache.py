"""Keys and values of the tokens so far, and the positions and masks of a step.

Keys and values have a fixed number of places. Where a token goes is a value in a tensor, so one plan and one captured
program serve every position.
"""

from __future__ import annotations

from collections.abc import Sequence

from torchlette import _C
from torchlette.generation.rotary import Rotation
from torchlette.generation.specs import Spec

__all__ = ["Cache", "Step", "capacity_for"]

Tensor = _C.Tensor
#: The fewest places of a cache that grows.
SMALLEST = 256


def capacity_for(length: int, limit: int) -> int:
    """Return the places of a cache that holds ``length`` tokens and may grow up to ``limit``: a power of two."""
    places = SMALLEST
    while places < length:
        places *= 2
    return max(length, min(places, limit))


class Step:
    """What one call of a stack of layers knows of its tokens, beside their values.

    Args:
        spec: The stack.
        positions: int64 [batch or 1, steps]: positions in the text.
        places: int64 [steps]: places in the cache; None without a cache.
        seen: Bool [batch, keys]: the keys that hold a token of the text; None for all.
        keys: The number of keys.
        start: Whether these are the first tokens of texts without padding, so that each sees those before it.
        cross: Keys and values of an encoder for each layer.
        reach: Tokens of the longest text, int64 []; None if its last token is among these.
    """

    def __init__(
        self,
        spec: Spec,
        positions: Tensor,
        *,
        places: Tensor | None = None,
        seen: Tensor | None = None,
        keys: int,
        start: bool = False,
        cross: list[tuple[Tensor, Tensor]] | None = None,
        reach: Tensor | None = None,
    ) -> None:
        """Note what is known; masks are made when a layer asks."""
        self.spec, self.positions, self.places, self.seen = spec, positions, places, seen
        self.keys, self.start, self.cross, self.reach = keys, start, cross, reach
        self._angles: list[tuple[Tensor, Tensor]] = []
        self._masks: dict[int | None, Tensor | str | None] = {}

    def turn(self, rotations: Sequence[Rotation], dtype: _C.dtype) -> None:
        """Compute the cosines and sines of rotary positions: those of all layers, or of layers without a window."""
        self._angles = [rotation.angles(self.positions, self.reach, dtype) for rotation in rotations]

    def angles(self, layer: int) -> tuple[Tensor, Tensor] | None:
        """Return the cosines and sines of a layer; None where it has no rotary positions."""
        if not self._angles or layer in self.spec.unturned:
            return None
        return self._angles[0 if self.spec.windows[layer] is None else -1]

    def window(self, layer: int) -> int | None:
        """Return how many keys a step sees in a layer, itself included; None for all before it."""
        window = self.spec.windows[layer]
        return None if window is None or window >= self.keys else window

    def reads_cache(self, layer: int) -> bool:
        """Whether attention reads the cache, and not the new keys and values alone."""
        return not self.start or self.window(layer) is not None

    def mask(self, layer: int) -> Tensor | str | None:
        """Return which keys each step sees: bool [batch or 1, 1, steps, keys], "causal", or None for all."""
        window = self.window(layer)
        if window not in self._masks:
            self._masks[window] = self._mask(window)
        return self._masks[window]

    def _mask(self, window: int | None) -> Tensor | str | None:
        if not self.spec.causal:
            return None if self.seen is None else self.seen[:, None, None, :]
        if self.start and window is None:
            return "causal"
        keys = _C.arange(self.keys, device=self.positions.device)
        places = keys if self.places is None else self.places
        rows = places.unsqueeze(-1)
        mask = keys <= rows
        if window is not None:
            mask = mask & (keys > rows - window)
        if self.seen is None:
            return mask[None, None]
        # A step of padding sees itself: a row without any key would be NaN.
        return (mask & (self.seen[:, None, :] | (keys == rows)))[:, None]


class Cache:
    """Keys and values of each layer, [batch, kv heads, capacity, head].

    Args:
        spec: The model.
        batch: Number of texts.
        capacity: Places.
        dtype: Of the values.
        device: Of the values.
    """

    def __init__(self, spec: Spec, batch: int, capacity: int, dtype: _C.dtype, device: _C.device) -> None:
        """Allocate the places."""
        self.spec, self.batch, self.capacity = spec, batch, capacity
        shape = (batch, spec.kv_heads, capacity, spec.head_dim)
        self.keys = [_C.zeros(shape, dtype=dtype, device=device) for _ in range(spec.layers)]
        self.values = [_C.zeros(shape, dtype=dtype, device=device) for _ in range(spec.layers)]

    def update(self, layer: int, k: Tensor, v: Tensor, step: Step) -> tuple[Tensor, Tensor]:
        """Store keys and values of new tokens, and return the ones that attention reads.

        Args:
            layer: The layer's index.
            k: Keys [batch, kv heads, steps, head].
            v: Values like ``k``.
            step: The tokens' places.
        """
        places = step.places
        assert places is not None
        # Unchecked, so that a GPU stores both in one dispatch: a text has room for its tokens before a step.
        _C._unsafe_index_copy_(self.keys[layer], 2, places, k)
        _C._unsafe_index_copy_(self.values[layer], 2, places, v)
        return (self.keys[layer], self.values[layer]) if step.reads_cache(layer) else (k, v)

    def grow(self, capacity: int) -> None:
        """Move to a cache of more places."""
        extra = (0, 0, 0, capacity - self.capacity)
        self.keys = [_C.constant_pad_nd(t, extra) for t in self.keys]
        self.values = [_C.constant_pad_nd(t, extra) for t in self.values]
        self.capacity = capacity

    def reorder(self, rows: Tensor) -> None:
        """Let text i continue the text ``rows[i]``."""
        for table in (self.keys, self.values):
            for t in table:
                t.copy_(t.index_select(0, rows))
