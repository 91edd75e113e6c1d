"""Runs an example under torchlette and under PyTorch, by changing its imports, and prints their lines and times.

python examples/beside.py fashion_cnn --train 6000
python examples/beside.py all --compile eager
"""

from __future__ import annotations

import itertools
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent


def run(name: str, lib: str, arguments: list[str]) -> tuple[list[str], float]:
    """Return the lines that the example prints under a library, and the seconds it took."""
    source = (HERE / f"{name}.py").read_text()
    if lib == "torch":
        source = source.replace("torchlette.torch", "torch")
    with tempfile.NamedTemporaryFile("w", suffix=f"_{name}.py", delete=False) as file:
        file.write(source)
    code = (
        f"import runpy, sys; sys.path.insert(0, {str(HERE)!r}); sys.argv = {[name, *arguments]!r}; "
        f"runpy.run_path({file.name!r}, run_name='__main__')"
    )
    begin = time.perf_counter()
    try:
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    finally:
        Path(file.name).unlink()
    if done.returncode:
        raise SystemExit(f"{name} under {lib}:\n{done.stdout}{done.stderr}")
    return done.stdout.strip().splitlines(), time.perf_counter() - begin


def main() -> None:
    """Run the named example, or all, under both libraries."""
    names = sorted(
        p.stem for p in HERE.glob("*.py") if p != Path(__file__).resolve() and "beside PyTorch:" in p.read_text()
    )
    chosen = sys.argv[1] if len(sys.argv) > 1 else ""
    if chosen not in (*names, "all"):
        raise SystemExit(
            f"usage: python examples/beside.py NAME [options of the example]; the names are {', '.join(names)}, all"
        )
    for name in names if chosen == "all" else [chosen]:
        ours, theirs = (run(name, lib, sys.argv[2:]) for lib in ("torchlette", "torch"))
        for pair in itertools.zip_longest(ours[0], theirs[0], fillvalue=""):
            for lib, line in zip(("torchlette", "torch"), pair, strict=True):
                print(f"{name:14}{lib:11} {line}")
        print(f"{name:14}torchlette {ours[1]:.1f} s, torch {theirs[1]:.1f} s, with start-up", flush=True)


if __name__ == "__main__":
    main()
