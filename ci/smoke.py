"""What a fresh installation must do: import without NumPy, train a little, answer ``python -m torchlette``."""

from __future__ import annotations

import subprocess
import sys
import time


def main() -> None:
    """Run the checks; an assertion names what failed."""
    start = time.perf_counter()
    import torchlette

    took = time.perf_counter() - start
    assert "numpy" not in sys.modules, "import torchlette must not import numpy"
    torchlette.manual_seed(0)
    x = torchlette.randn(64, 4)
    y = x @ torchlette.tensor([[1.0], [-2.0], [3.0], [0.5]])
    net = torchlette.nn.Sequential(torchlette.nn.Linear(4, 16), torchlette.nn.Tanh(), torchlette.nn.Linear(16, 1))
    optimizer = torchlette.optim.AdamW(net.parameters(), lr=1e-2)
    losses = []
    for _ in range(200):
        optimizer.zero_grad()
        loss = torchlette.nn.functional.mse_loss(net(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 10, f"the loss must fall: {losses[0]} to {losses[-1]}"
    text = subprocess.run([sys.executable, "-m", "torchlette"], check=True, capture_output=True, text=True).stdout
    assert torchlette.__version__ in text, text
    print(
        f"torchlette {torchlette.__version__} from {torchlette.__file__}: import {took * 1e3:.0f} ms, loss "
        f"{losses[0]:.3f} to {losses[-1]:.4f}"
    )


if __name__ == "__main__":
    main()
