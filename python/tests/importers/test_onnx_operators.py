"""ONNX's operators beside the test cases of the onnx library, and small graphs beside onnxruntime."""

from __future__ import annotations

import re
import warnings
from collections import Counter

import numpy as np
import onnx
import onnxruntime
import pytest

import torchlette
from torchlette.onnx.graph import OnnxModule
from torchlette.onnx.model import read_model
from torchlette.onnx.registry import OPERATORS
from torchlette.onnx.tensors import Files

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from onnx.backend.test.case.node import collect_testcases

#: Cases that are left out, by a part of the name, and why.
LEFT_OUT = {
    "uint64|ui64|FLOAT8|FLOAT4|INT4|INT2|E8M0": "dtypes that tensors here do not have",
    "e8m0|e4m3|e5m2|int4|int2|float4": "the same",
    "string|STRING|regex|tfidf|strnorm|image_decoder": "no numbers",
    "ai_onnx_ml|adagrad|adam|momentum|gradient": "other domains",
    "bernoulli|training_dropout|dropout_random": "random",
    "bf16|bfloat16|fp16_expanded": "rounding of halves between steps",
    "linear_attention|causal_conv|flexattention|swiglu|tensorscatter|window": "operators after version 23",
    "^test_scan_sum|quantizelinear_blocked_symmetric": "a form before version 13; an array of objects",
    "bitwise_not_3d|col2im_5d": "uint16; images of 3 dims",
    "_expanded": "the same operators by functions of others",
    "cast_.*NAN|castlike": "many of one kind",
}
MOST_OF_ONE = 3


def arrays(value):
    if isinstance(value, onnx.TensorProto):
        return onnx.numpy_helper.to_array(value)
    if isinstance(value, list):
        return [arrays(item) for item in value]
    return value if value is None else np.asarray(value)


def ours(value):
    if value is None or isinstance(value, list):
        return value if value is None else [ours(item) for item in value]
    return torchlette.tensor(np.ascontiguousarray(value).reshape(value.shape), device="cpu")


def compare(want, got, case):
    if isinstance(want, list):
        assert isinstance(got, list) and len(want) == len(got)
        for w, g in zip(want, got, strict=True):
            compare(w, g, case)
    elif want is None:
        assert got is None
    else:
        found = got.detach().numpy()
        assert (found.dtype, found.shape) == (want.dtype, want.shape)
        np.testing.assert_allclose(found, want, rtol=case.rtol, atol=max(case.atol, 1e-6))


def cases():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = collect_testcases(None)
    seen: Counter[str] = Counter()
    for case in found:
        if any(re.search(pattern, case.name) for pattern in LEFT_OUT):
            continue
        op = case.model.graph.node[-1].op_type
        seen[op] += 1
        if seen[op] <= MOST_OF_ONE:
            yield case


def run(case):
    for opset in case.model.opset_import:
        opset.version = max(opset.version, 13)
    module = OnnxModule(read_model(memoryview(case.model.SerializeToString())), Files(None))
    for inputs, outputs in case.data_sets:
        found = module(*[ours(arrays(value)) for value in inputs])
        for want, got in zip(outputs, found, strict=False):
            compare(arrays(want), got, case)
    return {node.op_type for node in case.model.graph.node}


def test_operators_give_the_results_of_the_onnx_library():
    tested, wrong = set(), []
    for case in cases():
        try:
            tested |= run(case)
        except Exception as exc:  # noqa: BLE001
            wrong.append(f"{case.name}: {type(exc).__name__}: {str(exc)[:300]}")
    assert not wrong, "\n".join(wrong)
    assert len(tested) >= 160


def test_at_least_140_operators_of_version_23_are_in_the_table():
    from torchlette.onnx.control import CONTROL

    known = {s.name for s in onnx.defs.get_all_schemas_with_history() if s.domain == "" and s.since_version <= 23}
    assert len(known & {*OPERATORS, *CONTROL, "Constant"}) >= 140


@pytest.mark.parametrize("opset", [12, 99])
def test_other_versions_are_refused_by_name(opset):
    node = onnx.helper.make_node("Relu", ["x"], ["y"])
    info = [onnx.helper.make_tensor_value_info(n, 1, [2]) for n in "xy"]
    graph = onnx.helper.make_graph([node], "g", info[:1], info[1:])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)])
    with pytest.raises(NotImplementedError, match=f"is {opset}"):
        OnnxModule(read_model(memoryview(model.SerializeToString())), Files(None))


def runtime_and_ours(node, x, constants, opset=19):
    info = [
        onnx.helper.make_tensor_value_info("x", onnx.helper.np_dtype_to_tensor_dtype(x.dtype), x.shape),
        onnx.helper.make_tensor_value_info("y", onnx.helper.np_dtype_to_tensor_dtype(x.dtype), None),
    ]
    named = [onnx.numpy_helper.from_array(value, name) for name, value in constants.items()]
    graph = onnx.helper.make_graph([node], "g", info[:1], info[1:], named)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)], ir_version=9)
    text = model.SerializeToString()
    (found,) = OnnxModule(read_model(memoryview(text)), Files(None))(ours(x))
    return onnxruntime.InferenceSession(text).run(None, {"x": x})[0], found.numpy()


@pytest.mark.parametrize(
    ("mode", "size", "scale"), [("nearest", 10, 0.7), ("nearest", 6, 0.7), ("linear", 5, 0.3), ("cubic", 9, 1 / 3)]
)
@pytest.mark.parametrize("place", ["half_pixel", "pytorch_half_pixel", "asymmetric"])
def test_places_of_resized_elements_are_computed_in_float32(mode, place, size, scale):
    node = onnx.helper.make_node("Resize", ["x", "", "s"], ["y"], mode=mode, coordinate_transformation_mode=place)
    x = np.random.default_rng(0).standard_normal((1, 1, size, 4)).astype("float32")
    want, got = runtime_and_ours(node, x, {"s": np.array([1, 1, scale, 1], "float32")})
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, atol=1e-5)


def test_resized_integers_are_cut_off():
    node = onnx.helper.make_node("Resize", ["x", "", "s"], ["y"], mode="linear")
    x = np.random.default_rng(0).integers(0, 255, (1, 1, 5, 5)).astype("uint8")
    want, got = runtime_and_ours(node, x, {"s": np.array([1, 1, 2, 1.5], "float32")})
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("pads", [[-1, 0, 1, 0], [0, 2, 0, -2], [1, 1, -2, 1]])
def test_elements_are_taken_away_before_the_rest_is_wrapped(pads):
    node = onnx.helper.make_node("Pad", ["x", "p"], ["y"], mode="wrap")
    want, got = runtime_and_ours(node, np.arange(20, dtype="float32").reshape(4, 5), {"p": np.array(pads)})
    np.testing.assert_array_equal(got, want)
