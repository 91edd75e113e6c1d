"""Steps of GradScaler whose gradients may overflow: parameters and state are PyTorch's, and nothing is read."""

from __future__ import annotations

import copy
import io
import math
from typing import Any

import pytest
import torch
from oracle import to_torch
from test_trajectories import OPTIMIZERS, assert_same_parameters, batches, twins

import torchlette as tl
import torchlette.nn
import torchlette.optim

STEPS = 6


def train(
    lib: Any, model: Any, optimizer: Any, scaler: Any, poison: set[int], clip: bool = False, device: str = "cpu"
) -> None:
    """Train with a scaler; the losses of the steps in ``poison`` are infinite or NaN."""
    for step, (x, y) in enumerate(batches()[:STEPS]):
        optimizer.zero_grad()
        loss = (model(lib.tensor(x, device=device)) - lib.tensor(y, device=device)).square().mean()
        if step in poison:
            loss = loss * (math.inf if step % 2 else math.nan)
        scaler.scale(loss).backward()
        if clip:
            scaler.unscale_(optimizer)
            lib.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        scaler.step(optimizer)
        scaler.update()


def scaler_of(lib: Any, device: str = "cpu") -> Any:
    return lib.amp.GradScaler(device, init_scale=8.0, growth_interval=2)


def assert_same_state(expected: Any, got: Any) -> None:
    """Every entry that PyTorch has; after an overflowed first step ours has zeros where PyTorch has none."""
    for p, q in zip(expected.param_groups[0]["params"], got.param_groups[0]["params"], strict=True):
        for key, value in expected.state[p].items():
            if value is not None:
                torch.testing.assert_close(
                    to_torch(got.state[q][key]),
                    torch.as_tensor(value),
                    check_dtype=False,
                    msg=lambda m, k=key: f"{k}: {m}",
                )


@pytest.mark.parametrize("poison", [set(), {0}, {2, 3}, {1, STEPS - 1}], ids=str)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_overflowed_steps_write_nothing(name: str, poison: set[int]) -> None:
    """Parameters, moments, step counts and rates are PyTorch's, parameter by parameter."""
    expected, got = twins()
    a, b = OPTIMIZERS[name](torch.optim, expected.parameters()), OPTIMIZERS[name](tl.optim, got.parameters())
    scalers = scaler_of(torch), scaler_of(tl)
    train(torch, expected, a, scalers[0], poison)
    train(tl, got, b, scalers[1], poison)
    assert_same_parameters(expected, got)
    assert_same_state(a, b)
    assert scalers[0].state_dict() == scalers[1].state_dict()


@pytest.mark.parametrize("device", ["wgpu"], indirect=True)
@pytest.mark.parametrize("name", ["sgd_nesterov", "adamw_amsgrad", "nadam_options", "radam", "asgd_options", "rprop"])
def test_overflowed_steps_write_nothing_on_a_gpu(name: str, device: str) -> None:
    expected, got = twins()
    got = got.to(device)
    a, b = OPTIMIZERS[name](torch.optim, expected.parameters()), OPTIMIZERS[name](tl.optim, got.parameters())
    scaler = scaler_of(tl, device)
    train(torch, expected, a, scaler_of(torch), {0, 3})
    reads = tl.stats()["reads"]
    train(tl, got, b, scaler, {0, 3}, device=device)
    assert tl.stats()["reads"] == reads
    got = got.cpu()
    for (key, p), q in zip(expected.named_parameters(), got.parameters(), strict=True):
        torch.testing.assert_close(
            to_torch(q.detach()), p.detach(), rtol=1e-4, atol=1e-5, msg=lambda m, key=key: f"{key}: {m}"
        )
    assert scaler.get_scale() == 8.0


@pytest.mark.parametrize("clip", [False, True])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_steps_read_nothing(name: str, clip: bool) -> None:
    """scale, unscale_, clipping, step and update read nothing, and each step is one window."""
    _, model = twins()
    optimizer, scaler = OPTIMIZERS[name](tl.optim, model.parameters()), scaler_of(tl)
    if name == "sgd_dampening":  # there the host must know which step is the first
        train(tl, model, optimizer, scaler, set())
    before = tl.stats()
    train(tl, model, optimizer, scaler, {1}, clip)
    after = tl.stats()
    assert after["reads"] == before["reads"]
    assert after["windows"] - before["windows"] == STEPS


def test_reads_are_counted() -> None:
    before = tl.stats()["reads"]
    (tl.ones(3) + 1).tolist()
    assert tl.stats()["reads"] == before + 1


@pytest.mark.parametrize("device", ["cpu", "wgpu"], indirect=True)
def test_steps_with_and_without_a_scaler_mix(device: str) -> None:
    """Step counts move to the device and back, one for each parameter."""
    expected, got = twins()
    got = got.to(device)
    a, b = torch.optim.NAdam(expected.parameters(), lr=0.01), tl.optim.NAdam(got.parameters(), lr=0.01)
    for lib, model, optimizer, where in ((torch, expected, a, "cpu"), (tl, got, b, device)):
        off = lib.amp.GradScaler(where, enabled=False)
        train(lib, model, optimizer, off, set(), device=where)
        train(lib, model, optimizer, scaler_of(lib, where), {1}, device=where)
        train(lib, model, optimizer, off, set(), device=where)
    assert [s["step"].item() for s in b.state.values()] == [3 * STEPS - 1.0] * 4
    assert len({id(s["step"]) for s in b.state.values()}) == 4
    assert all(s["step"].device.type == "cpu" for s in b.state.values())
    for p, q in zip(expected.parameters(), got.parameters(), strict=True):
        torch.testing.assert_close(to_torch(q.detach().cpu()), p.detach(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["Adam", "NAdam", "Adafactor"])
def test_a_parameter_without_gradient_keeps_its_count(name: str) -> None:
    """Parameters share counts only while these are equal."""
    counts = []
    for lib in (torch, tl):
        params = [lib.nn.Parameter(lib.ones(2, 2)) for _ in range(3)]
        optimizer, scaler = getattr(lib.optim, name)(params), scaler_of(lib)
        for used in ((0, 1, 2), (0, 1), (0,), (0, 1, 2)):
            optimizer.zero_grad()
            scaler.scale(sum((params[i] ** 2).sum() for i in used)).backward()
            scaler.step(optimizer)
            scaler.update()
        counts.append([optimizer.state[p]["step"].item() for p in params])
        counts.append([p.detach().tolist() for p in params])
    assert counts[2] == counts[0] == [4.0, 3.0, 2.0]
    torch.testing.assert_close(torch.tensor(counts[3]), torch.tensor(counts[1]))


@pytest.mark.parametrize("way", ["state_dict", "deepcopy", "pickle"])
@pytest.mark.parametrize("scaled", [False, True])
def test_copies_of_an_optimizer_go_on(way: str, scaled: bool) -> None:
    """A state saved after scaled steps has counts of its own for each parameter."""
    finals = []
    for lib, model in zip((torch, tl), twins(), strict=True):
        optimizer = lib.optim.AdamW(model.parameters(), lr=0.01)
        train(lib, model, optimizer, scaler_of(lib), {2})
        model, old = copy.deepcopy(model), optimizer
        optimizer = lib.optim.AdamW(model.parameters(), lr=0.01)
        if way == "state_dict":
            optimizer.load_state_dict(old.state_dict())
        elif way == "deepcopy":
            optimizer.load_state_dict(copy.deepcopy(old).state_dict())
        else:
            file = io.BytesIO()
            lib.save(old.state_dict(), file)
            file.seek(0)
            optimizer.load_state_dict(lib.load(file))
        train(lib, model, optimizer, lib.amp.GradScaler("cpu", enabled=scaled), set())
        finals.append([p.detach() for p in model.parameters()])
        assert [s["step"].item() for s in optimizer.state.values()] == [2 * STEPS - 1.0] * 4
    for p, q in zip(*finals, strict=True):
        torch.testing.assert_close(to_torch(q), p)


def test_several_optimizers_of_a_scaler() -> None:
    """Each optimizer skips its own overflows; the factor shrinks for any of them."""
    seen = []
    for lib in (torch, tl):
        p, q = (lib.nn.Parameter(lib.ones(2)) for _ in range(2))
        one, two = lib.optim.SGD([p], lr=0.1, momentum=0.9), lib.optim.Adam([q], lr=0.1)
        scaler = scaler_of(lib)
        for step in range(4):
            one.zero_grad()
            two.zero_grad()
            scaler.scale((p * p).sum() * (math.inf if step == 1 else 1)).backward()
            scaler.scale((q * q).sum()).backward()
            scaler.unscale_(two)
            scaler.step(one)
            scaler.step(two)
            scaler.update()
        seen.append([p.tolist(), q.tolist(), scaler.state_dict()])
    assert seen[1][2] == seen[0][2]
    torch.testing.assert_close(torch.tensor(seen[1][:2]), torch.tensor(seen[0][:2]))


def own_optimizer(lib: Any, kind: str, p: Any, calls: list[str]) -> Any:
    """Optimizers that know nothing of found_inf in some part of their step."""
    if kind == "subclass":

        class Decaying(lib.optim.Adam):
            def step(self, closure: Any = None) -> Any:
                calls.append("step")
                with lib.no_grad():
                    p.mul_(0.5)
                return super().step(closure)

        return Decaying([p], lr=0.1)
    if kind == "from scratch":

        class Plain(lib.optim.Optimizer):
            def __init__(self, params: Any) -> None:
                super().__init__(params, {})

            @lib.no_grad()
            def step(self, closure: Any = None) -> Any:
                calls.append("step")
                for group in self.param_groups:
                    for q in group["params"]:
                        q -= 0.1 * q.grad

        return Plain([p])
    optimizer = lib.optim.SGD([p], lr=0.1)
    if kind == "hook":
        optimizer.register_step_post_hook(lambda *_: calls.append("step"))
    else:
        inner = optimizer.step
        optimizer.step = lambda *a: (calls.append("step"), inner(*a))[1]
    return optimizer


@pytest.mark.parametrize("kind", ["subclass", "from scratch", "hook", "assigned"])
def test_code_of_others_runs_only_in_steps_that_are_taken(kind: str) -> None:
    seen = []
    for lib in (torch, tl):
        calls: list[str] = []
        p = lib.nn.Parameter(lib.ones(2))
        optimizer, scaler = own_optimizer(lib, kind, p, calls), scaler_of(lib)
        for step in range(3):
            optimizer.zero_grad()
            scaler.scale((p * p).sum() * (math.inf if step == 1 else 1)).backward()
            scaler.step(optimizer)
            scaler.update()
        seen.append((p.detach(), calls))
    assert seen[1][1] == seen[0][1] == ["step", "step"]
    torch.testing.assert_close(to_torch(seen[1][0]), seen[0][0])


def test_a_subclass_that_changes_no_step_selects() -> None:
    class Named(tl.optim.AdamW):
        label = "mine"

    p = tl.nn.Parameter(tl.ones(2))
    optimizer, scaler = Named([p], lr=0.1), scaler_of(tl)
    reads = tl.stats()["reads"]
    scaler.scale(p.sum() * math.inf).backward()
    scaler.step(optimizer)
    scaler.update()
    assert tl.stats()["reads"] == reads
    assert p.tolist() == [1.0, 1.0]


def test_an_optimizer_that_scales_itself_is_given_the_factor() -> None:
    """``_step_supports_amp_scaling`` is PyTorch's contract with fused optimizers."""
    seen = []
    for lib in (torch, tl):

        class Scaling(lib.optim.Optimizer):
            _step_supports_amp_scaling = True

            def __init__(self, params: Any) -> None:
                super().__init__(params, {})

            @lib.no_grad()
            def step(self, closure: Any = None) -> Any:
                factor = 1.0 if self.grad_scale is None else self.grad_scale.item()
                seen.append((factor, self.found_inf.item()))

        p = lib.nn.Parameter(lib.ones(2))
        optimizer, scaler = Scaling([p]), scaler_of(lib)
        for step in range(3):
            p.grad = None
            scaler.scale(p.sum() * (math.inf if step == 1 else 1)).backward()
            if step == 2:
                scaler.unscale_(optimizer)
            scaler.step(optimizer)
            scaler.update()
        assert not hasattr(optimizer, "found_inf")
    assert seen[3:] == seen[:3]


def test_without_memory_the_counts_are_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    p = tl.nn.Parameter(tl.ones(2))
    optimizer, scaler = tl.optim.Adam([p], lr=0.1), scaler_of(tl)
    flush = tl._C.flush

    def fail() -> None:
        raise tl.OutOfMemoryError("no memory")

    for failing in (False, True, False):
        p.grad = None
        scaler.scale(p.sum()).backward()
        monkeypatch.setattr(tl._C, "flush", fail if failing else flush)
        if failing:
            with pytest.raises(tl.OutOfMemoryError):
                scaler.step(optimizer)
        else:
            scaler.step(optimizer)
        scaler.update()
    assert optimizer.state[p]["step"].item() == 2.0
