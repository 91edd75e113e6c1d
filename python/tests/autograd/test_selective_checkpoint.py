"""Selective checkpoints keep the results that a policy names, and checks of recomputations find what differs."""

from __future__ import annotations

import functools
import threading
from typing import Any

import pytest
import torch
from oracle import to_torch

import torchlette
import torchlette.torch as facade

LIBRARIES = {"torch": torch, "torchlette": facade}


def layers(lib: Any) -> list[Any]:
    generator = torch.Generator().manual_seed(3)
    made = [torch.randn(shape, generator=generator) for shape in ((4, 8), (8, 8), (8, 8), (8,))]
    return [lib.tensor(t.tolist(), requires_grad=True) for t in made]


def block(lib: Any, x: Any, w1: Any, w2: Any, b: Any) -> Any:
    """Two products, an elementwise part, a linear map with bias, a softmax and a product of batches."""
    h = lib.sigmoid(x @ w1).mul(2)
    h = lib.nn.functional.linear(h, w2, b)
    return lib.bmm(h[None], h.softmax(-1).t()[None])


def contexts(lib: Any, form: Any) -> Any:
    return functools.partial(lib.utils.checkpoint.create_selective_checkpoint_contexts, form)


def gradients(lib: Any, form: Any) -> list[Any]:
    args = layers(lib)
    y = lib.utils.checkpoint.checkpoint(
        functools.partial(block, lib), *args, use_reentrant=False, context_fn=contexts(lib, form)
    )
    y.pow(2).sum().backward()
    return [a.grad for a in args]


@pytest.mark.parametrize("saved", [(), ("mm",), ("mm", "addmm", "bmm"), ("sigmoid", "_softmax"), ("mul", "addmm")])
@pytest.mark.parametrize("form", ["list", "policy", "bool"])
def test_gradients_are_pytorchs(saved: tuple[str, ...], form: str) -> None:
    found = []
    for lib in LIBRARIES.values():
        overload = {"mul": "Tensor"}
        ops = [getattr(getattr(lib.ops.aten, name), overload.get(name, "default")) for name in saved]

        def policy(ctx: Any, op: Any, *args: Any, ops: Any = ops, lib: Any = lib, **kwargs: Any) -> Any:
            assert not ctx.is_recompute and ctx.op_output is not None
            if form == "bool":
                return op in ops
            choice = lib.utils.checkpoint.CheckpointPolicy
            return choice.PREFER_SAVE if op in ops else choice.PREFER_RECOMPUTE

        found.append(gradients(lib, ops if form == "list" else policy))
    for want, got in zip(*found, strict=True):
        torch.testing.assert_close(to_torch(got), want)


def test_kept_products_are_not_computed_again() -> None:
    """A plain checkpoint computes two of the three products again: nothing needs the last one."""
    counts = []
    for names in ([], ["mm", "addmm", "bmm"]):
        with torchlette.profiler.profile() as p:
            found = gradients(facade, [getattr(facade.ops.aten, name).default for name in names])
            torchlette.mark_step()
        assert len(found) == 4
        counts.append({a.key: a.count for a in p.key_averages()}["matmul"])
    assert counts[0] - counts[1] == 2


def test_a_policy_sees_pytorchs_operators() -> None:
    found = []
    for lib in LIBRARIES.values():
        seen: list[str] = []

        def policy(ctx: Any, op: Any, *args: Any, seen: list[str] = seen, **kwargs: Any) -> bool:
            seen.append(str(op).split(".")[1])
            return False

        gradients(lib, policy)
        found.append([n for n in seen if n in ("mm", "addmm", "bmm", "sigmoid", "mul", "_softmax")])
    assert found[1] == found[0]


def test_misuse_is_refused_as_in_pytorch() -> None:
    texts: dict[str, list[str]] = {}
    for name, lib in LIBRARIES.items():
        x, w, *_ = layers(lib)
        mm, make = lib.ops.aten.mm.default, lib.utils.checkpoint.create_selective_checkpoint_contexts
        calls = [
            (ValueError, make, ([lib.ops.aten.mm],)),
            (TypeError, make, (3,)),
            (RuntimeError, twice, (lib, x, w, mm)),
            (RuntimeError, mutated, (lib, x, w, mm, False)),
        ]
        texts[name] = []
        for error, call, args in calls:
            with pytest.raises(error) as e:
                call(*args)
            texts[name].append(str(e.value)[:38])
        mutated(lib, x, w, mm, True)
    assert texts["torchlette"] == texts["torch"]


def twice(lib: Any, x: Any, w: Any, mm: Any) -> None:
    y = lib.utils.checkpoint.checkpoint(
        lambda a: (a @ w).sin(), x, use_reentrant=False, context_fn=contexts(lib, [mm])
    ).sum()
    y.backward(retain_graph=True)
    y.backward()


def mutated(lib: Any, x: Any, w: Any, mm: Any, allowed: bool) -> None:
    def fn(a: Any) -> Any:
        b = a @ w
        c = b.cos()
        b.detach().mul_(1)
        return c

    both = functools.partial(
        lib.utils.checkpoint.create_selective_checkpoint_contexts, [mm], allow_cache_entry_mutation=allowed
    )
    lib.utils.checkpoint.checkpoint(fn, x, use_reentrant=False, context_fn=both).sum().backward()


def test_other_threads_are_not_observed() -> None:
    seen: list[str] = []

    def policy(ctx: Any, op: Any, *args: Any, **kwargs: Any) -> bool:
        seen.append(str(op))
        return False

    def fn(x: Any) -> Any:
        thread = threading.Thread(target=lambda: facade.ones(2).exp())
        thread.start()
        thread.join()
        return x.sin()

    x = facade.ones(2, requires_grad=True)
    facade.utils.checkpoint.checkpoint(fn, x, use_reentrant=False, context_fn=contexts(facade, policy))
    assert [s.split(".")[1] for s in seen] == ["sin"]


def changing(lib: Any, calls: list[int], kind: str) -> Any:
    """A function whose second run saves other tensors than the first."""

    def fn(x: Any) -> Any:
        calls.append(0)
        second = len(calls) > 1
        if kind == "shape":
            return lib.cat([x] * (2 if second else 1)).exp().sum() * 2
        return (x.sin() if second else x.sin().cos().exp()).sum()

    return fn


@pytest.mark.parametrize("kind", ["shape", "fewer"])
@pytest.mark.parametrize("check", ["default", "none"])
@pytest.mark.parametrize("debug", [False, True])
def test_another_recomputation_is_an_error(kind: str, check: str, debug: bool) -> None:
    for lib in LIBRARIES.values():
        x = lib.ones(2, 3, requires_grad=True)
        y = lib.utils.checkpoint.checkpoint(
            changing(lib, [], kind), x, use_reentrant=False, determinism_check=check, debug=debug
        )
        if check == "none" and kind == "shape":
            continue  # the gradients do not fit
        with pytest.raises(lib.utils.checkpoint.CheckpointError) as e:
            y.backward()
        if debug:
            assert "Operations executed during recomputation" in str(e.value)
            assert ("cat" if kind == "shape" else "cos") in str(e.value)


def test_debug_can_be_set_from_outside() -> None:
    x = facade.ones(2, 3, requires_grad=True)
    with facade.utils.checkpoint.set_checkpoint_debug_enabled(True):
        y = facade.utils.checkpoint.checkpoint(changing(facade, [], "shape"), x, use_reentrant=False)
    with pytest.raises(facade.utils.checkpoint.CheckpointError, match="cat"):
        y.backward()


def test_a_checkpoint_that_reads_older_values_with_a_history_repeats() -> None:
    """Steps of captured tensors, which are older than the runs, are not compared."""
    found = []
    for lib in LIBRARIES.values():
        x = lib.arange(3.0).requires_grad_()
        h = x.sin()
        y = lib.utils.checkpoint.checkpoint(lambda a, h=h: (a * h).exp(), x, use_reentrant=False)
        z = lib.utils.checkpoint.checkpoint(lambda a, h=h: (a + h.cos()).tanh(), y, use_reentrant=False)
        (z.sum() + h.sum()).backward()
        found.append(x.grad)
    torch.testing.assert_close(to_torch(found[1]), found[0])


@pytest.mark.parametrize("lib", LIBRARIES.values(), ids=list(LIBRARIES))
def test_options_are_checked(lib: Any) -> None:
    x, both = lib.ones(2, requires_grad=True), lib.utils.checkpoint
    with pytest.raises(ValueError, match="determinism_check should be one of"):
        both.checkpoint(lib.sin, x, use_reentrant=False, determinism_check="bad")
    with pytest.raises(ValueError, match="incompatible with non-default context_fn"):
        both.checkpoint(lib.sin, x, use_reentrant=False, debug=True, context_fn=lambda: both.noop_context_fn())
    with pytest.raises(ValueError, match="Unexpected keyword arguments: foo"):
        both.checkpoint_sequential([lib.sin], 1, x, use_reentrant=False, foo=1)
    with both.set_checkpoint_early_stop(False):
        both.checkpoint(lib.sin, x, use_reentrant=False, early_stop=False).sum().backward()
    assert x.grad is not None
