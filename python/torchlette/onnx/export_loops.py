"""How loops and branches are written as ONNX's ``Loop`` and ``If``."""

from __future__ import annotations

from typing import Any

from torchlette import _C
from torchlette._runtime.errors import NotSupportedError
from torchlette.onnx.export_shapes import flipped
from torchlette.onnx.exporter import Exporter, Step, dtype_named, graph_of, rule

I64, BOOL = _C.int64, _C.bool
#: The most iterations of a loop that ends by its condition alone.
ENDLESS = 1 << 62

#: A value of a graph: its name, dtype and sizes.
Value = tuple[str, _C.dtype, list[Any]]


@rule("engine.loop")
def _loop(x: Exporter, s: Step) -> list[str]:
    """Write a loop. Its body reads the carries and elements of xs, and gives the next carries and what is stacked."""
    body, carries = s.body, s["carries"]
    if len(body["inputs"]) == 1 and len(carries) > 1 and s["ends"]:
        return _branch(x, s)
    if s["ends"] and len(body["results"]) > len(carries):
        raise NotSupportedError("onnx.export: a loop that ends by a condition and stacks results")
    most = None if s["length"] == ENDLESS else x.size(s["length"])
    first = x.value(carries[0]) if s["ends"] else None
    inner = _body(x, s, most)
    found = x.node("Loop", [most, first, *map(x.value, carries)], len(s.out), body=inner)
    names = [found] if isinstance(found, str) else found
    if s["reverse"]:
        names[len(carries) :] = [flipped(x, n, [0]) for n in names[len(carries) :]]
    return names


def _body(x: Exporter, s: Step, most: str | None) -> Any:
    carries, xs = s["carries"], s["xs"]
    number, goes_on = x.fresh(), x.fresh()
    with x.nested(s.first):
        inputs: list[Value] = [(number, I64, []), (goes_on, BOOL, [])]
        at = number
        if s["reverse"]:
            at = x.node("Sub", [x.node("Sub", [most, x.constant(1, I64)]), number])
        for k, spec in enumerate(s.body["inputs"]):
            dtype, shape = dtype_named(spec["dtype"]), spec["shape"]
            if k < len(carries):
                name = x.fresh()
                inputs.append((name, dtype, shape))
            else:
                name = x.node("Gather", [x.value(xs[k - len(carries)]), at], axis=0)
            x.set_value(s.first + k, name, dtype, shape)
        x.steps(s.body["steps"], s.first + len(s.body["inputs"]))
        results = [x.value(ref) for ref in s.body["results"]]
        outputs = [(x.node("Identity", [results[0] if s["ends"] else goes_on]), BOOL, [])]
        for ref, result in zip(s.body["results"], results, strict=True):
            outputs.append((x.node("Identity", [result]), x.type_of(ref), x.shape_of(ref)))
        return graph_of(x.nodes, inputs, outputs)


def _branch(x: Exporter, s: Step) -> list[str]:
    """Write a body that runs once or not: without it, the carries stay as they are."""
    carries, spec = s["carries"], s.body["inputs"][0]
    condition = x.value(carries[0])
    branches = []
    for taken in (True, False):
        with x.nested(s.first):
            refs = carries
            if taken:
                x.set_value(s.first, condition, dtype_named(spec["dtype"]), spec["shape"])
                x.steps(s.body["steps"], s.first + 1)
                refs = s.body["results"]
            outputs = [(x.node("Identity", [x.value(r)]), x.type_of(r), x.shape_of(r)) for r in refs]
            branches.append(graph_of(x.nodes, [], outputs))
    return list(x.node("If", [condition], len(s.out), then_branch=branches[0], else_branch=branches[1]))
