"""Window functions are PyTorch's, by their names in torch.signal.windows and by their old ones."""

from __future__ import annotations

import itertools
from typing import Any

import oracle
import pytest
import torch

import torchlette.torch as facade


def both(f: Any) -> tuple[Any, Any]:
    """Return what ``f`` gives under our library and under PyTorch."""
    return f(facade), f(torch)


WINDOWS: dict[str, dict[str, Any]] = {
    "bartlett": {},
    "blackman": {},
    "cosine": {},
    "exponential": {"tau": 2.0},
    "gaussian": {"std": 1.5},
    "general_cosine": {"a": [0.5, 0.3, 0.2]},
    "general_hamming": {"alpha": 0.6},
    "hamming": {},
    "hann": {},
    "kaiser": {"beta": 7.0},
    "nuttall": {},
}


@pytest.mark.parametrize("name", WINDOWS)
def test_windows(name: str) -> None:
    for length, sym, dtype in itertools.product((0, 1, 2, 7), (True, False), ("float32", "float64")):
        got, want = both(
            lambda L, n=length, s=sym, d=dtype: getattr(L.signal.windows, name)(
                n, sym=s, dtype=getattr(L, d), **WINDOWS[name]
            )
        )
        oracle.assert_equal(got, want)
    for lib in (facade, torch):
        with pytest.raises(ValueError):
            getattr(lib.signal.windows, name)(-1, **WINDOWS[name])


@pytest.mark.parametrize("name", ["bartlett", "blackman", "hamming", "hann", "kaiser"])
def test_windows_by_their_old_names(name: str) -> None:
    for length, periodic in itertools.product((0, 1, 6), (True, False)):
        oracle.assert_equal(*both(lambda L, n=length, p=periodic: getattr(L, name + "_window")(n, p)))
    for lib in (facade, torch):
        with pytest.raises(RuntimeError):
            getattr(lib, name + "_window")(-1)
