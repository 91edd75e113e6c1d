"""Large tensors of .pt2 and ONNX files are over the pages of their file, in programs and in sessions."""

import sys

import numpy as np
import onnx
import pytest
import torch
from onnx import helper, numpy_helper

import torchlette as tl
import torchlette.onnx
from torchlette.export import load

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads the list of mappings of Linux")
N = 128


def in_file(t, path) -> bool:
    """Whether a tensor's first element is in a mapping of the file."""
    at = t.data_ptr()
    with open("/proc/self/maps") as maps:
        for line in maps:
            begin, end = (int(v, 16) for v in line.split()[0].split("-"))
            if begin <= at < end:
                return line.rstrip().endswith(str(path))
    return False


def written(path, folder):
    """Write y = x w + b; the tensors of ONNX files lie in a file of their own, or begin at a multiple of 64."""
    w, b = np.arange(N * N, dtype=np.float32).reshape(N, N) / N, np.ones(N, np.float32)
    if path == "m.pt2":
        net = torch.nn.Linear(N, N)
        with torch.no_grad():
            net.weight.copy_(torch.from_numpy(w.T.copy()))
            net.bias.copy_(torch.from_numpy(b))
        torch.export.save(torch.export.export(net, (torch.ones(2, N),)), folder / path)
        return folder / path, w, b
    shape = [helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, [2, N]) for n in "xy"]
    nodes = [helper.make_node("MatMul", ["x", "w"], ["z"]), helper.make_node("Add", ["z", "b"], ["y"])]
    tensors = [numpy_helper.from_array(w, "w"), numpy_helper.from_array(b, "b")]
    for pad in range(64):
        graph = helper.make_graph(nodes, "g" * (pad + 1), shape[:1], shape[1:], tensors)
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
        if path == "weights" or made.SerializeToString().index(w.tobytes()) % 64 == 0:
            break
    if path == "weights":
        onnx.save(made, folder / "m.onnx", save_as_external_data=True, location=path, size_threshold=1024)
    else:
        (folder / "m.onnx").write_bytes(made.SerializeToString())
    return folder / "m.onnx", w, b


@pytest.mark.parametrize("path", ["m.pt2", "m.onnx", "weights"])
def test_large_tensors_are_over_the_file(path, tmp_path):
    model, w, b = written(path, tmp_path)
    program = (load if path == "m.pt2" else torchlette.onnx.load)(model)
    weight = next(t for t in program.constants if tuple(t.shape) == (N, N))
    bias = next(t for t in program.constants if tuple(t.shape) == (N,))
    assert in_file(weight, tmp_path / path)
    assert not in_file(bias, tmp_path / path), "small ones are copied"
    x = np.linspace(-1, 1, 2 * N, dtype=np.float32).reshape(2, N)
    session = tl.InferenceSession(model)
    (y,) = session.run(None, {session.get_inputs()[0].name: x})
    torch.testing.assert_close(torch.from_numpy(y), torch.from_numpy(x @ w + b))
    before = (tmp_path / path).read_bytes()
    with torchlette.no_grad():
        weight.zero_()
    assert (program.module()(tl.tensor(x))).tolist() == np.ones((2, N)).tolist()
    assert (tmp_path / path).read_bytes() == before, "writes stay in memory"


def test_tied_weights_of_a_loaded_program_are_written_apart(tmp_path):
    class Tied(torch.nn.Module):
        def __init__(self):
            super().__init__()
            whole = torch.ones(2, N, N)
            self.register_buffer("a", whole[0])
            self.register_buffer("b", whole)

        def forward(self, x):
            self.a.mul_(2)
            return x @ self.a + self.b[1]

    torch.export.save(torch.export.export(Tied(), (torch.ones(1, N),)), tmp_path / "m.pt2")
    module = load(tmp_path / "m.pt2").module()
    for factor in (2, 4):
        assert module(tl.ones(1, N))[0, 0].item() == N * factor + 1
