"""Checks of ``torch.cuda`` that need a process in which the software adapter counts; test_cuda.py runs them.

Run as a program it prints, as JSON, for each check its name and its error.
"""

from __future__ import annotations

import io
import json
import traceback
from collections.abc import Callable

import torchlette
import torchlette.torch as torch


def the_default_device_is_the_cpu() -> None:
    assert torch.zeros(2).device == torch.tensor([1.0]).device == torch.device("cpu")
    assert torch.nn.Linear(2, 2).weight.device.type == torch.get_default_device().type == "cpu"
    assert torch.arange(3).device.type == "cpu"


def the_common_script_runs_on_one_device() -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    assert device == "cuda"
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1)).to(device)
    optimizer = torch.optim.AdamW(model.parameters())
    x = torch.randn(3, 4).to(device)
    before = model(x).mean().item()
    for _ in range(2):
        optimizer.zero_grad()
        loss = model(x).mean()
        loss.backward()
        optimizer.step()
    assert model(x).mean().item() < before
    found = [x, loss, *model.parameters(), *(p.grad for p in model.parameters())]
    assert {t.device.type for t in found} == {"cuda"}


def devices_have_pytorch_names() -> None:
    t = torch.ones(2, device="cuda")
    assert t.is_cuda and t.device == torch.device("cuda:0") and str(t.device) == "cuda:0" and t.get_device() == 0
    assert torch.device("cuda") != t.device and torch.device("cuda").index is None
    assert t.device == torch.device("wgpu") and hash(t.device) == hash(torch.device("wgpu:0"))
    assert (t + 1).device.type == "cuda" and not t.cpu().is_cuda and t.to(0) is t.to("cuda") is t
    assert torch.ones(2).cuda(0).cuda().device.type == torch.nn.Linear(1, 1).cuda().weight.device.type == "cuda"
    assert t.type() == "torch.cuda.FloatTensor" and isinstance(t, torch.cuda.FloatTensor)
    assert torch.cuda.LongTensor([1, 2]).is_cuda and torch.ones(1).type("torch.cuda.HalfTensor").is_cuda
    assert repr(t) == "tensor([1., 1.], device='cuda:0')"
    assert torchlette.ones(1, device="wgpu").device.type == "wgpu"
    assert torch.device(0).type == "cuda"


def default_devices_can_be_cuda() -> None:
    with torch.device("cuda"):
        assert torch.ones(2).is_cuda and torch.tensor(1).is_cuda and torch.nn.Linear(1, 1).weight.is_cuda
        with torch.device("cpu"):
            assert not torch.ones(2).is_cuda
    assert not torch.ones(2).is_cuda
    torch.set_default_device("cuda")
    assert torch.rand(2).is_cuda
    torch.set_default_device(None)
    assert not torch.rand(2).is_cuda


def gradients_are_on_the_device() -> None:
    w, seen = torch.ones(2, device="cuda", requires_grad=True), []
    w.register_hook(seen.append)
    (grad,) = torch.autograd.grad((w * 3).sum(), w)
    assert grad.device.type == seen[0].device.type == "cuda" and grad.tolist() == [3, 3]


def float64_names_the_way_out() -> None:
    for make in (lambda: torch.zeros(2, dtype=torch.float64, device="cuda"), lambda: torch.zeros(2).double().cuda()):
        try:
            make()
        except TypeError as error:
            assert ".to(torch.float32)" in str(error) and "CPU" in str(error)
        else:
            raise AssertionError("no error")


def wrong_devices_raise() -> None:
    x = torch.ones(1)
    for make in (lambda: x.to("cuda:9"), lambda: torch.cuda.set_device(9), lambda: x.cuda(9)):
        try:
            make()
        except RuntimeError as error:
            assert "invalid device ordinal" in str(error)
        else:
            raise AssertionError("no error")


def queries_describe_the_adapter() -> None:
    assert torch.cuda.device_count() == 1 and torch.cuda.current_device() == 0 and torch.cuda.is_initialized()
    name = torch.cuda.get_device_name(0)
    assert name and torch.cuda.get_device_properties("cuda").name == name
    assert torch.cuda.get_device_capability() == (0, 0) and torch.backends.cuda.is_built()
    free, total = torch.cuda.mem_get_info()
    assert 0 < free <= total == torch.cuda.get_device_properties(0).total_memory
    assert torch.accelerator.current_accelerator().type == "cuda" and torch.accelerator.device_count() == 1
    with torch.cuda.device(0), torch.cuda.device(None), torch.cuda.device_of(torch.ones(1)):
        assert torch.cuda.current_device() == 0


def memory_is_counted() -> None:
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    t = torch.rand(1 << 18, device="cuda")
    torchlette.realize(t)
    torch.cuda.synchronize()
    assert torch.cuda.memory_allocated() - before >= 1 << 20
    assert torch.cuda.max_memory_allocated() >= torch.cuda.memory_allocated() and torch.cuda.memory_reserved() > 0
    del t
    torch.cuda.empty_cache()


def events_time_and_streams_keep_the_order() -> None:
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    side = torch.cuda.Stream()
    start.record()
    with torch.cuda.stream(side):
        side.wait_stream(torch.cuda.current_stream())
        y = torch.ones(4, device="cuda") * 2
    torch.cuda.current_stream().wait_stream(side)
    end.record()
    end.synchronize()
    assert start.elapsed_time(end) > 0 and end.query() and y.sum().item() == 8
    assert torch.cuda.current_stream() == torch.cuda.default_stream("cuda")
    try:
        torch.cuda.Event().elapsed_time(end)
    except ValueError as error:
        assert "enable_timing" in str(error)


def autocast_and_scaler_work() -> None:
    a = torch.ones(2, 2, device="cuda")
    with torch.autocast("cuda"):
        assert (a @ a).dtype is torch.float16 and torch.is_autocast_enabled()
        assert torch.nn.functional.softmax(a.half(), 0).dtype is torch.float32
    with torch.autocast(device_type=a.device.type, dtype=torch.bfloat16):
        assert (a @ a).dtype is torch.bfloat16
    scaler = torch.amp.GradScaler("cuda", init_scale=8.0)
    assert scaler.is_enabled() and scaler.scale(a)[0, 0].item() == 8
    with torch.cuda.amp.autocast():
        assert (a @ a).dtype is torch.float16


def captures_run_at_once() -> None:
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = torch.ones(2, device="cuda") + 1
    assert y.tolist() == [2, 2]
    try:
        graph.replay()
    except NotImplementedError as error:
        assert "make_graphed_callables" in str(error)
    else:
        raise AssertionError("no error")


def files_and_seeds_go_on() -> None:
    file = io.BytesIO()
    torch.save({"w": torch.ones(2, device="cuda")}, file)
    file.seek(0)
    assert torch.load(file)["w"].is_cuda
    file.seek(0)
    assert not torch.load(file, map_location="cpu")["w"].is_cuda
    torch.cuda.manual_seed_all(3)
    assert torch.cuda.initial_seed() == torch.cuda.random.initial_seed() == 3
    first = torch.rand(2, device="cuda")
    torch.cuda.manual_seed(3)
    assert torch.equal(first, torch.rand(2, device="cuda")) and len(torch.cuda.get_rng_state_all()) == 1


def errors_name_the_gpu_as_the_script_does() -> None:
    for call in (
        lambda: torch.ones(2, device="cuda") + torch.ones(2),
        lambda: torch.nn.Linear(2, 2).cuda()(torch.ones(1, 2)),
        lambda: torch.ones(2, device="cuda").double(),
    ):
        try:
            call()
        except (RuntimeError, TypeError) as error:
            assert "cuda:0" in str(error) and "wgpu" not in str(error), error
        else:
            raise AssertionError("no error")


def streams_may_be_recorded() -> None:
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        x = torch.ones(2, device="cuda") * 2
    torch.cuda.current_stream().wait_stream(side)
    assert x.record_stream(side) is None and x.tolist() == [2.0, 2.0]
    try:
        torch.ones(2).record_stream(side)
    except NotImplementedError as error:
        assert "on cpu" in str(error)
    else:
        raise AssertionError("no error")


def memory_is_described() -> None:
    x = torch.rand(1 << 18, device="cuda")
    torchlette.realize(x)
    torch.cuda.synchronize()
    nested = torch.cuda.memory_stats_as_nested_dict()
    assert nested["allocated_bytes"]["all"]["current"] == torch.cuda.memory_allocated() >= x.nbytes
    assert torch.accelerator.memory_allocated() == torch.cuda.memory_allocated()
    lines = torch.cuda.memory_summary().splitlines()
    assert len(lines) == 3 and float(lines[1].split()[2]) >= 1.0


CHECKS: tuple[Callable[[], None], ...] = (
    the_default_device_is_the_cpu,
    the_common_script_runs_on_one_device,
    devices_have_pytorch_names,
    default_devices_can_be_cuda,
    gradients_are_on_the_device,
    float64_names_the_way_out,
    wrong_devices_raise,
    queries_describe_the_adapter,
    memory_is_counted,
    memory_is_described,
    errors_name_the_gpu_as_the_script_does,
    streams_may_be_recorded,
    events_time_and_streams_keep_the_order,
    autocast_and_scaler_work,
    captures_run_at_once,
    files_and_seeds_go_on,
)


def main() -> None:
    """Run every check and print the errors."""
    errors = {}
    for check in CHECKS:
        try:
            check()
            errors[check.__name__] = ""
        except Exception:
            errors[check.__name__] = traceback.format_exc()
    print(json.dumps(errors))


if __name__ == "__main__":
    main()
