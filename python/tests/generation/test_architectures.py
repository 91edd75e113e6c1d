"""Each architecture has the logits of transformers, with and without padding; folders load, wrong ones are refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import tiny  # noqa: E402

import torchlette as tl  # noqa: E402
from torchlette import generation  # noqa: E402
from torchlette.generation import specs  # noqa: E402

IDS = torch.randint(3, tiny.VOCAB, (2, 11), generator=torch.Generator().manual_seed(3))
MASK = torch.ones(2, 11, dtype=torch.long)
MASK[1, :4] = 0


@pytest.mark.parametrize("name", tiny.DECODERS)
def test_logits_are_those_of_transformers(name: str) -> None:
    theirs = tiny.reference(name)
    model = tiny.ours(theirs)
    with torch.no_grad():
        torch.testing.assert_close(tiny.to_torch(model(tiny.from_torch(IDS))), theirs(IDS).logits)
        positions = (MASK.cumsum(-1) - 1).clamp(min=0)
        expected = theirs(IDS, attention_mask=MASK, position_ids=positions).logits
    got = tiny.to_torch(model(tiny.from_torch(IDS), tiny.from_torch(MASK)))
    torch.testing.assert_close(got[MASK.bool()], expected[MASK.bool()])


@pytest.mark.parametrize("name", ["gpt2", "llama", "gemma2", "gemma3_text", "olmo2", "smollm3", "starcoder2"])
def test_parameters_have_the_names_of_the_checkpoint(name: str) -> None:
    theirs = tiny.reference(name)
    tied = {"lm_head.weight"} if theirs.config.tie_word_embeddings else set()
    assert set(tiny.ours(theirs).state_dict()) == set(theirs.state_dict()) - tied


@pytest.mark.parametrize("name", ["gemma3_text", "olmo2", "smollm3_windows", "stablelm", "starcoder2"])
def test_greedy_tokens_are_those_of_transformers(name: str) -> None:
    theirs = tiny.reference(name)
    options = {"max_new_tokens": 9, "do_sample": False, "eos_token_id": 66, "pad_token_id": 0}
    expected = theirs.generate(IDS, attention_mask=MASK, **options)
    got = tl.generate(tiny.ours(theirs), tiny.from_torch(IDS), attention_mask=tiny.from_torch(MASK), **options)
    assert got.tolist() == expected.tolist()


@pytest.mark.parametrize("name", ["llama", "gpt2"])
def test_logits_on_each_device(name: str, device: str) -> None:
    theirs = tiny.reference(name)
    with torch.no_grad():
        expected = theirs(IDS).logits
    got = tiny.ours(theirs, device)(tiny.from_torch(IDS, device)).cpu()
    torch.testing.assert_close(tiny.to_torch(got), expected, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("name", ["llama", "gpt2"])
def test_a_model_moves_to_another_device_and_dtype(name: str, device: str) -> None:
    model, ids = tiny.ours(tiny.reference(name)), tiny.from_torch(IDS)
    expected = tl.generate(model, ids, max_new_tokens=6).tolist()
    assert tl.generate(model.to(device), ids, max_new_tokens=6).tolist() == expected
    logits = tiny.to_torch(model.to("cpu")(ids))
    with torch.no_grad():
        torch.testing.assert_close(logits, tiny.reference(name)(IDS).logits)
    half = tiny.to_torch(model.to(tl.bfloat16)(ids))
    torch.testing.assert_close(half, logits, atol=0.1, rtol=0.1)


def test_gemma3_has_two_bases_in_configs_of_each_form() -> None:
    config = tiny.reference("gemma3_text").config.to_dict()
    turns = config.pop("rope_parameters")
    assert turns["full_attention"]["rope_theta"] != turns["sliding_attention"]["rope_theta"]
    old = {**config, "rope_theta": 1000000.0, "rope_local_base_freq": 10000.0, "sliding_window_pattern": 2}
    del old["layer_types"]
    assert specs.read(old) == specs.read({**config, "rope_parameters": turns})
    stretched = specs.read({**old, "rope_scaling": {"rope_type": "linear", "factor": 8.0}})
    assert stretched.rotary.frequencies[0] == 1 / 8
    assert stretched.local_rotary == specs.read(old).local_rotary


@pytest.mark.parametrize("headed", [False, True])
@pytest.mark.parametrize("name", tiny.ENCODERS)
def test_encoders_give_the_vectors_of_transformers(name: str, headed: bool) -> None:
    """Padding has RoBERTa's padding token, which has no position. Heads of a checkpoint are left out."""
    config = tiny.ENCODERS[name](transformers)
    cls = transformers.AutoModelForMaskedLM if headed else transformers.AutoModel
    theirs = tiny.randomize(cls.from_config(config), 1)
    model = tiny.ours(theirs)
    mask, types = torch.ones(2, 11, dtype=torch.long), torch.zeros(2, 11, dtype=torch.long)
    mask[1, 7:] = 0
    ids = torch.where(mask.bool(), IDS, config.pad_token_id)
    given = {"input_ids": ids, "attention_mask": mask}
    if name != "distilbert" and config.type_vocab_size > 1:
        types[:, 5:] = 1
        given["token_type_ids"] = types
    base = getattr(theirs, theirs.base_model_prefix) if headed else theirs
    with torch.no_grad():
        expected = base(**given).last_hidden_state
    got = tiny.to_torch(model(*map(tiny.from_torch, (ids, mask, types))))
    torch.testing.assert_close(got[mask.bool()], expected[mask.bool()])
    names = {f"{theirs.base_model_prefix}.{n}" for n in base.state_dict() if "pooler" not in n}
    assert {n for n in model.state_dict()} == names


def test_sentences_are_padded_with_the_token_without_position() -> None:
    """A short sentence has the same vector alone and beside a longer one."""
    tokenizers = pytest.importorskip("tokenizers")
    theirs = tiny.randomize(transformers.RobertaModel(tiny.ENCODERS["roberta"](transformers)), 1)
    model = tiny.ours(theirs)
    words = {str(i): i for i in range(tiny.VOCAB)}
    model.tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="3"))
    model.tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    alone, both = model.encode("5 6 7"), model.encode(["5 6 7", "8 9 10 11 12 13"])
    torch.testing.assert_close(tiny.to_torch(both)[0], tiny.to_torch(alone))
    assert model.encode(" ".join(["9"] * 100)).shape == (32,)
    assert model.spec.max_positions == 38


def test_whisper_has_the_logits_and_tokens_of_transformers() -> None:
    theirs = tiny.randomize(transformers.WhisperForConditionalGeneration(transformers.WhisperConfig(**tiny.WHISPER)), 2)
    model = tiny.ours(theirs)
    features = torch.randn(2, 8, 24, generator=torch.Generator().manual_seed(0))
    tokens = torch.full((2, 1), 3)
    ours = generation.generate(model, input_features=tiny.from_torch(features), max_new_tokens=8)
    with torch.no_grad():
        expected = theirs(features, decoder_input_ids=IDS).logits
        for _ in range(8):
            logits = theirs(features, decoder_input_ids=tokens).logits[:, -1:]
            tokens = torch.cat([tokens, logits.argmax(-1)], 1)
    assert 2 not in tokens, "the random model must not end its texts"
    torch.testing.assert_close(tiny.to_torch(model(tiny.from_torch(features), tiny.from_torch(IDS))), expected)
    assert ours.tolist() == tokens.tolist()
    with pytest.raises(ValueError, match="input_features has shape"):
        model.encode(tl.zeros(1, 8, 23))


def test_folders_load_with_one_file_and_with_an_index(tmp_path: Path) -> None:
    theirs = tiny.reference("llama")
    for size, files in (("1GB", 1), ("20kB", 3)):
        folder = tmp_path / size
        theirs.save_pretrained(folder, max_shard_size=size)
        assert len(list(folder.glob("*.safetensors"))) >= files
        model = generation.Decoder.from_pretrained(folder, device="cpu")
        with torch.no_grad():
            torch.testing.assert_close(tiny.to_torch(model(tiny.from_torch(IDS))), theirs(IDS).logits)
    assert generation.load(folder, dtype=tl.bfloat16, device="cpu").dtype == tl.bfloat16
    with pytest.raises(TypeError, match="has a Decoder, want a Encoder"):
        generation.Encoder.from_pretrained(folder)


def test_a_model_without_its_head_loads_too(tmp_path: Path) -> None:
    theirs = tiny.reference("gpt2")
    theirs.transformer.save_pretrained(tmp_path)
    model = generation.load(tmp_path, device="cpu")
    with torch.no_grad():
        torch.testing.assert_close(tiny.to_torch(model(tiny.from_torch(IDS))), theirs(IDS).logits)


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        (
            {"model_type": "mamba"},
            NotImplementedError,
            "model_type='mamba' is not supported, want one of bert, camembert",
        ),
        ({"hidden_act": "xielu"}, NotImplementedError, "'xielu'"),
        ({"rope_parameters": {"rope_type": "axial"}}, NotImplementedError, "rope_type='axial'"),
        ({"quantization_config": {"bits": 4}}, NotImplementedError, "quantization_config"),
        ({"layer_types": ["chunked_attention"] * 2}, NotImplementedError, None),
        ({"hidden_size": 0}, ValueError, "hidden_size of config.json is 0"),
        ({"num_hidden_layers": 10**9}, ValueError, "want a number from 1 to 4096"),
        ({"head_dim": 10**7}, ValueError, "head_dim of config.json is 10000000"),
        ({"num_key_value_heads": 3}, ValueError, "do not share 3 keys"),
        ({"rms_norm_eps": []}, ValueError, "has a wrong value"),
        ({"rope_parameters": {"rope_type": "llama3"}}, ValueError, "factor of the rotary positions"),
        ({"rope_parameters": {"rope_type": "longrope"}}, ValueError, "has a wrong value"),
        ({"hidden_act": ["silu"]}, ValueError, "want a name"),
        ({"hidden_size": 64}, ValueError, "config.json wants"),
        ({"num_hidden_layers": 3}, ValueError, "no tensor 'model.layers.2"),
        ({"num_hidden_layers": 1}, ValueError, "nothing uses 9 tensors"),
    ],
)
def test_what_would_change_results_is_refused_by_name(change: dict, error: type, text: str | None) -> None:
    theirs = tiny.reference("llama")
    tensors = {name: tl.tensor(t.numpy()) for name, t in theirs.state_dict().items()}
    config = {**theirs.config.to_dict(), **change}
    if text is None:  # Llama has no such key: it is named in a warning
        with pytest.warns(UserWarning, match="layer_types"):
            generation.build(config, tensors)
        return
    with pytest.raises(error, match=text):
        generation.build(config, tensors)


@pytest.mark.parametrize(
    ("index", "text"),
    [
        ({"weight_map": {"a": "../secret.safetensors"}}, "is not a file of the folder"),
        ({"weight_map": {"a": 1}}, "weight_map"),
        ([], "want an object"),
    ],
)
def test_an_index_that_leaves_the_folder_is_refused(tmp_path: Path, index: object, text: str) -> None:
    (tmp_path / "config.json").write_text(tiny.reference("llama").config.to_json_string())
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(ValueError, match=text):
        generation.load(tmp_path)


@pytest.mark.parametrize("heads", [3, 64])
def test_heads_divide_the_width(heads: int) -> None:
    config = {**tiny.reference("gpt2").config.to_dict(), "n_head": heads}
    with pytest.raises(ValueError, match=f"{heads} heads"):
        generation.build(config, {})


def test_damaged_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        generation.load(tmp_path)
    (tmp_path / "config.json").write_text(tiny.reference("llama").config.to_json_string())
    (tmp_path / "model.safetensors").write_bytes(b"")
    with pytest.raises(ValueError, match="neither a safetensors file"):
        generation.load(tmp_path)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(ValueError, match="config.json is damaged"):
        generation.load(tmp_path)
