"""Hooks that hold their own tensor are collected once nothing can call them, and no earlier."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest

import torchlette


class Held:
    """What a hook holds besides its tensor; weak references tell whether it lives."""


def hooked(tensor: torchlette.Tensor, calls: list[float]) -> weakref.ref[Held]:
    """Register a hook that holds ``tensor`` and is known by the result."""
    held = Held()

    def hook(g: torchlette.Tensor, tensor: Any = tensor, held: Any = held) -> None:
        calls.append(g.sum().item())

    tensor.register_hook(hook)
    return weakref.ref(held)


MADE: dict[str, Callable[[torchlette.Tensor], torchlette.Tensor]] = {
    "leaf": lambda x: x,
    "result": lambda x: x * 2,
    "viewed": lambda x: (x * 2).view(-1),
}


@pytest.mark.parametrize("made", MADE)
def test_a_cycle_is_collected(made: str) -> None:
    tensor = MADE[made](torchlette.ones(2, requires_grad=True))
    alive = hooked(tensor, [])
    gc.collect()
    assert alive() is not None, "the tensor still names the hook"
    tensor.detach()
    del tensor
    gc.collect()
    assert alive() is None


@pytest.mark.parametrize("made", MADE)
def test_what_a_result_can_call_stays(made: str) -> None:
    tensor = MADE[made](torchlette.ones(2, requires_grad=True))
    calls: list[float] = []
    alive = hooked(tensor, calls)
    total = (tensor * 3).sum()
    del tensor
    gc.collect()
    total.backward()
    assert calls == [6.0]
    del total
    gc.collect()
    assert alive() is None


def test_after_an_in_place_operation() -> None:
    """The hook is on the value before the operation, which its history keeps."""
    x = torchlette.ones(2, requires_grad=True)
    y = x * 2
    calls: list[float] = []
    alive = hooked(y, calls)
    y.mul_(5)
    gc.collect()
    y.sum().backward()
    assert calls == [10.0]
    del y
    gc.collect()
    assert alive() is None


def test_a_removed_hook_lets_go() -> None:
    x = torchlette.ones(2, requires_grad=True)
    held = Held()
    alive = weakref.ref(held)
    kept, dropped = x.register_hook(print), x.register_hook(lambda g, held=held: None)
    del held
    dropped.remove()
    dropped.remove()
    assert alive() is None
    kept.remove()
    x.sum().backward()
