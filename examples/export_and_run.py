"""Train, export, and run where no PyTorch is: from Python, on the command line, and from C.

``--lib torch`` trains with PyTorch and saves a file of ``torch.export``; ``--lib torchlette`` trains with this library.
Then every module of PyTorch leaves the interpreter, and importing it raises. The C program is linked with the library
alone; it is left out where there is no C compiler.
"""

from __future__ import annotations

import argparse
import importlib
import math
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import torchlette
from torchlette.export import load, save

PROGRAM = r"""
#include "torchlette.h"
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) { /* file, name of the input, numbers: prints the results */
    float x[16];
    int n = argc - 3;
    for (int i = 0; i < n && i < 16; i++) x[i] = strtof(argv[i + 3], NULL);
    tl_session_value in = {.dtype = TL_FLOAT32, .rank = 2, .shape = {n, 1}, .data = x, .bytes = n * sizeof *x}, out;
    snprintf(in.name, sizeof in.name, "%s", argv[2]);
    uint64_t session;
    int32_t count;
    if (tl_session_open(argv[1], "cpu", 1, &session) || tl_session_run(session, &in, 1, &out, 1, &count)) {
        fprintf(stderr, "%s\n", tl_last_error()->message);
        return 1;
    }
    for (int i = 0; i < n; i++) printf("%.9g\n", ((float *)out.data)[i]);
    return tl_session_close(session);
}
"""


def train(lib: Any, steps: int) -> Any:
    """Teach a small net the sine from 0 to 2 pi."""
    lib.manual_seed(0)
    net = lib.nn.Sequential(lib.nn.Linear(1, 32), lib.nn.Tanh(), lib.nn.Linear(32, 32), lib.nn.Tanh())
    net.append(lib.nn.Linear(32, 1))
    x = lib.linspace(0, 2 * math.pi, 128).unsqueeze(1)
    optimizer = lib.optim.Adam(net.parameters(), lr=0.01)
    for _ in range(steps):
        optimizer.zero_grad()
        loss = (net(x) - x.sin()).square().mean()
        loss.backward()
        optimizer.step()
    print(f"loss after {steps} steps: {loss.item():.1e}")
    return net.eval()


def export(lib: Any, net: Any, path: Path) -> None:
    """Save a program that takes any number of rows."""
    exporting = importlib.import_module(f"{lib.__name__}.export")
    rows = exporting.Dim("rows", min=1, max=1024)
    program = exporting.export(net, (lib.zeros(4, 1),), dynamic_shapes=({0: rows},))
    exporting.save(program, str(path))


def forget_pytorch() -> None:
    """Make every import of PyTorch raise."""
    for name in [n for n in sys.modules if n.partition(".")[0] == "torch"]:
        del sys.modules[name]
    sys.modules["torch"] = None  # type: ignore[assignment]


def run_from_c(program: Path, name: str, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any] | None:
    """Compile the C program and run it; None where there is no compiler."""
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None or os.name == "nt":
        return None
    package, source = Path(torchlette.__file__).parent, program.with_suffix(".c")
    header = package if (package / "torchlette.h").exists() else Path(__file__).parents[1] / "capi"
    source.write_text(PROGRAM)
    binary = program.with_suffix("")
    link = [f"-L{package}", "-ltorchlette", f"-Wl,-rpath,{package}"]
    subprocess.run([compiler, f"-I{header}", "-o", str(binary), str(source), *link], check=True)
    done = subprocess.run([binary, program, name, *map(str, x.ravel())], check=True, capture_output=True, text=True)
    return np.array(done.stdout.split(), np.float32)[:, None]


def main() -> None:
    """Train, export, forget PyTorch, and compare three ways to run the file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lib", choices=("torch", "torchlette"), default="torchlette")
    parser.add_argument("--steps", type=int, default=500)
    args = parser.parse_args()

    with tempfile.TemporaryDirectory() as made, torchlette.device("cpu"):
        folder = Path(made)
        lib = importlib.import_module(args.lib)
        export(lib, train(lib, args.steps), folder / "trained.pt2")
        forget_pytorch()

        program = load(folder / "trained.pt2")
        save(program, folder / "sine.tlp")
        session = torchlette.InferenceSession(folder / "sine.tlp", threads=1)
        (port,) = session.get_inputs()
        print(f"input {port.name!r}, {port.type}, {port.shape}")
        x = np.array([[0.5], [1.5], [3.0], [5.0]], np.float32)
        (y,) = session.run(None, {port.name: x})
        print("from Python: ", *(f"{v:.4f}" for v in y.ravel()))

        np.save(folder / "x.npy", x)
        command = [sys.executable, "-m", "torchlette", "run", str(folder / "sine.tlp")]
        files = ["--input", f"{port.name}={folder / 'x.npy'}", "--output", str(folder / "y.npy")]
        subprocess.run([*command, *files], check=True)
        apart = float(abs(np.load(folder / "y.npy") - y).max())
        found = run_from_c(folder / "sine.tlp", port.name, x)
        if found is not None:
            print("from C:      ", *(f"{v:.4f}" for v in found.ravel()))
            apart = max(apart, float(abs(found - y).max()))
        print(f"{float(abs(y - np.sin(x)).max()):.4f} from the sine; the ways to run it differ by {apart:.1e}")


if __name__ == "__main__":
    main()
