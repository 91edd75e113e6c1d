"""Text of tokens that arrive one by one: stop strings, and pieces to print."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

__all__ = ["Pieces", "StopStrings"]

#: What decoders give for bytes that are not yet a character.
_INCOMPLETE = "\ufffd"
#: Tokens that are decoded with a further one at most, but where they are no text that could be cut.
_CONTEXT = 16
#: The longest character, and so the most tokens that it is split over.
_BYTES = 4
#: Tokens of a prompt before those that a string may begin in: what bytes before them decode to does not matter.
_MARGIN = 8


class Pieces:
    """Turns tokens of one text into pieces of text; a piece never ends within a character.

    A token is decoded with the few before it that its text depends on, so the time is linear in the number of tokens.

    Args:
        tokenizer: Has ``decode(ids)``.
    """

    def __init__(self, tokenizer: Any) -> None:
        """Begin without tokens."""
        self._decode = tokenizer.decode
        # The latest tokens, their text, and how many characters of it were given. Some decoders treat the first token
        # differently, so the tokens of the latest whole piece are decoded again: from _whole on others follow.
        self._ids: list[int] = []
        self._text = ""
        self._given = self._whole = 0
        self._most = _CONTEXT

    def put(self, token: int) -> str:
        """Return the text that a further token completes; it may be empty."""
        self._ids.append(token)
        before, self._text = self._text, str(self._decode(self._ids))
        whole = self._text.rstrip(_INCOMPLETE)
        piece = whole[self._given :]
        self._given = max(self._given, len(whole))
        if piece and whole == self._text:
            self._keep(self._ids[self._whole :])
            self._whole = len(self._ids)
        elif whole == self._text == before and (before or len(self._ids) > _CONTEXT):
            self._ids.pop()  # such as a special token, which has no text
        elif len(self._ids) >= self._most:
            piece += self._shorten(whole)
        return piece

    def _keep(self, ids: list[int]) -> None:
        """Go on with the latest tokens, whose text was given but for bytes at the end that are no character yet."""
        self._ids, self._text, self._most = ids, str(self._decode(ids)), _CONTEXT
        self._given = len(self._text.rstrip(_INCOMPLETE))

    def _shorten(self, whole: str) -> str:
        """Forget tokens where each ends within a character, or is none; return what no later token can change."""
        latest = self._ids[-_CONTEXT // 2 :]
        text = str(self._decode(latest))
        end = text.strip(_INCOMPLETE)
        if end:
            if whole.endswith(end):
                self._keep(latest)
                self._whole = 0
            else:
                self._most *= 2
            return ""
        # No character is that long: these bytes are none.
        given = str(self._decode(self._ids[: -_BYTES + 1]))[self._given :]
        self._ids = self._ids[-_BYTES + 1 :]
        self._text, self._given, self._whole, self._most = str(self._decode(self._ids)), 0, 0, _CONTEXT
        return given

    def rest(self) -> str:
        """Return the text of tokens that never became whole characters."""
        return self._text[self._given :]

    def copy(self) -> Pieces:
        """Return another text with the same tokens so far."""
        made = copy.copy(self)
        made._ids = list(self._ids)
        return made


class StopStrings:
    """Looks for strings in some texts. A string counts where a new token ends it; it may begin in the prompt.

    Args:
        strings: What ends a text.
        tokenizer: Has ``decode(ids)``.
        prompts: The tokens of each text before the new ones, None for padding.
    """

    def __init__(self, strings: Sequence[str], tokenizer: Any, prompts: Sequence[Sequence[int | None]]) -> None:
        """Begin with the prompts' ends."""
        self._strings = strings
        self._longest = max(map(len, strings))
        self._rows: list[tuple[Pieces, str]] = []
        self._tried: list[tuple[Pieces, str]] = []
        for prompt in prompts:
            row = Pieces(tokenizer), ""
            for token in prompt[-self._longest - _MARGIN :]:
                if token is not None:
                    row = self._with(row, token)[0]
            self._rows.append(row)

    def put(self, tokens: Sequence[int | None]) -> list[bool]:
        """Add a token to each text, None for none; return which texts now have a string."""
        hits = [False] * len(tokens)
        for i, token in enumerate(tokens):
            if token is not None:
                self._rows[i], hits[i] = self._with(self._rows[i], token)
        return hits

    def try_on(self, rows: Sequence[int], tokens: Sequence[int]) -> list[bool]:
        """Return which texts would have a string with one more token; :meth:`keep` takes some of them.

        Args:
            rows: A text for each candidate.
            tokens: Its further token.
        """
        found = []
        self._tried = []
        for row, token in zip(rows, tokens, strict=True):
            pieces, end = self._rows[row]
            made, hit = self._with((pieces.copy(), end), token)
            self._tried.append(made)
            found.append(hit)
        return found

    def keep(self, candidates: Sequence[int]) -> None:
        """Go on with these of the candidates last tried; none comes twice."""
        self._rows = [self._tried[i] for i in candidates]
        self._tried = []

    def _with(self, row: tuple[Pieces, str], token: int) -> tuple[tuple[Pieces, str], bool]:
        new = row[0].put(token)
        end = row[1] + new
        # What the new text does not end was there before, in the prompt.
        hit = bool(new) and any(s in end[-(len(new) + len(s) - 1) :] for s in self._strings)
        return (row[0], end[-self._longest + 1 :] if self._longest > 1 else ""), hit
