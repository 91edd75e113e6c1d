"""Training steps that are captured with their optimizer: numbers that change from call to call are data."""

from __future__ import annotations

from typing import Any

import pytest

import torchlette as tl
from torchlette import nn
from torchlette.optim import lr_scheduler

OPTIMIZERS: dict[str, Any] = {
    "sgd": lambda p: tl.optim.SGD(p, lr=0.05, momentum=0.9, nesterov=True, weight_decay=0.01),
    "adam": lambda p: tl.optim.Adam(p, lr=0.05, amsgrad=True),
    "adamw": lambda p: tl.optim.AdamW([{"params": p[:1], "lr": 0.01}, {"params": p[1:]}], lr=0.05),
    "adam, tensor rate": lambda p: tl.optim.Adam(p, lr=tl.tensor(0.05, device="cpu")),
    "nadam": lambda p: tl.optim.NAdam(p, lr=0.05, weight_decay=0.1, decoupled_weight_decay=True),
    "radam": lambda p: tl.optim.RAdam(p, lr=0.05, betas=(0.9, 0.99)),
    "adamax": lambda p: tl.optim.Adamax(p, lr=0.05),
    "adagrad": lambda p: tl.optim.Adagrad(p, lr=0.05, lr_decay=0.1),
    "adadelta": lambda p: tl.optim.Adadelta(p, lr=0.5),
    "rmsprop": lambda p: tl.optim.RMSprop(p, lr=0.05, centered=True),
    "rmsprop, momentum": lambda p: tl.optim.RMSprop(p, lr=0.05, momentum=0.5),
    "rprop": lambda p: tl.optim.Rprop(p, lr=0.05),
    "asgd": lambda p: tl.optim.ASGD(p, lr=0.05, t0=4),
    "adafactor": lambda p: tl.optim.Adafactor(p, lr=0.05, weight_decay=0.1),
    "muon": lambda p: tl.optim.Muon([q for q in p if q.dim() == 2], lr=0.05),
}


def bits(tensors: Any) -> list[str]:
    return [repr(t.tolist()) for t in tensors]


class Runs:
    """Counts in a place that is in no key."""

    __slots__ = ("n",)

    def __init__(self) -> None:
        self.n = 0


class Training:
    """A model with an optimizer and a rate that changes after each step."""

    def __init__(self, wrap: Any, optimizer: Any, schedule: Any = None) -> None:
        tl.manual_seed(3)
        self.runs = Runs()
        self.model = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 2))
        self.opt = optimizer(list(self.model.parameters()))
        make = schedule or (lambda o: lr_scheduler.CosineAnnealingLR(o, 20))
        self.schedule = make(self.opt)
        model, opt, runs = self.model, self.opt, self.runs

        def step(x: tl.Tensor, y: tl.Tensor) -> tl.Tensor:
            runs.n += 1
            opt.zero_grad()
            loss = (model(x) - y).square().mean()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            opt.step()
            return loss.detach()

        self.step = wrap(step)

    def history(self, steps: int) -> list[Any]:
        tl.manual_seed(5)
        seen = []
        for _ in range(steps):
            loss = self.step(tl.randn(3, 4), tl.randn(3, 2))
            self.schedule.step()
            numbers = [e[k] for e in self.opt.state.values() for k in sorted(e)]
            seen.append(bits([loss, *self.model.parameters(), *numbers]))
        return seen


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_captured_step_trains_as_the_plain_one(name: str, device: str) -> None:
    """Losses, parameters, moments and step counts have equal bits, and the Python code runs a few times only."""
    if device != "cpu" and name not in ("adamw", "nadam"):
        pytest.skip("how numbers reach a program does not depend on the device")
    with tl.device(device):
        plain = Training(lambda f: f, OPTIMIZERS[name])
        caught = Training(tl.jit, OPTIMIZERS[name])
        assert caught.history(14) == plain.history(14)
    assert plain.runs.n == 14
    assert caught.runs.n <= (3 if name not in ("radam", "asgd", "adafactor") else 5)


def test_momentum_that_a_schedule_changes_is_never_stale() -> None:
    """OneCycleLR changes a beta of Adam as well, which is no supplied number: further values run the function."""

    def cycle(opt: Any) -> Any:
        return lr_scheduler.OneCycleLR(opt, 0.1, total_steps=20)

    plain, caught = (Training(w, OPTIMIZERS["adam"], cycle) for w in (lambda f: f, tl.jit))
    assert caught.history(14) == plain.history(14)


def test_options_that_the_function_reads_are_guarded() -> None:
    """A rate that Python code uses for itself is a number of the program."""
    seen = []
    for wrap in (lambda f: f, tl.jit):
        w = tl.ones(2, requires_grad=True)
        opt = tl.optim.Adam([w], lr=0.5)

        def step(x: tl.Tensor, w: Any = w, opt: Any = opt) -> tl.Tensor:
            w.grad = None
            (w * x).sum().backward()
            opt.step()
            return x * opt.param_groups[0]["lr"]

        f, outs = wrap(step), []
        for rate in (0.5, 0.5, 0.5, 0.25, 0.25, 0.25, 0.5):
            opt.param_groups[0]["lr"] = rate
            outs.append(bits([f(tl.ones(2)), w]))
        seen.append(outs)
    assert seen[0] == seen[1]


def test_an_optimizer_of_the_program_has_guarded_options() -> None:
    """A subclass that overrides the update may read any option in Python."""

    class Mine(tl.optim.SGD):
        def _update(self, overflow: Any) -> None:
            for p in self.param_groups[0]["params"]:
                p.sub_(p.grad * self.param_groups[0]["lr"])

    w = tl.ones(2, requires_grad=True)
    opt = Mine([w], lr=0.5)

    @tl.jit
    def step(x: tl.Tensor) -> None:
        w.grad = None
        (w * x).sum().backward()
        opt.step()

    want = 1.0
    for rate in (0.5, 0.5, 0.5, 0.25, 0.25):
        opt.param_groups[0]["lr"] = rate
        step(tl.ones(2))
        want -= rate
        assert w.tolist() == [want, want]


def test_two_steps_of_a_call_count_twice() -> None:
    """The second step of a call sees the count of the first; two optimizers count apart."""
    seen = []
    for wrap in (lambda f: f, tl.jit):
        a, b = (tl.ones(2, requires_grad=True) for _ in range(2))
        first, second = tl.optim.Adam([a], lr=0.1), tl.optim.AdamW([b], lr=0.2)

        def step(x: tl.Tensor, a: Any = a, b: Any = b, first: Any = first, second: Any = second) -> None:
            for _ in range(2):
                first.zero_grad()
                second.zero_grad()
                (a * b * x).sum().backward()
                first.step()
            second.step()

        f = wrap(step)
        for _ in range(6):
            f(tl.ones(2))
        seen.append(bits([a, b, first.state[a]["step"], second.state[b]["step"]]))
    assert seen[0] == seen[1]
    assert seen[0][2:] == ["12.0", "6.0"]


def test_a_count_that_the_function_uses_as_a_tensor_is_refused() -> None:
    """The program would see the count before the step."""
    w = tl.ones(2, requires_grad=True)
    opt = tl.optim.Adam([w])

    @tl.jit
    def step(x: tl.Tensor) -> tl.Tensor:
        w.grad = None
        (w * x).sum().backward()
        opt.step()
        return x.cpu() * opt.state[w]["step"]

    step(tl.ones(2))
    step(tl.ones(2))  # the state is new: plain again
    with pytest.raises(RuntimeError, match="step count"):
        step(tl.ones(2))
    assert opt.state[w]["step"].item() == 2


@pytest.mark.parametrize("kind", [tl.optim.SGD, tl.optim.Adam])
def test_a_scaled_step_runs_the_function(kind: Any) -> None:
    """A GradScaler replaces what it knows of each optimizer, so a function that calls it is not captured."""
    seen = []
    for wrap in (lambda f: f, tl.jit):
        w = tl.ones(2, requires_grad=True)
        opt, scaler = kind([w], lr=0.1), tl.amp.GradScaler("cpu", init_scale=4.0, growth_interval=2)

        def step(x: tl.Tensor, w: Any = w, opt: Any = opt, scaler: Any = scaler) -> None:
            w.grad = None
            scaler.scale((w * w * x).sum()).backward()
            scaler.step(opt)
            scaler.update()

        f = wrap(step)
        for x in (1.0, 2.0, float("inf"), 1.0, 3.0, 1.0):
            f(tl.full((2,), x))
        seen.append((bits([w]), scaler.get_scale()))
    assert seen[0] == seen[1]


def test_tensors_that_share_a_version_are_told_apart() -> None:
    """After a copy two tensors have one version. A program reads, writes and differentiates the right one."""
    seen = []
    for wrap in (lambda f: f, tl.jit):
        online, target = tl.ones(3, requires_grad=True), tl.zeros(3)
        with tl.no_grad():
            target.copy_(online)

        def step(x: tl.Tensor, online: Any = online, target: Any = target) -> tl.Tensor:
            online.grad = None
            loss = ((online * 2 - target) * x).sum()
            loss.backward()
            with tl.no_grad():
                online.sub_(online.grad, alpha=0.5)
                target.lerp_(online, 0.1)
            return loss.detach()

        f = wrap(step)
        seen.append([bits([f(tl.full((3,), float(i))), online, target, online.grad]) for i in range(6)])
    assert seen[0] == seen[1]
