"""``python -m torchlette generate`` prints the text of the model, while it is made."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
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


def expected(folder: Path, count: int, **options: object) -> list[str]:
    """Return the words that follow the prompt."""
    model = generation.load(folder, device="cpu")
    ids = tl.generate(model, model.tokenizer.encode(PROMPT).ids, max_new_tokens=count, **options)[0, 3:].tolist()
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


def test_a_folder_without_a_tokenizer_is_refused(folder: Path) -> None:
    (folder / "tokenizer.json").unlink()
    with pytest.raises(SystemExit, match="tokenizer.json"):
        main([str(folder), PROMPT])


def test_the_defaults_of_a_folder_draw_and_an_option_does_not(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = {"do_sample": True, "temperature": 3.0, "eos_token_id": 2, "bos_token_id": 1}
    (folder / "generation_config.json").write_text(json.dumps(config))
    arguments, found = [str(folder), PROMPT, "--max-new-tokens", "12", "--device", "cpu"], []
    for extra in ([], [], ["--seed", "1"], ["--seed", "1"], ["--no-do-sample"]):
        main([*arguments, *extra])
        found.append(capsys.readouterr().out.split())
    assert found[0] != found[1]
    assert found[2] == found[3]
    assert found[4] == expected(folder, 12, do_sample=False)


@pytest.mark.parametrize(("limit", "length"), [(600, 100), (40, 37)])
def test_the_default_length_is_100_or_what_the_model_has(
    limit: int, length: int, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = {**tiny.GPT2, "n_positions": limit, "eos_token_id": None}
    tiny.randomize(transformers.GPT2LMHeadModel(transformers.GPT2Config(**config)), 0).save_pretrained(folder)
    main([str(folder), PROMPT, "--device", "cpu"])
    assert len(capsys.readouterr().out.split()) == length


def test_an_empty_prompt_begins_with_the_models_token(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main([str(folder), "", "--max-new-tokens", "5", "--device", "cpu"])
    model = generation.load(folder, device="cpu")
    ids = tl.generate(model, max_new_tokens=5)[0].tolist()
    assert ids[0] == 1
    assert capsys.readouterr().out.split() == [f"w{i}" for i in ids[1:] if i != 2]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["/nowhere", "w5"], "/nowhere is no folder"),
        ([".", "w5", "--temperature", "0"], "temperature is 0.0, want above 0"),
        ([".", "w5", "--device", "cuda"], "the GPU is the device 'wgpu'"),
    ],
)
def test_errors_are_one_line(arguments: list[str], text: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    with pytest.raises(SystemExit, match=text):
        main(arguments)
