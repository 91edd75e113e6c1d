"""Hooks of functions of the graph, and gradient edges as arguments, beside PyTorch."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
import torch as pytorch

import torchlette.torch as torchlette_torch

LIBRARIES = [torchlette_torch, pytorch]


def lists(grads: Any) -> Any:
    return None if grads is None else [None if g is None else g.tolist() for g in grads]


def both(program: Any) -> Any:
    """Run a program with both libraries and require the same answer."""
    mine, theirs = (program(torch) for torch in LIBRARIES)
    assert mine == theirs
    return mine


def leaves(torch: Any) -> tuple[Any, Any]:
    return torch.tensor([1.0, 2.0], requires_grad=True), torch.tensor([3.0, 4.0], requires_grad=True)


def test_hooks_see_and_replace_the_gradients_of_both_sides() -> None:
    def program(torch: Any) -> Any:
        seen: list[Any] = []
        x, w = leaves(torch)
        y = x * w

        def before(grads: Any) -> Any:
            seen.append(("before", lists(grads)))
            return (grads[0] * 2,)

        def after(inputs: Any, outputs: Any) -> Any:
            seen.append(("after", lists(inputs), lists(outputs)))
            return inputs[0] * 10, None

        y.register_hook(lambda g: seen.append(("tensor", g.tolist())))
        handles = [y.grad_fn.register_prehook(before), y.grad_fn.register_hook(after)]
        (y * 3).sum().backward(retain_graph=True)
        for handle in handles:
            handle.remove()
        seen.append((x.grad.tolist(), lists([w.grad])))
        (y * 3).sum().backward()
        return [*seen, x.grad.tolist(), w.grad.tolist()]

    assert ("before", [[3.0, 3.0]]) in both(program)


def test_hooks_of_accumulators_run_where_a_pass_accumulates() -> None:
    def program(torch: Any) -> Any:
        seen: list[Any] = []
        x, w = leaves(torch)
        node = (x * w).grad_fn.next_functions[0][0]
        node.register_prehook(lambda grads: (grads[0] + 1,))
        node.register_hook(lambda inputs, outputs: seen.append((lists(inputs), lists(outputs))))
        x.register_hook(lambda g: g * 5)
        total = (x * w).sum()
        found = torch.autograd.grad(total, x, retain_graph=True)[0].tolist()
        total.backward()
        return seen, found, x.grad.tolist()

    assert both(program)[0] == [([], [[16.0, 21.0]])]


def test_a_hook_of_a_function_of_several_steps_gets_all_its_gradients() -> None:
    def program(torch: Any) -> Any:
        seen: list[Any] = []
        x, w = leaves(torch)
        out = torch.nn.functional.linear(x.view(1, 2), w.view(1, 2), torch.ones(1))
        out.grad_fn.register_prehook(lambda grads: (grads[0] * 2,))
        out.sum().backward()

        class Scale(torch.autograd.Function):
            @staticmethod
            def forward(ctx: Any, a: Any, b: Any) -> Any:
                return a * b

            @staticmethod
            def backward(ctx: Any, grad: Any) -> Any:
                return grad * 2, grad * 3

        y = Scale.apply(x * 1, w * 1)
        y.grad_fn.register_hook(lambda inputs, outputs: seen.append((lists(inputs), lists(outputs))))
        y.grad_fn.register_hook(lambda inputs, outputs: (inputs[0], inputs[1] * 100))
        y.sum().backward()
        return seen, x.grad.tolist(), w.grad.tolist()

    assert both(program)[0] == [([[2.0, 2.0], [3.0, 3.0]], [[1.0, 1.0]])]


def test_a_hook_that_leaves_no_gradient_ends_the_path() -> None:
    def program(torch: Any) -> Any:
        x, w = leaves(torch)
        y = x * w
        y.grad_fn.register_hook(lambda inputs, outputs: (None, inputs[1]))
        y.sum().backward()
        return lists([x.grad, w.grad])

    assert both(program) == [None, [1.0, 2.0]]


@pytest.mark.parametrize(
    "answer",
    [lambda g: (g, g), lambda g: (g.double(),), lambda g: (g.sum(),), lambda g: (3,)],
    ids=["number", "dtype", "shape", "type"],
)
def test_wrong_answers_raise(answer: Any) -> None:
    raised = []
    for torch in LIBRARIES:
        x, _ = leaves(torch)
        y = x * 2
        y.grad_fn.register_prehook(lambda grads: answer(grads[0]))
        with pytest.raises((RuntimeError, TypeError)) as caught:
            y.sum().backward()
        raised.append(caught.value)
        x.grad = None
        (x * 2).sum().backward()
        assert x.grad.tolist() == [2.0, 2.0]
    mine, theirs = raised
    assert isinstance(mine, type(theirs))
    assert str(mine).split(" has ")[0].split(" (")[0] == str(theirs).split(" has ")[0].split(" (")[0]


def test_an_error_in_a_hook_of_a_function_is_raised_and_leaves_the_engine_usable() -> None:
    x, w = leaves(torchlette_torch)
    y = x * w
    handle = y.grad_fn.register_hook(lambda inputs, outputs: [][0])
    with pytest.raises(IndexError):
        y.sum().backward(retain_graph=True)
    handle.remove()
    y.sum().backward()
    assert x.grad.tolist() == [3.0, 4.0]


def test_hooks_of_functions_record_with_create_graph() -> None:
    def program(torch: Any) -> Any:
        x, w = leaves(torch)
        y = x * w
        y.grad_fn.register_prehook(lambda grads: (grads[0] * w,))
        (grad,) = torch.autograd.grad(y.sum(), x, create_graph=True)
        return torch.autograd.grad(grad.sum(), w)[0].tolist()

    assert both(program) == [6.0, 8.0]


def test_edges_stand_for_tensors_in_grad_and_backward() -> None:
    def program(torch: Any) -> Any:
        x, w = leaves(torch)
        y = x * w
        edge, leaf = (torch.autograd.graph.get_gradient_edge(t) for t in (y, x))
        z = y.exp().sum()
        found = torch.autograd.grad(z, [edge, leaf], retain_graph=True)
        rest = torch.autograd.grad(edge, x, found[0], retain_graph=True)
        torch.autograd.backward((edge,), (torch.ones(2),), retain_graph=True)
        with pytest.raises(RuntimeError, match="only for scalar outputs"):
            torch.autograd.grad(edge, x)
        with pytest.raises(RuntimeError, match="Mismatch in shape"):
            torch.autograd.grad(edge, x, torch.ones(3))
        return [[round(v, 2) for v in g.tolist()] for g in (*found, *rest)], x.grad.tolist(), w.grad.tolist()

    assert both(program)[1] == [3.0, 4.0]


def test_an_edge_names_the_version_before_a_write() -> None:
    def program(torch: Any) -> Any:
        x = torch.tensor([1.0, 2.0], requires_grad=True).clone()
        edge = torch.autograd.graph.get_gradient_edge(x)
        x *= 2
        return lists(torch.autograd.grad(x.sum(), (edge, x)))

    assert both(program) == [[2.0, 2.0], [1.0, 1.0]]


def test_a_hook_that_holds_its_tensor_is_collected() -> None:
    class Held:
        pass

    x, w = leaves(torchlette_torch)
    y, held = x * w, Held()
    alive = weakref.ref(held)
    y.grad_fn.register_hook(lambda inputs, outputs, kept=(y, held): None)
    del y, held
    gc.collect()
    assert alive() is None
