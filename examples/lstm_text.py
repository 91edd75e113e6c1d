"""A character LSTM on the text of Python's own standard library.

python examples/lstm_text.py [--device wgpu]; beside PyTorch: python examples/beside.py lstm_text
"""

from __future__ import annotations

import argparse
import math
import sysconfig
from pathlib import Path

import torchlette.torch.nn.functional as F

import torchlette.torch as torch
from torchlette.torch import nn


class Model(nn.Module):
    """Embedding, two LSTM layers, scores of the next character."""

    def __init__(self, characters: int, width: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(characters, width)
        self.lstm = nn.LSTM(width, width, num_layers=2, batch_first=True, dropout=0.1)
        self.head = nn.Linear(width, characters)

    def forward(self, x, state=None):
        """Return scores [batch, time, characters] and the LSTM's state."""
        y, state = self.lstm(self.embedding(x), state)
        return self.head(y), state


def text(size: int) -> str:
    """Return that many characters of Python source."""
    library = Path(sysconfig.get_path("stdlib"))
    out = ""
    for path in sorted(library.glob("*.py")):
        out += path.read_text(encoding="utf-8", errors="ignore")
        if len(out) >= size:
            break
    return "".join(c for c in out[:size] if c.isascii())


def sample(model, alphabet: str, device: str, length: int) -> str:
    """Write on from a line's beginning, the likeliest characters first."""
    model.eval()
    index = {c: i for i, c in enumerate(alphabet)}
    written, state = "def ", None
    x = torch.tensor([[index[c] for c in written]], device=device)
    with torch.no_grad():
        for _ in range(length):
            scores, state = model(x, state)
            x = torch.multinomial(F.softmax(scores[:, -1] / 0.6, dim=-1), 1)
            written += alphabet[x.item()]
    model.train()
    return written


def main() -> None:
    """Train, print bits for a character before and after, and a sample."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--compile", metavar="BACKEND", help="compile the model: inductor, or eager")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--width", type=int, default=96)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--length", type=int, default=48)
    options = parser.parse_args()

    torch.manual_seed(0)
    source = text(400_000)
    alphabet = "".join(sorted(set(source)))
    index = {c: i for i, c in enumerate(alphabet)}
    data = torch.tensor([index[c] for c in source])
    model = Model(len(alphabet), options.width).to(options.device)
    if options.compile:
        model = torch.compile(model, backend=options.compile)
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    for step in range(options.steps):
        starts = torch.randint(0, len(data) - options.length - 1, (options.batch,))
        window = data[starts[:, None] + torch.arange(options.length + 1)].to(options.device)
        scores, _ = model(window[:, :-1])
        loss = F.cross_entropy(scores.flatten(0, 1), window[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step == 0 or step % 50 == 49:
            print(f"step {step + 1}: {loss.item() / math.log(2):.3f} bits")
    print(sample(model, alphabet, options.device, 120))
    print(f"bits {loss.item() / math.log(2):.3f}")


if __name__ == "__main__":
    main()
