"""torchlette.autograd: grad modes, ``grad``, ``backward`` and numeric checks behave as PyTorch's."""

from __future__ import annotations

import warnings

import pytest

import torchlette as tl
from torchlette import autograd


def leaf(*values, dtype=None):
    return tl.tensor(list(values), dtype=dtype or tl.float64).requires_grad_()


def test_no_grad_as_block_decorator_and_bare_decorator():
    x = leaf(1.0)

    @tl.no_grad()
    def called(t):
        return t * 2

    @tl.no_grad
    def bare(t):
        return t * 2

    with tl.no_grad():
        assert not tl.is_grad_enabled()
        with tl.enable_grad():
            assert (x * 2).requires_grad
        assert not (x * 2).requires_grad
    assert tl.is_grad_enabled()
    assert not called(x).requires_grad
    assert not bare(x).requires_grad
    assert (x * 2).requires_grad


def test_switches_are_put_back_after_errors_and_nest():
    guard = tl.no_grad()
    with pytest.raises(ValueError), guard:
        with guard:
            assert not tl.is_grad_enabled()
        assert not tl.is_grad_enabled()
        raise ValueError
    assert tl.is_grad_enabled()


def test_set_grad_enabled():
    tl.set_grad_enabled(False)
    assert not tl.is_grad_enabled()
    tl.set_grad_enabled(True)
    with tl.set_grad_enabled(False):
        assert not tl.is_grad_enabled()
    assert tl.is_grad_enabled()

    @tl.set_grad_enabled(False)
    def off():
        return tl.is_grad_enabled()

    assert tl.is_grad_enabled()
    assert not off()
    assert tl.is_grad_enabled()


def test_generator_switches_only_while_it_runs():
    @tl.no_grad()
    def steps():
        sent = yield tl.is_grad_enabled()
        try:
            yield (sent, tl.is_grad_enabled())
        except KeyError:
            yield ("caught", tl.is_grad_enabled())
        return "end"

    generator = steps()
    assert next(generator) is False
    assert tl.is_grad_enabled()
    assert generator.send(5) == (5, False)
    assert generator.throw(KeyError()) == ("caught", False)
    with pytest.raises(StopIteration) as stop:
        next(generator)
    assert stop.value.value == "end"
    assert tl.is_grad_enabled()


def test_inference_mode():
    x = leaf(1.0)
    with tl.inference_mode():
        assert tl.is_inference_mode_enabled()
        assert not (x * 2).requires_grad
        with tl.inference_mode(False):
            assert not tl.is_inference_mode_enabled()
            assert (x * 2).requires_grad
    assert not tl.is_inference_mode_enabled()

    @tl.inference_mode
    def run(t):
        return t * 2

    assert not run(x).requires_grad


def test_grad_of_several_inputs():
    x, y = leaf(1.0, 2.0), leaf(3.0, 4.0)
    gx, gy = autograd.grad((x * y).sum(), (x, y))
    assert gx.tolist() == [3, 4]
    assert gy.tolist() == [1, 2]
    assert x.grad is None
    assert y.grad is None


def test_grad_of_a_tensor_on_the_way():
    x = leaf(2.0)
    y = x * x
    (g,) = autograd.grad((y * y).sum(), y)
    assert g.tolist() == [8.0]


def test_unused_inputs():
    x, y = leaf(1.0), leaf(2.0)
    with pytest.raises(RuntimeError):
        autograd.grad(x * 2, (x, y))
    g = autograd.grad(x * 2, (x, y), allow_unused=True)
    assert g[1] is None
    g = autograd.grad(x * 2, (x, y), materialize_grads=True)
    assert g[1].tolist() == [0.0]
    with pytest.raises(ValueError):
        autograd.grad(x * 2, (x, y), allow_unused=False, materialize_grads=True)


def test_second_derivative():
    x = leaf(2.0, 3.0)
    (g,) = autograd.grad((x**3).sum(), x, create_graph=True)
    (h,) = autograd.grad(g.sum(), x)
    assert h.tolist() == [12.0, 18.0]


def test_a_number_of_a_base_that_is_used_again_is_not_a_write_to_what_was_saved():
    # The bases of y and of its sum are freed while their values stay saved; div takes a number of theirs, and is
    # written to.
    x = leaf([1.0, 2.0], [3.0, 4.0])
    y = tl.sin(tl.sin(x) * 2)
    (slope,) = autograd.grad(y.sum(), x, create_graph=True)
    div = 0.0
    for i in range(2):
        div += autograd.grad(slope[..., i].sum(), x, create_graph=True)[0][..., i : i + 1]
    div.square().sum().backward()
    bend = -2 * tl.sin(x).mul(2).cos() * x.sin() - 4 * tl.sin(x).mul(2).sin() * x.cos() ** 2
    tl.testing.assert_close(div.detach(), bend.detach().sum(1, keepdim=True))
    tl.testing.assert_close(x.grad, autograd.grad(bend.sum(1).square().sum(), x)[0])


def test_backward_options():
    x = leaf(1.0, 2.0)
    y = x * x
    with pytest.raises(RuntimeError, match="scalar outputs"):
        autograd.backward(y)
    autograd.backward(y, tl.tensor([1.0, 10.0], dtype=tl.float64), retain_graph=True)
    assert x.grad.tolist() == [2.0, 40.0]
    y.sum().backward()
    assert x.grad.tolist() == [4.0, 44.0]
    with pytest.raises(RuntimeError):
        y.sum().backward()


def test_backward_into_chosen_inputs():
    x, y = leaf(1.0), leaf(2.0)
    autograd.backward((x * y).sum(), inputs=[x])
    assert x.grad.tolist() == [2.0]
    assert y.grad is None
    with pytest.raises(RuntimeError, match="cannot be empty"):
        autograd.backward((x * y).sum(), inputs=[])


def test_gradcheck_accepts_right_gradients():
    a, b = leaf(0.3, -0.7, 1.1), leaf(0.5, 1.5, -0.4)
    assert autograd.gradcheck(lambda p, q: (p * q).tanh(), (a, b))
    assert autograd.gradcheck(lambda p: (p.exp(), p.sin().sum()), a)
    assert autograd.gradgradcheck(lambda p, q: (p * q).tanh(), (a, b))


def test_gradcheck_finds_wrong_gradients():
    a = leaf(0.3, -0.7)

    def half_cut(p):
        return p * p.detach()  # gradient p instead of 2 p

    with pytest.raises(RuntimeError, match="Jacobian mismatch"):
        autograd.gradcheck(half_cut, a)
    assert not autograd.gradcheck(half_cut, a, raise_exception=False)
    with pytest.raises(ValueError, match="require"):
        autograd.gradcheck(lambda p: p * 2, tl.ones(2, dtype=tl.float64))
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        autograd.gradcheck(lambda p: p * 2, leaf(1.0, dtype=tl.float32), raise_exception=False)
    assert any("float64" in str(w.message) for w in seen)


def test_gradcheck_moves_the_tensors_themselves():
    layer = tl.nn.Linear(2, 3, dtype=tl.float64)
    before, version = layer.weight.tolist(), layer.weight._version
    x = leaf(1.0, 2.0)
    assert autograd.gradcheck(lambda x, *parameters: layer(x), (x, *layer.parameters()))
    assert autograd.gradgradcheck(lambda x, *parameters: layer(x).sin(), (x, *layer.parameters()))
    assert layer.weight.tolist() == before
    assert layer.weight._version == version


def test_gradcheck_runs_functions_that_choose_outputs_by_requires_grad():
    x = tl.tensor([1.0, 2.0], dtype=tl.float64, requires_grad=True)
    assert tl.autograd.gradcheck(lambda x: tuple(y for y in (x * x, x.exp()) if y.requires_grad), (x,))


def test_gradcheck_compares_both_parts_of_complex_elements():
    x = tl.tensor([1.0 + 2.0j, 0.5 - 1.0j], dtype=tl.complex128, requires_grad=True)
    y = tl.tensor([0.3, -0.7], dtype=tl.float64, requires_grad=True)
    for function in (lambda x, y: (x - y).abs(), lambda x, y: x * x * y, lambda x, y: x.conj() * y):
        assert tl.autograd.gradcheck(function, (x, y))

    class Wrong(tl.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g.conj() * 2

    with pytest.raises(RuntimeError, match="Jacobian mismatch"):
        tl.autograd.gradcheck(Wrong.apply, (x,))


def test_the_gradient_has_a_private_name_too():
    """As in PyTorch, whose users set ``_grad`` where ``grad`` checks too much."""
    x = tl.ones(2, requires_grad=True)
    x._grad = tl.full((2,), 3.0)
    assert x.grad is x._grad
    assert x.grad.tolist() == [3, 3]


def test_grad_of_batched_gradients_is_the_stack_of_the_gradients():
    x, unused = leaf(1.0, -2.0, 3.0), leaf(1.0)
    y = (x * x).cumsum(0)
    starts = tl.tensor([[1.0, 0.0, 2.0], [0.5, -1.0, 3.0]], dtype=tl.float64)
    want = tl.stack([autograd.grad(y, x, g, retain_graph=True)[0] for g in starts])
    got, none = autograd.grad(y, (x, unused), starts, retain_graph=True, is_grads_batched=True, allow_unused=True)
    assert none is None
    assert got.tolist() == want.tolist()
    (once,) = autograd.grad(y, x, starts, create_graph=True, is_grads_batched=True)
    twice = autograd.grad(once.sum(), x)[0]
    assert twice.tolist() == [2 * 5.5, 2 * 4.0, 2 * 5.0]


@pytest.mark.parametrize(
    ("shape", "error", "text"),
    [
        (None, RuntimeError, "only for scalar outputs"),
        ((2, 4), RuntimeError, "first dimension of each grad_output as the batch dimension"),
        ((), IndexError, "0-dim tensor"),
    ],
)
def test_grad_refuses_wrong_batched_gradients(shape, error, text):
    x = leaf(1.0, -2.0, 3.0)
    start = None if shape is None else tl.ones(shape)
    with pytest.raises(error, match=text):
        autograd.grad(x * x, x, start, is_grads_batched=True)
