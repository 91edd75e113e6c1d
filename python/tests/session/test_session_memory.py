"""Memory of processes that open sessions on files: weights are there once, as the memory plan says."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import torchlette as tl

MB = 1 << 20

OPEN = """
import json, sys
import numpy as np
import torchlette
path, rows, dims = sys.argv[1], sys.argv[2].split(), int(sys.argv[3])

def status():
    lines = dict(line.split(":", 1) for line in open("/proc/self/status"))
    return [int(lines[name].split()[0]) * 1024 for name in ("VmRSS", "VmHWM")]

def run(path, n):
    session = torchlette.InferenceSession(path, threads=1)
    name = session.get_inputs()[0].name
    return session, [session.run(None, {name: np.ones((int(r), n), "float32")})[0] for r in rows]

warm, _ = run(sys.argv[4], 8)
before, _ = status()
session, results = run(path, dims)
now, peak = status()
plan = session.memory_plan()
print(json.dumps({"resident": now - before, "peak": peak - before, "plan": plan["peak_bytes"],
    "weights": plan["weight_bytes"], "first": [float(y[0, 0]) for y in results]}))
"""


def write(net: torch.nn.Module, width: int, kind: str, path: Path) -> Path:
    """Write a net of rows to a file."""
    n = torch.export.Dim("n", min=1, max=64)
    path = path.with_suffix(f".{kind}")
    if kind == "onnx":
        axes = {"x": {0: "n"}}
        torch.onnx.export(net, (torch.ones(3, width),), path, dynamo=False, dynamic_axes=axes, input_names=["x"])
    else:
        torch.export.save(torch.export.export(net, (torch.ones(3, width),), dynamic_shapes=({0: n},)), path)
    if kind == "tlp":
        tl.export.save(tl.export.load(path), path)
    return path


def nets() -> tuple[torch.nn.Module, torch.nn.Module]:
    """Return a net of 64 MB, and a small one."""
    torch.manual_seed(0)
    large = torch.nn.Sequential(*[torch.nn.Linear(2048, 2048) for _ in range(4)])
    return large.eval(), torch.nn.Sequential(torch.nn.Linear(8, 8)).eval()


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("kind", ["tlp", "pt2", "onnx"])
def test_a_session_on_a_file_holds_weights_once(kind: str, tmp_path: Path) -> None:
    large, small = nets()
    paths = [write(large, 2048, kind, tmp_path / "large"), write(small, 8, kind, tmp_path / "small")]
    command = [sys.executable, "-c", OPEN, str(paths[0]), "8 1 8", "2048", str(paths[1])]
    got = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    weights = sum(p.nbytes for p in large.parameters())
    assert weights <= got["weights"] <= 1.01 * weights
    assert got["resident"] <= got["plan"] + 12 * MB  # 64 MB more if weights were there twice
    assert got["peak"] <= got["plan"] + 32 * MB  # a weight has 16 MB, and is there twice while it is packed
    want = large(torch.ones(1, 2048))[0, 0].item()
    assert got["first"] == pytest.approx([want] * 3, rel=1e-4, abs=1e-5)


def test_the_plan_counts_packs_and_what_is_read_in_place() -> None:
    # A product of one row reads so few columns where they lie.
    net = tl.nn.Sequential(tl.nn.Linear(384, 16, bias=False, device="cpu"))
    n = tl.export.Dim("n", min=1, max=99)
    session = tl.InferenceSession(tl.export.export(net, (tl.ones(3, 384, device="cpu"),), dynamic_shapes=({0: n},)))
    weights = 384 * 16 * 4
    session.run(None, {"input": np.ones((3, 384), "float32")})
    plan = session.memory_plan()
    assert plan["in_place_bytes"] == 0
    assert weights <= plan["pack_bytes"] <= 2 * weights
    session.run(None, {"input": np.ones((1, 384), "float32")})
    plan = session.memory_plan()
    assert plan["in_place_bytes"] == weights
    assert plan["weight_bytes"] == plan["pack_bytes"] + weights
    assert plan["peak_bytes"] >= plan["weight_bytes"] + plan["arena_bytes"] + plan["state_bytes"]
