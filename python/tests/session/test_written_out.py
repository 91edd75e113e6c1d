"""Sessions of ONNX files in which layers are written out: values beside PyTorch, and the operator that the plan has."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

import torchlette as tl

N = 40


def written(body: str, axes: list[int], path: Path) -> None:
    """Write a model of lines "output = Operator inputs", with numbers as tensors, as exporters write them."""
    nodes, constants = [], {}
    for line in body.split(";"):
        name, _, (kind, *inputs) = line.split()[0], "=", line.split()[2:]
        for text in inputs:
            if text[0] in "-.0123456789":
                constants[text] = numpy_helper.from_array(np.array(float(text), np.float32), text)
        more = {"axes": axes, "keepdims": 1} if kind == "ReduceMean" else {}
        nodes.append(helper.make_node(kind, inputs, [name], **more))
    value = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [2, 6, N]) for n in ("x", "y")]
    graph = helper.make_graph(nodes, "g", value[:1], value[1:], list(constants.values()))
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)


NORM = "m = ReduceMean x;d = Sub x m;s = Pow d 2;v = ReduceMean s;e = Add v .001;r = Sqrt e;y = Div d r"
ROOT = "s = Pow x 2;v = ReduceMean s;e = Add .001 v;r = Sqrt e;i = Div 1 r;y = Mul x i"
TANH = (
    "c = Pow x 3;a = Mul c .044715;b = Add x a;t = Mul b .7978845608028654;h = Tanh t;o = Add h 1;p = Mul x o;"
    "y = Mul p .5"
)
ERF = f"a = Div x {math.sqrt(2)};h = Erf a;o = Add h 1;p = Mul x o;y = Mul p .5"
functional = torch.nn.functional
CASES = {
    "layer norm": (NORM, [-1], lambda x: functional.layer_norm(x, (N,), eps=0.001), "layer_norm"),
    "instance norm": (NORM, [2], lambda x: functional.instance_norm(x, eps=0.001), "layer_norm"),
    "of two dims": (NORM, [1, 2], lambda x: functional.layer_norm(x, (6, N), eps=0.001), "layer_norm"),
    "root mean square": (ROOT, [-1], lambda x: functional.rms_norm(x, (N,), eps=0.001), "layer_norm"),
    "gelu, tanh": (TANH, [], lambda x: functional.gelu(x, approximate="tanh"), "mul"),
    "gelu, erf": (ERF, [], functional.gelu, "mul"),
}


@pytest.mark.parametrize("name", CASES)
def test_layers_of_onnx_files_have_pytorchs_values(name: str, tmp_path: Path) -> None:
    body, axes, want, found = CASES[name]
    written(body, axes, tmp_path / "m.onnx")
    x = np.random.default_rng(0).normal(1, 3, (2, 6, N)).astype("float32")
    session = tl.InferenceSession(tmp_path / "m.onnx")
    got = session.run(None, {"x": x})[0]
    torch.testing.assert_close(torch.from_numpy(got), want(torch.from_numpy(x)))
    assert {step["op"] for step in session.profile()} == {found}
