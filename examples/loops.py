"""Five programs whose loops run in the engine: ``python examples/loops.py NAME``, or ``all``.

selective_scan  a state space layer whose step sizes depend on the input, as in Mamba: trains to copy marked inputs
kalman          a Kalman filter of position and velocity
hmc             Hamiltonian Monte Carlo samples a bent density, with the gradients inside the loop
ode             a learned vector field, trained through 200 Euler steps
beam            beam search over a table of transitions, compared with all sequences

Each prints its result. Its last line begins with a number.
"""

from __future__ import annotations

import itertools
import math
import sys
from typing import Any

import torchlette.torch as torch
from torchlette import lax
from torchlette.func import grad


def selective_scan(steps: int = 120, length: int = 24, width: int = 8, states: int = 4) -> None:
    """Train a selective scan to hold the last marked input."""
    gate, rates = torch.nn.Linear(2, width), torch.nn.Parameter(torch.zeros(width, states))
    into, out = torch.nn.Linear(2, width), torch.nn.Linear(width * states, 1)
    layers = torch.nn.ModuleList([gate, into, out])
    optimizer = torch.optim.Adam([*layers.parameters(), rates], lr=0.02)

    def layer(x: Any) -> Any:
        dt, u = torch.nn.functional.softplus(gate(x)), into(x)  # [length, batch, width]

        def step(h: Any, now: Any) -> Any:
            d, v = now
            h = h * torch.exp(-d[..., None] * torch.exp(rates)) + (d * v)[..., None]
            return h, h

        start = torch.zeros(x.shape[1], width, states)
        return out(lax.scan(step, start, (dt, u))[1].flatten(2))[..., 0]

    for i in range(steps):
        value = torch.rand(length, 16)
        mark = (torch.rand(length, 16) < 0.2).float()
        mark[0] = 1
        held = lax.scan(lambda h, n: (torch.where(n[1] > 0, n[0], h),) * 2, value[0], (value, mark))[1]
        loss = ((layer(torch.stack([value * mark, mark], -1)) - held) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if i % 40 == 0:
            print(f"step {i}: loss {loss.item():.4f}")
    print(f"{loss.item():.4f} is the last loss; the variance of the values is 0.083")


def kalman(length: int = 400) -> None:
    """Filter noisy positions of a point of almost constant velocity."""
    move, noise = torch.tensor([[1.0, 0.1], [0.0, 1.0]]), torch.tensor([[1e-4, 0.0], [0.0, 1e-3]])
    truth = torch.cumsum(0.1 + torch.cumsum(torch.randn(length) * 0.003, 0), 0)
    seen = truth + torch.randn(length) * 0.5

    def step(state: Any, z: Any) -> Any:
        mean, cov = state
        mean, cov = move @ mean, move @ cov @ move.T + noise
        gain = cov[:, 0] / (cov[0, 0] + 0.25)
        return (mean + gain * (z - mean[0]), cov - gain[:, None] * cov[0]), mean[0] + gain[0] * (z - mean[0])

    first = (torch.zeros(2), torch.eye(2))
    print("runs on path", lax.loop_report(lax.scan)(step, first, seen)[0].path)
    filtered = lax.scan(step, first, seen)[1]
    before, after = ((v - truth)[50:].square().mean().sqrt().item() for v in (seen, filtered))
    print(f"{after / before:.3f} of the error of the observations, {before:.3f}, is left")


def hmc(samples: int = 400, leaps: int = 10, step: float = 0.15) -> None:
    """Sample x ~ N(0, 1), y ~ N(x * x, 1/2)."""

    def energy(q: Any) -> Any:
        return q[0] ** 2 / 2 + (q[1] - q[0] ** 2) ** 2

    force = grad(energy)

    def leap(_: Any, state: Any) -> Any:
        q, p = state
        p = p - step / 2 * force(q)
        q = q + step * p
        return q, p - step / 2 * force(q)

    def sample(q: Any, _: Any) -> Any:
        p = torch.randn(2)
        new, left = lax.fori_loop(0, leaps, leap, (q, p))
        change = energy(q) + (p**2).sum() / 2 - energy(new) - (left**2).sum() / 2
        q = torch.where(torch.log(torch.rand(())) < change, new, q)
        return q, q

    chain = lax.scan(sample, torch.zeros(2), None, length=samples)[1]
    print("mean of y - x * x:", round((chain[:, 1] - chain[:, 0] ** 2).mean().item(), 3))
    print(f"{chain[:, 0].std().item():.3f} is the deviation of x; it is 1 in the limit")


def ode(steps: int = 60, points: int = 200) -> None:
    """Learn the field of a turning point from where it ends."""
    field = torch.nn.Sequential(torch.nn.Linear(2, 16), torch.nn.Tanh(), torch.nn.Linear(16, 2))
    optimizer = torch.optim.Adam(field.parameters(), lr=0.02)
    start = torch.randn(32, 2)
    angle = torch.tensor(1.0)
    turn = torch.stack([torch.stack([angle.cos(), -angle.sin()]), torch.stack([angle.sin(), angle.cos()])])
    goal = start @ turn.T
    for i in range(steps):
        end = lax.fori_loop(0, points, lambda _, x: x + field(x) / points, start)
        loss = ((end - goal) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if i % 20 == 0:
            print(f"step {i}: loss {loss.item():.4f}")
    print(f"{loss.item():.5f} is the last loss, after {points} Euler steps")


def beam(words: int = 6, length: int = 5, width: int = 4) -> None:
    """Find the most probable sequence of a Markov chain."""
    table = torch.log_softmax(2 * torch.randn(words, words), -1)

    def step(state: Any, _: Any) -> Any:
        score, word = state
        best, place = (score[:, None] + table[word]).flatten().topk(width)
        parent, word = place // words, place % words
        return (best, word), (parent, word)

    start = torch.cat([torch.zeros(1), torch.full((width - 1,), -math.inf)])
    (score, _), (parents, chosen) = lax.scan(step, (start, torch.zeros(width, dtype=torch.int64)), None, length=length)
    back = lax.scan(lambda k, n: (n[0][k], n[1][k]), torch.tensor(0), (parents, chosen), reverse=True)[1]
    print("sequence:", back.tolist())
    rows = table.tolist()
    every = max(
        sum(rows[a][b] for a, b in itertools.pairwise((0, *s))) for s in itertools.product(range(words), repeat=length)
    )
    print(f"{score[0].item() - every:.6f} below the best of all {words**length} sequences")


EXAMPLES = {f.__name__: f for f in (selective_scan, kalman, hmc, ode, beam)}

if __name__ == "__main__":
    chosen = sys.argv[1] if len(sys.argv) > 1 else "all"
    for name in EXAMPLES if chosen == "all" else [chosen]:
        torch.manual_seed(3)
        print(f"-- {name}")
        EXAMPLES[name]()
