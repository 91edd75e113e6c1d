"""Arrays, buffers and nested data go in and out of tensors without a change of value, dtype or shape."""

from __future__ import annotations

import array

import numpy as np
import pytest
import torch

import torchlette

DTYPES = ["bool", "int32", "int64", "uint16", "uint32", "float16", "float32"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (0,), (7,), (3, 5), (2, 0, 3), (2, 3, 4)])
def test_round_trip(dtype: str, shape: tuple[int, ...], device: str) -> None:
    """An array comes back with the same bits, odd counts and empty ones too."""
    rng = np.random.default_rng(1)
    given = (rng.random(shape) * 100 - (0 if dtype[0] == "u" else 50)).astype(dtype)
    back = torchlette.tensor(given, device=device).numpy()
    assert back.dtype == given.dtype and back.shape == given.shape
    np.testing.assert_array_equal(back, given)


def test_double_is_cast_on_its_way_to_a_device(device: str) -> None:
    """``to(device, dtype)`` casts where both dtypes exist, whichever device that is."""
    given = torchlette.tensor(np.array([1.0, np.pi]))
    moved = given.to(device, torchlette.float32)
    assert (moved.device.type, moved.dtype) == (device, torchlette.float32)
    back = moved.to(device="cpu", dtype=torchlette.float64)
    assert back.dtype == torchlette.float64
    np.testing.assert_array_equal(back.numpy(), np.float32([1.0, np.pi]).astype(float))
    moved = given.requires_grad_().to(moved)
    moved.sum().backward()
    assert given.grad.dtype == torchlette.float64 and given.grad.tolist() == [1.0, 1.0]


def test_double_lives_on_the_cpu(device: str) -> None:
    """float64 round-trips on the CPU and is refused elsewhere with the cast to use."""
    given = np.array([1e-300, 1.0, np.pi])
    if device == "cpu":
        np.testing.assert_array_equal(torchlette.tensor(given).numpy(), given)
    else:
        with pytest.raises(TypeError, match="float32"):
            torchlette.tensor(given, device=device)


@pytest.mark.parametrize(
    "data",
    [
        3,
        2.5,
        True,
        [1, 2, 3],
        [1.0, 2],
        [[1, 2], [3, 4]],
        [[True, False]],
        [],
        [[]],
        (1, 2),
        [1, 2.5, True],
        range(4),
        float("inf"),
        -0.0,
    ],
    ids=repr,
)
def test_python_data(data: object) -> None:
    """Numbers and nested lists get PyTorch's dtype and shape."""
    want = torch.tensor(data)
    got = torchlette.tensor(data)
    assert str(got.dtype).split(".")[-1] == str(want.dtype).split(".")[-1]
    assert tuple(got.shape) == tuple(want.shape)
    assert got.tolist() == want.tolist()


@pytest.mark.parametrize("data", [[[1, 2], [3]], [1, [2]], ["a"], [None], {"a": 1}, [object]], ids=repr)
def test_bad_data(data: object) -> None:
    """Ragged and foreign data raise PyTorch's classes."""
    with pytest.raises((TypeError, ValueError, RuntimeError)) as want:
        torch.tensor(data)
    with pytest.raises(want.type):
        torchlette.tensor(data)


def test_strided_and_reversed_arrays() -> None:
    """Arrays of any layout are read by element."""
    base = np.arange(24, dtype="float32").reshape(4, 6)
    for view in (base.T, base[::2], base[:, ::-1], base[1:3, 2:5], np.broadcast_to(base[0], (3, 6)), base[::-1, ::2]):
        np.testing.assert_array_equal(torchlette.tensor(view).numpy(), view)


def test_big_endian_is_refused_or_read() -> None:
    """Foreign byte order never gives garbage."""
    swapped = np.arange(4, dtype=">f4")
    try:
        got = torchlette.tensor(swapped)
    except (TypeError, ValueError):
        return
    assert got.tolist() == [0.0, 1.0, 2.0, 3.0]


def test_buffers() -> None:
    """Objects with the buffer protocol are taken without NumPy."""
    assert torchlette.tensor(array.array("f", [1, 2, 3])).tolist() == [1.0, 2.0, 3.0]
    assert torchlette.tensor(memoryview(array.array("i", [1, 2]))).dtype == torchlette.int32


def test_memoryview_out() -> None:
    """A tensor shows its memory as a buffer, with its strides."""
    t = torchlette.arange(6, device="cpu").reshape(2, 3)
    view = memoryview(t)
    assert not view.readonly and view.shape == (2, 3) and view.tolist() == [[0, 1, 2], [3, 4, 5]]
    t.add_(1)
    assert view.tolist() == [[1, 2, 3], [4, 5, 6]]
    view[0, 0] = 7
    assert t[0].tolist() == [7, 2, 3] and memoryview(t.t()).tolist() == [[7, 4], [2, 5], [3, 6]]
    assert bytes(t[1]) == memoryview(t[1]).tobytes()


def test_asarray_and_dtype() -> None:
    """np.asarray reads, with a conversion when asked."""
    t = torchlette.arange(3)
    assert np.asarray(t).dtype == np.int64
    assert np.asarray(t, dtype="float32").dtype == np.float32
    assert np.add(t.numpy(), 1).tolist() == [1, 2, 3]


def test_numpy_scalars_as_operands(device: str) -> None:
    """NumPy scalars behave like Python numbers."""
    t = torchlette.ones(3, device=device)
    assert (t * np.float32(2)).tolist() == [2.0] * 3
    assert (t + np.int64(2)).dtype == torchlette.float32
    assert t[np.int64(1)].item() == 1.0


def test_int64_is_checked_where_it_is_stored_as_int32() -> None:
    """A value beyond the device's integers is refused at upload, or kept; never cut."""
    big = np.array([2**40, -(2**40)])
    try:
        t = torchlette.tensor(big, device="wgpu")
    except (OverflowError, RuntimeError):
        return
    assert t.tolist() == big.tolist()


def test_torch_tensor_as_data() -> None:
    """A PyTorch tensor is data like any array."""
    given = torch.arange(6, dtype=torch.float32).reshape(2, 3)
    np.testing.assert_array_equal(torchlette.tensor(given).numpy(), given.numpy())
