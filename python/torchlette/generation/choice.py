"""The choice of the next token: filters of logits, then the largest or a draw."""

from __future__ import annotations

from torchlette import _C
from torchlette.generation.options import Options

__all__ = ["Chooser", "filtered", "penalized"]

Tensor = _C.Tensor
_NEVER = float("-inf")


def penalized(scores: Tensor, used: Tensor, penalty: float) -> Tensor:
    """Return scores with those of used tokens divided by the penalty, or multiplied where they are negative.

    Args:
        scores: Float32 [rows, vocab].
        used: Bool [rows, vocab].
        penalty: Above 1 for fewer repetitions.
    """
    return _C.where(used, _C.where(scores < 0, scores * penalty, scores / penalty), scores)


def filtered(scores: Tensor, options: Options, keep: int = 1) -> Tensor:
    """Return the logits that a draw is from: temperature, top-k, top-p, min-p, in this order.

    Args:
        scores: Float32 [rows, vocab].
        options: The filters.
        keep: How many tokens at least stay possible.
    """
    if options.temperature != 1.0:
        scores = scores / options.temperature
    if options.top_k > 0:
        count = min(max(options.top_k, keep), scores.shape[-1])
        scores = scores.masked_fill(scores < _C.topk(scores, count)[0][..., -1:], _NEVER)
    if options.top_p < 1.0:
        ordered, order = _C.sort(scores, -1)
        drop = _C.softmax(ordered, -1).cumsum(-1) <= 1 - options.top_p
        kept = _C.arange(scores.shape[-1], device=scores.device) >= scores.shape[-1] - keep
        scores = scores.masked_fill(_C.zeros_like(drop).scatter(-1, order, drop & ~kept), _NEVER)
    if options.min_p is not None:
        probabilities = _C.softmax(scores, -1)
        drop = probabilities < options.min_p * probabilities.amax(-1, keepdim=True)
        best = _C.topk(probabilities, min(keep, probabilities.shape[-1]))[1]
        scores = scores.masked_fill(drop.scatter(-1, best, False), _NEVER)
    return scores


class Chooser:
    """Chooses the next token of each row. Its state is on the device.

    A call is part of a captured step, so all that changes is in tensors.

    Args:
        options: What to choose.
        vocab: Number of tokens.
        ids: The prompts, int64 [rows, steps].
        mask: Bool [rows, steps], False for padding, which no penalty counts; None for none.
    """

    def __init__(self, options: Options, vocab: int, ids: Tensor, mask: Tensor | None = None) -> None:
        """Note the tokens of the prompts, and which tokens may not come first."""
        rows = ids.shape[0]
        self.options = options
        self.vocab, self._device = vocab, ids.device
        self.keep = 1 if options.num_beams == 1 else max(2, len(options.eos_token_id) + 1)
        # Which texts have ended, bool [rows, 1], where others go on: nothing follows the end of a single text.
        self._finished = _C.zeros(rows, 1, dtype=_C.bool, device=ids.device) if rows > 1 else None
        self.used: Tensor | None = None
        if options.repetition_penalty != 1.0:
            real = ids if mask is None else _C.where(mask, ids, ids[:, -1:])
            self.used = _C.zeros(rows, vocab, dtype=_C.bool, device=ids.device).scatter_(1, real, True)
        self.eos = self._set(options.eos_token_id)
        self.banned: Tensor | None = None
        if options.suppress_tokens or options.begin_suppress_tokens or options.min_new_tokens and options.eos_token_id:
            self.banned = self._set(())
        self._phase: tuple[bool, bool] | None = None

    def _set(self, tokens: tuple[int, ...]) -> Tensor:
        """Return which tokens are in a set, bool [vocab]."""
        flags = [False] * self.vocab
        for token in tokens:
            if 0 <= token < self.vocab:
                flags[token] = True
        return _C.tensor(flags, device=self._device)

    def allow(self, made: int) -> None:
        """Note that ``made`` tokens are made: what the first ones may not be differs."""
        o, phase = self.options, (made == 0, made < self.options.min_new_tokens)
        if self.banned is None or phase == self._phase:
            return
        self._phase = phase
        tokens = o.suppress_tokens + (o.begin_suppress_tokens if phase[0] else ())
        self.banned.copy_(self._set(tokens + (o.eos_token_id if phase[1] else ())))

    def scores(self, logits: Tensor) -> Tensor:
        """Return logits after penalty and bans: what greedy choice compares, float32 [rows, vocab]."""
        if self.used is not None:
            logits = penalized(logits, self.used, self.options.repetition_penalty)
        return logits if self.banned is None else logits.masked_fill(self.banned, _NEVER)

    def __call__(self, logits: Tensor) -> Tensor:
        """Return the next token of each row, int64 [rows, 1]; padding where the text is finished.

        Args:
            logits: Float32 [rows, 1, vocab].
        """
        scores = self.scores(logits[:, -1])
        if self.options.do_sample:
            tokens = _C.multinomial(_C.softmax(filtered(scores, self.options, self.keep), -1), 1)
        else:
            tokens = _C.argmax(scores, -1, keepdim=True)
        if self._finished is not None:
            tokens = _C.where(self._finished, self.options.pad(), tokens)
        if self.used is not None:
            self.used.scatter_(1, tokens, True)
        if self._finished is not None and self.options.eos_token_id:
            self._finished.logical_or_(self.eos[tokens])
        return tokens

    def finish(self, finished: list[bool]) -> None:
        """Note which texts have ended: padding follows them while others go on."""
        if self._finished is not None:
            self._finished.copy_(_C.tensor(finished, device=self._device).unsqueeze(-1))
