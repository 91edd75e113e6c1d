"""Training steps and small work on the CPU, 2 threads: against PyTorch eager with its fused AdamW, and with
``torch.compile``.

The column ``busy`` is the ratio while a spinning process keeps the other core busy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import demo_step
from measure import Row, main, other_core_busy, race
from steps import DISTIL, gpt2_steps, library, lstm_steps, models

import torchlette

OPS = 100
CHAIN = 1000


def mlp_steps(name: str) -> Callable[[], float]:
    """Return a function that makes 20 steps of a 16-wide net of three layers."""
    lib, gpt2 = library(name), models(name)
    lib.manual_seed(0)
    net = gpt2.mlp(16, 3)
    return gpt2.fit(lib.compile(net) if name == "compile" else net, lib.randn(8, 16), lib.randn(8, 16), 20)


def linear_calls(name: str) -> Callable[[], Any]:
    """Return a function that calls ``nn.Linear(16, 16)`` 100 times, each time on the last result, and reads that."""
    lib = library(name)
    layer, x = lib.nn.Linear(16, 16), lib.randn(4, 16)

    def run() -> list[Any]:
        y = x
        with lib.no_grad():
            for _ in range(OPS):
                y = layer(y)
        return y.tolist()

    return run


def small_ops(name: str) -> Callable[[], Any]:
    """Return a function that makes 100 small ops forward and backward and reads the gradient."""
    lib = library(name)

    def run() -> list[float]:
        x = lib.ones(16, requires_grad=True)
        y = x
        for _ in range(OPS // 2):
            y = y * 0.99
            y = y + x
        y.sum().backward()
        return x.grad.tolist()

    return run


def chain(name: str) -> Callable[[], Any]:
    """Return a function that makes a chain of 1,000 small ops without gradients."""
    lib = library(name)
    x = lib.ones(16)

    def run() -> list[float]:
        y = x
        for _ in range(CHAIN // 2):
            y = y * 0.999
            y = y + x
        return y.tolist()

    return run


def against_compiled(
    ours: Callable[[], Any], make: Callable[[str], Callable[[], Any]], count: int, rounds: int
) -> dict[str, Any]:
    """Race a case with ``torch.compile``, or tell why that does not run here."""
    try:
        mine, theirs = race(ours, make("compile"), rounds=rounds)
    except Exception as e:  # whatever the compiler's chain of tools raises
        print(f"torch.compile does not run: {type(e).__name__}: {str(e).splitlines()[0]}")
        return {"compile": "none"}
    return {"compile": mine / theirs, "compile_s": theirs / count}


def compare(
    name: str, make: Callable[[str], Callable[[], Any]], count: int, rounds: int = 7, compiled: bool = False
) -> Row:
    """Race one case; ``count`` pieces of work a call."""
    ours, theirs = make("torchlette"), make("torch")
    mine, rival = race(ours, theirs, rounds=rounds)
    detail = against_compiled(ours, make, count, rounds) if compiled else {}
    with other_core_busy():
        busy, busy_rival = race(ours, theirs, rounds=rounds // 2 + 1, warm=1)
    detail |= {"busy": busy / busy_rival, "busy_ours_s": busy / count, "busy_torch_s": busy_rival / count}
    return Row(name, mine / count, rival / count, detail=detail)


def autocast_step() -> Row:
    """Race a step in bfloat16 under autocast; ``of_float32`` is our time to that of our float32."""
    half, full, theirs = (
        gpt2_steps(lib, "cpu", DISTIL, 1, 128, 2, autocast=autocast)
        for lib, autocast in (("torchlette", True), ("torchlette", False), ("torch", True))
    )
    mine, rival = race(half, theirs, rounds=3)
    again, float32 = race(half, full, rounds=3)
    return Row(
        "step, DistilGPT-2 shape, B1 T128, autocast to bfloat16",
        mine / 2,
        rival / 2,
        detail={"of_float32": again / float32},
    )


def rows() -> Iterator[Row]:
    """Measure every case."""
    torchlette.set_default_device("cpu")  # a GPU would be the default
    steps = demo_step.EVERY
    yield compare("one small op in a chain of 1,000", chain, CHAIN)
    yield compare("100 small ops, forward and backward", small_ops, OPS)
    yield compare("nn.Linear(16, 16) call", linear_calls, OPS)
    yield compare("16-wide net of three layers, step", mlp_steps, 20, compiled=True)
    yield compare(
        "step, GPT 4L128, B8 T64",
        lambda lib: gpt2_steps(lib, "cpu", (4, 4, 128), 8, 64, steps, vocabulary=90),
        steps,
        rounds=3,
        compiled=True,
    )
    yield compare("nn.LSTM(128, 256), B32 T100, step", lambda lib: lstm_steps(lib, "cpu", 2), 2)
    for length in (31, 128):
        yield compare(
            f"step, DistilGPT-2 shape, B1 T{length}",
            lambda lib, n=length: gpt2_steps(lib, "cpu", DISTIL, 1, n, 2),
            2,
            rounds=3,
            compiled=True,
        )
    yield autocast_step()


if __name__ == "__main__":
    main("cpu_steps", rows)
