"""GPU kernels: torchlette through WebGPU against PyTorch on CUDA, row by row, beside the device's limit.

``python benchmarks/gpu_kernels.py [--compile] [--record SUITE] [--rounds N] [NAME ...]`` runs the rows whose name
contains one of the given texts. ``--compile`` adds ``torch.compile`` to the rows of several operations. All sides of a
row run in turns in this process. A sample is the time of a batch of calls, whose
results are all computed and kept, less the time of an empty batch (submission and waiting). A figure is the median of
the samples, divided by the number of calls. Calls of a batch do not depend on each other, so a device may overlap the
end of one with the start of the next. Where the host's work (recording, planning, encoding) takes most of the time, the
row says ``host``: it is not a kernel's time.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from measure import Row, record, seconds, settle

import torchlette
import torchlette.torch as ours_lib

#: An H200's peaks: HBM3e, and FMA in float32 outside of the tensor cores (132 x 128 x 2 x 1.98 GHz).
BYTES_PER_SECOND, FLOPS_PER_SECOND = 4.8e12, 66.9e12
#: Seconds that a batch lasts, about, and the most bytes that its results take.
BATCH_SECONDS, BATCH_BYTES = 0.02, 10 << 30
MOST_CALLS = 1024
#: Share of the host's time from which a row is marked ``host``.
HOST_BOUND = 0.8
#: Most calls, and most seconds of calls, that our side submits at once: the device waits while the first of them are
#: recorded.
WINDOW, WINDOW_SECONDS = 32, 0.002
#: A chain's calls take turns with SETS sets of inputs, and a window has one call of each: no group takes two calls.
SETS = 4
FLOAT = 4

Call = Callable[[], Any]


@dataclass
class Case:
    """A row: a function of a library and its tensors, the gradients to take of it, and what a call must do."""

    name: str
    shapes: list[tuple[int, ...]]
    f: Callable[..., Any]
    bytes: float = 0
    flops: float = 0
    leaves: int = 0  # the first inputs whose gradients are taken; 0: forward alone
    integers: tuple[int, int] | None = None  # a last input: so many integers below so much
    chain: bool = False  # several operations, which torch.compile fuses

    def inputs(self, lib: Any, device: str) -> list[Any]:
        """Make the tensors of one side."""
        lib.manual_seed(0)
        made = [lib.rand(*s, device=device) for s in self.shapes]
        for t in made if self.leaves else ():
            t.requires_grad_()
        if self.integers is not None:
            count, below = self.integers
            made.append(lib.randint(0, below, (count,), device=device))
        return made

    def least(self) -> float:
        """Seconds that the device's peaks allow."""
        return max(self.bytes / BYTES_PER_SECOND, self.flops / FLOPS_PER_SECOND)


class Side:
    """One library's batches of a case."""

    def __init__(self, case: Case, lib: Any, device: str, finish: Callable[[], None], compiled: bool = False) -> None:
        self.case, self.lib, self.finish = case, lib, finish
        self.sets = [case.inputs(lib, device) for _ in range(SETS if case.chain else 1)]
        self.f = lib.compile(case.f) if compiled else case.f

    def call(self) -> list[Any]:
        """Record one call; give its results, or the gradients of the leaves."""
        inputs = self.sets[0]
        self.sets = [*self.sets[1:], inputs]
        y = self.f(self.lib, *inputs)
        leaves = inputs[: self.case.leaves]
        if not leaves:
            return [y]
        return list(self.lib.autograd.grad(y, leaves, None if y.dim() == 0 else self.lib.ones_like(y)))

    def calls(self, n: int) -> list[Any]:
        """Record n calls; give what must stay alive until they have run."""
        return [self.call() for _ in range(n)]

    def batch(self, n: int) -> None:
        """Run n calls and wait for them."""
        kept = self.calls(n)
        self.finish()
        del kept

    def sample(self, n: int) -> float:
        """Seconds a call, without what an empty batch takes."""
        empty = min(seconds(lambda: self.batch(0)) for _ in range(3))
        return (seconds(lambda: self.batch(n)) - empty) / n


class OurSide(Side):
    """Our batches: a value that nobody reads is not computed, so each result becomes the contents of a tensor of its
    own.

    Assigning a whole tensor is no copy: the kernel of the value writes there.
    """

    def __init__(self, case: Case) -> None:
        super().__init__(case, ours_lib, "wgpu", torchlette.mark_step)
        self.window = WINDOW
        self.sinks: list[list[Any]] = []
        self.host = 0.0  # seconds a call that the host spends on the first window, which waits for no other

    def calls(self, n: int) -> list[Any]:
        """Record n calls and the assignments of their results, and submit them in windows, so that the device need not
        wait for the host.
        """
        while len(self.sinks) < n:
            self.sinks.append([ours_lib.empty_like(t).detach() for t in self.call()])
        begin = time.perf_counter()
        with ours_lib.no_grad():
            for number, sinks in enumerate(self.sinks[:n], 1):
                with ours_lib.enable_grad():
                    results = self.call()
                for sink, result in zip(sinks, results, strict=True):
                    sink.copy_(result)
                if number % self.window == 0:
                    torchlette.flush()
                if number == min(n, self.window):
                    self.host = (time.perf_counter() - begin) / number
        return []


def measure_case(case: Case, rounds: int, compiled: bool) -> Row:
    """Measure the sides of a case in turns."""
    mine, theirs = OurSide(case), Side(case, torch, "cuda", torch.cuda.synchronize)
    third = Side(case, torch, "cuda", torch.cuda.synchronize, compiled=True) if compiled and case.chain else None
    kept = sum(FLOAT * t.numel() for t in theirs.call())
    theirs.batch(2)
    fastest = max(theirs.sample(10), case.least(), 2e-6)
    n = int(max(4, min(BATCH_SECONDS / fastest, BATCH_BYTES / kept, MOST_CALLS)))
    mine.window = SETS if case.chain else int(min(WINDOW, max(1, WINDOW_SECONDS / fastest)))
    n -= n % mine.window if n > mine.window else 0  # whole windows: all are one plan
    settle(lambda: mine.batch(n))  # plans are built, buffers pooled
    for _ in range(3):
        theirs.batch(n)
        if third:
            third.batch(n)
    a, b, c, host = [], [], [], []
    for _ in range(rounds):
        a.append(mine.sample(n))
        host.append(mine.host)
        b.append(theirs.sample(n))
        if third:
            c.append(third.sample(n))
    took = statistics.median(a)
    detail: dict[str, Any] = {"of_limit": case.least() / took}
    if c:
        detail["to compile"] = took / statistics.median(c)
    if case.flops:
        detail["TFLOP/s"] = case.flops / took / 1e12
    if case.bytes:
        detail["TB/s"] = case.bytes / took / 1e12
    if statistics.median(host) > HOST_BOUND * took:
        detail["host"] = statistics.median(host)
    return Row(case.name, took, statistics.median(b), "s", detail)


def product(
    name: str, m: int, n: int, k: int, batch: tuple[int, ...] = (), flip_a: bool = False, flip_b: bool = False
) -> Case:
    """Describe a matrix product; a flipped operand is the transposed view of a dense tensor."""
    a, b = (k, m) if flip_a else (m, k), (n, k) if flip_b else (k, n)
    count = 1
    for d in batch:
        count *= d

    def f(lib: Any, x: Any, y: Any) -> Any:
        return (x.transpose(-1, -2) if flip_a else x) @ (y.transpose(-1, -2) if flip_b else y)

    return Case(name, [(*batch, *a), (*batch, *b)], f, FLOAT * count * (m * n + m * k + k * n), 2.0 * count * m * n * k)


def products() -> Iterator[Case]:
    """Matrix products: squares, a transformer's, products with a vector, small ones in a batch."""
    for n in (4096, 2048, 1024, 512):
        yield product(f"gemm {n}", n, n, n)
    for m, n, k in ((512, 3072, 768), (512, 768, 768), (512, 768, 3072), (512, 50257, 768), (50257, 768, 512)):
        yield product(f"gemm {m}x{n}x{k}", m, n, k)
    yield product("gemm 512x3072x768 nt", 512, 3072, 768, flip_b=True)
    yield product("gemm 512x50257x768 nt", 512, 50257, 768, flip_b=True)
    yield product("gemm 768x3072x4096 tn", 768, 3072, 4096, flip_a=True)
    yield product("gemm 1024 nt", 1024, 1024, 1024, flip_b=True)
    yield product("gemm 31x768x768", 31, 768, 768)
    yield product("gemv 1x768x3072", 1, 768, 3072)
    yield product("gemv 1x768x3072 nt", 1, 768, 3072, flip_b=True)
    yield product("gemv 16384x1x4096", 16384, 1, 4096)
    yield product("gemm 12 of 512x512x64", 512, 512, 64, (12,), flip_b=True)
    yield product("gemm 12 of 512x64x512", 512, 64, 512, (12,))


def reductions() -> Iterator[Case]:
    """Elementwise, reductions and copies, bound by memory."""
    for size in (16, 128):
        n = size << 20
        yield Case(f"add {size}M", [(n,), (n,)], lambda lib, x, y: x + y, 3.0 * FLOAT * n)
    yield Case("sum 1M", [(1 << 20,)], lambda lib, x: x.sum(), FLOAT * (1 << 20))
    square, moved = (4096, 4096), FLOAT * 4096.0 * 4096
    for name, f in (
        ("sum all", lambda lib, x: x.sum()),
        ("sum last", lambda lib, x: x.sum(-1)),
        ("sum first", lambda lib, x: x.sum(0)),
        ("amax last", lambda lib, x: x.amax(-1)),
        ("argmax last", lambda lib, x: x.argmax(-1)),
        ("argmax all", lambda lib, x: x.argmax()),
        ("var last", lambda lib, x: x.var(-1)),
    ):
        yield Case(f"{name} of 4096x4096", [square], f, moved)
    yield Case("transposed copy 4096x4096", [square], lambda lib, x: x.t().contiguous(), 2 * moved)
    yield Case(
        "permuted copy 32x512x12x64",
        [(32, 512, 12, 64)],
        lambda lib, x: x.permute(0, 2, 3, 1).contiguous(),
        2.0 * FLOAT * 32 * 512 * 12 * 64,
    )


def layer_norm(lib: Any, x: Any, w: Any, b: Any) -> Any:
    """Normalise the last dim."""
    return lib.nn.functional.layer_norm(x, x.shape[-1:], w, b)


def rows_and_losses() -> Iterator[Case]:
    """Softmax, layer norm, cross-entropy and embeddings."""
    size = FLOAT * 4096.0 * 1024
    yield Case("softmax 4096x1024", [(4096, 1024)], lambda lib, x: lib.softmax(x, -1), 2 * size)
    size = FLOAT * 4096.0 * 768
    norm: list[tuple[int, ...]] = [(4096, 768), (768,), (768,)]
    yield Case("layer_norm 4096x768", norm, layer_norm, 2 * size)
    yield Case("layer_norm 4096x768 fwd+bwd", norm, layer_norm, 5 * size, leaves=3)
    size = FLOAT * 512.0 * 50257
    yield Case(
        "cross_entropy 512x50257 fwd+bwd",
        [(512, 50257)],
        lambda lib, x, t: lib.nn.functional.cross_entropy(x, t),
        3 * size,
        leaves=1,
        integers=(512, 50257),
    )
    yield Case(
        "embedding 512 of 50257x768 fwd+bwd",
        [(50257, 768)],
        lambda lib, w, i: lib.nn.functional.embedding(i, w),
        FLOAT * 50257.0 * 768,
        leaves=1,
        integers=(512, 50257),
    )


def gelu_by_hand(lib: Any, x: Any) -> Any:
    """GELU by tanh in eight operations."""
    return 0.5 * x * (1 + lib.tanh(0.79788456 * (x + 0.044715 * x * x * x)))


def residual_norm(lib: Any, x: Any, y: Any, w: Any, b: Any) -> Any:
    """Dropout, residual and layer norm."""
    return layer_norm(lib, lib.nn.functional.dropout(x, 0.1) + y, w, b)


def dropout(lib: Any, x: Any) -> Any:
    """Dropout."""
    return lib.nn.functional.dropout(x, 0.1)


def noise(lib: Any, x: Any) -> Any:
    """Normal noise, scaled and added."""
    return x + 0.1 * lib.randn_like(x)


def chains() -> Iterator[Case]:
    """Operations that a fusion group computes."""
    n = 16 << 20
    yield Case("gelu by hand 16M", [(n,)], gelu_by_hand, 2.0 * FLOAT * n, chain=True)
    yield Case("dropout 16M", [(n,)], dropout, 2.0 * FLOAT * n, chain=True)
    yield Case("noise 16M", [(n,)], noise, 2.0 * FLOAT * n, chain=True)
    size = FLOAT * 4096.0 * 1024
    shapes: list[tuple[int, ...]] = [(4096, 1024), (4096, 1024), (1024,), (1024,)]
    yield Case("residual dropout norm", shapes, residual_norm, 3 * size, chain=True)
    # Forward reads two and writes one; backward reads the sum and the gradient and writes two gradients.
    yield Case("residual dropout norm fwd+bwd", shapes, residual_norm, 7 * size, leaves=4, chain=True)


def rows(names: list[str] | None = None, rounds: int = 9, compiled: bool = False) -> Iterator[Row]:
    """Measure the rows whose names contain one of the texts."""
    if not torch.cuda.is_available():
        return
    # TF32 would let PyTorch use tensor cores, which WGSL cannot reach: float32 against float32.
    torch.backends.cuda.matmul.allow_tf32 = False
    for family in (products, reductions, rows_and_losses, chains):
        for case in family():
            if not names or any(n in case.name for n in names):
                yield measure_case(case, rounds, compiled)


def main() -> None:
    """Print the table and, when asked, record it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--compile", action="store_true", help="race torch.compile too, in rows of several operations")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--record", metavar="SUITE", help="write results/SUITE.json")
    options = parser.parse_args()
    table = []
    for row in rows(options.names, options.rounds, options.compile):
        table.append(row)
        print(row, flush=True)
    if options.record:
        print(f"recorded in {record(options.record, 'wgpu', table)}")


if __name__ == "__main__":
    main()
