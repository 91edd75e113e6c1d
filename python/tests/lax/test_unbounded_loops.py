"""Loops on a GPU that only a condition ends go on until it does; so do loops that a driver would end in a kernel."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import torchlette
import torchlette.torch as facade
from torchlette import lax
from torchlette.export import export, load, save

pytestmark = pytest.mark.usefixtures("wgpu")

#: More iterations than eight dispatches of a software driver have.
MANY = 700_001
#: The state of Lehmer's generator after each number of iterations, by squaring.
MODULUS, FACTOR = 65_521, 17_364


def state(begin: int, steps: int) -> int:
    return begin * pow(FACTOR, steps, MODULUS) % MODULUS


def lehmer(x: Any) -> Any:
    """Integers below 2^31 throughout, on path A."""
    return x * (FACTOR >> 8) % MODULUS * 256 % MODULUS + x * (FACTOR & 255) % MODULUS


def stepped(x: Any) -> Any:
    return lehmer(x) % MODULUS


def summed(x: Any) -> Any:
    """As stepped; a sum of many elements makes it path B."""
    return stepped(x + x.sum(dtype=facade.int32) * 0)


def counted(f: Callable[[Any], Any], path: str, begin: Any, most: Any) -> Any:
    first = facade.zeros((), dtype=facade.int32, device="wgpu")
    return lax.while_loop(lambda c: c[0] < most, lambda c: (c[0] + 1, f(c[1])), (first, begin), accept_path=path)


def begin(shape: tuple[int, ...] = (3,)) -> Any:
    return facade.full(shape, 5, dtype=facade.int32, device="wgpu")


@pytest.mark.parametrize(
    ("path", "most"), [*[("A", n) for n in (0, 1, 65_535, 65_536, MANY)], *[("B", n) for n in (0, 1, 20_001)]]
)
def test_a_while_loop_runs_until_its_condition_is_false(path: str, most: int) -> None:
    """A workgroup takes 0.2 ms for an iteration of a software driver, and ends its loops after some thousand."""
    f, shape = {"A": (stepped, (3,)), "B": (summed, (36, 36))}[path]
    n, last = counted(f, path, begin(shape), most)
    assert int(n) == most
    assert set(last.flatten().tolist()) == {state(5, most)}


def test_it_nests_in_all_forms_of_control_and_of_capture() -> None:
    """In a scan, a branch, another while_loop, a compiled and a captured function, a batch, and a session."""

    def last(x: Any, most: Any) -> Any:
        return counted(stepped, "A", x, most)[1]

    most = facade.tensor(MANY, dtype=facade.int32, device="wgpu")
    want = [state(5, MANY)] * 3
    assert lax.cond(most > 3, lambda x: last(x, most), lambda x: x, begin()).tolist() == want
    assert lax.cond(most < 3, lambda x: last(x, most), lambda x: x, begin()).tolist() == [5] * 3
    counts = facade.tensor([3, MANY, 0, 7], dtype=facade.int32, device="wgpu")
    final, all_of_them = lax.scan(lambda c, n: (last(c, n), c[0]), begin(), counts)
    assert final.tolist() == [state(5, MANY + 10)] * 3
    assert all_of_them.tolist() == [5, state(5, 3), state(5, MANY + 3), state(5, MANY + 3)]
    twice = lax.while_loop(lambda c: c[0] < 2, lambda c: (c[0] + 1, last(c[1], most)), (most * 0, begin()))
    assert twice[1].tolist() == [state(5, 2 * MANY)] * 3
    for wrap in (torchlette.jit, facade.compile):
        f = wrap(last)
        for n in (MANY, 4, MANY + 1, 0, MANY):
            assert f(begin(), facade.tensor(n, dtype=facade.int32, device="wgpu")).tolist() == [state(5, n)] * 3
    rows = facade.tensor([[1, 2], [3, 4], [5, 6]], dtype=facade.int32, device="wgpu")
    each = facade.tensor([MANY, 2, 70_000], dtype=facade.int32, device="wgpu")
    batch = facade.func.vmap(last)(rows, each)
    assert batch.tolist() == [[state(v, n) for v in row] for row, n in zip(rows.tolist(), each.tolist(), strict=True)]


def test_a_session_runs_it(tmp_path: Any) -> None:
    def last(x: Any, most: Any) -> Any:
        first = facade.zeros((), dtype=facade.int32, device=x.device)
        return lax.while_loop(lambda c: c[0] < most, lambda c: (c[0] + 1, stepped(c[1])), (first, x))[1]

    path = tmp_path / "loop.tl"
    most = facade.tensor(9, dtype=facade.int32, device="wgpu")
    save(export(last, (begin(), most)), path)
    for device in ("wgpu", "cpu"):
        with torchlette.device(device):
            s = torchlette.InferenceSession(load(path))
            names = [i.name for i in s.get_inputs()]
            for n in (MANY, 3, MANY + 5):
                values = [np.full(3, 5, dtype=np.int32), np.asarray(n, dtype=np.int32)]
                got = s.run(None, dict(zip(names, values, strict=True)))[0]
                assert np.asarray(got).tolist() == [state(5, n)] * 3


def test_its_tangents_are_those_of_the_loop_in_python() -> None:
    most = facade.tensor(MANY, dtype=facade.int32, device="wgpu")

    def decays(x: Any) -> Any:
        first = most * 0
        return lax.while_loop(lambda c: c[0] < most, lambda c: (c[0] + 1, facade.sin(c[1]) + 0.5), (first, x))[1]

    x = facade.tensor([0.3, 2.0], device="wgpu")
    value, tangent = facade.func.jvp(decays, (x,), (facade.ones_like(x),))
    fixed = 1.4973003
    torch.testing.assert_close(torch.tensor(value.tolist()), torch.full((2,), fixed))
    assert tangent.tolist() == pytest.approx([0, 0], abs=1e-30)


def test_a_gradient_of_a_million_scalars_that_runs_its_segments_again() -> None:
    """Segments of 1,025 iterations in a loop over them: together they have more than one kernel may have."""
    n = (1 << 20) + 1
    found = []
    for device in ("cpu", "wgpu"):
        x = facade.tensor(0.3, device=device, requires_grad=True)
        xs = ((facade.arange(n, device=device) % 7).float() * 0.05).requires_grad_()
        last, ys = lax.scan(lambda c, v: (facade.sin(c * 0.9 + v), c), x, xs)
        grads = facade.autograd.grad((ys * ys).sum() + last, (x, xs))
        found.append([torch.from_numpy(t.detach().to("cpu").numpy()) for t in (last, ys, *grads)])
    for got, want in zip(*found, strict=True):
        torch.testing.assert_close(got, want)


def test_loops_in_a_loop_of_one_workgroup_are_counted_together() -> None:
    """5,000 iterations with 40 of a loop in each."""
    rows = facade.rand(5000, 6, device="wgpu")

    def outer(c: Any, row: Any) -> Any:
        inner = lax.fori_loop(0, 40, lambda i, v: facade.tanh(v * 0.9 + row), c)
        return inner.cumsum(0) * 0.1, inner.sum()

    found = [lax.scan(outer, facade.ones(6, device=d), rows.to(d)) for d in ("cpu", "wgpu")]
    for got, want in zip(*[(a.to("cpu"), b.to("cpu")) for a, b in found][::-1], strict=True):
        torch.testing.assert_close(torch.from_numpy(got.numpy()), torch.from_numpy(want.numpy()), rtol=1e-4, atol=1e-4)


INTERRUPTED = """
import os, signal, threading, time
import torchlette.torch as facade
from torchlette import lax

def endless(f):
    first = (facade.zeros((), dtype=facade.int32, device="wgpu"), facade.ones(36, 36, device="wgpu"))
    return lax.while_loop(lambda c: c[0] >= 0, lambda c: ((c[0] + 1) % 7, f(c[1])), first, accept_path="PATH")[1]

kept = facade.arange(4.0, device="wgpu") * 2
last = endless(BODY)
threading.Timer(1, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
began = time.monotonic()
try:
    last.tolist()
except KeyboardInterrupt:
    pass
else:
    raise SystemExit("the loop has ended")
assert time.monotonic() - began < 10
del last
assert (kept + 1).tolist() == [1, 3, 5, 7]
n = lax.while_loop(lambda n: n < 100_000, lambda n: n + 1, facade.zeros((), dtype=facade.int32, device="wgpu"))
assert int(n) == 100_000
print("done")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="a process does not send itself SIGINT there")
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("A", "lambda x: x * 0.5 + 1"),
        ("B", "lambda x: x * 0.5 + x.mean()"),
        ("C", "lambda x: x.sort(1).values.flip(1)"),
    ],
)
def test_an_interrupt_ends_an_endless_loop_and_leaves_the_device(path: str, body: str) -> None:
    program = INTERRUPTED.replace("PATH", path).replace("BODY", body)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "done\n", done.stderr
