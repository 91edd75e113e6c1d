"""Where the time of a training step goes on the device: ``python benchmarks/profile_step.py [device] [shape]``."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import demo_step
import vision
from steps import DISTIL, SMALL, gpt2_steps

from torchlette.profiler import profile

STEPS = 2
CASES: dict[str, Callable[[str], Callable[[], Any]]] = {
    "demo": lambda device: demo_step.stepper("torchlette", device, dropout=0.0),
    "distil31": lambda device: gpt2_steps("torchlette", device, DISTIL, 1, 31, STEPS),
    "distil512": lambda device: gpt2_steps("torchlette", device, DISTIL, 1, 512, STEPS),
    "gpt2": lambda device: gpt2_steps("torchlette", device, SMALL, 4, 512, STEPS),
    "resnet18": lambda device: vision.steps("torchlette", device, "resnet18", 32),
    "unet": lambda device: vision.steps("torchlette", device, "unet", 16),
    "dit": lambda device: vision.steps("torchlette", device, "dit", 16),
}


def main() -> None:
    """Print the tables of a case, by kernel and by module."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("device", nargs="?", default="cpu")
    parser.add_argument("case", nargs="?", default="demo", choices=CASES)
    parser.add_argument("--rows", type=int, default=20)
    options = parser.parse_args()
    run = CASES[options.case](options.device)
    run()
    with profile() as prof:
        run()
    for key in ("kernel", "module"):
        print(
            prof.key_averages(key).table(
                sort_by="device_time_total",
                row_limit=options.rows,
                header=f"{options.case} on {options.device}, by {key}",
            )
        )


if __name__ == "__main__":
    main()
