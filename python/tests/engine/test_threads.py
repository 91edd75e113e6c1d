"""Threads take turns, and each has its own modes, as in PyTorch."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy
import pytest
import torch as oracle

import torchlette
import torchlette.torch as torch


def in_threads(count: int, work: Callable[[int], Any]) -> list[Any]:
    """Run ``work`` in threads that begin together; what each returned or raised, in order."""
    out: list[Any] = [None] * count
    gate = threading.Barrier(count)

    def run(k: int) -> None:
        gate.wait()
        try:
            out[k] = work(k)
        except BaseException as error:
            out[k] = error

    threads = [threading.Thread(target=run, args=(k,), daemon=True) for k in range(count)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(120)
        assert not t.is_alive(), "a thread hangs"
    return out


def in_thread(work: Callable[[], Any]) -> Any:
    """What ``work`` gives in a new thread."""
    (out,) = in_threads(1, lambda _: work())
    if isinstance(out, BaseException):
        raise out
    return out


def test_eight_threads_compute_and_read(device: str) -> None:
    """PyTorch's code waits for its turn: no error, and every value is right."""

    def work(k: int) -> float:
        x = torch.full((16, 16), float(k), device=device)
        total = 0.0
        for _ in range(20):
            total += (x @ x).sum().item()
        return total

    assert in_threads(8, work) == [20 * 16.0**3 * k * k for k in range(8)]


def test_eight_threads_train(device: str) -> None:
    """Backward walks, hooks that release the lock of Python, and optimizer steps of several threads."""

    def work(k: int) -> float:
        w = torch.full((4,), float(k + 1), device=device, requires_grad=True)
        w.register_hook(lambda g: time.sleep(0.001))
        optimizer = torch.optim.SGD([w], lr=0.25)
        for _ in range(5):
            optimizer.zero_grad()
            (w * w).sum().backward()
            optimizer.step()
        return w[0].item()

    assert in_threads(8, work) == [(k + 1) / 2**5 for k in range(8)]


@pytest.fixture
def brief_turns_of_the_interpreter() -> Iterator[None]:
    """Let Python switch threads after 10 us: in its usual 5 ms one thread makes hundreds of short reads."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(interval)


@pytest.mark.usefixtures("brief_turns_of_the_interpreter")
def test_waiting_threads_take_turns() -> None:
    """While all of them compute, no thread gets more than a few turns before another one."""
    counts, computing = [0] * 4, [False] * 4
    done, begin = threading.Event(), threading.Barrier(4)

    def work(k: int) -> int:
        x = torch.full((64, 64), 0.01, device="cpu")
        (x @ x)[0, 0].item()
        begin.wait(60)
        while not done.is_set():
            (x @ x)[0, 0].item()
            computing[k] = True
            counts[k] += all(computing)  # a loaded machine may start a thread late
            if sum(counts) >= 400:
                done.set()
        return counts[k]

    turns = in_threads(4, work)
    assert min(turns) >= 20, turns


def test_other_code_gets_the_error_unless_told_to_wait() -> None:
    """The policy applies to code that has not imported torchlette.torch, and to tensors created there."""
    inside, leave = threading.Event(), threading.Event()

    def hold() -> None:
        w = torch.ones(2, requires_grad=True)

        def hook(g: Any) -> None:
            inside.set()
            leave.wait(60)

        w.register_hook(hook)
        (w * w).sum().backward()

    source = "def read(x):\n    return x.sum().item()\n"
    core: dict[str, Any] = {"torchlette": torchlette}
    exec(source, core)
    exec("import torchlette\nx = torchlette.ones(3)", core)
    holder = threading.Thread(target=hold)
    holder.start()
    assert inside.wait(60)
    results: list[float] = []
    try:
        with pytest.raises(torchlette.EngineBusyError):
            core["read"](core["x"])
        torchlette.set_busy_policy("wait")
        waits = [
            threading.Thread(target=lambda: results.append(core["read"](core["x"]))),
            threading.Thread(target=lambda: results.append(core["read"](torch.ones(3)))),
        ]
        waits[0].start()
        time.sleep(0.1)
        torchlette.set_busy_policy("raise")
        waits[1].start()
        waits[1].join(0.2)
        assert all(t.is_alive() for t in waits)
    finally:
        leave.set()
        holder.join(60)
        torchlette.set_busy_policy("raise")
    for t in waits:
        t.join(60)
    assert results == [3.0, 3.0]


@pytest.mark.skipif(not hasattr(signal, "SIGINT") or os.name == "nt", reason="signals of POSIX")
def test_an_interrupt_ends_a_wait() -> None:
    """Ctrl-C while the main thread stands in line raises KeyboardInterrupt at once; the line goes on."""
    code = """
        import os, signal, threading, time
        import torchlette.torch as torch
        inside, leave = threading.Event(), threading.Event()
        def hold():
            w = torch.ones(2, requires_grad=True)
            w.register_hook(lambda g: (inside.set(), leave.wait(60), None)[2])
            (w * w).sum().backward()
        t = threading.Thread(target=hold); t.start(); inside.wait()
        threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        began = time.monotonic()
        try:
            torch.ones(3).sum().item()
        except KeyboardInterrupt:
            print("interrupted", time.monotonic() - began < 10)
        leave.set(); t.join()
        print(torch.ones(3).sum().item())
    """
    program = [sys.executable, "-c", textwrap.dedent(code)]
    done = subprocess.run(program, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.split("\n")[:2] == ["interrupted True", "3.0"], done.stderr


def test_python_runs_while_a_thread_stands_in_line() -> None:
    """The lock of Python is released: a third thread counts on."""
    inside, leave, count = threading.Event(), threading.Event(), 0
    w = torch.ones(2, requires_grad=True)
    w.register_hook(lambda g: (inside.set(), leave.wait(60), None)[2])
    threads = [threading.Thread(target=lambda: (w * w).sum().backward())]
    threads[0].start()
    assert inside.wait(60)
    threads.append(threading.Thread(target=lambda: torch.ones(3).sum().item()))
    threads[1].start()
    for _ in range(100_000):
        count += 1
    leave.set()
    for t in threads:
        t.join(60)
        assert not t.is_alive()


@contextlib.contextmanager
def default_device(library: Any, device: str) -> Iterator[None]:
    """PyTorch's set_default_device, undone."""
    library.set_default_device(device)
    try:
        yield
    finally:
        library.set_default_device(None)


#: A mode's context, and what tells it; of both libraries.
MODES: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "no_grad": (lambda t: t.no_grad(), lambda t: t.is_grad_enabled()),
    "recorded": (lambda t: t.no_grad(), lambda t: (t.ones(1, requires_grad=True) * 2).requires_grad),
    "inference_mode": (lambda t: t.inference_mode(), lambda t: (t.is_inference_mode_enabled(), t.is_grad_enabled())),
    "autocast": (lambda t: t.autocast("cpu"), lambda t: product_dtype(t)),
    "is_autocast_enabled": (lambda t: t.autocast("cpu"), lambda t: t.is_autocast_enabled("cpu")),
    "saved_tensors_hooks": (
        lambda t: t.autograd.graph.saved_tensors_hooks(lambda x: x * 100, lambda x: x),
        lambda t: gradient_of_square(t),
    ),
}


def product_dtype(t: Any) -> str:
    x = t.ones(2, 2, device="cpu")
    return str((x @ x).dtype)


def gradient_of_square(t: Any) -> float:
    x = t.ones(1, device="cpu", requires_grad=True)
    x.exp().sum().backward()
    return round(x.grad.item(), 2)


@pytest.mark.parametrize("name", MODES)
def test_modes_are_of_a_thread(name: str) -> None:
    """A new thread begins with the defaults, whatever another one has set; its own modes end with it."""
    context, ask = MODES[name]
    seen = []
    for library in (oracle, torch):
        outside = ask(library)
        with context(library):
            inside, other = ask(library), in_thread(lambda library=library: ask(library))

            def nested(library: Any = library) -> Any:
                with context(library):
                    return ask(library)

            both = in_thread(nested)
            still = ask(library)
        left = context(library)

        def abandons(library: Any = library, left: Any = left) -> None:
            left.__enter__()

        in_thread(abandons)
        fresh = in_thread(lambda library=library: ask(library))
        seen.append((outside, inside, other, both, still, ask(library), fresh))
    assert seen[1] == seen[0]
    outside, inside, other, both, still, after, fresh = seen[1]
    assert outside == other == after == fresh
    assert inside == both == still != outside


def test_the_default_device_is_of_a_thread() -> None:
    """As PyTorch's: set_default_device and ``with torch.device`` hold in their thread."""
    for library, device in ((oracle, "meta"), (torch, "wgpu")):
        first = str(library.get_default_device())
        with default_device(library, device):
            assert str(library.get_default_device()).startswith(device)
            assert in_thread(lambda library=library: str(library.get_default_device())) == first
        with library.device(device):
            assert str(library.get_default_device()).startswith(device)
            assert in_thread(lambda library=library: str(library.get_default_device())) == first


def test_the_default_dtype_is_of_the_process() -> None:
    """As PyTorch's."""
    for library in (oracle, torch):
        library.set_default_dtype(library.float64)
        try:
            assert in_thread(lambda library=library: library.ones(1).dtype) == library.float64
        finally:
            library.set_default_dtype(library.float32)


def test_modes_hold_while_threads_alternate() -> None:
    """Recording in two threads at once, one of them under no_grad, in every interleaving that Python makes."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:

        def work(k: int) -> set[bool]:
            x = torch.ones(2, requires_grad=True)
            seen = set()
            with torch.no_grad() if k % 2 else contextlib.nullcontext():
                for _ in range(2000):
                    seen.add((x * 2 + 1).requires_grad)
            return seen

        assert in_threads(4, work) == [{True}, {False}, {True}, {False}]
    finally:
        sys.setswitchinterval(interval)


def test_a_tidy_scope_is_of_a_thread() -> None:
    """Another thread's tensors are not disposed of at its end."""
    kept = []
    torchlette.tidy(lambda: in_thread(lambda: kept.append(torch.ones(2))))
    assert kept[0].tolist() == [1.0, 1.0]


def recordings() -> dict[str, Callable[[Callable[[], None]], Any]]:
    """Ways to record a function that calls another one in between; each gives what the function makes of ones."""
    ones = torchlette.ones(3, device="cpu")

    def body(call: Callable[[], None]) -> Callable[[Any], Any]:
        def f(x: Any) -> Any:
            y = x + 1
            call()
            return y * 2

        return f

    def scanned(call: Callable[[], None]) -> Any:
        f = body(call)
        return torchlette.lax.scan(lambda carry, x: (f(carry), x), ones, torchlette.ones(1, 1, device="cpu"))[0]

    return {
        "export": lambda call: torchlette.export.export(body(call), (ones,)).module()(ones),
        "jit": lambda call: torchlette.jit(body(call))(ones),
        "body of a loop": scanned,
    }


@pytest.mark.parametrize("kind", ["export", "jit", "body of a loop"])
def test_threads_record_nothing_in_the_trace_of_another(kind: str) -> None:
    """Operators, recordings and sessions of a thread wait until another one has recorded its function."""
    x = torchlette.ones(2, device="cpu")
    program = torchlette.export.export(lambda a: a + 3, (x,), dynamic_shapes=({0: torchlette.export.Dim("n")},))
    session = torchlette.InferenceSession(program)
    (port,) = session.get_inputs()
    tracing, jobs = threading.Event(), threading.Barrier(5)

    def call() -> None:
        if not tracing.is_set():
            tracing.set()
            jobs.wait()
            time.sleep(0.1)  # the other threads get to what they do

    def trace() -> Any:
        return recordings()[kind](call).tolist()

    def new_size() -> Any:
        return session.run(None, {port.name: numpy.ones(5, "f")})[0].tolist()

    def open_a_session() -> Any:
        return torchlette.InferenceSession(program).run(None, {port.name: numpy.ones(2, "f")})[0].tolist()

    def record_too() -> Any:
        return torchlette.export.export(lambda a: a * 5, (x,)).module()(x).tolist()

    works = [trace, lambda: (x + 1).tolist(), new_size, open_a_session, record_too]

    def work(k: int) -> Any:
        if k > 0:
            tracing.wait()
            jobs.wait()
        return works[k]()

    torchlette.set_busy_policy("wait")
    try:
        assert in_threads(5, work) == [[4.0] * 3, [2.0] * 2, [4.0] * 5, [4.0] * 2, [5.0] * 2]
    finally:
        torchlette.set_busy_policy("raise")


def test_a_session_in_a_traced_function_is_refused_for_a_new_size() -> None:
    """The thread that traces would wait for itself."""
    session = torchlette.InferenceSession(
        torchlette.export.export(lambda a: a + 3, (torchlette.ones(2, device="cpu"),))
    )
    (port,) = session.get_inputs()

    def f(a: Any) -> Any:
        session.run(None, {port.name: numpy.ones(2, "f")})
        return a

    with pytest.raises(torchlette.EngineBusyError, match="while a function is captured"):
        torchlette.export.export(f, (torchlette.ones(2, device="cpu"),))
    assert session.run(None, {port.name: numpy.ones(2, "f")})[0].tolist() == [4.0, 4.0]
