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


@pytest.mark.parametrize("zero", [False, True])
def test_a_gradient_that_a_captured_function_reads_stays_usable(zero: bool) -> None:
    """A capture ends the handles that it made; a gradient from before is read again afterwards."""
    w = tl.ones(3, requires_grad=True)
    opt = tl.optim.SGD([w], lr=0.1)

    @tl.jit
    def clip(x: tl.Tensor) -> tl.Tensor:
        if zero:
            opt.zero_grad(set_to_none=False)
        return nn.utils.clip_grad_norm_([w], 1.0) + x

    for _ in range(5):
        (w * 2).sum().backward()
        clip(tl.ones(()))
        assert w.grad is not None
        assert w.grad.tolist() == pytest.approx([0.0 if zero else 3**-0.5] * 3, abs=1e-5)


class _Scaled:
    factor = 2.0

    @staticmethod
    def shift() -> float:
        return SHIFT

    def helped(self, x: tl.Tensor) -> tl.Tensor:
        return x * self.factor + self.shift()


SHIFT = 1.0


def test_class_attributes_and_what_methods_use_are_guarded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A changed attribute of a class, a global of a method, or a replaced method gives another program."""
    obj = _Scaled()
    f = tl.jit(lambda x: obj.helped(x))
    x = tl.ones(2)
    assert [f(x).tolist() for _ in range(3)] == [[3.0, 3.0]] * 3
    monkeypatch.setattr(_Scaled, "factor", 5.0)
    assert [f(x).tolist() for _ in range(3)] == [[6.0, 6.0]] * 3
    monkeypatch.setitem(globals(), "SHIFT", 0.0)
    assert [f(x).tolist() for _ in range(3)] == [[5.0, 5.0]] * 3
    monkeypatch.setattr(_Scaled, "helped", lambda self, x: x)
    assert [f(x).tolist() for _ in range(3)] == [[1.0, 1.0]] * 3


class _Net(nn.Module):
    def forward(self, x: tl.Tensor) -> tl.Tensor:
        return x * SHIFT


def test_globals_of_a_modules_forward_are_guarded(monkeypatch: pytest.MonkeyPatch) -> None:
    f = tl.jit(_Net())
    assert [f(tl.ones(1)).item() for _ in range(3)] == [1.0] * 3
    monkeypatch.setitem(globals(), "SHIFT", 3.0)
    assert [f(tl.ones(1)).item() for _ in range(3)] == [3.0] * 3


def test_an_argument_that_is_returned_is_the_callers_tensor() -> None:
    f = tl.jit(lambda x: (x, x * 2, [x]))
    for _ in range(4):
        x = tl.ones(2)
        same, _, (again,) = f(x)
        assert same is x and again is x


@pytest.mark.parametrize("make", [lambda k: tl.full((3,), k), lambda k: types.SimpleNamespace(k=k)])
def test_a_variable_from_outside_is_what_it_holds_now(make: Any) -> None:
    """Tensors and objects that a variable of a closure held before do not count, even where a new one takes the memory
    of one of them; of the new one numbers are watched.
    """
    held: Any = None

    @tl.jit
    def f(x: tl.Tensor) -> tl.Tensor:
        return x * (held if isinstance(held, tl.Tensor) else held.k)

    x = tl.ones(3)
    for k in range(20):
        held = None
        held = make(float(k))
        assert [f(x).tolist() for _ in range(4)] == [[float(k)] * 3] * 4
        if k < 3 and not isinstance(held, tl.Tensor):
            held.k = -1.0
            assert [f(x).tolist() for _ in range(3)] == [[-1.0] * 3] * 3


def test_lists_from_outside_hold_other_objects() -> None:
    scales = [types.SimpleNamespace(k=2.0)]
    f = tl.jit(lambda x: x * scales[0].k)
    x = tl.ones(1)
    assert [f(x).item() for _ in range(4)] == [2.0] * 4
    scales[0] = types.SimpleNamespace(k=3.0)
    assert [f(x).item() for _ in range(4)] == [3.0] * 4
    scales[0].k = 5.0
    assert [f(x).item() for _ in range(4)] == [5.0] * 4


def test_one_tensor_for_two_arguments_is_another_call() -> None:
    """The program of two tensors does not serve a call in which both are one, whose gradient adds up."""
    f = tl.jit(lambda a, b: a * 2 + b if a is not b else a * 10)
    x, y = tl.ones(1), tl.ones(1)
    assert [f(x, y).item() for _ in range(3)] == [3.0] * 3
    assert [f(x, x).item() for _ in range(3)] == [10.0] * 3
    assert [f(x, y).item() for _ in range(2)] == [3.0] * 2


class Scale:
    k = 2.0


def test_an_attribute_of_an_object_may_hide_that_of_its_class() -> None:
    scale, table = Scale(), {"a": 1.0}
    f = tl.jit(lambda x: x * scale.k + table.get("b", 0.0))
    x = tl.ones(1)
    assert [f(x).item() for _ in range(4)] == [2.0] * 4
    scale.k = 3.0
    assert [f(x).item() for _ in range(4)] == [3.0] * 4
    table["b"] = 4.0
    assert [f(x).item() for _ in range(4)] == [7.0] * 4
    del scale.k
    assert [f(x).item() for _ in range(4)] == [6.0] * 4


@pytest.mark.parametrize("held", ["variable", "attribute", "item"])
def test_a_tensor_from_outside_may_begin_to_need_a_gradient(held: str) -> None:
    w = tl.full((2,), 3.0)
    box, items = types.SimpleNamespace(w=w), [w]
    read = {"variable": lambda: w, "attribute": lambda: box.w, "item": lambda: items[0]}[held]
    f = tl.jit(lambda x: (x * read()).sum())
    x = tl.ones(2).requires_grad_()
    for needs in (False, True, False, True):
        w.requires_grad_(needs)
        for _ in range(4):
            x.grad = w.grad = None
            f(x).backward()
            assert x.grad is not None and x.grad.tolist() == [3.0, 3.0]
            assert (w.grad.tolist() if w.grad is not None else None) == ([1.0, 1.0] if needs else None)
