"""What the training-step benchmarks share: models on either library, and the engine's counts of a step."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

import torchlette
from torchlette import _C

VOCABULARY = 50257
#: Shapes of GPT-2: layers, heads, width.
DISTIL, SMALL = (6, 12, 768), (12, 12, 768)


def library(name: str) -> ModuleType:
    """Return the module of tensors: torchlette, or torch, which also serves ``compile``."""
    return torchlette if name == "torchlette" else torch


def models(name: str) -> ModuleType:
    """Return ``gpt2.py`` with its imports bound to a library."""
    source = (Path(__file__).parent / "gpt2.py").read_text()
    if name != "torchlette":
        source = source.replace("torchlette.torch", "torch")
    module = ModuleType(f"gpt2_{name}")
    sys.modules[module.__name__] = module
    exec(compile(source, f"gpt2.py ({name})", "exec"), module.__dict__)
    return module


def gpt2_steps(
    name: str,
    device: str,
    shape: tuple[int, int, int],
    batch: int,
    length: int,
    steps: int,
    vocabulary: int = VOCABULARY,
    autocast: bool = False,
) -> Callable[[], float]:
    """Return a function that trains a GPT-2 of that shape for some steps and reads the loss; ``compile`` is torch's
    with ``torch.compile``, ``autocast`` that to bfloat16.
    """
    lib, gpt2 = library(name), models(name)
    lib.manual_seed(0)
    layers, heads, width = shape
    model = gpt2.GPT2(vocabulary, length, layers, heads, width).to(device)
    x, y = (lib.randint(0, vocabulary, (batch, length)).to(device) for _ in range(2))
    return gpt2.trainer(torch.compile(model) if name == "compile" else model, x, y, steps, autocast)


def lstm_steps(name: str, device: str, steps: int) -> Callable[[], float]:
    """Return a function that trains ``nn.LSTM(128, 256)`` by plain descent and reads the last loss.

    The data are 32 series of 100 time steps.
    """
    lib = library(name)
    lib.manual_seed(0)
    net = lib.nn.LSTM(128, 256).to(device)
    x = lib.randn(100, 32, 128).to(device)
    optimizer = lib.optim.SGD(net.parameters(), 1e-3)

    def run() -> float:
        for _ in range(steps):
            optimizer.zero_grad()
            loss = net(x)[0].square().mean()
            loss.backward()
            optimizer.step()
        return loss.item()

    return run


def stats() -> dict[str, int]:
    """Return the engine's counters."""
    return json.loads(_C._info("stats"))


def profile_of(run: Callable[[], Any], steps: int) -> dict[str, Any]:
    """Run once more, and return what the engine did for a step: dispatches, submissions, bind-group hits, host time."""
    run()
    before, begin = stats(), time.perf_counter()
    run()
    wall = time.perf_counter() - begin
    delta = {k: v - before.get(k, 0) for k, v in stats().items()}
    found = delta.get("device_bind_group_hits", 0) + delta.get("device_bind_group_misses", 0)
    out: dict[str, Any] = {
        "kernels": delta["kernels_run"] // steps,
        "dispatches": delta.get("device_dispatches", 0) // steps,
        "submits": round(delta.get("device_submits", 0) / steps, 2),
        "run_us": round(delta["run_ns"] / steps / 1e3),
        "key_us": round(delta["key_ns"] / steps / 1e3),
        "wall_us": round(wall / steps * 1e6),
    }
    if found:
        out["group_hits"] = round(delta["device_bind_group_hits"] / found, 4)
    return out
