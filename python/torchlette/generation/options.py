"""The arguments of :func:`torchlette.generate`, with the names and defaults of ``transformers``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from numbers import Integral, Real
from typing import Any

__all__ = ["Options"]

#: Values of a generation config that change results and that nothing here computes, with what leaves results alone.
_UNSUPPORTED: Mapping[str, Any] = {
    **dict.fromkeys(
        ("bad_words_ids", "force_words_ids", "constraints", "forced_bos_token_id", "sequence_bias", "top_h")
    ),
    **dict.fromkeys(("forced_eos_token_id", "exponential_decay_length_penalty", "watermarking_config", "dola_layers")),
    **{"typical_p": 1.0, "epsilon_cutoff": 0.0, "eta_cutoff": 0.0, "no_repeat_ngram_size": 0, "num_beam_groups": 1},
    **{"encoder_no_repeat_ngram_size": 0, "encoder_repetition_penalty": 1.0, "guidance_scale": 1.0, "min_length": 0},
    **{"diversity_penalty": 0.0, "penalty_alpha": 0.0, "renormalize_logits": False},
}


#: Arguments that are whole, those that only draws read, and those that are numbers.
_WHOLE = frozenset(
    "max_new_tokens max_length min_new_tokens top_k num_beams num_return_sequences pad_token_id num_assistant_tokens "
    "prefill_chunk_size max_cache_length".split()
)
_DRAWS = frozenset(("temperature", "top_k", "top_p", "min_p"))
_REAL = frozenset(("temperature", "top_p", "min_p", "repetition_penalty", "length_penalty"))


def _tokens(name: str, value: Any) -> tuple[int, ...]:
    """Return ids of one number, a sequence, an array, or None."""
    if value is None:
        return ()
    found = value.tolist() if hasattr(value, "tolist") else value
    ids = [found] if isinstance(found, Integral) else found
    if not isinstance(ids, Iterable) or isinstance(ids, str) or not all(isinstance(v, Integral) for v in (*ids,)):
        raise TypeError(f"generate: {name} is {value!r}, want a token or a list of tokens")
    return tuple(int(v) for v in ids)


def _check_types(values: Mapping[str, Any]) -> None:
    for name, value in values.items():
        if name in _WHOLE and not isinstance(value, Integral):
            raise TypeError(f"generate: {name} is {value!r}, want an int")
        if name in _REAL and not isinstance(value, Real):
            raise TypeError(f"generate: {name} is {value!r}, want a number")


@dataclass(frozen=True)
class Options:
    """See :func:`torchlette.generate`."""

    max_new_tokens: int | None = None
    max_length: int | None = None
    min_new_tokens: int = 0
    do_sample: bool = False
    temperature: float = 1.0
    top_k: int = 50
    top_p: float = 1.0
    min_p: float | None = None
    repetition_penalty: float = 1.0
    num_beams: int = 1
    num_return_sequences: int = 1
    length_penalty: float = 1.0
    early_stopping: bool | str = False
    eos_token_id: tuple[int, ...] = ()
    pad_token_id: int | None = None
    suppress_tokens: tuple[int, ...] = ()
    begin_suppress_tokens: tuple[int, ...] = ()
    stop_strings: tuple[str, ...] = ()
    num_assistant_tokens: int = 5
    prefill_chunk_size: int = 512
    max_cache_length: int | None = None

    @classmethod
    def resolve(cls, defaults: Mapping[str, Any], given: Mapping[str, Any]) -> Options:
        """Return the options of a call.

        Args:
            defaults: The model's generation config.
            given: The call's arguments; None for the default.

        Raises:
            TypeError: An argument has no such name, or is of another type.
            ValueError: A value is out of range.
            NotImplementedError: The generation config has a value that changes results and is not supported.
        """
        for name, neutral in _UNSUPPORTED.items():
            if defaults.get(name) not in (None, neutral):
                raise NotImplementedError(
                    f"generate: {name}={defaults[name]!r} of the model's defaults is not supported"
                )
        names = {f.name for f in fields(cls)}
        if unknown := sorted(set(given) - names):
            raise TypeError(f"generate() got an unexpected keyword argument {unknown[0]!r}")
        values = {name: v for name, v in defaults.items() if name in names and v is not None}
        values |= {name: v for name, v in given.items() if v is not None}
        if not values.get("do_sample"):
            # Some folders have a temperature of 0 beside do_sample=false: greedy choice reads neither.
            values = {name: v for name, v in values.items() if name not in _DRAWS or given.get(name) is not None}
        if given.get("max_length") is not None and given.get("max_new_tokens") is None:
            values.pop("max_new_tokens", None)
        for name in ("eos_token_id", "suppress_tokens", "begin_suppress_tokens"):
            values[name] = _tokens(name, values.get(name))
        _check_types(values)
        stop = values.get("stop_strings", ())
        if not isinstance(stop, str) and not (
            isinstance(stop, Iterable) and all(isinstance(text, str) for text in (*stop,))
        ):
            raise TypeError(f"generate: stop_strings is {stop!r}, want a text or a list of texts")
        values["stop_strings"] = (stop,) if isinstance(stop, str) else tuple(stop)
        options = cls(**values)
        options._check()
        return options

    def _check(self) -> None:
        rules: Sequence[tuple[str, bool, str]] = (
            ("temperature", self.temperature > 0, "above 0"),
            ("top_k", self.top_k >= 0, "0 (all tokens) or above"),
            ("top_p", 0 < self.top_p <= 1, "above 0 and at most 1"),
            ("min_p", self.min_p is None or 0 <= self.min_p <= 1, "from 0 to 1"),
            ("repetition_penalty", self.repetition_penalty > 0, "above 0"),
            ("num_beams", self.num_beams >= 1, "1 or above"),
            ("num_return_sequences", self.num_return_sequences >= 1, "1 or above"),
            ("num_assistant_tokens", self.num_assistant_tokens >= 1, "1 or above"),
            ("prefill_chunk_size", self.prefill_chunk_size >= 1, "1 or above"),
            ("early_stopping", self.early_stopping in (True, False, "never"), "True, False or 'never'"),
            ("stop_strings", all(self.stop_strings), "texts of at least one character"),
        )
        for name, holds, want in rules:
            if not holds:
                raise ValueError(f"generate: {name} is {getattr(self, name)!r}, want {want}")
        if self.num_return_sequences > 1 and not self.do_sample and self.num_return_sequences > self.num_beams:
            raise ValueError(
                f"generate: num_return_sequences is {self.num_return_sequences}, want at most num_beams "
                f"({self.num_beams}) without do_sample"
            )

    def new_tokens(self, prompt: int) -> int:
        """Return how many tokens at most follow a prompt of that many; 20 unless something says more."""
        if self.max_new_tokens is not None:
            count = self.max_new_tokens
        else:
            count = 20 if self.max_length is None else self.max_length - prompt
        if count < 1:
            raise ValueError(
                f"generate: the prompt has {prompt} tokens, which leaves room for {count}: want at least 1"
            )
        return count

    def pad(self) -> int:
        """Return what follows a finished text in a batch."""
        return self.pad_token_id if self.pad_token_id is not None else self.eos_token_id[0] if self.eos_token_id else 0
