"""The examples run, on both devices where they are small, and learn."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import torchlette

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
FASHION = Path(os.environ.get("FASHION_MNIST", "/usr/share/datasets/fashion-mnist"))
needs_pictures = pytest.mark.skipif(not FASHION.is_dir(), reason="Debian's dataset-fashion-mnist is not installed")


def last_number(name: str, *arguments: str) -> float:
    """Run an example; return the first number of its last line."""
    package = str(Path(torchlette.__file__).resolve().parents[1])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([package, os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / f"{name}.py"), *arguments],
        capture_output=True,
        text=True,
        env=environment,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = re.search(r"-?\d+(\.\d+)?", done.stdout.strip().splitlines()[-1])
    assert found is not None, done.stdout
    return float(found[0])


def test_graph_net_finds_both_sides_of_the_club(device: str) -> None:
    assert last_number("karate_gnn", "--device", device, "--steps", "100") >= 30


def test_compiled_examples_have_the_lines_of_plain_ones() -> None:
    assert last_number("karate_gnn", "--steps", "20", "--compile", "inductor") == last_number(
        "karate_gnn", "--steps", "20"
    )


def test_physics_informed_net_solves_poissons_equation() -> None:
    assert last_number("pinn", "--steps", "300", "--points", "64") < 0.05


def test_physics_informed_net_runs_on_a_gpu() -> None:
    assert last_number("pinn", "--steps", "3", "--points", "8", "--device", "wgpu") < 5


def test_character_lstm_learns() -> None:
    assert last_number("lstm_text", "--steps", "40", "--width", "48") < 4.6


@pytest.mark.parametrize(
    ("name", "least", "most"),
    [("selective_scan", 0.0, 0.06), ("kalman", 0.05, 0.7), ("hmc", 0.7, 1.3), ("ode", 0.0, 0.05), ("beam", -0.5, 1e-4)],
)
def test_loops_find_their_results(name: str, least: float, most: float) -> None:
    assert least <= last_number("loops", name) <= most


@needs_pictures
def test_convolutional_net_tells_clothes_apart() -> None:
    assert last_number("fashion_cnn", "--train", "2000", "--test", "500") > 0.6


@needs_pictures
def test_autoencoder_lowers_its_bound() -> None:
    assert last_number("vae", "--train", "1280", "--epochs", "2") < 420


@needs_pictures
def test_u_net_finds_noise() -> None:
    assert last_number("unet_denoiser", "--steps", "20", "--batch", "16", "--train", "500") < 0.6


def test_a_random_language_model_generates() -> None:
    """The last line is the text of four beams."""
    assert last_number("generate", "--tokens", "6") == 4


@pytest.mark.parametrize("lib", ["torchlette", "torch"])
def test_an_exported_net_runs_without_pytorch_and_from_c(lib: str) -> None:
    """The last line begins with how far the results are from the sine."""
    assert last_number("export_and_run", "--lib", lib, "--steps", "200") < 0.2
