"""The first steps of a new GPT on a GPU, in processes of their own: every kernel is new to the process and the driver.

The model is on the device before the first step, as PyTorch's ``to`` leaves it; ``moved`` is the time that takes. The
first step waits for its kernels, which several threads compile. From the third step on the kernels of fusion groups
are compiled beside the steps; ``slowest later`` is the longest step after the second.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time

LAYERS, STEPS = 12, 40


def steps(small: bool) -> None:
    """Print the seconds of each step, and the step from which all plans had their fusion groups, as JSON."""
    import gpt2  # noqa: PLC0415

    import torchlette.torch as torch  # noqa: PLC0415
    from torchlette import mark_step, realize, stats  # noqa: PLC0415

    def gelu(x: torch.Tensor, approximate: str) -> torch.Tensor:  # noqa: ARG001
        return 0.5 * x * (1 + torch.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))

    gpt2.F.gelu = gelu  # a chain that fusion groups compute
    torch.ones(3, device="wgpu").tolist()  # opens the device
    width, batch, length = (64, 1, 16) if small else (768, 4, 512)
    begin = time.perf_counter()
    model = gpt2.GPT2(512 if small else 50257, length, LAYERS, 4 if small else 12, width).to("wgpu")
    x = torch.randint(0, 500, (batch, length + 1)).to("wgpu")
    realize(model, x)
    moved = time.perf_counter() - begin
    run = gpt2.trainer(model, x[:, :-1].contiguous(), x[:, 1:].contiguous(), 1)
    mark_step()
    taken, fused = [], None
    for i in range(STEPS):
        begin = time.perf_counter()
        run()
        taken.append(time.perf_counter() - begin)
        if fused is None and i >= 3 and stats()["plans_fused"] and not stats()["plans_compiling"]:
            fused = i
    print(json.dumps({"moved": moved, "steps": taken, "fused": fused, "pipelines": stats()["device_pipelines"]}))


def main() -> None:
    """Run one process for each round and print the medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="for a software adapter")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        steps(args.small)
        return
    cold = {"MESA_SHADER_CACHE_DISABLE": "true", "__GL_SHADER_DISK_CACHE": "0"}
    for _ in range(args.rounds):
        out = subprocess.run(
            [sys.executable, __file__, "--child", *(["--small"] if args.small else [])],
            env={**os.environ, **cold},
            check=True,
            capture_output=True,
            text=True,
        )
        r = json.loads(out.stdout.splitlines()[-1])
        t = r["steps"]
        print(
            f"moved in {r['moved']:.2f} s, first {t[0]:.2f} s, second {t[1] * 1e3:.0f} ms, slowest later "
            f"{max(t[2:]) * 1e3:.0f} ms (step {t.index(max(t[2:])) + 1}), last {min(t[-3:]) * 1e3:.0f} ms; fused from "
            f"step {r['fused']}, {r['pipelines']} pipelines"
        )


if __name__ == "__main__":
    main()
