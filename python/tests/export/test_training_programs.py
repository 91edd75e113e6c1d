"""export_training: the program trains with the bits of the plain loop, and exporting trains nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import torchlette as tl
import torchlette.nn.functional as F
from torchlette import nn
from torchlette.export import TrainingSession, export, export_training, save
from torchlette.utils.checkpoint import checkpoint

OPTIMIZERS: dict[str, Any] = {
    "sgd": lambda p: tl.optim.SGD(p, lr=0.05),
    "sgd, momentum": lambda p: tl.optim.SGD(p, lr=0.05, momentum=0.9, nesterov=True, weight_decay=0.01),
    "adam": lambda p: tl.optim.Adam(p, lr=0.05, amsgrad=True),
    "adamw, groups": lambda p: tl.optim.AdamW([{"params": p[:1], "lr": 0.01}, {"params": p[1:]}], lr=0.05),
    "nadam": lambda p: tl.optim.NAdam(p, lr=0.05, weight_decay=0.1, decoupled_weight_decay=True),
    "radam": lambda p: tl.optim.RAdam(p, lr=0.05, betas=(0.9, 0.99)),
    "adamax": lambda p: tl.optim.Adamax(p, lr=0.05),
    "adagrad": lambda p: tl.optim.Adagrad(p, lr=0.05, lr_decay=0.1),
    "adadelta": lambda p: tl.optim.Adadelta(p, lr=0.5),
    "rmsprop": lambda p: tl.optim.RMSprop(p, lr=0.05, centered=True, momentum=0.5),
    "rprop": lambda p: tl.optim.Rprop(p, lr=0.05),
    "asgd": lambda p: tl.optim.ASGD(p, lr=0.05, t0=4),
    "adafactor": lambda p: tl.optim.Adafactor(p, lr=0.05, weight_decay=0.1),
    "muon": lambda p: tl.optim.Muon([q for q in p if q.dim() == 2], lr=0.05),
}
STEPS = 10
X = [np.random.default_rng(i).standard_normal((6, 8), dtype=np.float32) for i in range(STEPS)]
Y = [np.random.default_rng(i).integers(0, 3, 6) for i in range(STEPS)]


def model():
    tl.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Dropout(0.3), nn.Linear(6, 3))


def loss_of(module, x, y):
    return F.cross_entropy(module(x), y)


def plain(m, optimizer, i):
    optimizer.zero_grad()
    loss = loss_of(m, tl.tensor(X[i]), tl.tensor(Y[i]))
    loss.backward()
    optimizer.step()
    return loss.item()


def exported(m, optimizer):
    return export_training(m, loss_of, optimizer, (tl.tensor(X[0]), tl.tensor(Y[0])))


def check(session, m):
    state = session.state_dict()
    for name, value in m.state_dict().items():
        assert state[name].tolist() == value.tolist(), name


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_ten_steps_have_the_bits_of_the_plain_loop(name, tmp_path):
    m = model()
    optimizer = OPTIMIZERS[name](list(m.parameters()))
    program = exported(m, optimizer)
    assert all(p.grad is None for p in m.parameters())
    save(program, tmp_path / "p")
    session = TrainingSession(tmp_path / "p")
    check(session, m)
    tl.manual_seed(5)
    want = [plain(m, optimizer, i) for i in range(STEPS)]
    tl.manual_seed(5)
    assert [session.step(X[i], Y[i]).item() for i in range(STEPS)] == want
    check(session, m)
    m.eval()
    before = session.state_dict()
    want = loss_of(m, tl.tensor(X[0]), tl.tensor(Y[0])).item()
    assert session.step(X[0], Y[0], training=False).item() == want
    for key, value in session.state_dict().items():
        assert value.tolist() == before[key].tolist(), key


class Checkpointed(nn.Module):
    """Part of the net is under a checkpoint, with draws and running statistics."""

    def __init__(self, reentrant, early):
        super().__init__()
        self.net, self.reentrant, self.early = model(), reentrant, early

    def forward(self, x):
        first, rest = (self.net[0], self.net[1:]) if self.early else (nn.Identity(), self.net)
        y = checkpoint(rest[:-1], first(x), use_reentrant=self.reentrant)
        return rest[-1](y)


@pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad")
@pytest.mark.parametrize("early", [False, True])
@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpoints_train_as_in_the_plain_loop(reentrant, early):
    """With reentrance, a part whose argument needs no gradient has none."""
    m = Checkpointed(reentrant, early)
    optimizer = tl.optim.AdamW(m.parameters(), lr=0.05)
    program = exported(m, optimizer)
    session = TrainingSession(program)
    tl.manual_seed(5)
    want = [plain(m, optimizer, i) for i in range(STEPS)]
    tl.manual_seed(5)
    assert [session.step(X[i], Y[i]).item() for i in range(STEPS)] == want
    check(session, m)


def test_a_module_knows_that_it_is_exported():
    seen = []

    def f(x):
        seen.append(tl.compiler.is_exporting())
        return x + 1

    export(f, (tl.zeros(2),))
    f(tl.zeros(2))
    assert seen[0] is True
    assert seen[-1] is False


def test_exporting_trains_nothing_and_a_running_optimizer_is_gone_on_from():
    m = model()
    optimizer = tl.optim.AdamW(m.parameters(), lr=0.05)
    for i in range(3):
        plain(m, optimizer, i)
    before = [repr(x.tolist()) for x in m.state_dict().values()], tl.get_rng_state().tolist(), m.training
    program = exported(m, optimizer)
    assert ([repr(x.tolist()) for x in m.state_dict().values()], tl.get_rng_state().tolist(), m.training) == before
    assert [e["step"].item() for e in optimizer.state.values()] == [3.0] * 6
    draws = tl.get_rng_state()
    want = [plain(m, optimizer, i) for i in range(3, 6)]
    tl.set_rng_state(draws)
    session = TrainingSession(program)
    assert [session.step(X[i], Y[i]).item() for i in range(3, 6)] == want


def test_a_session_goes_on_exactly_from_its_state():
    m = model()
    program = exported(m, tl.optim.RAdam(m.parameters(), lr=0.05))
    one, two = TrainingSession(program), TrainingSession(program)
    tl.manual_seed(2)
    for i in range(4):
        one.step(X[i], Y[i])
    state = {k: np.asarray(v.tolist(), v.numpy().dtype) for k, v in one.state_dict().items()}
    want = [one.step(X[i], Y[i]).item() for i in range(4, STEPS)]
    two.load_state_dict(state)
    assert [two.step(X[i], Y[i]).item() for i in range(4, STEPS)] == want
    with pytest.raises(ValueError, match="missing"):
        two.load_state_dict({})
    with pytest.raises(ValueError, match="shape"):
        two.load_state_dict({**state, "0.weight": np.zeros(3, np.float32)})


def test_learning_rates_are_data():
    m = model()
    optimizer = tl.optim.Adam(m.parameters(), lr=0.05)
    session = TrainingSession(exported(m, optimizer))
    draws = tl.get_rng_state()
    for i, rate in enumerate((0.1, 0.01, 0.3)):
        optimizer.param_groups[0]["lr"] = rate
        plain(m, optimizer, i)
    tl.set_rng_state(draws)
    for i, rate in enumerate((0.1, 0.01, 0.3)):
        session.numbers["optimizer.param_groups.0.lr"] = rate
        session.step(X[i], Y[i])
    check(session, m)


def test_gradients_are_clipped_where_a_hook_of_the_optimizer_clips():
    m = model()
    optimizer = tl.optim.SGD(m.parameters(), lr=0.5, momentum=0.9)

    def clip(*_):
        nn.utils.clip_grad_norm_(m.parameters(), 0.1)

    optimizer.register_step_pre_hook(clip)
    session = TrainingSession(exported(m, optimizer))
    draws = tl.get_rng_state()
    want = [plain(m, optimizer, i) for i in range(3)]
    tl.set_rng_state(draws)
    assert [session.step(X[i], Y[i]).item() for i in range(3)] == want


class Twice(tl.autograd.Function):
    """A function whose gradient is Python."""

    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 2


def test_what_a_training_program_cannot_hold_is_an_error():
    m = model()
    sgd = tl.optim.SGD(m.parameters(), lr=0.1)
    x = (tl.tensor(X[0]), tl.tensor(Y[0]))
    with pytest.raises(RuntimeError, match="calls Python|other than an operator"):
        export_training(m, lambda m, x, y: loss_of(m, Twice.apply(m[0](x)).sum(1, keepdim=True) + x, y), sgd, x)
    with pytest.raises(TypeError, match="one element"):
        export_training(m, lambda m, x, y: m(x), sgd, x)
    with pytest.raises(ValueError, match="export_training"):
        TrainingSession(export(m, x[:1]))
    session = TrainingSession(exported(m, sgd))
    with pytest.raises(TypeError, match="got 1 arguments"):
        session.step(X[0])
    with pytest.raises(ValueError, match="dim 0 is 5, want 6"):
        session.step(X[0][:5], Y[0][:5])
    with pytest.raises(NotImplementedError):
        export(m, x[:1]).module().eval()
    with pytest.raises(ValueError, match="TrainingSession runs it"):
        exported(m, sgd).module()
