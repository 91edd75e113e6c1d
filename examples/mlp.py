"""A two-layer net trained for 50 steps under PyTorch or torchlette; both print the same parameters.

python examples/mlp.py --lib torch > a; python examples/mlp.py --lib torchlette > b; diff a b
"""

from __future__ import annotations

import argparse
import importlib
import random

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--lib", choices=["torch", "torchlette"], default="torchlette")
parser.add_argument("--digits", type=int, default=4, help="decimal places that are printed")
options = parser.parse_args()

# What a script would write as `import torchlette.torch as torch`.
torch = importlib.import_module("torch" if options.lib == "torch" else "torchlette.torch")

rng = random.Random(0)  # numbers that do not depend on the library


def numbers(*shape):
    """Return a tensor of the given shape with numbers from N(0, 1)."""
    count = 1
    for size in shape:
        count *= size
    return torch.tensor([rng.gauss(0.0, 1.0) for _ in range(count)]).reshape(shape)


model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
with torch.no_grad():
    for p in model.parameters():
        p.copy_(0.3 * numbers(*p.shape))

x = numbers(64, 4)
target = (x[:, :3] * torch.tensor([1.0, -2.0, 0.5])).argmax(dim=1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-3)

for _ in range(50):
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(x), target)
    loss.backward()
    optimizer.step()

print(f"loss {loss.item():.{options.digits}f}")
for name, p in model.named_parameters():
    print(name, [round(v, options.digits) + 0.0 for v in p.detach().flatten().tolist()])
