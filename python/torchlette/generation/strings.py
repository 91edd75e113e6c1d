"""Text of tokens that arrive one by one: stop strings, and pieces to print."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["Pieces", "StopStrings"]

#: What decoders give for bytes that are not yet a character.
_INCOMPLETE = "\ufffd"


class Pieces:
    """Turns tokens of one text into pieces of text; a piece never ends within a character.

    Args:
        tokenizer: Has ``decode(ids)``.
    """

    def __init__(self, tokenizer: Any) -> None:
        """Begin without tokens."""
        self._decode = tokenizer.decode
        self._ids: list[int] = []
        # The last tokens before ``_given`` are decoded again: some decoders treat the first token differently.
        self._start = self._given = 0

    def put(self, token: int) -> str:
        """Return the text that a further token completes; it may be empty."""
        self._ids.append(token)
        before = self._decode(self._ids[self._start : self._given])
        text = self._decode(self._ids[self._start :])
        if text.endswith(_INCOMPLETE) or len(text) <= len(before):
            return ""
        self._start, self._given = self._given, len(self._ids)
        return str(text[len(before) :])

    def rest(self) -> str:
        """Return the text of tokens that never became whole characters."""
        before = self._decode(self._ids[self._start : self._given])
        return str(self._decode(self._ids[self._start :])[len(before) :])


class StopStrings:
    """Looks for strings in the continuations of some texts.

    Args:
        strings: What ends a text.
        tokenizer: Has ``decode(ids)``.
        rows: Number of texts.
    """

    def __init__(self, strings: Sequence[str], tokenizer: Any, rows: int) -> None:
        """Begin without tokens."""
        self._strings = strings
        self._longest = max(map(len, strings))
        self._pieces = [Pieces(tokenizer) for _ in range(rows)]
        self._ends = [""] * rows

    def put(self, tokens: Sequence[int | None]) -> list[bool]:
        """Add a token to each text, None for none; return which texts now have a string."""
        return [token is not None and self._one(i, token) for i, token in enumerate(tokens)]

    def _one(self, row: int, token: int) -> bool:
        end = self._ends[row] + self._pieces[row].put(token)
        self._ends[row] = end[-self._longest + 1 :] if self._longest > 1 else ""
        return any(s in end for s in self._strings)
