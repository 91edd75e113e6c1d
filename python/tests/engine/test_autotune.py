"""Tiles of products are timed only when asked (``benchmark``, ``TORCHLETTE_AUTOTUNE``), kept, and found again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import torchlette
import torchlette.torch as facade

# Products of all layouts, a convolution and gradients on the GPU against the CPU; prints the device's counters.
PROGRAM = """
import json, sys
import torchlette
from torchlette.testing import assert_close

if "switch" in sys.argv:
    torchlette.backends.wgpu.benchmark = True
results = []
for device in ("cpu", "wgpu"):
    torchlette.manual_seed(0)
    a, b, w = (torchlette.rand(*s).to(device).requires_grad_() for s in ((60, 40), (40, 52), (16, 8, 3, 3)))
    image = torchlette.rand(2, 8, 9, 9).to(device)
    out = [a @ b, a.T @ a, b.T @ (b @ b.T), torchlette.nn.functional.conv2d(image, w, padding=1)]
    sum((t * t).sum() for t in out).backward()
    results.append([t.detach().cpu() for t in (*out, a.grad, b.grad, w.grad)])
assert_close(*results, rtol=1e-5, atol=1e-3)
stats = torchlette.stats()
print(json.dumps([torchlette.backends.wgpu.benchmark, stats["device_autotune_timed"], stats["device_autotune_found"]]))
"""


def run(cache: Path, *arguments: str, **environment: str) -> tuple[list[Any], str]:
    """Run the program with its cache in a folder; give what it printed and its standard error."""
    variables = {k: v for k, v in os.environ.items() if k != "TORCHLETTE_AUTOTUNE"}
    # Vulkan drivers complain about a missing runtime directory on standard error.
    variables.update(environment, TORCHLETTE_CACHE_DIR=str(cache), XDG_RUNTIME_DIR=str(cache))
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments], env=variables, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stderr


def tiles(cache: Path) -> list[str]:
    """List the classes that the file has choices for."""
    devices = json.loads((cache / "tiles.json").read_text())["devices"]
    return [name for classes in devices.values() for name in classes]


#: The classes of the program's products. ``b.T @ (...)`` and ``a.T @ a`` are one; so are the products of the backward
#: pass with those of the same layout. A product with an epilogue is in the class of the product alone, for both must
#: add in one order: whether the engine fuses what follows changes no bit. kernels/gpucode/gemm_trials_test.go says
#: what parts classes.
CLASSES = {
    "float32 nn 64x64x64",
    "float32 nt 64x64x64",
    "float32 tn 64x64x64",
    "float32 nn 16x192x96 batch 1 in 1 windows 3, 3 scalar b scalar c strided columns",
    "float32 nt 16x96x96 batch 2 in 2 windows 2, 3 scalar a scalar b strided",
}


@pytest.mark.parametrize("device", ["wgpu"], indirect=True)
def test_a_second_process_finds_the_tiles_that_the_first_timed(device: str, tmp_path: Path) -> None:
    """Values stay right, the choices are in the file, and a later process times nothing; a broken file is reported and
    replaced.
    """
    (on, timed, found), errors = run(tmp_path, TORCHLETTE_AUTOTUNE="1")
    assert (on, found, errors) == (True, 0, "")
    classes = tiles(tmp_path)
    assert (timed, set(classes)) == (len(CLASSES), CLASSES)
    assert run(tmp_path, "switch") == ([True, 0, timed], "")
    (tmp_path / "tiles.json").write_text("{")
    (on, again, found), errors = run(tmp_path, TORCHLETTE_AUTOTUNE="1")
    assert (again, found) == (timed, 0)
    assert str(tmp_path / "tiles.json") in errors
    assert sorted(tiles(tmp_path)) == sorted(classes)


@pytest.mark.parametrize("device", ["wgpu"], indirect=True)
def test_nothing_is_timed_or_written_unless_asked(device: str, tmp_path: Path) -> None:
    """Off is the default."""
    assert run(tmp_path) == ([False, 0, 0], "")
    assert not (tmp_path / "tiles.json").exists()


def test_the_switch_is_a_bool() -> None:
    """It returns the value that was set, in both namespaces, and accepts only bools."""
    switch = torchlette.backends.wgpu
    before = switch.benchmark
    try:
        for value in (True, False):
            switch.benchmark = value
            assert switch.benchmark is value
            assert facade.backends.wgpu.benchmark is value
        with pytest.raises(TypeError, match="got int, want bool"):
            switch.benchmark = 1
    finally:
        switch.benchmark = before
