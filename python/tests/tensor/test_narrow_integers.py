"""uint8, int8, int16 and uint16: values modulo 2**bits, promotion, masks of before there was bool, and the ways in and
out.
"""

from __future__ import annotations

import io
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from oracle import TORCH_DTYPE, dtype_name

import torchlette
import torchlette.torch as facade
from torchlette.utils.data import DataLoader, TensorDataset

NARROW = ("uint8", "int8", "int16")
WIDE = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64")
VALUES = [1, 44, -56, 7, 0, -1]

CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda t, x: x + 300,
    "sub": lambda t, x: x - 201,
    "rsub": lambda t, x: 1 - x,
    "mul": lambda t, x: x * x,
    "neg": lambda t, x: -x,
    "abs": lambda t, x: x.abs(),
    "div": lambda t, x: x / 2,
    "floor_divide": lambda t, x: x // 3,
    "remainder": lambda t, x: x % 7,
    "pow": lambda t, x: x**2,
    "not": lambda t, x: ~x,
    "shift": lambda t, x: (x << 3, x >> 1),
    "compare": lambda t, x: (x == 300, x > 5, x.lt(x.flip(0))),
    "clamp": lambda t, x: x.clamp(-200, 40),
    "sum": lambda t, x: (x.sum(), x.prod(), x.cumsum(0), x.sum(dtype=x.dtype)),
    "extremes": lambda t, x: (x.max(), x.argmin(), x.cummax(0), x.amax(0)),
    "order": lambda t, x: (x.sort(descending=True), x.topk(2), x.unique(), x.median()),
    "truth": lambda t, x: (x.any(), x.all(), x.logical_not(), x.bool(), x.nonzero()),
    "matmul": lambda t, x: x.view(2, 3) @ x.view(3, 2),
    "where": lambda t, x: t.where(x > 3, x, x + 1),
    "index": lambda t, x: (x[t.tensor([4, 0])], x[x > 3], x.gather(0, t.tensor([3, 3]))),
    "scatter": lambda t, x: (x.scatter_add(0, t.tensor([0, 0, 1]), x[:3]), x.index_add(0, t.tensor([1, 1]), x[:2])),
    "reduce": lambda t, x: x.scatter_reduce(0, t.tensor([0, 0, 1]), x[:3], "amax", include_self=False),
    "join": lambda t, x: (t.cat([x, x.int()]), t.stack([x, x]), x.repeat(2), x.flip(0)),
    "to": lambda t, x: (x.float().div(3).to(x.dtype), x.byte(), x.char(), x.short(), x.to(t.float16)),
    "in place": lambda t, x: x.clone().add_(250).mul_(3),
    "exp": lambda t, x: (x / 64).exp(),
}


def made(lib: Any, dtype: str, device: str = "cpu") -> Any:
    x = torch.tensor(VALUES).to(getattr(torch, dtype))
    return x if lib is torch else torchlette.from_numpy(x.numpy()).to(device)


def flat(r: Any) -> list[Any]:
    return [v for part in r for v in flat(part)] if isinstance(r, tuple) else [r]


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("dtype", NARROW)
def test_results_are_pytorchs(dtype: str, call: str, device: str) -> None:
    want = flat(CALLS[call](torch, made(torch, dtype)))
    x = made(torchlette, dtype, device)
    got = flat(CALLS[call](Placed(device), x))
    assert len(got) == len(want)
    for g, w in zip(got, want, strict=True):
        assert str(g.dtype) == str(w.dtype)
        np.testing.assert_allclose(np.asarray(g.float().tolist()), np.asarray(w.float().tolist()), rtol=1e-6)


class Placed:
    """torchlette with tensors on a device."""

    def __init__(self, device: str) -> None:
        self.device = device

    def tensor(self, data: Any) -> torchlette.Tensor:
        return torchlette.tensor(data, device=self.device)

    def __getattr__(self, name: str) -> Any:
        return getattr(torchlette, name)


@pytest.mark.parametrize("left", NARROW)
@pytest.mark.parametrize("right", WIDE)
def test_promotion(left: str, right: str) -> None:
    want = torch.promote_types(getattr(torch, left), getattr(torch, right))
    assert str(torchlette.promote_types(getattr(torchlette, left), getattr(torchlette, right))) == str(want)
    assert str(torchlette.promote_types(getattr(torchlette, right), getattr(torchlette, left))) == str(want)


def test_old_masks(device: str) -> None:
    """An index of uint8 is a mask, with PyTorch's warning; where takes it too, and any and all keep its dtype."""
    x, mask = torchlette.arange(3.0, device=device), torchlette.tensor([1, 0, 2], dtype=torchlette.uint8, device=device)
    with pytest.warns(UserWarning, match=r"indexing with dtype torch\.uint8 is now deprecated"):
        assert x[mask].tolist() == [0.0, 2.0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        x[mask] = 7
        assert x.tolist() == [7.0, 1.0, 7.0]
        assert torchlette.ones(3, 2, device=device)[mask, 1].tolist() == [1.0, 1.0]
    assert torchlette.where(mask, x, -x).tolist() == [7.0, -1.0, 7.0]
    with pytest.raises(IndexError, match="long, int, byte or bool"):
        x[mask.char()]
    with pytest.raises(RuntimeError, match="unsigned char"):
        x.masked_fill(mask, 1)


@pytest.mark.parametrize("call", CALLS)
def test_uint16_wraps(call: str, device: str) -> None:
    """Results have the values of int64, modulo 2**16 where the dtype is uint16, also where PyTorch has no uint16."""
    x = torchlette.tensor([1, 44, 65480, 7, 0, 65535], dtype=torchlette.uint16, device=device)
    got = flat(CALLS[call](Placed(device), x))
    wide = torch.tensor(x.tolist())
    want = flat(CALLS[call](torch, wide))
    assert len(got) == len(want)
    for g, w in zip(got, want, strict=True):
        if g.dtype is torchlette.uint16:
            w = w % 2**16
        elif call == "to":
            w = w.to(TORCH_DTYPE[dtype_name(g.dtype)])
        np.testing.assert_allclose(g.tolist(), w.tolist(), rtol=1e-5)


def test_uint16_with_other_dtypes() -> None:
    """Dtypes of results are NumPy's, where PyTorch's raise an error."""
    for other in ("bool", "uint8", "int8", "int16", "int32", "uint32", "int64"):
        want = np.promote_types("uint16", other)
        assert torchlette.promote_types(torchlette.uint16, getattr(torchlette, other)) is getattr(torchlette, str(want))
    x = torchlette.ones(2, dtype=torchlette.uint16)
    assert (x + 1.5).dtype is torchlette.float32 and (x * 2).dtype is torchlette.uint16
    with pytest.raises(IndexError, match="long, int, byte or bool"):
        torchlette.ones(3)[x]


@pytest.mark.parametrize("dtype", [*NARROW, "uint16"])
def test_ways_in_and_out(dtype: str) -> None:
    array = np.array(VALUES).astype(dtype)
    x = torchlette.from_numpy(array)
    assert x.dtype is getattr(torchlette, dtype) and x.element_size() == array.itemsize
    assert x.numpy().dtype == array.dtype and x.numpy().tolist() == array.tolist() == x.tolist()
    assert np.from_dlpack(x).tolist() == array.tolist()
    assert torchlette.from_dlpack(array).tolist() == array.tolist()
    assert repr(facade.from_numpy(array)) == repr(torch.from_numpy(array))
    assert str(facade.iinfo(x.dtype)) == str(torch.iinfo(getattr(torch, dtype)))
    assert x.type() == made(torch, dtype).type() and x.dtype.is_signed == made(torch, dtype).dtype.is_signed
    file = io.BytesIO()
    torchlette.save({"x": x}, file)
    file.seek(0)
    assert torchlette.load(file)["x"].dtype is x.dtype
    assert pickle.loads(pickle.dumps(x)).tolist() == array.tolist()
    theirs = io.BytesIO()
    torch.save({"x": torch.from_numpy(array)}, theirs)
    theirs.seek(0)
    assert torchlette.load(theirs)["x"].tolist() == array.tolist()
    ours = io.BytesIO()
    facade.save({"x": x, "part": x[2:]}, ours)
    ours.seek(0)
    back = torch.load(ours, weights_only=True)
    assert back["x"].tolist() == array.tolist() and back["part"].dtype is getattr(torch, dtype)
    assert back["part"].data_ptr() == back["x"].data_ptr() + 2 * x.itemsize
    batch = next(iter(DataLoader(TensorDataset(x), batch_size=4)))
    assert batch[0].dtype is x.dtype and batch[0].tolist() == array.tolist()[:4]


def test_numbers_that_do_not_fit() -> None:
    """As PyTorch: negative numbers wrap in unsigned dtypes, larger ones raise."""
    for lib in (torch, torchlette):
        assert lib.tensor([-1], dtype=lib.uint16).tolist() == [65535]
        assert lib.tensor([-1], dtype=lib.uint32).tolist() == [2**32 - 1]
        assert lib.tensor([-1], dtype=lib.uint8).tolist() == [255]
        assert lib.full((1,), -1, dtype=lib.uint8).tolist() == [255]
        for wrong in (
            lambda t: t.tensor([300], dtype=t.uint8),
            lambda t: t.full((1,), 300, dtype=t.uint8),
            lambda t: t.tensor([70000], dtype=t.uint16),
            lambda t: t.full((1,), -129, dtype=t.int8),
        ):
            with pytest.raises(RuntimeError, match="without overflow"):
                wrong(lib)


def test_the_dtype_of_scalars_in_lists() -> None:
    assert torchlette.tensor([np.uint8(3), np.uint8(4)]).dtype is torchlette.uint8
    assert torchlette.tensor([np.uint8(3), np.float32(0.5)]).dtype is torchlette.float32
    assert facade.ByteTensor([1, 2]).dtype is facade.uint8
    assert isinstance(facade.ShortTensor([1]), facade.ShortTensor)
