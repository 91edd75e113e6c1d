"""Tensors in several safetensors files with an index."""

from __future__ import annotations

import json

import pytest
import torch
from safetensors.torch import save_file

import torchlette


def write(folder, weight_map):
    a, b = torch.randn(2, 3), torch.arange(4)
    save_file({"x.a": a}, folder / "model-1.safetensors")
    save_file({"b": b}, folder / "model-2.safetensors")
    path = folder / "model.safetensors.index.json"
    path.write_text(json.dumps({"metadata": {"total_size": 56}, "weight_map": weight_map}))
    return path, a, b


def test_an_index_gives_the_tensors_of_all_its_files(tmp_path):
    path, a, b = write(tmp_path, {"b": "model-2.safetensors", "x.a": "model-1.safetensors"})
    found = torchlette.load(path)
    assert list(found) == ["b", "x.a"]
    assert found["x.a"].tolist() == a.tolist() and found["b"].tolist() == b.tolist()


@pytest.mark.parametrize(
    "names",
    [{"b": "../model-2.safetensors"}, {"c": "model-2.safetensors"}, {"b": 3}, [], {"b": ""}, {"b": "/etc/passwd"}],
)
def test_an_index_that_is_wrong_is_refused(tmp_path, names):
    with pytest.raises(ValueError, match="damaged"):
        torchlette.load(write(tmp_path, names)[0])
