"""Folders as they are published: older names of values and tensors, stretched positions, files of other libraries."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
safetensors = pytest.importorskip("safetensors.torch")

import published  # noqa: E402
import tiny  # noqa: E402

import torchlette as tl  # noqa: E402
from torchlette import generation  # noqa: E402
from torchlette.generation import specs  # noqa: E402

IDS = torch.randint(7, tiny.VOCAB, (2, 100), generator=torch.Generator().manual_seed(3))
MASK = torch.ones(2, 11, dtype=torch.long)
MASK[1, :4] = 0
OPTIONS = {"do_sample": False, "eos_token_id": 66, "pad_token_id": 0}


def both(name: str, folder: Path) -> tuple[Any, generation.Model]:
    """The model of a published config by transformers and by us, from one folder; nothing is warned of."""
    config = published.DECODERS[name]
    (folder / "config.json").write_text(json.dumps(config))
    made = transformers.AutoModelForCausalLM.from_config(transformers.AutoConfig.from_pretrained(folder))
    tiny.randomize(made.float(), 1).save_pretrained(folder)
    (folder / "config.json").write_text(json.dumps(config))
    theirs = transformers.AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager").eval()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return theirs, generation.load(folder, device="cpu")


@pytest.mark.parametrize("name", published.DECODERS)
def test_a_published_folder_has_the_logits_and_texts_of_transformers(name: str, tmp_path: Path) -> None:
    """Texts of 11 and 100 tokens, and one that outgrows the positions of the stretched ones."""
    theirs, model = both(name, tmp_path)
    with torch.no_grad():
        for ids in (IDS[:, :11], IDS):
            torch.testing.assert_close(tiny.to_torch(model(tiny.from_torch(ids))), theirs(ids).logits)
        for steps in (1, 20):
            expected = theirs.generate(IDS[:1, :steps], max_new_tokens=50, **OPTIONS).tolist()
            got = tl.generate(model, tiny.from_torch(IDS[:1, :steps]), max_new_tokens=50, **OPTIONS).tolist()
            assert got == expected


@pytest.mark.parametrize("name", ["llama-dynamic", "llama-yarn", "phi-3-mini-128k"])
@pytest.mark.parametrize("options", [{}, {"num_beams": 3}, {"repetition_penalty": 1.5}])
def test_a_batch_outgrows_its_positions_as_in_transformers(name: str, options: dict, tmp_path: Path) -> None:
    theirs, model = both(name, tmp_path)
    options = {"max_new_tokens": 40, **options, **OPTIONS}
    expected = theirs.generate(IDS[:, :11], attention_mask=MASK, **options)
    ids, mask = tiny.from_torch(IDS[:, :11]), tiny.from_torch(MASK)
    assert tl.generate(model, ids, attention_mask=mask, **options).tolist() == expected.tolist()


@pytest.mark.parametrize("name", ["llama-dynamic", "phi-3-mini-128k"])
def test_chunks_and_drafts_change_no_text_that_outgrows_its_positions(name: str, tmp_path: Path) -> None:
    _, model = both(name, tmp_path)
    for steps in (20, 31, 32, 33, 50):
        ids = tiny.from_torch(IDS[:1, :steps])
        options = {"max_new_tokens": 24, **OPTIONS}
        plain = tl.generate(model, ids, **options).tolist()
        assert tl.generate(model, ids, prefill_chunk_size=7, **options).tolist() == plain
        assert tl.generate(model, ids, assistant_model=model, **options).tolist() == plain


def test_a_text_outgrows_its_positions_on_each_device(device: str, tmp_path: Path) -> None:
    _, model = both("phi-3-mini-128k", tmp_path)
    options, ids = {"max_new_tokens": 24, **OPTIONS}, tiny.from_torch(IDS[:, :20])
    expected = tl.generate(model, ids, **options).tolist()
    assert tl.generate(generation.load(tmp_path, device=device), ids, **options).tolist() == expected


@pytest.mark.parametrize("kind", ["su", "yarn"])
def test_the_first_phi_3_calls_its_positions_otherwise(kind: str) -> None:
    config = published.DECODERS["phi-3-mini-128k"]
    older = {**config, "rope_scaling": {**config["rope_scaling"], "type": kind}}
    assert specs.read(older) == specs.read(config)


@pytest.mark.parametrize(
    ("scaling", "text"),
    [
        ({"type": "yarn", "factor": 0}, "factor of the rotary positions of config.json is 0, want a number above 0"),
        ({"type": "dynamic"}, "factor of the rotary positions of config.json is None"),
        ({"type": "longrope", "short_factor": [1.0], "long_factor": [1.0]}, "short_factor .* has 1 numbers, want 4"),
    ],
)
def test_wrong_positions_are_refused(scaling: dict, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        specs.read({**published.DECODERS["tinyllama"], "rope_scaling": scaling})


def _bert(folder: Path) -> torch.nn.Module:
    """Write BERT as its first release: a head, and greek names of the norms' parts."""
    (folder / "config.json").write_text(json.dumps(published.BERT))
    config = transformers.AutoConfig.from_pretrained(folder)
    theirs = tiny.randomize(transformers.BertForMaskedLM(config), 1)
    greek = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
    tensors = {}
    for name, t in theirs.state_dict().items():
        path, _, part = name.rpartition("LayerNorm.")
        tensors[path + greek["LayerNorm." + part] if path else name] = t.clone()
    safetensors.save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    return theirs.bert


def test_the_first_berts_names_load(tmp_path: Path) -> None:
    theirs = _bert(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = generation.load(tmp_path, device="cpu")
    with torch.no_grad():
        expected = theirs(IDS[:, :11]).last_hidden_state
    torch.testing.assert_close(tiny.to_torch(model(tiny.from_torch(IDS[:, :11]))), expected)


def _words(folder: Path) -> None:
    """Write a tokenizer of words, whose texts begin with token 5."""
    tokenizers = pytest.importorskip("tokenizers")
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel({f"w{i}": i for i in range(67)}, unk_token="w0"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    made.post_processor = tokenizers.processors.TemplateProcessing(single="w5 $A", special_tokens=[("w5", 5)])
    made.enable_truncation(8)
    made.save(str(folder / "tokenizer.json"))


@pytest.mark.parametrize(("mode", "longest"), [("mean_tokens", None), ("cls_token", 4), (None, 16)])
def test_sentences_are_pooled_and_cut_as_the_folder_says(mode: str | None, longest: int | None, tmp_path: Path) -> None:
    theirs = _bert(tmp_path)
    _words(tmp_path)
    (tmp_path / "1_Pooling").mkdir()
    if mode is not None:
        modes = {f"pooling_mode_{m}": m == mode for m in ("cls_token", "mean_tokens", "max_tokens")}
        (tmp_path / "1_Pooling" / "config.json").write_text(json.dumps({"word_embedding_dimension": 32, **modes}))
    if longest is not None:
        (tmp_path / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": longest}))
    got = generation.load(tmp_path, device="cpu").encode(" ".join(f"w{i}" for i in range(9, 29)), normalize=False)
    ids = torch.tensor([[5, *range(9, 29)][: longest or 8]])
    with torch.no_grad():
        vectors = theirs(ids).last_hidden_state[0]
    torch.testing.assert_close(tiny.to_torch(got), vectors[0] if mode == "cls_token" else vectors.mean(0))


def test_a_pooling_that_nothing_computes_is_refused(tmp_path: Path) -> None:
    _bert(tmp_path)
    (tmp_path / "1_Pooling").mkdir()
    (tmp_path / "1_Pooling" / "config.json").write_text(json.dumps({"pooling_mode_max_tokens": True}))
    with pytest.raises(NotImplementedError, match="has pooling_mode_max_tokens, want pooling_mode_mean_tokens"):
        generation.load(tmp_path)


@pytest.mark.parametrize(
    "defaults",
    [
        {},
        {"forced_decoder_ids": [[1, None], [2, 53]], "lang_to_id": {"<|en|>": 9, "<|de|>": 8, "<|fr|>": 30}},
        {"forced_decoder_ids": [[1, 9], [2, 53]], "lang_to_id": {"<|en|>": 9, "<|de|>": 8}},
        {"lang_to_id": {"<|en|>": 9, "<|de|>": 8, "<|fr|>": 30}, "no_timestamps_token_id": 54},
        {"forced_decoder_ids": [[1, None], [2, 53], [3, 54]], "no_timestamps_token_id": 54, "lang_to_id": {"<|x|>": 4}},
    ],
)
def test_whisper_begins_as_in_transformers(defaults: dict, tmp_path: Path) -> None:
    """With the likeliest language, the task and no timestamps, as the folder's generation config has them."""
    config = transformers.WhisperConfig(**{**tiny.WHISPER, "eos_token_id": 66, "pad_token_id": 66})
    made = tiny.randomize(transformers.WhisperForConditionalGeneration(config), 2)
    made.save_pretrained(tmp_path)
    common = {"decoder_start_token_id": 3, "eos_token_id": 66, "pad_token_id": 66, "is_multilingual": True}
    defaults = {**common, "return_timestamps": False, "begin_suppress_tokens": [22], "suppress_tokens": [7], **defaults}
    (tmp_path / "generation_config.json").write_text(json.dumps(defaults))
    theirs = transformers.WhisperForConditionalGeneration.from_pretrained(tmp_path).eval()
    features = torch.randn(3, 8, 24, generator=torch.Generator().manual_seed(0))
    model = generation.load(tmp_path, device="cpu")
    start = model.start(model.cross(model.encode(tiny.from_torch(features))), 3)
    prefix = theirs._retrieve_init_tokens(
        features, 3, transformers.GenerationConfig(**defaults), theirs.config, 24, {"encoder_outputs": None}
    )
    assert start.tolist() == prefix.tolist()
    expected = theirs.generate(features, max_new_tokens=8, num_beams=1, do_sample=False)
    got = tl.generate(model, input_features=features.numpy(), max_new_tokens=8)[:, start.shape[1] :]
    assert got.tolist() == expected[:, -8:].tolist()


def test_weights_of_several_dtypes_have_the_configs(tmp_path: Path) -> None:
    theirs = tiny.reference("llama")
    tensors = {name: t.bfloat16() if "head" not in name else t for name, t in theirs.state_dict().items()}
    safetensors.save_file(tensors, tmp_path / "model.safetensors")
    config = {**theirs.config.to_dict(), "dtype": "bfloat16"}
    (tmp_path / "config.json").write_text(json.dumps(config))
    model = generation.load(tmp_path, device="cpu")
    assert {p.dtype for p in model.parameters()} == {tl.bfloat16}
    assert tl.generate(model, [[5, 6]], max_new_tokens=3).shape == (1, 5)


def test_what_is_missing_or_damaged_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="gpt2 is no folder: models are read from disk"):
        generation.load("gpt2")
    theirs = tiny.reference("llama")
    (tmp_path / "config.json").write_text(theirs.config.to_json_string())
    (tmp_path / "pytorch_model.bin").write_bytes(b"")
    with pytest.raises(FileNotFoundError, match=r"neither model.safetensors nor .* it has pytorch_model.bin"):
        generation.load(tmp_path)
    safetensors.save_file(theirs.state_dict(), tmp_path / "model.safetensors")
    (tmp_path / "tokenizer.json").write_text("{")
    pytest.importorskip("tokenizers")
    with pytest.raises(ValueError, match="tokenizer.json is damaged"):
        generation.load(tmp_path)
    with pytest.raises(ValueError, match="config.json has no model_type, want one of bert, camembert"):
        generation.build({}, {})
