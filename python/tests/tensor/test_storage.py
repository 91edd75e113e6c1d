"""Addresses, storages and bits of tensors, beside PyTorch."""

from __future__ import annotations

import copy
import ctypes
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import torchlette
import torchlette.torch as facade


def read(address: int, count: int) -> list[float]:
    """Return float32 numbers from memory, as C code reads them."""
    return list((ctypes.c_float * count).from_address(address))


def test_the_address_can_be_read() -> None:
    """Also of views, after writes, and of values that were not computed before."""
    x = torchlette.arange(6.0, device="cpu").reshape(2, 3)
    assert read(x.data_ptr(), 6) == [0, 1, 2, 3, 4, 5]
    assert read(x[1].data_ptr(), 3) == [3, 4, 5]
    assert read(x.t()[1].data_ptr(), 1) == [1]
    x.add_(1)
    assert read(x.data_ptr(), 6) == [1, 2, 3, 4, 5, 6]
    assert copy.deepcopy(x).tolist() == x.tolist()


def test_an_address_holds_while_its_tensor_lives() -> None:
    """Later windows do not reuse the memory."""
    x = torchlette.rand(1000, device="cpu")
    address, values = x.data_ptr(), x.tolist()
    for _ in range(20):
        (torchlette.rand(1000, device="cpu") + 1).tolist()
    assert read(address, 1000) == values


@pytest.mark.parametrize("lib", [torch, facade])
def test_addresses_compare_as_pytorchs(lib: Any) -> None:
    """Aliases that begin at the same element have one; storages begin at the first element of all aliases."""
    x = lib.zeros(4, 6)
    row = x[2]
    assert x.data_ptr() == x.view(-1).data_ptr() == x.t().data_ptr() == x.detach().data_ptr() != x.clone().data_ptr()
    assert row.data_ptr() - x.data_ptr() == 2 * 6 * 4 and lib.zeros(0).data_ptr() == 0
    assert row.untyped_storage().data_ptr() == x.untyped_storage().data_ptr() == x.data_ptr()
    assert row.untyped_storage().nbytes() == len(row.untyped_storage()) == 96
    assert isinstance(row.untyped_storage(), lib.UntypedStorage) and lib.is_storage(row.untyped_storage())
    assert not lib.is_storage(row)


@pytest.mark.parametrize("lib", [torch, facade])
def test_bytes_of_storages(lib: Any, tmp_path: Path) -> None:
    """Of tensors and of files, whole and in slices."""
    x = lib.tensor([1, 258], dtype=lib.int16)
    assert x.untyped_storage().tolist() == [1, 0, 2, 1] and x[1:].untyped_storage()[2] == 2
    path = tmp_path / "bytes"
    path.write_bytes(bytes(range(8)))
    stored = lib.UntypedStorage.from_file(str(path), False, 8)
    assert stored.nbytes() == 8 and stored[2:5].tolist() == [2, 3, 4]
    assert lib.asarray(stored[2:6], dtype=lib.uint8).view(dtype=lib.int32).tolist() == [0x05040302]


@pytest.mark.parametrize("lib", [torch, facade])
def test_files_as_storages(lib: Any, tmp_path: Path) -> None:
    """Writes to a shared one reach the file, which is made if it is missing; others stay in memory."""
    path = tmp_path / "file"
    stored = lib.UntypedStorage.from_file(str(path), True, 8)
    lib.empty(0, dtype=lib.int16).set_(stored)[1] = 258
    assert path.read_bytes() == bytes([0, 0, 2, 1, 0, 0, 0, 0])
    stored = lib.UntypedStorage.from_file(str(path), False, 8)
    stored[0] = 9
    assert stored.tolist() == [9, 0, 2, 1, 0, 0, 0, 0] and path.read_bytes()[0] == 0


VIEWS = [("float32", "int32"), ("float32", "uint8"), ("uint8", "int16"), ("bfloat16", "float16"), ("int64", "float64")]


@pytest.mark.parametrize(("old", "new"), VIEWS)
def test_bits_as_another_dtype(device: str, old: str, new: str) -> None:
    """Values and shapes are PyTorch's, for rows of other lengths too."""
    if device == "wgpu" and "64" in old:
        pytest.skip("GPUs have no float64")
    values = np.arange(8).reshape(2, 4)
    want = torch.tensor(values).to(getattr(torch, old)).view(getattr(torch, new))
    got = facade.tensor(values, device=device).to(getattr(facade, old)).view(getattr(facade, new))
    assert got.shape == tuple(want.shape) and str(got.dtype) == str(want.dtype) and got.device.type == device
    bits = want.view(torch.uint8).tolist()
    assert got.view(facade.uint8).tolist() == bits


@pytest.mark.parametrize("lib", [torch, facade])
def test_bad_views_raise_pytorchs_errors(lib: Any) -> None:
    """Rows that do not divide, and numbers."""
    with pytest.raises(RuntimeError, match="must be divisible by 2"):
        lib.zeros(3, dtype=lib.int16).view(lib.int32)
    with pytest.raises(RuntimeError, match="cannot be 0"):
        lib.tensor(1.0).view(lib.uint8)
    assert lib.zeros(2, 3).view(6).shape == lib.zeros(2, 3).view(size=(6,)).shape == (6,)


def test_what_cannot_be_raises() -> None:
    """Storages are not resized, and layouts other than strided are names only."""
    with pytest.raises(NotImplementedError, match="one size"):
        facade.zeros(2).untyped_storage().resize_(0)
    with pytest.raises(NotImplementedError, match=r"torch\.strided"):
        facade.zeros(2, layout=facade.sparse_coo)
    assert facade.zeros(2, layout=facade.strided).layout is not facade.sparse_csr
