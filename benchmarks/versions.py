"""Two builds of torchlette in turns: ``python benchmarks/versions.py BASE CHANGED [--device wgpu]``.

BASE and CHANGED are folders in which ``pip install --target`` has put the package. Each build runs in a process of its
own; the processes work in turns, case by case, and the median of the rounds' ratios is printed: above 1 the change
costs time.
"""

from __future__ import annotations

import argparse
import gc
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

HERE = Path(__file__).resolve().parent
#: Calls in one timing of a case that records only.
CALLS = 5_000


def _record(lib: ModuleType, tape: bool) -> Callable[[], float]:
    a, b = lib.ones(4, device="cpu").requires_grad_(tape), lib.ones(4, device="cpu")

    def run() -> float:
        begin = time.perf_counter()
        for _ in range(CALLS):
            a + b
        return (time.perf_counter() - begin) / CALLS

    return run


def _timed(f: Callable[[], Any], count: int) -> Callable[[], float]:
    def run() -> float:
        begin = time.perf_counter()
        f()
        return (time.perf_counter() - begin) / count

    return run


def _small_ops(lib: ModuleType, device: str) -> Callable[[], float]:
    x, w = lib.ones(4, device=device), lib.ones(4, device=device).requires_grad_()

    def run() -> None:
        y = x
        for _ in range(25):
            y = (y * w + x).tanh() - 0.1
        y.sum().backward()
        w.grad.tolist()
        w.grad = None

    return _timed(run, 1)


def _items(lib: ModuleType) -> Callable[[], float]:
    x = lib.ones(1, device="cpu")

    def run() -> None:
        for _ in range(200):
            (x + 1).item()

    return _timed(run, 200)


def _window(lib: ModuleType, part: str) -> Callable[[], float]:
    from torchlette.testing.counters import Delta

    x = lib.ones(4, device="cpu")
    x.tolist()

    def run() -> float:
        y = x
        with Delta() as seen:
            for _ in range(1_500):
                y = y * 0.999 + 0.5
            y.tolist()
        return seen[f"{part}_ns"] / max(seen["nodes_executed"], 1) * 1e-9

    return run


def _product(lib: ModuleType, device: str, shape: tuple[int, int, int]) -> Callable[[], float]:
    m, k, n = shape
    x, w, b = (lib.randn(*s, device=device) for s in ((m, k), (n, k), (n,)))
    w /= k**0.5  # as in a network: outputs of standard deviation 1

    def run() -> None:
        for _ in range(20):
            y = lib.nn.functional.gelu(lib.nn.functional.linear(x, w, b), approximate="tanh")
            y[0, 0].item()

    return _timed(run, 20)


def _gpt2(device: str) -> Callable[[], float]:
    import gpt2

    import torchlette.torch as torch

    torch.manual_seed(0)
    model = gpt2.GPT2(50257, 128, 6, 12, 768).to(device)
    x, y = (torch.randint(0, 50257, (1, 128)).to(device) for _ in range(2))
    return _timed(gpt2.trainer(model, x, y, 3), 3)


def _demo(device: str) -> Callable[[], float]:
    sys.path.insert(0, str(HERE.parent / "demo"))
    import gpt

    import torchlette.torch as torch

    torch.manual_seed(0)
    config = gpt.Config(vocabulary=90)
    model = gpt.GPT(config).to(device)
    optimizer, x, y = gpt.make_optimizer(model, config), None, None
    x, y = (torch.randint(0, 90, (config.batch, config.context)).to(device) for _ in range(2))

    def run() -> None:
        for _ in range(5):
            optimizer.zero_grad()
            loss = gpt.loss_of(model, x, y)
            loss.backward()
            gpt.nn.utils.clip_grad_norm_(model.parameters(), config.clip)
            optimizer.step()
        loss.item()

    return _timed(run, 5)


def _small_net(lib: ModuleType, device: str) -> Callable[[], float]:
    net = lib.nn.Sequential(
        lib.nn.Linear(16, 16), lib.nn.ReLU(), lib.nn.Linear(16, 16), lib.nn.ReLU(), lib.nn.Linear(16, 1)
    )
    net.to(device)
    optimizer = lib.optim.AdamW(net.parameters(), 1e-3)
    x = lib.randn(32, 16).to(device)

    def run() -> None:
        for _ in range(20):
            optimizer.zero_grad()
            net(x).square().mean().backward()
            optimizer.step()
        net[0].weight[0, 0].item()

    return _timed(run, 20)


def cases(device: str) -> dict[str, Callable[[], Callable[[], float]]]:
    """Return the cases by name; each gives, when called, a function that returns the seconds of one round."""

    def library() -> ModuleType:
        import torchlette

        return torchlette

    host = {
        "record a + b": lambda: _record(library(), False),
        "record a + b, tape": lambda: _record(library(), True),
        "(x + 1).item()": lambda: _items(library()),
        "window of 3,000 nodes: key per node": lambda: _window(library(), "key"),
        "window of 3,000 nodes: run per node": lambda: _window(library(), "run"),
    }
    both = {
        "100 small ops, forward and backward": lambda: _small_ops(library(), device),
        "AdamW step of a 16-wide net": lambda: _small_net(library(), device),
        "gelu(linear) 64x128x512": lambda: _product(library(), device, (64, 128, 512)),
        "gelu(linear) 512x768x3072": lambda: _product(library(), device, (512, 768, 3072)),
        "demo step": lambda: _demo(device),
        "DistilGPT-2 step, B1 T128": lambda: _gpt2(device),
    }
    return {**(host if device == "cpu" else {}), **both}


def work(device: str) -> None:
    """Serve as one side: read a case's name a line, print the seconds of one round."""
    made: dict[str, Callable[[], float]] = {}
    known = cases(device)
    for line in sys.stdin:
        name = line.strip()
        if name not in made:
            made.clear()  # the case before gives its memory back
            made[name] = known[name]()
            for _ in range(3):
                made[name]()
        gc.collect()
        gc.disable()
        print(repr(made[name]()), flush=True)
        gc.enable()


class Side:
    """A process that imports one of the builds."""

    def __init__(self, site: str, device: str) -> None:
        path = os.pathsep.join([str(Path(site).resolve()), str(HERE)])
        self.process = subprocess.Popen(
            [sys.executable, "-P", __file__, "--work", "--device", device],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": path},
        )  # fmt: skip

    def round(self, name: str) -> float:
        """Run one round of a case."""
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(name + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise SystemExit(f"{name}: the process ended with status {self.process.wait()}")
        return float(answer)


def main() -> None:
    """Run the cases in turns."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sites", nargs="*", metavar="SITE")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--only", help="cases whose names contain this")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        return work(options.device)
    if len(options.sites) != 2:
        parser.error("name two folders: the base's and the change's")
    base, changed = (Side(site, options.device) for site in options.sites)
    for name in cases(options.device):
        if options.only and options.only not in name:
            continue
        pairs = []
        for n in range(options.rounds):  # which side begins alternates
            sides = (base, changed) if n % 2 == 0 else (changed, base)
            times = {side: side.round(name) for side in sides}
            pairs.append((times[base], times[changed]))
        b, c = (statistics.median(p[i] for p in pairs) for i in (0, 1))
        ratios = sorted(y / x for x, y in pairs)
        least = min(p[1] for p in pairs) / min(p[0] for p in pairs)
        n = len(ratios)
        print(
            f"{name:<38} {b * 1e6:>10.3f} us {c * 1e6:>10.3f} us  x{statistics.median(ratios):.3f}"
            f"  ({ratios[n // 4]:.3f} to {ratios[-1 - n // 4]:.3f}), of the least x{least:.3f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
