"""Times of each step of a model in a session, and of each node in onnxruntime's profile.

``python benchmarks/nodes.py [--threads N] [--rounds N] NAME`` takes the first model of ``nets.py`` whose name contains
the text. Both sides run in turns; a time is the least of all rounds, in microseconds.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import json
import os
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from cpu_kernels import REST_SECONDS
from nets import NETS

import torchlette
import torchlette.torch as facade
from torchlette import export

Times = dict[str, float]


def ours(model: Any, reference: Any, x: np.ndarray[Any, Any], threads: int) -> Any:
    """Return our session of a model with the reference's weights."""
    with torchlette.device("cpu"):
        m = model(facade).eval()
    m.load_state_dict({k: facade.from_numpy(v.numpy()) for k, v in reference.state_dict().items()})
    return torchlette.InferenceSession(export.export(m, (facade.from_numpy(x),)), threads=threads)


def onnxruntime(reference: Any, x: np.ndarray[Any, Any], threads: int, folder: str) -> Any:
    """Return onnxruntime's session, which writes its profile to the folder."""
    ort: Any = importlib.import_module("onnxruntime")
    file = io.BytesIO()
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        torch.onnx.export(reference, (torch.from_numpy(x),), file, dynamo=False, opset_version=17)
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.enable_profiling = True
    options.profile_file_prefix = os.path.join(folder, "profile")
    return ort.InferenceSession(file.getvalue(), options, providers=["CPUExecutionProvider"])


def least(times: Times, name: str, us: float) -> None:
    """Keep the least time of a name."""
    times[name] = min(times.get(name, us), us)


def measure(name: str, threads: int, rounds: int) -> tuple[Times, Times]:
    """Return our times and onnxruntime's, in order of the steps."""
    model, make = next(net for title, net in NETS.items() if name in title)
    x = make(np.random.default_rng(0))
    torch.manual_seed(0)
    reference = model(torch).eval()
    mine, theirs = ours(model, reference, x, threads), {}
    times: Times = {}
    with tempfile.TemporaryDirectory() as folder:
        rival = onnxruntime(reference, x, threads, folder)
        feeds = [{s.get_inputs()[0].name: x} for s in (mine, rival)]
        for _ in range(rounds):
            time.sleep(REST_SECONDS)
            mine.run(None, feeds[0])
            for i, step in enumerate(mine.profile()):
                least(times, f"{i} {step['kernel']} {step['shape']}", step["time_us"])
            rival.run(None, feeds[1])
        events = json.loads(Path(rival.end_profiling()).read_text(encoding="utf-8"))
    for e in events:
        if e.get("cat") == "Node" and e["name"].endswith("_kernel_time"):
            shapes = [s for of in e["args"].get("output_type_shape", []) for s in of.values()]
            least(theirs, f"{e['name'].removesuffix('_kernel_time')} {shapes}", e["dur"])
    return times, theirs


def main() -> None:
    """Print both sides."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=20)
    a = parser.parse_args()
    for side, times in zip(("torchlette", "onnxruntime"), measure(a.name, a.threads, a.rounds), strict=True):
        print(f"{side}: {sum(times.values()):.0f} us")
        for node, us in times.items():
            print(f"{us:9.1f}  {node}")


if __name__ == "__main__":
    main()
