"""A character GPT and its training: plain PyTorch code. Only the imports name the library."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torchlette.torch.nn as nn
import torchlette.torch.nn.functional as F
from torchlette.torch.utils.data import DataLoader, Dataset

import torchlette.torch as torch


@dataclass
class Config:
    """Sizes of the model and of a step."""

    vocabulary: int
    context: int = 64
    layers: int = 4
    heads: int = 4
    width: int = 128
    dropout: float = 0.1
    batch: int = 8
    steps: int = 600
    warmup: int = 50
    rate: float = 2e-3
    decay: float = 0.1
    clip: float = 1.0


class Attention(nn.Module):
    """Causal self-attention of several heads."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.heads = config.heads
        self.dropout = config.dropout
        self.qkv = nn.Linear(config.width, 3 * config.width, bias=False)
        self.out = nn.Linear(config.width, config.width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = self.qkv(x).split(width, dim=2)
        q, k, v = (t.view(batch, length, self.heads, width // self.heads).transpose(1, 2) for t in (q, k, v))
        dropout = self.dropout if self.training else 0.0
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    """Attention and a two-layer net, each behind a normalisation and beside a residual."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(config.width)
        self.attention = Attention(config)
        self.norm2 = nn.LayerNorm(config.width)
        self.net = nn.Sequential(
            nn.Linear(config.width, 4 * config.width), nn.GELU(), nn.Linear(4 * config.width, config.width)
        )
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.dropout(self.attention(self.norm1(x)))
        return x + self.dropout(self.net(self.norm2(x)))


class GPT(nn.Module):
    """Logits of the next character at each position."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.tokens = nn.Embedding(config.vocabulary, config.width)
        self.positions = nn.Embedding(config.context, config.width)
        self.dropout = nn.Dropout(config.dropout)
        self.blocks = nn.ModuleList([Block(config) for _ in range(config.layers)])
        self.norm = nn.LayerNorm(config.width)
        self.head = nn.Linear(config.width, config.vocabulary, bias=False)
        self.apply(self.initialise)

    @staticmethod
    def initialise(module: nn.Module) -> None:
        """Draw weights from N(0, 0.02^2)."""
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=0.02)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.dropout(self.tokens(x) + self.positions(torch.arange(x.shape[1], device=x.device)))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))

    @torch.no_grad()
    def generate(self, prompt: Sequence[int], length: int, temperature: float = 0.8) -> list[int]:
        """Continue ``prompt`` by ``length`` characters."""
        self.eval()
        # A window of constant size, filled up on the left with the prompt's first character.
        window = [prompt[0]] * (self.config.context - len(prompt)) + list(prompt)[-self.config.context :]
        device = self.head.weight.device
        for _ in range(length):
            x = torch.tensor([window[-self.config.context :]], device=device)
            probabilities = F.softmax(self(x)[0, -1] / temperature, dim=-1)
            window.append(torch.multinomial(probabilities, 1).item())
        self.train()
        return window[-length:]


class Windows(Dataset):
    """Windows of a text: the characters at a position and those that follow each."""

    def __init__(self, text: Sequence[int], context: int) -> None:
        self.text = torch.tensor(text)
        self.context = context

    def __len__(self) -> int:
        return len(self.text) - self.context

    def __getitem__(self, i: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self.text[i : i + self.context], self.text[i + 1 : i + 1 + self.context]


def make_optimizer(model: nn.Module, config: Config) -> torch.optim.Optimizer:
    """Return AdamW with weight decay on matrices only."""
    matrices = [p for p in model.parameters() if p.dim() >= 2]
    rest = [p for p in model.parameters() if p.dim() < 2]
    groups = [{"params": matrices, "weight_decay": config.decay}, {"params": rest, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=config.rate, betas=(0.9, 0.95))


def make_schedule(optimizer: torch.optim.Optimizer, config: Config) -> torch.optim.lr_scheduler.LRScheduler:
    """Return a linear warm-up followed by half a cosine."""

    def factor(step: int) -> float:
        if step < config.warmup:
            return (step + 1) / config.warmup
        done = (step - config.warmup) / max(1, config.steps - config.warmup)
        return 0.1 + 0.45 * (1 + math.cos(math.pi * min(1.0, done)))

    return torch.optim.lr_scheduler.LambdaLR(optimizer, factor)


def loss_of(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Return the mean cross entropy of the next characters."""
    return F.cross_entropy(model(x).flatten(0, 1), y.flatten())


def train(
    model: GPT,
    text: Sequence[int],
    order: Sequence[Sequence[int]],
    device: torch.device,
    report: Callable[[int, float], None],
    every: int = 10,
) -> Iterator[int]:
    """Train on the windows that ``order`` lists, batch by batch; the loss is read every few steps."""
    config = model.config
    optimizer = make_optimizer(model, config)
    schedule = make_schedule(optimizer, config)
    loader = DataLoader(Windows(text, config.context), batch_sampler=order)
    for step, (x, y) in enumerate(loader):
        optimizer.zero_grad()
        loss = loss_of(model, x.to(device), y.to(device))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), config.clip)
        optimizer.step()
        schedule.step()
        if step % every == 0 or step + 1 == len(order):
            report(step, loss.item())
        yield step
