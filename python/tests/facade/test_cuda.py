"""``torch.cuda`` names the GPU that there is. The checks run in processes with other environments."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from cuda_program import CHECKS

PROGRAM = Path(__file__).with_name("cuda_program.py")
GPU = pytest.mark.parametrize("device", ["wgpu"], indirect=True)
_errors: dict[str, str] = {}


def child(*args: str, **environment: str) -> str:
    """Run Python with the software adapter and more variables; return what it prints."""
    env = {**os.environ, "TORCHLETTE_ADAPTER": "software", "TORCHLETTE_DEVICE": "", **environment}
    done = subprocess.run([sys.executable, *args], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def errors(device: str) -> dict[str, str]:
    """Return the errors of all checks, which run in one process."""
    if not _errors:
        _errors.update(json.loads(child(str(PROGRAM), TORCHLETTE_CUDA="software").splitlines()[-1]))
    return _errors


@GPU
@pytest.mark.parametrize("name", [check.__name__ for check in CHECKS])
def test_cuda(errors: dict[str, str], name: str) -> None:
    """Each check holds where the software adapter counts as a GPU."""
    assert errors[name] == "", errors[name]


@pytest.mark.parametrize("value", ["", "0"])
def test_software_adapters_do_not_count(value: str) -> None:
    """Only TORCHLETTE_CUDA=software counts them; 0 switches cuda off."""
    text = "import torchlette.torch as t; print(t.cuda.is_available(), t.cuda.device_count(), t.zeros(1).device)"
    adapter = "software" if value == "" else os.environ.get("TORCHLETTE_ADAPTER", "software")
    assert child("-c", text, TORCHLETTE_CUDA=value, TORCHLETTE_ADAPTER=adapter).split() == ["False", "0", "cpu"]


@GPU
def test_the_environment_names_the_default_device(device: str) -> None:
    """TORCHLETTE_DEVICE holds under both names of the library."""
    text = (
        "import torchlette, torchlette.torch as torch\n"
        "print(torchlette.zeros(1).device, torch.zeros(1).device, torch.get_default_device())\n"
        "with torch.device('cpu'): print(torch.zeros(1).device)"
    )
    assert child("-c", text, TORCHLETTE_DEVICE="wgpu").split() == ["wgpu:0", "wgpu:0", "wgpu:0", "cpu"]
