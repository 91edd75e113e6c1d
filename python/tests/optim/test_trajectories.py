"""Optimizers: 50 steps of a small net equal PyTorch's, parameter by parameter, with changing rates and groups."""

from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch")

import numpy as np  # noqa: E402

import torchlette as tl  # noqa: E402
import torchlette.nn  # noqa: E402
import torchlette.optim  # noqa: E402

STEPS = 50

OPTIMIZERS = {
    "sgd": lambda o, p: o.SGD(p, lr=0.1),
    "sgd_momentum": lambda o, p: o.SGD(p, lr=0.05, momentum=0.9),
    "sgd_dampening": lambda o, p: o.SGD(p, lr=0.05, momentum=0.9, dampening=0.3, weight_decay=0.01),
    "sgd_nesterov": lambda o, p: o.SGD(p, lr=0.05, momentum=0.9, nesterov=True, weight_decay=0.05),
    "sgd_maximize": lambda o, p: o.SGD(p, lr=0.001, momentum=0.5, maximize=True),
    "adam": lambda o, p: o.Adam(p, lr=0.01),
    "adam_options": lambda o, p: o.Adam(p, lr=0.02, betas=(0.8, 0.95), eps=1e-6, weight_decay=0.1),
    "adam_amsgrad": lambda o, p: o.Adam(p, lr=0.01, amsgrad=True),
    "adam_maximize": lambda o, p: o.Adam(p, lr=0.001, maximize=True),
    "adam_decoupled": lambda o, p: o.Adam(p, lr=0.01, weight_decay=0.1, decoupled_weight_decay=True),
    # Weight decay equals the first rate: this exposes a plan that freezes one number in place of the other.
    "adamw": lambda o, p: o.AdamW(p, lr=0.01, weight_decay=0.01),
    "adamw_amsgrad": lambda o, p: o.AdamW(p, lr=0.01, weight_decay=0.1, amsgrad=True),
    "rmsprop": lambda o, p: o.RMSprop(p, lr=0.01),
    "rmsprop_options": lambda o, p: o.RMSprop(
        p, lr=0.01, alpha=0.9, eps=1e-4, weight_decay=0.05, momentum=0.8, centered=True
    ),
    "rmsprop_maximize": lambda o, p: o.RMSprop(p, lr=0.001, maximize=True),
    "adagrad": lambda o, p: o.Adagrad(p, lr=0.05),
    "adagrad_options": lambda o, p: o.Adagrad(
        p, lr=0.05, lr_decay=0.1, weight_decay=0.05, initial_accumulator_value=0.2, eps=1e-6
    ),
    "adagrad_maximize": lambda o, p: o.Adagrad(p, lr=0.001, maximize=True),
    "adadelta": lambda o, p: o.Adadelta(p, lr=1.0),
    "adadelta_options": lambda o, p: o.Adadelta(p, lr=0.5, rho=0.8, eps=1e-4, weight_decay=0.05),
    "adadelta_maximize": lambda o, p: o.Adadelta(p, lr=0.1, maximize=True),
    "adafactor": lambda o, p: o.Adafactor(p, lr=0.05),
    "adafactor_options": lambda o, p: o.Adafactor(
        p, lr=0.05, beta2_decay=-0.6, eps=(1e-5, 1e-2), d=1.5, weight_decay=0.1
    ),
    "adafactor_maximize": lambda o, p: o.Adafactor(p, lr=0.001, maximize=True),
    "adamax": lambda o, p: o.Adamax(p, lr=0.01),
    "adamax_options": lambda o, p: o.Adamax(p, lr=0.02, betas=(0.8, 0.95), eps=1e-5, weight_decay=0.05),
    "adamax_maximize": lambda o, p: o.Adamax(p, lr=0.001, maximize=True),
    "nadam": lambda o, p: o.NAdam(p, lr=0.01),
    "nadam_options": lambda o, p: o.NAdam(
        p, lr=0.02, betas=(0.8, 0.95), eps=1e-5, weight_decay=0.05, momentum_decay=0.02
    ),
    "nadam_decoupled": lambda o, p: o.NAdam(p, lr=0.01, weight_decay=0.1, decoupled_weight_decay=True),
    "nadam_maximize": lambda o, p: o.NAdam(p, lr=0.001, maximize=True),
    "radam": lambda o, p: o.RAdam(p, lr=0.02),
    "radam_options": lambda o, p: o.RAdam(p, lr=0.02, betas=(0.8, 0.95), eps=1e-5, weight_decay=0.05),
    "radam_decoupled": lambda o, p: o.RAdam(p, lr=0.01, weight_decay=0.1, decoupled_weight_decay=True),
    "radam_maximize": lambda o, p: o.RAdam(p, lr=0.001, maximize=True),
    "asgd": lambda o, p: o.ASGD(p, lr=0.05),
    "asgd_options": lambda o, p: o.ASGD(p, lr=0.05, lambd=0.01, alpha=0.9, t0=1, weight_decay=0.05),
    "asgd_maximize": lambda o, p: o.ASGD(p, lr=0.001, maximize=True),
    "rprop": lambda o, p: o.Rprop(p, lr=0.001),
    "rprop_options": lambda o, p: o.Rprop(p, lr=0.002, etas=(0.4, 1.1), step_sizes=(1e-5, 0.01)),
    "rprop_maximize": lambda o, p: o.Rprop(p, lr=0.0001, step_sizes=(1e-6, 1e-3), maximize=True),
}


def net(t):
    return t.nn.Sequential(t.nn.Linear(4, 8), t.nn.Tanh(), t.nn.Linear(8, 2))


def twins():
    torch.manual_seed(3)
    expected, got = net(torch), net(tl)
    got.load_state_dict({k: tl.tensor(v.numpy()) for k, v in expected.state_dict().items()})
    return expected, got


def batches():
    rng = np.random.default_rng(5)
    return [
        (rng.standard_normal((6, 4), dtype=np.float32), rng.standard_normal((6, 2), dtype=np.float32))
        for _ in range(STEPS)
    ]


def train(model, optimizer, tensor, data, scheduler=None):
    for x, y in data:
        optimizer.zero_grad()
        loss = (model(tensor(x)) - tensor(y)).square().mean()
        loss.backward()
        optimizer.step()
        if scheduler is not None:
            scheduler.step()


def assert_same_parameters(expected, got):
    for (name, p), q in zip(expected.named_parameters(), got.parameters(), strict=True):
        torch.testing.assert_close(
            torch.tensor(q.detach().numpy()), p.detach(), msg=lambda m, name=name: f"{name}: {m}"
        )


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_trajectory(name):
    expected, got = twins()
    make = OPTIMIZERS[name]
    a, b = make(torch.optim, expected.parameters()), make(tl.optim, got.parameters())
    cosine = [o.lr_scheduler.CosineAnnealingLR(opt, STEPS) for o, opt in ((torch.optim, a), (tl.optim, b))]
    train(expected, a, torch.tensor, batches(), cosine[0])
    train(got, b, tl.tensor, batches(), cosine[1])
    assert_same_parameters(expected, got)


ALONE = ("RMSprop", "Adafactor", "Adagrad", "Adadelta", "Adamax", "NAdam", "RAdam", "ASGD", "Rprop")


@pytest.mark.parametrize("name", ALONE)
def test_steps_on_each_device(name, device):
    """The state is on the parameter's device, and the trajectory is the same on each device."""
    ways = []
    for place in ("cpu", device):
        p = tl.nn.Parameter(tl.linspace(-1, 1, 5).to(place))
        optimizer = getattr(tl.optim, name)([p], lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            ((p - 0.3) ** 2).sum().backward()
            optimizer.step()
        assert all(v.device.type == ("cpu" if v.dim() == 0 else place) for v in optimizer.state[p].values())
        ways.append(p.detach().cpu().numpy())
    torch.testing.assert_close(torch.tensor(ways[1]), torch.tensor(ways[0]))


def test_parameter_groups():
    expected, got = twins()

    def groups(m):
        decay = [p for p in m.parameters() if p.dim() >= 2]
        rest = [p for p in m.parameters() if p.dim() < 2]
        return [{"params": decay, "weight_decay": 0.1, "lr": 0.02}, {"params": rest, "weight_decay": 0.0}]

    a = torch.optim.AdamW(groups(expected), lr=0.01)
    b = tl.optim.AdamW(groups(got), lr=0.01)
    assert repr(b) == repr(a)
    train(expected, a, torch.tensor, batches())
    train(got, b, tl.tensor, batches())
    assert_same_parameters(expected, got)


def test_parameters_without_gradient_are_left_alone():
    _, model = twins()
    optimizer = tl.optim.AdamW(model.parameters(), lr=0.1)
    before = model[2].weight.tolist()
    model[0](tl.ones(1, 4)).sum().backward()
    optimizer.step()
    assert model[2].weight.tolist() == before
    assert len(optimizer.state) == 2


MOVES = ["sgd_momentum", "adam_amsgrad", "adamw", *(name for name in OPTIMIZERS if name.endswith("_options"))]


@pytest.mark.parametrize("name", MOVES)
def test_state_moves_from_pytorch_and_back(name):
    """Half a run in PyTorch and the rest in torchlette equals a whole run; the state dicts have equal keys."""
    expected, got = twins()
    make, data = OPTIMIZERS[name], batches()
    a = make(torch.optim, expected.parameters())
    train(expected, a, torch.tensor, data[:25])
    got.load_state_dict({k: tl.tensor(v.numpy()) for k, v in expected.state_dict().items()})
    b = make(tl.optim, got.parameters())
    saved = a.state_dict()
    b.load_state_dict(converted(saved, lambda v: tl.tensor(v.numpy()) if isinstance(v, torch.Tensor) else v))
    train(expected, a, torch.tensor, data[25:])
    train(got, b, tl.tensor, data[25:])
    assert_same_parameters(expected, got)

    back = b.state_dict()
    want = a.state_dict()
    assert back["param_groups"] == want["param_groups"]
    assert {i: set(s) for i, s in back["state"].items()} == {i: set(s) for i, s in want["state"].items()}
    fresh = make(torch.optim, expected.parameters())
    fresh.load_state_dict(converted(back, lambda v: torch.tensor(v.numpy()) if isinstance(v, tl.Tensor) else v))
    for i, entry in want["state"].items():
        for key, value in entry.items():
            torch.testing.assert_close(fresh.state_dict()["state"][i][key], value)


def converted(saved, convert):
    state = {i: {k: convert(v) for k, v in entry.items()} for i, entry in saved["state"].items()}
    return {"state": state, "param_groups": saved["param_groups"]}


def test_closure_and_hooks():
    p = tl.nn.Parameter(tl.tensor([2.0]))
    optimizer = tl.optim.SGD([p], lr=0.1)
    seen = []
    optimizer.register_step_pre_hook(lambda o, args, kwargs: seen.append("pre"))
    optimizer.register_step_post_hook(lambda o, args, kwargs: seen.append("post"))

    def closure():
        optimizer.zero_grad()
        loss = (p * p).sum()
        loss.backward()
        seen.append("closure")
        return loss

    with tl.no_grad():
        loss = optimizer.step(closure)
    assert loss.item() == 4.0
    assert p.item() == pytest.approx(1.6)
    assert seen == ["pre", "closure", "post"]


def test_zero_grad():
    p = tl.nn.Parameter(tl.ones(2))
    optimizer = tl.optim.SGD([p], lr=0.1)
    (p * 2).sum().backward()
    kept = p.grad
    optimizer.zero_grad(set_to_none=False)
    assert p.grad.tolist() == [0.0, 0.0]
    optimizer.zero_grad()
    assert p.grad is None
    assert kept.tolist() == [0.0, 0.0]


ERRORS = {
    "tensor": lambda o, p: o.SGD(p, lr=0.1),
    "empty": lambda o, p: o.SGD([], lr=0.1),
    "number": lambda o, p: o.SGD([3], lr=0.1),
    "non_leaf": lambda o, p: o.SGD([p * 2], lr=0.1),
    "lr": lambda o, p: o.SGD([p], lr=-1.0),
    "momentum": lambda o, p: o.SGD([p], momentum=-1.0),
    "decay": lambda o, p: o.SGD([p], weight_decay=-1.0),
    "nesterov": lambda o, p: o.SGD([p], nesterov=True),
    "adam_lr": lambda o, p: o.Adam([p], lr=-1.0),
    "eps": lambda o, p: o.Adam([p], eps=-1.0),
    "beta1": lambda o, p: o.Adam([p], betas=(1.0, 0.9)),
    "beta2": lambda o, p: o.AdamW([p], betas=(0.9, 1.0)),
    "group_list": lambda o, p: o.SGD([p]).add_param_group([p]),
    "group_again": lambda o, p: o.SGD([p]).add_param_group({"params": [p]}),
    "group_set": lambda o, p: o.SGD([p]).add_param_group({"params": {p}}),
    "rmsprop_alpha": lambda o, p: o.RMSprop([p], alpha=-1.0),
    "rmsprop_momentum": lambda o, p: o.RMSprop([p], momentum=-1.0),
    "adagrad_lr_decay": lambda o, p: o.Adagrad([p], lr_decay=-1.0),
    "adagrad_initial": lambda o, p: o.Adagrad([p], initial_accumulator_value=-1.0),
    "adadelta_rho": lambda o, p: o.Adadelta([p], rho=1.5),
    "adamax_beta": lambda o, p: o.Adamax([p], betas=(1.0, 0.9)),
    "nadam_momentum_decay": lambda o, p: o.NAdam([p], momentum_decay=-1.0),
    "radam_lr": lambda o, p: o.RAdam([p], lr=-1.0),
    "asgd_decay": lambda o, p: o.ASGD([p], weight_decay=-1.0),
    "asgd_lambd": lambda o, p: o.ASGD([p], lambd=-1.0),
    "asgd_alpha": lambda o, p: o.ASGD([p], alpha=-1.0),
    "rprop_etas": lambda o, p: o.Rprop([p], etas=(1.1, 1.2)),
    "lbfgs_lr": lambda o, p: o.LBFGS([p], lr=-1.0),
    "lbfgs_groups": lambda o, p: o.LBFGS([{"params": [p]}, {"params": []}]),
    "load_groups": lambda o, p: o.SGD([p]).load_state_dict({"state": {}, "param_groups": []}),
    "load_size": lambda o, p: o.SGD([p]).load_state_dict({"state": {}, "param_groups": [{"params": [1, 2]}]}),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name):
    with pytest.raises(Exception) as want:
        ERRORS[name](torch.optim, torch.nn.Parameter(torch.ones(2)))
    with pytest.raises(want.type) as got:
        ERRORS[name](tl.optim, tl.nn.Parameter(tl.ones(2)))
    if name != "tensor":  # that text names the class of the tensor
        assert str(got.value) == str(want.value)


def test_named_parameters():
    p = tl.nn.Parameter(tl.ones(2))
    optimizer = tl.optim.SGD([("a", p)], lr=1.0)
    assert optimizer.param_groups[0]["param_names"] == ["a"]
    assert optimizer.state_dict()["param_groups"][0]["params"] == [0]


@pytest.mark.parametrize("name", ["adamw", *(name for name in OPTIMIZERS if name.endswith("_options"))])
def test_changing_numbers_build_no_plans(name):
    """A rate that changes each step is data: after the first steps every window is a replay."""
    _, model = twins()
    optimizer = OPTIMIZERS[name](tl.optim, model.parameters())
    scheduler = tl.optim.lr_scheduler.LambdaLR(optimizer, lambda e: 0.5 * (1 + math.cos(e / 50)))
    data = batches()
    train(model, optimizer, tl.tensor, data[:5], scheduler)
    built = tl.stats()["plans_built"]
    train(model, optimizer, tl.tensor, data[5:], scheduler)
    tl.mark_step()
    assert tl.stats()["plans_built"] <= built + 1
