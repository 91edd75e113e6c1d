"""GPT-2's architecture and its training step: plain PyTorch code. Only the imports name the library."""

from __future__ import annotations

from collections.abc import Callable

import torchlette.torch.nn as nn
import torchlette.torch.nn.functional as F

import torchlette.torch as torch


class Block(nn.Module):
    """Causal self-attention and a two-layer net, each behind a normalisation and beside a residual."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = (
            t.view(batch, length, self.heads, width // self.heads).transpose(1, 2)
            for t in self.qkv(self.norm1(x)).split(width, dim=2)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class GPT2(nn.Module):
    """Logits of the next token; the head shares its weight with the embedding."""

    def __init__(self, vocabulary: int, context: int, layers: int, heads: int, width: int) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.blocks = nn.ModuleList([Block(width, heads) for _ in range(layers)])
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.tokens.weight
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=0.02)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.tokens(x) + self.positions(torch.arange(x.shape[1], device=x.device))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def trainer(
    model: nn.Module, x: torch.Tensor, y: torch.Tensor, steps: int, autocast: bool = False
) -> Callable[[], float]:
    """Return a function that makes steps with AdamW, in bfloat16 under autocast if asked, and then reads the loss."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

    def run() -> float:
        for _ in range(steps):
            optimizer.zero_grad()
            with torch.autocast(x.device.type, torch.bfloat16, enabled=autocast):
                loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
            loss.backward()
            optimizer.step()
        return loss.item()

    return run


def mlp(width: int, layers: int) -> nn.Module:
    """Return a chain of linear layers and activations."""
    parts = []
    for _ in range(layers):
        parts += [nn.Linear(width, width), nn.GELU()]
    return nn.Sequential(*parts[:-1])


def fit(model: nn.Module, x: torch.Tensor, y: torch.Tensor, steps: int) -> Callable[[], float]:
    """Return a function that makes steps on a mean squared error and then reads it."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

    def run() -> float:
        for _ in range(steps):
            optimizer.zero_grad()
            loss = F.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()
        return loss.item()

    return run
