"""Chat templates give the text and the tokens of transformers, in a sandbox."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("jinja2")
transformers = pytest.importorskip("transformers")
tokenizers = pytest.importorskip("tokenizers")

import tiny  # noqa: E402

import torchlette as tl  # noqa: E402
from torchlette import generation  # noqa: E402
from torchlette.generation import chat  # noqa: E402
from torchlette.generation.command import main  # noqa: E402

TEMPLATE = """{{ bos_token }}
{%- for message in messages %}
    {%- if message.role == "wrong" %}{{ raise_exception("no such role") }}{% endif %}
    {%- if message.content is none %}{% continue %}{% endif %}
 w3 {{ message["role"] }} {% generation %}{{ message["content"] | trim }}{% endgeneration %} w4
{%- endfor %}
{%- if tools %} {{ tools | tojson }}{% endif %}
{%- if thinking is defined and thinking %} w9{% endif %}
{%- if add_generation_prompt %} assistant w3{% endif %}"""
TALK = [
    {"role": "system", "content": "w7 <w8>"},
    {"role": "user", "content": " w5 w6 w7 "},
    {"role": "assistant", "content": "w8", "tool_calls": None},
    {"role": "user", "content": "w5"},
]
TOOLS = [{"type": "function", "function": {"name": "add", "description": "<Adds> 'ä'"}}]


@pytest.fixture(params=["config", "file", "list"])
def folder(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A folder with a tiny model, a tokenizer of words, and a template."""
    tiny.reference("llama").save_pretrained(tmp_path)
    words = tokenizers.models.WordLevel({f"w{i}": i for i in range(tiny.VOCAB)}, unk_token="w0")
    tokenizer = tokenizers.Tokenizer(words)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing("w1 $A", special_tokens=[("w1", 1)])
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "w1", "eos_token": {"content": "w2"}}
    if request.param == "config":
        config["chat_template"] = TEMPLATE
    elif request.param == "list":
        config["chat_template"] = [{"name": n, "template": f"{n} {TEMPLATE}"} for n in ("default", "tool_use", "short")]
    else:
        config["chat_template"] = "the file comes first"
        (tmp_path / "chat_template.jinja").write_text(TEMPLATE)
    config["eos_token"] = "w2"
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    return tmp_path


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"add_generation_prompt": True},
        {"tools": TOOLS, "thinking": True},
        {"chat_template": "{{ messages | length }}"},
    ],
)
def test_texts_and_tokens_are_those_of_transformers(folder: Path, options: dict) -> None:
    theirs = transformers.AutoTokenizer.from_pretrained(folder)
    text = theirs.apply_chat_template(TALK, tokenize=False, **options)
    assert generation.apply_chat_template(folder, TALK, tokenize=False, **options) == text
    model = generation.load(folder, device="cpu")
    ids = theirs(text, add_special_tokens=False)["input_ids"]
    assert generation.apply_chat_template(model, TALK, **options) == ids


def test_the_command_answers_a_message(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = generation.load(folder, device="cpu")
    talk = [{"role": "system", "content": "w7"}, {"role": "user", "content": "w5 w6"}]
    ids = generation.apply_chat_template(model, talk, add_generation_prompt=True)
    answer = tl.generate(model, ids, max_new_tokens=5)[0, len(ids) :].tolist()
    arguments = [str(folder), "w5 w6", "--max-new-tokens", "5", "--device", "cpu"]
    main([*arguments, "--chat", "--system", "w7"])
    assert capsys.readouterr().out.split() == [f"w{i}" for i in answer if i != 2]
    with pytest.raises(SystemExit, match="--system is for --chat"):
        main([*arguments, "--system", "w7"])


@pytest.mark.parametrize("folder", ["config"], indirect=True)
@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{{ ''.__class__.__mro__ }}", "unsafe"),
        ("{{ messages.append(1) }}", "unsafe"),
        ("{% for x in range(10**9) %}{% endfor %}", "[Rr]ange too big"),
        ("{% if %}", "the template is wrong"),
        ("{{ raise_exception('so') }}", "the template fails: so"),
        (None, "no chat template"),
    ],
)
def test_templates_of_strangers_run_in_a_sandbox(folder: Path, template: str | None, text: str) -> None:
    config = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps({**config, "chat_template": template}))
    with pytest.raises(ValueError, match=text):
        generation.apply_chat_template(folder, TALK)


@pytest.mark.parametrize("folder", ["config"], indirect=True)
def test_a_missing_library_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chat._compiled.cache_clear()
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(SystemExit, match="pip install jinja2"):
        main([str(folder), "w5", "--chat", "--device", "cpu"])
