"""Operators of layers beside the same formulas written out, as exporters of ONNX files write them, in sessions.

``python benchmarks/written_out.py`` prints, for each piece and size, the times of the operator, of the formula without
the passes of sessions that find it, and with them: minima of calls in turns in one process, on one thread, in the
processor's time. The numbers of a formula are tensors, as in files of ONNX. A pass gains where the last column is below
the one before.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import cache
from typing import Any

os.environ.setdefault("TORCHLETTE_NUM_THREADS", "1")

import torchlette as tl  # noqa: E402
from torchlette.nn import functional as F  # noqa: E402
from torchlette.testing.holding import disabled  # noqa: E402

Piece = Callable[[Any], Any]
CHANNELS = 32
PASSES = "fold_numbers,find_norms,move_cats"


@cache
def number(v: float) -> Any:
    """Give a number as a tensor."""
    return tl.tensor(float(v))


def centred(x: Any, dims: Any) -> Any:
    """Normalize over dims: ReduceMean, Sub, Pow, ReduceMean, Add, Sqrt, Div."""
    d = x - x.mean(dims, keepdim=True)
    return d / tl.sqrt((d ** number(2)).mean(dims, keepdim=True) + number(1e-5))


def rotated(x: Any, half: Any, cos: Any, sin: Any) -> Any:
    """Turn pairs of elements: Slice, Neg, Concat, Mul, Add."""
    return x * cos + tl.cat((-x[..., half:], x[..., :half]), -1) * sin


def pieces(shape: tuple[int, int]) -> dict[str, tuple[Piece, Piece]]:
    """Give for each piece its operator and its formula, for inputs of this shape."""
    n = shape[1]
    w, b = tl.rand(n), tl.rand(n)
    channels, shift = tl.rand(CHANNELS), tl.rand(CHANNELS)
    picture = (1, CHANNELS, -1, n)
    per_channel = (1, CHANNELS, 1, 1)

    def grouped(x: Any) -> Any:
        y = centred(x.reshape(1, 8, -1), -1).reshape(picture)
        return y * channels.reshape(per_channel) + shift.reshape(per_channel)

    def instances(x: Any) -> Any:
        y = centred(x.reshape(picture), (2, 3))
        return y * channels.reshape(per_channel) + shift.reshape(per_channel)

    return {
        "gelu, erf": (F.gelu, lambda x: x * (tl.erf(x / number(2**0.5)) + number(1)) * number(0.5)),
        "gelu, tanh": (
            lambda x: F.gelu(x, approximate="tanh"),
            lambda x: (
                x * number(0.5) * (tl.tanh((x + x ** number(3) * number(0.044715)) * number(0.7978845608)) + number(1))
            ),
        ),
        "layer norm": (lambda x: F.layer_norm(x, (n,), w, b), lambda x: centred(x, -1) * w + b),
        "RMS norm": (
            lambda x: F.rms_norm(x, (n,), w, 1e-5),
            lambda x: x / tl.sqrt((x ** number(2)).mean(-1, keepdim=True) + number(1e-5)) * w,
        ),
        "group norm": (lambda x: F.group_norm(x.reshape(picture), 8, channels, shift), grouped),
        "instance norm": (
            lambda x: F.instance_norm(x.reshape(picture), weight=channels, bias=shift),
            instances,
        ),
    }


def session(f: Piece, x: Any) -> Callable[[], Any]:
    """Return a run of a session of f with bound arrays."""
    s = tl.InferenceSession(
        tl.export.from_callable(f, [tl.export.InputSpec("x", x.dtype, list(x.shape))], ["y"]), threads=1
    )
    binding = s.io_binding()
    binding.bind_input("x", x.numpy())
    run = s.run_with_iobinding
    run(binding)
    return lambda: run(binding)


def times(*runs: Callable[[], Any], turns: int = 40) -> list[float]:
    """Return the least times of all in microseconds, calls of each in turns."""
    best = [1e9] * len(runs)
    for _ in range(turns):
        for k, f in enumerate(runs):
            start = time.process_time_ns()
            for _ in range(8):
                f()
            best[k] = min(best[k], (time.process_time_ns() - start) / 8e3)
    return best


def main() -> None:
    """Print the table."""
    print(f"{'piece':16}{'input':>12}{'operator, us':>14}{'without, us':>13}{'with, us':>10}")
    for shape in ((64, 768), (1024, 768)):
        x = tl.randn(*shape)
        for name, (operator, formula) in pieces(shape).items():
            tl.testing.assert_close(operator(x), formula(x), rtol=1e-4, atol=1e-4)
            with disabled(PASSES):
                without = session(formula, x)
            row = times(session(operator, x), without, session(formula, x))
            print(f"{name:16}{shape[0]:>7} x {shape[1]}" + "".join(f"{t:12.1f}" for t in row))
        angle, heads = tl.rand(shape[0], 64), tl.randn(12, shape[0], 64)
        cos, sin = angle.cos(), angle.sin()
        turn = lambda x, c=cos, s=sin: rotated(x, 32, c, s)  # noqa: E731
        with disabled(PASSES):
            without = session(turn, heads)
        row = times(without, session(turn, heads))
        print(f"{'rotary':16}{f'12 x {shape[0]} x 64':>14}{'':12}" + "".join(f"{t:12.1f}" for t in row))


if __name__ == "__main__":
    main()
