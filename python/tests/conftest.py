"""Fixtures of all tests: devices, seeds, and the check for leaked engine objects."""

from __future__ import annotations

import gc
import os
import random
import signal
import sys
import threading
from collections.abc import Iterator

# Before the engine looks for adapters: tests run on the software adapter unless the caller names another.
os.environ.setdefault("TORCHLETTE_ADAPTER", "software")

import numpy as np
import pytest

import torchlette
from torchlette.testing import counters

DEVICES = ("cpu", "wgpu")
SEED = 20260101
PASSED = pytest.StashKey[bool]()


def pytest_configure(config: pytest.Config) -> None:
    """Declare the markers. A shell ignores SIGINT for what it starts in the background, and processes of tests inherit
    that: it is undone.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)
    config.addinivalue_line("markers", "keeps_tensors(reason): leaves engine objects behind by design; says why")


_frozen_modules = 0


def _freeze_imports() -> None:
    """Freeze the objects of modules imported since the last call: the collection after a test then skips them."""
    global _frozen_modules
    if len(sys.modules) != _frozen_modules:
        gc.collect()
        gc.freeze()
        _frozen_modules = len(sys.modules)


def _set_oracle_up() -> None:
    """Take from PyTorch what slows the oracle, or depends on the machine. Its threads spin, and two processes of tests
    share the cores. ``manual_seed`` formats the stack for each kind of accelerator that is missing. A sample of its
    operator database walks the stack in search of a ``unittest``, which takes 0.1 s. With the package ``opt_einsum``
    ``einsum`` multiplies in another order.
    """
    torch = sys.modules.get("torch")
    if torch is None:
        return
    torch.set_num_threads(1)
    torch.backends.opt_einsum.enabled = False
    torch.manual_seed = lambda seed: torch.default_generator.manual_seed(int(seed))
    for module in ("common_utils", "opinfo.core"):
        if (internal := sys.modules.get(f"torch.testing._internal.{module}")) is not None:
            internal.extract_test_fn = lambda: None


def pytest_collection_finish(session: pytest.Session) -> None:
    """Freeze what the collection of the tests imported."""
    _set_oracle_up()
    _freeze_imports()


def _wgpu_missing() -> str | None:
    """Return why the WebGPU device cannot be used, or None."""
    try:
        torchlette.ones(2, device="wgpu").tolist()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


_missing: list[str | None] = []


def _why_no_wgpu() -> str | None:
    if not _missing:
        _missing.append(_wgpu_missing())
    return _missing[0]


def _required() -> bool:
    return "1" in (os.environ.get("CI"), os.environ.get("TORCHLETTE_REQUIRE_WGPU")) or os.environ.get("CI") == "true"


@pytest.fixture
def wgpu() -> None:
    """Skip the test without a WebGPU device; where it must exist (CI), its absence is a failure."""
    why = _why_no_wgpu()
    if why is not None and _required():
        pytest.fail(f"this run requires the WebGPU device: {why}")
    if why is not None:
        pytest.skip(f"no WebGPU device here: {why}")


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest) -> str:
    """Run the test on each device."""
    if request.param == "wgpu":
        request.getfixturevalue("wgpu")
    return request.param


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]):
    """Note on the item whether its body passed: a failed test's traceback keeps its tensors alive."""
    report = yield
    if report.when == "call":
        item.stash[PASSED] = report.passed
    return report


@pytest.fixture(autouse=True)
def _clean(request: pytest.FixtureRequest) -> Iterator[None]:
    """Give every test the same seeds, and require the engine's levels to return to base after it."""
    random.seed(SEED)
    np.random.seed(SEED)
    torchlette.manual_seed(SEED)
    before = counters.levels(collect=False)
    yield
    if request.node.stash.get(PASSED, False) and not request.node.get_closest_marker("keeps_tensors"):
        rose = counters.leaked(before, counters.levels(collect=False)) and counters.leaked(before, counters.levels())
        assert not rose, f"the test left behind: {rose}"
        _freeze_imports()
