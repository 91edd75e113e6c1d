"""Constants of a loaded program are over the pages of its file: nothing is copied, writes stay in memory."""

import json
import os
import subprocess
import sys
import zipfile

import numpy as np
import pytest

import torchlette as tl
from torchlette import nn
from torchlette.export import TrainingSession, export, export_training, load, save
from torchlette.io import mapped

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads the list of mappings of Linux")
N = 256


def in_file(t, path) -> bool:
    """Whether a tensor's first element is in a mapping of the file."""
    at = t.data_ptr()
    with open("/proc/self/maps") as maps:
        for line in maps:
            begin, end = (int(v, 16) for v in line.split()[0].split("-"))
            if begin <= at < end:
                return line.rstrip().removesuffix(" (deleted)").endswith(str(path))
    return False


def filled(value):
    net = nn.Linear(N, N)
    nn.init.constant_(net.weight, value)
    nn.init.constant_(net.bias, 1)
    return net


def program(value=0.5):
    return export(filled(value), (tl.zeros(1, N),))


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "p.tl"
    save(program(), path)
    return path


def test_large_constants_are_over_the_file_unless_mmap_is_false(path):
    for mmap in (True, False):
        weight, bias = sorted(load(path, mmap=mmap).constants, key=lambda t: -t.dim())
        assert in_file(weight, path) is mmap
        assert not in_file(bias, path)
        assert weight.requires_grad
        assert weight.detach().numpy().tolist() == np.full((N, N), 0.5).tolist()
        assert bias.tolist() == [1] * N


def test_writes_to_constants_stay_in_memory(path):
    before = path.read_bytes()
    weight = max(load(path).constants, key=lambda t: t.dim()).detach()
    weight.mul_(2)
    assert weight[3, 4].item() == 1
    assert path.read_bytes() == before


@pytest.mark.parametrize("link", [False, True])
def test_save_over_the_file_of_a_live_program_leaves_the_program_right(path, link, tmp_path):
    to = path
    if link:
        to = tmp_path / "link"
        os.symlink(path, to)
    old, x = load(path), tl.ones(1, N)
    session = tl.InferenceSession(path)
    save(program(2.0), to)
    want = [[0.5 * N + 1] * N]
    assert old.module()(x).tolist() == want
    assert session(x).tolist() == want
    assert load(path).module()(x).tolist() == [[2.0 * N + 1] * N]
    assert to.is_symlink() is link


def test_a_program_is_saved_over_its_own_file(path):
    loaded = load(path)
    save(loaded, path)
    assert load(path).module()(tl.ones(1, N)).tolist() == [[0.5 * N + 1] * N]


def test_a_file_that_no_program_is_over_is_written_into(path):
    load(path, mmap=False)
    inode = path.stat().st_ino
    assert not mapped._mapped
    save(program(2.0), path)
    assert path.stat().st_ino == inode


def test_a_file_that_is_replaced_while_it_is_opened_is_copied(path, tmp_path, monkeypatch):
    """What the engine opened is what is read: the constants of another file would lie elsewhere."""
    save(program(2.0), tmp_path / "other")
    engine_opens = tl._C._program_open

    def replacing(name):
        os.replace(tmp_path / "other", path)
        return engine_opens(name)

    monkeypatch.setattr(tl._C, "_program_open", replacing)
    weight = max(load(path).constants, key=lambda t: t.dim())
    assert weight.detach()[0, 0].item() == 2
    assert not in_file(weight, path)


def test_a_program_whose_weights_are_not_aligned_is_copied(path, tmp_path):
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(tmp_path / "q", "w") as new:
        text, weights = old.read("program.json"), old.read("weights.safetensors")
        new.writestr("program.json", text)
        for name in ("a", "ab", "abc", "abcd"):
            if (new.fp.tell() + 30 + len(name) + len("weights.safetensors") + 30) % 4:
                new.writestr(name, b"")
                break
        new.writestr("weights.safetensors", weights)
    weight = max(load(tmp_path / "q").constants, key=lambda t: t.dim())
    assert weight.detach()[0, 0].item() == 0.5
    assert not in_file(weight, tmp_path / "q")


CHILD = """
import json, os, sys
import torchlette as tl
from torchlette.export import load
from torchlette.export.files import open_model
def rss():
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
load(sys.argv[2])
before = rss()
held = load(sys.argv[1], mmap=sys.argv[3] == "1")
print(json.dumps([rss() - before, sum(c.numel() for c in held.constants)]))
"""


def test_loading_reads_no_weights(path, tmp_path):
    big = tmp_path / "big.tl"
    save(export(nn.Linear(4096, 4096, bias=False), (tl.zeros(1, 4096),)), big)
    grown = {}
    for mmap in "01":
        run = [sys.executable, "-c", CHILD, str(big), str(path), mmap]
        grown[mmap], elements = json.loads(subprocess.run(run, check=True, capture_output=True, text=True).stdout)
        assert elements == 4096 * 4096
    assert grown["0"] > 60 << 20
    assert grown["1"] < 8 << 20


def test_training_from_a_file_leaves_the_file_alone(tmp_path):
    path = tmp_path / "t.tl"
    net = filled(0.01)
    optimizer = tl.optim.SGD(net.parameters(), lr=0.1)
    x, y = tl.ones(2, N), tl.zeros(2, N)
    save(export_training(net, lambda m, x, y: nn.functional.mse_loss(m(x), y), optimizer, (x, y)), path)
    before = path.read_bytes()
    session = TrainingSession(path)
    first = session.step(x, y).item()
    assert session.step(x, y).item() < first
    assert path.read_bytes() == before
