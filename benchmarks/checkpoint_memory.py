"""Peak memory of a training step of a 12-layer GPT, with and without checkpoints, beside PyTorch's, on the CPU:
``python benchmarks/checkpoint_memory.py``.

Each figure is of a process of its own: the most bytes during the first step, and during the third, of parameters,
gradients, AdamW's moments and what the step needs besides. Ours is the engine's count of bytes in buffers; PyTorch's is
that of its allocator, from the profiler's memory events.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

LAYERS, WIDTH, HEADS, VOCABULARY = 12, 256, 4, 2048


def make_model(lib: Any) -> Any:
    """Return a GPT whose blocks are checkpointed if ``forward`` is asked to."""
    nn, functional = lib.nn, lib.nn.functional

    class Block(nn.Module):  # type: ignore[name-defined,misc]
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
            self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
            self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

        def forward(self, x: Any) -> Any:
            batch, length, _ = x.shape
            q, k, v = (
                t.view(batch, length, HEADS, WIDTH // HEADS).transpose(1, 2)
                for t in self.qkv(self.norm1(x)).split(WIDTH, dim=-1)
            )
            y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(y.transpose(1, 2).reshape(batch, length, WIDTH))
            return x + self.down(functional.gelu(self.up(self.norm2(x))))

    class GPT(nn.Module):  # type: ignore[name-defined,misc]
        def __init__(self) -> None:
            super().__init__()
            self.tokens, self.places = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(1024, WIDTH)
            self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
            self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY, bias=False)

        def forward(self, tokens: Any, checkpointed: bool) -> Any:
            x = self.tokens(tokens) + self.places(lib.arange(tokens.shape[1]))
            for block in self.blocks:
                if checkpointed:
                    x = lib.utils.checkpoint.checkpoint(block, x, use_reentrant=False)
                else:
                    x = block(x)
            return self.head(self.norm(x))

    return GPT()


def train(lib: Any, batch: int, length: int, checkpointed: bool, after: Callable[[], Any]) -> list[Any]:
    """Make a model and train it for three steps; return what ``after`` gives after the making and after each step."""
    lib.manual_seed(0)
    model = make_model(lib)
    optimizer = lib.optim.AdamW(model.parameters(), lr=1e-4)
    data = lib.randint(0, VOCABULARY, (batch, length + 1))
    found = [after()]
    for _ in range(3):
        optimizer.zero_grad()
        logits = model(data[:, :-1], checkpointed)
        loss = lib.nn.functional.cross_entropy(logits.reshape(-1, VOCABULARY), data[:, 1:].reshape(-1))
        del logits
        loss.backward()
        optimizer.step()
        loss.item()
        found.append(after())
    return found


def peaks(side: str, batch: int, length: int, checkpointed: bool) -> tuple[int, int]:
    """Return the peak bytes of the first and of the third step of a training run in this process."""
    if side == "torchlette":
        import torchlette
        import torchlette.torch as lib

        torchlette.set_default_device("cpu")

        def restart() -> int:
            torchlette.mark_step()
            peak = int(torchlette.stats()["peak_bytes"])
            torchlette._C._set_option("reset_peak", "1")
            return peak

        found = train(lib, batch, length, checkpointed, restart)
        return found[1], found[3]
    import torch

    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        times = train(torch, batch, length, checkpointed, time.time_ns)
    events = [e for e in profile.profiler.kineto_results.events() if e.name() == "[memory]"]
    now, most = 0, [0, 0, 0, 0]
    for event in sorted(events, key=lambda e: e.start_ns()):
        now += event.nbytes()
        step = sum(event.start_ns() > t for t in times[:3])
        most[step] = max(most[step], now)
    return most[1], most[3]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--one", help="internal: the side to measure in this process")
    parser.add_argument("--checkpointed", action="store_true")
    args = parser.parse_args()
    if args.one:
        print(json.dumps(peaks(args.one, args.batch, args.length, args.checkpointed)))
        return
    print(
        f"| batch {args.batch}, length {args.length}, step | torchlette, MB | PyTorch, MB | ratio |\n|---|---|---|---|"
    )
    for name, flags in (("plain", []), ("checkpointed", ["--checkpointed"])):
        found = []
        for side in ("torchlette", "torch"):
            command = [
                sys.executable,
                __file__,
                "--one",
                side,
                "--batch",
                str(args.batch),
                "--length",
                str(args.length),
            ]
            run = subprocess.run([*command, *flags], check=True, capture_output=True, text=True)
            found.append([n / 1e6 for n in json.loads(run.stdout.splitlines()[-1])])
        for step, ours, theirs in zip((1, 3), *found, strict=True):
            print(f"| {name}, {step} | {ours:.1f} | {theirs:.1f} | {ours / theirs:.3f} |", flush=True)


if __name__ == "__main__":
    main()
