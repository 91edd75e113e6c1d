"""Recurrent layers: RNN, LSTM, GRU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torchlette import _C
from torchlette._import.recurrent import recurrent_layers
from torchlette.nn import functional as F
from torchlette.onnx.registry import operator

Tensor = _C.Tensor
Call = Callable[[Tensor], Tensor]

_DEFAULTS = {"RNN": ["Tanh"], "GRU": ["Sigmoid", "Tanh"], "LSTM": ["Sigmoid", "Tanh", "Tanh"]}
#: ONNX's order of gates -> PyTorch's: i o f c -> i f c o; z r h -> r z h.
_ORDERS = {"RNN": [0], "GRU": [1, 0, 2], "LSTM": [0, 2, 3, 1]}


def _activation(name: str, alpha: float | None, beta: float | None) -> Call:
    def or_else(value: float | None, usual: float) -> float:
        return usual if value is None else value

    calls: dict[str, Call] = {
        "relu": _C.relu,
        "tanh": _C.tanh,
        "sigmoid": _C.sigmoid,
        "softsign": F.softsign,
        "softplus": F.softplus,
        "elu": lambda x: F.elu(x, or_else(alpha, 1.0)),
        "leakyrelu": lambda x: F.leaky_relu(x, or_else(alpha, 0.01)),
        "thresholdedrelu": lambda x: _C.where(x > or_else(alpha, 1.0), x, 0.0),
        "scaledtanh": lambda x: or_else(alpha, 1.0) * _C.tanh(or_else(beta, 1.0) * x),
        "hardsigmoid": lambda x: (or_else(alpha, 0.2) * x + or_else(beta, 0.5)).clamp(0, 1),
        "affine": lambda x: or_else(alpha, 1.0) * x + or_else(beta, 0.0),
    }
    if name.lower() not in calls:
        raise NotImplementedError(f"the activation {name}")
    return calls[name.lower()]


def _reordered(x: Tensor, kind: str, size: int) -> Tensor:
    parts = x.split(size, 0)
    return _C.cat([parts[i] for i in _ORDERS[kind]], 0) if len(parts) > 1 else x


def _cell(
    kind: str, acts: list[Call], peephole: Any, clip: float | None, linear: int, coupled: int
) -> Callable[..., Any]:
    """Return one step with any activations: (part of the input, states, weights, bias) -> states."""

    def limit(x: Tensor) -> Tensor:
        return x if clip is None else x.clamp(-clip, clip)

    def rnn(x: Tensor, state: list[Tensor], w: Tensor, b: Tensor | None) -> list[Tensor]:
        return [acts[0](limit(x + F.linear(state[0], w, b)))]

    def gru(x: Tensor, state: list[Tensor], w: Tensor, b: Tensor | None) -> list[Tensor]:
        (h,) = state
        size = h.shape[-1]
        xr, xz, xh = x.split(size, -1)
        wr, wz, wh = w.split(size, 0)
        br, bz, bh = b.split(size, 0) if b is not None else (None, None, None)
        r, z = acts[0](limit(xr + F.linear(h, wr, br))), acts[0](limit(xz + F.linear(h, wz, bz)))
        if linear:
            candidate = acts[1](limit(xh + r * F.linear(h, wh, bh)))
        else:
            candidate = acts[1](limit(xh + F.linear(r * h, wh, bh)))
        return [(1 - z) * candidate + z * h]

    def lstm(x: Tensor, state: list[Tensor], w: Tensor, b: Tensor | None) -> list[Tensor]:
        h, c = state
        i, f, g, o = (x + F.linear(h, w, b)).split(h.shape[-1], -1)
        pi, po, pf = (0, 0, 0) if peephole is None else peephole.chunk(3)
        i = acts[0](limit(i + pi * c))
        f = 1 - i if coupled else acts[0](limit(f + pf * c))
        new = f * c + i * acts[1](limit(g))
        return [acts[0](limit(o + po * new)) * acts[2](new), new]

    return {"RNN": rnn, "GRU": gru, "LSTM": lstm}[kind]


def _lengths_mask(lengths: Tensor, steps: int) -> Tensor:
    """Return [steps, batch, 1]: whether a step is within its sequence."""
    return (_C.arange(steps, device=lengths.device).unsqueeze(1) < lengths.long().unsqueeze(0)).unsqueeze(-1)


def _stepwise(cell: Any, x: Tensor, state: list[Tensor], w: Tensor, b: Any, mask: Any, reverse: bool) -> Any:
    outputs: list[Tensor] = []
    order = range(x.shape[0])
    for t in reversed(order) if reverse else order:
        new = cell(x[t], state, w, b)
        if mask is not None:
            outputs.append(_C.where(mask[t], new[0], _C.zeros_like(new[0])))
            state = [_C.where(mask[t], a, old) for a, old in zip(new, state, strict=True)]
        else:
            outputs.append(new[0])
            state = new
    return _C.stack(outputs[::-1] if reverse else outputs), state


def recurrence(
    kind: str, x: Tensor, w: Tensor, r: Tensor, b: Any, lengths: Any, start: list[Any], peephole: Any, options: Any
) -> list[Tensor]:
    """Run one layer; return ONNX's Y [steps, directions, batch, size], Y_h and, of an LSTM, Y_c."""
    names = options["activations"] or _DEFAULTS[kind] * w.shape[0]
    size, directions = r.shape[-1], w.shape[0]
    if options["layout"]:
        x, start = x.transpose(0, 1), [None if s is None else s.transpose(0, 1) for s in start]
    steps, batch = x.shape[:2]
    zero = _C.zeros([directions, batch, size], dtype=x.dtype, device=x.device)
    start = [zero if s is None else s for s in start]
    backward = options["direction"] == "reverse"
    usual = [n.lower() for n in names] == [n.lower() for n in _DEFAULTS[kind]] * directions
    relu = kind == "RNN" and all(n.lower() == "relu" for n in names)
    plain = peephole is None and options["clip"] is None and not options["coupled"] and lengths is None and not backward
    linear = kind != "GRU" or options["linear"]
    biases = [None] * directions if b is None else [b[d] for d in range(directions)]
    weights: list[list[Tensor | None]] = []
    for d in range(directions):
        parts = (None, None) if biases[d] is None else biases[d].chunk(2, 0)
        weights.append([_reordered(t, kind, size) if t is not None else None for t in (w[d], r[d], *parts)] + [None])
    if plain and linear and (usual or relu):
        mode = ("RNN_RELU" if relu else "RNN_TANH") if kind == "RNN" else kind
        out, last = recurrent_layers(mode, x, start, weights, directions)
        y = out.reshape(steps, batch, directions, size).transpose(1, 2)
    else:
        y, last = _general(kind, x, start, weights, lengths, peephole, options, names, backward)
    if options["layout"]:
        return [y.permute(2, 0, 1, 3), *(s.transpose(0, 1) for s in last)]
    return [y, *last]


def _general(
    kind: str,
    x: Tensor,
    start: Any,
    weights: Any,
    lengths: Any,
    peephole: Any,
    options: Any,
    names: Any,
    backward: bool,
) -> Any:
    """Run a layer step by step: with lengths, limits, peepholes or unusual activations."""
    alphas, betas = options["alpha"] or [], options["beta"] or []
    each = len(_DEFAULTS[kind])
    mask = None if lengths is None else _lengths_mask(lengths, x.shape[0])
    results, finals = [], []
    for d, (w, r, wb, rb, _) in enumerate(weights):
        acts = [
            _activation(name, alphas[k] if k < len(alphas) else None, betas[k] if k < len(betas) else None)
            for k, name in list(enumerate(names))[d * each : (d + 1) * each]
        ]
        cell = _cell(
            kind,
            acts,
            None if peephole is None else peephole[d],
            options["clip"],
            options["linear"],
            options["coupled"],
        )
        y, last = _stepwise(cell, F.linear(x, w, wb), [s[d] for s in start], r, rb, mask, backward or d == 1)
        results.append(y)
        finals.append(last)
    return _C.stack(results, 1), [_C.stack(list(parts)) for parts in zip(*finals, strict=True)]


@operator("RNN")
def rnn(
    x: Tensor,
    w: Tensor,
    r: Tensor,
    b: Tensor | None = None,
    lengths: Tensor | None = None,
    h: Tensor | None = None,
    *,
    activation_alpha: list[float] | None = None,
    activation_beta: list[float] | None = None,
    activations: list[str] | None = None,
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int = 0,
    layout: int = 0,
    n_outputs: int = 1,
) -> list[Tensor]:
    """Run a layer of h = tanh(w x + r h)."""
    options = _options(activation_alpha, activation_beta, activations, clip, direction, layout)
    return recurrence("RNN", x, w, r, b, lengths, [h], None, options)[:n_outputs]


@operator("GRU")
def gru(
    x: Tensor,
    w: Tensor,
    r: Tensor,
    b: Tensor | None = None,
    lengths: Tensor | None = None,
    h: Tensor | None = None,
    *,
    activation_alpha: list[float] | None = None,
    activation_beta: list[float] | None = None,
    activations: list[str] | None = None,
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int = 0,
    layout: int = 0,
    linear_before_reset: int = 0,
    n_outputs: int = 1,
) -> list[Tensor]:
    """Run a layer of gated units."""
    options = _options(activation_alpha, activation_beta, activations, clip, direction, layout)
    options["linear"] = linear_before_reset
    return recurrence("GRU", x, w, r, b, lengths, [h], None, options)[:n_outputs]


@operator("LSTM")
def lstm(
    x: Tensor,
    w: Tensor,
    r: Tensor,
    b: Tensor | None = None,
    lengths: Tensor | None = None,
    h: Tensor | None = None,
    c: Tensor | None = None,
    peephole: Tensor | None = None,
    *,
    activation_alpha: list[float] | None = None,
    activation_beta: list[float] | None = None,
    activations: list[str] | None = None,
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int = 0,
    input_forget: int = 0,
    layout: int = 0,
    n_outputs: int = 1,
) -> list[Tensor]:
    """Run a layer of long short-term memory."""
    options = _options(activation_alpha, activation_beta, activations, clip, direction, layout)
    options["coupled"] = input_forget
    return recurrence("LSTM", x, w, r, b, lengths, [h, c], peephole, options)[:n_outputs]


def _options(
    alpha: Any, beta: Any, activations: Any, clip: float | None, direction: str, layout: int
) -> dict[str, Any]:
    if direction not in ("forward", "reverse", "bidirectional"):
        raise ValueError(f"direction is {direction!r}")
    return {
        "activations": activations,
        "alpha": alpha,
        "beta": beta,
        "clip": clip,
        "coupled": 0,
        "direction": direction,
        "layout": layout,
        "linear": 0,
    }
