"""Text of a language model: a folder of Hugging Face's, or a tiny random model where none is given.

``python examples/generate.py FOLDER "Once upon a time"`` prints the text while it is made. Without a folder the script
writes one with a random GPT-2 of letters, so that it shows every step without a download.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path

import torchlette as tl
from torchlette import generation

LETTERS = "abcdefghijklmnopqrstuvwxyz .,\n"


class Letters:
    """A tokenizer: a token is a letter."""

    def encode(self, text: str) -> list[int]:
        """Return the letters' numbers; others are left out."""
        return [LETTERS.index(c) for c in text.lower() if c in LETTERS]

    def decode(self, ids: list[int]) -> str:
        """Return the text of numbers."""
        return "".join(LETTERS[i] for i in ids)


def write_random_model(folder: Path, width: int = 64, layers: int = 2) -> None:
    """Write a folder as Hugging Face's are: a config and a safetensors file."""
    config = {"model_type": "gpt2", "vocab_size": len(LETTERS), "n_embd": width, "n_layer": layers, "n_head": 4}
    (folder / "config.json").write_text(json.dumps(config))
    shapes = {"wte.weight": (len(LETTERS), width), "wpe.weight": (1024, width), "ln_f.weight": (width,)}
    for i in range(layers):
        for name, n in (("attn.c_attn", 3), ("attn.c_proj", 1), ("mlp.c_fc", 4)):
            shapes[f"h.{i}.{name}.weight"], shapes[f"h.{i}.{name}.bias"] = (width, n * width), (n * width,)
        shapes[f"h.{i}.mlp.c_proj.weight"], shapes[f"h.{i}.mlp.c_proj.bias"] = (4 * width, width), (width,)
        shapes |= {f"h.{i}.{ln}.{part}": (width,) for ln in ("ln_1", "ln_2") for part in ("weight", "bias")}
    shapes["ln_f.bias"] = (width,)
    tl.save({name: 0.3 * tl.randn(shape, device="cpu") for name, shape in shapes.items()}, folder / "model.safetensors")


def main() -> None:
    """Load a model, stream a greedy text, draw some, search with beams."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", help="a model's folder; a tiny random one is written where it is absent")
    parser.add_argument("prompt", nargs="?", default="once upon a time ")
    parser.add_argument("--tokens", type=int, default=40)
    parser.add_argument("--device", default="cpu")
    args = parser.parse_args()

    tl.manual_seed(0)
    with tempfile.TemporaryDirectory() as made:
        if args.folder is None:
            write_random_model(Path(made))
        model = generation.load(args.folder or made, device=args.device)
    tokenizer = model.tokenizer or Letters()
    ids = tokenizer.encode(args.prompt)
    prompt = tl.tensor([ids if isinstance(ids, list) else ids.ids])

    print(f"greedy, streamed: {args.prompt}", end="")
    pieces, count, begin = generation.Pieces(tokenizer), 0, time.perf_counter()
    for tokens in generation.stream(model, prompt, max_new_tokens=args.tokens, do_sample=False):
        print(pieces.put(tokens.item()), end="", flush=True)
        count += 1
    print(f"{pieces.rest()}\n{count / (time.perf_counter() - begin):.0f} tokens/s")

    drawn = tl.generate(
        model, prompt, max_new_tokens=args.tokens, do_sample=True, top_p=0.9, temperature=0.8, num_return_sequences=2
    )
    beams = tl.generate(model, prompt, max_new_tokens=args.tokens, num_beams=4, do_sample=False)
    for name, row in (("drawn", drawn[0]), ("drawn", drawn[1]), ("4 beams", beams[0])):
        print(f"{name}: {tokenizer.decode(row.tolist())}")


if __name__ == "__main__":
    main()
