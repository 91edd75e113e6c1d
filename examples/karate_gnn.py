"""A graph convolution net (Kipf and Welling, 2017) on Zachary's karate club, by ``index_add``.

34 members, 78 friendships (W. W. Zachary, 1977). The sides of two members, the instructor and the president, are known;
the net predicts the others.

python examples/karate_gnn.py [--device wgpu]; beside PyTorch: python examples/beside.py karate_gnn
"""

from __future__ import annotations

import argparse

import torchlette.torch.nn.functional as F

import torchlette.torch as torch
from torchlette.torch import nn

# Friends of each member with a greater number, members counted from 0.
FRIENDS = {
    0: (1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13, 17, 19, 21, 31), 1: (2, 3, 7, 13, 17, 19, 21, 30),
    2: (3, 7, 8, 9, 13, 27, 28, 32), 3: (7, 12, 13), 4: (6, 10), 5: (6, 10, 16), 6: (16,), 8: (30, 32, 33), 9: (33,),
    13: (33,), 14: (32, 33), 15: (32, 33), 18: (32, 33), 19: (33,), 20: (32, 33), 22: (32, 33),
    23: (25, 27, 29, 32, 33), 24: (25, 27, 31), 25: (31,), 26: (29, 33), 27: (33,), 28: (31, 33), 29: (32, 33),
    30: (32, 33), 31: (32, 33), 32: (33,),
}  # fmt: skip
MEMBERS = 34
#: Who stayed with the instructor when the club split.
INSTRUCTOR = {0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13, 16, 17, 19, 21}


class GraphConvolution(nn.Module):
    """A linear map of each node, then the weighted sum over its neighbours and itself."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)

    def forward(self, x, source, target, weight):
        """Map features [nodes, inputs] along edges source to target, [edges] each, with weights [edges, 1]."""
        messages = self.linear(x)[source] * weight
        return torch.zeros(len(x), messages.shape[1], device=x.device).index_add(0, target, messages)


class Net(nn.Module):
    """Two graph convolutions."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = GraphConvolution(MEMBERS, 16), GraphConvolution(16, 2)

    def forward(self, x, *graph):
        """Return the scores of the two sides, [nodes, 2]."""
        return self.second(F.relu(self.first(x, *graph)), *graph)


def graph(device: str):
    """Return sources, targets and the weights 1 / sqrt(degree degree') of the edges, loops included."""
    pairs = [(a, b) for a, friends in FRIENDS.items() for b in friends]
    pairs += [(b, a) for a, b in pairs] + [(n, n) for n in range(MEMBERS)]
    source, target = torch.tensor(pairs, device=device).t()
    degree = torch.zeros(MEMBERS, device=device).index_add(0, target, torch.ones(len(pairs), device=device))
    return source, target, (degree[source] * degree[target]).rsqrt()[:, None]


def main() -> None:
    """Train on the two members known, print how many of all are found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--compile", metavar="BACKEND", help="compile the model: inductor, or eager")
    parser.add_argument("--steps", type=int, default=200)
    options = parser.parse_args()

    torch.manual_seed(0)
    edges = graph(options.device)
    x = torch.eye(MEMBERS, device=options.device)
    sides = torch.tensor([0 if n in INSTRUCTOR else 1 for n in range(MEMBERS)], device=options.device)
    known = torch.tensor([0, 33], device=options.device)
    model = Net().to(options.device)
    if options.compile:
        model = torch.compile(model, backend=options.compile)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    for _ in range(options.steps):
        loss = F.cross_entropy(model(x, *edges)[known], sides[known])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        found = (model(x, *edges).argmax(1) == sides).sum().item()
    print(f"loss {loss.item():.4f}")
    print(f"found {found} of {MEMBERS}")


if __name__ == "__main__":
    main()
