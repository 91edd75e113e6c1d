"""load restores what save wrote and files of torch.save; forged or foreign files raise."""

from __future__ import annotations

import collections
import copy
import io
import math
import pathlib
import pickle
import zipfile

import pytest

torch = pytest.importorskip("torch")

import torchlette as tl  # noqa: E402
import torchlette.nn  # noqa: E402
import torchlette.optim  # noqa: E402


def same(a, b):
    """Compare a value of PyTorch's with one of ours."""
    if isinstance(a, torch.Tensor):
        assert isinstance(b, tl.Tensor)
        assert isinstance(b, tl.nn.Parameter) == isinstance(a, torch.nn.Parameter)
        assert b.requires_grad == a.requires_grad
        assert str(b.dtype) == str(a.dtype)
        assert tuple(b.shape) == tuple(a.shape)
        assert b.tolist() == a.tolist()
    elif isinstance(a, dict):
        assert type(b) is type(a)
        assert list(a) == list(b)
        for key, value in a.items():
            same(value, b[key])
    elif isinstance(a, (list, tuple)) and not isinstance(a, torch.Size):
        assert type(b) is type(a)
        for x, y in zip(a, b, strict=True):
            same(x, y)
    elif isinstance(a, float) and math.isnan(a):
        assert math.isnan(b)
    elif isinstance(a, (torch.dtype, torch.device)):
        assert str(b) == str(a)
    else:
        assert b == a


def sample(t):
    base = t.arange(12.0)
    return {
        "dtypes": [
            t.tensor([0, 1, 2], dtype=getattr(t, d))
            for d in ("float32", "float64", "float16", "bfloat16", "int32", "int64", "bool")
        ],
        "parameter": t.nn.Parameter(t.ones(2)),
        "leaf": t.ones(2, requires_grad=True),
        "strided": base.reshape(3, 4).t(),
        "empty": t.zeros(0, 3),
        "scalar": t.tensor(2.5),
        "numbers": (1, -(2**40), 1.5, math.inf, math.nan, True, None),
        "text": "grüße",
        "bytes": b"\x00\xff",
        "set": {1, 2},
        "size": t.Size([2, 3]) if t is torch else tl.Size([2, 3]),
        "dtype": t.float16,
        "device": t.device("cpu"),
        3: collections.OrderedDict([("b", [1]), ("a", ())]),
    }


def stored(save, value):
    file = io.BytesIO()
    save(value, file)
    file.seek(0)
    return file


def test_round_trip(tmp_path):
    path = tmp_path / "x.pt"
    tl.save(sample(tl), path)
    same(sample(torch), tl.load(path))
    same(sample(torch), tl.load(stored(tl.save, sample(tl))))


def test_files_of_torch():
    same(sample(torch), tl.load(stored(torch.save, sample(torch))))


def test_module_and_optimizer_of_torch():
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.LayerNorm(4))
    opt = torch.optim.Adam(net.parameters(), lr=0.1)
    net(torch.ones(2, 3)).square().sum().backward()
    opt.step()
    found = tl.load(
        stored(torch.save, {"model": net.state_dict(), "opt": opt.state_dict()}), map_location="cpu", weights_only=True
    )
    mine = tl.nn.Sequential(tl.nn.Linear(3, 4), tl.nn.LayerNorm(4))
    mine.load_state_dict(found["model"])
    my_opt = tl.optim.Adam(mine.parameters())
    my_opt.load_state_dict(found["opt"])
    assert my_opt.param_groups[0]["lr"] == 0.1
    assert found["model"]._metadata == net.state_dict()._metadata
    torch.testing.assert_close(torch.tensor(mine(tl.ones(2, 3)).tolist()), net(torch.ones(2, 3)).detach())


def test_storages_stay_shared():
    base = torch.zeros(4)
    a, b = tl.load(stored(torch.save, [base[:3], base[1:]]))
    a[1] = 5.0
    assert b.tolist() == [5.0, 0.0, 0.0]


class Stranger:
    """A class that no file may instantiate."""

    def __reduce__(self):
        return print, ("this must not be printed",)


@pytest.mark.parametrize(
    "value", [Stranger(), torch.nn.Linear(2, 2), torch.ones(2, dtype=torch.complex32), {"a": torch.complex32}]
)
def test_what_is_refused(value, capsys):
    with pytest.raises(pickle.UnpicklingError, match="the file holds"):
        tl.load(stored(torch.save, value))
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    "text",
    [
        b"cbuiltins\neval\n(S'1'\ntR.",
        b"ccollections\nOrderedDict\n}S'a'\nI1\nsb.",
        b"ccollections\nOrderedDict\n(N}S'_call'\nI1\nstb.",
        b"c_codecs\nencode\n(S'a'\nS'utf-16'\ntR.",
        b"I1\nQ.",
    ],
)
def test_forged_pickles(text):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("a/data.pkl", text)
    with pytest.raises((pickle.UnpicklingError, AttributeError)):
        tl.load(file)


def test_files_that_are_none():
    with pytest.raises(ValueError, match="the file is wrong"):
        tl.load(io.BytesIO(b"not a zip file"))
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("other", "")
    with pytest.raises(ValueError, match="the file is wrong"):
        tl.load(file)
    with pytest.raises(TypeError, match="save: value is wrong"):
        tl.save(tl.nn.Linear(2, 2), io.BytesIO())


def test_a_value_that_is_refused_leaves_the_file_alone(tmp_path):
    path = tmp_path / "x.safetensors"
    tl.save({"a": tl.ones(2)}, path)
    with pytest.raises(TypeError, match="save: value is wrong"):
        tl.save({"a": tl.zeros(2), "b": object()}, path)
    assert tl.load(path)["a"].tolist() == [1.0, 1.0]


def test_files_of_the_first_format_load():
    """The zip files that save wrote before it wrote safetensors."""
    found = tl.load(pathlib.Path(__file__).parent / "files" / "format_1.pt")
    half = torch.tensor([0.5, -1.0], dtype=torch.bfloat16)
    wanted = {
        "parameter": torch.nn.Parameter(torch.arange(4.0).reshape(2, 2)),
        "half": half,
        "mask": torch.tensor([True, False]),
        "nested": [1, 2.5, (math.inf, None), {"a": b"\x00\xff"}],
        3: collections.OrderedDict([("b", torch.tensor(7)), ("a", torch.zeros(0, 3))]),
        "dtype": torch.float16,
        "again": half,
    }
    same(wanted, found)
    assert found["again"] is found["half"]


def test_errors_of_map_location_are_the_users():
    def wrong(t, device):
        raise KeyError(device)

    with pytest.raises(KeyError, match="cpu"):
        tl.load(stored(tl.save, tl.ones(2)), map_location=wrong)


def test_map_location():
    file = stored(tl.save, tl.ones(2))
    seen = []
    tl.load(file, map_location=lambda t, device: seen.append(device))
    assert seen == ["cpu"]
    file.seek(0)
    assert str(tl.load(file, map_location={"cpu": "cpu"}).device) == "cpu"


@pytest.mark.parametrize("recorded", [False, True])
def test_copy_shares_the_elements(recorded: bool) -> None:
    """copy.copy gives another object over the same elements, a leaf; writes show in both."""
    for lib in (torch, torchlette):
        t = lib.ones(2, requires_grad=recorded)
        other = copy.copy(t)
        assert other is not t and other.is_leaf and other.requires_grad == recorded
        with lib.no_grad():
            other.add_(1)
        assert t.tolist() == [2.0, 2.0]
        parameter = lib.nn.Parameter(lib.ones(2))
        assert type(copy.copy(parameter)) is lib.nn.Parameter
