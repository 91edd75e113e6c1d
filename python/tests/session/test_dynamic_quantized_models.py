"""Models that quantize activations when they run (DynamicQuantizeLinear) in sessions, beside onnxruntime."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper, save

import torchlette

RNG = np.random.default_rng(5)
node = helper.make_node


@pytest.fixture(autouse=True)
def same_numbers():
    """Each test draws the same numbers, whichever ran before."""
    RNG.bit_generator.state = np.random.default_rng(5).bit_generator.state


def written(path, nodes, shape, outputs, tensors):
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    ys = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
    initial = [numpy_helper.from_array(np.asarray(v), n) for n, v in tensors.items()]
    graph = helper.make_graph(nodes, "g", [x], ys, initial)
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return str(path)


def weights(name, shape, kind, columns, narrow=True):
    """Return weights of a kind, a zero point (for each column, or one) and scales.

    With AVX2 onnxruntime saturates sums of two products unless weights are narrow: of 7 bits.
    """
    most = 64 if narrow else 127
    low, high = (0, 2 * most) if kind is np.uint8 else (-most, most + 1)
    n = shape[-1] if len(shape) == 2 else shape[0]
    zero = np.zeros(n if columns else (), kind)
    if kind is np.uint8:
        zero = RNG.integers(most - 5, most + 5, zero.shape).astype(kind)
    found = {f"{name}q": RNG.integers(low, high, shape).astype(kind), f"{name}z": zero}
    return found | {f"{name}s": RNG.uniform(0.002, 0.01, n if columns else ()).astype(np.float32)}


def linear(x, name, y, bias=True):
    """Return the nodes that quantize_dynamic writes for a linear layer, behind the quantization of x."""
    nodes = [node("MatMulInteger", [f"{x}_q", f"{name}q", f"{x}_z", f"{name}z"], [f"{y}_sum"])]
    nodes += [node("Mul", [f"{x}_s", f"{name}s"], [f"{y}_factor"]), node("Cast", [f"{y}_sum"], [f"{y}_float"], to=1)]
    nodes.append(node("Mul", [f"{y}_float", f"{y}_factor"], [f"{y}_scaled" if bias else y]))
    return [*nodes, node("Add", [f"{y}_scaled", f"{name}b"], [y])] if bias else nodes


def quantized(x):
    """Return the node that quantizes x."""
    return node("DynamicQuantizeLinear", [x], [f"{x}_q", f"{x}_s", f"{x}_z"])


def check(path, shape, launches, device="cpu"):
    """Compare a session with onnxruntime, and count its launches of integers."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    x = RNG.standard_normal(shape).astype(np.float32) * 2 + 0.3
    session = torchlette.InferenceSession(path, device=device)
    got = session.run(None, {"x": x})
    want = onnxruntime.InferenceSession(path, options).run(None, {"x": x})
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(np.asarray(a), b, rtol=1e-5, atol=1e-5)
    if device == "cpu":
        steps = session.profile()
        assert sum(step["op"] == "quantized_conv" for step in steps) == launches, steps
        assert not any(step["op"] in ("matmul", "conv") for step in steps), steps


@pytest.mark.parametrize("kind", [np.int8, np.uint8])
@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize("shape", [(1, 600), (9, 600), (2, 5, 600), (1, 1, 600), (3, 70)])
def test_linear_layers_are_launches_of_integers(tmp_path, kind, columns, shape):
    found = weights("w", (shape[-1], 37), kind, columns) | {"wb": RNG.standard_normal(37).astype(np.float32)}
    path = written(tmp_path / "m.onnx", [quantized("x"), *linear("x", "w", "y")], shape, ["y"], found)
    check(path, shape, 1)


def test_a_gpu_has_the_same_values(tmp_path):
    found = weights("w", (300, 20), np.int8, True) | {"wb": RNG.standard_normal(20).astype(np.float32)}
    path = written(tmp_path / "m.onnx", [quantized("x"), *linear("x", "w", "y")], (3, 300), ["y"], found)
    check(path, (3, 300), 0, "wgpu")


@pytest.mark.parametrize("kind", [np.int8, np.uint8])
def test_weights_of_all_bits_have_exact_sums(tmp_path, kind):
    found = weights("w", (512, 24), kind, True, narrow=False)
    path = written(tmp_path / "m.onnx", [quantized("x"), *linear("x", "w", "y", bias=False)], (6, 512), ["y"], found)
    x = RNG.standard_normal((6, 512)).astype(np.float32)
    got = torchlette.InferenceSession(path).run(None, {"x": x})[0]
    scale = np.float32((x.max() - x.min()) / np.float32(255))
    zero = np.round(-x.min() / scale)
    q = np.clip(np.round(x / scale) + zero, 0, 255).astype(np.int64)
    sums = (q - int(zero)) @ (found["wq"].astype(np.int64) - found["wz"].astype(np.int64))
    np.testing.assert_allclose(got, sums * (scale * found["ws"]), rtol=1e-6)


def test_queries_keys_and_values_share_one_quantization(tmp_path):
    names = ("q", "k", "v")
    found = {}
    for name in names:
        found |= weights(name, (64, 48), np.int8, False) | {f"{name}b": RNG.standard_normal(48).astype(np.float32)}
    nodes = [quantized("x")]
    for name in names:
        nodes += linear("x", name, f"y_{name}")
    path = written(tmp_path / "m.onnx", nodes, (2, 7, 64), [f"y_{name}" for name in names], found)
    check(path, (2, 7, 64), 3)


def test_layers_behind_an_activation(tmp_path):
    found = weights("a", (40, 80), np.int8, True) | {"ab": RNG.standard_normal(80).astype(np.float32)}
    found |= weights("b", (80, 40), np.uint8, False) | {"bb": RNG.standard_normal(40).astype(np.float32)}
    nodes = [quantized("x"), *linear("x", "a", "h"), node("Relu", ["h"], ["r"]), quantized("r"), *linear("r", "b", "y")]
    path = written(tmp_path / "m.onnx", nodes, (4, 40), ["y"], found)
    check(path, (4, 40), 2)


@pytest.mark.parametrize(
    ("channels", "outputs", "taps", "options"),
    [(3, 8, 3, {"pads": [1, 1, 1, 1]}), (40, 17, 3, {"strides": [2, 2]}), (16, 16, 3, {"group": 16}), (20, 9, 1, {})],
)
def test_convolutions_are_launches_of_integers(tmp_path, channels, outputs, taps, options):
    shape = (outputs, channels // options.get("group", 1), taps, taps)
    found = weights("w", shape, np.uint8, False) | {"wb": RNG.standard_normal((1, outputs, 1, 1)).astype(np.float32)}
    nodes = [quantized("x"), node("ConvInteger", ["x_q", "wq", "x_z", "wz"], ["sum"], **options)]
    nodes += [node("Mul", ["x_s", "ws"], ["factor"]), node("Cast", ["sum"], ["float"], to=1)]
    nodes += [node("Mul", ["float", "factor"], ["scaled"]), node("Add", ["scaled", "wb"], ["y"])]
    path = written(tmp_path / "m.onnx", nodes, (2, channels, 9, 8), ["y"], found)
    check(path, (2, channels, 9, 8), 1)
