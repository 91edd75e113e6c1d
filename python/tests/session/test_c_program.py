"""A C program runs a saved program through ``torchlette.h`` and the library alone."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

import torchlette as tl

ROOT = Path(__file__).parents[3]


def test_a_c_program_runs_a_saved_program(tmp_path: Path) -> None:
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None or os.name == "nt":
        pytest.skip("there is no C compiler")
    w = tl.tensor([[1.0, 2, 3], [4, 5, 6]], device="cpu")
    b = tl.tensor([10.0, 20], device="cpu")
    program = tl.export.from_callable(
        lambda x: tl.nn.functional.linear(x, w, b), [tl.export.InputSpec("x", tl.float32, ["n", 3])], ["y"]
    )
    tl.export.save(program, tmp_path / "affine.tlp")
    library = Path(tl.__file__).parent
    subprocess.run(
        [compiler, "-std=c11", "-Wall", "-Wextra", "-Werror", f"-I{ROOT / 'capi'}", "-o", tmp_path / "infer"]
        + [ROOT / "capi/testdata/infer.c", f"-L{library}", "-ltorchlette", "-lm", f"-Wl,-rpath,{library}"],
        check=True,
    )
    done = subprocess.run([tmp_path / "infer", tmp_path / "affine.tlp"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "from C" in done.stdout
