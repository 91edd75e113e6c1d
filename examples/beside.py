"""Runs an example under torchlette and under PyTorch, by changing its imports, and prints both last lines and times.

python examples/beside.py fashion_cnn --train 6000
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent


def run(name: str, lib: str, arguments: list[str]) -> tuple[str, float]:
    """Return the last line that the example prints under a library, and the seconds it took."""
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
    return done.stdout.strip().splitlines()[-1], time.perf_counter() - begin


def main() -> None:
    """Run the named example under both libraries."""
    names = sorted(
        p.stem for p in HERE.glob("*.py") if p != Path(__file__).resolve() and "beside PyTorch:" in p.read_text()
    )
    if len(sys.argv) < 2 or sys.argv[1] not in names:
        raise SystemExit(
            f"usage: python examples/beside.py NAME [options of the example]; the names are {', '.join(names)}"
        )
    for lib in ("torchlette", "torch"):
        line, seconds = run(sys.argv[1], lib, sys.argv[2:])
        print(f"{lib:11} {line}  ({seconds:.1f} s with start-up)")


if __name__ == "__main__":
    main()
