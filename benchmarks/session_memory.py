"""Memory of processes with a session: beside the session's memory plan, and beside onnxruntime's.

``python benchmarks/sessions.py memory`` runs this. Each session is in a process of its own, which opens one file of a
model and runs it twice. A row has what this adds to the memory of the process after it has imported its library, in MB:
the peak, and what stays resident. The plan is the session's ``peak_bytes``. Results are those of a run, which are in
memory besides.
"""

from __future__ import annotations

import io
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

MB = 1 << 20


def resident() -> tuple[int, int]:
    """Return the resident bytes of this process, and their peak."""
    found = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    now, peak = (int(found[name].split()[0]) * 1024 for name in ("VmRSS", "VmHWM"))
    return now, peak


def one(side: str, path: str, feed: np.ndarray[Any, Any]) -> dict[str, int]:
    """Open a session on a path and run it twice."""
    if side == "onnxruntime":
        import onnxruntime as ort

        options = ort.SessionOptions()
        options.intra_op_num_threads = 2
        before, _ = resident()
        session: Any = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    else:
        import torchlette

        small = torchlette.nn.Sequential(torchlette.nn.Linear(2, 2))
        torchlette.InferenceSession(torchlette.export.export(small, (torchlette.zeros(1, 2, device="cpu"),)))
        before, _ = resident()
        session = torchlette.InferenceSession(path, threads=2)
    for _ in range(2):
        made = sum(result.nbytes for result in session.run(None, {session.get_inputs()[0].name: feed}))
    now, peak = resident()
    plan = session.memory_plan()["peak_bytes"] if side == "torchlette" else 0
    return {"resident": now - before, "peak": peak - before, "plan": plan, "results": made}


def files(folder: Path) -> list[tuple[str, Path, np.ndarray[Any, Any], int]]:
    """Write the models: name, file, input, bytes of weights."""
    import onnx
    import torch
    from nets import gpt2

    from torchlette import export

    rng, listed = np.random.default_rng(0), []
    layers = [m for _ in range(6) for m in (torch.nn.Linear(2048, 2048), torch.nn.ReLU())]
    for name, model, feed in (
        ("MLP, 6 layers of 2048", torch.nn.Sequential(*layers), rng.normal(size=(128, 2048)).astype("float32")),
        ("GPT-2 124M 1x128", gpt2(torch), rng.integers(50257, size=(1, 128))),
    ):
        x, made = torch.from_numpy(feed), io.BytesIO()
        weights = sum(p.nbytes for p in model.parameters())
        torch.onnx.export(model.eval(), (x,), made, dynamo=False, opset_version=17)
        path = folder / f"{len(listed)}.onnx"
        path.write_bytes(made.getvalue())
        listed.append((f"{name}, .onnx", path, feed, weights))
        beside = folder / f"{len(listed)}.onnx"
        onnx.save_model(onnx.load(path), beside, save_as_external_data=True, location=f"{len(listed)}.data")
        listed.append((f"{name}, .onnx beside data", beside, feed, weights))
        pt2 = folder / f"{len(listed)}.pt2"
        torch.export.save(torch.export.export(model, (x,)), pt2)
        listed.append((f"{name}, .pt2", pt2, feed, weights))
        program = folder / f"{len(listed)}.tlp"
        export.save(export.load(pt2), program)
        listed.append((f"{name}, saved program", program, feed, weights))
    return listed


def main() -> None:
    """Print the table."""
    print(f"{'MB':56} {'weights':>8} {'plan':>8} {'results':>8} {'resident':>9} {'peak':>8}")
    with tempfile.TemporaryDirectory() as made:
        for name, path, feed, weights in files(Path(made)):
            np.save(Path(made, "feed.npy"), feed)
            for side in ("torchlette", "onnxruntime")[: 1 + (path.suffix == ".onnx")]:
                command = [sys.executable, __file__, side, str(path), str(Path(made, "feed.npy"))]
                got = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
                plan = f"{got['plan'] / MB:8.0f}" if got["plan"] else " " * 8
                measured = f"{got['results'] / MB:8.0f} {got['resident'] / MB:9.0f} {got['peak'] / MB:8.0f}"
                row = f"{weights / MB:8.0f} {plan} {measured}"
                print(f"{name + ', ' + side:56}", row)


if __name__ == "__main__":
    if len(sys.argv) == 4:
        print(json.dumps(one(sys.argv[1], sys.argv[2], np.load(sys.argv[3]))))
    else:
        main()
