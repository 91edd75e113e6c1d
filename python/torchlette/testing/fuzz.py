"""Random programs, compared across devices: ``python -m torchlette.testing.fuzz --programs 1000 --devices cpu,wgpu``.

Every program of :mod:`torchlette.testing.programs` runs on each named device, under PyTorch where it is
installed, and with ``--interpreter`` through the kernel interpreter. Values, shapes, gradients and error classes must
agree; uniform and integer draws must agree bit for bit among torchlette's devices. A failing program is shrunk.

With ``--transforms N``, N compositions of :mod:`torchlette.testing.transforms` run on the CPU and under PyTorch.

With ``--hold`` the models of :mod:`torchlette.testing.holding` run instead: whether an intermediate is held, dropped or
read early, must not change a bit, in any float dtype, on each named device. Models without halves are compiled, too.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import math
import os
import subprocess
import sys
from collections.abc import Callable, Iterator

import torchlette
import torchlette.torch
from torchlette.testing import holding, transforms
from torchlette.testing.programs import Outcome, Program, Step, generate, run

__all__ = ["difference", "main", "mismatch", "shrink"]

#: assert_close's defaults for float32, times 4: a program chains a dozen roundings.
RTOL, ATOL = 4 * 1.3e-6, 4 * 1e-5


def _far(a: float, b: float, scale: float) -> bool:
    if math.isnan(a) or math.isnan(b):
        return math.isnan(a) != math.isnan(b)
    if math.isinf(a) or math.isinf(b):
        return a != b
    # Relative to the largest element: sums of large terms leave errors of their size.
    return abs(a - b) > ATOL + RTOL * max(abs(b), scale)


def _lists_differ(a: list[float], b: list[float]) -> bool:
    finite = [abs(x) for x in b if math.isfinite(x)]
    scale = max(finite, default=0.0)
    return len(a) != len(b) or any(_far(x, y, scale) for x, y in zip(a, b, strict=True))


def difference(a: Outcome, b: Outcome) -> str:
    """Return how two outcomes differ, "" when they do not."""
    if a.errors != b.errors:
        return f"errors {a.errors} against {b.errors}"
    if a.shapes != b.shapes:
        return f"shapes {a.shapes} against {b.shapes}"
    if a.gradients.keys() != b.gradients.keys():
        return f"leaves that require grad: {sorted(a.gradients)} against {sorted(b.gradients)}"
    for r, want in b.values.items():
        if _lists_differ(a.values[r], want):
            return f"r{r}: {a.values[r]} against {want}"
    for r, grad in b.gradients.items():
        got = a.gradients[r]
        if (got is None) != (grad is None) or (got is not None and grad is not None and _lists_differ(got, grad)):
            return f"gradient of r{r}: {got} against {grad}"
    return ""


def _wild(outcome: Outcome) -> bool:
    """Return whether values are so large that rounding dominates; such programs are skipped."""
    every = [*outcome.values.values(), *(g for g in outcome.gradients.values() if g)]
    return any(not math.isfinite(x) or abs(x) > 1e6 for v in every for x in v)


class _Interpreter:
    """A child process whose CPU device is the kernel interpreter; programs go in and outcomes come out as lines."""

    def __init__(self) -> None:
        self.child = subprocess.Popen(
            [sys.executable, "-m", "torchlette.testing.fuzz", "--serve"],
            env={**os.environ, "TORCHLETTE_CPU": "interpreter"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __call__(self, program: Program) -> Outcome:
        stdin, stdout = self.child.stdin, self.child.stdout
        assert stdin is not None and stdout is not None
        print(repr(program), file=stdin, flush=True)
        return eval(stdout.readline(), {"Outcome": Outcome, "nan": math.nan, "inf": math.inf})  # our own repr


def _serve() -> int:
    """Run the programs of standard input and print each outcome."""
    for line in sys.stdin:
        program = eval(line, {"Program": Program, "Step": Step})  # our own repr
        print(repr(run(torchlette, program, "cpu")), flush=True)
    return 0


def runners(devices: list[str], interpreter: bool, oracle: bool) -> dict[str, Callable[[Program], Outcome]]:
    """Return the ways to run a program besides the first device, by name."""
    out: dict[str, Callable[[Program], Outcome]] = {}
    for d in devices[1:]:
        out[d] = lambda p, d=d: run(torchlette, p, d)
    # A second run replays the plans of the first; the results must be equal.
    out["replayed"] = lambda p: run(torchlette, p, devices[0])
    if interpreter:
        out["interpreter"] = _Interpreter()
    if oracle and importlib.util.find_spec("torch"):
        import torch

        out["torch"] = lambda p: run(torch, p, "cpu", draws=run(torchlette, p, devices[0]).draws)
    return out


def _forgive_dead_history(program: Program, torch: Outcome, ours: Outcome) -> None:
    """Align the differences caused by PyTorch walking, with zero gradients, the history that a copy_ overwrote.

    PyTorch raises if it finds modified saved tensors there, or gives leaves gradients of zero. torchlette drops that
    history.
    """
    if not any(s.name == "copy_" for s in program.steps):
        return
    only = {i: e for i, e in torch.errors.items() if i not in ours.errors}
    if only == {len(program.steps): "RuntimeError"}:
        torch.errors, torch.gradients = ours.errors, ours.gradients
    for r, grad in ours.gradients.items():
        if grad is None and not any(torch.gradients.get(r) or ()):
            torch.gradients[r] = None


def mismatch(program: Program, first: str, others: dict[str, Callable[[Program], Outcome]]) -> str:
    """Return the first disagreement about a program, "" when all agree."""
    base = run(torchlette, program, first)
    if _wild(base):
        return ""
    for name, other in others.items():
        got = other(program)
        # Normals pass through each device's own log and cosine; uniforms and integers are exact.
        exact = [s.target for s in program.steps if s.kind == "draw" and s.name != "randn"]
        if name != "torch" and any(got.draws.get(r) != base.draws.get(r) for r in exact):
            return f"{name}: draws differ in bits"
        if name == "torch":
            _forgive_dead_history(program, got, base)
        if why := difference(got, base):
            return f"{name} against {first}: {why}"
    return ""


def shrink(program: Program, fails: Callable[[Program], bool]) -> Program:
    """Drop steps one by one for as long as the program still fails."""

    def smaller() -> Iterator[Program]:
        for i in reversed(range(len(program.steps))):
            yield program.without(i)

    while True:
        for candidate in smaller():
            if len(candidate.steps) < len(program.steps) and fails(candidate):
                program = candidate
                break
        else:
            return program


def _shrink_model(model: holding.Model, device: str) -> holding.Model:
    """Drop layers one by one for as long as bits still differ."""
    i = len(model.layers)
    while i > 0 and len(model.layers) > 1:
        i = min(i, len(model.layers)) - 1
        gone = model.layers[i]
        if gone.name == "resize" and any(gone.target in layer.sources for layer in model.layers):
            continue  # its readers need that width
        if holding.difference(model.without(i), device):
            model, i = model.without(i), len(model.layers)
    return model


def _search_held(devices: list[str], programs: int, seed: int, length: int) -> int:
    """Run random models of every dtype under policies of holding; return the exit status."""
    print(f"{programs} models of each dtype, held and dropped, on {', '.join(devices)}")
    failures = 0
    for i, device in itertools.product(range(programs), devices):
        for dtype in holding.DTYPES[: 4 if device == "cpu" else 3]:  # float64 is the CPU's
            model = holding.generate(seed * 1_000_003 + i, dtype, length)
            if failures < 10 and holding.difference(model, device):
                failures += 1
                small = _shrink_model(model, device)
                print(f"MISMATCH {holding.difference(small, device)} on {device}\n{small}", flush=True)
    print(f"{failures} mismatches")
    return 1 if failures else 0


def _search_transforms(count: int, seed: int) -> int:
    """Compare random compositions of transforms with PyTorch's; return the exit status."""
    import torch

    failures = refused = 0
    for i in range(count):
        composition = transforms.generate(seed * 1_000_003 + i)
        try:
            want = transforms.evaluate(torch, composition)
        except Exception:  # PyTorch lacks a rule
            refused += 1
            continue
        scale = max(1.0, *map(abs, want))
        try:
            got = transforms.evaluate(torchlette.torch, composition)
            near = all(abs(a - b) <= 1e-7 * scale for a, b in zip(got, want, strict=True))
            why = "" if near else f"{got}, not {want}"
        except Exception as error:
            why = repr(error)
        if why and all(map(math.isfinite, want)):
            failures += 1
            print(f"MISMATCH of {composition}\n{why}", flush=True)
    print(f"{count} compositions, {refused} refused by PyTorch")
    print(f"{failures} mismatches")
    return 1 if failures else 0


def main(arguments: list[str] | None = None) -> int:
    """Run the command; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m torchlette.testing.fuzz", description=__doc__)
    parser.add_argument("--programs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--length", type=int, default=14)
    parser.add_argument("--devices", default="cpu")
    parser.add_argument("--interpreter", action="store_true", help="also run through the kernel interpreter")
    parser.add_argument("--no-torch", action="store_true")
    parser.add_argument("--hold", action="store_true", help="hold or drop intermediates: no bit may change")
    parser.add_argument("--transforms", type=int, default=0, metavar="N", help="compare N compositions of transforms")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.serve:
        return _serve()
    if options.transforms:
        return _search_transforms(options.transforms, options.seed)
    devices = options.devices.split(",")
    if options.hold:
        return _search_held(devices, options.programs, options.seed, options.length)
    others = runners(devices, options.interpreter, not options.no_torch)
    print(f"{options.programs} programs on {devices[0]} against {', '.join(others)}")
    failures = errors = 0
    for i in range(options.programs):
        program = generate(options.seed * 1_000_003 + i, options.length)
        errors += len(run(torchlette, program, devices[0]).errors)
        if mismatch(program, devices[0], others):
            failures += 1
            small = shrink(program, lambda p: bool(mismatch(p, devices[0], others)))
            print(f"MISMATCH {mismatch(small, devices[0], others)}\n{small}", flush=True)
            if failures >= 10:
                break
    print(f"{errors} steps raised")
    print(f"{failures} mismatches")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
