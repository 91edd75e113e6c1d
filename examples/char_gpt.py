"""A small character GPT that learns this file and then writes some of it.

python examples/char_gpt.py [--steps 200]
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torchlette.torch.nn as nn
import torchlette.torch.nn.functional as F

import torchlette.torch as torch

WIDTH, HEADS, CONTEXT, BATCH = 64, 4, 32, 16


class Block(nn.Module):
    """Causal attention and a two-layer net, each with a residual."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.net = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x):
        batch, length, _ = x.shape
        heads = self.qkv(self.norm1(x)).view(batch, length, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        attention = F.scaled_dot_product_attention(*heads.unbind(0), is_causal=True)
        x = x + self.out(attention.transpose(1, 2).reshape(batch, length, WIDTH))
        return x + self.net(self.norm2(x))


class GPT(nn.Module):
    """Logits of the next character."""

    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, WIDTH)
        self.positions = nn.Parameter(torch.zeros(CONTEXT, WIDTH))
        self.blocks = nn.Sequential(Block(), Block())
        self.head = nn.Linear(WIDTH, vocabulary)

    def forward(self, x):
        return self.head(self.blocks(self.tokens(x) + self.positions))


def main() -> None:
    """Train and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=200)
    steps = parser.parse_args().steps

    torch.manual_seed(0)
    text = Path(__file__).read_text()
    alphabet = sorted(set(text))
    data = torch.tensor([alphabet.index(c) for c in text])
    starts = torch.arange(len(data) - CONTEXT).unsqueeze(1)
    windows = data[starts + torch.arange(CONTEXT + 1)]

    model = GPT(len(alphabet))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for step in range(steps):
        batch = windows[torch.randint(len(windows), (BATCH,))]
        optimizer.zero_grad()
        loss = F.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        if step % 50 == 0 or step + 1 == steps:
            print(f"step {step}: loss {loss.item():.3f}")

    written = data[:CONTEXT].tolist()
    with torch.no_grad():
        for _ in range(200):
            logits = model(torch.tensor([written[-CONTEXT:]]))[0, -1]
            written.append(int(logits.argmax()))
    print("".join(alphabet[i] for i in written))


if __name__ == "__main__":
    main()
