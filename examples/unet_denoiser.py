"""A U-Net that predicts the noise in Fashion-MNIST pictures, as diffusion models are trained (Ho, Jain and Abbeel,
2020).

python examples/unet_denoiser.py [--device wgpu]; beside PyTorch: python examples/beside.py unet_denoiser
"""

from __future__ import annotations

import argparse
import math

import images
import torchlette.torch.nn.functional as F

import torchlette.torch as torch
from torchlette.torch import nn


class Block(nn.Module):
    """Two convolutions with group norm; the time is added between them, the input at the end."""

    def __init__(self, inputs: int, outputs: int, times: int) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(inputs, outputs, 3, padding=1), nn.Conv2d(outputs, outputs, 3, padding=1)
        self.norm1, self.norm2 = nn.GroupNorm(4, outputs), nn.GroupNorm(4, outputs)
        self.time = nn.Linear(times, outputs)
        self.skip = nn.Conv2d(inputs, outputs, 1) if inputs != outputs else nn.Identity()

    def forward(self, x, t):
        """Map [batch, inputs, h, w] and the times' features [batch, times] to [batch, outputs, h, w]."""
        h = F.silu(self.norm1(self.first(x))) + self.time(t)[:, :, None, None]
        return self.skip(x) + F.silu(self.norm2(self.second(h)))


class UNet(nn.Module):
    """Two levels down, a middle, two levels up, joined across."""

    def __init__(self, width: int = 16, times: int = 32) -> None:
        super().__init__()
        self.times = times
        self.enter = nn.Conv2d(1, width, 3, padding=1)
        self.down1, self.down2 = Block(width, width, times), Block(width, 2 * width, times)
        self.middle = Block(2 * width, 2 * width, times)
        self.up2, self.up1 = Block(4 * width, width, times), Block(2 * width, width, times)
        self.leave = nn.Conv2d(width, 1, 1)

    def forward(self, x, t):
        """Return the noise that is in x, [batch, 1, 28, 28], at the times t in [0, 1], [batch]."""
        rate = torch.exp(-math.log(1000.0) * torch.arange(self.times // 2, device=x.device) / (self.times // 2))
        angle = 1000 * t[:, None] * rate
        t = torch.cat([angle.sin(), angle.cos()], dim=1)
        a = self.down1(self.enter(x), t)
        b = self.down2(F.avg_pool2d(a, 2), t)
        c = self.middle(F.avg_pool2d(b, 2), t)
        c = F.interpolate(c, scale_factor=2, mode="nearest")
        d = self.up2(torch.cat([c, b], dim=1), t)
        d = F.interpolate(d, scale_factor=2, mode="bilinear", align_corners=False)
        return self.leave(self.up1(torch.cat([d, a], dim=1), t))


def noised(x, t, noise):
    """Return x with noise by the cosine schedule: cos^2 of it is left at time t."""
    angle = (t * (math.pi / 2))[:, None, None, None]
    return angle.cos() * x + angle.sin() * noise


def main() -> None:
    """Train and print the mean squared error of the predicted noise, 1 before training."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--compile", metavar="BACKEND", help="compile the model: inductor, or eager")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--train", type=int, default=10000)
    options = parser.parse_args()

    torch.manual_seed(0)
    x, _ = images.load(torch, "train", options.train)
    x = (2 * x - 1).to(options.device)
    model = UNet().to(options.device)
    if options.compile:
        model = torch.compile(model, backend=options.compile)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    recent = []
    for step in range(options.steps):
        batch = x[torch.randint(0, len(x), (options.batch,)).to(options.device)]
        t = torch.rand(options.batch, device=options.device)
        noise = torch.randn_like(batch)
        loss = F.mse_loss(model(noised(batch, t, noise), t), noise)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 0 or step >= options.steps - 10:
            recent = [*recent, loss.item()][-10:]
        if step % 50 == 0:
            print(f"step {step}: error {recent[-1]:.3f}")
    print(f"error {sum(recent) / len(recent):.4f}")


if __name__ == "__main__":
    main()
