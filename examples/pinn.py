"""A physics-informed net for Poisson's equation on a line: u'' = -pi^2 sin(pi x), u(-1) = u(1) = 0.

The second derivative with respect to the input is taken by ``autograd.grad`` twice, and the loss is
differentiated through it (Raissi, Perdikaris and Karniadakis, 2019). The solution is sin(pi x).

python examples/pinn.py [--device wgpu]; beside PyTorch: python examples/beside.py pinn
"""

from __future__ import annotations

import argparse
import math

import torchlette.torch as torch
from torchlette.torch import nn


def derivative(y, x):
    """Return dy/dx, on the tape."""
    return torch.autograd.grad(y.sum(), x, create_graph=True)[0]


def residual(model, x):
    """Return u'' + pi^2 sin(pi x) at the points x, [n, 1]."""
    u = model(x)
    return derivative(derivative(u, x), x) + math.pi**2 * torch.sin(math.pi * x)


def main() -> None:
    """Train and print the greatest distance from the solution."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--compile", metavar="BACKEND", help="compile the model: inductor, or eager")
    parser.add_argument("--steps", type=int, default=800)
    parser.add_argument("--points", type=int, default=128)
    options = parser.parse_args()

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1)).to(
        options.device
    )
    if options.compile:
        model = torch.compile(model, backend=options.compile)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, options.steps)
    ends = torch.tensor([[-1.0], [1.0]], device=options.device)
    for step in range(options.steps):
        x = (2 * torch.rand(options.points, 1, device=options.device) - 1).requires_grad_()
        loss = residual(model, x).square().mean() + 50 * model(ends).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if step % 200 == 0:
            print(f"step {step}: loss {loss.item():.4f}")
    with torch.no_grad():
        x = torch.linspace(-1, 1, 201, device=options.device)[:, None]
        error = (model(x) - torch.sin(math.pi * x)).abs().max().item()
    print(f"error {error:.4f}")


if __name__ == "__main__":
    main()
