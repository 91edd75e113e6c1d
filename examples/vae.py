"""A variational autoencoder on Fashion-MNIST (Kingma and Welling, "Auto-Encoding Variational Bayes").

python examples/vae.py [--device wgpu]; beside PyTorch: python examples/beside.py vae
"""

from __future__ import annotations

import argparse

import images
import torchlette.torch.nn.functional as F

import torchlette.torch as torch
from torchlette.torch import nn


class VAE(nn.Module):
    """Convolutions to a normal distribution of codes, transposed convolutions back."""

    def __init__(self, codes: int = 16) -> None:
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(1, 16, 4, stride=2, padding=1), nn.ReLU(),
            nn.Conv2d(16, 32, 4, stride=2, padding=1), nn.ReLU(), nn.Flatten(),
        )  # fmt: skip
        self.mean = nn.Linear(32 * 7 * 7, codes)
        self.log_variance = nn.Linear(32 * 7 * 7, codes)
        self.decoder = nn.Sequential(
            nn.Linear(codes, 32 * 7 * 7), nn.ReLU(), nn.Unflatten(1, (32, 7, 7)),
            nn.ConvTranspose2d(32, 16, 4, stride=2, padding=1), nn.ReLU(),
            nn.ConvTranspose2d(16, 1, 4, stride=2, padding=1),
        )  # fmt: skip

    def forward(self, x):
        """Return the scores of the pixels, and the codes' mean and log variance."""
        h = self.encoder(x)
        mean, log_variance = self.mean(h), self.log_variance(h)
        codes = mean + torch.randn_like(mean) * (0.5 * log_variance).exp()
        return self.decoder(codes), mean, log_variance


def bound(scores, x, mean, log_variance):
    """Return the negative evidence lower bound in nats a picture."""
    picture = F.binary_cross_entropy_with_logits(scores, x, reduction="sum")
    divergence = -0.5 * (1 + log_variance - mean.square() - log_variance.exp()).sum()
    return (picture + divergence) / len(x)


def main() -> None:
    """Train and print the bound before and after."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--compile", metavar="BACKEND", help="compile the model: inductor, or eager")
    parser.add_argument("--train", type=int, default=20000)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--picture", help="write 64 drawn pictures to this file (needs matplotlib)")
    options = parser.parse_args()

    torch.manual_seed(0)
    x, _ = images.load(torch, "train", options.train)
    x = x.to(options.device)
    model = VAE().to(options.device)
    if options.compile:
        model = torch.compile(model, backend=options.compile)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for epoch in range(options.epochs):
        order = torch.randperm(len(x)).to(options.device)
        for i in range(0, len(x) - 63, 64):
            batch = x[order[i : i + 64]]
            loss = bound(*_arguments(model, batch))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if epoch == 0 and i == 0:
                print(f"first bound {loss.item():.1f}")
    if options.picture:
        draw(model, options.device, options.picture)
    print(f"bound {loss.item():.1f}")


def _arguments(model, x):
    scores, mean, log_variance = model(x)
    return scores, x, mean, log_variance


def draw(model, device: str, path: str) -> None:
    """Write 64 pictures drawn from the prior."""
    import matplotlib.pyplot as plt

    with torch.no_grad():
        pictures = model.decoder(torch.randn(64, 16, device=device)).sigmoid().reshape(8, 8, 28, 28)
    plt.imsave(path, pictures.permute(0, 2, 1, 3).reshape(224, 224).cpu().numpy(), cmap="gray")


if __name__ == "__main__":
    main()
