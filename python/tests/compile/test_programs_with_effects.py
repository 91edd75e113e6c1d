"""More ordinary programs with compiled and captured functions: writes, views, draws, state, options."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from test_ordinary_programs import WRAPS, agree, filled, numbers

import torchlette.torch as facade


def arguments_in_containers_are_written(lib: Any, wrap: Any) -> Iterator[Any]:
    @wrap
    def f(cache: Any, x: Any, out: Any) -> None:
        cache["sum"].add_(x)
        cache["rows"][0][1] = x.max()
        lib.mul(x, 2, out=out)
        x[x > 1] = 0.0

    cache = {"sum": lib.zeros(3), "rows": [lib.zeros(3)]}
    for i in range(5):
        x, out = lib.arange(3.0) + i * 0.5, lib.empty(3)
        yield f(cache, x, out)
        yield cache["sum"], cache["rows"], x, out


def views_of_arguments_are_returned(lib: Any, wrap: Any) -> Iterator[Any]:
    f = wrap(lambda x: (x[1:], x.t(), x.view(-1), x.reshape(3, 2), x, x.expand(2, 2, 3)))
    for i in range(4):
        x = lib.arange(6.0).reshape(2, 3) + i
        views = f(x)
        views[0].mul_(10)
        views[2][0] = 7.0
        yield x, views, views[4] is x, [v._is_view() for v in views[:3]]


def inputs_with_a_history_are_written(lib: Any, wrap: Any) -> Iterator[Any]:
    @wrap
    def scale(y: Any, k: Any) -> Any:
        y.mul_(k)
        y[0].add_(1)
        return y.sin()

    for i in range(4):
        x, k = lib.full((2, 2), 0.5 + i, requires_grad=True), lib.tensor(2.0, requires_grad=True)
        y = x * 3
        z = scale(y, k)
        (z.sum() + y.sum()).backward()
        yield z, y, x.grad, k.grad, y._version


def a_leaf_is_written(lib: Any, wrap: Any) -> Iterator[Any]:
    @wrap
    def f(w: Any) -> Any:
        w.mul_(2)
        return w

    @wrap
    def g(w: Any) -> Any:
        with lib.no_grad():
            w.mul_(2)
        return (w * w).sum()

    w = lib.ones(2, requires_grad=True)
    for _ in range(4):
        try:
            yield f(w)
        except RuntimeError as error:
            yield "leaf" in str(error)
        g(w).backward()
        yield w, w.grad


def errors_after_writes(lib: Any, wrap: Any) -> Iterator[Any]:
    total = lib.zeros(2)

    @wrap
    def f(x: Any, fail: bool) -> Any:
        total.add_(x)
        if fail:
            raise KeyError("stop")
        return total * 2

    for fail in (False, False, True, False, True, True, False):
        try:
            yield f(lib.ones(2), fail)
        except KeyError:
            yield "stopped"
        yield total


def modules_with_state(lib: Any, wrap: Any) -> Iterator[Any]:
    class Net(lib.nn.Module):  # type: ignore[name-defined,misc]
        def __init__(self) -> None:
            super().__init__()
            self.lin = lib.nn.Linear(3, 3)
            self.register_buffer("mean", lib.zeros(3))
            self.register_buffer("count", lib.zeros((), dtype=lib.int64))
            self.calls = 0
            self.last: Any = None

        def forward(self, x: Any) -> Any:
            self.calls += 1
            y = self.lin(x)
            if self.training:
                self.count += 1
                self.mean.lerp_(y.detach().mean(0), 0.5)
            self.last = y.detach()
            return y - self.mean

    net = filled(Net(), lib)
    compiled = wrap(net)
    for i in range(8):
        if i == 5:
            compiled.eval()
        x = lib.linspace(-1, 1, 6).reshape(2, 3) + i
        y = compiled(x)
        y.sum().backward()
        yield y, net.mean, net.count, net.calls, net.last, net.lin.weight.grad


def norms_in_training(lib: Any, wrap: Any) -> Iterator[Any]:
    nn = lib.nn
    model = filled(nn.Sequential(nn.Conv1d(2, 3, 2), nn.BatchNorm1d(3, momentum=None), nn.ReLU(), nn.Flatten()), lib)
    opt = lib.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    @wrap
    def step(x: Any, y: Any) -> Any:
        loss = lib.nn.functional.mse_loss(model(x), y)
        opt.zero_grad(set_to_none=False)
        loss.backward()
        opt.step()
        return loss.detach()

    for i in range(6):
        if i == 4:
            model[1].eval()
        yield step(lib.linspace(0, 1, 24).reshape(3, 2, 4) * (i + 1), lib.ones(3, 9))
        yield [p for p in model.parameters()], model[1].running_var, model[1].num_batches_tracked


def gradients_are_accumulated(lib: Any, wrap: Any) -> Iterator[Any]:
    w = lib.linspace(-1, 1, 4).requires_grad_()
    opt = lib.optim.AdamW([w], lr=0.1)
    schedule = lib.optim.lr_scheduler.CosineAnnealingLR(opt, 4)

    @wrap
    def micro(x: Any, last: bool) -> Any:
        loss = (w * x).square().mean() / 2
        loss.backward()
        if last:
            lib.nn.utils.clip_grad_norm_([w], 0.5)
            opt.step()
            opt.zero_grad()
        return loss.detach()

    for i in range(10):
        yield micro(lib.full((4,), 1.0 + i % 3), i % 2 == 1), w, w.grad
        if i % 2:
            schedule.step()


def nested_and_disabled(lib: Any, wrap: Any) -> Iterator[Any]:
    log: list[str] = []

    @(lib.compiler.disable if wrap is not WRAPS["jit"] else lambda f: f)  # jit refuses to leave a capture
    def outside(x: Any) -> Any:
        return x + 1

    inner = wrap(lambda x: x.cos() * 2)

    @wrap
    def outer(x: Any) -> Any:
        y = inner(x)
        y = outside(y)
        return inner(y) + inner(x)

    twice = wrap(wrap(lambda x: x * 3))
    for i in range(4):
        x = lib.full((2,), float(i), requires_grad=True)
        y = outer(x) + twice(x)
        y.sum().backward()
        yield y, x.grad, log


def kinds_of_methods(lib: Any, wrap: Any) -> Iterator[Any]:
    class Base:
        scale = 2.0

        def __init__(self, w: Any) -> None:
            self.w = w

        @classmethod
        @wrap
        def of_class(cls, x: Any) -> Any:
            return x * cls.scale

        @staticmethod
        @wrap
        def of_none(x: Any, k: int = 3) -> Any:
            return x - k

        @property
        def half(self) -> Any:
            return self.w / 2

        @wrap
        def plain(self, x: Any, *rest: Any, **named: Any) -> Any:
            return x @ self.half + sum(rest) + named.get("b", 0)

    class Derived(Base):
        scale = 5.0

        def plain(self, x: Any, *rest: Any, **named: Any) -> Any:
            return super().plain(x, *rest, **named) + 1

    made = [Base(lib.eye(2)), Derived(lib.ones(2, 2)), Base(lib.ones(2, 2) * 3)]
    for i in range(5):
        x = lib.full((2, 2), float(i))
        for b in made:
            yield b.plain(x), b.plain(x, 1, 2.5), b.plain(x, b=x), type(b).of_class(x), b.of_none(x), b.of_none(x, k=i)
        made[0].w = made[0].w * 2
        Base.scale += 1.0


def options_of_the_decorator(lib: Any, wrap: Any) -> Iterator[Any]:
    if lib is torch or wrap is WRAPS["jit"]:
        decorate = lambda **options: wrap  # noqa: E731
    else:
        decorate = lambda **options: functools.partial(wrap, **options)  # noqa: E731

    @decorate(dynamic=True)
    def f(x: Any) -> Any:
        return x.reshape(x.shape[0] * x.shape[1], -1).sum(-1) / x.shape[-1]

    @decorate(fullgraph=True, mode="reduce-overhead")
    def g(x: Any, y: Any) -> Any:
        return x.softmax(-1) @ y

    @decorate(disable=True)
    def h(x: Any) -> Any:
        return x + x.sum().item()

    for n in (1, 2, 3, 2, 2, 4, 5, 6, 7, 8, 9, 10, 2):
        x = lib.arange(float(n * 6)).reshape(n, 2, 3)
        yield f(x), g(x, x.transpose(1, 2)), h(x) if wrap is not WRAPS["jit"] else x + x.sum()


def modes_change(lib: Any, wrap: Any) -> Iterator[Any]:
    w = lib.ones(3, requires_grad=True)

    @wrap
    def f(x: Any) -> Any:
        y = x * w
        with lib.no_grad():
            z = (y * w).sum()
        return y, z, lib.zeros(2), lib.is_grad_enabled()

    inference = wrap(lib.inference_mode()(lambda x: x * w))
    for i in range(9):
        x = lib.full((3,), float(i))
        if i in (3, 4, 5):
            with lib.no_grad():
                y, z, made, on = f(x)
        elif i in (6, 7):
            lib.set_default_dtype(lib.float64)
            try:
                y, z, made, on = f(x)
            finally:
                lib.set_default_dtype(lib.float32)
        else:
            y, z, made, on = f(x)
        yield y, z, str(made.dtype)[-2:], on, y.requires_grad, z.requires_grad, inference(x), inference(x).requires_grad


def python_effects(lib: Any, wrap: Any) -> Iterator[Any]:
    """A counter in the closure, a default argument that is a list, a table that is filled at the first call."""
    count, table = 0, {}

    @wrap
    def f(x: Any, seen: Any = []) -> Any:  # noqa: B006
        nonlocal count
        count += 1
        seen.append(x.shape[0])
        key = x.shape[0]
        if key not in table:
            table[key] = lib.arange(float(key))
        return x * table[key] + count

    for n in (2, 2, 3, 2, 3, 3, 2):
        yield f(lib.ones(n)), count, sorted(table)


def custom_functions_and_hooks(lib: Any, wrap: Any) -> Iterator[Any]:
    class Square(lib.autograd.Function):  # type: ignore[name-defined,misc]
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            (x,) = ctx.saved_tensors
            return 3 * x * g  # not the derivative

    @wrap
    def f(x: Any) -> Any:
        y = Square.apply(x)
        y.register_hook(lambda g: g * 2)
        return (y.sin() * x).sum()

    for i in range(5):
        x = lib.full((2,), 0.3 * i, requires_grad=True)
        (g,) = lib.autograd.grad(f(x), x, create_graph=True)
        yield g
        g.sum().backward()
        yield x.grad


def a_cache_of_keys(lib: Any, wrap: Any) -> Iterator[Any]:
    keys, values = lib.zeros(1, 5, 4), lib.zeros(1, 5, 4)

    @wrap
    def attend(q: Any, position: Any) -> Any:
        keys.index_copy_(1, position, q * 2)
        values[:, position] = q + 1
        mask = lib.arange(5) <= position
        return lib.nn.functional.scaled_dot_product_attention(q, keys, values, attn_mask=mask[None])

    for i in range(5):
        yield attend(lib.linspace(0, 1, 4).reshape(1, 1, 4) * (i + 1), lib.tensor([i])), keys, values


def arguments_made_to_need_gradients(lib: Any, wrap: Any) -> Iterator[Any]:
    @wrap
    def f(x: Any) -> Any:
        z = x.detach().clone().requires_grad_()
        y = (z**3).sum()
        (g,) = lib.autograd.grad(y, z)
        return g, z

    @wrap
    def g(x: Any, y: Any) -> Any:
        (x * y).sum().backward()
        return x.grad if y.grad is None else x.grad + y.grad

    for i in range(5):
        first, z = f(lib.full((2,), float(i)))
        yield first, z, z.requires_grad, z.is_leaf
        x, y = lib.ones(2, requires_grad=True), lib.full((2,), 2.0, requires_grad=i % 2 == 0)
        yield g(x, y), x.grad, y.grad


def checkpoints_inside(lib: Any, wrap: Any) -> Iterator[Any]:
    model = filled(lib.nn.Sequential(lib.nn.Linear(3, 4), lib.nn.Tanh(), lib.nn.Linear(4, 3)), lib)

    @wrap
    def f(x: Any) -> Any:
        y = lib.utils.checkpoint.checkpoint(model, x, use_reentrant=False)
        return (lib.utils.checkpoint.checkpoint(lambda z: z.sin().exp() + 1, y, use_reentrant=False) * y).sum()

    @wrap
    def step(x: Any) -> Any:
        model.zero_grad()
        loss = lib.utils.checkpoint.checkpoint(model, x, use_reentrant=False).square().sum()
        loss.backward()
        return loss.detach()

    compiled = wrap(model)
    for i in range(5):
        x = (lib.linspace(-1, 1, 6).reshape(2, 3) * (i + 1)).requires_grad_()
        model.zero_grad()
        f(x).backward()
        yield x.grad, [p.grad for p in model.parameters()]
        yield step(x), [p.grad for p in model.parameters()]
        lib.utils.checkpoint.checkpoint(compiled, x, use_reentrant=False).sum().backward()
        yield x.grad


PROGRAMS: list[Callable[[Any, Any], Iterator[Any]]] = [
    arguments_in_containers_are_written,
    views_of_arguments_are_returned,
    inputs_with_a_history_are_written,
    a_leaf_is_written,
    errors_after_writes,
    modules_with_state,
    norms_in_training,
    gradients_are_accumulated,
    nested_and_disabled,
    kinds_of_methods,
    options_of_the_decorator,
    modes_change,
    python_effects,
    custom_functions_and_hooks,
    a_cache_of_keys,
    arguments_made_to_need_gradients,
    checkpoints_inside,
]


# After an error in its capture, jit undoes what the function did.
CASES = [(p, w) for p in PROGRAMS for w in WRAPS if (p, w) != (errors_after_writes, "jit")]


@pytest.mark.parametrize(("program", "wrap"), CASES, ids=lambda v: getattr(v, "__name__", v))
def test_a_program_has_pytorchs_results(program: Any, wrap: str) -> None:
    with facade.device("cpu"):
        got = [numbers(v) for v in program(facade, WRAPS[wrap])]
    want = [numbers(v) for v in program(torch, lambda f: f)]
    assert agree(got, want), (got, want)
