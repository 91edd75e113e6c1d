"""Times of each step of a model in a session, and of each node in onnxruntime's profile.

``python benchmarks/nodes.py [--threads N] [--rounds N] NAME`` takes the first model of ``nets.py`` whose name contains
the text. Both sides run in turns; a time is the least of all rounds, in microseconds.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from pathlib import Path

import numpy as np
import torch
from measure import rest
from nets import NETS, onnxruntime_session, our_session

Times = dict[str, float]


def least(times: Times, name: str, us: float) -> None:
    """Keep the least time of a name."""
    times[name] = min(times.get(name, us), us)


def measure(name: str, threads: int, rounds: int) -> tuple[Times, Times]:
    """Return our times and onnxruntime's, in order of the steps."""
    model, make = next(net for title, net in NETS.items() if name in title)
    x = make(np.random.default_rng(0))
    torch.manual_seed(0)
    reference = model(torch).eval()
    mine = our_session(model, reference.state_dict(), x, threads)
    times: Times = {}
    theirs: Times = {}
    with tempfile.TemporaryDirectory() as folder:
        rival = onnxruntime_session(reference, x, threads, os.path.join(folder, "profile"))
        feeds = [{s.get_inputs()[0].name: x} for s in (mine, rival)]
        for _ in range(rounds):
            rest()
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
