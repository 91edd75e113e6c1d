"""Text of tokens that arrive one by one: exact for any splitting of characters, in linear time."""

from __future__ import annotations

import random

import pytest

from torchlette import generation
from torchlette.generation.strings import StopStrings

TEXTS = {
    "latin": "the quick brown fox, " * 40,
    "three_bytes": "€漢字かな" * 80,
    "four_bytes": "😀🎉a🧪" * 80,
    "replacement": "a\ufffdb\ufffd\ufffdc" * 60,
}


class Split:
    """Tokens are pieces of a text's bytes; token -1 has no text. Counts the tokens that it decodes."""

    def __init__(self, data: bytes, most: int, seed: int) -> None:
        rng = random.Random(seed)
        self.pieces, self.decoded = [], 0
        while data:
            n = rng.randint(1, most)
            self.pieces.append(data[:n])
            data = data[n:]

    def decode(self, ids: list[int]) -> str:
        self.decoded += len(ids)
        return b"".join(self.pieces[i] for i in ids if i >= 0).decode(errors="replace")


@pytest.mark.parametrize("most", [1, 2, 3, 5, 7])
@pytest.mark.parametrize("name", TEXTS)
def test_pieces_are_the_text_in_linear_time(name: str, most: int) -> None:
    split = Split(TEXTS[name].encode(), most, most)
    pieces = generation.Pieces(split)
    given = [pieces.put(i) for i in range(len(split.pieces))]
    given.append(pieces.rest())
    assert "".join(given) == TEXTS[name]
    assert split.decoded <= 40 * len(split.pieces)
    if name != "replacement":
        assert not any("\ufffd" in piece for piece in given)


def test_every_token_of_a_text_may_end_within_a_character() -> None:
    data = ("€" * 3000).encode()
    split = Split(b"", 1, 0)
    split.pieces = [data[:2], *(data[i : i + 3] for i in range(2, len(data), 3))]
    pieces = generation.Pieces(split)
    given = [pieces.put(i) for i in range(len(split.pieces))]
    assert given[1:20] == ["€"] * 19
    assert "".join(given) == "€" * 3000
    assert split.decoded <= 40 * len(split.pieces)


@pytest.mark.parametrize("garbage", [[-1], [0], [0, -1]])
def test_tokens_without_characters_cost_the_same(garbage: list[int]) -> None:
    """Special tokens have no text, and bytes may never become a character."""
    split = Split(b"", 1, 0)
    split.pieces = [b"\xff", *(bytes([b]) for b in "a😀b".encode())]
    pieces = generation.Pieces(split)
    tokens = [1, *garbage * 1500, *range(1, len(split.pieces)), *garbage * 1500, 1]
    text = "".join(pieces.put(t) for t in tokens) + pieces.rest()
    bad = "\ufffd" * (1500 * garbage.count(0))
    assert text == f"a{bad}a😀b{bad}a"
    assert split.decoded <= 40 * len(tokens)


def test_the_first_space_is_dropped_once() -> None:
    """As decoders of sentencepiece do, so a piece depends on the token before."""

    class Words:
        def decode(self, ids: list[int]) -> str:
            return "".join(("", " ", " a", "b")[i] for i in ids).removeprefix(" ")

    tokens = [0, 1, 2, 3, 1, 1, 0, 2, 3, 2] * 9
    pieces = generation.Pieces(Words())
    assert "".join(pieces.put(t) for t in tokens) == Words().decode(tokens)


def test_stop_strings_are_found_across_split_characters() -> None:
    data = ("x" * 50 + "漢字😀 stop").encode()
    split = Split(data, 3, 1)
    found = StopStrings(["字😀"], split, [[]])
    hits = [found.put([i])[0] for i in range(len(split.pieces))]
    end = len(("x" * 50 + "漢字😀").encode())
    sizes = [sum(map(len, split.pieces[: i + 1])) for i in range(len(split.pieces))]
    assert hits.index(True) == next(i for i, n in enumerate(sizes) if n >= end)
    assert hits.count(True) == 1
