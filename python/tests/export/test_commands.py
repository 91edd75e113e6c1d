"""python -m torchlette run and show."""

import sys

import numpy as np
import pytest

import torchlette as tl
from torchlette import __main__, nn
from torchlette.export import Dim, export, export_training, save


def files(tmp_path, monkeypatch):
    """Write programs and arrays to the working folder; return the module of the first one."""
    monkeypatch.chdir(tmp_path)
    m = nn.Linear(4, 2)
    save(export(m, (tl.zeros(2, 4),), dynamic_shapes=({0: Dim("n")},)), "one")
    save(export(lambda a, b: {"sum": a + b, "product": a * b}, (tl.zeros(3), tl.zeros(3))), "two")
    save(export_training(m, lambda m, x: m(x).sum(), tl.optim.SGD(m.parameters()), (tl.zeros(2, 4),)), "train")
    np.save("x.npy", np.ones((3, 4), np.float32))
    np.save("y.npy", np.arange(3, dtype=np.float32))
    return m


def command(monkeypatch, *words):
    monkeypatch.setattr(sys, "argv", ["torchlette", *words])
    __main__.main()


def test_run_writes_the_outputs(tmp_path, monkeypatch, capsys):
    folder = files(tmp_path, monkeypatch)
    command(monkeypatch, "run", "one", "--input", "input=x.npy", "--output", "o.npy")
    np.testing.assert_array_equal(np.load("o.npy"), folder(tl.ones(3, 4)).detach().numpy())
    command(monkeypatch, "run", "two", "--input", "a=y.npy", "--input", "b=y.npy", "--output", "o.npz")
    with np.load("o.npz") as found:
        assert {k: v.tolist() for k, v in found.items()} == {"output_sum": [0, 2, 4], "output_product": [0, 1, 4]}
    command(monkeypatch, "run", "two", "--input", "a=y.npy", "--input", "b=y.npy")
    assert "output_sum: float32 [3]" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["run", "one"], "missing: .'input'."),
        (["run", "one", "--input", "input"], "want NAME=FILE.npy"),
        (["run", "one", "--input", "input=y.npy"], "want 2 dims"),
        (["run", "one", "--input", "input=no.npy"], "no.npy"),
        (["run", "no", "--input", "input=x.npy"], "no"),
        (["run", "two", "--input", "a=y.npy", "--input", "b=y.npy", "--output", "o.npy"], "takes one output"),
        (["run", "one", "--input", "input=x.npy", "--output", "o.txt"], "want a .npy or .npz"),
    ],
)
def test_errors_end_the_command_with_a_line(tmp_path, monkeypatch, words, text):
    files(tmp_path, monkeypatch)
    with pytest.raises(SystemExit, match=text):
        command(monkeypatch, *words)


def test_show_describes_programs(tmp_path, monkeypatch, capsys):
    files(tmp_path, monkeypatch)
    command(monkeypatch, "show", "one", "--html", "page.html")
    text = capsys.readouterr().out
    for part in (
        "inference program",
        "dim n: from 0",
        "input: float32[n, 4]",
        "1 linear",
        "parameters: 2, 40 B",
        "memory",
    ):
        assert part in text
    with open("page.html") as f:
        assert "<html" in f.read().lower()
    command(monkeypatch, "show", "train")
    text = capsys.readouterr().out
    assert "training program" in text
    assert "engine.backward" in text
