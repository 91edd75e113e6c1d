"""What a captured function reaches: structures of arguments and results, and objects that are replaced."""

from __future__ import annotations

import dataclasses
import types
from collections import OrderedDict
from typing import Any

import pytest

import torchlette as tl
from torchlette import nn


def bits(t: tl.Tensor) -> str:
    return repr(t.tolist())


@dataclasses.dataclass
class Pair:
    a: Any
    b: Any = None


class Answer(OrderedDict):  # type: ignore[type-arg]
    """A dict with a method, as libraries return it."""

    def total(self) -> Any:
        return sum(self.values())


def test_dataclasses_and_dicts_of_other_classes_are_arguments_and_results() -> None:
    """Their tensors are data of the call, and results have the class."""
    f = tl.jit(lambda p: (Pair(p.a * 2, [p.b, None]), Answer(x=p.a, y=p.b)))
    for i in range(5):
        pair, answer = f(Pair(tl.full((2,), float(i)), tl.ones(2)))
        assert isinstance(pair, Pair)
        assert pair.a.tolist() == [2 * i, 2 * i]
        assert pair.b[0].tolist() == [1, 1]
        assert pair.b[1] is None
        assert isinstance(answer, Answer)
        assert answer.total().tolist() == [i + 1, i + 1]


def replace_in_a_dict(state: Any) -> None:
    state.box["t"] = tl.full((2,), 5.0)


def replace_an_attribute(state: Any) -> None:
    state.holder.t = tl.full((2,), 6.0)


def replace_in_a_list(state: Any) -> None:
    state.items[0] = tl.full((2,), 7.0)


def change_a_number_in_a_list(state: Any) -> None:
    state.items[1] = 8.0


def replace_a_submodule(state: Any) -> None:
    state.model[0] = nn.Linear(2, 2)


def add_a_hook(state: Any) -> None:
    state.model[0].register_forward_hook(lambda module, args, out: out * 9)


def replace_a_function(state: Any) -> None:
    state.holder.act = tl.cos


@pytest.mark.parametrize(
    "change",
    [
        replace_in_a_dict,
        replace_an_attribute,
        replace_in_a_list,
        change_a_number_in_a_list,
        replace_a_submodule,
        add_a_hook,
        replace_a_function,
    ],
)
def test_what_a_function_reaches_may_be_replaced(change: Any) -> None:
    """A program is never called for other objects than those that it was captured with."""
    state = types.SimpleNamespace(
        box={"t": tl.ones(2)},
        holder=types.SimpleNamespace(t=tl.ones(2), act=tl.sin),
        items=[tl.ones(2), 3.0],
        model=nn.Sequential(nn.Linear(2, 2)),
    )

    def f(x: tl.Tensor) -> Any:
        y = state.model(x) + state.box["t"] + state.holder.t
        return state.holder.act(y * state.items[0] * state.items[1]).detach()

    jitted, x = tl.jit(f), tl.ones(2)
    for _ in range(3):
        assert bits(jitted(x)) == bits(f(x))
    before = bits(f(x))
    change(state)
    assert bits(f(x)) != before
    for _ in range(4):
        assert bits(jitted(x)) == bits(f(x))
