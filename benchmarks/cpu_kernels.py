"""CPU kernels against PyTorch and the fastest of NumPy, JAX, onnxruntime and torch.compile.

``python benchmarks/cpu_kernels.py [--threads N] [--busy] [--compile] [--record SUITE] [NAME ...]`` runs the rows whose
names contain one of the given texts. All sides of a row run in turns in this process; a side begins when the threads
of the one before sleep. A figure is the median of the rounds, or the minimum on a machine that others use. ``--busy``
keeps the last core busy with a spinning process. A rival that is not installed is left out, and the first line names
it.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import statistics
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

RIVALS = ("numpy", "jax", "onnxruntime", "compile")
#: A timed sample repeats its call until it lasts this long.
SAMPLE_SECONDS = 2e-3
BUSY_LIMIT = 0.5

Call = Callable[[], Any]
Sides = dict[str, Call]


@dataclass
class Case:
    """A row: its sides, the ratio to report, and what a call moves or computes."""

    name: str
    make: Callable[[], Sides]
    limit: float
    against: str = "best"  # or "torch"
    flops: float = 0
    bytes: float = 0

    def rate(self, seconds: float) -> str:
        """Give the achieved arithmetic rate or bandwidth."""
        if self.flops:
            return f"{self.flops / seconds / 1e9:.1f} GFLOP/s"
        return f"{self.bytes / seconds / 1e9:.1f} GB/s" if self.bytes else ""


def _installed(name: str) -> bool:
    return name == "compile" or importlib.util.find_spec(name) is not None


class Maker:
    """Builds the sides of rows from one function of a library and its arrays."""

    def __init__(self, compile_too: bool) -> None:
        import numpy as np
        import torch

        import torchlette
        import torchlette.torch

        self.np, self.torch, self.ours, self.realize = np, torch, torchlette.torch, torchlette.realize
        self.jax: Any = None
        self.compile_too = compile_too
        if _installed("jax"):
            import jax

            self.jax = jax

    def array(self, *shape: int, transposed: bool = False) -> Any:
        """Make an array of uniform floats; a transposed one is a view of its transpose."""
        a = self.np.random.default_rng(0).random(shape[:-2] + shape[:-3:-1] if transposed else shape, self.np.float32)
        return a.swapaxes(-1, -2) if transposed else a

    def tensor(self, a: Any, theirs: bool) -> Any:
        """Make a tensor of either library that keeps the strides of ``a``."""
        make = self.torch.from_numpy if theirs else lambda v: self.ours.tensor(v, device="cpu")
        flipped = a.ndim >= 2 and not a.flags.c_contiguous
        t = make(a.swapaxes(-1, -2).copy() if flipped else a.copy())
        return t.transpose(-1, -2) if flipped else t

    def both(self, f: Callable[..., Any], *arrays: Any) -> Sides:
        """Build our side, which runs and waits for each call, and PyTorch's."""
        mine, theirs = ([self.tensor(a, who) for a in arrays] for who in (False, True))

        sides: Sides = {"ours": lambda: self.realize(f(self.ours, *mine)), "torch": lambda: f(self.torch, *theirs)}
        if self.compile_too:
            compiled = self.torch.compile(lambda *a: f(self.torch, *a))
            sides["compile"] = lambda: compiled(*theirs)
        return sides

    def jitted(self, f: Callable[..., Any], *arrays: Any) -> Sides:
        """Build JAX's side where JAX is installed."""
        if self.jax is None:
            return {}
        held, run = [self.jax.numpy.asarray(a) for a in arrays], self.jax.jit(f)
        return {"jax": lambda: self.jax.block_until_ready(run(*held))}

    def gradient(self, f: Callable[..., Any], leaves: int, *arrays: Any) -> Sides:
        """Build the sides of a loss that is run forward and backward to its first ``leaves`` arrays."""

        def side(lib: Any, theirs: bool) -> Call:
            held = [self.tensor(a, theirs) for a in arrays]
            for leaf in held[:leaves]:
                leaf.requires_grad_()

            def run() -> None:
                f(lib, *held).backward()
                for leaf in held[:leaves]:
                    if not theirs:
                        self.realize(leaf.grad)
                    leaf.grad = None

            return run

        return {"ours": side(self.ours, False), "torch": side(self.torch, True)}

    def product(self, batch: tuple[int, ...], m: int, k: int, n: int, flip_a: bool, flip_b: bool) -> Sides:
        """Build all sides of a matrix product."""
        a, b = self.array(*batch, m, k, transposed=flip_a), self.array(*batch, k, n, transposed=flip_b)
        sides = self.both(lambda lib, x, y: x @ y, a, b)
        sides["numpy"] = lambda: a @ b
        if self.jax is not None:
            # Operands of a jitted call are dense: the transpose is inside.
            dense = [v.swapaxes(-1, -2) if f else v for v, f in ((a, flip_a), (b, flip_b))]
            turn = self.jax.numpy.swapaxes
            sides |= self.jitted(
                lambda x, y: (turn(x, -1, -2) if flip_a else x) @ (turn(y, -1, -2) if flip_b else y), *dense
            )
        if not batch and _installed("onnxruntime") and _installed("onnx"):
            sides["onnxruntime"] = _onnx_gemm(a, b, flip_a, flip_b)
        return sides


def _onnx_gemm(a: Any, b: Any, flip_a: bool, flip_b: bool) -> Call:
    """Give onnxruntime's product, whose second operand is a constant of the model."""
    import numpy as np
    import onnxruntime as ort
    from onnx import TensorProto, helper, numpy_helper

    x = np.ascontiguousarray(a.T if flip_a else a)
    node = helper.make_node("Gemm", ["x", "w"], ["y"], transA=int(flip_a), transB=int(flip_b))
    weight = numpy_helper.from_array(np.ascontiguousarray(b.T if flip_b else b), "w")
    shape = [
        helper.make_tensor_value_info(n, TensorProto.FLOAT, s)
        for n, s in (("x", x.shape), ("y", (a.shape[0], b.shape[1])))
    ]
    model = helper.make_model(
        helper.make_graph([node], "gemm", shape[:1], shape[1:], [weight]),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=9,
    )
    options = ort.SessionOptions()
    options.intra_op_num_threads = int(os.environ["OMP_NUM_THREADS"])
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, {"x": x})


def products(m: Maker) -> Iterator[Case]:
    """GEMM and GEMV, plain and with a transposed operand."""
    shapes = [((), n, n, n, 1.0 if n == 64 else 1.05) for n in (64, 256, 512, 1024, 2048)]
    shapes += [
        ((), 512, 768, 3072, 1.05),
        ((), 31, 768, 768, 1.1),
        ((), 31, 768, 50257, 1.1),
        ((), 1, 768, 3072, 1.1),
        ((12,), 512, 64, 512, 1.0),
    ]
    for batch, rows, inner, cols, limit in shapes:
        name = "gemm_" + "x".join(str(v) for v in (*batch, rows, inner, cols))
        count = batch[0] if batch else 1
        for suffix, fa, fb in (("", False, False), ("_nt", False, True), ("_tn", True, False)):
            if fa and rows == 1 or cols == 50257 and not fb:
                continue
            yield Case(
                name + suffix,
                lambda batch=batch, r=rows, i=inner, c=cols, fa=fa, fb=fb: m.product(batch, r, i, c, fa, fb),
                limit,
                flops=2.0 * count * rows * inner * cols,
            )


def _gelu8(lib: Any, x: Any) -> Any:
    return ((x * x * x * 0.044715 + x) * 0.7978845608).tanh() * (x * 0.5) + x * 0.5


def elementwise(m: Maker) -> Iterator[Case]:
    """A large addition and the tanh-GELU in eight operations."""
    for n, limit in ((4096, 0.7), (262144, 0.3), (1 << 24, 0.3)):

        def gelu(n: int = n) -> Sides:
            x = m.array(n)
            return (
                m.both(_gelu8, x)
                | {"numpy": lambda: _gelu8_numpy(m.np, x)}
                | m.jitted(lambda v: _gelu8_numpy(m.jax.numpy, v), x)
            )

        yield Case(f"gelu8_{n}", gelu, limit, "torch", bytes=8.0 * n)

    def add() -> Sides:
        x, y = m.array(1 << 24), m.array(1 << 24)
        return m.both(lambda lib, a, b: a + b, x, y) | {"numpy": lambda: x + y} | m.jitted(lambda a, b: a + b, x, y)

    yield Case("add_16M", add, 0.25, "torch", bytes=12.0 * (1 << 24))


def _gelu8_numpy(np: Any, x: Any) -> Any:
    return np.tanh((x * x * x * np.float32(0.044715) + x) * np.float32(0.7978845608)) * (
        x * np.float32(0.5)
    ) + x * np.float32(0.5)


def reductions(m: Maker) -> Iterator[Case]:
    """Reductions, a scan and a transposed copy of 4096 x 4096."""
    size, square = 4.0 * (1 << 24), (4096, 4096)

    def case(
        name: str,
        f: Callable[..., Any],
        jnp_f: Any,
        np_f: Any,
        limit: float = 1.1,
        against: str = "best",
        moved: float = size,
    ) -> Case:
        def make() -> Sides:
            x = m.array(*square)
            sides = m.both(lambda lib, v: f(v), x) | {"numpy": lambda: np_f(x)}
            return sides | m.jitted(lambda v: jnp_f(m.jax.numpy, v), x)

        return Case(name, make, limit, against, bytes=moved)

    np = m.np
    yield case("sum_all", lambda x: x.sum(), lambda j, x: x.sum(), lambda x: x.sum())
    yield case("sum_last", lambda x: x.sum(-1), lambda j, x: x.sum(-1), lambda x: x.sum(-1))
    yield case("sum_first", lambda x: x.sum(0), lambda j, x: x.sum(0), lambda x: x.sum(0))
    yield case("max_last", lambda x: x.amax(-1), lambda j, x: x.max(-1), lambda x: x.max(-1))
    yield case("argmax_last", lambda x: x.argmax(-1), lambda j, x: x.argmax(-1), lambda x: x.argmax(-1))
    yield case("var_last", lambda x: x.var(-1), lambda j, x: x.var(-1, ddof=1), lambda x: x.var(-1, ddof=1), 1.2)
    yield case(
        "cumsum_last",
        lambda x: x.cumsum(-1),
        lambda j, x: j.cumsum(x, -1),
        lambda x: np.cumsum(x, -1),
        0.3,
        "torch",
        2 * size,
    )
    yield case(
        "transpose_copy",
        lambda x: x.t().contiguous(),
        lambda j, x: x.T.copy(),
        lambda x: np.ascontiguousarray(x.T),
        0.3,
        "torch",
        2 * size,
    )


def ordering(m: Maker) -> Iterator[Case]:
    """Sorts of one long row, of many short ones and of integers; the first few of a vocabulary; distinct values."""
    long, many, logits = m.array(1 << 20), m.array(4096, 256), m.array(32, 50257)
    whole = m.np.random.default_rng(1).integers(0, 1 << 30, 1 << 20)
    few = m.np.random.default_rng(1).integers(0, 1000, 1 << 20)

    def first(lib: Any, x: Any, k: int) -> Any:
        return lib.topk(x, k, -1)[0]

    for name, f, x in (
        ("sort_1M", lambda lib, x: lib.sort(x)[0], long),
        ("sort_4096x256", lambda lib, x: lib.sort(x)[0], many),
        ("sort_1M_int64", lambda lib, x: lib.sort(x)[0], whole),
        ("argsort_1M", lambda lib, x: lib.argsort(x), long),
        ("topk5_of_32x50257", lambda lib, x: first(lib, x, 5), logits),
        ("topk50_of_32x50257", lambda lib, x: first(lib, x, 50), logits),
        ("topk2_of_4096x256", lambda lib, x: first(lib, x, 2), many),
        ("unique_1M_of_1000", lambda lib, x: lib.unique(x), few),
        ("cumsum_1M", lambda lib, x: lib.cumsum(x, 0), long),
    ):
        yield Case(name, lambda f=f, x=x: m.both(f, x), 1.0, "torch", bytes=2.0 * x.nbytes)


def rows_and_losses(m: Maker) -> Iterator[Case]:
    """Softmax, layer norm, cross-entropy and embeddings, forward and backward."""

    def softmax() -> Sides:
        x = m.array(4096, 1024)
        return m.both(lambda lib, v: lib.softmax(v, -1), x) | m.jitted(lambda v: m.jax.nn.softmax(v, -1), x)

    yield Case("softmax_4096x1024", softmax, 1.0, bytes=8.0 * 4096 * 1024)
    norm = (m.array(4096, 768), m.array(768), m.array(768))

    def layer_norm(lib: Any, x: Any, w: Any, b: Any) -> Any:
        return lib.nn.functional.layer_norm(x, (768,), w, b)

    yield Case("layer_norm_4096x768", lambda: m.both(layer_norm, *norm), 1.05, bytes=8.0 * 4096 * 768)
    yield Case(
        "layer_norm_4096x768_fwdbwd",
        lambda: m.gradient(lambda lib, *a: layer_norm(lib, *a).sum(), 3, *norm),
        0.7,
        "torch",
        bytes=20.0 * 4096 * 768,
    )
    count, classes = 512, 50257
    target = m.np.random.default_rng(1).integers(0, classes, count)

    def loss(lib: Any, x: Any, t: Any) -> Any:
        return lib.nn.functional.cross_entropy(x, t)

    def forward() -> Sides:
        x = m.array(count, classes)
        return m.both(loss, x, target) | m.jitted(
            lambda v, t: (m.jax.nn.logsumexp(v, -1) - v[m.jax.numpy.arange(count), t]).mean(), x, target
        )

    name = f"cross_entropy_{count}x{classes}"
    yield Case(name, forward, 1.1, bytes=4.0 * count * classes)
    yield Case(
        name + "_fwdbwd",
        lambda: m.gradient(loss, 1, m.array(count, classes), target),
        0.3,
        "torch",
        bytes=12.0 * count * classes,
    )

    def embed(lib: Any, w: Any, i: Any) -> Any:
        return lib.nn.functional.embedding(i, w).sum()

    yield Case(
        "embedding_512_of_50257x768_fwdbwd",
        lambda: m.gradient(embed, 1, m.array(classes, 768), target),
        0.4,
        "torch",
        bytes=4.0 * classes * 768,
    )


def sample(call: Call) -> tuple[Call, int]:
    """Find how often a call repeats within one timed sample."""
    from measure import seconds

    call()
    once = min(seconds(call) for _ in range(2))
    return call, max(1, int(SAMPLE_SECONDS / max(once, 1e-7)))


def compete(sides: Sides, rounds: int, statistic: Callable[[list[float]], float]) -> dict[str, float]:
    """Time all sides in turns; give the statistic of each one's seconds a call."""
    from measure import rest, seconds

    ready = {who: sample(call) for who, call in sides.items()}
    taken: dict[str, list[float]] = {who: [] for who in sides}
    for _ in range(rounds):
        for who, (call, n) in ready.items():
            rest()
            taken[who].append(seconds(lambda call=call, n=n: [call() for _ in range(n)], call) / n)
    return {who: statistic(t) for who, t in taken.items()}


def measure_case(case: Case, rounds: int, statistic: Callable[[list[float]], float], busy: bool) -> Any:
    """Measure one row and describe it."""
    from measure import Row

    took = compete(case.make(), rounds, statistic)
    ours, torch_took = took.pop("ours"), took["torch"]
    best = min(took, key=lambda who: took[who])
    limit, against = (BUSY_LIMIT, "torch") if busy else (case.limit, case.against)
    rival = took[best] if against == "best" else torch_took
    detail = {
        "best": best,
        "of_best": ours / took[best],
        "limit": limit,
        "against": against,
        "met": ours <= limit * rival,
    }
    return Row(
        case.name,
        ours,
        torch_took,
        "s",
        detail | {"rate": case.rate(ours)} | {f"{who}_s": t for who, t in took.items() if who != "torch"},
    )


def main() -> int:
    """Measure the chosen rows, print the table and, when asked, write it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--min", action="store_true", help="minima instead of medians")
    parser.add_argument("--busy", action="store_true")
    parser.add_argument(
        "--compile", action="store_true", help="torch.compile too: it needs a C++ compiler, and seconds a row"
    )
    parser.add_argument("--record", metavar="SUITE", help="write results/SUITE.json")
    options = parser.parse_args()
    for name in ("TORCHLETTE_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = str(options.threads)
    os.environ["JAX_PLATFORMS"] = "cpu"  # else it takes a GPU where there is one
    if hasattr(os, "sched_setaffinity"):  # the only way to bound JAX's threads
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: options.threads])
    import measure

    maker = Maker(options.compile)
    maker.torch.set_num_threads(options.threads)
    absent = [r for r in RIVALS if not _installed(r) or r == "compile" and not options.compile]
    print(f"{options.threads} threads; without {', '.join(absent) or 'no rival'}")
    rows = []
    with measure.other_core_busy(options.threads) if options.busy else nullcontext():
        for family in (products, elementwise, reductions, ordering, rows_and_losses):
            for case in family(maker):
                if not options.names or any(n in case.name for n in options.names):
                    row = measure_case(case, options.rounds, min if options.min else statistics.median, options.busy)
                    rows.append(row)
                    print(row, flush=True)
    if options.record:
        print(f"recorded in {measure.record(options.record, 'cpu', rows)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
