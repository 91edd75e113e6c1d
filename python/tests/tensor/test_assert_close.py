"""torchlette.testing.assert_close accepts and refuses what PyTorch's does."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

import torchlette as tl  # noqa: E402
from torchlette.testing import assert_close  # noqa: E402

NAN, INF = float("nan"), float("inf")

CASES = {
    "equal": ([1.0, 2.0], [1.0, 2.0], {}),
    "close": ([1.0, 2.0], [1.0, 2.000001], {}),
    "far": ([1.0, 2.0], [1.0, 2.1], {}),
    "loose": ([1.0, 2.0], [1.0, 2.1], {"rtol": 0.1, "atol": 0.0}),
    "shape": ([1.0, 2.0], [1.0], {}),
    "ints": ([1, 2], [1, 3], {}),
    "dtype": ([1.0], [1], {}),
    "dtype_unchecked": ([1.0], [1], {"check_dtype": False}),
    "nan": ([NAN], [NAN], {}),
    "nan_equal": ([NAN], [NAN], {"equal_nan": True}),
    "inf": ([INF, -INF], [INF, -INF], {}),
    "inf_sign": ([INF], [-INF], {}),
    "inf_finite": ([INF], [1.0], {"rtol": 1.0, "atol": 1.0}),
}


def outcome(check, tensor, actual, expected, options):
    try:
        check(tensor(actual), tensor(expected), **options)
    except AssertionError as error:
        return str(error).partition("\n")[0]
    return None


@pytest.mark.parametrize("name", CASES)
def test_same_verdict(name):
    want = outcome(torch.testing.assert_close, torch.tensor, *CASES[name])
    assert outcome(assert_close, tl.tensor, *CASES[name]) == want


def test_containers_and_numbers():
    assert_close({"a": [tl.ones(2), 1.0]}, {"a": [tl.ones(2), 1.0]})
    assert_close(None, None)
    with pytest.raises(AssertionError, match=r"item \['a'\]\[1\]"):
        assert_close({"a": [tl.ones(2), 1.0]}, {"a": [tl.ones(2), 2.0]})
    with pytest.raises(AssertionError, match="length"):
        assert_close([1.0], [1.0, 2.0])
    with pytest.raises(ValueError, match="rtol and atol"):
        assert_close(1.0, 1.0, rtol=0.1)


def test_message_says_where():
    with pytest.raises(AssertionError, match=r"(?s)Mismatched elements: 1 / 4 \(25.0%\).*at index \(1, 0\)"):
        assert_close(tl.tensor([[1.0, 2.0], [5.0, 4.0]]), tl.tensor([[1.0, 2.0], [3.0, 4.0]]))
    with pytest.raises(AssertionError, match="^so: Tensor-likes"):
        assert_close(tl.ones(1), tl.zeros(1), msg=lambda m: f"so: {m}")
