"""One hundred small ops forward and backward, the gradient read at the end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from measure import Row, main, race

import torchlette


def _chain(x: Any, w: Any) -> None:
    y = x
    for _ in range(25):
        y = (y * w + x).tanh() - 0.1
    y.sum().backward()
    w.grad.tolist()
    w.grad = None


def rows() -> Iterator[Row]:
    """Measure at sizes where the cost of an op is not its arithmetic, and where it begins to be."""
    for size in (4, 1024, 65_536):
        x, w = torchlette.ones(size, device="cpu"), torchlette.ones(size, device="cpu").requires_grad_()
        u, v = torch.ones(size), torch.ones(size).requires_grad_()
        ours, theirs = race(lambda x=x, w=w: _chain(x, w), lambda u=u, v=v: _chain(u, v), rounds=15)
        yield Row(f"100 ops fwd+bwd, {size} floats", ours, theirs)


if __name__ == "__main__":
    main("small_ops", rows)
