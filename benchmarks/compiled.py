"""Compiled and captured functions: a small net's training step beside its plain form, PyTorch and ``torch.compile``;
elementwise chains of halves in a compiled region beside the plain ones; and the time to record ``grad`` of a captured
forward beside what a capture of it adds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from measure import Row, main, race

import torchlette

STEPS = 50
HALVES = 262_144


def steps(lib: Any, wrap: Callable[[Any], Any], width: int, batch: int) -> Callable[[], Any]:
    """Return a function that makes 50 steps of a net of three layers with SGD and momentum, and reads the loss."""
    lib.manual_seed(0)
    net = lib.nn.Sequential(
        lib.nn.Linear(width, width), lib.nn.Tanh(), lib.nn.Linear(width, width), lib.nn.Tanh(), lib.nn.Linear(width, 1)
    )
    opt = lib.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    x, y = lib.randn(batch, width), lib.randn(batch, 1)

    def step(x: Any, y: Any) -> Any:
        opt.zero_grad()
        loss = lib.nn.functional.mse_loss(net(x), y)
        loss.backward()
        opt.step()
        return loss.detach()

    step = wrap(step)

    def run() -> float:
        for _ in range(STEPS):
            loss = step(x, y)
        return loss.item()

    return run


def step_row(width: int, batch: int) -> Row:
    """Race the captured step against each of its rivals."""
    ours = steps(torchlette, torchlette.jit, width, batch)
    captured, eager = race(ours, steps(torch, lambda f: f, width, batch), rounds=15)
    mine, plain = race(ours, steps(torchlette, lambda f: f, width, batch), rounds=15)
    detail: dict[str, Any] = {"plain": mine / plain, "plain_s": plain / STEPS}
    try:
        mine, compiled = race(ours, steps(torch, torch.compile, width, batch), rounds=15)
        detail |= {"compile": mine / compiled, "compile_s": compiled / STEPS}
    except Exception as e:  # whatever the compiler's chain of tools raises
        print(f"torch.compile does not run: {type(e).__name__}: {str(e).splitlines()[0]}")
    return Row(f"step of a {width}-wide net, batch {batch}, jit", captured / STEPS, eager / STEPS, detail=detail)


def grad_row(name: str, make: Callable[[], Any], shape: tuple[int, ...]) -> Row:
    """Compare the time to record ``grad`` of a captured forward with what capturing it beside the forward adds."""
    torchlette.manual_seed(0)
    net, x = make(), torchlette.randn(*shape)
    weights = list(net.parameters())

    def loss(x: Any) -> Any:
        return net(x).square().mean()

    forward = torchlette.jit(loss)
    both = torchlette.jit(lambda x: (found := loss(x), *torchlette.autograd.grad(found, weights)))

    def recorded(call: Callable[[Any], Any], argument: Callable[[], Any]) -> float:
        times = []
        for _ in range(200):
            given = argument()
            start = time.perf_counter()
            found = call(given)
            times.append(time.perf_counter() - start)
            torchlette.realize(*(found if isinstance(found, tuple) else (found,)))
        return min(times[5:])

    walk = recorded(lambda found: torchlette.autograd.grad(found, weights), lambda: forward(x))
    added = recorded(both, lambda: x) - recorded(forward, lambda: x)
    return Row(f"record grad of {name}, its forward captured", walk, added)


def gelu(lib: Any, x: Any) -> Any:
    """Compute GELU by hand: eight operators."""
    return 0.5 * x * (1 + lib.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))


def half_row(dtype: str) -> Row:
    """Race the region against PyTorch, and against the same function outside of a region."""
    torchlette.manual_seed(0)
    x = torchlette.randn(HALVES).to(getattr(torchlette, dtype))
    theirs = torch.tensor(x.float().numpy()).to(getattr(torch, dtype))
    region = torchlette.compile(lambda x: gelu(torchlette, x))

    def timed(f: Callable[[Any], Any], x: Any) -> Callable[[], Any]:
        def run() -> None:
            for _ in range(20):
                f(x).view(-1)[0].item()

        return run

    ours = timed(region, x)
    mine, rival = race(ours, timed(lambda x: gelu(torch, x), theirs), rounds=9)
    again, plain = race(ours, timed(lambda x: gelu(torchlette, x), x), rounds=9)
    return Row(f"GELU by hand, {dtype}, in a region", mine / 20, rival / 20, detail={"plain": again / plain})


def rows() -> Iterator[Row]:
    """Measure every case."""
    torchlette.set_default_device("cpu")  # a GPU would be the default
    for width, batch in ((16, 8), (64, 32)):
        yield step_row(width, batch)
    for dtype in ("float16", "bfloat16"):
        yield half_row(dtype)
    nn = torchlette.nn
    yield grad_row(
        "a net of three layers",
        lambda: nn.Sequential(nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 1)),
        (8, 16),
    )
    yield grad_row(
        "a transformer layer", lambda: nn.TransformerEncoderLayer(32, 4, 64, 0.0, batch_first=True), (2, 8, 32)
    )


if __name__ == "__main__":
    main("compiled", rows)
