"""testing.make_tensor: shapes, dtypes, ranges and options."""

import pytest

import torchlette as tl
from torchlette.testing import make_tensor

RANGES = {
    tl.bool: (0, 2), tl.uint8: (0, 10), tl.int8: (-9, 10), tl.int64: (-9, 10), tl.float16: (-9, 9),
    tl.float32: (-9, 9), tl.float64: (-9, 9),
}  # fmt: skip


@pytest.mark.parametrize("dtype", RANGES, ids=str)
def test_values_lie_in_the_range_of_the_dtype(dtype):
    low, high = RANGES[dtype]
    t = make_tensor(20, 30, dtype=dtype, device="cpu")
    assert t.shape == (20, 30)
    assert t.dtype == dtype
    values = t.double().reshape(-1).tolist()
    assert low <= min(values) < max(values) <= high
    assert min(values) < low + 1 and max(values) >= high - 1


def test_zeros_are_replaced_and_elements_are_apart_when_asked():
    t = make_tensor((4, 50), dtype=tl.int32, device="cpu", low=0, high=2, exclude_zero=True, noncontiguous=True)
    assert t.tolist() == [[1] * 50] * 4
    assert t.stride() == (100, 2)


def test_complex_values_have_both_parts():
    t = make_tensor(100, dtype=tl.complex64, device="cpu", low=1, high=2, requires_grad=True)
    assert t.requires_grad
    assert all(1 <= part < 2 for z in t.tolist() for part in (z.real, z.imag))


@pytest.mark.parametrize(
    "options",
    [
        {"dtype": tl.int32, "requires_grad": True},
        {"dtype": tl.float32, "low": 3, "high": 2},
        {"dtype": tl.float32, "low": float("nan")},
        {"dtype": tl.uint8, "low": -5, "high": -1},
    ],
    ids=["gradients of integers", "empty range", "nan", "outside of the dtype"],
)
def test_contradictions_are_refused(options):
    with pytest.raises(ValueError):
        make_tensor(3, device="cpu", **options)
