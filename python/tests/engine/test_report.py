"""``python -m torchlette`` names every device with its driver, limits and features."""

from __future__ import annotations

import json
import subprocess
import sys

import torchlette


def run(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "torchlette", *arguments], capture_output=True, text=True, timeout=120, check=True
    )
    return done.stdout


def test_the_report_names_devices_with_driver_limits_and_features() -> None:
    text = run()
    assert f"torchlette {torchlette.__version__}" in text
    gpu = text[text.index("wgpu:0:") :]
    for word in ("driver", "features", "limits", "maxStorageBufferBindingSize"):
        assert word in gpu, text


def test_the_report_as_json_has_every_limit() -> None:
    devices = {d["Name"]: d for d in json.loads(run("--json"))}
    assert devices["cpu"]["Features"]
    assert devices["wgpu:0"]["Limits"]["maxComputeWorkgroupStorageSize"] >= 16384
