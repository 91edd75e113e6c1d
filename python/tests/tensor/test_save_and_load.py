"""torchlette.save and load keep values, structure, sharing and parameters, and refuse what they cannot keep."""

from __future__ import annotations

import pytest

import torchlette as tl
import torchlette.utils.data


def test_save_and_load(tmp_path):
    value = {
        "state": tl.nn.Linear(2, 2).state_dict(),
        "numbers": [1, 2.5, float("inf"), None, True, "text", b"\x00\xff"],
        "shape": tl.ones(2, 3).shape,
        "dtype": tl.float32,
        3: (tl.arange(3), tl.tensor([True, False]), tl.tensor(1.5, dtype=tl.float64), tl.zeros(0, 2)),
        "strided": tl.arange(6).reshape(2, 3).t(),
    }
    path = tmp_path / "checkpoint.tl"
    tl.save(value, path)
    back = tl.load(path)
    assert list(back) == list(value)
    assert back["numbers"] == value["numbers"]
    assert back["shape"] == (2, 3)
    assert back["dtype"] == tl.float32
    assert back["state"]._metadata == value["state"]._metadata
    assert back["strided"].tolist() == [[0, 3], [1, 4], [2, 5]]
    for want, got in zip(value[3], back[3], strict=True):
        assert got.dtype == want.dtype
        assert got.shape == want.shape
        assert got.tolist() == want.tolist()
    assert tl.nn.Linear(2, 2).load_state_dict(back["state"]) == ([], [])


def test_load_keeps_sharing_and_parameters(tmp_path):
    p = tl.nn.Parameter(tl.ones(2))
    tl.save([p, p], tmp_path / "x")
    a, b = tl.load(tmp_path / "x")
    assert a is b
    assert isinstance(a, tl.nn.Parameter)
    assert a.requires_grad


def test_save_refuses_objects_and_load_refuses_other_files(tmp_path):
    with pytest.raises(TypeError, match="state_dict"):
        tl.save(tl.nn.Linear(1, 1), tmp_path / "module")
    (tmp_path / "text").write_text("no zip")
    with pytest.raises(ValueError, match="neither a safetensors file nor a zip"):
        tl.load(tmp_path / "text")
