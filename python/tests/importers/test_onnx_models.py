"""ONNX models as programs, beside onnxruntime: dynamic sizes, control flow, tensors in other files, gradients."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import torchlette
import torchlette.onnx
from torchlette.onnx.files import read_module

RNG = np.random.default_rng(0)
node = helper.make_node


def info(name, shape, kind=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def written(path, nodes, inputs, outputs, tensors=None, opset=17):
    initial = [numpy_helper.from_array(np.asarray(value), name) for name, value in (tensors or {}).items()]
    graph = helper.make_graph(nodes, "g", inputs, outputs, initial)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)
    onnx.checker.check_model(model)
    onnx.save(model, path)
    return str(path)


def theirs(path, feeds):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    return onnxruntime.InferenceSession(path, options).run(None, feeds)


def ours(path, feeds):
    program = torchlette.onnx.load(path)
    assert list(program.graph_signature.user_inputs) == list(feeds)
    found = program.module()(*[torchlette.tensor(v, device="cpu") for v in feeds.values()])
    return [t.detach().numpy() for t in (found if isinstance(found, tuple) else (found,))]


def same(path, feeds):
    for want, got in zip(theirs(path, feeds), ours(path, feeds), strict=True):
        assert (want.dtype, want.shape) == (got.dtype, got.shape)
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def f(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def ints(*values):
    return np.array(values, dtype=np.int64)


def attention(path):
    """Heads are split by sizes that the graph computes, and the mask is a range compared with another."""
    nodes = [
        node("Shape", ["x"], ["shape"]),
        node("Gather", ["shape", "zero"], ["b"]),
        node("Gather", ["shape", "one"], ["t"]),
        node("Unsqueeze", ["b", "axis0"], ["b1"]),
        node("Unsqueeze", ["t", "axis0"], ["t1"]),
        node("Concat", ["b1", "t1", "heads"], ["split"], axis=0),
        node("MatMul", ["x", "w"], ["y"]),
        node("Reshape", ["y", "split"], ["y4"]),
        node("Transpose", ["y4"], ["q"], perm=[0, 2, 1, 3]),
        node("Transpose", ["y4"], ["k"], perm=[0, 2, 3, 1]),
        node("MatMul", ["q", "k"], ["scores"]),
        node("Range", ["zero_", "t", "one_"], ["columns"]),
        node("Unsqueeze", ["columns", "axis1"], ["rows"]),
        node("LessOrEqual", ["columns", "rows"], ["seen"]),
        node("Where", ["seen", "scores", "low"], ["masked"]),
        node("Softmax", ["masked"], ["weights"], axis=-1),
        node("MatMul", ["weights", "q"], ["z"]),
        node("Transpose", ["z"], ["z4"], perm=[0, 2, 1, 3]),
        node("Reshape", ["z4", "shape"], ["out"]),
    ]
    tensors = {"zero": np.int64(0), "one": np.int64(1), "zero_": np.int64(0), "one_": np.int64(1), "axis0": ints(0)}
    tensors |= {"axis1": ints(1), "heads": ints(2, 4), "w": f(8, 8), "low": np.float32(-1e9)}
    return written(path, nodes, [info("x", ["batch", "seq-len", 8])], [info("out", ["batch", "seq-len", 8])], tensors)


@pytest.mark.parametrize("shape", [(1, 1, 8), (3, 7, 8)])
def test_sizes_that_a_graph_computes_follow_the_inputs(tmp_path, shape):
    same(attention(tmp_path / "m.onnx"), {"x": f(*shape)})


def test_a_model_of_two_inputs_with_one_dim_refuses_two_sizes(tmp_path):
    path = written(
        tmp_path / "m.onnx", [node("Add", ["a", "b"], ["c"])], [info("a", ["n"]), info("b", ["n"])], [info("c", ["n"])]
    )
    module = torchlette.onnx.load(path).module()
    with pytest.raises(ValueError, match="n"):
        module(torchlette.ones(3, device="cpu"), torchlette.ones(4, device="cpu"))


def branch(name, op):
    return helper.make_graph([node(op, ["x", "w"], [name])], name, [], [info(name, [2, 3])])


def test_a_condition_on_values_chooses_a_branch(tmp_path):
    nodes = [
        node("ReduceSum", ["x"], ["total"], keepdims=0),
        node("Greater", ["total", "zero"], ["flag"]),
        node("If", ["flag"], ["y"], then_branch=branch("a", "Mul"), else_branch=branch("b", "Add")),
    ]
    tensors = {"zero": np.float32(0), "w": f(3)}
    path = written(tmp_path / "m.onnx", nodes, [info("x", [2, 3])], [info("y", [2, 3])], tensors)
    x = np.abs(f(2, 3))
    same(path, {"x": x})
    same(path, {"x": -x})


def loop(path, trips, while_small):
    """Doubles and adds; the condition is constant, or looks at the sum."""
    inner = [
        node("Add", ["state", "w"], ["next"]),
        node("Mul", ["next", "two"], ["doubled"]),
        node("ReduceSum", ["doubled"], ["total"], keepdims=0),
        node("Less", ["total", "limit"], ["more"]) if while_small else node("Identity", ["going"], ["more"]),
    ]
    flag, i = info("going", [], TensorProto.BOOL), info("i", [], TensorProto.INT64)
    outputs = [info("more", [], TensorProto.BOOL), info("doubled", [3])]
    outputs += [] if while_small else [info("next", [3])]
    body = helper.make_graph(inner, "body", [i, flag, info("state", [3])], outputs)
    names = ["last"] if while_small else ["last", "all"]
    nodes = [node("Loop", ["trips", "yes"], names, body=body)]
    nodes[0].input.append("x")
    tensors = {"trips": np.int64(trips), "yes": np.bool_(True), "w": f(3) ** 2, "two": np.float32(2)}
    tensors["limit"] = np.float32(200)
    shapes = [[3], [None, 3]]
    return written(path, nodes, [info("x", [3])], [info(n, s) for n, s in zip(names, shapes, strict=False)], tensors)


@pytest.mark.parametrize(("trips", "while_small"), [(4, False), (20, True), (400, False), (300, True)])
def test_loops(tmp_path, trips, while_small):
    path = loop(tmp_path / "m.onnx", trips, while_small)
    feeds = {"x": np.abs(f(3))}
    same(path, feeds)
    module = read_module(path)  # the module runs loops of the engine
    for want, got in zip(theirs(path, feeds), module(torchlette.tensor(feeds["x"], device="cpu")), strict=True):
        np.testing.assert_allclose(got.detach().numpy(), want, rtol=1e-5)
    steps = torchlette.onnx.load(path).graph.nodes
    assert trips < 20 or len(steps) < 30 and any(s["op"] == "engine.loop" for s in steps), "one body, not one per step"


def test_loops_of_programs_have_gradients_where_their_length_is_known(tmp_path):
    for trips, while_small in ((200, False), (20, True)):
        program = torchlette.onnx.load(loop(tmp_path / "m.onnx", trips, while_small))
        assert any(s["op"] == "engine.loop" for s in program.graph.nodes)
        x = torchlette.full([3], 1e-6, device="cpu", requires_grad=True)
        found = program.module()(x)
        (found if while_small else found[0]).sum().backward()
        assert (x.grad > 1).all().item()


def test_a_loop_that_changes_the_sizes_of_what_it_carries_is_written_out_or_refused(tmp_path):
    inner = [node("Concat", ["state", "state"], ["next"], axis=0), node("Identity", ["going"], ["more"])]
    inputs = [info("i", [], TensorProto.INT64), info("going", [], TensorProto.BOOL), info("state", [None])]
    body = helper.make_graph(inner, "body", inputs, [info("more", [], TensorProto.BOOL), info("next", [None])])
    nodes = [node("Loop", ["trips", "yes", "x"], ["last"], body=body)]
    for trips in (3, 1000):
        tensors = {"trips": np.int64(trips), "yes": np.bool_(True)}
        path = written(tmp_path / "m.onnx", nodes, [info("x", [3])], [info("last", [None])], tensors)
        if trips == 3:
            same(path, {"x": f(3)})
        else:
            with pytest.raises(NotImplementedError, match="only if all iterations have the same sizes"):
                torchlette.onnx.load(path)


def test_a_scan_runs_as_a_loop_and_as_a_program(tmp_path):
    inner = [node("Add", ["h", "x"], ["sum"]), node("Tanh", ["sum"], ["h1"]), node("Identity", ["h1"], ["y"])]
    body = helper.make_graph(inner, "body", [info("h", [3]), info("x", [3])], [info("h1", [3]), info("y", [3])])
    nodes = [node("Scan", ["h0", "xs"], ["last", "ys"], body=body, num_scan_inputs=1, scan_input_directions=[1])]
    outputs = [info("last", [3]), info("ys", ["n", 3])]
    path = written(tmp_path / "m.onnx", nodes, [info("h0", [3]), info("xs", ["n", 3])], outputs)
    feeds = {"h0": f(3), "xs": f(5, 3)}
    same(path, feeds)
    same(path, {"h0": f(3), "xs": f(300, 3)})
    got = read_module(path)(*[torchlette.tensor(v, device="cpu") for v in feeds.values()])
    np.testing.assert_allclose(got[1].numpy(), theirs(path, feeds)[1], rtol=1e-5)


def test_quantized_models(tmp_path):
    nodes = [
        node("QuantizeLinear", ["x", "xs", "xz"], ["xq"]),
        node("DequantizeLinear", ["xq", "xs", "xz"], ["xd"]),
        node("DequantizeLinear", ["wq", "ws", "wz"], ["wd"], axis=0),
        node("Conv", ["xd", "wd"], ["c"], pads=[1, 1, 1, 1]),
        node("QuantizeLinear", ["c", "ys", "yz"], ["y"]),
        node("DynamicQuantizeLinear", ["x"], ["dq", "ds", "dz"]),
        node("ConvInteger", ["dq", "wq", "dz"], ["whole"]),
    ]
    tensors = {"xs": np.float32(0.02), "xz": np.uint8(120), "ws": np.abs(f(4)) / 50, "wz": np.zeros(4, np.int8)}
    tensors |= {"wq": RNG.integers(-128, 127, (4, 3, 3, 3)).astype(np.int8), "ys": np.float32(0.1), "yz": np.int8(3)}
    outputs = [info("y", ["n", 4, 6, 6], TensorProto.INT8), info("whole", ["n", 4, 4, 4], TensorProto.INT32)]
    path = written(tmp_path / "m.onnx", nodes[:5], [info("x", ["n", 3, 6, 6])], outputs[:1], tensors)
    feeds = {"x": f(2, 3, 6, 6)}
    want, got = theirs(path, feeds)[0], ours(path, feeds)[0]
    assert np.abs(want.astype(int) - got.astype(int)).max() <= 1  # of a rounding at one half
    tensors |= {"four": np.int64(0)}
    path = written(tmp_path / "n.onnx", nodes, [info("x", ["n", 3, 6, 6])], outputs, tensors)
    assert ours(path, feeds)[1].shape == (2, 4, 4, 4)


def test_sums_of_whole_numbers_are_exact(tmp_path, device):
    """Of more terms than float32 adds up exactly at once, in products and in convolutions with groups."""
    nodes = [
        node("MatMulInteger", ["a", "b", "az", "bz"], ["product"]),
        node("ConvInteger", ["x", "w", "xz"], ["conv"], group=2, pads=[1, 1, 1, 1]),
        node("ConvInteger", ["line", "long"], ["wide"]),
        node("DequantizeLinear", ["whole", "s"], ["d"]),
    ]
    arrays = {"a": RNG.integers(250, 256, (2, 770)).astype(np.uint8), "b": np.full((770, 3), -128, np.int8)}
    arrays |= {"az": np.uint8(1), "bz": np.arange(3).astype(np.int8), "s": np.float32(0.37)}
    arrays |= {"x": RNG.integers(250, 256, (1, 80, 4, 5)).astype(np.uint8), "w": np.full((4, 40, 3, 3), -127, np.int8)}
    arrays |= {"xz": np.uint8(3), "line": RNG.integers(250, 256, (1, 2, 400)).astype(np.uint8)}
    arrays |= {"long": np.full((1, 2, 390), -125, np.int8), "whole": RNG.integers(-(2**31), 2**31, 9).astype(np.int32)}
    given = {name: arrays.pop(name) for name in ("a", "x", "line", "whole")}
    kinds = [TensorProto.UINT8] * 3 + [TensorProto.INT32]
    inputs = [info(name, list(given[name].shape), kind) for name, kind in zip(given, kinds, strict=True)]
    whole = TensorProto.INT32
    outputs = [info("product", [2, 3], whole), info("conv", [1, 4, 4, 5], whole), info("wide", [1, 1, 11], whole)]
    path = written(tmp_path / "m.onnx", nodes, inputs, [*outputs, info("d", [9])], arrays)
    product, conv, wide, d = torchlette.InferenceSession(path, device=device).run(None, given)
    left, right = given["a"].astype(int) - 1, arrays["b"].astype(int) - arrays["bz"]
    np.testing.assert_array_equal(product, left @ right)
    x = np.pad(given["x"].astype(int) - 3, ((0, 0), (0, 0), (1, 1), (1, 1))).reshape(2, 40, 6, 7)
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (2, 3)).sum((1, 4, 5)) * -127
    np.testing.assert_array_equal(conv[0], windows.repeat(2, 0))
    lines = np.lib.stride_tricks.sliding_window_view(given["line"][0].astype(int), 390, 1)
    np.testing.assert_array_equal(wide[0], lines.sum((0, 2))[None] * -125)
    np.testing.assert_array_equal(d, given["whole"].astype(np.float32) * np.float32(0.37))


def test_operators_on_quantized_numbers_are_launches_of_integers(tmp_path):
    nodes = [
        node("QLinearConv", ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz", "bias"], ["c"], pads=[1, 1, 1, 1]),
        node("QLinearMatMul", ["m", "xs", "xz", "v", "vs", "wz", "ys", "yz"], ["p"]),
    ]
    arrays = {"xs": np.float32(0.01), "xz": np.uint8(100), "ws": np.abs(f(4)) / 50, "wz": np.int8(0)}
    arrays |= {"w": RNG.integers(-60, 60, (4, 3, 3, 3)).astype(np.int8), "ys": np.float32(0.3), "yz": np.uint8(128)}
    arrays |= {"bias": RNG.integers(-999, 999, 4).astype(np.int32), "vs": np.float32(0.02)}
    arrays |= {"v": RNG.integers(-60, 60, (70, 5)).astype(np.int8)}
    given = {"x": RNG.integers(0, 255, (2, 3, 6, 6)), "m": RNG.integers(0, 255, (3, 70))}
    given = {name: v.astype(np.uint8) for name, v in given.items()}
    inputs = [info("x", [2, 3, 6, 6], TensorProto.UINT8), info("m", [3, 70], TensorProto.UINT8)]
    outputs = [info("c", [2, 4, 6, 6], TensorProto.UINT8), info("p", [3, 5], TensorProto.UINT8)]
    path = written(tmp_path / "m.onnx", nodes, inputs, outputs, arrays)
    session = torchlette.InferenceSession(path)
    for got, want in zip(session.run(None, given), theirs(path, given), strict=True):
        assert np.abs(got.astype(int) - want.astype(int)).max() <= 1  # of a rounding at one half
    assert [k["op"] for k in session.profile()] == ["quantized_conv"] * 2


def test_sessions_keep_weights_of_int8(tmp_path):
    nodes = [
        node("QuantizeLinear", ["x", "xs", "xz"], ["xq"]),
        node("DequantizeLinear", ["xq", "xs", "xz"], ["xd"]),
        node("DequantizeLinear", ["wq", "ws", "wz"], ["wd"], axis=1),
        node("MatMul", ["xd", "wd"], ["h"]),
        node("Relu", ["h"], ["r"]),
        node("DequantizeLinear", ["vq", "vs"], ["vd"]),
        node("Gemm", ["r", "vd", "b"], ["g"], transB=1),
        node("QuantizeLinear", ["g", "gs", "gz"], ["gq"]),
        node("DequantizeLinear", ["gq", "gs", "gz"], ["y"]),
    ]
    tensors = {"xs": np.float32(0.02), "xz": np.uint8(120), "ws": np.abs(f(21)) / 50, "wz": np.zeros(21, np.int8)}
    tensors |= {"wq": RNG.integers(-128, 127, (40, 21)).astype(np.int8), "vs": np.float32(0.02), "b": f(40)}
    tensors |= {"vq": RNG.integers(-128, 127, (40, 21)).astype(np.int8), "gs": np.float32(0.5), "gz": np.int8(3)}
    outputs = [info("g", ["n", 40]), info("y", ["n", 40])]
    path = written(tmp_path / "m.onnx", nodes, [info("x", ["n", 40])], outputs, tensors)
    session = torchlette.InferenceSession(path)
    for rows in (1, 3, 50):  # a large weight of few rows stays in 8 bits
        feeds = {"x": f(rows, 40)}
        got = [np.asarray(v) for v in session.run(None, feeds)]
        np.testing.assert_allclose(got[0], ours(path, feeds)[0], rtol=1e-5, atol=2e-5)
        want = theirs(path, feeds)
        np.testing.assert_allclose(got[0], want[0], rtol=1e-5, atol=2e-5)
        assert np.abs(got[1] - want[1]).max() <= 0.5  # a step, of a rounding at one half


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize(("kind", "gates"), [("LSTM", 4), ("GRU", 3), ("RNN", 1)])
def test_recurrent_layers(tmp_path, kind, gates, direction):
    d = 2 if direction == "bidirectional" else 1
    tensors = {"w": f(d, gates * 5, 4), "r": f(d, gates * 5, 5), "b": f(d, gates * 10)}
    options = {"linear_before_reset": 1} if kind == "GRU" else {}
    nodes = [node(kind, ["x", "w", "r", "b"], ["y", "h"], hidden_size=5, direction=direction, **options)]
    outputs = [info("y", ["t", d, "n", 5]), info("h", [d, "n", 5])]
    path = written(tmp_path / "m.onnx", nodes, [info("x", [3, "n", 4])], outputs, tensors)
    same(path, {"x": f(3, 2, 4)})


def test_sizes_are_computed_of_constants_of_floats(tmp_path):
    """As where ``int(n**0.5)`` was traced: in float32, in which 0.29 * 100 is 29."""
    nodes = [
        helper.make_node("Constant", [], ["n"], value=numpy_helper.from_array(np.float32(16))),
        helper.make_node("Constant", [], ["half"], value=numpy_helper.from_array(np.float32(0.5))),
        node("Pow", ["n", "half"], ["root"]),
        node("Cast", ["root"], ["side"], to=TensorProto.INT64),
        helper.make_node("Constant", [], ["part"], value=numpy_helper.from_array(np.float32(0.29))),
        helper.make_node("Constant", [], ["hundred"], value=numpy_helper.from_array(np.float32(100))),
        node("Mul", ["part", "hundred"], ["rows"]),
        node("Cast", ["rows"], ["count"], to=TensorProto.INT64),
        node("Unsqueeze", ["side", "zero"], ["s"]),
        node("Unsqueeze", ["count", "zero"], ["c"]),
        node("Concat", ["c", "s", "s"], ["sizes"], axis=0),
        node("Reshape", ["x", "sizes"], ["y"]),
        node("Mul", ["y", "n"], ["scaled"]),
        helper.make_node("Constant", [], ["minus"], value=numpy_helper.from_array(np.float32(-2))),
        node("Pow", ["minus", "half"], ["none"]),
        node("Mul", ["gain", "half"], ["gained"]),
    ]
    outputs = [info("scaled", [29, 4, 4]), info("none", []), info("gained", [])]
    tensors = {"zero": np.array([0]), "gain": np.float32(3)}
    path = written(tmp_path / "m.onnx", nodes, [info("x", [29, 16])], outputs, tensors)
    same(path, {"x": f(29, 16)})
    module = torchlette.onnx.load(path).module()
    assert [name for name, _ in module.named_parameters()] == ["gain"]
    module(torchlette.ones(29, 16, device="cpu"))[2].backward()
    assert module.gain.grad.item() == 0.5


def test_parameters_have_the_file_s_names_and_train(tmp_path):
    nodes = [node("Gemm", ["x", "layer.weight", "layer.bias"], ["h"], transB=1), node("Relu", ["h"], ["y"])]
    tensors = {"layer.weight": f(5, 4), "layer.bias": f(5)}
    path = written(tmp_path / "m.onnx", nodes, [info("x", ["n", 4])], [info("y", ["n", 5])], tensors)
    module = torchlette.onnx.load(path).module()
    assert {name: tuple(p.shape) for name, p in module.named_parameters()} == {
        "layer.weight": (5, 4),
        "layer.bias": (5,),
    }
    x, optimizer = torchlette.tensor(f(6, 4), device="cpu"), torchlette.optim.SGD(module.parameters(), lr=0.1)
    losses = []
    for _ in range(3):
        loss = module(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[2] < losses[1] < losses[0]


def test_tensors_in_other_files_of_the_folder(tmp_path):
    weight = f(64, 64)
    path = written(
        tmp_path / "m.onnx",
        [node("MatMul", ["x", "w"], ["y"])],
        [info("x", [2, 64])],
        [info("y", [2, 64])],
        {"w": weight},
    )
    model = onnx.load(path)
    (tmp_path / "sub").mkdir()
    onnx.save(model, path, save_as_external_data=True, location="sub/w.bin", size_threshold=0)
    same(path, {"x": f(2, 64)})


def test_functions_of_a_model_are_written_out(tmp_path):
    nodes = [node("LeakyRelu", ["a"], ["b"]), node("Add", ["b", "b"], ["c"])]
    nodes[0].attribute.append(onnx.AttributeProto(name="alpha", type=1, ref_attr_name="slope"))
    function = helper.make_function("mine", "twice", ["a"], ["c"], nodes, [helper.make_opsetid("", 17)], ["slope"])
    graph = helper.make_graph(
        [node("twice", ["x"], ["y"], domain="mine", slope=0.5)], "g", [info("x", [3])], [info("y", [3])]
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("mine", 1)]
    model = helper.make_model(graph, opset_imports=opsets, functions=[function], ir_version=9)
    onnx.save(model, tmp_path / "m.onnx")
    same(str(tmp_path / "m.onnx"), {"x": f(3)})


def test_what_depends_on_values_says_why_it_is_no_program(tmp_path):
    path = written(
        tmp_path / "m.onnx",
        [node("NonZero", ["x"], ["y"])],
        [info("x", [3])],
        [info("y", [1, None], TensorProto.INT64)],
    )
    with pytest.raises((NotImplementedError, RuntimeError), match="NonZero"):
        torchlette.onnx.load(path)
    got = read_module(path)(torchlette.tensor([0.0, 2.0, 1.0], device="cpu"))
    assert got[0].tolist() == [[1, 2]]
