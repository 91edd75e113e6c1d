"""autograd.Function: one definition of each function gives PyTorch's derivatives and errors under both libraries."""

from __future__ import annotations

import gc

import pytest

torch = pytest.importorskip("torch")

import torchlette as tl  # noqa: E402
import torchlette.autograd  # noqa: E402


def cube(t):
    class Cube(t.autograd.Function):
        @staticmethod
        def forward(ctx, x, factor):
            ctx.save_for_backward(x)
            ctx.factor = factor
            return factor * x * x * x

        @staticmethod
        def backward(ctx, grad):
            assert ctx.needs_input_grad == (True, False)
            (x,) = ctx.saved_tensors
            return grad * 3 * ctx.factor * x * x, None

    return lambda x: Cube.apply(x, 0.5)


def exponential(t):
    class Exponential(t.autograd.Function):
        @staticmethod
        def forward(x):
            return x.exp()

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(output)

        @staticmethod
        def backward(ctx, grad):
            (y,) = ctx.saved_tensors
            return grad * y

    return Exponential.apply


def doubled_in_place(t):
    class Doubled(t.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            return x.mul_(2)

        @staticmethod
        def backward(ctx, grad):
            return 2 * grad

    def call(x):
        y = x * 1
        row = y[0]
        assert Doubled.apply(y) is y
        return y * row.sum()

    return call


def exponential_in_place(t):
    class Exponential(t.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            ctx.save_for_backward(x.exp_())
            return x

        @staticmethod
        def backward(ctx, grad):
            return grad * ctx.saved_tensors[0]

    return lambda x: Exponential.apply(x * 1)


def several(t):
    class Several(t.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            first, second, index = x.sin(), x * x, x.argmax()
            sign = x.sign()
            ctx.mark_non_differentiable(sign)
            ctx.save_for_backward(x, None)
            return first, second, index, sign

        @staticmethod
        def backward(ctx, first, second, index, sign):
            x, nothing = ctx.saved_tensors
            assert nothing is None
            return first * x.cos() + second * 2 * x

    def call(x):
        first, second, index, sign = Several.apply(x)
        assert not index.requires_grad
        assert not sign.requires_grad
        return first * second + second * sign + index

    return call


def one_of_several(t):
    class Pair(t.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            ctx.save_for_backward(x)
            return x.sin(), x.cos()

        @staticmethod
        def backward(ctx, first, second):
            assert second is None
            return first * ctx.saved_tensors[0].cos()

    return lambda x: Pair.apply(x)[0]


def broadcast(t):
    class Shifted(t.autograd.Function):
        @staticmethod
        def forward(ctx, x, shift):
            return x + shift

        @staticmethod
        def backward(ctx, grad):
            return grad, grad  # the second is summed to the shape of shift

    return lambda x: Shifted.apply(x * x, x[:1])


def hooked(t):
    inner = cube(t)

    def call(x):
        y = inner(x)
        y.register_hook(lambda g: g * 3)
        return y

    return call


FUNCTIONS = {
    f.__name__: f
    for f in (cube, exponential, doubled_in_place, exponential_in_place, several, one_of_several, broadcast, hooked)
}


def derivatives(t, make, device=None, order=3):
    fn = make(t)
    x = t.tensor([[0.3, -0.0, 1.5], [-2.0, 0.7, 0.1]], device=device, requires_grad=True)
    y = fn(x)
    found = [y]
    for _ in range(order):
        if not y.requires_grad:
            break
        y = (y * y.detach().cos()).sum()
        (y,) = t.autograd.grad(y, x, create_graph=True)
        found.append(y)
    fn(x).sum().backward()
    return [v.detach().cpu() for v in (*found, x.grad)]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_derivatives(name, device):
    for want, got in zip(derivatives(torch, FUNCTIONS[name]), derivatives(tl, FUNCTIONS[name], device), strict=True):
        torch.testing.assert_close(torch.tensor(got.numpy()), want)


def test_another_walk_of_one_graph():
    grads = []
    for t in (torch, tl):
        x = t.tensor([0.5, 2.0], requires_grad=True)
        y, z = exponential(t)(x), cube(t)(x)
        found = []
        for out in (y, z, y * z, y):
            found.append(t.autograd.grad(out.sum(), x, retain_graph=True)[0].tolist())
        y.sum().backward()
        with pytest.raises(RuntimeError, match="a second time"):
            y.sum().backward()
        grads.append(found)
    for a, b in zip(*grads, strict=True):
        assert b == pytest.approx(a)


def test_no_recording():
    fn = exponential(tl)
    x = tl.ones(2, requires_grad=True)
    with tl.no_grad():
        assert not fn(x).requires_grad
    assert not fn(x.detach()).requires_grad
    assert fn(x).requires_grad


def test_once_differentiable():
    for t in (torch, tl):

        class Square(t.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                return x * x

            @staticmethod
            @t.autograd.function.once_differentiable
            def backward(ctx, grad):
                return 2 * grad * ctx.saved_tensors[0]

        x = t.tensor([3.0], requires_grad=True)
        scale = t.tensor([2.0], requires_grad=True)
        (g,) = t.autograd.grad(Square.apply(x) * scale, x, create_graph=True)
        assert g.item() == 12.0
        with pytest.raises(RuntimeError, match="differentiate twice"):
            g.backward()


def bad(t, answers, dirty_leaf=False):
    class Bad(t.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            if dirty_leaf:
                ctx.mark_dirty(x)
            return x

        @staticmethod
        def backward(ctx, grad):
            return answers(t, grad)

    x, y = t.ones(2, requires_grad=True), t.ones(2, requires_grad=True)
    Bad.apply(x, y).sum().backward()


@pytest.mark.parametrize(
    "answers",
    [
        lambda t, g: g,
        lambda t, g: (g, g, g),
        lambda t, g: (g, t.ones(3)),
        lambda t, g: (g, t.ones(())),
    ],
)
def test_wrong_answers(answers):
    messages = []
    for t in (torch, tl):
        with pytest.raises(RuntimeError) as error:
            bad(t, answers)
        messages.append(str(error.value))
    assert messages[0] == messages[1]


def test_dirty_leaf():
    for t in (torch, tl):
        with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
            bad(t, lambda t, g: (g, g), dirty_leaf=True)


def test_too_many_nones_are_dropped():
    for t in (torch, tl):
        bad(t, lambda t, g: (g, g, None))


def test_a_saved_tensor_that_changed():
    for t in (torch, tl):
        x = t.ones(2, requires_grad=True)
        y = x * 2
        out = cube(t)(y)
        with t.no_grad():
            y.add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            out.sum().backward()


def test_a_saved_result_makes_no_cycle():
    fn = exponential(tl)
    with tl.check_leaks():
        x = tl.ones(3, requires_grad=True)
        y = fn(x)
        y = fn(y * 0.1)
        y.sum().backward()
        (g,) = tl.autograd.grad(fn(x).sum(), x, create_graph=True)
        g.sum().backward()
        del x, y, g
        gc.collect()
        for _ in range(4):  # a hook is forgotten by the first operation after its step of the tape is gone
            tl.ones(1).sum().item()


def test_gradcheck():
    x = tl.tensor([0.3, -1.2], dtype=tl.float64, requires_grad=True)
    for make in (cube, exponential, several):
        assert tl.autograd.gradcheck(make(tl), (x,))
        assert tl.autograd.gradgradcheck(make(tl), (x,))


@pytest.mark.parametrize("lib", [torch, tl], ids=["torch", "torchlette"])
def test_saved_tensors_are_freed_by_backward(lib):
    """As those of the library's operators, unless the graph is retained."""
    contexts = []

    class Double(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            contexts.append(ctx)
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * 2 + x * 0

    x = lib.ones(2, requires_grad=True)
    y = Double.apply(x * 1).sum()
    y.backward(retain_graph=True)
    assert len(contexts[0].saved_tensors) == 1
    y.backward()
    with pytest.raises(RuntimeError, match="a second time"):
        _ = contexts[0].saved_tensors
    assert x.grad.tolist() == [4.0, 4.0]


@pytest.mark.parametrize("materialize", [True, False])
@pytest.mark.parametrize("t", [torch, tl], ids=["torch", "torchlette"])
def test_results_of_other_types_are_returned_as_they_are_and_have_no_gradient(t, materialize):
    seen = []

    class Several(t.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(materialize)
            return x * 2, 4, None, "text", x * 3

        @staticmethod
        def backward(ctx, *grads):
            seen.extend(grads)
            return grads[0]

    x = t.ones(1, requires_grad=True)
    first, *others, last = Several.apply(x)
    assert others == [4, None, "text"]
    first.backward()
    assert x.grad.tolist() == [1.0]
    assert seen[1:4] == [None, None, None]
    assert (seen[4].tolist() == [0.0]) if materialize else seen[4] is None


@pytest.mark.parametrize("t", [torch, tl], ids=["torch", "torchlette"])
def test_one_result_that_is_no_tensor_is_returned(t):
    class Number(t.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return 4

    assert Number.apply(t.ones(1, requires_grad=True)) == 4


@pytest.mark.parametrize("t", [torch, tl], ids=["torch", "torchlette"])
def test_grad_of_no_inputs_raises(t):
    x = t.ones(1, requires_grad=True)
    with pytest.raises(RuntimeError, match="cannot be empty"):
        t.autograd.grad(2 * x, [])


def test_none_from_backward_leaves_no_gradient():
    def gradients(t):
        class First(t.autograd.Function):
            @staticmethod
            def forward(ctx, x, y):
                return x * y

            @staticmethod
            def backward(ctx, grad):
                return None, 3 * grad

        a, x, y = (t.ones(2, requires_grad=True) for _ in range(3))
        First.apply(a.exp(), y).sum().backward()
        First.apply(x, y).sum().backward()
        return a.grad, x.grad, y.grad

    (a, x, y), (ta, tx, ty) = gradients(tl), gradients(torch)
    assert a is None and x is None and ta is None and tx is None
    assert y.tolist() == ty.tolist() == [6.0, 6.0]


def test_none_from_backward_adds_nothing_to_other_paths():
    def gradients(t):
        class Nothing(t.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x + 1

            @staticmethod
            def backward(ctx, grad):
                return None

        x = t.tensor([2.0, 3.0], requires_grad=True)
        y = x * x
        (Nothing.apply(y) * y).sum().backward()
        unused = t.autograd.grad(Nothing.apply(x).sum(), x, allow_unused=True)
        return x.grad.tolist(), unused

    assert gradients(tl) == gradients(torch)


def two_results(t):
    class Two(t.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            a, b = x.exp(), x * 2
            ctx.save_for_backward(a, b, x)
            return b, a

        @staticmethod
        def backward(ctx, g, h):
            a, b, _ = ctx.saved_tensors
            return g * 2 + h * a + b * 0

    return Two.apply


WRITES = {
    "second result": lambda x, b, a: a.mul_(2),
    "element of the first": lambda x, b, a: b.__setitem__(0, 1),
    "alias": lambda x, b, a: a.detach().zero_(),
    "view": lambda x, b, a: a.view(-1).add_(1),
    "argument": lambda x, b, a: x.add_(1),
    "what is not saved": lambda x, b, a: (a * 1).add_(1),
    "data": lambda x, b, a: a.data.add_(1),
}


@pytest.mark.parametrize("written", WRITES)
def test_writes_to_saved_results_are_found(written):
    """A result that backward reads must be as it was: PyTorch's error, its text included."""

    def outcome(t):
        leaf = t.ones(3, requires_grad=True)
        x = leaf * 3
        b, a = two_results(t)(x)
        WRITES[written](x, b, a)
        try:
            (a.sum() + b.sum()).backward()
        except RuntimeError as error:
            return str(error).partition("\n")[0]
        return leaf.grad.tolist()

    got, want = outcome(tl), outcome(torch)
    assert got == want if isinstance(want, str) else got == pytest.approx(want)
