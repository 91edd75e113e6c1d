"""What PyTorch's own tests of optimizers and schedules found."""

import copy

import pytest

import torchlette as tl
from torchlette.optim import SGD, lr_scheduler
from torchlette.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook


def one_group(lr):
    return SGD([tl.nn.Parameter(tl.ones(2))], lr=lr)


def test_hooks_of_all_optimizers_run_around_an_optimizers_own():
    said = []
    optimizers = one_group(0.1), one_group(0.2)
    handles = [
        register_optimizer_step_pre_hook(lambda *_: said.append("all before")),
        register_optimizer_step_post_hook(lambda *_: said.append("all after")),
        optimizers[0].register_step_pre_hook(lambda *_: said.append("before")),
        optimizers[0].register_step_post_hook(lambda *_: said.append("after")),
    ]
    optimizers[0].step()
    assert said == ["all before", "before", "after", "all after"]
    optimizers[1].step()
    assert said[4:] == ["all before", "all after"]
    for handle in handles:
        handle.remove()
    optimizers[0].step()
    assert len(said) == 6


@pytest.mark.parametrize(
    "make",
    [
        lambda o: lr_scheduler.StepLR(o, 1),
        lambda o: lr_scheduler.ExponentialLR(o, 0.5),
        lambda o: lr_scheduler.CosineAnnealingLR(o, 10),
        lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 10),
        lambda o: lr_scheduler.LinearLR(o),
    ],
    ids=["step", "exponential", "cosine", "restarts", "linear"],
)
def test_a_rate_that_is_a_tensor_is_written_in_place_and_its_initial_value_stays(make):
    lr = tl.tensor(0.1)
    optimizer, numbers = one_group(lr), one_group(0.1)
    schedule, expected = make(optimizer), make(numbers)
    before = copy.deepcopy(optimizer.param_groups)
    for _ in range(3):
        optimizer.step(), numbers.step()
        schedule.step(), expected.step()
        assert optimizer.param_groups[0]["lr"] is lr
        assert lr.item() == pytest.approx(numbers.param_groups[0]["lr"])
        assert schedule.get_last_lr()[0].item() == pytest.approx(expected.get_last_lr()[0])
    lr.mul_(0.1)
    assert schedule.base_lrs[0].item() == pytest.approx(0.1)
    assert optimizer.param_groups[0]["initial_lr"].item() == before[0]["initial_lr"].item()


@pytest.mark.parametrize("least", [0.04, [0.04]], ids=["one", "list"])
def test_plateau_follows_groups_that_are_added(least):
    optimizer = one_group(0.1)
    schedule = lr_scheduler.ReduceLROnPlateau(optimizer, patience=0, min_lr=least)
    optimizer.add_param_group({"params": [tl.nn.Parameter(tl.ones(2))], "lr": 0.2})
    schedule.step(1.0)
    if isinstance(least, list):
        with pytest.raises(RuntimeError, match="The number of param groups in the `optimizer`"):
            schedule.step(2.0)
        return
    schedule.step(2.0)
    assert [group["lr"] for group in optimizer.param_groups] == [0.04, 0.04]


def test_groups_are_all_named_or_none_is():
    optimizer = one_group(0.1)
    with pytest.raises(ValueError, match="cannot add param group with names to the optimizer"):
        optimizer.add_param_group({"params": [("w", tl.nn.Parameter(tl.ones(2)))]})


def test_values_for_groups_must_be_as_many_as_groups():
    with pytest.raises(ValueError, match="max_lr must have the same length as optimizer.param_groups"):
        lr_scheduler.OneCycleLR(one_group(0.1), [0.1, 0.2], 10)
