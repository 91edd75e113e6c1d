"""The namespace of the array API standard: what differs from PyTorch's names. The suite of python/tests/array_api_suite
covers the rest."""

from __future__ import annotations

import math
import subprocess
import sys

import numpy as np
import pytest

import torchlette
import torchlette.array_api as xp


def test_tensors_name_their_namespace():
    x = torchlette.ones(2)
    assert x.__array_namespace__() is xp and x.__array_namespace__(api_version="2022.12") is xp
    with pytest.raises(ValueError, match="api_version"):
        x.__array_namespace__(api_version="2099.12")
    assert x.to_device("cpu").device.type == "cpu"
    with pytest.raises(ValueError, match="stream"):
        x.to_device("cpu", stream=1)


def test_all_names_are_there():
    for name in xp.__all__:
        assert getattr(xp, name) is not None or name == "newaxis"


@pytest.mark.parametrize(
    ("a", "b", "result"),
    [("uint8", "int8", "int16"), ("uint16", "uint8", "uint16"), ("uint32", "int8", "int64"), ("int8", "int64", "int64"),
     ("float32", "complex128", "complex128")],
)  # fmt: skip
def test_two_operands_promote_by_the_table(a, b, result):
    x, y = xp.ones(2, dtype=getattr(xp, a)), xp.ones(2, dtype=getattr(xp, b))
    assert xp.result_type(x, y) is getattr(xp, result)
    assert xp.add(x, y).dtype is getattr(xp, result)
    assert xp.add(x, 1).dtype is x.dtype


def test_solve_promotes():
    x1, x2 = xp.asarray([[2.0]]), xp.asarray([[3.0]], dtype=xp.float64)
    for right in (x2, x2[0]):
        assert xp.linalg.solve(x1, right).dtype is xp.float64 and xp.linalg.solve(x1, right).item() == 1.5


def test_indices_are_converted_to_int():
    """As all elements of the namespace's arrays."""
    assert [int(i[0]) for i in xp.nonzero(xp.asarray([[0, 1]]))] == [0, 1]


def test_uint64_does_not_meet_signed_integers():
    with pytest.raises(TypeError, match="uint64"):
        xp.result_type(xp.uint64, xp.int8)


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32", "uint64"])
def test_unsigned_integers_reduce_and_sort(dtype):
    most = np.iinfo(dtype).max
    data = np.array([[3, most], [1, 2]], dtype)
    x = xp.asarray(data)
    assert xp.max(x).item() == most and xp.min(x, axis=0).tolist() == data.min(0).tolist()
    assert xp.sort(x).tolist() == np.sort(data).tolist()
    assert xp.argmax(x).item() == 1
    total = xp.sum(x)
    assert total.dtype is xp.uint64 and total.item() == data.sum(dtype="uint64")
    assert xp.cumulative_sum(x, axis=1, include_initial=True).tolist() == [[0, 3, (3 + most) % 2**64], [0, 1, 3]]
    assert xp.clip(x, 2, 3).tolist() == data.clip(2, 3).tolist()
    assert xp.unique_values(x).tolist() == np.unique(data).tolist()


def test_unique_all_counts_each_nan():
    found = xp.unique_all(xp.asarray([2.0, math.nan, 1.0, 2.0, math.nan]))
    assert found.values.tolist()[:2] == [1.0, 2.0] and found.counts.tolist() == [1, 2, 1, 1]
    assert found.indices.tolist() == [2, 0, 1, 4] and found.inverse_indices.tolist() == [1, 2, 0, 1, 3]
    assert int(found.counts[1]) == 2, "results convert to Python numbers"
    assert xp.unique_counts(xp.asarray([1j, 1, 1j])).counts.tolist() == [2, 1]


def test_divisions_follow_the_standard_at_infinity():
    inf = math.inf
    x, y = xp.asarray([inf, -1.0, 1.0, 5.0]), xp.asarray([2.0, inf, -inf, 2.0])
    assert xp.floor_divide(x, y).tolist() == [inf, 0.0, 0.0, 2.0]
    assert math.copysign(1, xp.floor_divide(x, y).tolist()[1]) == -1
    assert math.copysign(1, xp.remainder(xp.asarray(0.0), xp.asarray(-3.0)).item()) == -1
    assert math.isnan(xp.sign(xp.asarray(math.nan)).item())


def test_reductions_take_axes_and_corrections():
    data = np.arange(24.0).reshape(2, 3, 4)
    x = xp.asarray(data)
    assert xp.var(x, axis=(0, 2), correction=0.5, keepdims=True).shape == (1, 3, 1)
    np.testing.assert_allclose(xp.var(x, axis=(0, 2), correction=0.5).numpy(), data.var((0, 2)) * 8 / 7.5)
    assert xp.sum(x, axis=()).tolist() == data.tolist()
    with pytest.raises(IndexError):
        xp.sum(x, axis=3)


def test_limits_are_python_numbers_and_dtypes():
    assert xp.finfo(xp.complex64).dtype is xp.float32 and xp.iinfo(xp.ones(1, dtype=xp.uint16)).max == 65535
    assert xp.isdtype(xp.uint16, ("bool", "unsigned integer")) and not xp.isdtype(xp.float32, "integral")
    info = xp.__array_namespace_info__()
    assert info.dtypes(kind="complex floating") == {"complex64": xp.complex64, "complex128": xp.complex128}
    assert info.default_dtypes()["integral"] is xp.int64 and info.default_device() in info.devices()


def test_shapes_that_do_not_broadcast_raise_value_error():
    with pytest.raises(ValueError):
        xp.broadcast_shapes((2,), (3,))
    with pytest.raises(ValueError):
        xp.squeeze(xp.ones((2, 1)), 0)
    with pytest.raises(ValueError):
        xp.asarray([1.0], copy=False)


def test_asarray_shares_or_copies():
    data = np.ones(2)
    shared, copied = xp.asarray(data, copy=False), xp.asarray(data, copy=True)
    data[0] = 5.0
    assert shared.tolist() == [5.0, 1.0] and copied.tolist() == [1.0, 1.0]
    with pytest.raises(ValueError, match="alias"):
        xp.asarray(data, dtype=xp.float32, copy=False)
    leaf = torchlette.asarray([1.0], requires_grad=True)
    assert leaf.requires_grad and torchlette.asarray(leaf) is leaf
    assert not torchlette.asarray(leaf, requires_grad=False).requires_grad


def test_tensors_of_pytorchs_door_have_no_methods_of_the_standard_until_it_is_imported() -> None:
    program = """
import torchlette, torchlette.torch as torch
ours, theirs = torchlette.ones(2), torch.ones(2)
names = "__array_namespace__", "to_device"
print([hasattr(x, name) for x in (ours, theirs) for name in names])
for name in dir(torch.Tensor):
    getattr(torch.Tensor, name)
import torchlette.array_api as xp
print([hasattr(x, name) for x in (ours, theirs) for name in names], theirs.__array_namespace__() is xp)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [str([True] * 2 + [False] * 2), str([True] * 4) + " True"]
