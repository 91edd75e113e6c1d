"""Beam search: at each step the best ``num_beams`` continuations of each prompt go on."""

from __future__ import annotations

from torchlette import _C
from torchlette.generation.choice import Chooser, filtered
from torchlette.generation.options import Options
from torchlette.generation.strings import StopStrings
from torchlette.generation.text import Text

__all__ = ["beam_search"]

Tensor = _C.Tensor
#: Added to scores of what may not be chosen; finite, so that differences of scores stay numbers.
_LOW = -1.0e9


def _all(logits: Tensor) -> Tensor:
    return logits


def _take(t: Tensor, rows: Tensor) -> Tensor:
    """Return ``t`` [batch, beams, ...] with the beams ``rows`` [batch, n]."""
    index = rows.reshape(*rows.shape, *(1,) * (t.ndim - 2)).expand(*rows.shape, *t.shape[2:])
    return t.gather(1, index)


class _Beams:
    """Running and finished texts, and their scores; all shapes stay the same."""

    def __init__(self, ids: Tensor, limit: int, options: Options, stops: StopStrings | None) -> None:
        self.stops = stops
        self.options, self.beams, self.limit = options, options.num_beams, limit
        self.batch, self.prompt = ids.shape[0] // self.beams, ids.shape[1]
        device, shape = ids.device, (self.batch, self.beams)
        # As in transformers, where a padding token 0 counts as none here.
        fill = options.pad_token_id or (options.eos_token_id[0] if options.eos_token_id else 0)
        self.running = _C.full((*shape, limit), fill, dtype=_C.int64, device=device)
        self.running[:, :, : self.prompt] = ids.reshape(*shape, self.prompt)
        self.done = self.running.clone()
        # All beams of a prompt begin alike: only the first one counts.
        self.scores = _C.full(shape, _LOW, device=device)
        self.scores[:, 0] = 0.0
        self.done_scores = _C.full(shape, _LOW, device=device)
        self.is_done = _C.zeros(shape, dtype=_C.bool, device=device)
        self.done_lengths = _C.zeros(shape, dtype=_C.int64, device=device)
        self.improvable = _C.ones(self.batch, 1, dtype=_C.bool, device=device)
        self.first_row = _C.arange(self.batch, device=device).unsqueeze(-1) * self.beams

    def step(self, scores: Tensor, eos: Tensor, length: int) -> tuple[Tensor, Tensor, Tensor]:
        """Choose continuations.

        Args:
            scores: Logarithms of probabilities of the next tokens, [batch * beams, vocab].
            eos: Which tokens end a text, bool [vocab].
            length: Tokens of the running texts.

        Returns:
            The rows that go on, int64 [batch * beams]; their tokens [batch * beams, 1]; and whether to go on, bool [1].
        """
        o, vocab = self.options, scores.shape[-1]
        count = max(2, 1 + len(o.eos_token_id)) * self.beams
        total = (scores.reshape(self.batch, self.beams, vocab) + self.scores.unsqueeze(-1)).reshape(self.batch, -1)
        if o.do_sample:
            chosen = _C.multinomial(_C.softmax(total, -1), count)
            best = total.gather(1, chosen)
        else:
            best, chosen = _C.topk(total, count)
        beam, token = chosen // vocab, chosen % vocab
        texts = _take(self.running, beam)
        texts[:, :, length] = token
        ended = eos[token] | (length + 1 >= self.limit)
        if self.stops is not None:
            rows = (beam + self.first_row).reshape(-1).tolist()
            hits = self.stops.try_on(rows, token.reshape(-1).tolist())
            ended = ended | _C.tensor(hits, device=ended.device).reshape(ended.shape)
        go_on = _C.topk(best + ended * _LOW, self.beams)[1]
        if self.stops is not None:
            self.stops.keep(
                (go_on + _C.arange(self.batch, device=go_on.device).unsqueeze(-1) * count).reshape(-1).tolist()
            )
        self._finish(texts, best, ended, length + 1 - self.prompt)
        self.running = _take(texts, go_on)
        self.scores = best.gather(1, go_on) + ended.gather(1, go_on) * _LOW
        rows = (beam.gather(1, go_on) + self.first_row).reshape(-1)
        more = self._more(length + 1 - self.prompt) & ~ended.all()
        return rows, token.gather(1, go_on).reshape(-1, 1), more

    def _finish(self, texts: Tensor, scores: Tensor, ended: Tensor, made: int) -> None:
        """Add texts that just ended to the finished ones, and keep the best."""
        o = self.options
        top = _C.arange(texts.shape[1], device=texts.device) < self.beams
        now = ended & top
        scores = scores / made**o.length_penalty + ~now * _LOW + ~self.improvable * _LOW
        if o.early_stopping is True:
            scores = scores + self.is_done.all(-1, keepdim=True) * _LOW
        merged = _C.cat([self.done_scores, scores], 1)
        self.done_scores, keep = _C.topk(merged, self.beams)
        self.done = _take(_C.cat([self.done, texts], 1), keep)
        self.is_done = _C.cat([self.is_done, now], 1).gather(1, keep)
        lengths = _C.full_like(now, made, dtype=_C.int64)
        self.done_lengths = _C.cat([self.done_lengths, lengths], 1).gather(1, keep)

    def _more(self, made: int) -> Tensor:
        """Return whether a running text may still become better than the finished ones, bool []."""
        o = self.options
        length = self.limit - self.prompt if o.early_stopping == "never" and o.length_penalty > 0 else made
        possible = self.scores[:, :1] / length**o.length_penalty
        worst = _C.where(self.is_done, self.done_scores.amin(1, keepdim=True), _LOW)
        self.improvable = self.improvable & (possible > worst).any(-1, keepdim=True)
        more = self.improvable.any()
        return more & ~self.is_done.all() if o.early_stopping is True else more


def beam_search(
    text: Text, chooser: Chooser, ids: Tensor, limit: int, options: Options, stops: StopStrings | None = None
) -> Tensor:
    """Return the best texts of each prompt, int64 [batch * num_return_sequences, steps].

    Args:
        text: The texts, ``num_beams`` of each prompt.
        chooser: Bans and penalties.
        ids: The prompts, repeated.
        limit: The longest text.
        options: Beams, penalties.
        stops: Ends a text, too.
    """
    beams = _Beams(ids, limit, options, stops)
    tokens = None
    for length in range(ids.shape[1], limit):
        chooser.allow(length - ids.shape[1])
        logits = text.prompt(_all) if tokens is None else text.extend(tokens, _all)
        scores = chooser.scores(_C.log_softmax(logits[:, -1], -1))
        if options.do_sample:
            scores = filtered(scores, options, chooser.keep)
        rows, tokens, more = beams.step(scores, chooser.eos, length)
        if length + 1 < limit:
            text.reorder(rows)
        if chooser.used is not None:
            chooser.used = chooser.used.index_select(0, rows).scatter_(1, tokens, True)
        _C.mark_step()
        if not more.item():
            break
    count = options.num_return_sequences
    longest = int(beams.done_lengths[:, :count].max().item())
    return beams.done[:, :count, : beams.prompt + longest].reshape(-1, beams.prompt + longest)
