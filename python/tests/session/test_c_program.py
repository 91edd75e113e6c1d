"""C programs run and train saved programs through ``torchlette.h`` and the library alone."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import torchlette as tl

ROOT = Path(__file__).parents[3]


def built(name: str, folder: Path) -> Path:
    """Build a program of capi/testdata."""
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None or os.name == "nt":
        pytest.skip("there is no C compiler")
    library = Path(tl.__file__).parent
    subprocess.run(
        [compiler, "-std=c11", "-Wall", "-Wextra", "-Werror", f"-I{ROOT / 'capi'}", "-o", folder / name]
        + [ROOT / f"capi/testdata/{name}.c", f"-L{library}", "-ltorchlette", "-lm", f"-Wl,-rpath,{library}"],
        check=True,
    )
    return folder / name


def test_a_c_program_trains_from_a_file_with_the_bits_of_a_training_session(tmp_path: Path) -> None:
    with tl.device("cpu"):
        model = tl.nn.Linear(2, 1)
        x, y = tl.tensor([[1.0, 0], [0, 1], [1, 1], [2, -1]]), tl.tensor([[2.0], [-3], [-1], [7]])
    optimizer = tl.optim.AdamW(model.parameters(), lr=0.1)
    program = tl.export.export_training(
        model, lambda model, x, y: tl.nn.functional.mse_loss(model(x), y), optimizer, (x, y)
    )
    tl.export.save(program, tmp_path / "train.tlp")
    run = [built("train_file", tmp_path), tmp_path / "train.tlp", tmp_path / "saved.tlp"]
    done = subprocess.run(run, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    session, losses = tl.TrainingSession(tmp_path / "train.tlp"), []
    for i in range(10):
        if i == 5:  # Python goes on from the file that C wrote
            session = tl.TrainingSession(tmp_path / "saved.tlp")
        losses.append(session.step(x, y).item())
    assert [np.float32(line) for line in done.stdout.split()] == [np.float32(loss) for loss in losses]
    assert losses[-1] < losses[0]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["saved.tlp", "train.tlp", "train_file"], "no file is left"


def test_a_c_program_runs_a_saved_program(tmp_path: Path) -> None:
    w = tl.tensor([[1.0, 2, 3], [4, 5, 6]], device="cpu")
    b = tl.tensor([10.0, 20], device="cpu")
    program = tl.export.from_callable(
        lambda x: tl.nn.functional.linear(x, w, b), [tl.export.InputSpec("x", tl.float32, ["n", 3])], ["y"]
    )
    tl.export.save(program, tmp_path / "affine.tlp")
    done = subprocess.run([built("infer", tmp_path), tmp_path / "affine.tlp"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "from C" in done.stdout


@pytest.mark.skipif(sys.platform != "linux", reason="reads the size of a process as Linux gives it")
def test_a_session_opened_from_c_does_not_copy_its_constants(tmp_path: Path) -> None:
    size, grown = 2048, {}
    for name, n in (("small", 4), ("big", size)):
        with tl.device("cpu"):
            program = tl.export.export(tl.nn.Linear(n, n, bias=False), (tl.zeros(1, n),))
        tl.export.save(program, tmp_path / name)
    run = [built("open_file", tmp_path), tmp_path / "small", tmp_path / "big"]
    for off in ("", "map_constants"):
        env = {**os.environ, "TORCHLETTE_DISABLE": off}
        grown[off] = int(subprocess.run(run, check=True, capture_output=True, text=True, env=env).stdout)
    assert grown["map_constants"] > 3 * size * size
    assert grown[""] < size * size
