"""On a GPU, a token's norms are part of the products that read them, and its attention stores its rows of caches."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

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
    computed = [e.prologue[0].name for e in events if e.prologue and "attention" not in e.kernel]
    if device == "wgpu":
        assert norms == left
        assert computed == ["layer_norm"] * products
    else:
        assert not computed
        assert len(norms) == 5


def generated(name: str, disabled: str, device: str = "wgpu") -> Any:
    """Return the tokens and the last token's kernels of a process that runs a GPU's programs, on any adapter."""
    env = os.environ | {"TORCHLETTE_DISABLE": disabled, "TORCHLETTE_CACHE_DIR": "-"}
    if env["TORCHLETTE_ADAPTER"] == "software":
        env["TORCHLETTE_ADAPTER"] = "software,hardware"
    command = [sys.executable, str(Path(__file__).with_name("appended_rows.py")), name, device]
    return json.loads(subprocess.run(command, env=env, check=True, capture_output=True, text=True, timeout=300).stdout)


@pytest.mark.parametrize(("name", "fewer"), [("gpt2", 2), ("llama", 0)])
def test_attention_of_a_token_stores_its_rows(device: str, name: str, fewer: int) -> None:
    """Attention replaces the kernels that store rows; the kernel that turns a Llama's keys stays. The text is equal."""
    if device != "wgpu":
        pytest.skip("the CPU's attention stores no rows")
    (tokens, kernels), (expected, scattered) = (generated(name, off) for off in ("", "fuse_append"))
    assert tokens == expected
    assert [done for kernel, done, _ in kernels if "attention" in kernel] == [["scatter", "scatter"]] * 2
    assert not [kernel for kernel, _, members in kernels if "scatter" in (kernel, *members)]
    assert [members.count("scatter") for *_, members in scattered if "scatter" in members] == [2, 2]
    assert len(scattered) - len(kernels) == fewer


@pytest.mark.parametrize(("name", "turned"), [("gpt2", 0), ("llama", 1)])
def test_keys_turn_where_a_token_stores_them_with_its_values(device: str, name: str, turned: int) -> None:
    """A layer has one kernel for both, and one that turns queries, where attention stores no rows."""
    parts = [members or [kernel] for kernel, _, members in generated(name, "fuse_append", device)[1]]
    assert [[p.count("cat"), p.count("scatter")] for p in parts if "scatter" in p] == [[turned, 2]] * 2
    assert len([p for p in parts if "cat" in p]) == sum(p.count("cat") for p in parts) == 4 * turned
