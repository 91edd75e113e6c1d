"""A gated MLP block on the CPU: silu(x @ gate) * (x @ up) @ down + x, against PyTorch eager and torch.compile.

The products apply what follows them. ``apart`` is ours without that (TORCHLETTE_DISABLE=fuse_epilogue).
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from typing import Any

import torch
from measure import Row, main, seconds

import torchlette.torch as ours
from torchlette import _C

#: Name, rows, width, hidden width, calls a round.
SIZES = (("64x256, hidden 704", 64, 256, 704, 40), ("512x512, hidden 1408", 512, 512, 1408, 4))
ROUNDS = 9


def block(lib: Any, *operands: Any) -> Any:
    """Return the block's output, [rows, width]; operands are x, the two weights into the block, the one out of it."""
    x, gate, up, down = operands
    return (lib.nn.functional.silu(x @ gate) * (x @ up)) @ down + x


def calls(lib: Any, f: Callable[..., Any], m: int, width: int, hidden: int, n: int) -> Callable[[], Any]:
    """Return a function that makes n calls, each on the result of the one before."""
    lib.manual_seed(0)
    weights = [lib.randn(a, b) / a**0.5 for a, b in ((width, hidden), (width, hidden), (hidden, width))]
    x = lib.randn(m, width)

    def run() -> float:
        with lib.no_grad():
            y = x
            for _ in range(n):
                y = f(lib, y, *weights) * 0.5
        return float(y[0, 0])

    return run


def rows() -> Iterator[Row]:
    """Measure each size; the rows name the rival."""
    compiled = torch.compile(block)
    for name, m, width, hidden, n in SIZES:
        sides = {
            "ours": calls(ours, block, m, width, hidden, n),
            "eager": calls(torch, block, m, width, hidden, n),
            "torch.compile": calls(torch, compiled, m, width, hidden, n),
        }
        taken: dict[str, list[float]] = {who: [] for who in (*sides, "apart")}
        for off in ("", "fuse_epilogue"):
            _C._set_option("disable_passes", off)
            sides["ours"]()
            sides["ours"]()
        for who in ("eager", "torch.compile"):
            sides[who]()
        for _ in range(ROUNDS):
            for off, who in (("", "ours"), ("fuse_epilogue", "apart")):
                _C._set_option("disable_passes", off)
                sides["ours"]()
                taken[who].append(seconds(sides["ours"]) / n)
            for who in ("eager", "torch.compile"):
                taken[who].append(seconds(sides[who]) / n)
        _C._set_option("disable_passes", "")
        mine = statistics.median(taken["ours"])
        for who in ("eager", "torch.compile", "apart"):
            yield Row(f"gated MLP {name}, beside {who}", mine, statistics.median(taken[who]))


if __name__ == "__main__":
    main("gated_mlp", rows, "cpu")
