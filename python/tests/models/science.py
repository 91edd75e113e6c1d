"""Graphs, reinforcement and physics as people write them; ``torch`` is the library, PyTorch or ours."""

from __future__ import annotations

import numpy as np

NODES = 9


def gcn(torch):
    """A graph convolution network by index_add, trained on some of the nodes."""
    nn, f = torch.nn, torch.nn.functional

    class GraphConv(nn.Module):
        def __init__(self, cin, cout):
            super().__init__()
            self.lin, self.bias = nn.Linear(cin, cout, bias=False), nn.Parameter(torch.zeros(cout))

        def forward(self, x, edges):
            loops = torch.arange(x.size(0), device=x.device)
            row, col = torch.cat([edges, torch.stack([loops, loops])], dim=1)
            degree = torch.zeros(x.size(0), device=x.device).scatter_add_(0, col, torch.ones_like(col, dtype=x.dtype))
            norm = degree.pow(-0.5)
            norm[norm == float("inf")] = 0
            x = self.lin(x)
            messages = (norm[row] * norm[col]).view(-1, 1) * x[row]
            return torch.zeros_like(x).index_add_(0, col, messages) + self.bias

    class GCN(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1, self.conv2 = GraphConv(4, 6), GraphConv(6, 3)

        def forward(self, x, edges):
            return f.log_softmax(self.conv2(f.relu(self.conv1(x, edges)), edges), dim=1)

    def loss(model, x, edges, labels, mask):
        out = model(x, edges)
        return f.nll_loss(out[mask], labels[mask]), out

    return GCN(), loss, lambda model: torch.optim.Adam(model.parameters(), lr=1e-2, weight_decay=5e-4)


def gcn_batch(random):
    """Return features, edges, labels and the nodes to train on."""
    mask = np.zeros(NODES, bool)
    mask[::2] = True
    return [
        random.standard_normal((NODES, 4)).astype(np.float32),
        random.integers(0, NODES, (2, 20)),
        random.integers(0, 3, NODES),
        mask,
    ]


def dqn(torch):
    """A step of deep Q learning with a target network that follows."""
    nn = torch.nn

    def net():
        return nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 2))

    class Agent(nn.Module):
        def __init__(self):
            super().__init__()
            self.policy, self.target = net(), net()
            self.target.load_state_dict(self.policy.state_dict())
            for p in self.target.parameters():
                p.requires_grad = False

        def follow(self, tau=0.05):
            new, old = self.policy.state_dict(), self.target.state_dict()
            for key in new:
                old[key] = new[key] * tau + old[key] * (1 - tau)
            self.target.load_state_dict(old)

    def loss(model, state, action, reward, following, over):
        values = model.policy(state).gather(1, action)
        later = torch.zeros(state.size(0), device=state.device)
        with torch.no_grad():
            later[~over] = model.target(following[~over]).max(1).values
        result = nn.SmoothL1Loss()(values, ((later * 0.99) + reward).unsqueeze(1))
        model.follow()
        return result, values

    return Agent(), loss, lambda model: torch.optim.AdamW(model.policy.parameters(), lr=1e-3, amsgrad=True)


def dqn_batch(random):
    """Return states, actions, rewards, next states and which episodes ended."""
    state, following = (random.standard_normal((6, 4)).astype(np.float32) for _ in range(2))
    return [
        state,
        random.integers(0, 2, (6, 1)),
        random.standard_normal(6).astype(np.float32),
        following,
        np.array([0, 1, 0, 0, 1, 0], bool),
    ]


def pinn(torch):
    """A network that solves Burgers' equation u_t + u u_x = 0.01 u_xx: the loss holds second derivatives."""
    nn = torch.nn

    def derivative(u, x):
        return torch.autograd.grad(u, x, grad_outputs=torch.ones_like(u), create_graph=True, retain_graph=True)[0]

    def loss(model, x, t, x0, u0):
        x, t = x.requires_grad_(True), t.requires_grad_(True)
        u = model(torch.cat([x, t], dim=1))
        ux = derivative(u, x)
        residual = derivative(u, t) + u * ux - 0.01 * derivative(ux, x)
        start = model(torch.cat([x0, torch.zeros_like(x0)], dim=1))
        return (residual**2).mean() + nn.functional.mse_loss(start, u0), u

    layers = [nn.Linear(2, 12), nn.Tanh(), nn.Linear(12, 12), nn.Tanh(), nn.Linear(12, 1)]
    return nn.Sequential(*layers), loss, lambda model: torch.optim.Adam(model.parameters(), lr=1e-2)


def pinn_batch(random):
    """Return places, times, places of the start and values there."""
    x0 = random.uniform(-1, 1, (8, 1)).astype(np.float32)
    return [
        random.uniform(-1, 1, (10, 1)).astype(np.float32),
        random.random((10, 1)).astype(np.float32),
        x0,
        -np.sin(np.pi * x0),
    ]
