"""Calls of captured functions that the program of the last call serves, and what keeps it from that."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import torchlette as tl
from torchlette import _C, nn
from torchlette._runtime import captured

SCALE = 2.0


class Runs:
    """Counts runs of Python code, in what no capture watches."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0


class Case:
    """A captured function of one tensor, after some calls, and what it reaches."""

    def __init__(self, jit: Callable[[Any], Any]) -> None:
        runs, self.net, self.items, factor = Runs(), nn.Linear(3, 3, bias=False), [1.0, 2.0], 3.0

        def bind(value: float) -> None:
            nonlocal factor
            factor = value

        def plain(x: Any) -> Any:
            runs.count += 1
            return self.net(x) * factor * SCALE * self.items[1], x

        self.runs, self.bind, self.plain, self.f = runs, bind, plain, jit(plain)
        self.x = tl.arange(3).float()
        for _ in range(4):
            self.f(self.x)

    def same(self, x: Any) -> None:
        """Assert that the captured and the plain function agree on x: values, and whether a gradient is needed."""
        got, argument = self.f(x)
        want = self.plain(x)[0]
        assert argument is x
        assert (got.tolist(), got.requires_grad) == (want.tolist(), want.requires_grad)


#: How the function of a case is captured. The case is made in the test, which must leave nothing behind.
JITS: list[Callable[[Any], Any]] = [tl.jit, lambda f: tl.compile(f, reuse_trace=True)]
every_jit = pytest.mark.parametrize("jit", JITS, ids=["jit", "compile"])


@contextlib.contextmanager
def only_last_calls() -> Iterator[None]:
    """Let calls fail that the last one does not serve."""

    def refuse(*args: Any) -> Any:
        raise AssertionError("all was looked at")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(captured._Function, "call", refuse)
        yield


@every_jit
def test_a_like_call_is_served_by_the_last_program(jit: Callable[[Any], Any]) -> None:
    case = Case(jit)
    other = case.x + 1
    want = case.plain(other)[0].tolist()
    with only_last_calls():
        got, argument = case.f(other)
    assert got.tolist() == want
    assert argument is other
    single = tl.jit(lambda x: x * 2)
    for _ in range(3):
        single(other)
    with only_last_calls():
        assert single(case.x).tolist() == [0, 2, 4]


CHANGES: dict[str, Callable[[Case], Any]] = {
    "variable": lambda c: c.bind(5.0),
    "object": lambda c: setattr(c, "net", nn.Linear(3, 3, bias=False)),
    "item": lambda c: c.items.__setitem__(1, 7.0),
    "longer list": lambda c: c.items.append(7.0),
    "other list": lambda c: setattr(c, "items", [1.0, 9.0]),
    "leaf": lambda c: c.net.weight.requires_grad_(False),
    "parameter": lambda c: setattr(c.net, "weight", nn.Parameter(tl.ones(3, 3))),
    "hook": lambda c: c.net.register_forward_hook(lambda module, args, result: result * 2),
    "reset": lambda c: tl.compiler.reset(),
}


@pytest.mark.parametrize("change", CHANGES)
@every_jit
def test_what_the_function_reaches_counts(jit: Callable[[Any], Any], change: str) -> None:
    case = Case(jit)
    CHANGES[change](case)
    before = case.runs.count
    case.f(case.x)
    assert case.runs.count == before + 1
    for _ in range(4):
        case.same(case.x)


@every_jit
def test_a_global_number_counts(jit: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    case = Case(jit)
    monkeypatch.setitem(globals(), "SCALE", 4.0)
    for _ in range(4):
        case.same(case.x)


@every_jit
def test_other_arguments_and_modes_count(jit: Callable[[Any], Any]) -> None:
    case = Case(jit)
    shown = [tl.ones(2, 3), tl.ones(3, requires_grad=True), tl.ones(3, 2).t()[:, :], tl.ones(6)[::2]]
    for x in [*shown, case.x, *shown]:
        case.same(x)
        with tl.no_grad():
            case.same(x)
    got = case.f(x=case.x)[0]
    assert got.tolist() == case.plain(case.x)[0].tolist()
    two = tl.jit(lambda a, b: a * 2 + b)
    for _ in range(3):
        two(tl.ones(3), case.x)
    assert two(case.x, case.x).tolist() == [0, 3, 6]


def _stance(case: Case) -> None:
    with tl.compiler.set_stance("force_eager"):
        case.f(case.x)


def _hooks(case: Case) -> None:
    with tl.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        case.f(case.x)


def _walk(case: Case) -> None:
    y = tl.ones(3, requires_grad=True)
    y.register_hook(lambda g: None if case.f(case.x) else None)
    (y * 2).sum().backward()


def _capture(case: Case) -> None:
    outer = tl.jit(lambda x: case.f(x)[0] + 1)
    outer(case.x)
    before = case.runs.count
    outer(case.x)  # the capture
    assert case.runs.count == before + 1
    case.runs.count = before


def _vmap(case: Case) -> None:
    x = tl.arange(6).reshape(2, 3).float()
    got = tl.func.vmap(lambda x: case.f(x)[0])(x)
    case.runs.count -= 1
    assert got.tolist() == tl.stack([case.plain(row)[0] for row in x]).tolist()
    case.runs.count -= 1


@pytest.mark.parametrize("inside", [_stance, _hooks, _walk, _vmap])
@every_jit
def test_where_the_function_runs(jit: Callable[[Any], Any], inside: Callable[[Case], None]) -> None:
    case = Case(jit)
    before = case.runs.count
    inside(case)
    assert case.runs.count == before + 1
    with only_last_calls():
        case.f(case.x)


@every_jit
def test_a_capture_runs_captured_functions(jit: Callable[[Any], Any]) -> None:
    case = Case(jit)
    _capture(case)
    with only_last_calls():
        case.f(case.x)


def test_an_engine_that_was_reset_runs_the_function() -> None:
    runs = Runs()

    def plain(x: Any) -> Any:
        runs.count += 1
        return x * 2

    f = tl.jit(plain)
    for _ in range(4):
        f(tl.ones(2))
    tl.reset()
    assert f(tl.ones(2)).tolist() == [2, 2]
    assert runs.count == 3


def test_what_is_known_of_a_call_is_given_by_name() -> None:
    """The extension alone has the order: a part of another name is an error."""
    known: dict[str, Any] = {name: [] for name in "entries values containers lengths cells leaves lists read".split()}
    known |= {"lengths": b"", "constants": [], "found": []}
    assert _C._unchanged(_C._watched(**known))
    assert not _C._unchanged(_C._watched(**{**known, "read": [1]}))
    del known["found"]
    for other in ({}, {"seen": []}, {"found": [], "seen": []}):
        with pytest.raises(TypeError, match="_watched"):
            _C._watched(**known, **other)
    with pytest.raises(TypeError, match="_watched"):
        _C._watched([], **known)  # type: ignore[misc]
    with pytest.raises(TypeError, match="_last_call"):
        _C._last_call(watched=(), layouts=b"")  # type: ignore[call-arg]
