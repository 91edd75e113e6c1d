"""Speculative decoding: a small model drafts tokens, and the large one checks them in one step."""

from __future__ import annotations

from collections.abc import Iterator

from torchlette import _C
from torchlette.autograd import no_grad
from torchlette.generation.choice import Chooser, filtered
from torchlette.generation.options import Options
from torchlette.generation.strings import StopStrings
from torchlette.generation.text import Text

__all__ = ["assisted"]

Tensor = _C.Tensor


class _Draft:
    """Turns a draft's logits [1, 1, vocab] into a token, and keeps what it was drawn from.

    The result is [1, 1 + vocab]: the token, and the probabilities where tokens are drawn.
    """

    def __init__(self, chooser: Chooser) -> None:
        self.chooser = chooser

    def __call__(self, logits: Tensor) -> Tensor:
        logits, vocab = logits[:, -1], self.chooser.vocab
        # Models of one family may differ in unused rows at the end of their vocabularies.
        if logits.shape[-1] != vocab:
            logits = _C.constant_pad_nd(logits, (0, vocab - logits.shape[-1]), float("-inf"))
        scores = self.chooser.scores(logits)
        if not self.chooser.options.do_sample:
            return _C.argmax(scores, -1, keepdim=True)
        probabilities = _C.softmax(filtered(scores, self.chooser.options), -1)
        return _C.cat([_C.multinomial(probabilities, 1).to(_C.float32), probabilities], -1)


def _all(logits: Tensor) -> Tensor:
    return logits


def _scores(chooser: Chooser, logits: Tensor, drafted: list[int], made: int) -> Tensor:
    """Return scores [n + 1, vocab] of the tokens after each drafted one.

    Args:
        chooser: Bans, and penalties for the tokens before.
        logits: [n + 1, vocab].
        drafted: n tokens; each counts for the rows after it.
        made: How many tokens were made before.
    """
    before, rows = chooser.used, []
    for i in range(len(drafted) + 1):
        chooser.allow(made + i)
        used = chooser.used
        if used is not None and i > 0:
            chooser.used = used.index_fill(1, _C.tensor([drafted[i - 1]], device=used.device), True)
        rows.append(chooser.scores(logits[i : i + 1]))
    chooser.used = before
    return _C.cat(rows)


def _accept(scores: Tensor, drafted: list[int], drawn_from: list[Tensor], options: Options) -> list[int]:
    """Return the tokens that the model accepts, and the one that it makes itself.

    Greedily a drafted token is accepted if it is the model's own. Draws accept a token with probability p / q, and a
    refused one is drawn anew from the positive part of p - q: so all tokens have the distribution p.
    """
    if not options.do_sample:
        own: list[int] = scores.argmax(-1).tolist()
        count = next((i for i, token in enumerate(drafted) if token != own[i]), len(drafted))
        return own[: count + 1]
    p, count = _C.softmax(filtered(scores, options), -1), 0
    if drafted:
        q = _C.cat(drawn_from)
        at = _C.tensor(drafted, device=p.device).unsqueeze(-1)
        fine = (_C.rand(at.shape, device=p.device) * q.gather(1, at) <= p[:-1].gather(1, at)).reshape(-1).tolist()
        count = next((i for i, accepted in enumerate(fine) if not accepted), len(drafted))
    rest = p[count]
    if count < len(drafted):
        positive = (rest - q[count]).clamp(min=0)
        # Rounding may leave nothing where p and q are equal.
        rest = _C.where(positive.sum() > 0, positive, rest)
    return [*drafted[:count], int(_C.multinomial(rest, 1).item())]


class _Drafting:
    """The draft model's text, which holds a prefix of the known tokens."""

    def __init__(self, text: Text, chooser: Chooser, prompt: list[int]) -> None:
        self._text, self._choose, self._held = text, _Draft(chooser), len(prompt)
        self._check(prompt)
        text.prompt(_all)

    def _check(self, tokens: list[int]) -> None:
        vocab = self._text.vocab
        if vocab is not None and max(tokens) >= vocab:
            raise ValueError(
                f"generate: the text has token {max(tokens)}, and assistant_model only {vocab}: want the same tokens"
            )

    def propose(self, known: list[int], count: int, device: _C.device) -> tuple[list[int], list[Tensor]]:
        """Return tokens after the known ones, and the probabilities that they were drawn from."""
        tokens, drawn_from = [], []
        self._check(known[self._held :])
        new = _C.tensor([known[self._held :]], device=device)
        for _ in range(count):
            found = self._text.extend(new, self._choose)
            _C.mark_step()
            new = found[:, :1].to(_C.int64)
            tokens.append(new)
            drawn_from.append(found[:, 1:])
        self._held = len(known) + count - 1 if count else self._held
        return (_C.cat(tokens, 1)[0].tolist() if tokens else []), drawn_from

    def keep(self, length: int) -> None:
        """Note how many tokens the drafted text and the known one have in common, at most."""
        if self._held > length:
            self._held = length
            self._text.rewind(length)


def assisted(
    text: Text,
    draft: Text,
    chooser: Chooser,
    ids: Tensor,
    limit: int,
    options: Options,
    stops: StopStrings | None,
) -> Iterator[Tensor]:
    """Give new tokens, int64 [1, n], as they are accepted.

    Args:
        text: The model's text.
        draft: The draft model's text.
        chooser: Filters, penalties and bans.
        ids: The prompt, [1, steps].
        limit: The longest text.
        options: How many tokens are drafted, and how tokens are chosen.
        stops: Ends the text, too.
    """
    known: list[int] = ids[0].tolist()
    start, ends, drafting, ended = len(known), frozenset(options.eos_token_id), None, False
    while len(known) < limit and not ended:
        with no_grad():
            drafted: list[int] = []
            drawn_from: list[Tensor] = []
            if drafting is None:
                logits, drafting = text.prompt(_all), _Drafting(draft, chooser, list(known))
            else:
                # The model itself adds one token to those that it accepts.
                count, most = min(options.num_assistant_tokens, limit - len(known) - 1), text.together()
                count = count if most is None else min(count, most - 1)
                drafted, drawn_from = drafting.propose(known, count, ids.device)
                logits = text.extend(_C.tensor([[known[-1], *drafted]], device=ids.device), _all)
            _C.mark_step()
            scores = _scores(chooser, logits[0], drafted, len(known) - start)
            found = []
            for token in _accept(scores, drafted, drawn_from, options):
                found.append(token)
                ended = token in ends or stops is not None and stops.put([token])[0]
                if ended:
                    break
            known += found
            text.rewind(len(known) - 1)
            drafting.keep(len(known) - 1)
            new = _C.tensor([found], device=ids.device)
            if chooser.used is not None:
                chooser.used.scatter_(1, new, True)
            _C.mark_step()
        yield new
