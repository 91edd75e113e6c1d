"""The extension has PyTorch's texts, data inference, indices, argument errors and Python protocols."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import torch

import torchlette
import torchlette.torch as facade

VALUES = {
    "integers as floats": np.array([[1.0, -2.0], [3.0, 40.0]], np.float32),
    "fractions": np.array([0.5, -1.25, 1000.0], np.float32),
    "wide range": np.array([1e-6, 1.0, 12345.678], np.float32),
    "large": np.array([1e9, 2e9], np.float32),
    "not finite": np.array([np.nan, np.inf, -np.inf, 1.5], np.float32),
    "zeros": np.zeros((2, 2), np.float32),
    "0-dim": np.array(3.25, np.float32),
    "empty": np.zeros((0,), np.float32),
    "empty matrix": np.zeros((0, 3), np.float32),
    "float64": np.array([0.1, 0.2]),
    "int64": np.arange(-3, 120, 7).reshape(3, 6),
    "int32": np.array([[1, 2]], np.int32),
    "bool": np.array([[True, False]]),
    "three dims": np.arange(24, dtype=np.float32).reshape(2, 3, 4) / 3,
    "long rows": np.linspace(-1, 1, 60, dtype=np.float32).reshape(2, 30),
    "summarised": np.arange(2000, dtype=np.float32).reshape(40, 50),
    "summarised vector": np.arange(1500),
}


@pytest.mark.parametrize("name", VALUES)
def test_text_is_pytorch_s(name: str) -> None:
    """repr under the facade is PyTorch's, character by character."""
    assert repr(facade.tensor(VALUES[name])) == repr(torch.tensor(VALUES[name]))


def test_text_names_what_is_unusual() -> None:
    """A leaf that requires gradients says so; outside the facade nothing but metadata is shown."""
    assert repr(facade.ones(2, requires_grad=True)) == repr(torch.ones(2, requires_grad=True))
    pending = torchlette.ones(2, 3) + 1
    namespace = {"t": pending}
    exec("text = repr(t)", namespace)
    assert namespace["text"] == "Tensor(shape=[2, 3], dtype=float32, device=cpu)"


DATA = [
    1,
    2.5,
    True,
    [],
    [[]],
    [1, 2],
    [1, 2.5],
    [True, 2],
    [True, False],
    [[1.0, 2.0], [3.0, 4.0]],
    ((1, 2), [3, 4]),
    [np.float64(1.0)],
    np.float32(2.0),
    np.arange(6).reshape(2, 3)[:, ::2],
    np.array([1.5, 2.5], np.float16),
    [np.array([1.0, 2.0]), np.array([3.0, 4.0])],
    range(4),
]


@pytest.mark.parametrize("data", DATA, ids=repr)
def test_inference_of_dtype_and_shape(data: object) -> None:
    """tensor() infers what PyTorch infers."""
    want, got = torch.tensor(data), torchlette.tensor(data)
    assert (str(got.dtype), tuple(got.shape)) == (str(want.dtype), tuple(want.shape))
    assert got.tolist() == want.tolist()


KEYS = {
    "int": 1,
    "negative": -1,
    "slice": slice(1, None),
    "step": slice(None, None, 2),
    "past the end": slice(-100, 100),
    "none": None,
    "ellipsis": (..., 1),
    "mixed": (slice(None), None, -1, ...),
    "list": [2, 0],
    "lists": ([0, 1], [1, 2]),
    "list and slice": (slice(None), [0, 2]),
    "split lists": ([0, 1], slice(None), [1, 1]),
    "array": np.array([[0, 1], [2, 0]]),
    "true": True,
    "false": False,
    "rows by mask": np.array([True, False, True]),
    "everything": slice(None),
}


@pytest.mark.parametrize("name", KEYS)
def test_indexing(name: str) -> None:
    """x[key] and x[key] = value are PyTorch's, for views and for copies."""
    base, key = np.arange(36, dtype=np.float32).reshape(3, 4, 3), KEYS[name]
    want, got = torch.tensor(base), torchlette.tensor(base)
    theirs = tuple(torch.tensor(k) if isinstance(k, np.ndarray) else k for k in key) if isinstance(key, tuple) else key
    theirs = torch.tensor(key) if isinstance(key, np.ndarray) else theirs
    assert got[key].tolist() == want[theirs].tolist()
    want[theirs] = 7
    got[key] = 7
    assert got.tolist() == want.tolist()
    want[theirs] = want[theirs] * 2
    got[key] = got[key] * 2
    assert got.tolist() == want.tolist()


BAD_KEYS = [5, (0, 0, 0, 0), 1.5, slice(None, None, -1), slice(None, None, 0), np.array([True, False])]


@pytest.mark.parametrize("key", BAD_KEYS, ids=repr)
def test_wrong_indices(key: object) -> None:
    """Wrong keys raise PyTorch's classes."""
    base = np.arange(36, dtype=np.float32).reshape(3, 4, 3)
    with pytest.raises(Exception) as want:
        torch.tensor(base)[torch.tensor(key) if isinstance(key, np.ndarray) else key]
    with pytest.raises(want.type):
        torchlette.tensor(base)[key].tolist()


CALLS = {
    "missing": lambda t: t.relu(),
    "missing operand": lambda t: t.add(t.ones(2)),
    "wrong type": lambda t: t.relu("a"),
    "unknown keyword": lambda t: t.relu(t.ones(2), foo=1),
    "too many": lambda t: t.relu(t.ones(2), t.ones(2)),
    "twice": lambda t: t.relu(t.ones(2), input=t.ones(2)),
    "no overload": lambda t: t.sum(t.ones(2), "a"),
    "unknown word": lambda t: t.div(t.ones(2), t.ones(2), rounding_mode="up"),
    "out is no tensor": lambda t: t.add(t.ones(2), t.ones(2), out="a"),
    "bool for int": lambda t: t.ones(2).unsqueeze("0"),
    "list of numbers": lambda t: t.cat([1, 2]),
    "integer gradient": lambda t: t.ones(2, dtype=t.int64, requires_grad=True),
    "operand of str": lambda t: t.ones(2) + "a",
    "data of str": lambda t: t.tensor("a"),
}


@pytest.mark.parametrize("name", CALLS)
def test_wrong_calls(name: str) -> None:
    """Wrong arguments raise PyTorch's classes, and the text names the function."""
    with pytest.raises(Exception) as want:
        CALLS[name](torch)
    with pytest.raises(want.type):
        CALLS[name](torchlette)


def test_the_text_of_a_mismatch_lists_the_signatures() -> None:
    """With overloads the TypeError says what was given and what would be taken."""
    with pytest.raises(
        TypeError, match=r"sum\(\) received an invalid combination of arguments - got \(Tensor, str\)"
    ) as seen:
        torchlette.sum(torchlette.ones(2), "a")
    assert str(seen.value).count("\n * (") >= 2


def test_numpy_names_and_keywords() -> None:
    """axis, keepdims, input, x: names that PyTorch takes."""
    x = torchlette.ones(2, 3)
    assert x.sum(axis=1, keepdims=True).shape == (2, 1)
    assert torchlette.add(input=x, other=x).sum(1).tolist() == [6.0, 6.0]


def test_out_is_filled_and_returned() -> None:
    """out= gives its own object back, with the result's shape."""
    out = torchlette.empty(0)
    assert torchlette.add(torchlette.ones(3), 1, out=out) is out
    assert out.tolist() == [2.0] * 3


def test_in_place_gives_self() -> None:
    """name_ and the augmented operators keep the object."""
    x = torchlette.ones(3)
    same = x
    assert x.add_(1) is same
    x *= 3
    assert x is same and x.tolist() == [6.0] * 3


def test_number_on_the_left() -> None:
    """Reflected operators with numbers."""
    given = np.array([1.0, 2.0, 4.0], np.float32)
    a, b = torchlette.tensor(given), torch.tensor(given)
    for op in (
        lambda t: 2 - t,
        lambda t: 2 / t,
        lambda t: 2**t,
        lambda t: 7 // t,
        lambda t: 7 % t,
        lambda t: 1 + t,
        lambda t: 3 * t,
        lambda t: 2 < t,
    ):
        assert op(a).tolist() == op(b).tolist()


@pytest.mark.parametrize(
    "dtype", ["bool", "int32", "int64", "uint16", "uint32", "float16", "bfloat16", "float32", "float64"]
)
def test_copies_keep_everything(dtype: str) -> None:
    """pickle, copy and deepcopy keep dtype, values, requires_grad and attributes."""
    t = torchlette.tensor([[0, 1], [1, 0]], dtype=getattr(torchlette, dtype))
    t.note = "kept"
    if t.is_floating_point():
        t.requires_grad_()
    for made in (pickle.loads(pickle.dumps(t)), copy.deepcopy(t)):
        assert (made.dtype, made.tolist(), made.requires_grad, made.note) == (
            t.dtype,
            t.tolist(),
            t.requires_grad,
            "kept",
        )
    assert pickle.loads(pickle.dumps(t.dtype)) is t.dtype
    assert pickle.loads(pickle.dumps(t.shape)) == t.shape and repr(t.shape) == "torch.Size([2, 2])"


def test_sizes_stay_sizes() -> None:
    """Slices, sums and products of a Size are Sizes."""
    s = torchlette.ones(2, 3).shape
    assert repr(s[1:]) == "torch.Size([3])" and repr(s + (4,)) == "torch.Size([2, 3, 4])" and s.numel() == 6


def test_devices_compare_and_print() -> None:
    """device objects are values."""
    assert torchlette.device("wgpu") == torchlette.device("wgpu", 0) == torchlette.device("wgpu:0")
    assert {torchlette.device("cpu"): 1}[torchlette.device("cpu")] == 1
    assert (
        repr(torchlette.device("wgpu:1")) == "device(type='wgpu', index=1)" and str(torchlette.device("cpu")) == "cpu"
    )
    for bad in ("gpu", "cpu:x", "", "wgpu:-1"):
        with pytest.raises(RuntimeError):
            torchlette.device(bad)


def test_errors_elsewhere_name_the_line_that_recorded() -> None:
    """A data error that shows up at a read carries a note with the call's line."""
    index = torchlette.arange(3) + 5
    picked = torchlette.arange(4.0)[index]
    with pytest.raises(IndexError) as seen:
        picked.tolist()
    assert any("test_binding.py" in note for note in seen.value.__notes__)
