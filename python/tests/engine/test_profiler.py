"""torchlette.profiler names operations, its times add up, its traces are valid, and off it leaves nothing behind."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
import torch
import torchlette.torch.profiler  # noqa: F401

import torchlette
import torchlette.torch as facade
from torchlette import nn, profiler
from torchlette.profiler import profile, record_function


class Net(nn.Module):
    """Two layers with a block between."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, 16)
        self.rest = nn.Sequential(nn.ReLU(), nn.Linear(16, 4))

    def forward(self, x: torchlette.Tensor) -> torchlette.Tensor:
        x = self.first(x)
        with record_function("twice"):
            x = x * 2
        return self.rest(x)


def step(net: Net, optimizer: torchlette.optim.Optimizer, x: torchlette.Tensor) -> None:
    """Make a training step."""
    optimizer.zero_grad()
    net(x).square().mean().backward()
    optimizer.step()


@pytest.fixture
def prof(device: str) -> profile:
    """Return the profile of two steps, after one outside it."""
    net = Net().to(device)
    optimizer = torchlette.optim.AdamW(net.parameters())
    x = torchlette.ones(32, 8, device=device)
    step(net, optimizer, x)
    with profile() as p:
        for _ in range(2):
            step(net, optimizer, x)
    del net, optimizer, x
    return p


def test_names(prof: profile, device: str) -> None:
    """Operations, modules with their paths, blocks and lines are named, forward and backward."""
    ops = {a.key: a for a in prof.key_averages()}
    assert ops["adam_step"].count == 8, "four parameters, two steps"
    assert ops["matmul"].count == 10, "two forward, three backward, two steps"
    first, last = 2 * 32 * 8 * 16, 2 * 32 * 16 * 4
    bias = (
        32 * 16 if device == "wgpu" else 0
    )  # the first bias' gradient comes with its weights' product; the last has too few columns
    assert ops["matmul"].flops == 2 * (2 * first + 3 * last + bias), "the input needs no gradient"
    modules = {a.key for a in prof.key_averages("module")}
    assert {
        "Net.first",
        "Net.rest.1",
        "twice",
        "Net.first backward",
        "Net.rest.0 backward",
        "twice backward",
        "(outside)",
    } <= modules
    operations = [o for e in prof.events() for o in (e.members or (e,)) + e.epilogue]
    assert {o.scope for o in operations if o.name == "relu"} == {("Net", "Net.rest", "Net.rest.0")}
    assert all("test_profiler.py" in o.site for o in operations if o.name == "relu")
    with pytest.raises(ValueError, match="group_by"):
        prof.key_averages("shape")


def test_times_add_up(prof: profile) -> None:
    """Sums by any key are the sum of the events, and the table shows them."""
    events = prof.events()
    total = sum(e.duration_ns for e in events) / 1e3
    assert total > 0
    assert all(e.duration_ns >= 0 and e.bytes > 0 for e in events)
    for key in ("op", "kernel", "module", "site"):
        averages = prof.key_averages(key)
        assert sum(a.device_time_total for a in averages) == pytest.approx(total)
        several = sum(len(e.members) for e in events) if key in ("module", "site") else 0
        assert len(events) <= averages.total_average().count <= len(events) + several
    table = prof.key_averages().table(sort_by="self_cuda_time_total", row_limit=3, header="steps")
    lines = table.splitlines()
    assert lines[0] == "steps"
    assert len(lines) == 9
    slowest = max(prof.key_averages(), key=lambda a: a.device_time_total)
    assert lines[4].startswith(slowest.key)
    with pytest.raises(ValueError, match="sort_by"):
        prof.key_averages().table(sort_by="memory")


def test_cpu_times_lie_in_the_wall_time() -> None:
    """On the CPU the steps follow each other within the block."""
    x = torchlette.ones(1 << 20)
    torchlette.realize(x)
    begin = time.time_ns()
    with profile() as p:
        for _ in range(5):
            x = x * 1.5
            x[0].item()
    end = time.time_ns()
    events = [e for e in p.events() if "mul" in e.name]
    assert len(events) == 5
    assert sum(e.duration_ns for e in p.events()) <= end - begin
    for a, b in zip(events, events[1:], strict=False):
        assert begin <= a.start_ns
        assert a.start_ns + a.duration_ns <= b.start_ns <= end
    assert events[0].bytes == 2 * 4 << 20
    assert events[0].flops == 1 << 20


@pytest.mark.parametrize("suffix", ["json", "json.gz"])
def test_chrome_trace(prof: profile, tmp_path: Path, suffix: str) -> None:
    """The trace is what the format asks for: complete events with numbers, in named processes."""
    import gzip

    path = tmp_path / f"trace.{suffix}"
    prof.export_chrome_trace(path)
    text = gzip.decompress(path.read_bytes()).decode() if suffix.endswith("gz") else path.read_text()
    trace = json.loads(text)["traceEvents"]
    processes = {e["pid"] for e in trace if e["ph"] == "M" and e["name"] == "process_name"}
    complete = [e for e in trace if e["ph"] == "X"]
    assert len(processes) + len(complete) == len(trace)
    for e in complete:
        assert e["name"]
        assert e["pid"] in processes
        assert e["ts"] > 0
        assert e["dur"] >= 0
    assert sum(e["cat"] == "kernel" for e in complete) == len(prof.events())
    assert {"twice", "Net.first", "Net"} <= {e["name"] for e in complete if e["cat"] != "kernel"}


def test_off_leaves_nothing(device: str) -> None:
    """Outside a profile nothing is recorded, modules call as before, and a second profile starts empty."""
    assert "__call__" not in vars(nn.Module)
    with profile() as p:
        assert "__call__" in vars(nn.Module)
        with pytest.raises(RuntimeError, match="another profile"):
            profile().start()
    assert p.events() == []
    assert "__call__" not in vars(nn.Module)
    with record_function("outside"):
        torchlette.ones(4, device=device).add(1).tolist()
    assert json.loads(torchlette._C._info("profile")) == []
    with pytest.raises(RuntimeError, match="without start"):
        profile().stop()


def test_facade_and_decorator() -> None:
    """``torch.profiler`` has the same names, and record_function decorates."""
    assert facade.profiler.profile is profiler.profile

    @facade.profiler.record_function("decorated")
    def work() -> list[float]:
        return (torchlette.ones(4) + 1).tolist()

    with facade.profiler.profile(
        activities=[facade.profiler.ProfilerActivity.CPU], on_trace_ready=lambda p: seen.append(p)
    ) as p:
        seen: list[profile] = []
        work()
        work()
    assert seen == [p]
    assert {e.scope for e in p.events()} == {("decorated",)}


def test_an_error_inside_ends_the_profile() -> None:
    """A profile left by an exception is over."""
    with pytest.raises(ZeroDivisionError), profile():
        raise ZeroDivisionError
    with profile():
        pass


def test_schedule(tmp_path: Path) -> None:
    """Steps are timed in PyTorch's cycles; each cycle is handed on once, with the steps of its own."""
    for args in (
        dict(wait=1, warmup=1, active=2, repeat=2),
        dict(wait=0, warmup=0, active=1),
        dict(wait=2, warmup=0, active=1, skip_first=1),
        dict(wait=2, warmup=1, active=1, skip_first=1, skip_first_wait=1, repeat=1),
    ):
        want, got = (lib.profiler.schedule(**args) for lib in (torch, torchlette))
        assert [got(i).name for i in range(12)] == [want(i).name for i in range(12)], args
    ready: list[tuple[int, int]] = []
    write = profiler.tensorboard_trace_handler(str(tmp_path / "traces"), "worker")

    def on_ready(p: profile) -> None:
        ready.append((p.step_num, sum("exp" in e.name for e in p.events())))
        write(p)

    with profile(schedule=profiler.schedule(wait=1, warmup=1, active=2), on_trace_ready=on_ready) as p:
        for _ in range(7):
            torchlette.ones(4).exp().tolist()
            p.step()
    assert ready == [(4, 2), (7, 1)]
    assert len(list((tmp_path / "traces").glob("worker.*.pt.trace.json"))) == 2
    with pytest.raises(AssertionError):
        profiler.schedule(wait=0, warmup=0, active=0)
