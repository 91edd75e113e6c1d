"""Tokens are those of transformers: greedy, beams, penalties, padding; drafts change nothing; filters are theirs."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import tiny  # noqa: E402

import torchlette as tl  # noqa: E402
from torchlette import generation  # noqa: E402
from torchlette.generation.choice import Chooser, filtered  # noqa: E402
from torchlette.generation.options import Options  # noqa: E402
from torchlette.testing.counters import stats  # noqa: E402

IDS = torch.randint(3, tiny.VOCAB, (2, 11), generator=torch.Generator().manual_seed(3))
MASK = torch.ones(2, 11, dtype=torch.long)
MASK[1, :4] = 0
ENDS = [2, 5, 30, 31, 32, 33, 34, 35]

CASES = {
    "greedy": {"max_new_tokens": 30},
    "many_ends": {"max_new_tokens": 30, "eos_token_id": ENDS},
    "penalty": {"max_new_tokens": 16, "repetition_penalty": 1.7},
    "min_new_tokens": {"max_new_tokens": 12, "eos_token_id": ENDS, "min_new_tokens": 4},
    "suppressed": {"max_new_tokens": 12, "suppress_tokens": list(range(9, 40)), "begin_suppress_tokens": [41, 42]},
    "max_length": {"max_length": 17},
    "beams": {"max_new_tokens": 12, "num_beams": 3, "eos_token_id": ENDS},
    "beams_early": {
        **{"max_new_tokens": 12, "num_beams": 4, "num_return_sequences": 2, "early_stopping": True},
        **{"length_penalty": 0.6, "eos_token_id": ENDS},
    },
    "beams_never": {
        **{"max_new_tokens": 9, "num_beams": 3, "early_stopping": "never", "length_penalty": 2.0},
        **{"repetition_penalty": 1.3, "eos_token_id": ENDS},
    },
}


@pytest.mark.parametrize(("name", "case"), [("llama", c) for c in CASES] + [(n, "greedy") for n in tiny.DECODERS])
def test_tokens_are_those_of_transformers(name: str, case: str) -> None:
    theirs = tiny.reference(name)
    options = {"pad_token_id": 0, "do_sample": False, **CASES[case]}
    expected = theirs.generate(IDS, attention_mask=MASK, **options)
    got = tl.generate(tiny.ours(theirs), tiny.from_torch(IDS), attention_mask=tiny.from_torch(MASK), **options)
    assert got.tolist() == expected.tolist()


@pytest.mark.parametrize("name", ["gpt2", "mistral"])
def test_a_long_text_is_that_of_transformers(name: str) -> None:
    """The cache doubles once, and the prompt is computed in chunks."""
    theirs = tiny.reference(name)
    expected = theirs.generate(IDS[:1], max_new_tokens=260, do_sample=False, eos_token_id=66)
    got = tl.generate(
        tiny.ours(theirs), tiny.from_torch(IDS[0]), max_new_tokens=260, eos_token_id=66, prefill_chunk_size=4
    )
    assert got.tolist() == expected.tolist()


def test_one_program_serves_all_steps() -> None:
    model, compiled = tiny.ours(tiny.reference("llama")), []
    for tokens in generation.stream(model, tiny.from_torch(IDS), max_new_tokens=24, eos_token_id=[]):
        assert tokens.shape == (2, 1)
        compiled.append(stats()["plans_built"])
    assert len(compiled) == 24
    assert compiled[3] == compiled[-1]


def test_a_stream_keeps_the_modules_of_its_beginning_and_reads_weights_anew() -> None:
    model, calls = tiny.ours(tiny.reference("gpt2")), []

    def stream() -> Iterator[tl.Tensor]:
        return generation.stream(model, tiny.from_torch(IDS[:1]), max_new_tokens=12, eos_token_id=[])

    plain = [token.item() for token in stream()]
    for made, _ in enumerate(stream()):
        if made == 5:
            for module in model.modules():
                module.register_forward_hook(lambda *_: calls.append(0))
    assert not calls
    tokens = []
    for made, token in enumerate(stream()):
        tokens.append(token.item())
        if made == 5:
            with tl.no_grad():
                for p in model.parameters():
                    p.zero_()
    assert calls
    assert tokens[:6] == plain[:6]
    assert set(tokens[6:]) == {0}


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("options", [{}, {"eos_token_id": ENDS, "min_new_tokens": 6}, {"repetition_penalty": 1.5}])
def test_a_draft_model_changes_no_greedy_token(options: dict, seed: int) -> None:
    model, draft = tiny.ours(tiny.reference("llama")), tiny.ours(tiny.reference("llama", seed))
    options = {"max_new_tokens": 21, "eos_token_id": 66, **options}
    plain = tl.generate(model, tiny.from_torch(IDS[:1]), **options)
    steps = list(
        generation.stream(model, tiny.from_torch(IDS[:1]), assistant_model=draft, num_assistant_tokens=4, **options)
    )
    assert tl.cat(steps, 1).tolist() == plain[:, 11:].tolist()
    if seed == 0 and not options.get("min_new_tokens") and "repetition_penalty" not in options:
        assert [t.shape[1] for t in steps] == [1, 5, 5, 5, 5], "a perfect draft is accepted whole"


def test_draws_with_a_draft_model_have_the_models_distribution() -> None:
    """The second token given the first: frequencies of 1,500 texts beside the probabilities."""
    model, draft = tiny.ours(tiny.reference("gpt2")), tiny.ours(tiny.reference("gpt2", 1))
    prompt, count = tiny.from_torch(IDS[:1]), 400
    tl.manual_seed(0)
    options = {"do_sample": True, "top_k": 3, "max_new_tokens": 3, "eos_token_id": [], "temperature": 2.0}
    drawn = [tl.generate(model, prompt, assistant_model=draft, **options)[0, 11:13].tolist() for _ in range(count)]
    first = max((d[0] for d in drawn), key=[d[0] for d in drawn].count)
    after = [d[1] for d in drawn if d[0] == first]
    text = tl.cat([prompt, tl.tensor([[first]], device=prompt.device)], 1)
    expected = tl.softmax(filtered(model(text)[:, -1], Options(top_k=3, temperature=2.0)), -1)[0].tolist()
    for token, p in enumerate(expected):
        assert abs(after.count(token) / len(after) - p) < 4.5 * (p * (1 - p) / len(after)) ** 0.5 + 1e-9


FILTERS = {
    "temperature": {"temperature": 0.6, "top_k": 0},
    "top_k": {"top_k": 5},
    "top_p": {"top_p": 0.7, "top_k": 0},
    "min_p": {"min_p": 0.2, "top_k": 0},
    "all": {"temperature": 1.5, "top_k": 20, "top_p": 0.9, "min_p": 0.05, "repetition_penalty": 1.4},
    "default": {},
}


@pytest.mark.parametrize("beams", [1, 3])
@pytest.mark.parametrize("name", FILTERS)
def test_filtered_logits_are_those_of_transformers(name: str, beams: int) -> None:
    config = transformers.GenerationConfig(do_sample=True, num_beams=beams, eos_token_id=2, **FILTERS[name])
    if config.top_k is None:
        config.top_k = 50
    config._eos_token_tensor = torch.tensor([2])
    processors = tiny.reference("llama")._get_logits_processor(config, input_ids_seq_length=11, device="cpu")
    logits = torch.randn(2, tiny.VOCAB, generator=torch.Generator().manual_seed(1)) * 3
    options = Options.resolve({}, {"do_sample": True, "num_beams": beams, "eos_token_id": 2, **FILTERS[name]})
    chooser = Chooser(options, tiny.VOCAB, tiny.from_torch(IDS))
    got = filtered(chooser.scores(tiny.from_torch(logits)), options, chooser.keep)
    torch.testing.assert_close(tiny.to_torch(got), processors(IDS, logits))


def test_draws_come_from_the_filtered_tokens_and_repeat_with_the_seed() -> None:
    model = tiny.ours(tiny.reference("llama"))
    options = {"do_sample": True, "top_k": 2, "max_new_tokens": 10, "eos_token_id": 66, "num_return_sequences": 3}
    results = []
    for _ in range(2):
        tl.manual_seed(5)
        results.append(tl.generate(model, tiny.from_torch(IDS[:1]), **options))
    assert results[0].tolist() == results[1].tolist()
    assert results[0].shape == (3, 21)
    for row, n in itertools.product(range(3), range(11, 21)):
        best = tl.topk(model(results[0][row : row + 1, :n])[0, -1], 2)[1].tolist()
        assert results[0][row, n].item() in best


class _Letters:
    """A tokenizer: token i is the i-th letter from a space on."""

    def decode(self, ids: list[int]) -> str:
        return "".join(chr(32 + i) for i in ids)


def test_stop_strings_end_their_text_alone() -> None:
    model = tiny.ours(tiny.reference("llama"))
    options = {"max_new_tokens": 12, "eos_token_id": [], "pad_token_id": 0, "attention_mask": tl.ones(2, 11)}
    plain = tl.generate(model, tiny.from_torch(IDS), **options)[:, 11:].tolist()
    stop = _Letters().decode(plain[0][3:5])
    assert stop not in _Letters().decode(plain[1])
    got = tl.generate(model, tiny.from_torch(IDS), stop_strings=stop, tokenizer=_Letters(), **options)[:, 11:].tolist()
    end = _Letters().decode(plain[0]).index(stop) + 2
    assert got[0] == plain[0][:end] + [0] * (12 - end)
    assert got[1] == plain[1]


WORDS = ["<pad>", "<s>", "</s>", *map(chr, range(97, 123)), *(a + b for a in "abcdef" for b in "ghijkl"), "th", "he"]
BEAMS = {
    "greedy": {},
    "beams": {"num_beams": 3, "eos_token_id": ENDS},
    "early": {"num_beams": 2, "num_return_sequences": 2, "early_stopping": True, "length_penalty": 0.6},
    "never": {"num_beams": 3, "early_stopping": "never", "length_penalty": 2.0, "repetition_penalty": 1.4},
}
#: Stop strings as spans of tokens of the best text without them: the prompt has 11 tokens.
SPANS = {"one": [(13, 15)], "first": [(11, 12)], "two": [(17, 18), (14, 16)], "begins in the prompt": [(9, 13)]}


class _Words:
    """A tokenizer: texts of tokens beside each other."""

    def decode(self, ids: list[int]) -> str:
        return "".join(WORDS[i] for i in ids)


@pytest.mark.parametrize("spans", SPANS)
@pytest.mark.parametrize("case", BEAMS)
def test_stop_strings_end_texts_as_in_transformers(case: str, spans: str) -> None:
    """With beams, a beam whose last token ends a string is finished: others go on, and may be better."""
    tokenizers = pytest.importorskip("tokenizers")
    model = tokenizers.Tokenizer(tokenizers.models.BPE({word: i for i, word in enumerate(WORDS)}, []))
    model.decoder = tokenizers.decoders.Fuse()
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=model, pad_token="<pad>", eos_token="</s>")
    theirs = tiny.reference("llama")
    options = {"max_new_tokens": 10, "pad_token_id": 0, "do_sample": False, **BEAMS[case]}
    plain = theirs.generate(IDS, attention_mask=MASK, **options)
    stop = [_Words().decode(plain[0].tolist()[a:b]) for a, b in SPANS[spans]]
    expected = theirs.generate(IDS, attention_mask=MASK, stop_strings=stop, tokenizer=fast, **options).tolist()
    got = tl.generate(
        tiny.ours(theirs),
        tiny.from_torch(IDS),
        attention_mask=tiny.from_torch(MASK),
        stop_strings=stop,
        tokenizer=_Words(),
        **options,
    )
    assert expected != plain.tolist()
    assert got.tolist() == expected


def test_pieces_never_end_within_a_character() -> None:
    text = "aé€😀b"

    class Bytes:
        def decode(self, ids: list[int]) -> str:
            return bytes(ids).decode(errors="replace")

    pieces = generation.Pieces(Bytes())
    given = [pieces.put(byte) for byte in text.encode()]
    assert "".join(given) == text
    assert given == ["a", "", "é", "", "", "€", "", "", "", "😀", "b"]
    assert pieces.put(0xE2) == ""
    assert pieces.rest() == "\ufffd"


def test_a_streamer_gets_the_prompt_and_each_token() -> None:
    class Streamer:
        def __init__(self) -> None:
            self.got: list[list] = []

        def put(self, value: tl.Tensor) -> None:
            self.got.append(value.tolist())

        def end(self) -> None:
            self.got.append([])

    streamer, model = Streamer(), tiny.ours(tiny.reference("gpt2"))
    whole = tl.generate(model, tiny.from_torch(IDS[:1]), max_new_tokens=4, eos_token_id=66, streamer=streamer)
    tokens = whole[0, 11:].tolist()
    assert streamer.got == [IDS[:1].tolist(), *([t] for t in tokens), []]


def test_any_function_from_tokens_to_logits_generates() -> None:
    model = tiny.ours(tiny.reference("gpt2"))
    options = {"max_new_tokens": 9, "eos_token_id": ENDS, "pad_token_id": 2}
    expected = tl.generate(model, tiny.from_torch(IDS), **options)
    assert tl.generate(lambda ids: (model(ids), None), tiny.from_torch(IDS), **options).tolist() == expected.tolist()
    beams = {"num_beams": 3, **options}
    expected = tl.generate(model, tiny.from_torch(IDS), **beams)
    assert tl.generate(lambda ids: model(ids), tiny.from_torch(IDS), **beams).tolist() == expected.tolist()


def test_tokens_are_the_same_on_each_device(device: str) -> None:
    theirs = tiny.reference("llama")
    options = {"max_new_tokens": 8, "eos_token_id": 66}
    expected = tl.generate(tiny.ours(theirs), tiny.from_torch(IDS), attention_mask=tiny.from_torch(MASK), **options)
    got = tl.generate(tiny.ours(theirs, device), tiny.from_torch(IDS), attention_mask=tiny.from_torch(MASK), **options)
    assert got.tolist() == expected.tolist()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_weights_generate(dtype: str) -> None:
    """Logits in half precision are near: the first token is among the best of the model in float32."""
    model = tiny.ours(tiny.reference("llama"))
    best = tl.topk(model(tiny.from_torch(IDS))[:, -1], 3)[1].tolist()
    half = tiny.ours(tiny.reference("llama")).to(getattr(tl, dtype))
    got = tl.generate(half, tiny.from_torch(IDS), max_new_tokens=5, eos_token_id=66)
    assert got.shape == (2, 16)
    assert all(got[i, 11].item() in best[i] for i in range(2))


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"temperature": 0.0}, ValueError, "temperature is 0.0, want above 0"),
        ({"top_p": 1.5}, ValueError, "top_p is 1.5"),
        ({"num_return_sequences": 2}, ValueError, "at most num_beams"),
        ({"max_length": 11}, ValueError, "leaves room for 0"),
        ({"max_new_tokens": 600}, ValueError, "has 600 positions"),
        ({"max_new_tokens": 9, "max_cache_length": 12}, ValueError, "max_cache_length is 12, want at least 20"),
        ({"stop_strings": "x"}, ValueError, "need a tokenizer"),
        ({"tempratur": 1.0}, TypeError, "unexpected keyword"),
        ({"attention_mask": torch.ones(2, 3)}, ValueError, "attention_mask has shape"),
        ({"attention_mask": torch.tensor([[1] * 10 + [0]] * 2)}, ValueError, "padded on the left"),
        ({"input_features": torch.ones(1)}, ValueError, "only Whisper"),
        ({"assistant_model": lambda ids: None}, ValueError, "works on one text"),
        ({"num_beams": 2, "stop_strings": "x"}, ValueError, "need a tokenizer"),
        ({"max_new_tokens": 2.5}, TypeError, "max_new_tokens is 2.5, want an int"),
        ({"temperature": "hot"}, TypeError, "temperature is 'hot', want a number"),
        ({"eos_token_id": "x"}, TypeError, "eos_token_id is 'x', want a token or a list of tokens"),
        ({"stop_strings": 3}, TypeError, "stop_strings is 3, want a text or a list of texts"),
    ],
)
def test_wrong_arguments_are_refused(arguments: dict, error: type, text: str) -> None:
    # Tensors are made here: those of a module would be pending during other tests, which count buffers.
    arguments = {k: tiny.from_torch(v) if isinstance(v, torch.Tensor) else v for k, v in arguments.items()}
    with pytest.raises(error, match=text):
        tl.generate(tiny.ours(tiny.reference("gpt2")), tiny.from_torch(IDS), **arguments)


def test_a_generation_config_gives_defaults_or_is_refused() -> None:
    model = tiny.ours(tiny.reference("gpt2"))
    model.generation_config |= {"max_new_tokens": 3, "eos_token_id": [66]}
    assert tl.generate(model, tiny.from_torch(IDS)).shape == (2, 14)
    assert tl.generate(model, tiny.from_torch(IDS), max_length=13).shape == (2, 13)
    model.generation_config |= {"temperature": 0.0, "do_sample": False}
    assert tl.generate(model, tiny.from_torch(IDS)).shape == (2, 14)
    with pytest.raises(ValueError, match="temperature is 0.0"):
        tl.generate(model, tiny.from_torch(IDS), do_sample=True)
    model.generation_config["typical_p"] = 0.5
    with pytest.raises(NotImplementedError, match="typical_p=0.5"):
        tl.generate(model, tiny.from_torch(IDS))


@pytest.mark.parametrize("wide", [60, 71])
@pytest.mark.parametrize("options", [{}, {"do_sample": True, "top_k": 1}])
def test_a_draft_may_have_other_unused_tokens(wide: int, options: dict) -> None:
    """Models of one family differ in rows at the end of their vocabularies."""
    theirs = tiny.reference("llama")
    tensors = {name: tl.tensor(t.numpy(), device="cpu") for name, t in theirs.state_dict().items()}
    for name in ("model.embed_tokens.weight", "lm_head.weight"):
        tensors[name] = tl.cat([tensors[name], 9 * tl.ones(4, 32, device="cpu")])[:wide]
    draft = generation.build({**theirs.config.to_dict(), "vocab_size": wide}, tensors, device="cpu")
    model, prompt = tiny.ours(theirs), [[5, 6, 7]]
    options = {"max_new_tokens": 12, "suppress_tokens": list(range(58, 67)), "eos_token_id": [], **options}
    plain = tl.generate(model, prompt, **options).tolist()
    assert tl.generate(model, prompt, assistant_model=draft, **options).tolist() == plain


def test_a_draft_without_a_token_of_the_text_is_refused() -> None:
    theirs = tiny.reference("gpt2")
    tensors = {name: tl.tensor(t.numpy()) for name, t in theirs.state_dict().items()}
    for name in ("transformer.wte.weight", "lm_head.weight"):
        tensors[name] = tensors[name][:20]
    draft = generation.build({**theirs.config.to_dict(), "vocab_size": 20}, tensors, device="cpu")
    with pytest.raises(ValueError, match="has token 30, and assistant_model only 20"):
        tl.generate(tiny.ours(theirs), [[5, 30]], assistant_model=draft)


def test_a_call_without_a_prompt_begins_with_the_models_token() -> None:
    model = tiny.ours(tiny.reference("llama"))
    assert tl.generate(model).tolist() == tl.generate(model, [[1]]).tolist()
    del model.generation_config["bos_token_id"]
    with pytest.raises(ValueError, match="input_ids is None, and the model has no bos_token_id"):
        tl.generate(model)


def test_a_single_prompt_may_have_a_mask_of_its_own_shape() -> None:
    model = tiny.ours(tiny.reference("llama"))
    got = tl.generate(model, [0, 5, 6], attention_mask=[0, 1, 1], eos_token_id=tl.tensor([66]))
    assert got[0, 3:].tolist() == tl.generate(model, [5, 6], eos_token_id=66)[0, 2:].tolist()


@pytest.mark.parametrize("model", [None, "gpt2"])
def test_what_is_no_model_is_refused(model: object) -> None:
    with pytest.raises(TypeError, match=f"the model is a {type(model).__name__}, want a model, a session"):
        tl.generate(model, [[5]])
