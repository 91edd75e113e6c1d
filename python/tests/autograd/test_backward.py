"""Backward is lazy and its gradients, hooks, kept and created graphs and errors in place are PyTorch's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import oracle
import pytest
import torch

import torchlette
from torchlette.testing.counters import Delta, stats

A = np.array([[1.0, -2.0, 3.0], [0.5, 4.0, -1.5]], dtype="float32")
B = np.array([[2.0, 0.5, -1.0], [3.0, -0.25, 1.5]], dtype="float32")


def test_backward_is_lazy(device: str) -> None:
    """backward() records; the gradients are computed when read."""
    a = oracle.ours(A, device, requires_grad=True)
    loss = (a * a).sum()
    with Delta() as seen:
        loss.backward()
    assert seen["nodes_executed"] == 0
    np.testing.assert_allclose(a.grad.numpy(), 2 * A)


def test_mark_step_runs_backward_whose_results_are_dropped(device: str) -> None:
    """Backward is rooted: mark_step runs it although nothing is read."""
    a = oracle.ours(A, device, requires_grad=True)
    (a * a).sum().backward()
    with Delta() as seen:
        torchlette.mark_step()
    assert seen["nodes_executed"] > 0
    np.testing.assert_allclose(a.grad.numpy(), 2 * A)


def accumulate(lib: Any, a: Any, b: Any) -> Any:
    for _ in range(3):
        (a * b).sum().backward()
    return a.grad, b.grad


def shared(lib: Any, a: Any, b: Any) -> Any:
    h = a * b
    (h * h + h.exp().sum()).sum().backward()
    return a.grad, b.grad


def broadcast(lib: Any, a: Any, b: Any) -> Any:
    (a[0] * b + a[:, :1]).sum().backward()
    return a.grad, b.grad


def unused(lib: Any, a: Any, b: Any) -> Any:
    (a * 2).sum().backward()
    return a.grad, b.grad


def retain_non_leaf(lib: Any, a: Any, b: Any) -> Any:
    h = a * b
    h.retain_grad()
    v = h[0]
    v.retain_grad()
    (v * 2).sum().backward()
    return h.grad, v.grad, a.grad, h.retains_grad


def retain_under_grad(lib: Any, a: Any, b: Any) -> Any:
    """Walks for other tensors add to a retained gradient, where they pass it."""
    h = a * b
    h.retain_grad()
    aside = h * 3
    aside.retain_grad()
    y = (h * h).sum() + aside.sum()
    lib.autograd.grad(y, h, retain_graph=True)
    first = h.grad.clone()
    y.backward(inputs=[a])
    return first, h.grad, aside.grad, a.grad


def retain_graph(lib: Any, a: Any, b: Any) -> Any:
    y = (a * b).exp().sum()
    y.backward(retain_graph=True)
    y.backward()
    return a.grad


def create_graph(lib: Any, a: Any, b: Any) -> Any:
    y = (a**3 * b).sum()
    (g,) = lib.autograd.grad(y, a, create_graph=True)
    (g * g).sum().backward()
    return a.grad, b.grad


def third_order(lib: Any, a: Any, b: Any) -> Any:
    y = a.sin().sum()
    for _ in range(3):
        (y,) = lib.autograd.grad(y.sum(), a, create_graph=True)
    return y.detach()


def grad_of_intermediate(lib: Any, a: Any, b: Any) -> Any:
    h = a * b
    return lib.autograd.grad((h * h).sum(), [h, a])


def cotangent(lib: Any, a: Any, b: Any) -> Any:
    (a * b).backward(b.detach())
    return a.grad


def no_grad(lib: Any, a: Any, b: Any) -> Any:
    with lib.no_grad():
        h = a * 2
    with lib.enable_grad():
        k = a * 3
    return h.requires_grad, k.requires_grad, a.detach().requires_grad, k.is_leaf, h.is_leaf


def set_requires_grad_later(lib: Any, a: Any, b: Any) -> Any:
    c = a.detach().clone()
    c.requires_grad = True
    (c * b).sum().backward()
    return c.grad, c.is_leaf


def hook_scales(lib: Any, a: Any, b: Any) -> Any:
    seen = []
    h = a * b
    h.register_hook(lambda g: seen.append(tuple(g.shape)))
    handle = h.register_hook(lambda g: g * 2)
    a.register_hook(lambda g: g + 1)
    h.sum().backward(retain_graph=True)
    first = a.grad.clone()
    handle.remove()
    a.grad = None
    h.sum().backward()
    return first, a.grad, seen


def in_place_after_use(lib: Any, a: Any, b: Any) -> Any:
    h = a * 1
    y = h.exp()
    h.add_(1)  # exp saved its result, not h
    (y + h * b).sum().backward()
    return a.grad, b.grad


def in_place_chain(lib: Any, a: Any, b: Any) -> Any:
    h = a * 1
    h.mul_(b)
    h[0].add_(a[1])
    h[:, 1:].mul_(3)
    h.t()[2].copy_(b[:, 0])
    h.pow(2).sum().backward()
    return h, a.grad, b.grad


def view_before_and_after(lib: Any, a: Any, b: Any) -> Any:
    h = a * 1
    early = h[0]
    h.mul_(b)
    late = h[1]
    (early * 2 + late * 3).sum().backward()
    return early, a.grad, b.grad


def copy_into_leafless(lib: Any, a: Any, b: Any) -> Any:
    buf = lib.zeros(2, 3, device=a.device)
    buf[0] = a[0] * 2
    buf[1].copy_(b[1])
    buf.sum().backward()
    return buf, a.grad, b.grad, buf.requires_grad


def detach_in_place(lib: Any, a: Any, b: Any) -> Any:
    h = a * b
    h.detach_()
    return h.requires_grad, h.is_leaf


def data_assignment(lib: Any, a: Any, b: Any) -> Any:
    a.data = a.data * 2
    (a * b).sum().backward()
    return a, a.grad


def optimizer_style_update(lib: Any, a: Any, b: Any) -> Any:
    for _ in range(3):
        a.grad = None
        (a * a * b).sum().backward()
        with lib.no_grad():
            a -= 0.1 * a.grad
    return a


def fill_then_copy(lib: Any, a: Any, b: Any) -> Any:
    x = (a * 1).detach()
    y = (b * 5).detach()
    x.fill_(3.0)
    x.copy_(y)
    return x, y


def copy_from_leaf(lib: Any, a: Any, b: Any) -> Any:
    z = a.detach() * 2
    z.copy_(a)
    flags = z.requires_grad, z.is_leaf
    (z * z).sum().backward()
    return *flags, a.grad


def identity_view_of_leaf(lib: Any, a: Any, b: Any) -> Any:
    v = a.view(2, 3)
    return v.requires_grad, v.is_leaf, v.grad_fn is None


def alias_of_plain_gets_history(lib: Any, a: Any, b: Any) -> Any:
    p = b.detach().clone()
    d = p.detach()
    d.mul_(a)
    d.sum().backward()
    return p.requires_grad, d.requires_grad, p.detach(), a.grad


def transposed_column(lib: Any, a: Any, b: Any) -> Any:
    h = a.mean(-1, keepdim=True)
    v = h.t()  # another shape over the same elements in the same order
    v.mul_(0.25)
    v.add_(b[:, 0])
    (h * h).sum().backward()
    return h, v, a.grad, b.grad


def write_at_odd_offset(lib: Any, a: Any, b: Any) -> Any:
    x = lib.zeros(25, device=a.device)
    x[5:].add_(1)
    x[5:9].mul_(a[0, 0].detach())
    y = (a.reshape(6)[1:5] * 2).sum()
    y.backward()
    return x, a.grad


def copy_over_a_history(lib: Any, a: Any, b: Any) -> Any:
    y = a * 2
    y.copy_(b)
    y.sum().backward()
    return y, a.grad, b.grad


PROGRAMS: list[Callable[..., Any]] = [
    accumulate,
    shared,
    broadcast,
    unused,
    retain_non_leaf,
    retain_under_grad,
    retain_graph,
    create_graph,
    third_order,
    grad_of_intermediate,
    cotangent,
    no_grad,
    set_requires_grad_later,
    hook_scales,
    in_place_after_use,
    in_place_chain,
    view_before_and_after,
    copy_into_leafless,
    detach_in_place,
    data_assignment,
    optimizer_style_update,
    fill_then_copy,
    copy_from_leaf,
    identity_view_of_leaf,
    alias_of_plain_gets_history,
    transposed_column,
    write_at_odd_offset,
    copy_over_a_history,
]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_equal_to_pytorch(program: Callable[..., Any], device: str) -> None:
    """The same lines give the same values, gradients and flags."""
    oracle.same(program, [A, B], device, grad=True)


def grad(lib: Any, *xs: Any) -> list[Any]:
    """Make leaves that require grad."""
    return [x.requires_grad_() for x in xs]


def leaf_in_place(lib: Any, a: Any, b: Any) -> None:
    (a,) = grad(lib, a)
    a.mul_(2)


def leaf_view_in_place(lib: Any, a: Any, b: Any) -> None:
    (a,) = grad(lib, a)
    a[0].zero_()


def twice(lib: Any, a: Any, b: Any) -> None:
    (a,) = grad(lib, a)
    y = (a * a).sum()
    y.backward()
    y.backward()


def no_grad_root(lib: Any, a: Any, b: Any) -> None:
    (a * b).sum().backward()


def vector_root(lib: Any, a: Any, b: Any) -> None:
    (a,) = grad(lib, a)
    (a * b).backward()


def unused_input(lib: Any, a: Any, b: Any) -> None:
    a, b = grad(lib, a, b)
    lib.autograd.grad((a * 2).sum(), [a, b])


def saved_overwritten(lib: Any, a: Any, b: Any) -> None:
    a, b = grad(lib, a, b)
    h = a * 1
    y = h * b
    h.add_(1)
    y.sum().backward()


def saved_result_overwritten(lib: Any, a: Any, b: Any) -> None:
    (a,) = grad(lib, a)
    y = a.exp()
    y.add_(1)
    y.sum().backward()


def saved_through_view(lib: Any, a: Any, b: Any) -> None:
    a, b = grad(lib, a, b)
    h = a * 1
    y = h * b
    h[0, 1:].zero_()
    y.sum().backward()


def integer_requires_grad(lib: Any, a: Any, b: Any) -> None:
    a.long().requires_grad_()


def wrong_cotangent(lib: Any, a: Any, b: Any) -> None:
    (a,) = grad(lib, a)
    (a * b).backward(b[0])


def expanded_write(lib: Any, a: Any, b: Any) -> None:
    a[:1].expand(4, 3).add_(1)


def in_place_grows(lib: Any, a: Any, b: Any) -> None:
    a[0].add_(b)


def in_place_dtype(lib: Any, a: Any, b: Any) -> None:
    a.long().add_(b)


def requires_grad_of_non_leaf(lib: Any, a: Any, b: Any) -> None:
    (a,) = grad(lib, a)
    h = a * 2
    h.requires_grad = False


def view_of_wrong_size(lib: Any, a: Any, b: Any) -> None:
    a.view(5)


def view_not_viewable(lib: Any, a: Any, b: Any) -> None:
    a.t().view(6)


def numpy_of_grad(lib: Any, a: Any, b: Any) -> None:
    (a,) = grad(lib, a)
    a.numpy()


def hook_without_grad(lib: Any, a: Any, b: Any) -> None:
    a.register_hook(lambda g: g)


def saved_result_copied_over(lib: Any, a: Any, b: Any) -> None:
    grad(lib, a, b)
    y = a.tanh()
    y.copy_(b)
    y.sum().backward()


REFUSED: list[tuple[Callable[..., None], str]] = [
    (leaf_in_place, "RuntimeError"),
    (leaf_view_in_place, "RuntimeError"),
    (twice, "BackwardGraphFreedError"),
    (no_grad_root, "RuntimeError"),
    (vector_root, "RuntimeError"),
    (unused_input, "RuntimeError"),
    (saved_overwritten, "SavedTensorModifiedError"),
    (saved_result_overwritten, "SavedTensorModifiedError"),
    (saved_through_view, "SavedTensorModifiedError"),
    (saved_result_copied_over, "SavedTensorModifiedError"),
    (integer_requires_grad, "RuntimeError"),
    (wrong_cotangent, "RuntimeError"),
    (expanded_write, "RuntimeError"),
    (in_place_grows, "RuntimeError"),
    (in_place_dtype, "RuntimeError"),
    (requires_grad_of_non_leaf, "RuntimeError"),
    (view_of_wrong_size, "RuntimeError"),
    (view_not_viewable, "RuntimeError"),
    (numpy_of_grad, "RuntimeError"),
    (hook_without_grad, "RuntimeError"),
]


@pytest.mark.parametrize(("program", "name"), REFUSED, ids=lambda p: getattr(p, "__name__", None))
def test_refused_like_pytorch(program: Callable[..., None], name: str, device: str) -> None:
    """The same lines raise PyTorch's class; where the library has a narrower one, that."""
    error = oracle.same_error(program, [A, B], device)
    narrow = getattr(torchlette, name, RuntimeError)
    assert isinstance(error, narrow), f"got {type(error).__name__}, want {name}"


def test_backward_inside_a_hook(device: str) -> None:
    """A hook may walk another graph, and this one: the outer walk goes on as it was."""

    def run(lib: Any, a: Any, b: Any) -> Any:
        shared, began = a * b, []
        y = (shared * a).exp().sum()

        def walk(g: Any) -> None:
            if not began:
                began.append(g)
                with lib.enable_grad():
                    ((b * b).sum() + (shared * 2).sum()).backward(retain_graph=True)

        handle = shared.register_hook(walk)
        y.backward()
        handle.remove()
        return a.grad, b.grad

    leaves = [(torch.tensor(A, requires_grad=True), torch.tensor(B, requires_grad=True))]
    leaves.append((oracle.ours(A, device, requires_grad=True), oracle.ours(B, device, requires_grad=True)))
    want, got = (run(lib, *pair) for lib, pair in zip((torch, torchlette), leaves, strict=True))
    for g, w in zip(got, want, strict=True):
        np.testing.assert_allclose(g.numpy(), w.numpy(), rtol=1e-5)


def test_endless_nesting_is_refused(device: str) -> None:
    """A hook that walks its own graph raises NonReentrantBackwardError, and every walk is ended."""
    a = oracle.ours(A, device, requires_grad=True)
    y = (a * a).sum()
    handle = a.register_hook(lambda g: y.backward(retain_graph=True))
    with pytest.raises(torchlette.NonReentrantBackwardError):
        y.backward(retain_graph=True)
    handle.remove()
    a.grad = None
    (a * 3).sum().backward()
    np.testing.assert_array_equal(a.grad.numpy(), np.full((2, 3), 3.0, dtype="float32"))


def test_error_in_a_hook_propagates(device: str) -> None:
    """The user's exception comes out of backward, and the engine goes on."""
    a = oracle.ours(A, device, requires_grad=True)
    handle = a.register_hook(lambda g: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        (a * 2).sum().backward()
    handle.remove()
    a.grad = None
    (a * 2).sum().backward()
    np.testing.assert_array_equal(a.grad.numpy(), np.full((2, 3), 2.0, dtype="float32"))


def test_grad_assignment(device: str) -> None:
    """Assigning to .grad checks shape, dtype and device; None empties the slot."""
    a = oracle.ours(A, device, requires_grad=True)
    t = torch.tensor(A, requires_grad=True)
    for value in (A[:1], A.astype("int64")):
        with pytest.raises(RuntimeError):
            t.grad = torch.tensor(value)
        with pytest.raises(RuntimeError):
            a.grad = oracle.ours(value, device)
    a.grad = oracle.ours(B, device)
    (a * 1).sum().backward()
    np.testing.assert_allclose(a.grad.numpy(), B + 1)
    a.grad = None
    assert a.grad is None


def test_saved_values_are_freed_by_backward(device: str) -> None:
    """Saved values are freed when backward has run, even while the loss is still held."""
    a = oracle.ours(A, device, requires_grad=True)
    loss = (a.exp() * a.sin()).sum()
    loss.item()
    before = stats()["live_bytes"]
    loss.backward()
    a.grad.tolist()
    after = stats()["live_bytes"]
    assert after < before, "exp, sin and their product should be gone, and only the gradient new"
    assert loss.shape == ()


def test_saved_values_without_a_handle_count_as_unmodified(device: str) -> None:
    """A tensor that was written in place, saved and then dropped is what it was when it was saved."""
    a = oracle.ours(A, device, requires_grad=True)
    out = a * 1
    out += 1
    out.relu_()
    loss = out.sum()
    del out
    loss.backward()
    np.testing.assert_array_equal(a.grad.numpy(), (A + 1 > 0).astype("float32"))
