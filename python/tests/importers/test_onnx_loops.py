"""Loops of ONNX whose ends, and sequences, carried values decide: as PyTorch's exporter writes nn.EmbeddingBag."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

import torchlette
import torchlette.onnx

RNG = np.random.default_rng(11)
node = helper.make_node
INT, BOOL = TensorProto.INT64, TensorProto.BOOL


def info(name, shape=None, kind=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def written(path, nodes, inputs, outputs, tensors, check=True):
    initial = [numpy_helper.from_array(np.asarray(value), name) for name, value in tensors.items()]
    graph = helper.make_graph(nodes, "g", inputs, outputs, initial)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    if check:
        onnx.checker.check_model(model)
    onnx.save(model, path)
    return str(path)


def theirs(path, feeds):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    return onnxruntime.InferenceSession(path, options).run(None, feeds)


def branch(name, nodes, result):
    return helper.make_graph(nodes, name, [], [result])


def bags(mode, bag_count):
    """Return the nodes of a bag's row: zeros where it is empty, else a reduction of a slice."""
    rows = node("Slice", ["embedded", "start", "end"], ["rows"])
    kept = [
        rows,
        node({"sum": "ReduceSum", "mean": "ReduceMean", "max": "ReduceMax"}[mode], ["rows", "dims"], ["full"]),
    ]
    if mode == "mean":  # the exporter divides the last bag's sum by its own count
        last = [node("ReduceSum", ["rows", "dims"], ["total"]), node("Sub", ["count", "start"], ["n"])]
        last += [node("Cast", ["n"], ["nf"], to=TensorProto.FLOAT), node("Div", ["total", "nf"], ["own"])]
        others = [node("ReduceMean", ["rows", "dims"], ["mean"])]
        kept = [rows, node("Equal", ["i", "last_bag"], ["is_last"])]
        kept.append(
            node(
                "If",
                ["is_last"],
                ["full"],
                then_branch=branch("last", last, info("own")),
                else_branch=branch("others", others, info("mean")),
            )
        )
    nodes = [node("Reshape", ["i", "minus"], ["at"]), node("Add", ["at", "one"], ["next"])]
    nodes += [node("Slice", ["offsets", "at", "next"], ["start"]), node("Add", ["at", "two"], ["behind"])]
    nodes += [node("Slice", ["offsets", "next", "behind"], ["end"]), node("Equal", ["start", "end"], ["empty"])]
    empty = [node("Identity", ["zeros"], ["nothing"])]
    nodes.append(
        node(
            "If",
            ["empty"],
            ["row"],
            then_branch=branch("none", empty, info("nothing")),
            else_branch=branch("some", kept, info("full")),
        )
    )
    nodes += [node("SequenceInsert", ["found", "row"], ["more"]), node("Add", ["i", "single"], ["j"])]
    return [*nodes, node("Less", ["j", "bags"], ["going"])]


def embedding_bag(path, mode, count, bag_count, weight):
    """Write what PyTorch's exporter writes for nn.EmbeddingBag."""
    sequence = helper.make_tensor_sequence_value_info
    inputs = [info("k", [], INT), info("c", [], BOOL), info("i", [], INT), sequence("found", TensorProto.FLOAT, None)]
    outputs = [info("going", [], BOOL), info("j", [], INT), sequence("more", TensorProto.FLOAT, None)]
    body = helper.make_graph(bags(mode, bag_count), "body", inputs, outputs)
    nodes = [node("Gather", ["weight", "ids"], ["embedded"])]
    nodes += [node("Concat", ["first", "count"], ["offsets"], axis=0), node("SequenceEmpty", [], ["none"])]
    nodes += [node("Loop", ["", "yes", "zero", "none"], ["end_i", "all"], body=body)]
    nodes += [node("ConcatFromSequence", ["all"], ["y"], axis=0)]
    tensors = {"weight": weight, "count": np.array([count]), "yes": np.bool_(True), "zero": np.int64(0)}
    tensors |= {"minus": np.array([-1]), "one": np.array([1]), "two": np.array([2]), "dims": np.array([0])}
    tensors |= {"zeros": np.zeros((1, weight.shape[1]), np.float32), "single": np.int64(1), "bags": np.int64(bag_count)}
    tensors["last_bag"] = np.int64(bag_count - 1)
    values = [info("ids", [count], INT), info("first", [bag_count], INT)]
    return written(path, nodes, values, [info("y", [bag_count, weight.shape[1]])], tensors)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_an_embedding_bag_imports_runs_and_trains(tmp_path, mode, device):
    weight = RNG.standard_normal((10, 4)).astype(np.float32)
    path = embedding_bag(tmp_path / "m.onnx", mode, 8, 4, weight)
    program = torchlette.onnx.load(path)
    session = torchlette.InferenceSession(path, device=device)
    ids = np.array([1, 2, 4, 5, 4, 3, 2, 9])
    for first in ([0, 4, 4, 5], [0, 0, 3, 7]):
        feeds = {"ids": ids, "first": np.array(first)}
        w = torch.tensor(weight, requires_grad=True)
        want = torch.nn.functional.embedding_bag(torch.tensor(ids), w, torch.tensor(first), mode=mode)
        torch.testing.assert_close(torch.tensor(theirs(path, feeds)[0]), want.detach())
        torch.testing.assert_close(torch.from_numpy(session.run(None, feeds)[0]), want.detach())
        module = program.module().to(device)
        got = module(*[torchlette.tensor(v, device=device) for v in feeds.values()])
        torch.testing.assert_close(torch.from_numpy(got.detach().cpu().numpy()), want.detach())
        factor = RNG.standard_normal((4, 4)).astype(np.float32)
        (got * torchlette.tensor(factor, device=device)).sum().backward()
        (want * torch.tensor(factor)).sum().backward()
        found = dict(module.named_parameters())["weight"].grad.cpu().numpy()
        torch.testing.assert_close(torch.from_numpy(found), w.grad)


def counting(path, start, step, limit, trips=None, size=None):
    """Write a loop that multiplies x while start + step * n < limit, at most trips times."""
    inner = [node("Mul", ["state", "x"], ["next"]), node("Add", ["i", "step"], ["j"])]
    inner += [node("Less", ["j", "limit"], ["going"]), node("Identity", ["next"], ["y"])]
    inputs = [info("k", [], INT), info("c", [], BOOL), info("i", [], INT), info("state", [3])]
    outputs = [info("going", [], BOOL), info("j", [], INT), info("next", [3]), info("y", [3])]
    body = helper.make_graph(inner, "body", inputs, outputs)
    name = "" if trips is None else "trips"
    nodes = [node("Loop", [name, "yes", "start", "x"], ["last_i", "last", "ys"], body=body)]
    tensors = {"yes": np.bool_(True), "start": np.int64(start), "step": np.int64(step), "limit": np.int64(limit)}
    tensors |= {} if trips is None else {"trips": np.int64(trips)}
    outputs = [info("last_i", [], INT), info("last", [3]), info("ys", ["n", 3])]
    return written(path, nodes, [info("x", [3])], outputs, tensors)


@pytest.mark.parametrize(
    ("start", "step", "limit", "trips"),
    [(0, 1, 5, None), (3, 2, 4, None), (0, 1, 5, 3), (0, 3, 600, None), (9, 1, 0, 0)],
)
def test_carried_numbers_tell_how_often_a_loop_runs(tmp_path, start, step, limit, trips):
    path = counting(tmp_path / "m.onnx", start, step, limit, trips)
    x = np.array([0.99, -1.01, 0.5], np.float32)
    want = theirs(path, {"x": x})
    given = torchlette.tensor(x, device="cpu", requires_grad=True)
    got = torchlette.onnx.load(path).module()(given)
    for a, b in zip(want, got, strict=True):
        if a.size:
            np.testing.assert_allclose(b.detach().numpy(), a, rtol=1e-5)
    if trips != 0:
        got[1].sum().backward()
        n = want[2].shape[0] + 1
        torch.testing.assert_close(torch.from_numpy(given.grad.numpy()), torch.from_numpy(n * x ** (n - 1)))


def test_loops_carry_sequences_that_they_read_and_change(tmp_path):
    sequence = helper.make_tensor_sequence_value_info
    inner = [node("SequenceAt", ["list", "i"], ["item"]), node("Mul", ["item", "x"], ["product"])]
    inner += [node("SequenceInsert", ["list", "product"], ["longer"]), node("Add", ["i", "one"], ["j"])]
    inner += [node("SequenceLength", ["longer"], ["length"]), node("Less", ["length", "limit"], ["going"])]
    inputs = [info("k", [], INT), info("c", [], BOOL), info("i", [], INT), sequence("list", TensorProto.FLOAT, None)]
    outputs = [info("going", [], BOOL), info("j", [], INT), sequence("longer", TensorProto.FLOAT, None)]
    body = helper.make_graph(inner, "body", inputs, outputs)
    nodes = [node("SequenceConstruct", ["x"], ["first"])]
    nodes += [node("Loop", ["", "yes", "zero", "first"], ["i_end", "all"], body=body)]
    nodes += [node("ConcatFromSequence", ["all"], ["y"], axis=0, new_axis=1)]
    tensors = {"yes": np.bool_(True), "zero": np.int64(0), "one": np.int64(1), "limit": np.int64(6)}
    path = written(tmp_path / "m.onnx", nodes, [info("x", [3])], [info("y", [6, 3])], tensors)
    x = RNG.standard_normal(3).astype(np.float32)
    want = theirs(path, {"x": x})[0]
    np.testing.assert_allclose(torchlette.InferenceSession(path).run(None, {"x": x})[0], want, rtol=1e-5)


def test_a_slice_by_values_that_is_no_reduction_is_refused(tmp_path):
    nodes = [node("Slice", ["x", "start", "end"], ["part"]), node("Exp", ["part"], ["y"])]
    inputs = [info("x", [5, 2]), info("start", [1], INT), info("end", [1], INT)]
    path = written(tmp_path / "m.onnx", nodes, inputs, [info("y", ["n", 2])], {})
    with pytest.raises(NotImplementedError, match="depend on values of tensors"):
        torchlette.onnx.load(path)


@pytest.mark.parametrize("name", ["ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin"])
def test_reductions_of_slices_by_values_count_places_as_slices_do(tmp_path, name, device):
    nodes = [node("Slice", ["x", "start", "end", "axes"], ["part"]), node(name, ["part", "axes"], ["y"], keepdims=0)]
    inputs = [info("x", [2, 5]), info("start", [1], INT), info("end", [1], INT)]
    path = written(tmp_path / "m.onnx", nodes, inputs, [info("y", [2])], {"axes": np.array([1])})
    x = RNG.standard_normal((2, 5)).astype(np.float32)
    for start, end in ((1, 3), (-3, -1), (-9, 2), (2, 99)):
        feeds = {"x": x, "start": np.array([start]), "end": np.array([end])}
        got = torchlette.InferenceSession(path, device=device).run(None, feeds)[0]
        np.testing.assert_allclose(got, theirs(path, feeds)[0], rtol=1e-5)
