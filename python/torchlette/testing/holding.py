"""Random programs in which each intermediate is held, dropped or read early: no observable value may change a bit.

A program is a chain of layers over registers of two widths, as models have them, and a few training steps. It runs
under several policies. A policy decides for every register whether it stays referenced to the end, is dropped after its
last use, or is read right after its creation. The engine fuses across unreferenced values; :func:`difference` compares
results bit by bit, also with those of kernels that are not fused, and of a forward pass that is compiled.
"""

from __future__ import annotations

import os
import random
from array import array
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torchlette
import torchlette.nn.functional as F
from torchlette import _C

__all__ = ["DTYPES", "Layer", "Model", "difference", "disabled", "generate", "run"]

#: Held to the end; dropped after the last use; read at once and then held; read at once and dropped after the last use.
HELD, DROPPED, EARLY, GLANCED = "held", "dropped", "early", "glanced"
POLICIES = (HELD, DROPPED, EARLY, GLANCED)

DTYPES = ("float32", "float16", "bfloat16", "float64")

ROWS = (1, 2, 5, 17, 70)
WIDTHS = (1, 7, 16, 33, 80, 300)
OPTIMIZERS = ("SGD", "Adam", "AdamW")


@dataclass(frozen=True)
class Layer:
    """One step: ``target = name(sources)``; number chooses among variants of the layer."""

    name: str
    target: int
    sources: tuple[int, ...]
    number: int

    def __str__(self) -> str:
        return f"r{self.target} = {self.name}.{self.number}({', '.join(f'r{s}' for s in self.sources)})"


@dataclass(frozen=True)
class Model:
    """Layers in order over registers of ``rows`` rows. The seed gives parameters, inputs and draws."""

    seed: int
    dtype: str
    rows: int
    widths: tuple[int, int]
    layers: tuple[Layer, ...]
    optimizer: str  # "" for a forward pass without gradients

    def __str__(self) -> str:
        head = f"seed {self.seed} {self.dtype} rows {self.rows} widths {self.widths} {self.optimizer or 'forward'}"
        return "\n  ".join([head, *map(str, self.layers)])

    def without(self, index: int) -> Model:
        """Return the model less one layer; readers of its result read its first source instead."""
        gone = self.layers[index]
        kept = []
        for i, layer in enumerate(self.layers):
            if i == index:
                continue
            sources = tuple(gone.sources[0] if s == gone.target else s for s in layer.sources)
            kept.append(Layer(layer.name, layer.target, sources, layer.number))
        return Model(self.seed, self.dtype, self.rows, self.widths, tuple(kept), self.optimizer)


class _Run:
    """Parameters of one run, made when a layer first asks for them."""

    def __init__(self, model: Model, device: str) -> None:
        self.model, self.device = model, device
        self.dtype = getattr(torchlette, model.dtype)
        self.parameters: dict[tuple[Any, ...], torchlette.Tensor] = {}

    def values(self, shape: tuple[int, ...], *key: Any) -> torchlette.Tensor:
        """Make a tensor whose values follow from the seed and the key."""
        rng = random.Random(repr((self.model.seed, shape, key)))
        count = 1
        for size in shape:
            count *= size
        flat = [rng.uniform(-1, 1) for _ in range(count)]
        exact = torchlette.tensor(flat, dtype=torchlette.float64, device="cpu")
        return exact.to(self.dtype).to(self.device).reshape(shape).detach().clone()

    def parameter(self, layer: Layer, shape: tuple[int, ...], name: str = "weight") -> torchlette.Tensor:
        """Give the parameter of a layer, the same one in every training step."""
        key = (layer.target, layer.name, name)
        if key not in self.parameters:
            p = self.values(shape, *key)
            if len(shape) > 1:
                p = p * (1.5 / shape[-1] ** 0.5)
            self.parameters[key] = p.detach().requires_grad_(bool(self.model.optimizer))
        return self.parameters[key]


_Rule = Callable[[_Run, Layer, list[Any]], Any]
_RULES: dict[str, tuple[int, _Rule]] = {}


def _rule(name: str, operands: int = 1) -> Callable[[_Rule], _Rule]:
    def register(f: _Rule) -> _Rule:
        _RULES[name] = (operands, f)
        return f

    return register


ACTIVATIONS: tuple[Callable[[Any], Any], ...] = (
    F.relu,
    F.gelu,
    lambda x: F.gelu(x, approximate="tanh"),
    F.silu,
    torchlette.tanh,
    torchlette.sigmoid,
    F.softplus,
    F.elu,
    lambda x: torchlette.pow(x.abs() + 0.1, 1.3),
    lambda x: x * 0.5 + 0.25,
    lambda x: torchlette.sin(x),
    lambda x: F.leaky_relu(x, 0.1),
)


@_rule("activation")
def _activation(run: _Run, layer: Layer, x: list[Any]) -> Any:
    return ACTIVATIONS[layer.number % len(ACTIVATIONS)](x[0])


@_rule("linear")
def _linear(run: _Run, layer: Layer, x: list[Any]) -> Any:
    """A layer to the same width; without bias, with bias, as a product and a sum, or from the transpose's side."""
    n = x[0].shape[-1]
    w = run.parameter(layer, (n, n))
    if layer.number % 4 == 0:
        return F.linear(x[0], w)
    b = run.parameter(layer, (n,), "bias")
    if layer.number % 4 == 1:
        return F.linear(x[0], w, b)
    return x[0] @ w + b if layer.number % 4 == 2 else (w @ x[0].t()).t() + b


@_rule("resize")
def _resize(run: _Run, layer: Layer, x: list[Any]) -> Any:
    """A layer to the other width."""
    a, b = run.model.widths
    n = x[0].shape[-1]
    m = b if n == a else a
    w = run.parameter(layer, (m, n))
    return F.linear(x[0], w, run.parameter(layer, (m,), "bias") if layer.number % 2 else None)


@_rule("combine", 2)
def _combine(run: _Run, layer: Layer, x: list[Any]) -> Any:
    a, b = x
    rules: tuple[Callable[[], Any], ...] = (
        lambda: a + b,
        lambda: b + a,
        lambda: a - b,
        lambda: a * b * 0.5,
        lambda: torchlette.add(a, b, alpha=0.5),
        lambda: torchlette.where(a > b, a, b * 0.5),
        lambda: torchlette.maximum(a, b),
        lambda: a / (b * b + 1),
        lambda: torchlette.lerp(a, b, 0.25),
        lambda: torchlette.addcmul(a, b, b, value=0.1),
    )
    return rules[layer.number % len(rules)]()


@_rule("norm")
def _norm(run: _Run, layer: Layer, x: list[Any]) -> Any:
    a, n = x[0], x[0].shape[-1]
    w, b = run.parameter(layer, (n,)), run.parameter(layer, (n,), "bias")
    kind = layer.number % 6
    if kind == 4:
        return F.group_norm(a, 1 + (n % 2 == 0), w, b)
    if kind == 5:  # rows as channels, a width as places
        rows = a.shape[0]
        w, b = run.parameter(layer, (rows,), "scales"), run.parameter(layer, (rows,), "shifts")
        return F.group_norm(a[None], 1 + (rows % 2 == 0), w, b)[0]
    if kind == 0:
        return F.layer_norm(a, (n,), w, b)
    if kind == 1:
        return F.rms_norm(a, (n,), w)
    if kind == 2 and a.shape[0] > 1:
        return F.batch_norm(a, None, None, w, b, training=True)
    return F.layer_norm(a, (n,))


@_rule("softmax")
def _softmax(run: _Run, layer: Layer, x: list[Any]) -> Any:
    f = (F.softmax, F.log_softmax)[layer.number % 2]
    return f(x[0], dim=-(layer.number // 2 % 2))


@_rule("attention", 2)
def _attention(run: _Run, layer: Layer, x: list[Any]) -> Any:
    a, b = x
    if layer.number % 3 == 0:
        return F.softmax(a @ b.t() * (a.shape[-1] ** -0.5), dim=-1) @ b
    heads = 2 if a.shape[-1] % 2 == 0 else 1
    q, k = (t.reshape(1, t.shape[0], heads, -1).transpose(1, 2) for t in (a, b))
    y = F.scaled_dot_product_attention(q, k, k, is_causal=layer.number % 3 == 1)
    return y.transpose(1, 2).reshape(a.shape)


@_rule("convolution")
def _convolution(run: _Run, layer: Layer, x: list[Any]) -> Any:
    """Rows as channels, a width as places; of halves too few terms to matter are convolved."""
    a = x[0]
    rows, n = a.shape
    b = run.parameter(layer, (rows,), "bias")
    if layer.number % 2:
        y = F.conv1d(a.reshape(1, rows, n), run.parameter(layer, (rows, rows, 3)), b, padding=1)
    else:
        y = F.conv2d(a.reshape(1, rows, 1, n), run.parameter(layer, (rows, rows, 1, 3)), b, padding=(0, 1))
    return y.reshape(rows, n)


@_rule("cast")
def _cast(run: _Run, layer: Layer, x: list[Any]) -> Any:
    d = (torchlette.float32, torchlette.float16, torchlette.bfloat16)[layer.number % 3]
    y = x[0].to(d)
    return (F.relu(y) * 0.5 if layer.number % 2 else y).to(run.dtype)


@_rule("dropout")
def _dropout(run: _Run, layer: Layer, x: list[Any]) -> Any:
    return F.dropout(x[0], 0.3)


@_rule("reduction")
def _reduction(run: _Run, layer: Layer, x: list[Any]) -> Any:
    a = x[0]
    rules: tuple[Callable[[], Any], ...] = (
        lambda: a - a.mean(-1, keepdim=True),
        lambda: a + a.sum(0) * 0.1,
        lambda: a * (a.var(-1, correction=0, keepdim=True) + 1).rsqrt(),
        lambda: a - a.amax(-1, keepdim=True),
        lambda: a.cumsum(-1) * 0.1,
        lambda: a * (a.square().sum() + 1).rsqrt(),
    )
    return rules[layer.number % len(rules)]()


@_rule("write", 2)
def _write(run: _Run, layer: Layer, x: list[Any]) -> Any:
    """Writes through views of a new tensor, and in place."""
    a, b = x
    y = a.clone()
    kind = layer.number % 5
    if kind == 0:
        y[: max(1, y.shape[0] // 2)] = ACTIVATIONS[layer.number % 4](b)[: max(1, y.shape[0] // 2)]
    elif kind == 1:
        y[:, ::2] = torchlette.pow(b.abs()[:, ::2] + 0.5, a[:, ::2])
    elif kind == 2:
        y.mul_(0.5).add_(b)
    elif kind == 3:
        y = torchlette.zeros_like(a).copy_(F.relu(b)) + a
    else:
        y.relu_()
    return y


#: Layers that follow a product in models are drawn more often.
_KINDS = ("activation",) * 6 + ("combine",) * 5 + ("linear",) * 6 + ("resize",) * 3 + tuple(_RULES)


def generate(seed: int, dtype: str = "float32", length: int = 10) -> Model:
    """Make a random model."""
    rng = random.Random(repr((seed, dtype, length)))
    rows, widths = rng.choice(ROWS), (rng.choice(WIDTHS), rng.choice(WIDTHS))
    width = [widths[0], widths[0]]
    layers: list[Layer] = []
    for _ in range(length):
        name = rng.choice(_KINDS)
        operands, _ = _RULES[name]
        first = max(rng.randrange(len(width)), rng.randrange(len(width)), rng.randrange(len(width)))
        sources = [first]
        if operands == 2:
            sources.append(rng.choice([r for r, n in enumerate(width) if n == width[first]]))
        if name == "resize":
            width.append(widths[1] if width[first] == widths[0] else widths[0])
        else:
            width.append(width[first])
        layers.append(Layer(name, len(width) - 1, tuple(sources), rng.randrange(1000)))
    return Model(seed, dtype, rows, widths, tuple(layers), rng.choice(("", "", *OPTIMIZERS)))


def policy(seed: int, count: int) -> list[str]:
    """Draw a policy for each register."""
    rng = random.Random(seed)
    return [rng.choice(POLICIES) for _ in range(count)]


def _bits(t: torchlette.Tensor) -> bytes:
    """Return the values as doubles; every NaN is one NaN."""
    return array("d", (v if v == v else float("nan") for v in t.detach().reshape(-1).tolist())).tobytes()


def _forward(run: _Run, policies: list[str], seen: dict[str, bytes], step: int) -> tuple[Any, list[Any]]:
    """Run the layers; return the loss's source and the values that stay referenced."""
    model = run.model
    last = {s: layer.target for layer in model.layers for s in layer.sources}
    registers: dict[int, Any] = {}
    for r in (0, 1):
        registers[r] = run.values((model.rows, model.widths[0]), "input", r, step)
    for layer in model.layers:
        sources = [registers[s] for s in layer.sources]
        registers[layer.target] = _RULES[layer.name][1](run, layer, sources)
        del sources
        if policies[layer.target] in (EARLY, GLANCED):
            seen[f"step {step} r{layer.target}"] = _bits(registers[layer.target])
        for s in set(layer.sources):
            if last.get(s) == layer.target and policies[s] in (DROPPED, GLANCED):
                del registers[s]
    out = [registers[layer.target] for layer in model.layers if layer.target not in last]
    total = None
    for t in out or [registers[0]]:
        part = (t.float() if run.model.dtype != "float64" else t).square().mean()
        total = part if total is None else total + part
    held = [(f"step {step} r{r}", t) for r, t in registers.items() if policies[r] != DROPPED or r not in last]
    return total, held


def _has_halves(model: Model) -> bool:
    """Return whether values are halves, which a compiled region does not round between operations."""
    return model.dtype not in ("float32", "float64") or any(layer.name == "cast" for layer in model.layers)


def run(
    model: Model, policies: list[str], device: str = "cpu", steps: int = 2, region: bool = False
) -> dict[str, bytes]:
    """Run a model, with ``region`` as a compiled function; return the bits of losses, held registers, gradients,
    parameters.
    """
    this = _Run(model, device)
    forward: Callable[..., tuple[Any, list[Any]]] = torchlette.compile(_forward) if region else _forward
    torchlette.manual_seed(model.seed)
    seen: dict[str, bytes] = {}
    optimizer: Any = None
    kept: list[Any] = []
    for step in range(steps):
        if not model.optimizer:
            with torchlette.no_grad():
                loss, held = forward(this, policies, seen, step)
        else:
            loss, held = forward(this, policies, seen, step)
            if loss.requires_grad:
                loss.backward()
                parameters = [p for p in this.parameters.values() if p.requires_grad]
                if optimizer is None and parameters:
                    optimizer = getattr(torchlette.optim, model.optimizer)(parameters, lr=0.01)
        kept += [*held, (f"step {step} loss", loss)]
        del loss, held
        if optimizer is not None:
            for key, p in this.parameters.items():
                if p.grad is not None:
                    kept.append((f"step {step} gradient of {key}", p.grad.detach().clone()))
            optimizer.step()
            optimizer.zero_grad()
    kept += [(f"parameter {key}", p) for key, p in this.parameters.items()]
    for name, t in kept:
        bits = _bits(t)
        if seen.setdefault(name, bits) != bits:
            seen[name] += b" changed after it was read"
    return seen


@contextmanager
def disabled(passes: str) -> Iterator[None]:
    """Leave optional passes, with commas between them, out of the plans made inside, as TORCHLETTE_DISABLE does."""
    _C._set_option("disable_passes", passes)
    try:
        yield
    finally:
        _C._set_option("disable_passes", os.environ.get("TORCHLETTE_DISABLE", ""))


def difference(model: Model, device: str = "cpu", mixtures: int = 2) -> str:
    """Return the first value whose bits depend on the policy, on fusion or on a compiled region, "" when none does."""
    count = max((layer.target for layer in model.layers), default=1) + 1
    plans = {p: [p] * count for p in POLICIES}
    plans |= {f"mixture {i}": policy(model.seed * 31 + i, count) for i in range(mixtures)}
    want: dict[str, bytes] = {}
    with disabled("fuse"):
        outcomes = {"not fused": run(model, plans[DROPPED], device)}
    for name, policies in plans.items():
        outcomes[name] = run(model, policies, device)
    for name in () if _has_halves(model) else (HELD, DROPPED):  # reads in a compiled function are errors
        outcomes[f"compiled and {name}"] = run(model, plans[name], device, region=True)
    for name, outcome in outcomes.items():
        for key, bits in outcome.items():
            if (first := want.setdefault(key, bits)) != bits:
                a, b = (array("d", v[: len(v) // 8 * 8]) for v in (first, bits))
                far = [i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y and (x == x or y == y)]
                some = "; ".join(f"[{i}] {a[i]!r} against {b[i]!r}" for i in far[:2])
                return f"{key}: {len(far)} of {len(a)} elements differ when {name}: {some}"
    return ""
