"""Type checkers and editors see the names that the package makes when it runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import torchlette

ROOT = Path(__file__).resolve().parents[3]
PACKAGE = Path(torchlette.__file__).parent

PROGRAM = """
import torchlette
import torchlette.torch as torch

layer = torchlette.nn.Linear(1, 1)
x: torchlette.Tensor = torchlette.randn(2)
y = torchlette.tensor([1.0], dtype=torchlette.float32)
z = torch.nn.functional.relu(torch.zeros(2, 3))
optimizer = torchlette.optim.Adam(layer.parameters(), lr=0.1)
torchlette.optim.lr_scheduler.StepLR(optimizer, 1)
torchlette.func.grad(lambda t: t.sum())(x)
torchlette.nn.MaxPool2d(2)(torchlette.linalg.inv(z))
torchlette.special.gammaln(x)
torchlette.hub.load
torchlette.OutOfMemoryError
torch.cuda.is_available()
"""


def test_stubs_are_what_the_script_writes() -> None:
    subprocess.run([sys.executable, str(ROOT / "ci" / "make_stubs.py"), "--check"], check=True, timeout=120)


def test_mypy_knows_the_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    api = pytest.importorskip("mypy.api")
    if PACKAGE.parent.name != "site-packages":  # mypy refuses site-packages as a path: it looks there by itself
        monkeypatch.setenv("MYPYPATH", str(PACKAGE.parent))
    file = tmp_path / "program.py"
    options = ["--cache-dir", str(tmp_path / "cache"), "--follow-imports=silent"]
    file.write_text(PROGRAM)
    out, _, status = api.run([*options, str(file)])
    assert status == 0, out
    file.write_text("import torchlette\ntorchlette.no_such_name\ntorchlette.nn.Linaer(1, 1)\n")
    out, _, status = api.run([*options, str(file)])
    assert status == 1 and out.count("[attr-defined]") == 2, out
