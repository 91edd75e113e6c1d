"""Fusion groups: ours with the pass ``fuse``, ours without it, PyTorch, and torch.compile.

``python benchmarks/fusion.py [--device wgpu] [--compile] [--rounds N] [--record] [NAME ...]`` runs the rows whose names
contain one of the given texts. The sides take turns in this process; a turn is several calls after untimed ones, which
build plans and compile kernels. A figure is the shortest call of all turns, since other programs only add to it; ratios
below 1 say that the group is faster.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from measure import THREADS, Row, record, seconds, settle

import torchlette
import torchlette.torch
from torchlette.testing.holding import disabled

Call = Callable[[], Any]
TURN_SECONDS = 0.05


def residual_norm(t: Any, x: Any) -> Any:
    """Residual, dropout and layer norm."""
    y = t.nn.functional.dropout(x["a"], 0.1) + x["b"]
    return t.nn.functional.layer_norm(y, y.shape[-1:], x["w"], x["v"])


def residual_norm_backward(t: Any, x: Any) -> Any:
    """Residual, dropout and layer norm, and the gradients of their operands."""
    leaves = [x[k].detach().requires_grad_() for k in ("a", "b", "w", "v")]
    y = residual_norm(t, dict(zip(("a", "b", "w", "v"), leaves, strict=True)))
    y.backward(x["g"])
    return [leaf.grad for leaf in leaves]


def masked_softmax(t: Any, x: Any) -> Any:
    """Softmax of scaled masked scores."""
    return t.softmax(x["scores"] * 0.125 + x["mask"], -1)


def gelu_sum(t: Any, x: Any) -> Any:
    """GELU, then the sum of everything."""
    return t.nn.functional.gelu(x["a"]).sum()


def gelu_row_sums(t: Any, x: Any) -> Any:
    """GELU, then the sums of rows."""
    return t.nn.functional.gelu(x["a"], approximate="tanh").sum(-1)


def norm_by_hand(t: Any, x: Any) -> Any:
    """Layer norm in single operations."""
    centred = x["a"] - x["a"].mean(-1, keepdim=True)
    return centred * t.rsqrt((centred * centred).mean(-1, keepdim=True) + 1e-5) * x["w"] + x["v"]


def cross_entropy(t: Any, x: Any) -> Any:
    """Cross-entropy of logits by a temperature."""
    return t.nn.functional.cross_entropy(x["a"] / 0.7, x["classes"])


def gelu_by_hand(t: Any, x: Any) -> Any:
    """GELU by tanh in eight operations."""
    a = x["a"]
    return 0.5 * a * (1 + t.tanh(0.79788456 * (a + 0.044715 * a * a * a)))


def gelu_by_hand_bfloat16(t: Any, x: Any) -> Any:
    """The same of bfloat16 elements."""
    return gelu_by_hand(t, {"a": x["a"].to(t.bfloat16)})


def polynomial(t: Any, x: Any) -> Any:
    """A polynomial of degree 8, by Horner's rule."""
    y = x["a"]
    for k in range(2, 9):
        y = y * x["a"] + 1.0 / k
    return y


def compared(t: Any, x: Any) -> Any:
    """A comparison, a choice and a cast."""
    return t.where(x["a"] > 0.5, x["a"] * 2, x["b"]).to(t.int32)


def scale_gradients(t: Any, x: Any) -> Any:
    """The gradients of a scale and a shift of columns."""
    return [(x["g"] * x["a"]).sum(0), x["g"].sum(0)]


def column_squares(t: Any, x: Any) -> Any:
    """The mean squares of columns less a row."""
    d = x["a"] - x["w"]
    return (d * d).mean(0)


def relu_gradients(t: Any, x: Any) -> Any:
    """Gradients of a ReLU and of the bias before it."""
    g = t.where(x["a"] > 0, x["g"], 0.0)
    return [g, g.sum(0)]


def scaled_columns_bfloat16(t: Any, x: Any) -> Any:
    """The sums of columns of a product of bfloat16 elements."""
    return (x["a16"] * x["b16"]).sum(0)


def clipped_step(t: Any, x: Any) -> Any:
    """Clipping by the norm and the step of AdamW, of 16 parameters of 256x1024."""
    if "optimizer" not in x:
        x["parameters"] = [t.nn.Parameter(x["square"].clone()) for _ in range(16)]
        x["optimizer"] = t.optim.AdamW(x["parameters"], 1e-3)
    for p in x["parameters"]:
        p.grad = x["gradient"] * 1.5
    t.nn.utils.clip_grad_norm_(x["parameters"], 1.0)
    x["optimizer"].step()
    return list(x["parameters"])


def dropout(t: Any, x: Any) -> Any:
    """Dropout."""
    return t.nn.functional.dropout(x["a"], 0.1)


def noise(t: Any, x: Any) -> Any:
    """Normal noise, scaled and added."""
    return x["a"] + 0.1 * t.randn_like(x["a"])


def exp64(t: Any, x: Any) -> Any:
    """The exponential of float64 elements."""
    return t.exp(x["double"])


def tanh64(t: Any, x: Any) -> Any:
    """The hyperbolic tangent of float64 elements."""
    return t.tanh(x["double"])


def gelu64(t: Any, x: Any) -> Any:
    """GELU by erf of float64 elements."""
    return t.nn.functional.gelu(x["double"])


WIDE = {"a": (4096, 1024), "b": (4096, 1024), "g": (4096, 1024), "w": (1024,), "v": (1024,)}
FLAT = {"a": (262_144,), "b": (262_144,)}
LONG = {"a": (1 << 24,)}
DOUBLE = {"double": (262_144,)}
STEP = {"square": (256, 1024), "gradient": (256, 1024)}
SCORES = {"scores": (8, 8, 256, 256), "mask": (256, 256)}

ROWS: dict[str, tuple[Callable[[Any, Any], Any], dict[str, tuple[int, ...]]]] = {
    "residual dropout norm": (residual_norm, WIDE),
    "residual dropout norm, backward": (residual_norm_backward, WIDE),
    "softmax of scaled masked scores": (masked_softmax, SCORES),
    "gelu, sum of 4M": (gelu_sum, WIDE),
    "gelu, sums of rows of 1024": (gelu_row_sums, WIDE),
    "layer norm by hand": (norm_by_hand, WIDE),
    "cross-entropy by temperature": (cross_entropy, WIDE),
    "gradients of a scale and a shift": (scale_gradients, WIDE),
    "mean squares of columns": (column_squares, WIDE),
    "gradients of a ReLU and a bias": (relu_gradients, WIDE),
    "sums of columns, bfloat16": (scaled_columns_bfloat16, WIDE),
    "clipping and AdamW": (clipped_step, STEP),
    "gelu by hand, 262,144": (gelu_by_hand, FLAT),
    "gelu by hand, bfloat16, 262,144": (gelu_by_hand_bfloat16, FLAT),
    "polynomial of degree 8, 262,144": (polynomial, FLAT),
    "comparison, where, int32, 262,144": (compared, FLAT),
    "dropout, 262,144": (dropout, FLAT),
    "dropout, 16M": (dropout, LONG),
    "noise, 262,144": (noise, FLAT),
    "noise, 16M": (noise, LONG),
    "exp, float64, 262,144": (exp64, DOUBLE),
    "tanh, float64, 262,144": (tanh64, DOUBLE),
    "gelu, float64, 262,144": (gelu64, DOUBLE),
}


def operands(t: Any, shapes: dict[str, tuple[int, ...]], device: str) -> dict[str, Any]:
    """Make the tensors of a row, with the values that NumPy's generator gives."""
    made = {k: torch.randn(s, generator=torch.Generator().manual_seed(1)) for k, s in shapes.items()}
    made["classes"] = torch.arange(4096) % 1024
    made |= {f"{k}16": made[k].bfloat16() for k in ("a", "b") if k in made}
    made |= {k: made[k].double() for k in DOUBLE if k in made}
    if t is torch:
        return {k: v.to(device) for k, v in made.items()}
    return {k: ours(v, device) for k, v in made.items()}


def ours(v: Any, device: str) -> Any:
    """Copy a tensor of PyTorch; NumPy has no bfloat16."""
    if v.dtype == torch.bfloat16:
        return torchlette.tensor(v.float().numpy(), device=device).to(torchlette.bfloat16)
    return torchlette.tensor(v.numpy(), device=device)


def turn(call: Call) -> float:
    """Return the seconds of the shortest call."""
    settle(call)
    begin = time.perf_counter()
    samples: list[float] = []
    while len(samples) < 3 or time.perf_counter() - begin < TURN_SECONDS:
        samples.append(seconds(call))
    return min(samples)


def sides(f: Callable[[Any, Any], Any], shapes: dict[str, tuple[int, ...]], options: Any) -> dict[str, Call]:
    """Build the sides of a row."""
    device = options.device
    own = operands(torchlette.torch, shapes, device)

    def mine() -> None:
        out = f(torchlette.torch, own)
        torchlette.realize(*(out if isinstance(out, list) else [out]))

    made: dict[str, Call] = {"fused": mine, "apart": mine}
    rival = "cuda" if device != "cpu" and torch.cuda.is_available() else "cpu"
    if device == "cpu" or rival == "cuda":
        theirs = operands(torch, shapes, rival)
        wait = torch.cuda.synchronize if rival == "cuda" else lambda: None
        made["torch"] = lambda: (f(torch, theirs), wait())
        if options.compile:
            compiled = torch.compile(f)
            made["compile"] = lambda: (compiled(torch, theirs), wait())
    return made


def measured(options: Any) -> Iterator[Row]:
    """Race the rows."""
    for name, (f, shapes) in ROWS.items():
        if options.name and not any(n in name for n in options.name):
            continue
        if shapes is DOUBLE and options.device != "cpu":  # WGSL has no float64
            continue
        calls = sides(f, shapes, options)
        samples: dict[str, list[float]] = {k: [] for k in calls}
        for _ in range(options.rounds):
            for k, call in calls.items():
                with disabled("fuse" if k == "apart" else ""):
                    samples[k].append(turn(call))
        best = {k: min(v) for k, v in samples.items()}
        detail = {f"to {k}": best["fused"] / v for k, v in best.items() if k not in ("fused", "torch")}
        yield Row(name, best["fused"], best.get("torch"), detail=detail)


def main() -> None:
    """Run as a program."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", nargs="*")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--compile", action="store_true", help="race torch.compile too")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--record", action="store_true", help="write results/fusion.json")
    options = parser.parse_args()
    torchlette.set_num_threads(int(os.environ.get("TORCHLETTE_NUM_THREADS", THREADS)))
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", THREADS)))
    rows = []
    for row in measured(options):
        rows.append(row)
        print(row, flush=True)
    if options.record:
        print(f"recorded in {record('fusion', options.device, rows)}")


if __name__ == "__main__":
    main()
