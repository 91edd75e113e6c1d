"""Ordinary programs with compiled and captured functions have the results of plain PyTorch."""

from __future__ import annotations

import collections
import copy
import dataclasses
import functools
import math
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import torchlette
import torchlette.torch as facade

WRAPS: dict[str, Callable[[Any], Any]] = {
    "compile": facade.compile,
    "jit": torchlette.jit,
    "reuse_trace": functools.partial(facade.compile, reuse_trace=True),
}


def numbers(t: Any) -> Any:
    """Return nested values with tensors as lists of numbers."""
    if isinstance(t, (list, tuple)):
        return [numbers(v) for v in t]
    if isinstance(t, (torch.Tensor, torchlette.Tensor)):
        return t.detach().double().reshape(-1).tolist()
    return t


def agree(a: Any, b: Any) -> bool:
    """Return whether nested values are equal, floats to the tolerance of float32."""
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(agree, a, b))
    return math.isclose(a, b, rel_tol=1e-5, abs_tol=1e-5) if isinstance(a, float) else bool(a == b)


def keywords_and_none(lib: Any, wrap: Any) -> Iterator[Any]:
    def f(x: Any, w: Any, *, b: Any = None, scale: float = 1.0) -> Any:
        y = x @ w
        return (y if b is None else y + b) * scale

    x, w = lib.arange(6.0).reshape(2, 3), lib.ones(3, 2)
    g, h = wrap(functools.partial(f, scale=2.0)), wrap(f)
    for b in (None, lib.ones(2), None, lib.ones(2), lib.zeros(2)):
        yield g(x, w, b=b)
    for scale in (1, 2.0, 3, 2.0, 2.0):
        yield h(x, w, scale=scale)


@dataclasses.dataclass
class Out:
    a: Any
    b: Any = None


Named = collections.namedtuple("Named", "p q")


def structures(lib: Any, wrap: Any) -> Iterator[Any]:
    @wrap
    def f(x: Any) -> Any:
        return Out(x * 2, {"k": [x + 1, None]}), Named(x.sum(), (x,)), collections.OrderedDict(z=x - 1), "s", 3

    for i in range(4):
        out, named, ordered, word, number = f(lib.full((2,), float(i)))
        yield out.a, out.b["k"], named.p, named.q, list(ordered), ordered["z"], word, number


def filled(module: Any, lib: Any) -> Any:
    with lib.no_grad():
        for i, p in enumerate(module.parameters()):
            p.copy_(lib.linspace(-1, 1, p.numel()).reshape(p.shape) * (i + 1) * 0.3)
    return module


def switches_and_batches(lib: Any, wrap: Any) -> Iterator[Any]:
    nn = lib.nn
    model = filled(nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 2)), lib)
    compiled = wrap(model)
    for training in (True, False, True):
        compiled.train(training)
        for n in (4, 2, 4, 3, 4, 4):
            yield compiled(lib.linspace(0, 1, n * 3).reshape(n, 3))
        yield model[0].training, model[1].running_mean, model[1].num_batches_tracked


def exceptions(lib: Any, wrap: Any) -> Iterator[Any]:
    @wrap
    def f(x: Any, bad: bool = False) -> Any:
        y = x * 2
        if bad:
            raise ValueError("no")
        return y

    @wrap
    def caught(x: Any) -> Any:
        try:
            return x @ lib.ones(7)
        except RuntimeError:
            return x * 0

    for bad in (False, False, True, False, True, False):
        try:
            yield f(lib.ones(2), bad=bad)
        except ValueError as error:
            yield str(error)
        yield caught(lib.ones(2, 3))


def recursion_and_generators(lib: Any, wrap: Any) -> Iterator[Any]:
    @wrap
    def fib(x: Any, n: int) -> Any:
        return x if n < 2 else fib(x, n - 1) + fib(x, n - 2)

    def parts(x: Any) -> Iterator[Any]:
        for i in range(3):
            yield x * i

    total = wrap(lambda x: sum(parts(x)) + lib.stack(list(parts(x))).sum(0))
    for n in (5, 5, 5, 6):
        yield fib(lib.ones(2), n), total(lib.full((2,), float(n)))


def changing_closures(lib: Any, wrap: Any) -> Iterator[Any]:
    factors, box, holder = [1.0], {"a": 2.0}, Out(3.0)
    f = wrap(lambda x: x * factors[0] + box["a"] + holder.a)
    for i in range(12):
        yield f(lib.ones(2))
        if i == 3:
            factors[0] = 5.0
        elif i == 6:
            box["a"] = 7.0
        elif i == 9:
            holder.a = -1.0


def copies(lib: Any, wrap: Any) -> Iterator[Any]:
    model = filled(lib.nn.Linear(2, 2), lib)
    compiled, x = wrap(model), lib.ones(1, 2)
    for _ in range(3):
        yield compiled(x)
    other = copy.deepcopy(compiled)
    with lib.no_grad():
        model.weight.fill_(2.0)
    yield compiled(x), other(x), compiled.weight
    compiled.bias = lib.nn.Parameter(lib.zeros(2))
    yield model.bias, compiled(x)
    other.load_state_dict(compiled.state_dict())
    yield other(x)


def hooks(lib: Any, wrap: Any) -> Iterator[Any]:
    model, log = filled(lib.nn.Linear(2, 2), lib), []
    compiled = wrap(model)
    for i in range(8):
        if i == 3:
            handle = model.register_forward_hook(lambda module, args, out: out * 2)
            model.register_full_backward_hook(lambda module, given, taken: log.append(1))
        x = lib.ones(1, 2, requires_grad=True)
        y = compiled(x)
        y.sum().backward()
        yield y, x.grad, model.weight.grad
        if i == 6:
            handle.remove()


def training(lib: Any, wrap: Any) -> Iterator[Any]:
    w, v = (lib.ones(3, requires_grad=True) for _ in range(2))
    adam, adamw = lib.optim.Adam([w], lr=0.1), lib.optim.AdamW([v], lr=0.1)
    schedule, step = lib.optim.lr_scheduler.StepLR(adam, 2, 0.5), wrap(adam.step)

    @wrap
    def train(x: Any, y: Any) -> Any:
        adamw.zero_grad()
        loss = ((v * x - y) ** 2).mean()
        loss.backward()
        lib.nn.utils.clip_grad_norm_([v], 1.0)
        adamw.step()
        return loss.detach()

    for i in range(7):
        adam.zero_grad()
        ((w * lib.tensor([1.0, 2.0, 3.0]) - i) ** 2).sum().backward()
        step()
        schedule.step()
        yield w, train(lib.full((3,), float(i)), lib.ones(3)), v


def several_threads(lib: Any, wrap: Any) -> Iterator[Any]:
    w, results = lib.ones(4, 4), {}
    f = wrap(lambda x: (x @ w).relu().sum(0))

    def work(i: int) -> None:
        for _ in range(5):
            results[i] = numbers(f(lib.full((2, 4), float(i))))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    yield sorted(results.items())


def writes_and_views(lib: Any, wrap: Any) -> Iterator[Any]:
    @wrap
    def f(x: Any, y: Any) -> Any:
        x.add_(1)
        v = x[0]
        y[1:] = v[1:]
        return v, x.t()

    g = wrap(lambda x: (x.sin() * x).sum())
    for i in range(4):
        x, y = lib.full((2, 3), float(i)), lib.zeros(3)
        a, b = f(x, y)
        a.mul_(2)
        yield x, y, a, b
        z = lib.full((2,), float(i), requires_grad=True)
        yield lib.autograd.grad(g(z), z)[0]


def batches_in_containers(lib: Any, wrap: Any) -> Iterator[Any]:
    @wrap
    def f(batch: Any, *rest: Any, **options: Any) -> Any:
        out = batch["x"] * batch["n"] + sum(batch["l"])
        for t in rest:
            out = out + t
        return out.to(options["dtype"])

    pick = wrap(lambda x, i: x[i])
    for i, index in enumerate((0, 1, 1, 1, slice(1, 3), slice(1, 3), slice(1, 3), -1)):
        batch = {"x": lib.full((2,), float(i)), "n": 2, "l": [lib.ones(2), lib.ones(2)]}
        yield f(batch, lib.ones(2), 3, dtype=lib.float64 if i % 2 else lib.float32), pick(lib.arange(5.0), index)


PROGRAMS = [
    keywords_and_none,
    structures,
    switches_and_batches,
    exceptions,
    recursion_and_generators,
    changing_closures,
    copies,
    hooks,
    training,
    several_threads,
    writes_and_views,
    batches_in_containers,
]


@pytest.mark.parametrize("wrap", WRAPS)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_a_program_has_pytorchs_results(program: Any, wrap: str) -> None:
    with facade.device("cpu"):
        got = [numbers(v) for v in program(facade, WRAPS[wrap])]
    want = [numbers(v) for v in program(torch, lambda f: f)]
    assert agree(got, want), (got, want)
