"""Importers without the libraries that made the files."""

from __future__ import annotations

import os
import subprocess
import sys

import torch

import torchlette

SCRIPT = """
import sys
for name in ("torch", "onnx", "onnxruntime", "numpy", "google.protobuf"):
    sys.modules[name] = None
import torchlette, torchlette.onnx
from torchlette import nn
net = torchlette.export.load(sys.argv[1] + "/a.pt2").module()
x = torchlette.ones(5, 4, device="cpu")
y = net(x)
y.sum().backward()
print(tuple(y.shape), [p.grad is not None for p in net.parameters()])
torchlette.onnx.export(net, (x,), sys.argv[1] + "/a.onnx")
z = torchlette.onnx.load(sys.argv[1] + "/a.onnx").module()(x)
print((z - y).abs().max().item() < 1e-5)
"""


def test_models_are_read_and_written_where_no_other_library_is(tmp_path):
    net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
    dims = ({0: torch.export.Dim("n", min=2, max=64)},)
    torch.export.save(torch.export.export(net, (torch.randn(3, 4),), dynamic_shapes=dims), tmp_path / "a.pt2")
    package = os.path.dirname(os.path.dirname(torchlette.__file__))
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": package},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[:2] == ["(5, 3) [True, True, True, True]", "True"]
