"""How losses of classes are written as ONNX's."""

from __future__ import annotations

from torchlette import _C
from torchlette.onnx.exporter import Exporter, Step, rule
from torchlette.onnx.terms import Term, where

I64, BOOL = _C.int64, _C.bool


def reduced(x: Exporter, s: Step, y: str) -> str:
    """Return a loss as the step's reduction has it.

    Args:
        x: Gets the nodes.
        s: The step.
        y: The loss of each element.
    """
    kind = {"none": None, "mean": "ReduceMean", "sum": "ReduceSum"}[s.get("reduction", "mean")]
    return y if kind is None else str(x.node(kind, [y, None], keepdims=0))


@rule("cross_entropy")
def _cross_entropy(x: Exporter, s: Step) -> str:
    target, shape = s["target"], x.shape_of(s["input"])
    smoothing, weight = float(s.get("label_smoothing", 0)), s.get("weight")
    if x.type_of(target).is_floating_point:
        return _of_probabilities(x, s, smoothing)
    if len(shape) > 1 and not smoothing and 0 not in shape:
        inputs = [x.value(s["input"]), x.value(target), *([x.value(weight)] if weight is not None else [])]
        options = {"ignore_index": s["ignore_index"], "reduction": s["reduction"]}
        return str(x.node("SoftmaxCrossEntropyLoss", inputs, **options))
    dim = min(1, len(shape) - 1)
    logs = Term.of(x, s["input"], s.dtype).call("LogSoftmax", axis=dim)
    target = Term.of(x, target, I64)
    seen = ~(target == s["ignore_index"])
    places = where(seen, target, 0)
    index = places.ints("Unsqueeze", [dim])
    found = Term(x, x.node("GatherElements", [logs.name, index.name], axis=dim), s.dtype).ints("Squeeze", [dim])
    if weight is None:
        scale = seen.to(s.dtype)
    else:
        each = x.node("Gather", [x.value(weight), places.name], axis=0)
        scale = where(seen, Term(x, each, s.dtype), 0.0)
    loss = -(found * scale)
    if smoothing:
        flat = where(seen, _over_classes(x, s, logs, dim), 0.0)
        classes = Term(x, x.size(shape[dim]), I64).to(s.dtype)
        loss = loss * (1 - smoothing) - flat * (smoothing / classes)
    if s["reduction"] != "mean":
        return reduced(x, s, loss.name)
    return (loss.call("ReduceSum", keepdims=0) / scale.call("ReduceSum", keepdims=0)).name


def _over_classes(x: Exporter, s: Step, v: Term, dim: int) -> Term:
    """Return the sum over the classes, each with its weight."""
    if s.get("weight") is not None:
        rank = x.rank(s["input"])
        v = v * Term.of(x, s["weight"], s.dtype).ints("Reshape", [-1] + [1] * (rank - 1 - dim))
    return v.ints("ReduceSum", [dim], keepdims=0)


def _of_probabilities(x: Exporter, s: Step, smoothing: float) -> str:
    shape = x.shape_of(s["input"])
    dim = min(1, len(shape) - 1)
    logs, target = Term.of(x, s["input"], s.dtype).call("LogSoftmax", axis=dim), Term.of(x, s["target"], s.dtype)
    if smoothing:
        classes = Term(x, x.size(shape[dim]), I64).to(s.dtype)
        target = target * (1 - smoothing) + smoothing / classes
    return reduced(x, s, (-_over_classes(x, s, logs * target, dim)).name)


@rule("binary_cross_entropy_with_logits")
def _logits(x: Exporter, s: Step) -> str:
    v, target = Term.of(x, s["input"], s.dtype), Term.of(x, s["target"], s.dtype)
    # log(1 + exp(-v)) without an overflow.
    rest = (-abs(v)).call("Softplus") + (-v).call("Relu")
    if s.get("pos_weight") is not None:
        rest = rest * ((Term.of(x, s["pos_weight"], s.dtype) - 1.0) * target + 1.0)
    found = (1.0 - target) * v + rest
    if s.get("weight") is not None:
        found = found * Term.of(x, s["weight"], s.dtype)
    return reduced(x, s, found.name)
