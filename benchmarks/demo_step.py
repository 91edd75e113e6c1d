"""One training step of the demo's GPT on the CPU: forward, backward, clipping, AdamW, schedule."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from measure import Row, main, race

import torchlette

sys.path.insert(0, str(Path(__file__).parent.parent / "demo"))
import train as demo

VOCABULARY = 90
#: Steps between reads of the loss, as in the demo.
EVERY = 10


def stepper(library: str, device: str, **sizes: Any) -> Callable[[], float]:
    """Return a function that trains ``EVERY`` steps and reads the loss."""
    gpt = demo.load_gpt(library)
    lib = torchlette if library == "torchlette" else torch
    lib.manual_seed(0)
    config = gpt.Config(vocabulary=VOCABULARY, **sizes)
    model = gpt.GPT(config).to(device)
    optimizer = gpt.make_optimizer(model, config)
    schedule = gpt.make_schedule(optimizer, config)
    x = lib.randint(0, VOCABULARY, (config.batch, config.context)).to(device)
    y = lib.randint(0, VOCABULARY, (config.batch, config.context)).to(device)

    def steps() -> float:
        for _ in range(EVERY):
            optimizer.zero_grad()
            loss = gpt.loss_of(model, x, y)
            loss.backward()
            gpt.nn.utils.clip_grad_norm_(model.parameters(), config.clip)
            optimizer.step()
            schedule.step()
        return loss.item()

    return steps


def rows() -> Iterator[Row]:
    """Measure the demo's own size, with and without dropout."""
    for dropout in (0.1, 0.0):
        ours, theirs = race(
            stepper("torchlette", "cpu", dropout=dropout), stepper("torch", "cpu", dropout=dropout), rounds=5, warm=1
        )
        yield Row(f"demo step, CPU, dropout {dropout}", ours / EVERY, theirs / EVERY)


if __name__ == "__main__":
    main("demo_step", rows)
