"""Convolutions and products between QuantizeLinear and DequantizeLinear in sessions, beside onnxruntime."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper, save

import torchlette
import torchlette.onnx

RNG = np.random.default_rng(3)
node = helper.make_node
STEP = np.float32(0.05)


@pytest.fixture(autouse=True)
def same_numbers():
    """Each test draws the same numbers, whichever ran before."""
    RNG.bit_generator.state = np.random.default_rng(3).bit_generator.state


def written(path, nodes, shape, tensors):
    first = [node("QuantizeLinear", ["x", "xs", "xz"], ["xq"]), node("DequantizeLinear", ["xq", "xs", "xz"], ["xd"])]
    nodes = first + nodes
    nodes += [node("QuantizeLinear", ["t", "ys", "yz"], ["yq"]), node("DequantizeLinear", ["yq", "ys", "yz"], ["y"])]
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", shape), ("y", None)))
    initial = [numpy_helper.from_array(np.asarray(v), n) for n, v in tensors.items()]
    graph = helper.make_graph(nodes, "g", [x], [y], initial)
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return str(path)


def tensors(shape, outputs, axis, elements=np.uint8, weights=np.int8):
    middle = 128 if weights is np.uint8 else 0
    places = [-1 if d == axis else 1 for d in range(len(shape))]
    found = {"xs": np.float32(0.02), "xz": elements(7), "ys": STEP, "yz": elements(3)}
    found |= {"ws": RNG.uniform(0.002, 0.01, outputs).astype(np.float32), "wz": np.full(outputs, middle, weights)}
    numbers = RNG.integers(-127, 128, shape) + np.full(outputs, middle).reshape(places)
    found |= {"wq": numbers.astype(weights), "bq": RNG.integers(-3000, 3000, outputs).astype(np.int32)}
    return found | {"bs": found["ws"] * found["xs"], "bz": np.zeros(outputs, np.int32)}


def check(path, shape, label="convolution_int8"):
    """Compare a session with onnxruntime and with floats, to one step, and look for its kernel in the profile."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    x = RNG.standard_normal(shape).astype(np.float32)
    session = torchlette.InferenceSession(path)
    got = np.asarray(session.run(None, {"x": x})[0])
    want = onnxruntime.InferenceSession(path, options).run(None, {"x": x})[0]
    plain = torchlette.onnx.load(path).module()(torchlette.tensor(x, device="cpu")).detach().numpy()
    for other in (want, plain):
        assert got.shape == other.shape
        assert np.abs(got - other).max() <= STEP * 1.001
        assert np.sum(got != other) <= 1 + got.size // 50  # at a rounding of one half
    assert len(np.unique(got)) > 8
    assert label in str(session.profile())


DEQUANTIZED = [
    node("DequantizeLinear", ["wq", "ws", "wz"], ["wd"], axis=0),
    node("DequantizeLinear", ["bq", "bs", "bz"], ["bd"], axis=0),
]


@pytest.mark.parametrize(
    ("channels", "outputs", "taps", "options", "kinds"),
    [
        (16, 32, 1, {}, (np.uint8, np.int8)),
        (9, 20, 3, {"pads": [1, 1, 1, 1]}, (np.uint8, np.int8)),
        (3, 24, 3, {"pads": [0, 1, 2, 1], "strides": [2, 2]}, (np.uint8, np.uint8)),
        (16, 16, 3, {"pads": [1, 1, 1, 1], "group": 16}, (np.int8, np.int8)),
        (12, 8, 3, {"group": 2, "dilations": [2, 2]}, (np.int8, np.uint8)),
    ],
)
def test_convolutions_stay_integers(tmp_path, channels, outputs, taps, options, kinds):
    found = tensors((outputs, channels // options.get("group", 1), taps, taps), outputs, 0, *kinds)
    nodes = [*DEQUANTIZED, node("Conv", ["xd", "wd", "bd"], ["c"], **options), node("Relu", ["c"], ["t"])]
    shape = (2, channels, 11, 9)
    check(written(tmp_path / "m.onnx", nodes, shape, found), shape)


def test_residual_blocks_stay_integers(tmp_path):
    found = tensors((16, 16, 3, 3), 16, 0)
    nodes = [*DEQUANTIZED, node("Conv", ["xd", "wd", "bd"], ["c"], pads=[1] * 4)]
    nodes.append(node("Clip", ["c", "low", "high"], ["d"]))
    nodes += [node("QuantizeLinear", ["d", "xs", "xz"], ["dq"]), node("DequantizeLinear", ["dq", "xs", "xz"], ["dd"])]
    nodes += [node("Conv", ["dd", "wd"], ["e"], pads=[1] * 4), node("Add", ["e", "xd"], ["t"])]
    found |= {"low": np.float32(0), "high": np.float32(2.5)}
    shape = (1, 16, 12, 12)
    check(written(tmp_path / "m.onnx", nodes, shape, found), shape)


@pytest.mark.parametrize("gemm", [False, True])
def test_products_of_rows_stay_integers(tmp_path, gemm):
    found = tensors((40, 24), 24, 1)
    nodes = [node("DequantizeLinear", ["wq", "ws", "wz"], ["wd"], axis=1), DEQUANTIZED[1]]
    nodes.append(node("Gemm", ["xd", "wd", "bd"], ["t"]) if gemm else node("MatMul", ["xd", "wd"], ["t"]))
    for rows in (1, 70):
        check(written(tmp_path / "m.onnx", nodes, (rows, 40), found), (rows, 40))


def test_zero_points_of_weights_that_are_not_the_middle_stay_floats(tmp_path):
    found = tensors((8, 4, 1, 1), 8, 0, np.uint8, np.uint8) | {"wz": np.full(8, 100, np.uint8)}
    nodes = [*DEQUANTIZED, node("Conv", ["xd", "wd", "bd"], ["t"])]
    shape = (1, 4, 6, 6)
    with pytest.raises(AssertionError, match="convolution_int8"):
        check(written(tmp_path / "m.onnx", nodes, shape, found), shape)
