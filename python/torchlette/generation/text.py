"""Texts that grow: tokens and logits after them, with a cache or without."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from torchlette import _C
from torchlette._runtime.captured import CapturingContext
from torchlette.generation.cache import Cache, Step, capacity_for
from torchlette.generation.models import Decoder
from torchlette.generation.options import Options

__all__ = ["CachedText", "Choose", "RecomputedText", "Text"]

Tensor = _C.Tensor
#: Gets logits [rows, steps, vocab], and gives what the caller wants of them.
Choose = Callable[[Tensor], Tensor]


class Text(Protocol):
    """Texts whose next token is computed."""

    @property
    def vocab(self) -> int | None:
        """How many tokens the model has; None where only its logits tell."""

    def prompt(self, choose: Choose) -> Tensor:
        """Return what ``choose`` makes of the logits after the prompts."""

    def extend(self, tokens: Tensor, choose: Choose) -> Tensor:
        """Add tokens [rows, steps], and return what ``choose`` makes of the logits after them."""

    def rewind(self, length: int) -> None:
        """Forget all tokens but the first ``length``, those of the prompt included."""

    def reorder(self, rows: Tensor) -> None:
        """Let text i continue as text ``rows[i]``."""

    def together(self) -> int | None:
        """Return how many tokens may come at once and count as if one came after another; None for any number."""


class CachedText:
    """Texts of a :class:`Decoder`: each step computes the new tokens only, in a captured program.

    A step's program is for the modules, hooks and flags of the model at its capture, as in ``jax.jit``; weights may be
    written at any time. It looks at each call only at what ``choose`` depends on.

    Args:
        model: The decoder.
        ids: The prompts, int64 [rows, steps].
        mask: [rows, steps], 0 for padding; None for none.
        limit: The longest text.
        options: Sizes of chunks and of the cache.
        cross: Keys and values of an encoder.
    """

    def __init__(
        self, model: Decoder, ids: Tensor, mask: Tensor | None, limit: int, options: Options, cross: Any = None
    ) -> None:
        """Allocate the cache."""
        self._model, self._ids, self._cross, self._limit = model, ids, cross, limit
        self._chunk = options.prefill_chunk_size
        rows, self.length = ids.shape
        fixed = options.max_cache_length
        if fixed is not None and fixed < limit:
            raise ValueError(f"generate: max_cache_length is {fixed}, want at least {limit}: prompt and new tokens")
        capacity = capacity_for(self.length + 1, limit) if fixed is None else fixed
        self._cache = Cache(model.spec, rows, capacity, model.dtype, ids.device)
        self._seen: Tensor | None = None
        # Of the next token. A step adds to both at its end, so that the next one need not begin by computing them.
        self._places = _C.zeros(1, dtype=_C.int64, device=ids.device)
        if mask is None:
            self._first = _C.arange(self.length, device=ids.device).unsqueeze(0)
        else:
            self._first = (mask.to(_C.int64).cumsum(-1) - 1).clamp(min=0)
            self._seen = _C.ones(rows, capacity, dtype=_C.bool, device=ids.device)
            self._seen[:, : self.length] = mask.to(_C.bool)
        # Position in the text less place in the cache: padding on the left makes it differ by row.
        self._shift = self._first[:, -1:] + (1 - self.length)
        self._positions = _C.zeros_like(self._shift)
        self._captured: dict[Choose, Callable[[Tensor], Tensor]] = {}
        rotary = model.spec.rotary
        # The tokens, where a longer text turns all of its keys otherwise; and whether the text is so long.
        self._kept: Tensor | None = None
        self._padding = 0
        if rotary is not None and rotary.limit is not None and mask is not None:
            self._padding = self.length - 1 - int(self._first[:, -1].amax().item())
        if rotary is not None and rotary.beyond is not None:
            self._kept = _C.zeros(rows, capacity, dtype=_C.int64, device=ids.device)
            self._kept[:, : self.length] = ids
            self._long = self._is_long()

    @property
    def device(self) -> _C.device:
        """Where the texts are."""
        return self._ids.device

    @property
    def vocab(self) -> int | None:
        """How many tokens the model has."""
        return self._model.spec.vocab_size

    def written(self) -> int:
        """Return how often parameters and buffers of the model were written."""
        return sum(t._version for t in (*self._model.parameters(), *self._model.buffers()))

    def prompt(self, choose: Choose) -> Tensor:
        """Return what ``choose`` makes of the logits after the prompts."""
        logits = self._read(self._ids, self._first, None if self._first.shape[1] <= self._chunk else self._reach())
        self._move()
        return choose(logits)

    def together(self) -> int | None:
        """Return how many tokens may come at once and count as if one came after another; None for any number."""
        rotary = self._model.spec.rotary
        if rotary is None or rotary.limit is None:
            return None
        left = rotary.limit - (self.length - self._padding)
        return left if left > 0 else None if rotary.growth is None else 1

    def _reach(self) -> Tensor:
        """Return the tokens of the longest text, padding left out."""
        return (self._shift + self.length).amax()

    def _is_long(self) -> bool:
        """Whether the texts are longer than the frequencies of short ones serve."""
        rotary = self._model.spec.rotary
        assert rotary is not None
        assert rotary.limit is not None
        return self.length - self._padding > rotary.limit

    def _read(self, ids: Tensor, positions: Tensor, reach: Tensor | None) -> Tensor:
        """Compute keys and values of the first tokens in chunks; return the logits after the last one."""
        length = ids.shape[1]
        for at in range(0, length, self._chunk):
            end = min(at + self._chunk, length)
            step = Step(
                self._model.spec,
                positions[:, at:end],
                places=_C.arange(at, end, device=ids.device),
                seen=self._seen,
                keys=self._cache.capacity,
                start=at == 0 and self._seen is None,
                cross=self._cross,
                reach=reach,
            )
            logits = self._model.extend(ids[:, at:end], step, self._cache)
            if end < length:
                _C.mark_step()
        return logits

    def extend(self, tokens: Tensor, choose: Choose) -> Tensor:
        """Add tokens [rows, steps], and return what ``choose`` makes of the logits after them."""
        before = self.length
        self.length += tokens.shape[1]
        if self.length > self._cache.capacity:
            self._grow()
        if self._kept is not None and self._is_long() != self._long:
            self._long = not self._long
            positions = (self._shift + _C.arange(before, device=tokens.device)).clamp(min=0)
            self._read(self._kept[:, :before], positions, self._reach())
            _C.mark_step()
        if choose not in self._captured:
            context = CapturingContext(False, True, True, {})
            # To compare the tables of all modules of a model takes a tenth of a token's time.
            context.roots = (choose,)
            self._captured[choose] = context.function(
                _step(
                    *(self._model, self._cache, self._places, self._positions, self._seen, self._kept, self._cross),
                    choose,
                )
            )
        return self._captured[choose](tokens)

    def _grow(self) -> None:
        """Double the cache. What was captured read the former one."""
        self._captured.clear()
        before = self._cache.capacity
        self._cache.grow(capacity_for(self.length, max(self._limit, self.length)))
        if self._seen is not None:
            self._seen = _C.constant_pad_nd(self._seen, (0, self._cache.capacity - before), True)
        if self._kept is not None:
            self._kept = _C.constant_pad_nd(self._kept, (0, self._cache.capacity - before))
        _C.mark_step()

    def rewind(self, length: int) -> None:
        """Forget all tokens but the first ``length``: later ones take their places."""
        if length != self.length:
            self.length = length
            self._move()

    def _move(self) -> None:
        """Let the next token follow the first ``length``."""
        self._places.fill_(self.length)
        self._positions.copy_(self._shift + self.length)

    def reorder(self, rows: Tensor) -> None:
        """Let text i continue as text ``rows[i]``."""
        self._cache.reorder(rows)
        if self._kept is not None:
            self._kept.copy_(self._kept.index_select(0, rows))


def _step(
    model: Decoder,
    cache: Cache,
    places: Tensor,
    positions: Tensor,
    seen: Tensor | None,
    kept: Tensor | None,
    cross: Any,
    choose: Choose,
) -> Callable[[Tensor], Tensor]:
    """Return the function that a step of decoding is; what differs between steps is in its tensors."""

    def step(tokens: Tensor) -> Tensor:
        count = tokens.shape[1]
        new, at = places, positions
        if count > 1:
            steps = _C.arange(count, device=tokens.device)
            new, at = places + steps, positions + steps
        if kept is not None:
            kept.index_copy_(1, new, tokens)
        where = Step(model.spec, at, places=new, seen=seen, keys=cache.capacity, cross=cross)
        result = choose(model.extend(tokens, where, cache, last=count == 1))
        places.add_(count)
        positions.add_(count)
        return result

    return step


class RecomputedText:
    """Texts of any function from tokens [rows, steps] to logits [rows, steps, vocab], computed whole at each step.

    Args:
        function: A module, a session, a function. Of several results the first counts, of an object its ``logits``.
        ids: The prompts.
    """

    def __init__(self, function: Callable[..., Any], ids: Tensor) -> None:
        """Note the prompts."""
        self._function, self._ids = function, ids

    @property
    def vocab(self) -> int | None:
        """None: only logits tell."""
        return None

    def _logits(self, steps: int) -> Tensor:
        found = self._function(self._ids)
        if isinstance(found, (tuple, list)):
            found = found[0]
        logits = found if isinstance(found, _C.Tensor) else getattr(found, "logits", None)
        if not isinstance(logits, _C.Tensor) or logits.ndim != 3:
            raise TypeError("generate: the model must return logits [batch, steps, vocab], or an object that has them")
        return logits[:, -steps:].to(device=self._ids.device, dtype=_C.float32)

    def prompt(self, choose: Choose) -> Tensor:
        """Return what ``choose`` makes of the logits after the prompts."""
        return choose(self._logits(1))

    def extend(self, tokens: Tensor, choose: Choose) -> Tensor:
        """Add tokens [rows, steps], and return what ``choose`` makes of the logits after them."""
        self._ids = _C.cat([self._ids, tokens], 1)
        return choose(self._logits(tokens.shape[1]))

    def rewind(self, length: int) -> None:
        """Forget all tokens but the first ``length``."""
        self._ids = self._ids[:, :length]

    def reorder(self, rows: Tensor) -> None:
        """Let text i continue as text ``rows[i]``."""
        self._ids = self._ids.index_select(0, rows)

    def together(self) -> int | None:
        """Return None: all tokens are computed anew."""
        return None
