"""``torchlette.generate``: tokens after a prompt, greedily, by draws, by beams, or with a draft model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torchlette import _C
from torchlette.autograd import no_grad
from torchlette.generation.assisted import assisted
from torchlette.generation.beams import beam_search
from torchlette.generation.choice import Chooser
from torchlette.generation.models import Decoder, Encoder, Whisper
from torchlette.generation.options import Options
from torchlette.generation.steps import Steps
from torchlette.generation.strings import StopStrings
from torchlette.generation.text import CachedText, RecomputedText, Text

__all__ = ["generate", "stream"]

Tensor = _C.Tensor


class _Request:
    """The arguments of a call, checked; ``text`` begins the texts."""

    def __init__(
        self, model: Any, ids: Any, attention_mask: Any, input_features: Any, tokenizer: Any, given: dict[str, Any]
    ) -> None:
        defaults = getattr(model, "generation_config", None)
        self.options = Options.resolve(defaults if isinstance(defaults, dict) else {}, given)
        self.model, self.mask = model, attention_mask
        self.tokenizer = getattr(model, "tokenizer", None) if tokenizer is None else tokenizer
        if isinstance(model, Encoder):
            raise TypeError("generate: the model is an encoder, want one that predicts tokens")
        if not callable(model):
            raise TypeError(f"generate: the model is a {type(model).__name__}, want a model, a session or a function")
        cross = None
        if isinstance(model, Whisper):
            if input_features is None:
                raise ValueError("generate: a Whisper model wants input_features")
            if not isinstance(input_features, _C.Tensor):
                input_features = _C.tensor(input_features)
            cross = model.cross(model.encode(input_features.to(model.device)))
            if ids is None:
                ids = model.start(cross, input_features.shape[0])
        elif input_features is not None:
            raise ValueError("generate: only Whisper models take input_features")
        elif ids is None:
            ids = [[self._begin(defaults)]]
        self.ids = self._tokens(ids)
        if cross is not None and self.ids.shape[0] != input_features.shape[0]:
            raise ValueError(
                f"generate: input_ids has {self.ids.shape[0]} rows and input_features {input_features.shape[0]}, want "
                "as many"
            )
        if isinstance(model, Decoder):
            self.ids = self.ids.to(model.device)
        self._mask_from_padding()
        self.limit = self.ids.shape[1] + self.options.new_tokens(self.ids.shape[1])
        if isinstance(model, Decoder) and "positions" in model.stack.parts and self.limit > model.spec.max_positions:
            raise ValueError(
                f"generate: prompt and new tokens are {self.limit}, the model has {model.spec.max_positions} positions"
            )
        self.repeats = 1
        if self.options.num_beams > 1 or self.options.do_sample:
            self.repeats = max(self.options.num_beams, self.options.num_return_sequences)
        if self.repeats > 1:
            self.ids = self.ids.repeat_interleave(self.repeats, 0)
            self.mask = None if self.mask is None else self.mask.repeat_interleave(self.repeats, 0)
            if cross is not None:
                cross = [(k.repeat_interleave(self.repeats, 0), v.repeat_interleave(self.repeats, 0)) for k, v in cross]
        self.cross = cross

    @staticmethod
    def _begin(defaults: Any) -> int:
        """Return the token that begins texts, for a call without a prompt."""
        token = defaults.get("bos_token_id") if isinstance(defaults, dict) else None
        if not isinstance(token, int):
            raise ValueError("generate: input_ids is None, and the model has no bos_token_id to begin with: want ids")
        return token

    def _tokens(self, ids: Any) -> Tensor:
        ids = ids if isinstance(ids, _C.Tensor) else _C.tensor(ids)
        ids = ids.unsqueeze(0) if ids.ndim == 1 else ids
        if ids.ndim != 2 or 0 in ids.shape or ids.dtype not in (_C.int64, _C.int32):
            raise ValueError(
                f"generate: input_ids has shape {list(ids.shape)} and dtype {ids.dtype}, want int64 [batch, steps], "
                "at least one of each"
            )
        found: Tensor = ids.to(_C.int64)
        return found

    def _mask_from_padding(self) -> None:
        """Take padding from the mask, or from the ids of the padding token where that ends no text."""
        pad, ids = self.options.pad_token_id, self.ids
        if self.mask is None and pad is not None and pad not in self.options.eos_token_id:
            self.mask = ids != pad
        if self.mask is None:
            return
        mask = self.mask if isinstance(self.mask, _C.Tensor) else _C.tensor(self.mask)
        mask = mask.to(_C.bool).to(ids.device)
        mask = mask.unsqueeze(0) if mask.ndim == 1 and ids.shape[0] == 1 else mask
        if mask.shape != ids.shape:
            raise ValueError(
                f"generate: attention_mask has shape {list(mask.shape)}, want that of input_ids, {list(ids.shape)}"
            )
        rows = mask.tolist()
        if not all(row[-1] for row in rows):
            raise ValueError("generate: a prompt ends with padding: texts of a batch are padded on the left")
        self.mask = None if all(map(all, rows)) else mask
        if self.mask is not None and not isinstance(self.model, Decoder):
            raise ValueError("generate: padding needs a model of torchlette.generation; others get the tokens only")

    def text(self, model: Any = None, cross: Any = None) -> Text:
        """Return the texts with their prompts, for this model or for another."""
        model = self.model if model is None else model
        if not isinstance(model, Decoder):
            return RecomputedText(model, self.ids)
        return CachedText(model, self.ids, self.mask, self.limit, self.options, self.cross if cross is None else cross)

    def vocab(self, text: Text) -> int:
        """Return the number of tokens that logits are of."""
        if isinstance(self.model, Decoder):
            return self.model.spec.vocab_size
        return int(text.prompt(lambda logits: logits).shape[-1])

    def chooser(self, text: Text) -> Chooser:
        """Return the choice of tokens for the texts."""
        return Chooser(self.options, self.vocab(text), self.ids, self.mask)

    def stops(self) -> StopStrings | None:
        """Return the search for stop strings, where there are any."""
        if not self.options.stop_strings:
            return None
        if self.tokenizer is None:
            raise ValueError("generate: stop_strings need a tokenizer: pass tokenizer=")
        prompts: list[list[int | None]] = self.ids.tolist()
        if self.mask is not None:
            prompts = [
                [token if real else None for token, real in zip(*row, strict=True)]
                for row in zip(prompts, self.mask.tolist(), strict=True)
            ]
        return StopStrings(self.options.stop_strings, self.tokenizer, prompts)


def _sample(request: _Request, alone: bool) -> Iterator[Tensor]:
    """Give the next token of each text, int64 [rows, 1], until all are finished.

    Args:
        request: The arguments.
        alone: Whether no code of the caller runs between tokens.
    """
    text, options, stops = request.text(), request.options, request.stops()
    choose = request.chooser(text)
    ends, count = frozenset(options.eos_token_id), request.limit - request.ids.shape[1]
    finished = [False] * request.ids.shape[0]
    steps = Steps(text, choose, count, stops is None, alone)
    try:
        for _ in range(count):
            tokens = steps.next()
            row = [r[0] for r in tokens.tolist()]
            ended = [done or token in ends for done, token in zip(finished, row, strict=True)]
            if stops is not None:
                hits = stops.put([None if done else token for done, token in zip(finished, row, strict=True)])
                ended = [done or hit for done, hit in zip(ended, hits, strict=True)]
                choose.finish(ended)
            finished = ended
            if all(finished):
                steps.take_back()
            with steps.watched(finished):
                yield tokens
            if all(finished):
                return
    finally:
        steps.take_back()


def _search(request: _Request, assistant: Any, alone: bool) -> Iterator[Tensor]:
    """Give new tokens as they are known, int64 [rows, n]; alone: no code of the caller runs between them."""
    if assistant is None:
        return _sample(request, alone)
    if request.ids.shape[0] > 1:
        raise ValueError("generate: assistant_model works on one text: batch size and num_return_sequences must be 1")
    if request.cross is not None or isinstance(assistant, Whisper):
        raise NotImplementedError("generate: assistant_model is not supported for Whisper models")
    if not callable(assistant):
        raise TypeError(f"generate: assistant_model is a {type(assistant).__name__}, want a model or a function")
    if isinstance(assistant, Decoder) and assistant.device != request.ids.device:
        raise ValueError(f"generate: assistant_model is on {assistant.device}, the model on {request.ids.device}")
    text = request.text()
    return assisted(
        text,
        request.text(assistant),
        request.chooser(text),
        request.ids,
        request.limit,
        request.options,
        request.stops(),
    )


def stream(
    model: Any,
    input_ids: Any = None,
    *,
    attention_mask: Any = None,
    input_features: Any = None,
    tokenizer: Any = None,
    assistant_model: Any = None,
    **options: Any,
) -> Iterator[Tensor]:
    """Give the new tokens while they are made: an iterator of int64 [rows, n], with n = 1 without ``assistant_model``.

    Weights may be written between tokens. Other modules, hooks and modes of a model of this package count from the
    next call on.

    Args:
        model: As for :func:`torchlette.generate`; so are the arguments below.
        input_ids: The prompts.
        attention_mask: 0 for padding.
        input_features: Log-mel spectrograms for a Whisper model.
        tokenizer: For stop strings.
        assistant_model: A draft model.
        options: The other arguments of :func:`torchlette.generate`, but beams.

    Raises:
        ValueError: There are beams: their tokens are known at the end.
    """
    with no_grad():
        request = _Request(model, input_ids, attention_mask, input_features, tokenizer, options)
    if request.options.num_beams > 1:
        raise ValueError("stream: tokens of beams are known at the end: use generate, or num_beams=1")
    return _search(request, assistant_model, alone=False)


def generate(
    model: Any,
    input_ids: Any = None,
    *,
    attention_mask: Any = None,
    input_features: Any = None,
    tokenizer: Any = None,
    streamer: Any = None,
    assistant_model: Any = None,
    max_new_tokens: int | None = None,
    max_length: int | None = None,
    min_new_tokens: int | None = None,
    do_sample: bool | None = None,
    temperature: float | None = None,
    top_k: int | None = None,
    top_p: float | None = None,
    min_p: float | None = None,
    repetition_penalty: float | None = None,
    num_beams: int | None = None,
    num_return_sequences: int | None = None,
    length_penalty: float | None = None,
    early_stopping: bool | str | None = None,
    eos_token_id: int | list[int] | None = None,
    pad_token_id: int | None = None,
    suppress_tokens: list[int] | None = None,
    begin_suppress_tokens: list[int] | None = None,
    stop_strings: str | list[str] | None = None,
    num_assistant_tokens: int | None = None,
    prefill_chunk_size: int | None = None,
    max_cache_length: int | None = None,
) -> Tensor:
    """Continue prompts; names and meaning of arguments are those of ``transformers``.

    Arguments that are None have the value of the model's generation config, and otherwise that of ``transformers``.

    Args:
        model: A model of :func:`torchlette.generation.load`, whose steps compute the new tokens only; or any function,
            module or session from int64 [batch, steps] to logits [batch, steps, vocab], which is called with the whole
            texts at each step.
        input_ids: The prompts, int64 [batch, steps] or [steps], padded on the left. If None, the model's
            ``bos_token_id``; of a Whisper model the tokens of :meth:`Whisper.start`.
        attention_mask: [batch, steps]: 0 for padding. If None, the tokens ``pad_token_id`` are padding, unless that
            ends texts too.
        input_features: Log-mel spectrograms for a Whisper model, [batch, bands, frames].
        tokenizer: Has ``decode(ids)``; for stop strings. The model's own if None.
        streamer: Has ``put(tokens)``, called with the prompts and then with each step's tokens, and ``end()``.
        assistant_model: A smaller model with the same tokens, which drafts some that ``model`` then checks in one
            step. Greedy results are those without it. For one text.
        max_new_tokens: The most tokens to add; 20 if ``max_length`` is None too.
        max_length: The most tokens of prompt and continuation.
        min_new_tokens: How many tokens come before one that ends the text.
        do_sample: Draw tokens; otherwise the likeliest is taken.
        temperature: Logits of draws are divided by it.
        top_k: Draw from so many tokens; 0 for all. 50 if None.
        top_p: Draw from the likeliest tokens whose probabilities add up to this.
        min_p: Draw from tokens of at least this times the largest probability.
        repetition_penalty: Above 1 for fewer repetitions.
        num_beams: Continuations that are kept at each step; 1 for no beam search.
        num_return_sequences: Results for each prompt.
        length_penalty: Power of the length by which a beam's score is divided.
        early_stopping: Whether beam search ends when ``num_beams`` texts are finished; "never" to search on while a
            better one is possible.
        eos_token_id: Tokens that end a text.
        pad_token_id: The token after a finished text; if None, the first token that ends texts.
        suppress_tokens: Tokens that are never made.
        begin_suppress_tokens: Tokens that are not made first.
        stop_strings: Texts that end a continuation with the token that ends them; with beams, a beam.
        num_assistant_tokens: How many tokens are drafted at once; 5 if None.
        prefill_chunk_size: How many tokens of the prompts are computed at once; 512 if None.
        max_cache_length: Positions in the cache of keys and values. If None, the cache begins small and doubles.

    Returns:
        Prompts and continuations, int64 [batch * num_return_sequences, steps].

    Raises:
        ValueError: A value is out of range, or two do not go together.
        NotImplementedError: The model's generation config has a value that is not supported.
    """
    given = dict(locals())
    for name in ("model", "input_ids", "attention_mask", "input_features", "tokenizer", "streamer", "assistant_model"):
        del given[name]
    with no_grad():
        request = _Request(model, input_ids, attention_mask, input_features, tokenizer, given)
        if request.options.num_beams > 1:
            if streamer is not None or assistant_model is not None:
                raise ValueError("generate: beams go with no streamer or assistant_model")
            text, stops = request.text(), request.stops()
            return beam_search(text, request.chooser(text), request.ids, request.limit, request.options, stops)
        if streamer is not None:
            streamer.put(request.ids.cpu())
        parts = [request.ids]
        for tokens in _search(request, assistant_model, alone=streamer is None):
            parts.append(tokens)
            if streamer is not None:
                streamer.put(tokens.reshape(-1).cpu())
        if streamer is not None:
            streamer.end()
        return _C.cat(parts, 1)
