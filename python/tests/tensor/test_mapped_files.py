"""Loaded tensors are over the pages of their file: nothing is copied, writes stay in memory, and save is safe."""

from __future__ import annotations

import gc
import json
import os
import sys

import numpy as np
import pytest

import torchlette as tl
import torchlette.torch as facade
from torchlette.io import mapped

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads the list of mappings of Linux")
N = 1 << 16


def in_file(t, path) -> bool:
    """Whether a tensor's first element is in a mapping of the file."""
    at = t.data_ptr()
    with open("/proc/self/maps") as maps:
        for line in maps:
            begin, end = (int(v, 16) for v in line.split()[0].split("-"))
            if begin <= at < end:
                return line.rstrip().removesuffix(" (deleted)").endswith(str(path))
    return False


def is_mapped(path) -> bool:
    gc.collect()
    tl.ones(1).add_(1).tolist()  # a call releases what owners are left
    with open("/proc/self/maps") as maps:
        return any(line.rstrip().removesuffix(" (deleted)").endswith(str(path)) for line in maps)


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "x.safetensors"
    tl.save({"big": tl.arange(float(N)), "small": tl.ones(3), "bytes": tl.zeros(5, dtype=tl.uint8)}, path)
    return path


def index(path):
    where = path.with_name("x.safetensors.index.json")
    where.write_text(json.dumps({"weight_map": {name: path.name for name in ("big", "small", "bytes")}}))
    return where


@pytest.mark.parametrize("by_index", [False, True])
def test_large_tensors_are_over_the_file_unless_mmap_is_false(path, by_index):
    named = index(path) if by_index else path
    for choice, want in ((None, True), (True, True), (False, False)):
        loaded = tl.load(named, mmap=choice)
        assert loaded["big"].tolist() == list(range(N))
        assert in_file(loaded["big"], path) is want
        assert not in_file(loaded["small"], path)
        assert loaded["small"].tolist() == [1, 1, 1]


def test_files_of_torch_save_are_mapped_on_demand(tmp_path):
    path = tmp_path / "x.pt"
    facade.save({"big": facade.arange(float(N))}, path)
    for choice, want in ((None, False), (False, False), (True, True)):
        loaded = facade.load(path, mmap=choice)
        assert loaded["big"].tolist() == list(range(N))
        assert in_file(loaded["big"], path) is want


def test_writes_stay_in_memory(path):
    before = path.read_bytes()
    t = tl.load(path)["big"]
    t.mul_(2)
    t[::2] += 1
    want = np.arange(N, dtype=np.float32) * 2
    want[::2] += 1
    assert np.array_equal(t.numpy(), want)
    assert path.read_bytes() == before


def test_a_mapping_ends_with_its_last_tensor(path):
    loaded = tl.load(path)
    row = loaded["big"][5:9]
    del loaded
    assert is_mapped(path)
    assert row.tolist() == [5, 6, 7, 8]
    del row
    assert not is_mapped(path)
    assert not mapped._mapped


@pytest.mark.parametrize("link", [False, True])
def test_save_over_the_file_keeps_what_was_loaded(path, link, tmp_path):
    to = path
    if link:
        to = tmp_path / "link"
        os.symlink(path, to)
    old = tl.load(path)
    tl.save({"big": old["big"] * 2}, to)
    assert old["big"].tolist() == list(range(N))
    assert tl.load(path)["big"].tolist() == list(range(0, 2 * N, 2))
    assert to.is_symlink() is link


def test_save_over_a_file_that_is_not_mapped_writes_into_it(path):
    inode = path.stat().st_ino
    tl.save({"big": tl.load(path, mmap=False)["big"]}, path)
    assert path.stat().st_ino == inode


def test_unaligned_tensors_are_copied(tmp_path):
    path = tmp_path / "x.safetensors"
    data = np.arange(N, dtype=np.float32)
    header = {"a": {"dtype": "U8", "shape": [3], "data_offsets": [0, 3]}}
    header["b"] = {"dtype": "F32", "shape": [N], "data_offsets": [3, 3 + 4 * N]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(len(text).to_bytes(8, "little") + text + b"abc" + data.tobytes())
    loaded = tl.load(path)
    assert not in_file(loaded["b"], path)
    assert np.array_equal(loaded["b"].numpy(), data)


def test_training_of_a_loaded_model_equals_that_of_a_copy(tmp_path):
    path = tmp_path / "net.safetensors"
    facade.manual_seed(0)
    first = facade.nn.Linear(128, 128)
    tl.save(first.state_dict(), path)

    def train(mmap):
        net = facade.nn.Linear(128, 128)
        net.load_state_dict(tl.load(path, mmap=mmap), assign=True)
        opt = facade.optim.AdamW(net.parameters(), lr=0.1)
        x = facade.ones(4, 128)
        for _ in range(3):
            opt.zero_grad()
            net(x).square().mean().backward()
            opt.step()
        return net.weight.detach().numpy()

    assert np.array_equal(train(None), train(False))
