"""TORCHLETTE_CPU: the CPU device gives the same results with the instruction set that it names."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

PROGRAM = """
import torchlette as t
from torchlette import _C
x = t.linspace(-2, 2, 96).reshape(8, 12)
print(_C._info("devices"))
print(((x @ x.T).tanh() + x.exp().sum(1)).sum().item())
"""


def run(isa: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "TORCHLETTE_CPU": isa, "TORCHLETTE_DEVICE": "cpu"}
    return subprocess.run([sys.executable, "-c", PROGRAM], env=env, capture_output=True, text=True, check=False)


def test_each_instruction_set_of_the_processor() -> None:
    results = {isa: run(isa) for isa in ("", "interpreter", "plain", "neon", "avx2", "avx512", "avx512_bf16", "amx")}
    found = {isa: float(r.stdout.split()[-1]) for isa, r in results.items() if r.returncode == 0}
    assert {"", "interpreter"} < set(found)
    assert found == {isa: pytest.approx(found[""], rel=1e-5) for isa in found}
    for isa in set(found) - {"", "interpreter"}:
        assert isa in results[isa].stdout.split("\n")[0]
    for isa in set(results) - set(found):
        assert f'instruction set: got "{isa}", which this processor lacks' in results[isa].stderr
