"""Fork, exit, threads, signals, forged handles and foreign callers leave the process whole."""

from __future__ import annotations

import ctypes
import os
import random
import subprocess
import sys
import tempfile
import textwrap
import threading
from pathlib import Path

import numpy as np
import pytest

import torchlette
from torchlette.testing.counters import levels


def child(code: str, timeout: float = 60) -> subprocess.CompletedProcess[str]:
    """Run a Python program in a fresh process."""
    with tempfile.TemporaryDirectory() as runtime:  # Vulkan drivers complain about its absence on standard error
        return subprocess.run(
            [sys.executable, "-c", textwrap.dedent(code)],
            env={**os.environ, "XDG_RUNTIME_DIR": runtime},
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )


needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")


@needs_fork
def test_fork_after_use() -> None:
    """In a forked child every call raises an error that names spawn; the parent is unharmed."""
    done = child("""
        import os, sys, warnings
        warnings.simplefilter("ignore")
        import torchlette
        x = torchlette.ones(3) + 1
        x.tolist()
        pid = os.fork()
        if pid == 0:
            bad = 0
            for use in (lambda: torchlette.ones(2), x.tolist, lambda: x + 1, torchlette.mark_step):
                try:
                    use()
                    bad = 1
                except RuntimeError as error:
                    bad |= "spawn" not in str(error)
            del x
            os._exit(bad)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        print((x * 2).tolist())
    """)
    assert done.stdout.strip() == "[4.0, 4.0, 4.0]", done.stdout + done.stderr


@needs_fork
def test_fork_while_kernels_are_compiled(device: str) -> None:
    """A child made meanwhile exits as it likes; the parent's plans get their fusion groups."""
    done = child(f"""
        import os, sys, time, warnings
        warnings.simplefilter("ignore")
        import torchlette
        torchlette.set_default_device({device!r})
        x = torchlette.ones(9)
        x.tolist()
        def run():
            y = x
            for k in range(20):
                y = (y * 0.5).sin()
            return y.tolist()
        first = [run() for _ in range(3)][0]
        pid = os.fork()
        if pid == 0:
            sys.exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
        while torchlette.stats()["plans_compiling"]:
            time.sleep(0.005)
            run()
        run()  # by the kernels that were compiled
        print(torchlette.stats()["plans_fused"], max(abs(a - b) for a, b in zip(first, run())) < 1e-6)
    """)
    assert done.stdout.strip() == f"{int(device != 'cpu')} True", done.stdout + done.stderr


def test_spawned_worker() -> None:
    """A spawned process has an engine of its own."""
    done = child("""
        import multiprocessing as mp
        import torchlette

        def work(n):
            import torchlette
            return (torchlette.ones(n) * 3).sum().item()

        if __name__ == "__main__":
            import sys, types
            torchlette.ones(2).tolist()
            with mp.get_context("spawn").Pool(1) as pool:
                print(pool.apply(torchlette.testing.counters.stats)["nodes_recorded"] >= 0)
    """)
    assert done.stdout.strip() == "True", done.stdout + done.stderr


EXITS = {
    "pending work": "x = torchlette.ones(1000, 1000) @ torchlette.ones(1000, 1000)",
    "live tensors in a cycle": "x = [torchlette.ones(3)]; x.append(x)",
    "module global": "import builtins; builtins.keep = torchlette.ones(3, requires_grad=True) * 2",
    "atexit reads": "import atexit; x = torchlette.ones(3); atexit.register(lambda: print(x.tolist()))",
    "a thread holds tensors": "import threading; t = threading.Thread(target=lambda: torchlette.ones(5).sum().item()); "
    "t.start()",
    "hook": "x = torchlette.ones(3, requires_grad=True); x.register_hook(lambda g: g); y = x * 2",
    "kernels in the making": "x = torchlette.ones(9)\nx.tolist()\nfor i in range(3):\n    y = x\n"
    "    for k in range(20):\n        y = (y * 0.5).sin()\n    y.tolist()",
    "sys.exit in tidy": "import contextlib\nwith torchlette.tidy():\n    y = torchlette.ones(3)\n    raise "
    "SystemExit(0)",
}


@pytest.mark.parametrize("name", EXITS)
def test_exit_is_clean(name: str, device: str) -> None:
    """The interpreter ends with status 0 and says nothing, whatever is alive."""
    done = child(f"import torchlette\ntorchlette.set_default_device({device!r})\n{EXITS[name]}\n")
    assert done.returncode == 0, (done.returncode, done.stderr)
    assert done.stderr == ""


def test_import_is_quick_and_bare() -> None:
    """Importing needs neither NumPy nor an adapter."""
    done = child("""
        import sys
        import torchlette
        assert "numpy" not in sys.modules and "torch" not in sys.modules
        print(torchlette.ones(2, device="cpu").tolist())
    """)
    assert done.stdout.strip() == "[1.0, 1.0]", done.stderr


@pytest.fixture(scope="module")
def library() -> ctypes.CDLL:
    """Return the engine's library, for callers that the extension does not protect."""
    found = [
        p
        for p in Path(torchlette.__file__).parent.iterdir()
        if p.name.startswith("libtorchlette") and p.suffix in (".so", ".dylib")
    ]
    assert found, "the package has no library"
    lib = ctypes.CDLL(str(found[0]))
    lib.tl_force.argtypes = [ctypes.c_uint64, ctypes.c_int64]
    lib.tl_read.argtypes = [ctypes.c_uint64, ctypes.c_void_p, ctypes.c_size_t]
    lib.tl_dispose.argtypes = lib.tl_keep.argtypes = [ctypes.c_uint64]
    lib.tl_release.argtypes = [ctypes.POINTER(ctypes.c_uint64), ctypes.c_int32]
    lib.tl_set_grad.argtypes = lib.tl_set_data.argtypes = [ctypes.c_uint64, ctypes.c_uint64]
    lib.tl_requires_grad.argtypes = [ctypes.c_uint64, ctypes.c_int32]
    lib.tl_hook.argtypes = [ctypes.c_uint64, ctypes.c_int32, ctypes.POINTER(ctypes.c_uint64)]
    return lib


def test_forged_handles(library: ctypes.CDLL) -> None:
    """Random, stale and zero handles are statuses; the engine's own tensors are untouched."""
    rng = random.Random(5)
    mine = torchlette.ones(4) + 1
    mine.tolist()
    before = levels()
    buffer = ctypes.create_string_buffer(64)
    word = ctypes.c_uint64()
    # Generations have the top bit set while a slot lives; these never do, so no live tensor can be hit.
    forged = [0, 1, 2**63 - 1, *(rng.getrandbits(63) for _ in range(2000))]
    for h in forged:
        assert library.tl_force(h, 10**9) > 0
        assert library.tl_read(h, buffer, 64) > 0
        assert library.tl_set_grad(h, 0) > 0
        assert library.tl_set_data(h, h) > 0
        assert library.tl_requires_grad(h, 1) > 0
        if h:
            assert library.tl_hook(h, 0, ctypes.byref(word)) > 0
        assert library.tl_dispose(h) >= 0
    many = (ctypes.c_uint64 * len(forged))(*forged)
    assert library.tl_release(many, len(forged)) == 0
    assert mine.tolist() == [2.0] * 4
    assert levels() == before


def test_threads_record_alike(device: str) -> None:
    """Many threads record at once; every value is right."""
    torchlette.set_busy_policy("wait")
    results: dict[int, list[float]] = {}
    failures: list[BaseException] = []

    def work(k: int) -> None:
        try:
            x = torchlette.full((8,), float(k), device=device)
            for _ in range(50):
                x = x * 1.0 + 1.0
            results[k] = x.tolist()
        except BaseException as error:
            failures.append(error)

    try:
        threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    finally:
        torchlette.set_busy_policy("raise")
    assert not failures, failures
    assert results == {k: [k + 50.0] * 8 for k in range(8)}


def test_grad_mode_is_restored_by_errors(device: str) -> None:
    """An exception inside no_grad leaves the mode as it was."""
    with pytest.raises(ZeroDivisionError), torchlette.no_grad():
        raise ZeroDivisionError
    assert torchlette.is_grad_enabled()
    x = torchlette.ones(2, device=device, requires_grad=True)
    assert (x * 2).requires_grad


def test_failed_calls_record_nothing(device: str) -> None:
    """Thousands of refused calls leave the levels where they were."""
    a, b = torchlette.ones(3, device=device), torchlette.ones(4, device=device)
    base = levels()
    for _ in range(2000):
        with pytest.raises(RuntimeError):
            a + b
    assert levels() == base
    np.testing.assert_array_equal((a + 1).numpy(), np.full(3, 2.0, dtype="float32"))


def test_data_error_names_the_line(device: str) -> None:
    """An index that a kernel finds out of range raises at the read with the line that recorded it."""
    x = torchlette.arange(5, device=device).float()
    i = torchlette.arange(3, device=device) + 4
    y = x.index_select(0, i)  # recorded here
    with pytest.raises(IndexError, match=r"test_process\.py"):
        y.tolist()
    assert (x + 1).sum().item() == 15.0
