"""A token's norms are part of the products that read them, on a GPU."""

from __future__ import annotations

import time

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import tiny  # noqa: E402

import torchlette as tl  # noqa: E402
from torchlette.generation.options import Options  # noqa: E402
from torchlette.generation.text import CachedText  # noqa: E402
from torchlette.profiler import Event, profile  # noqa: E402

PROMPT, TOKENS = 7, 12
IDS = torch.randint(3, tiny.VOCAB, (1, PROMPT + TOKENS), generator=torch.Generator().manual_seed(5))


def same(logits: tl.Tensor) -> tl.Tensor:
    return logits


def decoded(name: str, device: str) -> tuple[torch.Tensor, list[Event]]:
    """Return the logits of steps of one token, and the last step's kernels, once a GPU has compiled its plans."""
    model = tiny.ours(tiny.reference(name), device=device)
    ids = tiny.from_torch(IDS, device)
    with tl.no_grad():
        text = CachedText(model, ids[:, :PROMPT], None, PROMPT + TOKENS, Options(max_cache_length=64))
        text.prompt(same).tolist()
        rows = []
        for at in range(PROMPT, PROMPT + TOKENS):
            with profile() as p:
                rows.append(tiny.to_torch(text.extend(ids[:, at : at + 1], same))[0, -1])
            while len(rows) > 4 and tl.stats()["plans_compiling"]:
                time.sleep(0.005)
    return torch.stack(rows), p.events()


@pytest.mark.parametrize(
    ("name", "products", "left"), [("gpt2", 4, ["fused_add_layer_norm_float32"]), ("llama", 11, []), ("qwen2", 11, [])]
)
def test_norms_of_a_token_are_in_its_products(device: str, name: str, products: int, left: list[str]) -> None:
    """GPT-2's first norm is in one kernel with the sum of its embeddings; q, k and v of a Llama read one norm."""
    logits, events = decoded(name, device)
    with torch.no_grad():
        expected = tiny.reference(name)(IDS).logits[0, PROMPT:]
    torch.testing.assert_close(logits, expected)
    norms = [e.kernel for e in events if "norm" in e.kernel]
    computed = [e.prologue[0].name for e in events if e.prologue]
    if device == "wgpu":
        assert norms == left
        assert computed == ["layer_norm"] * products
    else:
        assert not computed
        assert len(norms) == 5
