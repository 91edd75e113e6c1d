"""The second run of a checkpointed function stops where PyTorch's does, and gives its gradients and errors."""

from __future__ import annotations

import contextlib
import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch

import torchlette
import torchlette.torch as facade

LIBRARIES = (torch, facade)
Log = Callable[[str], None]


def checkpoint(lib: Any, fn: Any, *args: Any, **options: Any) -> Any:
    return lib.utils.checkpoint.checkpoint(fn, *args, use_reentrant=False, **options)


# What a checkpointed function of x and w does. It logs a letter behind each line.
BODIES: dict[str, str] = {
    "nothing saved behind a": "y = (x * w).exp(); log('a'); y = y * 2; log('b'); y = y + 1; log('c')",
    "the last one saved": "y = x * 2; log('a'); y = y.relu(); log('b'); y = y.tanh(); log('c')",
    "nothing saved at all": "y = x * 2; log('a'); y = y[:2].sum(); log('b')",
    "a product, then views": "y = x @ w; log('a'); y = y.t().reshape(-1)[1:]; log('b'); y = y.sum(); log('c')",
    "a linear layer": "y = F.linear(x, w); log('a'); y = F.gelu(y); log('b'); y = y.mean(); log('c')",
    "a sum of squares": "y = x * w; log('a'); y = y.pow(2); log('b'); y = y.sum(0); log('c'); y = -y; log('d')",
    "a softmax and a selection": "y = (x @ w).softmax(-1); log('a'); y = y[:, 0]; log('b')",
    "a mask": "y = x.masked_fill(x > 0, 1.0); log('a'); y = y + w.sum(); log('b')",
    "in place": "y = x * w; log('a'); y.tanh_(); log('b'); y = y * 2; log('c'); y.add_(1); log('d')",
    "a constant, nothing behind it saved": "y = x.sin(); log('a'); k = w.detach().exp(); log('b'); y = y + k; log('c')",
    "no gradient inside": "y = x.sin(); log('a')\nwith lib.no_grad():\n    z = x.exp(); log('b')\ny = y + z; log('c')",
    "joined": "y = lib.cat([x.sin(), w]); log('a'); y = lib.stack([y, y]); log('b'); y = y.sum(0); log('c')",
    "a norm": "y = F.layer_norm(x, (3,)); log('a'); y = y + x; log('b'); y = y - 1; log('c')",
    "draws": "y = F.dropout(x, 0.5) * 0 + x; log('a'); y = y.cos(); log('b'); k = lib.rand(3); log('c')",
    "division by a tensor": "y = x / w; log('a'); y = y / 2; log('b')",
    "where": "y = lib.where(x > 0, x, w); log('a'); y = y.clone(); log('b')",
    "halves": "y = x.double(); log('a'); y = y.exp().float(); log('b')",
    "extremes": "y = x.amax(0); log('a'); y = y.max(); log('b'); y = y * 3; log('c')",
    "running sums": "y = x.cumsum(0); log('a'); y = y.prod(); log('b'); y = y + 0; log('c')",
    "closed by try": "try:\n    y = x.exp(); log('a')\nfinally:\n    log('z')\ny = y + 1; log('b')",
    "a loop": "y = x\nfor i in range(3):\n    y = y.sin() if i < 2 else y + 1; log(str(i))",
    "several results": "z = x.exp(); log('a'); k = w.sin(); log('b'); y = z + 1; log('c')",
}


def body(lib: Any, name: str, log: Log) -> Any:
    space: dict[str, Any] = {"lib": lib, "F": lib.nn.functional, "log": log}
    text = BODIES[name].replace("\n", "\n    ")
    exec(f"def f(x, w):\n    {text}\n    return y\n", space)
    return space["f"]


def leaves(lib: Any) -> tuple[Any, Any]:
    x = [[0.5, -1.0, 2.0], [1.5, 0.25, -0.5], [-2.0, 1.0, 0.75]]
    return tuple(lib.tensor([[v + d for v in row] for row in x], requires_grad=True) for d in (0.0, 3.0))


def compared(run: Callable[[Any], Any]) -> None:
    """Require the same logs, and numbers that are close."""
    (want_log, want), (got_log, got) = map(run, LIBRARIES)
    assert got_log == want_log
    torch.testing.assert_close(got, want)


def numbers(values: Any) -> list[Any]:
    return [None if v is None else torch.tensor(v.tolist(), dtype=torch.float32) for v in values]


@pytest.mark.parametrize("stop", [True, False])
@pytest.mark.parametrize("name", BODIES)
def test_the_same_lines_run(name: str, stop: bool) -> None:
    def run(lib: Any) -> Any:
        x, w = leaves(lib)
        log: list[str] = []
        y = checkpoint(lib, body(lib, name, log.append), x, w, early_stop=stop)
        log.append("backward")
        y.sum().backward()
        return log, numbers((y, x.grad, w.grad))

    compared(run)


@pytest.mark.parametrize("by", [True, False, None])
@pytest.mark.parametrize("stop", [True, False])
def test_the_context_decides_before_the_argument(by: bool | None, stop: bool) -> None:
    def run(lib: Any) -> Any:
        (x, _), log = leaves(lib), []
        module = lib.utils.checkpoint

        def fn(x: Any) -> Any:
            y = x.exp()
            log.append("a")
            return y * 2

        around = contextlib.nullcontext() if by is None else module.set_checkpoint_early_stop(by)
        with around:
            inside = checkpoint(lib, fn, x, early_stop=stop)
        checkpoint(lib, fn, x).sum().backward()
        log.append("inside")
        inside.sum().backward()
        return log, numbers([x.grad])

    compared(run)


@pytest.mark.parametrize("stops", [(True, True), (True, False), (False, True)])
@pytest.mark.parametrize("last", [True, False])
def test_nested_checkpoints(stops: tuple[bool, bool], last: bool) -> None:
    """Whether the inner call is the last thing in the outer function, or not."""

    def run(lib: Any) -> Any:
        (x, w), log = leaves(lib), []

        def inner(z: Any) -> Any:
            log.append("inner")
            z = z.sin()
            log.append("sin")
            z = z.exp()
            log.append("exp")
            return z + 1

        def outer(z: Any) -> Any:
            log.append("outer")
            z = z * w
            log.append("mul")
            z = checkpoint(lib, inner, z, early_stop=stops[1])
            log.append("called")
            if not last:
                z = z.tanh()
                log.append("tanh")
            z = z * 3
            log.append("end")
            return z

        y = checkpoint(lib, outer, x, early_stop=stops[0])
        log.append("backward")
        y.sum().backward()
        return log, numbers([x.grad, w.grad])

    compared(run)


@pytest.mark.parametrize("stop", [True, False])
def test_higher_derivatives(stop: bool) -> None:
    """Each walk that needs saved tensors of the call runs it once."""

    def run(lib: Any) -> Any:
        (x, w), log, found = leaves(lib), [], []

        def fn(x: Any) -> Any:
            y = (x * w).sin()
            log.append("sin")
            y = y.exp() * x
            log.append("mul")
            return y + 1

        g = checkpoint(lib, fn, x, early_stop=stop).sum()
        for _ in range(3):
            (g,) = lib.autograd.grad(g, x, create_graph=True)
            found.append(g)
            log.append("walked")
            g = g.sum()
        g.backward()
        return log, numbers([*found, x.grad, w.grad])

    compared(run)


def test_two_walks_run_twice_and_a_group_once() -> None:
    """With ``retain_graph``; ``GraphExecGroup`` joins walks that need different saved tensors."""

    def run(lib: Any) -> Any:
        (x, w), log = leaves(lib), []

        def fn(x: Any, w: Any) -> Any:
            log.append("run")
            return x.exp(), w.sin()

        y, z = checkpoint(lib, fn, x, w)
        (y.sum() + z.sum()).backward(retain_graph=True)
        log.append("again")
        (y.sum() + z.sum()).backward(retain_graph=True)
        log.append("group")
        group = lib.utils.checkpoint.GraphExecGroup
        with group():
            y.sum().backward(retain_graph=True)
            z.sum().backward(retain_graph=True)
            with pytest.raises(RuntimeError, match="cannot be nested"):
                group().__enter__()
        return log, numbers([x.grad, w.grad])

    compared(run)


def test_hooks_and_results_are_those_of_the_plain_call() -> None:
    """Hooks of tensors inside and outside run once, and the graph shows the operators."""

    def run(lib: Any) -> Any:
        (x, w), log = leaves(lib), []

        def fn(x: Any) -> Any:
            y = x.exp()
            if not log:
                y.register_hook(lambda g: log.append("hook") or g * 2)
            log.append("exp")
            return y * w

        w.register_hook(lambda g: log.append("leaf"))
        y = checkpoint(lib, fn, x)
        y.register_hook(lambda g: log.append("result"))
        log.append(y.grad_fn.name())
        log.append(y.grad_fn.next_functions[0][0].name())
        y.sum().backward()
        # PyTorch accumulates into a leaf as soon as it can, here in the order of the steps.
        return sorted(log), numbers([x.grad, w.grad])

    compared(run)


def test_user_hooks_inside_pack_in_both_runs() -> None:
    def run(lib: Any) -> Any:
        (x, _), log = leaves(lib), []

        def fn(x: Any) -> Any:
            y = x.sin()
            with lib.autograd.graph.saved_tensors_hooks(
                lambda t: log.append("pack") or t, lambda t: log.append("unpack") or t
            ):
                y = y.exp()
            log.append("end")
            return y.cos() + 1

        checkpoint(lib, fn, x).sum().backward()
        return log, numbers([x.grad])

    compared(run)


def test_a_write_to_a_saved_tensor_is_found() -> None:
    """As in PyTorch's plain call; its checkpointed call computes with the new value."""

    def fn(x: Any) -> Any:
        y = x * 2
        z = y.sin()
        y.add_(1)
        return z.exp()

    for lib, call in ((torch, fn), (facade, lambda x: checkpoint(facade, fn, x))):
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            call(lib.ones(3, requires_grad=True)).sum().backward()


def test_a_walk_inside_of_the_function() -> None:
    """The second run that an inner walk needs ends before that walk."""

    def run(lib: Any) -> Any:
        (x, w), log = leaves(lib), []

        def fn(x: Any) -> Any:
            y = (x * w).sin()
            log.append("sin")
            (g,) = lib.autograd.grad(y.sum(), x, create_graph=True)
            log.append("grad")
            return (g * y).exp() + 1

        checkpoint(lib, fn, x).sum().backward()
        return log, numbers([x.grad, w.grad])

    compared(run)


CHANGES: dict[str, Callable[[Any, Any, bool], Any]] = {
    "fewer": lambda lib, x, again: x * 2 if again else x.exp().sin(),
    "more, behind": lambda lib, x, again: x.exp().sin() if again else x.exp(),
    "another shape": lambda lib, x, again: (x[:2] if again else x).exp(),
    "another dtype": lambda lib, x, again: (x.double() if again else x).exp().float(),
    "nothing saved": lambda lib, x, again: x[:1] * 2 if again else x * 2,
}


@pytest.mark.parametrize("options", [{}, {"early_stop": False}, {"determinism_check": "none"}, {"debug": True}])
@pytest.mark.parametrize("name", CHANGES)
def test_a_function_that_changes(name: str, options: dict[str, Any]) -> None:
    """What raises in PyTorch raises here, with the counts that it gives."""
    if name == "another dtype" and options.get("determinism_check"):
        pytest.skip("PyTorch computes with the other dtype; here a walk refuses it")
    found = []
    for lib in LIBRARIES:
        (x, _), runs = leaves(lib), []

        def fn(x: Any, lib: Any = lib, runs: list[int] = runs) -> Any:
            runs.append(1)
            return CHANGES[name](lib, x, len(runs) > 1)

        y = checkpoint(lib, fn, x, **options)
        try:
            y.sum().backward()
            found.append("gradients")
        except lib.utils.checkpoint.CheckpointError as error:
            text = str(error)
            found.append([part for part in ("different number", "more tensors", "different metadata") if part in text])
            if options.get("debug"):
                assert "Operations executed during recomputation" in text
                found[-1] = ["debug"]
        except RuntimeError:
            found.append("another error")
    assert found[1] == found[0]


def test_an_error_of_the_second_run_passes() -> None:
    def run(lib: Any) -> Any:
        (x, _), log = leaves(lib), []

        def fn(x: Any) -> Any:
            log.append("run")
            if len(log) > 1:
                raise ValueError("second")
            return x.exp()

        y = checkpoint(lib, fn, x)
        with pytest.raises(ValueError, match="second"):
            y.sum().backward(retain_graph=True)
        with pytest.raises(ValueError, match="second"):
            y.sum().backward()
        return log, []

    compared(run)
    assert not facade.utils.checkpoint.is_recomputing()


def test_saved_attributes_run_the_function() -> None:
    def run(lib: Any) -> Any:
        (x, _), log = leaves(lib), []

        def fn(x: Any) -> Any:
            log.append("run")
            return x.sin().exp()

        y = checkpoint(lib, fn, x)
        return log, numbers([y.grad_fn._saved_result, y.grad_fn._saved_result])

    compared(run)


def test_the_values_go_with_the_walk() -> None:
    """Nothing of a second run stays, and a graph that is dropped takes the call with it."""

    class Module:
        def __call__(self, x: Any) -> Any:
            return (x * 2).exp().sin().tanh() + 1

    x = torchlette.ones(1 << 16, requires_grad=True, device="cpu")
    before = None
    for keep in (True, False):
        fn = Module()
        gone = weakref.ref(fn)
        y = torchlette.utils.checkpoint.checkpoint(fn, x, use_reentrant=False).sum()
        del fn
        for _ in range(2 if keep else 1):
            y.backward(retain_graph=keep)
        x.grad = None
        torchlette.mark_step()
        live = torchlette.memory_stats()["cpu"]["live_bytes"]
        before = live if before is None else before
        assert live - before < 1 << 16
        del y
        gc.collect()
        torchlette.mark_step()
        assert gone() is None


def test_vmap_and_func_transforms() -> None:
    """Transforms differentiate a checkpointed call; inside of ``vmap`` it is a plain call."""

    def f(x: Any) -> Any:
        return torchlette.utils.checkpoint.checkpoint(lambda z: (z.sin() * z).exp(), x, use_reentrant=False).sum()

    def plain(x: Any) -> Any:
        return (x.sin() * x).exp().sum()

    x = torchlette.linspace(-1, 1, 6, device="cpu").reshape(2, 3)
    func = torchlette.func
    for transform in (
        func.grad,
        lambda g: func.grad(lambda x: func.grad(g)(x).sum()),
        lambda g: func.vmap(func.grad(g)),
        func.jacrev,
        func.hessian,
    ):
        torch.testing.assert_close(numbers([transform(f)(x)]), numbers([transform(plain)(x)]))


def test_threads_walk_beside_each_other() -> None:
    """A walk of one thread finds its own values."""
    import threading

    errors: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(5):
                x = facade.ones(3, requires_grad=True, device="cpu")
                y = checkpoint(facade, lambda z: z.exp().sin().cos(), x)
                y = checkpoint(facade, lambda z: z.exp().sin().cos(), y)
                y.sum().backward()
        except BaseException as error:  # noqa: BLE001
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not errors
