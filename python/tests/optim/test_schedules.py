"""Schedules: rates over 40 epochs, chained and resumed, equal PyTorch's."""

from __future__ import annotations

import warnings

import pytest

torch = pytest.importorskip("torch")

import torchlette as tl  # noqa: E402
import torchlette.nn  # noqa: E402
import torchlette.optim  # noqa: E402

EPOCHS = 40


class Halve:
    """A callable with state, which ``state_dict`` saves."""

    def __init__(self):
        self.calls = 0

    def __call__(self, epoch):
        self.calls += 1
        return 0.5**epoch


SCHEDULES = {
    "lambda": lambda s, o: s.LambdaLR(o, [lambda e: 0.95**e, lambda e: 1 / (e + 1)]),
    "lambda_object": lambda s, o: s.LambdaLR(o, Halve()),
    "multiplicative": lambda s, o: s.MultiplicativeLR(o, lambda e: 0.9),
    "step": lambda s, o: s.StepLR(o, 7, 0.3),
    "multistep": lambda s, o: s.MultiStepLR(o, [3, 11, 11, 30], 0.5),
    "constant": lambda s, o: s.ConstantLR(o, 0.25, 6),
    "linear": lambda s, o: s.LinearLR(o, 0.1, 0.8, 9),
    "exponential": lambda s, o: s.ExponentialLR(o, 0.93),
    "polynomial": lambda s, o: s.PolynomialLR(o, 20, 2.0),
    "cosine": lambda s, o: s.CosineAnnealingLR(o, 10, 0.01),
    "cosine_long": lambda s, o: s.CosineAnnealingLR(o, 60),
    "restarts": lambda s, o: s.CosineAnnealingWarmRestarts(o, 5, 2, 0.001),
    "restarts_even": lambda s, o: s.CosineAnnealingWarmRestarts(o, 6),
    "one_cycle": lambda s, o: s.OneCycleLR(o, [0.5, 0.2], total_steps=EPOCHS + 1),
    "one_cycle_linear": lambda s, o: s.OneCycleLR(
        o, 0.5, epochs=7, steps_per_epoch=6, anneal_strategy="linear", three_phase=True
    ),
    "cyclic": lambda s, o: s.CyclicLR(o, [0.01, 0.02], [0.5, 0.2], step_size_up=4, step_size_down=7),
    "cyclic_halved": lambda s, o: s.CyclicLR(
        o, 0.01, 0.5, step_size_up=5, mode="triangular2", base_momentum=0.7, max_momentum=0.95
    ),
    "cyclic_exponential": lambda s, o: s.CyclicLR(
        o, 0.01, 0.5, step_size_up=5, mode="exp_range", gamma=0.98, cycle_momentum=False
    ),
    "cyclic_function": lambda s, o: s.CyclicLR(o, 0.01, 0.5, step_size_up=5, scale_fn=Halve(), scale_mode="cycle"),
    "sequential": lambda s, o: s.SequentialLR(
        o, [s.LinearLR(o, 0.1, total_iters=5), s.CosineAnnealingLR(o, 20), s.ExponentialLR(o, 0.8)], [5, 25]
    ),
    "chained": lambda s, o: s.ChainedScheduler([s.ConstantLR(o, 0.1, 3), s.ExponentialLR(o, 0.9)]),
}


def optimizer(t, kind="SGD"):
    params = [t.nn.Parameter(t.ones(1)) for _ in range(2)]
    groups = [{"params": params[:1]}, {"params": params[1:], "lr": 0.05}]
    options = {"momentum": 0.9} if kind == "SGD" else {}
    return getattr(t.optim, kind)(groups, lr=0.3, **options)


def run(t, make, epochs, kind="SGD", opt=None, schedule=None):
    opt = optimizer(t, kind) if opt is None else opt
    schedule = make(t.optim.lr_scheduler, opt) if schedule is None else schedule
    seen = []
    for _ in range(epochs):
        opt.step()
        schedule.step()
        seen.append([(g["lr"], g.get("momentum"), g.get("betas")) for g in opt.param_groups])
        assert schedule.get_last_lr() == [g["lr"] for g in opt.param_groups]
    return opt, schedule, seen


@pytest.mark.parametrize("kind", ["SGD", "Adam"])
@pytest.mark.parametrize("name", SCHEDULES)
def test_rates(name, kind):
    _, _, want = run(torch, SCHEDULES[name], EPOCHS, kind)
    _, _, got = run(tl, SCHEDULES[name], EPOCHS, kind)
    for a, b in zip(want, got, strict=True):
        for u, v in zip(a, b, strict=True):
            assert v[0] == pytest.approx(u[0], rel=1e-12, abs=1e-15)
            assert v[1:] == pytest.approx(u[1:]) if u[1] is not None else v[2] == pytest.approx(u[2])


@pytest.mark.parametrize("name", SCHEDULES)
def test_state_has_pytorchs_keys_and_resumes(name):
    _, reference, _ = run(torch, SCHEDULES[name], 12)
    opt, schedule, _ = run(tl, SCHEDULES[name], 12)
    state = schedule.state_dict()
    assert set(state) == set(reference.state_dict())
    fresh_opt = optimizer(tl)
    fresh = SCHEDULES[name](tl.optim.lr_scheduler, fresh_opt)
    fresh.load_state_dict(state)
    fresh_opt.load_state_dict(opt.state_dict())
    _, _, want = run(tl, None, 15, opt=opt, schedule=schedule)
    _, _, got = run(tl, None, 15, opt=fresh_opt, schedule=fresh)
    assert got == want


@pytest.mark.parametrize("name", ["step", "multistep", "constant", "linear", "exponential", "polynomial", "cosine"])
def test_closed_form(name):
    rates = []
    for t in (torch, tl):
        opt = optimizer(t)
        schedule = SCHEDULES[name](t.optim.lr_scheduler, opt)
        opt.step()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            seen = []
            for epoch in (4, 9, 2, 35):
                schedule.step(epoch)
                seen.append(schedule.get_last_lr())
        rates.append(seen)
    for a, b in zip(*rates, strict=True):
        assert b == pytest.approx(a, rel=1e-12)


def test_restarts_take_fractions():
    rates = []
    for t in (torch, tl):
        opt = optimizer(t)
        schedule = t.optim.lr_scheduler.CosineAnnealingWarmRestarts(opt, 3, 2)
        seen = []
        for epoch in (0.5, 2.9, 3.5, 8.25, 9.0, 20.5):
            schedule.step(epoch)
            seen.append(schedule.get_last_lr())
        rates.append(seen)
    for a, b in zip(*rates, strict=True):
        assert b == pytest.approx(a, rel=1e-12)


@pytest.mark.parametrize("mode", ["min", "max"])
@pytest.mark.parametrize("threshold_mode", ["rel", "abs"])
def test_plateau(mode, threshold_mode):
    figures = [5.0, 4.0, 4.0, 4.1, 3.99, 3.99, 3.99, 3.99, 3.0, 3.1, 3.2, 3.3, 3.4, 3.5, 3.5, 3.5]
    rates = []
    for t in (torch, tl):
        opt = optimizer(t)
        schedule = t.optim.lr_scheduler.ReduceLROnPlateau(
            opt, mode, factor=0.5, patience=2, cooldown=1, min_lr=[0.01, 0.02], threshold_mode=threshold_mode
        )
        seen = []
        for figure in figures:
            schedule.step(figure)
            seen.append((schedule.get_last_lr(), schedule.num_bad_epochs, schedule.best))
        rates.append((seen, set(schedule.state_dict())))
    assert rates[0] == rates[1]


def test_warning_of_the_order():
    opt = optimizer(tl)
    schedule = tl.optim.lr_scheduler.StepLR(opt, 3)
    with pytest.warns(UserWarning, match="before `optimizer.step\\(\\)`"):
        schedule.step()


@pytest.mark.parametrize(
    "bad",
    [
        lambda s, o: s.ConstantLR(o, factor=2.0),
        lambda s, o: s.LinearLR(o, start_factor=0.0),
        lambda s, o: s.LinearLR(o, end_factor=2.0),
        lambda s, o: s.CosineAnnealingWarmRestarts(o, 0),
        lambda s, o: s.OneCycleLR(o, 0.1),
        lambda s, o: s.LambdaLR(o, [lambda e: 1.0]),
        lambda s, o: s.SequentialLR(o, [s.StepLR(o, 3)], [3]),
        lambda s, o: s.ReduceLROnPlateau(o, factor=1.0),
        lambda s, o: s.CyclicLR(o, 0.1, [0.2]),
        lambda s, o: s.CyclicLR(o, 0.1, 0.2, mode="square"),
        lambda s, o: s.StepLR(3, 3),
        lambda s, o: s.StepLR(o, 3, last_epoch=4),
    ],
)
def test_errors(bad):
    with pytest.raises(Exception) as want:
        bad(torch.optim.lr_scheduler, optimizer(torch))
    with pytest.raises(want.type):
        bad(tl.optim.lr_scheduler, optimizer(tl))
