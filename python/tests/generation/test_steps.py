"""Steps of decoding that begin before the token of the one before is read."""

from __future__ import annotations

import pytest
import tiny
import torch

import torchlette as tl
from torchlette import generation

IDS = torch.randint(3, tiny.VOCAB, (2, 11), generator=torch.Generator().manual_seed(5))
OPTIONS = {"max_new_tokens": 12, "eos_token_id": []}


def both() -> tuple[generation.Model, generation.Model]:
    """The same model on both devices."""
    theirs = tiny.reference("gpt2")
    return tiny.ours(theirs), tiny.ours(theirs, "wgpu")


def ids(model: generation.Model) -> tl.Tensor:
    return tiny.from_torch(IDS).to(model.device)


def test_the_next_step_of_a_gpu_runs_before_its_predecessor_is_read(wgpu: None) -> None:
    models = both()
    steps = {}
    for model in models:
        stream = generation.stream(model, ids(model), **OPTIONS)
        for _ in range(4):
            next(stream)
        before = tl.stats()
        next(stream)
        after = tl.stats()
        steps[model.device.type] = after["windows"] - before["windows"]
        stream.close()
        # A step reads one tensor: the token.
        assert after["reads"] - before["reads"] == 1
    assert steps == {"cpu": 1, "wgpu": 1}
    stored = []
    for model in models:
        before = tl.stats()["effects_logged"]
        stream = generation.stream(model, ids(model), **OPTIONS)
        next(stream)
        stored.append(tl.stats()["effects_logged"] - before)
        stream.close()
    assert stored[1] > stored[0], "the step after the first stores keys and values"


@pytest.mark.parametrize("name", ["last", "middle"])
def test_weights_written_between_tokens_count_from_the_next_token_on(wgpu: None, name: str) -> None:
    models = both()
    streams = []
    for model in models:
        tokens = []
        kept = [p.clone() for p in model.parameters()]
        for made, token in enumerate(generation.stream(model, ids(model), **OPTIONS)):
            tokens.append(token.cpu().tolist())
            with tl.no_grad():
                tl.zeros(3, device=model.device).add_(1)  # no weight
                if made == 5:
                    for p in list(model.parameters())[-1:] if name == "last" else model.parameters():
                        p.mul_(-0.5)
        with tl.no_grad():
            for p, k in zip(model.parameters(), kept, strict=True):
                p.copy_(k)
        streams.append(tokens)
    assert streams[0] == streams[1]
    plain = [t.cpu().tolist() for t in generation.stream(models[1], ids(models[1]), **OPTIONS)]
    assert streams[1][:6] == plain[:6]
    assert streams[1][6:] != plain[6:]


def test_a_step_taken_back_leaves_the_generator_as_it_was(wgpu: None) -> None:
    models = both()
    options = {**OPTIONS, "do_sample": True}
    after = []
    for model in models:
        tl.manual_seed(3)
        stream = generation.stream(model, ids(model), **options)
        drawn = [next(stream).cpu().tolist() for _ in range(3)]
        stream.close()
        closed = tl.rand(1).item()
        tl.manual_seed(3)
        ends = drawn[2][0][0]
        text = tl.generate(model, ids(model)[:1], **{**options, "eos_token_id": ends})
        after.append((drawn, closed, text.cpu().tolist(), tl.rand(1).item()))
    assert after[0] == after[1]


def test_draws_of_the_caller_stay_where_they_are(wgpu: None) -> None:
    """A step that has begun is not taken back where the caller has drawn since."""
    models = both()
    tl.manual_seed(4)
    stream = generation.stream(models[1], ids(models[1]), **OPTIONS, do_sample=True)
    next(stream)
    first = tl.rand(4)
    stream.close()
    assert not set(first.tolist()) & set(tl.rand(4).tolist())


@pytest.mark.parametrize("options", [{"repetition_penalty": 1.7}, {"eos_token_id": 5, "pad_token_id": 0}])
def test_choices_with_a_memory_are_the_same(wgpu: None, options: dict) -> None:
    models = both()
    options = {**OPTIONS, "max_new_tokens": 24, **options}
    expected = tl.generate(models[0], ids(models[0]), **options).tolist()
    assert tl.generate(models[1], ids(models[1]), **options).tolist() == expected
    steps = [t.cpu() for t in generation.stream(models[1], ids(models[1]), **options)]
    assert tl.cat([tiny.from_torch(IDS), *steps], 1).tolist() == expected
