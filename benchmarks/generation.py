"""Tokens of a GPT-2 of 124M parameters, random weights, one text: beside the limit, and beside PyTorch.

``python benchmarks/generation.py [--record] [tokens] [quantized] [loads]`` prints a row for each dtype. A token is one
of a run of RUN tokens, as a text is made. The limit of a token is the bytes of the weights over the rate at which this
machine reads memory, measured in the same rounds by a sum of 1 GiB, which no cache holds. The other side is
transformers' model called with its cache, in the same dtype, in runs too. Weights of 8 and 4 bits have a row "alone"
for one token after a pass of the garbage collector, which empties the caches and lets threads fall asleep, beside the
sum of as many bytes. The last row loads a folder with these weights, beside the format's own library; both sides then
read all of them. MINILM=FOLDER adds the cosines of a sentence model.
"""

from __future__ import annotations

import importlib.util
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from measure import Row, main, race, seconds

import torchlette as tl
from torchlette import generation
from torchlette.quantized import QuantizedLinear

CONFIG = {"vocab_size": 50257, "n_embd": 768, "n_layer": 12, "n_head": 12, "n_positions": 1024}
PROMPT, ROUNDS, RUN = 64, 11, 16
BLOCK = 1 << 28  # floats whose sum measures the rate of memory
DTYPES = ("float32", "bfloat16", "float16")
SCHEMES = ("int8", "int4", "int4_128_asymmetric", "int4_dynamic", "int4_128_dynamic")


def weights() -> dict[str, torch.Tensor]:
    """Return random weights by the names of GPT-2's checkpoints."""
    width, generator = CONFIG["n_embd"], torch.Generator().manual_seed(0)
    shapes: dict[str, tuple[int, ...]] = {"wte.weight": (CONFIG["vocab_size"], width), "wpe.weight": (1024, width)}
    for i in range(CONFIG["n_layer"]):
        for name, rows, columns in (
            ("attn.c_attn", 1, 3),
            ("attn.c_proj", 1, 1),
            ("mlp.c_fc", 1, 4),
            ("mlp.c_proj", 4, 1),
        ):
            shapes[f"h.{i}.{name}.weight"] = rows * width, columns * width
            shapes[f"h.{i}.{name}.bias"] = (columns * width,)
        shapes |= {f"h.{i}.{ln}.{part}": (width,) for ln in ("ln_1", "ln_2") for part in ("weight", "bias")}
    shapes |= {"ln_f.weight": (width,), "ln_f.bias": (width,)}
    return {name: 0.02 * torch.randn(shape, generator=generator) for name, shape in shapes.items()}


def runs(one: Callable[[], None]) -> Callable[[], None]:
    """Return a function that calls ``one`` RUN times."""

    def run() -> None:
        for _ in range(RUN):
            one()

    return run


@dataclass
class Ours:
    """A model of ours: ``begin`` computes a prompt, ``one`` and ``run`` make one token and RUN of them; ``size`` is the
    bytes of weights that a token reads.
    """

    begin: Callable[[], None]
    one: Callable[[], None]
    run: Callable[[], None]
    size: int


def ours(tensors: dict[str, torch.Tensor], dtype: str, scheme: str | None = None, device: str = "cpu") -> Ours:
    """Return our side."""
    config = {"model_type": "gpt2", **CONFIG}
    named = {name: tl.tensor(t.numpy()) for name, t in tensors.items()}
    model = generation.build(config, named, device=device, dtype=getattr(tl, dtype))
    if scheme is not None:
        tl.quantize(model, scheme)
    texts: list[Iterator[Any]] = []

    def begin() -> None:
        texts[:] = [generation.stream(model, [[7] * PROMPT], max_new_tokens=RUN + 8)]
        for _ in range(4):
            next(texts[0])

    def one() -> None:
        next(texts[0])

    read = [p for name, p in model.named_parameters() if scheme is None or "wte" not in name]
    for part in model.modules():
        if isinstance(part, QuantizedLinear):
            read += [t for _, t in part.named_packs()]
    return Ours(begin, one, runs(one), sum(t.numel() * t.element_size() for t in read))


def theirs(tensors: dict[str, torch.Tensor], dtype: str) -> Callable[[], None] | None:
    """Return a function that makes one token with transformers, or None where that is missing."""
    if importlib.util.find_spec("transformers") is None:
        return None
    import transformers

    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(**CONFIG))
    model.transformer.load_state_dict(tensors)
    model = model.to(getattr(torch, dtype)).eval()
    with torch.no_grad():
        last = model(torch.full((1, PROMPT), 7), use_cache=True)

    def step() -> None:
        nonlocal last
        with torch.no_grad():
            token = last.logits[:, -1:].argmax(-1)
            last = model(token, past_key_values=last.past_key_values, use_cache=True)
            last.logits[0, -1, 0].item()

    return step


def limited(name: str, side: Ours, block: torch.Tensor) -> Row:
    """Return the row of a token beside the time in which memory gives its weights."""
    token, read = race(side.run, lambda: block.sum().item(), ROUNDS, before=side.begin)
    token, read = token / RUN, read * side.size / (4 * block.numel())
    return Row(name, token, read, detail={"tokens/s": 1 / token, "GB/s": side.size / token / 1e9})


def beside(name: str, side: Ours, other: Callable[[], None], begin: Callable[[], None] | None = None) -> Row:
    """Return the row of a token beside one of another function, which makes RUN; ``begin`` prepares it."""

    def before() -> None:
        side.begin()
        if begin:
            begin()

    token, rival = race(side.run, other, 7, before=before)
    return Row(name, token / RUN, rival / RUN, detail={"tokens/s": RUN / token})


def tokens(tensors: dict[str, torch.Tensor]) -> Iterator[Row]:
    """Measure one token in each dtype."""
    block = torch.ones(BLOCK)
    for dtype in DTYPES:
        side = ours(tensors, dtype)
        yield limited(f"token, {dtype}, limit", side, block)
        if (other := theirs(tensors, dtype)) is not None:
            yield beside(f"token, {dtype}, transformers", side, runs(other))


def quantized(tensors: dict[str, torch.Tensor]) -> Iterator[Row]:
    """Measure one token with weights of 8 and 4 bits, beside the limit and beside float32."""
    full = ours(tensors, "float32")
    block = torch.ones(BLOCK)

    for scheme in SCHEMES:
        side = ours(tensors, "float32", scheme)
        yield limited(f"token, {scheme}, limit", side, block)
        few = block[: side.size // 4]
        token, read = race(side.one, lambda few=few: few.sum().item(), 15, before=side.begin)
        yield Row(f"token, {scheme}, alone, limit", token, read)
        yield beside(f"token, {scheme}, float32", side, full.run, full.begin)


def loads(tensors: dict[str, torch.Tensor]) -> Iterator[Row]:
    """Measure the load of a folder, and that of its file by the library of the format."""
    import json

    from safetensors.torch import load_file, save_file

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.safetensors")
        save_file(tensors, path)
        Path(folder, "config.json").write_text(json.dumps({"model_type": "gpt2", **CONFIG}))

        def mine() -> None:
            tl.realize(*(p.sum() for p in generation.load(folder, device="cpu").parameters()))

        def library() -> None:
            sum(t.sum().item() for t in load_file(path).values())

        yield Row("load of 500 MB, all read", *race(mine, library, 5))


def rows(names: list[str]) -> Iterable[Row]:
    """Measure the suites of which one name is given: tokens, quantized, loads; all without."""
    tensors = weights()
    for suite in (tokens, quantized, loads):
        if not names or suite.__name__ in names:
            yield from suite(tensors)
    if folder := os.environ.get("MINILM"):
        model = generation.Encoder.from_pretrained(folder, device="cpu")
        model.encode("warm")
        took = seconds(lambda: model.encode("eating food").tolist())
        food, bread, stock = model.encode(["eating food", "eating bread", "the stock market fell"])
        detail = {"food, bread": (food @ bread).item(), "food, stock": (food @ stock).item()}
        yield Row("MiniLM, one sentence", took, None, detail=detail)


if __name__ == "__main__":
    main("generation", rows, named=True)
