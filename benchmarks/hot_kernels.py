"""Machine code of the CPU's kernels: ours with it, ours without it, PyTorch, and torch.compile.

``python benchmarks/hot_kernels.py [--compile] [--rounds N] [--record] [NAME ...]`` runs the rows whose names contain
one of the given texts. Each of our sides is a process of its own, since TORCHLETTE_CPU=blocks switches machine code
off. The sides take turns. A figure is the time of one call in the shortest series of calls; ratios below 1 say that we
are, or that machine code is, faster.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from fusion import TURN_SECONDS, WIDE, gelu_by_hand, norm_by_hand, operands, polynomial
from measure import THREADS, Row, record, seconds, settle

import torchlette
import torchlette.torch


def gated(t: Any, x: Any) -> Any:
    """The elementwise part of a gated MLP, by hand: silu(a) * b."""
    return x["a"] * t.sigmoid(x["a"]) * x["b"]


def many(t: Any, x: Any) -> Any:
    """64 small kernels, each of a polynomial and a sum that separates it from the next."""
    total = [polynomial(t, x)]
    for _ in range(63):
        total.append(polynomial(t, {"a": x["a"] * total[-1].sum()}))
    return total


def turn(call: Callable[[], Any]) -> float:
    """Return the seconds of a call in the shortest series; a series takes two milliseconds or one call."""
    settle(call)
    count = max(1, int(2e-3 / seconds(call)))
    begin = time.perf_counter()
    samples: list[float] = []
    while len(samples) < 3 or time.perf_counter() - begin < TURN_SECONDS:
        samples.append(seconds(lambda: [call() for _ in range(count)]) / count)
    return min(samples)


def shape(n: int) -> dict[str, tuple[int, ...]]:
    """Return the shapes of two vectors."""
    return {"a": (n,), "b": (n,)}


ROWS: dict[str, tuple[Callable[[Any, Any], Any], dict[str, tuple[int, ...]]]] = {
    "polynomial of degree 8, 4": (polynomial, shape(4)),
    "polynomial of degree 8, 4,096": (polynomial, shape(4096)),
    "polynomial of degree 8, 262,144": (polynomial, shape(262_144)),
    "polynomial of degree 8, 16M": (polynomial, shape(1 << 24)),
    "64 polynomials and sums, 64": (many, shape(64)),
    "64 polynomials and sums, 4,096": (many, shape(4096)),
    "gelu by hand, 4,096": (gelu_by_hand, shape(4096)),
    "gelu by hand, 262,144": (gelu_by_hand, shape(262_144)),
    "gelu by hand, 16M": (gelu_by_hand, shape(1 << 24)),
    "gate of a gated MLP, 512x1408": (gated, {"a": (512, 1408), "b": (512, 1408)}),
    "layer norm by hand, 4096x1024": (norm_by_hand, WIDE),
}


def serve() -> None:
    """Time the rows whose names come in, one at a time."""
    made: dict[str, Callable[[], Any]] = {}
    for line in sys.stdin:
        name = line.strip()
        if name not in made:
            f, shapes = ROWS[name]
            x = operands(torchlette.torch, shapes, "cpu")

            def call(f: Callable[[Any, Any], Any] = f, x: dict[str, Any] = x) -> None:
                out = f(torchlette.torch, x)
                torchlette.realize(*(out if isinstance(out, list) else [out]))

            made[name] = call
        print(turn(made[name]), flush=True)


class Side:
    """A process of this script that serves one of our sides."""

    def __init__(self, cpu: str) -> None:
        env = {**os.environ, "TORCHLETTE_CPU": cpu, "TORCHLETTE_NUM_THREADS": str(torch.get_num_threads())}
        command = [sys.executable, __file__, "--serve"]
        self.child = subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __call__(self, name: str) -> float:
        """Return the seconds of the shortest call of a turn."""
        assert self.child.stdin and self.child.stdout
        print(name, file=self.child.stdin, flush=True)
        return float(self.child.stdout.readline())


def measured(options: Any) -> Iterator[Row]:
    """Race the rows."""
    sides: dict[str, Callable[[str], float]] = {"ours": Side(""), "blocks": Side("blocks")}
    for name, (f, shapes) in ROWS.items():
        if options.name and not any(n in name for n in options.name):
            continue
        x = operands(torch, shapes, "cpu")
        sides["torch"] = lambda _, f=f, x=x: turn(lambda: f(torch, x))  # type: ignore[misc]
        if options.compile:
            compiled = torch.compile(f)
            sides["compile"] = lambda _, f=compiled, x=x: turn(lambda: f(torch, x))  # type: ignore[misc]
        samples: dict[str, list[float]] = {k: [] for k in sides}
        for _ in range(options.rounds):
            for k, side in sides.items():
                samples[k].append(side(name))
        best = {k: min(v) for k, v in samples.items()}
        detail = {f"to {k}": best["ours"] / v for k, v in best.items() if k not in ("ours", "torch")}
        yield Row(name, best["ours"], best["torch"], detail=detail)


def main() -> None:
    """Run as a program."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", nargs="*")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--compile", action="store_true", help="race torch.compile too")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--record", action="store_true", help="write results/hot_kernels.json")
    options = parser.parse_args()
    if options.serve:
        return serve()
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", THREADS)))
    rows = []
    for row in measured(options):
        rows.append(row)
        print(row, flush=True)
    if options.record:
        print(f"recorded in {record('hot_kernels', 'cpu', rows)}")


if __name__ == "__main__":
    main()
