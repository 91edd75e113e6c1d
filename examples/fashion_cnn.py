"""A small convolutional net on Fashion-MNIST: convolution, batch norm, pooling, a linear layer.

python examples/fashion_cnn.py [--device wgpu]; beside PyTorch: python examples/beside.py fashion_cnn
"""

from __future__ import annotations

import argparse

import images
import torchlette.torch.nn.functional as F
from torchlette.torch.utils.data import DataLoader, TensorDataset

import torchlette.torch as torch
from torchlette.torch import nn


class Net(nn.Module):
    """Two convolutions with batch norm and pooling, then a linear classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
        )  # fmt: skip
        self.head = nn.Linear(32 * 7 * 7, 10)

    def forward(self, x):
        """Return the scores of the ten kinds, [batch, 10]."""
        return self.head(self.features(x).flatten(1))


def accuracy(model, x, y):
    """Return the fraction of pictures classified correctly."""
    model.eval()
    with torch.no_grad():
        right = sum((model(x[i : i + 500]).argmax(1) == y[i : i + 500]).sum().item() for i in range(0, len(x), 500))
    model.train()
    return right / len(x)


def main() -> None:
    """Train and print the accuracy on pictures not trained on."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--compile", metavar="BACKEND", help="compile the model: inductor, or eager")
    parser.add_argument("--train", type=int, default=60000)
    parser.add_argument("--test", type=int, default=10000)
    parser.add_argument("--epochs", type=int, default=1)
    options = parser.parse_args()

    torch.manual_seed(0)
    train = TensorDataset(*images.load(torch, "train", options.train))
    test_x, test_y = (t.to(options.device) for t in images.load(torch, "t10k", options.test))
    loader = DataLoader(train, batch_size=64, shuffle=True)
    model = Net().to(options.device)
    if options.compile:
        model = torch.compile(model, backend=options.compile)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=4e-3, total_steps=options.epochs * len(loader))
    for epoch in range(options.epochs):
        total = 0.0
        for step, (x, y) in enumerate(loader):
            loss = F.cross_entropy(model(x.to(options.device)), y.to(options.device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            if step % 50 == 0:
                total = loss.item()
        print(f"epoch {epoch + 1}: loss {total:.3f}")
    print(f"accuracy {accuracy(model, test_x, test_y):.4f}")


if __name__ == "__main__":
    main()
