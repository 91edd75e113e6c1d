"""DLPack and buffers share memory; a capsule keeps it until its consumer ends."""

from __future__ import annotations

import gc

import numpy as np
import pytest
import torch

import torchlette

DTYPES = ("bool", "int32", "int64", "float16", "float32", "float64")


def sample(name: str) -> torchlette.Tensor:
    """Return a 2x3 tensor of a dtype."""
    return torchlette.arange(6).reshape(2, 3).to(getattr(torchlette, name))


@pytest.mark.parametrize("name", DTYPES)
def test_to_numpy(name: str) -> None:
    """NumPy sees the tensor's own memory."""
    t = sample(name)
    seen, again = np.from_dlpack(t), np.from_dlpack(t)
    np.testing.assert_array_equal(seen, t.numpy())
    assert seen.flags.writeable
    assert seen.ctypes.data == again.ctypes.data


@pytest.mark.parametrize("name", [*DTYPES, "bfloat16", "uint16", "uint32"])
def test_to_pytorch_and_back(name: str) -> None:
    """Values, shape and dtype survive both ways, through objects and through capsules."""
    t = sample(name)
    theirs = torch.from_dlpack(t)
    assert str(theirs.dtype) == f"torch.{name}"
    back = torchlette.from_dlpack(theirs)
    assert back.dtype == t.dtype
    assert torchlette.equal(back, t)
    assert torchlette.equal(torchlette.utils.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(theirs)), t)
    shared = torch.utils.dlpack.from_dlpack(torchlette.utils.dlpack.to_dlpack(t))
    shared.zero_()
    assert back.tolist() == t.tolist() == theirs.tolist() == [[0] * 3] * 2
    copied = torch.utils.dlpack.from_dlpack(t.__dlpack__(copy=True))
    t.fill_(1)
    assert copied.tolist() == [[0] * 3] * 2 and theirs.tolist() == [[1] * 3] * 2


def test_the_loan_keeps_values_and_memory() -> None:
    """What was lent outlives the tensor and ends with its consumer."""
    gc.collect()
    before = torchlette.memory_stats()["cpu"]["live_bytes"]
    t = torchlette.arange(1000.0) * 1
    seen = np.from_dlpack(t)
    t.add_(1)
    assert seen[0] == 1 and t[0].item() == 1
    del t
    torchlette.mark_step()
    scratch = [torchlette.full((1000,), 7.0).tolist() for _ in range(3)]
    assert seen[999] == 1000 and len(scratch) == 3
    del seen
    gc.collect()
    torchlette.mark_step()
    assert torchlette.memory_stats()["cpu"]["live_bytes"] <= before


def test_views() -> None:
    """Strides go out and come in, but not negative ones."""
    t = torchlette.arange(12.0).reshape(3, 4)
    np.testing.assert_array_equal(np.from_dlpack(t.t()), t.t().numpy())
    np.testing.assert_array_equal(np.from_dlpack(t[1:]), t[1:].numpy())
    theirs = torch.arange(12.0).reshape(3, 4).t()[::2]
    assert torchlette.from_dlpack(theirs).tolist() == theirs.tolist()
    with pytest.raises(BufferError, match="stride -1"):
        torchlette.from_dlpack(np.arange(5.0)[::-1])
    assert torchlette.from_dlpack(torch.tensor(3.0)).shape == ()
    assert torchlette.from_dlpack(torch.zeros(0, 3)).shape == (0, 3)


def test_copies_are_asked_for(device: str) -> None:
    """With copy=True, and for another device, which copy=False refuses."""
    theirs = torch.ones(3)
    shared, copied = torchlette.from_dlpack(theirs, copy=False), torchlette.from_dlpack(theirs, copy=True)
    theirs.zero_()
    assert shared.tolist() == [0, 0, 0] and copied.tolist() == [1, 1, 1]
    if device != "cpu":
        assert torchlette.from_dlpack(theirs, device=device).device.type == device
        with pytest.raises(BufferError, match="copied"):
            torchlette.from_dlpack(theirs, device=device, copy=False)


def test_refusals(device: str) -> None:
    """Recorded tensors, other devices, capsules used twice, types that do not exist here."""
    with pytest.raises(BufferError, match="require gradient"):
        torchlette.ones(2, requires_grad=True).__dlpack__()
    t = torchlette.ones(2, device=device)
    if device == "cpu":
        assert t.__dlpack_device__() == (1, 0)
    else:
        with pytest.raises(BufferError, match=r"\.cpu\(\)"):
            t.__dlpack__()
        np.testing.assert_array_equal(np.from_dlpack(t, device="cpu"), [1, 1])
    capsule = torch.utils.dlpack.to_dlpack(torch.ones(2))
    torchlette.from_dlpack(capsule)
    with pytest.raises(RuntimeError, match="only once"):
        torchlette.from_dlpack(capsule)
    with pytest.raises(TypeError, match="convert"):
        torchlette.from_dlpack(torch.zeros(2, dtype=torch.complex32))


def test_unused_capsules_end_their_loans() -> None:
    """A capsule that nobody takes frees what it holds."""
    t = torchlette.arange(10.0) * 1
    capsule = t.__dlpack__(max_version=(1, 0))
    del capsule
    assert np.from_dlpack(t)[1] == 1


BUFFERS = [
    (b"\x00\x00\x80?" * 3, {"dtype": "float32"}),
    (bytearray(16), {"dtype": "int64"}),
    (np.arange(6, dtype="int32"), {"dtype": "int32", "count": 2, "offset": 4}),
    (b"", {"dtype": "float32"}),
    (bytearray(8), {"dtype": "float32", "count": 0}),
    (bytearray(8), {"dtype": "float32", "offset": 8}),
    (bytearray(7), {"dtype": "float32"}),
    (bytearray(8), {"dtype": "float32", "count": 3}),
    (bytearray(8), {"dtype": "float32", "offset": -1}),
]


@pytest.mark.parametrize(("data", "options"), BUFFERS)
@pytest.mark.filterwarnings("ignore:The given buffer")
def test_frombuffer(data: object, options: dict[str, object]) -> None:
    """The elements, or PyTorch's error."""
    results = []
    for lib in (torch, torchlette):
        try:
            results.append(lib.frombuffer(data, **{**options, "dtype": getattr(lib, str(options["dtype"]))}).tolist())
        except ValueError as error:
            results.append(str(error))
    assert results[0] == results[1]


@pytest.mark.parametrize(
    "code", ["np.sin(t)", "t + np.ones(3)", "np.add(np.ones(3), t)", "np.maximum(t, 0)", "np.float64(2) * t"]
)
def test_numpy_functions_give_tensors(code: str) -> None:
    """As PyTorch's do."""
    want, got = (eval(code, {"np": np, "t": lib.tensor([1.0, -2.0, 3.0])}) for lib in (torch, torchlette))
    assert isinstance(got, torchlette.Tensor)
    assert str(got.dtype) == str(want.dtype)
    np.testing.assert_allclose(got.numpy(), want.numpy())


@pytest.mark.parametrize("name", ["complex64", "complex128"])
def test_complex_memory_is_shared_and_computes(name: str) -> None:
    """A complex tensor over the memory of an array has all operators, and shows the array's changes."""
    array = np.array([[1 + 2j, 3], [4j, -1]], name)[:, ::-1][:, ::-1].T
    own = torchlette.tensor(array.tolist(), dtype=getattr(torchlette, name))
    for shared in (torchlette.from_numpy(array), torchlette.from_dlpack(torch.from_numpy(array))):
        assert shared.dtype == own.dtype and shared.stride() == (1, 2)
        assert torchlette.equal(shared, own) and (shared * own).tolist() == (own * own).tolist()
        assert shared.sum().item() == array.sum()
    kept = array[0, 1]
    array[0, 1] = 9j
    assert shared[0, 1].item() == 9j
    shared[0, 1] = complex(kept)
    assert array[0, 1] == kept
    empty = torchlette.from_dlpack(torch.zeros(0, dtype=getattr(torch, name)))
    assert torchlette.equal(empty, empty.clone())
