"""uint64: as PyTorch where PyTorch has the operator, else as NumPy."""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import oracle
import pytest
import torch

import torchlette
import torchlette.torch as facade

VALUES = [0, 1, 7, 2**32, 2**63 - 1, 2**63, 2**63 + 5, 2**64 - 1]
OTHER = [3, 2**63, 5, 2**33 + 1, 2, 2**63 + 1, 1, 2**64 - 2]

#: Calls that PyTorch has.
PYTORCH: dict[str, Callable[[Any, Any, Any], Any]] = {
    "data": lambda T, a, b: a,
    "text": lambda T, a, b: repr(a),
    "numbers": lambda T, a, b: (a.tolist(), a[-1].item()),
    "mul": lambda T, a, b: a * b,
    "maximum": lambda T, a, b: (T.maximum(a, b), T.minimum(a, b)),
    "equal": lambda T, a, b: (a == b, a != b, T.equal(a, a)),
    "bits": lambda T, a, b: (a & b, a | b, a ^ b),
    "true division": lambda T, a, b: (a / b, a / 2),
    "float": lambda T, a, b: (a + 2.5, a.double(), a.to(T.float32), a * T.tensor([0.5])),
    "functions": lambda T, a, b: (T.sqrt(a), T.sin(a)),
    "casts": lambda T, a, b: (a.to(T.int64), a.to(T.int32), a.to(T.uint8), a.to(T.bool)),
    "from integers": lambda T, a, b: T.tensor([-1, 5]).to(T.uint64),
    "from floats": lambda T, a, b: T.tensor([1e19, 2.5, 0.0, 3e9], dtype=T.float64).to(T.uint64),
    "sort": lambda T, a, b: T.sort(b),
    "sort down": lambda T, a, b: T.sort(b, descending=True),
    "unique": lambda T, a, b: T.unique(T.cat([a, b])),
    "sum": lambda T, a, b: (a.sum(), a.prod(), a.cumsum(0)),
    "index": lambda T, a, b: (a[T.tensor([7, 0])], a.gather(0, T.tensor([3])), a[::2]),
    "scatter_add": lambda T, a, b: a.scatter_add(0, T.tensor([0, 0]), b[:2]),
    "clamp": lambda T, a, b: a.clamp(2, 5),
    "any": lambda T, a, b: (a.any(), a.all()),
    "factories": lambda T, a, b: (T.zeros(2, dtype=T.uint64), T.full((2,), 3, dtype=T.uint64), T.ones_like(a)),
    "range": lambda T, a, b: (T.iinfo(T.uint64).max, T.uint64.itemsize, T.uint64.is_signed, T.uint64.is_floating_point),
    "storage": lambda T, a, b: a.view(T.int64),
    "hash": lambda T, a, b: (T.hash_tensor(b.to(T.int64)), T.hash_tensor(T.tensor([[1.5, -2.0], [0.0, 3.0]]), 1)),
}

#: Calls that NumPy has: the arguments are arrays there.
NUMPY: dict[str, Callable[[Any, Any, Any], Any]] = {
    "add": lambda N, a, b: a + b,
    "sub": lambda N, a, b: a - b,
    "floor division": lambda N, a, b: a // b,
    "remainder": lambda N, a, b: a % b,
    "order": lambda N, a, b: a < b,
    "order or equal": lambda N, a, b: a <= b,
    "shift left": lambda N, a, b: a << (b & 63),
    "shift right": lambda N, a, b: a >> (b & 63),
    "not": lambda N, a, b: ~a,
    "power": lambda N, a, b: a ** (b & 3),
    "matmul": lambda N, a, b: a.reshape(2, 4) @ b.reshape(4, 2),
    "greatest": lambda N, a, b: N.amax(b),
    "least": lambda N, a, b: N.amin(b.reshape(2, 4), 1),
    "where": lambda N, a, b: N.where(a > b, a, b),
    "place of the greatest": lambda N, a, b: b.argmax(),
    "place of the least": lambda N, a, b: b.reshape(2, 4).argmin(0),
    "running product": lambda N, a, b: N.cumprod(a[1:], 0).astype(N.int64) if N is np else N.cumprod(a[1:], 0),
    "with uint8": lambda N, a, b: a + (b.astype(N.uint8) if N is np else b.to(N.uint8)),
}


@pytest.mark.parametrize("name", PYTORCH)
def test_what_pytorch_has_gives_its_results(name: str) -> None:
    for _ in range(2):  # recorded, replayed
        got, want = (PYTORCH[name](T, *(T.tensor(v, dtype=T.uint64) for v in (VALUES, OTHER))) for T in (facade, torch))
        oracle.assert_equal(got, want, name)


@pytest.mark.parametrize("name", NUMPY)
def test_what_pytorch_lacks_gives_numpys_results(name: str) -> None:
    arrays = [np.array(v, np.uint64) for v in (VALUES, OTHER)]
    want = NUMPY[name](np, *arrays)
    got = NUMPY[name](facade, *(facade.tensor(a) for a in arrays))
    assert got.tolist() == want.tolist()
    assert str(got.dtype) == f"torch.{np.asarray(want).dtype}"


def test_numbers_that_are_no_uint64_are_refused() -> None:
    for f in (
        lambda T: T.tensor([2**64], dtype=T.uint64),
        lambda T: T.tensor([2**63]),
        lambda T: T.promote_types(T.uint64, T.int64),
        lambda T: T.tensor([1], dtype=T.uint64) + T.tensor([1]),
    ):
        with pytest.raises((RuntimeError, OverflowError, ValueError)):
            f(torch)
        with pytest.raises((RuntimeError, OverflowError)):
            f(facade)


def test_pickles_and_files_keep_the_dtype() -> None:
    t, file = facade.tensor(VALUES, dtype=facade.uint64), io.BytesIO()
    facade.save(t, file)
    file.seek(0)
    for copy in (pickle.loads(pickle.dumps(t)), facade.load(file)):
        assert copy.dtype is facade.uint64 and copy.tolist() == VALUES


def test_an_array_shares_memory_with_its_tensor() -> None:
    array = np.array(VALUES, np.uint64)
    t = facade.from_numpy(array)
    t[0] = 9
    assert array[0] == 9 and t.numpy().dtype == np.uint64


@pytest.mark.parametrize("device", ["wgpu"], indirect=True)
def test_a_gpu_refuses_uint64(device: str) -> None:
    with pytest.raises(TypeError, match="uint64 is not supported on device"):
        torchlette.zeros(2, dtype=torchlette.uint64, device=device)
