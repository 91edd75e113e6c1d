"""``python -m torchlette generate`` prints the text of the model, while it is made."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
tokenizers = pytest.importorskip("tokenizers")

import tiny  # noqa: E402

import torchlette as tl  # noqa: E402
from torchlette import generation  # noqa: E402
from torchlette.generation.command import main  # noqa: E402

PROMPT = "w5 w6 w7"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a tiny model and a tokenizer of words."""
    tiny.reference("llama").save_pretrained(tmp_path)
    words = tokenizers.models.WordLevel({f"w{i}": i for i in range(tiny.VOCAB)}, unk_token="w0")
    tokenizer = tokenizers.Tokenizer(words)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    return tmp_path


def expected(folder: Path, count: int) -> list[str]:
    """Return the words that follow the prompt."""
    model = generation.load(folder, device="cpu")
    ids = tl.generate(model, model.tokenizer.encode(PROMPT).ids, max_new_tokens=count)[0, 3:].tolist()
    return [f"w{i}" for i in ids if i != 2]


@pytest.mark.parametrize("extra", [[], ["--dtype", "float32", "--repetition-penalty", "1.0", "--verbose"]])
def test_the_text_is_that_of_generate(folder: Path, extra: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    main([str(folder), PROMPT, "--max-new-tokens", "7", "--device", "cpu", *extra])
    found = capsys.readouterr()
    assert found.out.split() == expected(folder, 7)
    assert ("per second" in found.err) == ("--verbose" in extra)


def test_a_draft_model_and_a_stop_string(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = expected(folder, 12)
    stop = next(w for w in words[1:] if w not in words[0])
    arguments = [str(folder), PROMPT, "--max-new-tokens", "12", "--device", "cpu", "--assistant", str(folder)]
    main([*arguments, "--stop", stop])
    found = capsys.readouterr().out.split()
    assert found == words[: len(found)]
    assert stop in found[-1]


def test_a_folder_without_a_tokenizer_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "tokenizer.json").unlink()
    with pytest.raises(SystemExit):
        main([str(folder), PROMPT])
    assert "tokenizer.json" in capsys.readouterr().err
