"""The comparison rule: rounding passes on every processor, errors do not."""

from __future__ import annotations

import oracle
import processor
import pytest
import torch

import torchlette


def near(got, want, operand, f):
    oracle.assert_near(
        torchlette.tensor(got.tolist(), dtype=getattr(torchlette, oracle.dtype_name(got.dtype))),
        want,
        lambda w: f(w(operand)),
    )


def halves():
    return torch.linspace(-3, 3, 64).half()


def test_one_rounding_is_as_good_as_several():
    """Ours rounds once; PyTorch's rounds after each step or once, depending on the processor's instructions."""
    x = halves()

    def f(t):
        return ((t * 1.1 + 100) * 1.3 - 130) * 0.9

    once = f(x.double()).half()
    with pytest.raises(AssertionError):
        torch.testing.assert_close(once, f(x))
    near(once, f(x), x, f)
    near(once, once, x, f)


def test_a_result_that_lost_nothing_leaves_room_for_the_condition():
    """Where PyTorch's result happens to be exact, ours may still have the error that the problem's condition allows."""
    x = torch.tensor([1.0 + 2**-12, 3.0])

    def f(t):
        return (t - 1) * 1000

    want = f(x.double()).float()
    near(want * (1 + torch.tensor([2e-5, 0.0])), want, x, f)
    with pytest.raises(AssertionError, match="ours is"):
        near(want * (1 + torch.tensor([2e-2, 0.0])), want, x, f)


def test_what_rounding_does_not_explain_fails():
    x = halves()

    def f(t):
        return t.exp()

    wrong = f(x)
    wrong[-1] *= 1.02
    with pytest.raises(AssertionError, match="ours is"):
        near(wrong, f(x), x, f)
    with pytest.raises(AssertionError):
        near(f(x).float(), f(x), x, f)
    with pytest.raises(AssertionError):
        near(f(x)[:-1], f(x), x, f)
    infinite = f(x)
    infinite[0] = float("inf")
    with pytest.raises(AssertionError):
        near(infinite, f(x), x, f)


def test_float64_and_integers_have_the_defaults_alone():
    for dtype in (torch.float64, torch.int64):
        x = torch.arange(4).to(dtype)
        with pytest.raises(AssertionError):
            near((x * 1.001 + 1).to(dtype), x, x, lambda t: t)


def test_a_stale_exception_fails_on_the_recorded_processor_alone(monkeypatch):
    monkeypatch.setattr(processor, "RECORDED", processor.family())
    processor.report_stale([])
    with pytest.raises(AssertionError, match="nothing needs any more"):
        processor.report_stale(["an exception"])
    monkeypatch.setenv("ATEN_CPU_CAPABILITY", "default")
    assert processor.family() != processor.RECORDED
    with pytest.warns(UserWarning, match="ATEN_CPU_CAPABILITY=default.*an exception"):
        processor.report_stale(["an exception"])
