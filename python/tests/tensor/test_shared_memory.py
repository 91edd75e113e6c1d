"""Tensors on the CPU share memory with NumPy, DLPack, buffers and C code, both ways, as PyTorch's do."""

from __future__ import annotations

import ctypes
import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import torchlette
import torchlette.torch as facade

Program = Callable[[Any], list[Any]]


def poke(address: int, value: float) -> None:
    """Write a float32 number to memory, as C code writes it."""
    ctypes.c_float.from_address(address).value = value


def array_to_tensor(lib: Any) -> list[Any]:
    """Writes to an array are seen by tensors made of it, by their views and by later operators only."""
    a = np.arange(6, dtype=np.float32).reshape(2, 3)
    t = lib.from_numpy(a)
    row, before = t[1], t + 1
    a[:] = 7
    a[1, 0] = 8
    return [t, row, before, t + 1, t.t().contiguous(), row * row, lib.as_tensor(a), lib.tensor(a)]


def tensor_to_array(lib: Any) -> list[Any]:
    """In-place writes through any alias reach the array before they return."""
    a = np.zeros((2, 3), dtype=np.int64)
    t = lib.from_numpy(a)
    seen = []
    for write in (
        lambda: t.add_(1),
        lambda: t[1].fill_(5),
        lambda: t.t()[0].mul_(3),
        lambda: t.copy_(t.flip(1)),
        lambda: t.__setitem__((0, slice(1)), 9),
        lambda: lib.add(t, t, out=t),
        lambda: t.view(-1)[4:].zero_(),
    ):
        write()
        seen.append(a.copy())
    return seen


def strided(lib: Any) -> list[Any]:
    """Arrays and views with strides share memory too."""
    a = np.arange(24, dtype=np.float64).reshape(2, 3, 4)
    t = lib.from_numpy(a[:, ::2, 1:3])
    t.mul_(-1)
    u = lib.arange(12.0).reshape(3, 4)
    b, c, d = u[1:].numpy(), u.t().numpy(), u[:, 1::2].numpy()
    b[0, 0], c[1, 2], d[0] = 100, 200, 300
    u[2, 3] = 400
    scalar = lib.tensor(3.0)
    scalar.numpy()[()] = 4
    return [a, t, t.stride(), u, b, c, d, b.strides, c.strides, scalar, scalar + 1]


def views_of_both_sides(lib: Any) -> list[Any]:
    """A chain of conversions is one memory."""
    a = np.zeros(4, dtype=np.float32)
    t = lib.from_numpy(a)
    b = t[1:].numpy()
    u = lib.from_numpy(b[1:])
    v = lib.from_dlpack(t)
    w = np.from_dlpack(t)
    a[0], b[0] = 1, 2
    u[0] = 3
    v[3] = 4
    u.add_(10)
    return [a, t, b, u, v, w, (t + v).sum()]


def through_addresses(lib: Any) -> list[Any]:
    """C code writes at data_ptr(), and reads what operators write."""
    t = lib.zeros(4)
    address = t.data_ptr()
    poke(address + 4, 5.0)
    seen = [t.clone(), t[1:] * 2, t.sum()]
    t.add_(1)
    seen.append(list((ctypes.c_float * 4).from_address(address)))
    poke(t[2:].data_ptr(), -1.0)
    t.mul_(2)
    seen += [t, list((ctypes.c_float * 4).from_address(address)), t.data_ptr() == address]
    return seen


def optimizers(lib: Any) -> list[Any]:
    """Steps of optimizers are written to shared parameters, and values from outside are read by the next step."""
    p, q = lib.nn.Parameter(lib.ones(3)), lib.nn.Parameter(lib.ones(2, 3))
    a, address = p.detach().numpy(), q.data_ptr()
    seen = []
    for make in (lib.optim.SGD, lib.optim.Adam):
        optimizer = make([p, q], lr=0.1)
        for step in range(4):
            optimizer.zero_grad()
            ((q @ p) ** 2).sum().backward()
            optimizer.step()
            seen += [a.copy(), list((ctypes.c_float * 6).from_address(address))]
            a[0] = step
            poke(address, 0.5)
    a[:] = 2
    g = p.grad.numpy()
    (p * p).sum().backward()
    return [*seen, p, q, g, p.grad]


def large(lib: Any) -> list[Any]:
    """Operators on large arrays read them before they return, also in backward."""
    a = np.ones(40000, dtype=np.float32)
    t, w = lib.from_numpy(a), lib.ones(40000, requires_grad=True)
    y = (t * w).sum()
    z = t.reshape(200, 200) @ t.reshape(200, 200)[:, :2]
    a[:] = 3
    s = (t * w).sum()
    a[:] = 5
    s.backward(retain_graph=True)
    g = w.grad.clone()
    a[:] = 7
    return [y, z, s, g, (t + 1).sum(), a[:2]]


def buffers(lib: Any) -> list[Any]:
    """Vectors over buffers write to them."""
    data = bytearray(16)
    t = lib.frombuffer(data, dtype=lib.int32, count=2, offset=4)
    t.add_(258)
    data[0:8] = bytes(range(8))
    return [list(data), t, t * 2]


def bits(lib: Any) -> list[Any]:
    """The same memory as elements of two dtypes."""
    t = lib.zeros(2, 4)
    i, b = t.view(lib.int32), t.view(lib.uint8)
    i[0, 0] = 0x40490FDB
    t[1, 3] = 1.0
    b[1, :4] = 0
    part = t[:, 1:3].view(lib.int32)
    part.fill_(0x3F800000)
    return [t, i, b, part, t.view(lib.float64).shape, lib.ones(3, dtype=lib.bfloat16).view(lib.int16)]


def storages(lib: Any) -> list[Any]:
    """Storages are the memory of their tensors."""
    t = lib.arange(4, dtype=lib.int32)
    s = t[1:].untyped_storage()
    s[4], t[3] = 9, 258
    part = s[12:]
    part[2] = 1
    u = lib.empty(0, dtype=lib.int32).set_(s, 1, (2,), (2,))
    u.mul_(2)
    made = lib.UntypedStorage(8).fill_(1)
    v = lib.empty(0, dtype=lib.int16).set_(made)
    v[1] = 0
    return [t, s.tolist(), part.tolist(), s.nbytes(), u, made.tolist(), v, v.data_ptr() == made.data_ptr()]


def other_memory(lib: Any) -> list[Any]:
    """Results, copies and clones have memory of their own."""
    a = np.arange(3, dtype=np.float32)
    t = lib.from_numpy(a)
    made = [t.clone(), t.flip(0), t + 0, lib.tensor(a), t.to(lib.float64), lib.cat([t]), lib.zeros(3).copy_(t)]
    parameter = lib.nn.Parameter(t)
    a[:] = 9
    return [*made, parameter, parameter * 2]


PROGRAMS = [array_to_tensor, tensor_to_array, strided, views_of_both_sides, through_addresses, optimizers, large]
PROGRAMS += [buffers, bits, storages, other_memory]


def plain(value: Any) -> Any:
    """Return lists of what a program gives."""
    if hasattr(value, "detach"):
        value = value.detach().to((torch if isinstance(value, torch.Tensor) else facade).float64)
    return value.tolist() if hasattr(value, "tolist") else list(value) if isinstance(value, tuple) else value


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_memory_is_shared_as_pytorchs(program: Program) -> None:
    """Each program gives what it gives with PyTorch."""
    want, got = ([plain(v) for v in program(lib)] for lib in (torch, facade))
    assert len(want) == len(got)
    for place, (a, b) in enumerate(zip(want, got, strict=True)):
        assert b == pytest.approx(a, rel=1e-5) if isinstance(a, float) else np.allclose(a, b), (place, a, b)


REFUSED = [np.arange(3.0)[::-1], np.zeros(3, dtype=[("a", "i1"), ("b", "i4")])["b"]]


@pytest.mark.parametrize("array", REFUSED)
@pytest.mark.parametrize("call", ["from_numpy", "as_tensor"])
def test_arrays_that_pytorch_refuses(array: Any, call: str) -> None:
    """Negative strides, and strides that are no multiples of an element."""
    errors = []
    for lib in (torch, facade):
        with pytest.raises(ValueError, match="stride") as caught:
            getattr(lib, call)(array)
        errors.append(str(caught.value))
    assert errors[0] == errors[1]


@pytest.mark.filterwarnings("ignore:The given NumPy array is not writable")
def test_memory_that_cannot_be_written_stays_as_it_is() -> None:
    """A tensor over bytes moves when it is written, and its array is a copy."""
    data = np.arange(4, dtype=np.float32).tobytes()
    t = facade.from_numpy(np.frombuffer(data, dtype=np.float32))
    u = t[1:]
    assert (t + 1).tolist() == [1, 2, 3, 4]
    t.add_(1)
    assert u.tolist() == [2, 3, 4] and np.frombuffer(data, dtype=np.float32).tolist() == [0, 1, 2, 3]
    v = facade.from_numpy(np.frombuffer(data, dtype=np.float32))
    v.numpy()[0] = 5
    assert v.tolist() == [5, 1, 2, 3] and np.frombuffer(data, dtype=np.float32)[0] == 0


def test_memory_outlives_either_side() -> None:
    """An array keeps the memory of its tensor, a tensor its array; both end with their last user."""
    t = facade.arange(1000.0) * 1
    seen = t[10:].numpy()
    del t
    scratch = [facade.full((1000,), 7.0).tolist() for _ in range(3)]
    seen[0] += 1
    assert seen[0] == 11 and seen[-1] == 999 and len(scratch) == 3
    a = np.ones(1000, dtype=np.float32)
    ended = weakref.ref(a)
    u = facade.from_numpy(a)
    v = u[500:]
    del a, u
    gc.collect()
    assert ended() is not None and v.sum().item() == 500
    del v
    facade.zeros(1).add_(1)
    assert ended() is None


def exports() -> int:
    """Return how many storages count as exported."""
    gc.collect()
    torchlette.zeros(1, device="cpu").add_(1)
    return int(torchlette.stats()["shared_storages"])


def test_nothing_leaks() -> None:
    """Memory and exports end with their users, also after backward and with views of bits."""
    before = exports()
    live = torchlette.memory_stats()["cpu"]["live_bytes"]
    for _ in range(3):
        a = np.ones((30, 30), dtype=np.float32)
        t, w = facade.from_numpy(a), facade.ones(30, 30, requires_grad=True)
        b = (t @ w).tanh()
        c = b.detach().numpy()
        b.sum().backward()
        d = t.view(facade.int32).clone().numpy()
        t.data_ptr()
        s = w.grad.untyped_storage()[4:8].tolist()
        del a, t, w, b, c, d, s
    torchlette.mark_step()
    assert exports() == before
    assert torchlette.memory_stats()["cpu"]["live_bytes"] <= live + 4096


def test_an_array_of_its_tensor_alone_is_not_shared() -> None:
    """So that calls on the usual from_numpy(f()) are deferred, as for any tensor."""
    before = exports()
    t = facade.from_numpy(np.ones(3, dtype=np.float32))
    u = facade.frombuffer(bytearray(12), dtype=facade.float32)
    array = np.ones(3, dtype=np.float32)
    v = facade.from_numpy(array[1:])
    assert exports() == before + 1
    t.add_(1)
    array[1] = 5
    assert t.tolist() == [2, 2, 2] and u.tolist() == [0, 0, 0] and v.tolist() == [5, 1]
    del array
    assert exports() == before
    assert (v + 1).tolist() == [6, 2]


def test_calls_on_other_tensors_are_deferred() -> None:
    """While an array lives, only calls on the tensors that share its memory enter the engine at once."""
    array = np.ones(3, dtype=np.float32)
    t, alias, other = facade.from_numpy(array), facade.ones(3), facade.ones(3)
    alias.data = t[:]
    for x, deferred in ((other, True), (t, False), (alias, False), (t.detach(), False)):
        before = torchlette.stats()["calls_deferred"]
        kept = [x * 3 for _ in range(20)]
        assert (torchlette.stats()["calls_deferred"] - before > 10) == deferred and len(kept) == 20
    del array
    assert exports() == 0
    before = torchlette.stats()["calls_deferred"]
    kept = [t * 3 for _ in range(20)]
    assert torchlette.stats()["calls_deferred"] - before > 10 and len(kept) == 20


def test_captured_functions_read_shared_memory_when_called() -> None:
    """Arguments, and tensors from outside, which a function may also write."""
    a, b = np.ones(3, dtype=np.float32), np.ones(3, dtype=np.float32)
    x, state = facade.from_numpy(a), facade.from_numpy(b)

    @torchlette.jit
    def step(x: Any) -> Any:
        state.add_(x)
        return x * 2 + state

    seen = []
    for k in range(4):
        a[:] = k
        b[0] = 10 * k
        seen.append([step(x).tolist(), b.tolist()])
    want, state_now = [], np.ones(3)
    for k in range(4):
        state_now[0] = 10 * k
        state_now = state_now + k
        want.append([(2 * k + state_now).tolist(), state_now.tolist()])
    assert seen == want


def test_a_shared_tensor_in_vmap() -> None:
    """Each call reads the memory as it is then."""
    a = np.arange(6, dtype=np.float32).reshape(2, 3)
    t = facade.from_numpy(a)
    first = facade.func.vmap(lambda row: row.sum())(t)
    a[:] = 1
    assert first.tolist() == [3, 12] and facade.func.vmap(lambda row: row * t[0].sum())(t).tolist() == [[3] * 3] * 2
