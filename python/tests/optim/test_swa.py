"""Averaged models and their schedule are PyTorch's."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import torchlette as tl  # noqa: E402
import torchlette.nn  # noqa: E402
import torchlette.optim  # noqa: E402
import torchlette.optim.swa_utils  # noqa: E402

AVERAGES = {
    "equal": lambda s: {},
    "equal_many": lambda s: {"multi_avg_fn": s.get_swa_multi_avg_fn()},
    "equal_one": lambda s: {"avg_fn": s.get_swa_avg_fn()},
    "ema_many": lambda s: {"multi_avg_fn": s.get_ema_multi_avg_fn(0.9)},
    "ema_one": lambda s: {"avg_fn": s.get_ema_avg_fn(0.8)},
    "ema_buffers": lambda s: {"multi_avg_fn": s.get_ema_multi_avg_fn(0.9), "use_buffers": True},
}


def model(t):
    m = t.nn.Linear(3, 2)
    m.register_buffer("seen", t.zeros(2))
    return m


@pytest.mark.parametrize("name", AVERAGES)
def test_averages(name):
    states = []
    for t in (torch, tl):
        rng = np.random.default_rng(1)
        m = model(t)
        averaged = t.optim.swa_utils.AveragedModel(m, **AVERAGES[name](t.optim.swa_utils))
        for _ in range(4):
            m.load_state_dict(
                {k: t.tensor(rng.standard_normal(tuple(v.shape)).astype("float32")) for k, v in m.state_dict().items()}
            )
            averaged.update_parameters(m)
        states.append({k: np.asarray(v.detach()) for k, v in averaged.state_dict().items()})
        x = t.ones(1, 3)
        assert averaged(x).shape == (1, 2)
    assert states[0].keys() == states[1].keys()
    for key, value in states[0].items():
        np.testing.assert_allclose(states[1][key], value, rtol=1.3e-6, atol=1e-5, err_msg=key)


@pytest.mark.parametrize("options", [{}, {"anneal_epochs": 4, "anneal_strategy": "linear"}, {"anneal_epochs": 0}])
def test_schedule(options):
    rates = []
    for t in (torch, tl):
        opt = t.optim.SGD(
            [{"params": [t.nn.Parameter(t.ones(1))]}, {"params": [t.nn.Parameter(t.ones(1))], "lr": 0.7}], lr=0.3
        )
        schedule = t.optim.swa_utils.SWALR(opt, swa_lr=[0.05, 0.01], **options)
        seen = []
        for _ in range(15):
            opt.step()
            schedule.step()
            seen.append(schedule.get_last_lr())
        rates.append((seen, set(schedule.state_dict())))
    assert rates[0][1] == rates[1][1]
    np.testing.assert_allclose(rates[1][0], rates[0][0], rtol=1e-12)


class Statistics(tl.nn.Module):
    """Stands in for a batch normalisation: keeps the mean of its inputs since the last reset."""

    def __init__(self):
        super().__init__()
        self.momentum = 0.1
        self.register_buffer("running_mean", tl.full((2,), 7.0))
        self.batches = 0

    def reset_running_stats(self):
        self.running_mean.zero_()
        self.batches = 0

    def forward(self, x):
        if self.training:
            self.batches += 1
            weight = 1 / self.batches if self.momentum is None else self.momentum
            self.running_mean.lerp_(x.mean(0), weight)
        return x


def test_update_bn():
    m = tl.nn.Sequential(Statistics()).eval()
    batches = [(tl.full((3, 2), float(i)), i) for i in range(4)]
    tl.optim.swa_utils.update_bn(batches, m)
    assert m[0].running_mean.tolist() == [1.5, 1.5]
    assert m[0].momentum == 0.1
    assert not m.training


def test_errors():
    for call in (
        lambda s, o, m: s.get_ema_multi_avg_fn(1.5),
        lambda s, o, m: s.AveragedModel(m, avg_fn=s.get_swa_avg_fn(), multi_avg_fn=s.get_swa_multi_avg_fn()),
        lambda s, o, m: s.SWALR(o, 0.1, anneal_strategy="square"),
        lambda s, o, m: s.SWALR(o, 0.1, anneal_epochs=-1),
    ):
        raised = []
        for t in (torch, tl):
            m = model(t)
            with pytest.raises(Exception) as error:
                call(t.optim.swa_utils, t.optim.SGD(m.parameters(), lr=0.1), m)
            raised.append((error.type, str(error.value)))
        assert raised[0] == raised[1]
