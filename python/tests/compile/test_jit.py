"""Captured functions have the bits of the plain function, call after call, and their Python code runs twice."""

from __future__ import annotations

import contextlib
import gc
import importlib
from collections.abc import Callable
from typing import Any

import pytest

import torchlette as tl
from torchlette import nn
from torchlette.testing.holding import disabled


class Hidden:
    """Holds what is in no key: an object without attributes of its own."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


class Counted:
    """A function that counts the runs of its Python code."""

    def __init__(self, fn: Callable[..., Any]) -> None:
        self.fn, self._runs = fn, Hidden(0)

    @property
    def runs(self) -> int:
        return self._runs.value

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self._runs.value += 1
        return self.fn(*args, **kwargs)


def bits(value: Any) -> Any:
    """Return nested values with the elements and dtypes of tensors."""
    if isinstance(value, (list, tuple)):
        return [bits(v) for v in value]
    if isinstance(value, dict):
        return {k: bits(v) for k, v in value.items()}
    return (str(value.dtype), repr(value.tolist()), value.requires_grad) if isinstance(value, tl.Tensor) else value


def net(*, dropout: float = 0.0) -> nn.Module:
    tl.manual_seed(3)
    return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Dropout(dropout), nn.Linear(6, 2))


def arithmetic() -> Any:
    return lambda x, y: (x * y + 2.5).tanh()


def containers() -> Any:
    return lambda x, y: {"a": [x + 1, (y, 3)], "b": None, "again": x, "view": (x * 2).t()[1:]}


def draws() -> Any:
    return lambda x, y: (tl.rand_like(x) + x, nn.functional.dropout(y, 0.5), tl.randint(9, (3,)), tl.rand(2).sum())


def written_arguments() -> Any:
    def f(x: tl.Tensor, y: tl.Tensor) -> Any:
        x.mul_(2)
        x[0].add_(y[0])
        return x, x[1] + 1

    return f


def state() -> Any:
    total, fresh = tl.zeros(3, 4), tl.ones(2)
    total += 1

    def f(x: tl.Tensor, y: tl.Tensor) -> Any:
        before = total * 2
        total.add_(x)
        total.mul_(0.5)
        fresh[1] = y.sum()
        return before, (total * y).sum(), fresh

    return f


def buffers() -> Any:
    norm = nn.BatchNorm1d(4)
    return lambda x, y: (norm(x), norm.running_mean, norm.num_batches_tracked)


def parameters_updated_outside() -> Any:
    model = net(dropout=0.25)
    opt = tl.optim.AdamW(model.parameters(), lr=0.1)

    def f(x: tl.Tensor, y: tl.Tensor) -> Any:
        return model(x).square().mean() + y.mean()

    def after(loss: tl.Tensor) -> Any:
        opt.zero_grad()
        loss.backward()
        opt.step()
        return [p.detach() for p in model.parameters()], [p.grad for p in model.parameters()]

    f.after = after  # type: ignore[attr-defined]
    return f


def a_training_step() -> Any:
    model = net(dropout=0.25)
    opt = tl.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=0.01)

    def f(x: tl.Tensor, y: tl.Tensor) -> Any:
        opt.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        opt.step()
        return loss.detach(), y

    f.after = lambda _: [(p.detach(), p.grad) for p in model.parameters()]  # type: ignore[attr-defined]
    return f


def accumulated_gradients() -> Any:
    w = tl.ones(4, requires_grad=True)

    def f(x: tl.Tensor, y: tl.Tensor) -> Any:
        (x * w * w).sum().backward()
        return y

    f.after = lambda _: w.grad  # type: ignore[attr-defined]
    return f


def gradients_of_gradients() -> Any:
    w = tl.full((4,), 0.5, requires_grad=True)

    def f(x: tl.Tensor, y: tl.Tensor) -> Any:
        return (w.sin() * x).sum() * y.sum()

    def after(out: tl.Tensor) -> Any:
        (g,) = tl.autograd.grad(out, w, create_graph=True)
        (h,) = tl.autograd.grad(g.square().sum(), w)
        return g.detach(), h

    f.after = after  # type: ignore[attr-defined]
    return f


def a_penalty_inside() -> Any:
    def f(x: tl.Tensor, y: tl.Tensor) -> Any:
        z = x.clone().requires_grad_()
        (g,) = tl.autograd.grad((z.sin() * y).sum(), z, create_graph=True)
        (h,) = tl.autograd.grad(g.sum(), z)
        return g.detach(), h

    return f


def halves() -> Any:
    model = net()

    def f(x: tl.Tensor, y: tl.Tensor) -> Any:
        with tl.autocast("cpu", dtype=tl.bfloat16):
            return model(x), x @ y.t()

    return f


def branches() -> Any:
    return lambda x, y, flip=False, k=2.0: (-x if flip else x) * k + y


PROGRAMS = [
    arithmetic,
    containers,
    draws,
    written_arguments,
    state,
    buffers,
    parameters_updated_outside,
    a_training_step,
    accumulated_gradients,
    gradients_of_gradients,
    a_penalty_inside,
    halves,
    branches,
]


@pytest.mark.parametrize("wrap", [tl.jit, lambda f: tl.compile(f, reuse_trace=True, backend="eager")])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_captured_functions_have_the_bits_of_plain_ones(program: Any, wrap: Any, device: str) -> None:
    """Results, writes, gradients, state and the generator, over six calls; the code runs at most three times."""

    def history(wrap: Any) -> Any:
        tl.manual_seed(5)
        fn = program()
        counted = Counted(fn)
        f, seen = wrap(counted), []
        for i in range(6):
            x, y = tl.randn(3, 4), tl.randn(3, 4) * (i + 1)
            out = f(x, y)
            after = getattr(fn, "after", lambda out: None)(out)
            seen.append(bits([out, after, x, y]))
        return seen, bits(tl.rand(2)), counted.runs

    # On a GPU a fused plan replaces the first one once it is compiled, and the driver may contract a * b + c in it.
    with tl.device(device), disabled("fuse" if device != "cpu" else ""):
        want, got = history(lambda f: f), history(wrap)
    assert got[:2] == want[:2]
    assert want[2] == 6
    assert got[2] <= 3


def test_a_signature_is_captured_once() -> None:
    """Each changed fact gives the plain result at once, and the former program is found again."""
    scale = 2.0
    box = {"k": 1.0}
    layer = nn.Dropout(0.5)
    frozen = nn.Linear(4, 4)

    def f(x: tl.Tensor, k: Any = 1, *, name: str = "a") -> Any:
        y = layer(x) * scale * box["k"] / k
        y = y + tl.zeros(1) if name == "a" else y
        return frozen(y) if y.is_floating_point() else y

    jitted = tl.jit(f)
    x = tl.arange(12.0).reshape(3, 4)

    def check(*args: Any, **kwargs: Any) -> None:
        for _ in range(4):
            tl.manual_seed(2)
            want = bits(f(*args, **kwargs))
            tl.manual_seed(2)
            assert bits(jitted(*args, **kwargs)) == want

    check(x)
    check(x, 2)
    check(x, 2.0)
    check(x, True)
    check(x, -0.0)
    check(x, 0.0)
    check(x, name="b")
    check(x[:2])
    check(x.t().contiguous().t())
    check(x.double().float()[1:])
    with tl.no_grad():
        check(x)
    layer.eval()
    check(x)
    scale = 3.0
    check(x)
    box["k"] = 5.0
    check(x)
    frozen.weight.requires_grad_(False)
    check(x)
    frozen.weight = nn.Parameter(tl.ones(4, 4))
    check(x)
    frozen.bias = None
    check(x)
    tl.set_default_dtype(tl.float64)
    try:
        check(x, name="b")
    finally:
        tl.set_default_dtype(tl.float32)
    check(x.clone().requires_grad_())
    check(k=3, x=x)


def test_numbers_are_told_apart_by_their_bits() -> None:
    """0.0, -0.0, 0 and False; 1, 1.0 and True; NaN."""
    f = tl.jit(lambda x, k: x * k)
    x = tl.tensor([1.0, -2.0])
    for _ in range(4):
        for k in (0.0, -0.0, 0, False, 1, 1.0, True, float("nan")):
            assert repr(f(x, k).tolist()) == repr((x * k).tolist())


def test_an_optimizers_options_and_state_are_guarded() -> None:
    """A schedule changes the learning rate; a cleared state is another state."""
    histories = []
    for wrap in (lambda f: f, tl.jit):
        w = tl.ones(3, requires_grad=True)
        opt = tl.optim.SGD([w], lr=0.5, momentum=0.5)
        schedule = tl.optim.lr_scheduler.StepLR(opt, 3, 0.5)

        def step(x: tl.Tensor, w: Any = w, opt: Any = opt) -> None:
            opt.zero_grad()
            (w * w * x).sum().backward()
            opt.step()

        f, seen = wrap(step), []
        for i in range(12):
            f(tl.full((3,), 0.1))
            schedule.step()
            if i == 8:
                opt.state.clear()
            seen.append(w.tolist())
        histories.append(seen)
    assert histories[0] == histories[1]


def test_aliased_arguments_have_the_plain_result() -> None:
    """The same tensor twice, overlapping views, an argument that is also state: written or read."""

    def run(wrap: Any, fn: Any) -> Any:
        f, state, seen = wrap(lambda x, y: fn(x, y, state)), tl.arange(6.0), []
        for i in range(4):
            big = tl.arange(8.0) + i
            for x, y in (
                (big[:6], tl.ones(6)),
                (big[:6], big[:6]),
                (big[:6], big[2:]),
                (state, big[2:]),
                (state, state),
            ):
                seen.append(bits(f(x, y)))
            x = big[1:7]
            seen.append(bits([f(x, x), big, state]))
        return seen

    def reads(x: Any, y: Any, state: Any) -> Any:
        return x * y + state

    def writes(x: Any, y: Any, state: Any) -> Any:
        x.add_(1)
        state.mul_(0.5)
        y.mul_(2)
        return x + y, y * state

    for fn in (reads, writes):
        assert run(tl.jit, fn) == run(lambda f: f, fn)


def test_a_missing_gradient_is_another_program() -> None:
    """A state that is written, captured before it was; a gradient that is None in the first calls and later again."""
    w, state = tl.ones(3, requires_grad=True), tl.ones(3)
    twin_w, twin_state = tl.ones(3, requires_grad=True), tl.ones(3)

    def make(w: tl.Tensor, state: tl.Tensor) -> Any:
        def f(x: tl.Tensor) -> tl.Tensor:
            with tl.no_grad():
                state.add_(x)
                state.mul_(2)
            loss = (state * w).sum()
            loss.backward()
            return loss.detach()

        return f

    counted = Counted(make(w, state))
    f, plain = tl.jit(counted), make(twin_w, twin_state)
    for i in range(9):
        if i in (4, 6):
            w.grad = twin_w.grad = None
        x = tl.full((3,), float(i))
        commits = state._version
        assert bits([f(x), state, w.grad]) == bits([plain(x), twin_state, twin_w.grad])
        assert state._version - commits == (2 if counted.runs <= 1 else state._version - commits)
        tl.mark_step()
    assert counted.runs <= 5


@pytest.mark.parametrize("chosen", ["default", "recompile_limit", "cache_size_limit", "argument"])
def test_a_function_has_at_most_eight_programs(chosen: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Further signatures run the function; ``compiler.reset`` forgets the programs. PyTorch's names set the limit."""
    limit = 8 if chosen == "default" else 3
    if chosen.endswith("_limit"):
        monkeypatch.setattr(importlib.import_module("torchlette.torch._dynamo.config"), chosen, limit)
    counted = Counted(lambda x, k: x * k)
    f = tl.jit(counted)
    if chosen == "argument":
        f = tl.compile(counted, reuse_trace=True, recompile_limit=limit)
    for k in range(12):
        for _ in range(4):
            assert f(tl.ones(2), k).tolist() == [k, k]
    assert counted.runs == limit * 2 + 4 * (12 - limit)
    runs = counted.runs
    f(tl.ones(2), 2)
    assert counted.runs == runs
    tl.compiler.reset()
    f(tl.ones(2), 2)
    assert counted.runs == runs + 1


UNCAPTURED: list[tuple[Callable[..., Any], type[Exception], str]] = [
    (lambda x, other, history: (other.add_(x), x.sum().item()), tl.HostReadInCompileError, "return the tensor"),
    (lambda x, other, history: other.tolist(), tl.HostReadInCompileError, "read inside"),
    (lambda x, other, history: setattr(other.add_(x), "data", x), RuntimeError, "copy_"),
    (lambda x, other, history: history.mul_(x), RuntimeError, "write under no_grad"),
    (lambda x, other, history: tl.manual_seed(1), RuntimeError, "seeded inside"),
    (lambda x, other, history: 1 / 0, ZeroDivisionError, "division"),
]


@pytest.mark.parametrize(("fn", "error", "says"), UNCAPTURED)
def test_what_cannot_be_captured_says_why(fn: Callable[..., Any], error: type[Exception], says: str) -> None:
    """The second call raises, and leaves all tensors as they were."""
    other, w = tl.ones(3), tl.ones(3, requires_grad=True)
    history, x = w * 2, tl.ones(3)
    f = tl.jit(lambda x: fn(x, other, history))
    with contextlib.suppress(ZeroDivisionError, tl.HostReadInCompileError):
        f(x)
    before = bits([x, other, history])
    with pytest.raises(error, match=says):
        f(x)
    assert bits([x, other, history]) == before
    history.sum().backward()
    assert w.grad.shape == (3,)


def test_tensors_of_a_capture_do_not_escape() -> None:
    """A tensor that is kept and not returned exists after a plain call only."""
    x, hidden = tl.ones(3), Hidden([])

    async def later(x: tl.Tensor) -> None: ...

    def many(x: tl.Tensor) -> Any:
        yield x

    for fn in (later, many):
        with pytest.raises(RuntimeError, match="a (coroutine|generator) function cannot be"):
            tl.jit(fn)

    def escape(x: tl.Tensor) -> tl.Tensor:
        hidden.value.append(x + 1)
        return x * 2

    f = tl.jit(escape)
    for _ in range(3):
        assert f(x).tolist() == [2, 2, 2]
    made = hidden.value
    assert made[0].tolist() == [2, 2, 2]
    assert len(made) == 2
    with pytest.raises(tl.InvalidTraceTensorEscapeError, match="return it from the function"):
        made[1].tolist()
    assert x.tolist() == [1, 1, 1]


def test_a_capture_undoes_what_it_did() -> None:
    """A function that raises in its capture leaves values, gradients, versions of the generator and modes alone."""
    w, state = tl.ones(3, requires_grad=True), tl.zeros(3)
    w.grad = tl.full((3,), 7.0)
    fail = False

    def f(x: tl.Tensor) -> tl.Tensor:
        state.add_(tl.rand(3))
        w.grad = None
        (w * x).sum().backward()
        if hidden.value:
            raise KeyError
        return state * 1

    hidden = Hidden(fail)
    jitted = tl.jit(f)
    jitted(tl.ones(3))
    before, generator = bits([state, w.grad]), tl._C._rng_state()
    hidden.value = True
    with pytest.raises(KeyError):
        jitted(tl.ones(3))
    assert bits([state, w.grad]) == before
    assert tl._C._rng_state() == generator
    assert not tl.compiler.is_compiling()
    hidden.value = False
    assert jitted(tl.ones(3)).shape == (3,)


def test_modules_and_methods_are_captured() -> None:
    """``jit(module)`` is a module with the original's state; a decorated method has programs for each object."""
    model = net()
    wrapped = tl.jit(model)
    assert list(wrapped.state_dict()) == [f"_orig_mod.{name}" for name in model.state_dict()]
    x = tl.randn(2, 4)
    for _ in range(4):
        assert bits(wrapped(x)) == bits(model(x))

    class Scale:
        runs: list[int] = []

        def __init__(self, k: float) -> None:
            self.k = k

        @tl.jit
        def apply(self, x: tl.Tensor) -> tl.Tensor:
            Scale.runs.append(1)
            return x * self.k

    a, b = Scale(2.0), Scale(3.0)
    for _ in range(4):
        assert a.apply(tl.ones(1)).item() == 2
        assert b.apply(tl.ones(1)).item() == 3
    a.k = 7.0
    assert [a.apply(tl.ones(1)).item() for _ in range(3)] == [7, 7, 7]
    assert len(Scale.runs) == 6


def test_the_steps_of_a_call_are_one_function_of_the_graph() -> None:
    """As in PyTorch, ``grad_fn`` of a result names the compiled function, whose inputs are the leaves."""
    w = tl.ones(3, requires_grad=True)
    f = tl.jit(lambda x: ((x * w).sin() * w).sum())
    f(tl.ones(3)), f(tl.ones(3))
    out = f(tl.ones(3))
    assert out.grad_fn.name() == "CompiledFunctionBackward"
    assert {n[0].name() for n in out.grad_fn.next_functions if n[0]} == {"torch::autograd::AccumulateGrad"}


def test_a_program_is_forgotten_with_its_function() -> None:
    """Nothing that the program held stays."""

    def scope() -> None:
        state = tl.zeros(1000)
        f = tl.jit(lambda x: state.add_(x))
        for _ in range(3):
            f(tl.ones(1000))

    live = tl.stats()["live_handles"]
    scope()
    gc.collect()
    tl.mark_step()
    assert tl.stats()["live_handles"] <= live


def test_a_region_is_one_plan() -> None:
    """Calls with other numbers replay the plan of the first, marked or captured."""
    for wrap in (tl.compile, tl.jit):
        scale = [0.5]
        f = wrap(lambda x, scale=scale: (x * scale[0]).exp() + 1)
        built = []
        for i in range(6):
            scale[0] = float(i) if wrap is tl.compile else 0.5
            f(tl.full((5, 7), float(i))).tolist()
            built.append(tl.stats()["plans_built"])
        assert built[-1] == built[1]


def test_saved_tensors_are_checked_across_calls() -> None:
    """A captured call writes to a tensor that another function's backward needs: the error of a plain call."""
    for wrap in (lambda f: f, tl.compile, tl.jit):
        w, state = tl.ones(3, requires_grad=True), tl.ones(3)
        write = wrap(lambda x, state=state: state.add_(x))
        for _ in range(3):
            write(tl.ones(3))
        loss = (w * state).sum()
        write(tl.ones(3))
        with pytest.raises(tl.SavedTensorModifiedError):
            loss.backward()


@pytest.mark.parametrize(
    "function", [lambda z: (z * z).real * 2.0, lambda z: tl.fft.fft(z.real) * z, lambda z: z.T.conj()]
)
def test_captured_functions_take_and_give_complex_tensors(function: Callable[[Any], Any]) -> None:
    captured = tl.jit(function)
    for _ in range(3):
        z = tl.complex(tl.randn(3, 2, device="cpu"), tl.randn(3, 2, device="cpu"))
        wanted, found = function(z), captured(z)
        assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
        assert (found - wanted).abs().max().item() < 1e-6
