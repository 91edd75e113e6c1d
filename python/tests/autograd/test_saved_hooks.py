"""Hooks of saved tensors are called as PyTorch's, keep values and gradients, and let memory go."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

import torchlette

LIBS = (torch, torchlette)


@pytest.fixture(params=LIBS, ids=["torch", "torchlette"])
def lib(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Each library, on the CPU."""
    if request.param is torch:
        yield torch
        return
    before = torchlette.get_default_device()
    torchlette.set_default_device("cpu")
    yield torchlette
    torchlette.set_default_device(before)


def hooks_of(lib: Any) -> Any:
    return lib.autograd.graph.saved_tensors_hooks


def parameters(lib: Any) -> list[Any]:
    """Return the weights of a net of two layers, the same in both libraries."""
    draw = np.random.default_rng(3)
    sizes = [(3, 4), (4,), (4, 2)]
    return [lib.tensor(draw.standard_normal(size).astype("float32"), requires_grad=True) for size in sizes]


def loss_of(lib: Any, w: list[Any]) -> Any:
    x = lib.tensor(np.linspace(-1, 1, 15, dtype="float32").reshape(5, 3))
    h = ((x @ w[0]) * w[1]).tanh()
    return (h @ w[2]).softmax(1).log().mean() + (h * h).sum()


def test_calls_and_their_order() -> None:
    """Both libraries pack and unpack the same tensors in the same order; calls that are recorded again from memory do
    too.
    """
    logs, packed = [], []
    for lib in LIBS:
        log: list[Any] = []
        values: list[Any] = []
        w = parameters(lib)

        def pack(t: Any, log: list[Any] = log, values: list[Any] = values) -> Any:
            log.append(("pack", tuple(t.shape)))
            values.append(t.detach().numpy())
            return values[-1]

        def unpack(a: Any, log: list[Any] = log, lib: Any = lib) -> Any:
            log.append(("unpack", a.shape))
            return lib.tensor(a)

        for _ in range(5):
            with hooks_of(lib)(pack, unpack):
                loss = loss_of(lib, w)
            log.append("between")
            loss.backward()
        logs.append(log)
        packed.append(values)
        assert len(log) == 5 * 21
    assert logs[0] == logs[1]
    for want, got in zip(*packed, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", ["numpy", "tuple", "half", "itself", "view"])
def test_what_pack_may_return(kind: str, device: str) -> None:
    """Any object does; gradients are those without hooks, or of the rounded values."""
    pairs = {
        "numpy": (lambda t: t.detach().cpu().numpy(), lambda a: torchlette.tensor(a, device=device)),
        "tuple": (
            lambda t: (t.detach().tolist(), t.dtype),
            lambda p: torchlette.tensor(p[0], dtype=p[1], device=device),
        ),
        "half": (
            lambda t: t.half() if t.dtype == torchlette.float32 else t,
            lambda t: t.float() if t.dtype == torchlette.float16 else t,
        ),
        "itself": (lambda t: t, lambda t: t),
        "view": (lambda t: (t.reshape(-1), t.shape), lambda p: p[0].reshape(p[1])),
    }
    pack, unpack = pairs[kind]
    grads = []
    for hooked in (False, True):
        w = [p.detach().to(device).requires_grad_() for p in parameters(torchlette)]
        with torchlette.device(device):
            if hooked:
                with hooks_of(torchlette)(pack, unpack):
                    loss = loss_of(torchlette, w)
            else:
                loss = loss_of(torchlette, w)
            loss.backward()
        grads.append([p.grad.tolist() for p in w])
    for got, want in zip(grads[1], grads[0], strict=True):
        np.testing.assert_allclose(
            got, want, rtol=2e-2 if kind == "half" else 1e-5, atol=2e-3 if kind == "half" else 1e-6
        )


def test_operands_are_the_tensors_themselves(lib: Any) -> None:
    """Pack gets the very object that was given, without recording; a result comes as its values."""
    a, seen = lib.tensor([1.0, 2.0], requires_grad=True), []

    def pack(t: Any) -> Any:
        seen.append((t is a, lib.is_grad_enabled(), t.tolist()))
        return t

    with hooks_of(lib)(pack, lambda t: t):
        y = a.log().exp()
    assert seen == [(True, False, [1.0, 2.0]), (False, False, pytest.approx([1.0, 2.0]))]
    y.sum().backward()
    assert a.grad.tolist() == pytest.approx([1.0, 1.0])


def test_the_innermost_hooks_count_and_unpack_is_called_at_each_use(lib: Any) -> None:
    """Nesting, and two backward passes over one graph."""
    a, log = lib.tensor([2.0], requires_grad=True), []

    def named(name: str) -> Any:
        return hooks_of(lib)(
            lambda t: log.append("pack " + name) or (name, t), lambda p: log.append("unpack " + p[0]) or p[1]
        )

    with named("outer"):
        y = a * a
        with named("inner"):
            y = y.exp()
        y = y.log()
    z = y * 1
    assert log == ["pack outer"] * 2 + ["pack inner", "pack outer"]
    for _ in range(2):
        log.clear()
        z.sum().backward(retain_graph=True)
        assert log == ["unpack outer", "unpack inner", "unpack outer", "unpack outer"]
    with named("one"), pytest.raises(ZeroDivisionError):
        raise ZeroDivisionError
    log.clear()
    (a * a).sum().backward()
    assert log == []


def test_saved_memory_is_let_go(lib: Any) -> None:
    """Tensors that pack does not return are freed; its results are held until the backward pass."""

    class Kept:
        pass

    kept: list[Any] = []

    def pack(t: Any) -> Any:
        box = Kept()
        kept.append(weakref.ref(box))
        return box

    a = lib.ones(1 << 16, requires_grad=True)
    with hooks_of(lib)(pack, lambda box: lib.ones(1 << 16)):
        loss = (a * 2).exp().log().sum()
        if lib is torchlette:
            torchlette.mark_step()
            before = torchlette.memory_stats()["cpu"]["live_bytes"]
            more = [(a * i).exp() for i in range(2, 10)]
            sums = [m.sum() for m in more]
            del more
            torchlette.mark_step()
            assert torchlette.memory_stats()["cpu"]["live_bytes"] - before < 1 << 18  # one of these is that large
            del sums
    assert all(ref() is not None for ref in kept[:2])
    loss.backward()
    del loss
    gc.collect()
    assert all(ref() is None for ref in kept)


def test_writes_are_not_looked_for(lib: Any) -> None:
    """As in PyTorch, only values that the engine holds are guarded against writes, not those that hooks hold."""
    a = lib.tensor([1.0, 2.0], requires_grad=True)
    with hooks_of(lib)(lambda t: t.detach().clone(), lambda t: t):
        b = a * 1
        y = (b * b).sum()
        b.add_(1)
    y.backward()
    assert a.grad.tolist() == [2.0, 4.0]


def test_steps_in_place(lib: Any) -> None:
    """An operator in place saves what its operand was, or what it has become."""
    a, seen = lib.tensor([1.0, 2.0], requires_grad=True), []
    for _ in range(3):
        a.grad = None
        seen.clear()
        with hooks_of(lib)(lambda t: seen.append(t.tolist()) or t.detach().clone(), lambda t: t):
            b = a * 1
            b.mul_(a)
            b.sqrt_()
        assert seen == [[1.0, 2.0]] * 3
        b.sum().backward()
        assert a.grad.tolist() == pytest.approx([1.0, 1.0])


def test_double_backward(lib: Any) -> None:
    """Unpacked values have the history of the packed tensors; operations of a recorded walk are packed too."""
    a, count = lib.tensor([0.5, 1.5], requires_grad=True), [0, 0]

    def pack(t: Any) -> Any:
        count[0] += 1
        return t.detach().numpy().copy()

    def unpack(x: Any) -> Any:
        count[1] += 1
        return lib.tensor(x)

    with hooks_of(lib)(pack, unpack):
        y = (a * a).exp().sum()
        before = count[0]
        (g,) = lib.autograd.grad(y, a, create_graph=True)
        assert count[0] > before
    (h,) = lib.autograd.grad(g.sum(), a)
    x = np.array([0.5, 1.5])
    np.testing.assert_allclose(g.detach().numpy(), 2 * x * np.exp(x * x), rtol=1e-5)
    np.testing.assert_allclose(h.numpy(), (2 + 4 * x * x) * np.exp(x * x), rtol=1e-5)


def test_functions_in_python(lib: Any) -> None:
    """save_for_backward goes through the hooks; second derivatives find the history of what was saved."""

    class Cube(lib.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            y = x * x * x
            ctx.save_for_backward(x, y)
            return y

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            x, y = ctx.saved_tensors
            return 3 * g * y / x

    log: list[Any] = []
    a = lib.tensor([2.0, 3.0], requires_grad=True)

    def pack(t: Any) -> Any:
        log.append(t.tolist())
        return t.detach().numpy().copy()

    with hooks_of(lib)(pack, lambda x: lib.tensor(x)):
        y = Cube.apply(a)
    assert log == [[2.0, 3.0], [8.0, 27.0]]
    (g,) = lib.autograd.grad(y.sum(), a, create_graph=True)
    (h,) = lib.autograd.grad(g.sum(), a)
    assert g.tolist() == pytest.approx([12.0, 27.0])
    assert h.tolist() == pytest.approx([12.0, 18.0])


def test_a_graph_that_is_dropped_lets_go(lib: Any) -> None:
    """Without a backward pass, too; and where pack returns what it was given."""

    class Kept:
        pass

    kept: list[Any] = []

    def pack(t: Any) -> Any:
        box = Kept()
        kept.append(weakref.ref(box))
        return box, t.detach()

    a = lib.ones(3, requires_grad=True)
    with hooks_of(lib)(pack, lambda p: p[1]):
        y = (a.exp() * a).sum()
    assert len(kept) == 3
    assert all(ref() is not None for ref in kept)
    del y
    gc.collect()
    assert all(ref() is None for ref in kept)


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpoint(lib: Any, reentrant: bool) -> None:
    """A checkpointed call passes its arguments to the hooks, and no tensor of its first run."""
    a, w, log = lib.ones(3, requires_grad=True), lib.full((3,), 2.0, requires_grad=True), []
    checkpoint = lib.utils.checkpoint.checkpoint if lib is torchlette else torch.utils.checkpoint.checkpoint
    with hooks_of(lib)(lambda t: log.append(tuple(t.shape)) or t, lambda t: t):
        y = checkpoint(lambda x: (x * w).exp().log() * w, a, use_reentrant=reentrant)
        assert log == [(3,)]
        if not reentrant:
            y.sum().backward()
    if reentrant:  # its second run is an ordinary one, which the hooks around it see
        y.sum().backward()
    assert log == [(3,)]
    assert (a.grad.tolist(), w.grad.tolist()) == ([pytest.approx(4.0)] * 3, [pytest.approx(4.0)] * 3)


def test_save_on_cpu(lib: Any, device: str) -> None:
    """Saved tensors come back to their device."""
    a = lib.tensor([1.0, 2.0], requires_grad=True, device=device if lib is torchlette else "cpu")
    with lib.autograd.graph.save_on_cpu():
        y = (a * a).exp().sum()
    y.backward()
    np.testing.assert_allclose(a.grad.cpu().numpy(), [2 * np.e, 4 * np.exp(4)], rtol=1e-5)


def fails(lib: Any, pack: Any, unpack: Any) -> BaseException:
    a = lib.rand(3, 3, requires_grad=True)
    with pytest.raises(BaseException) as caught:  # noqa: PT011 the class is what is compared
        with hooks_of(lib)(pack, unpack):
            y = (a.clone() @ a).sum()
        y.backward()
    # The engine goes on.
    assert (a * 2).sum().item() == pytest.approx(2 * a.sum().item(), rel=1e-5)
    return caught.value


@pytest.mark.parametrize(
    ("pack", "unpack"),
    [
        (lambda t: t.add_(1), lambda t: t),
        (lambda t: t, lambda t: 1),
        (lambda t: t, lambda t: t.reshape(-1)),
        (lambda t: t, lambda t: t.double()),
        (lambda t: t, lambda t: t[:2]),
        (lambda t: 1 / 0, lambda t: t),
        (lambda t: t, lambda t: 1 / 0),
        (1, lambda t: t),
        (lambda t: t, None),
    ],
)
def test_errors(pack: Any, unpack: Any) -> None:
    """Bad hooks raise PyTorch's classes."""
    want, got = (fails(lib, pack, unpack) for lib in LIBS)
    assert isinstance(got, type(want))
    if type(want) is not RuntimeError or "in place" in str(want):
        assert type(want) is TypeError or str(got).startswith(str(want)[:60])


def test_disabled(lib: Any) -> None:
    """Within the context hooks raise its text, and the context does where hooks are active."""
    graph = lib.autograd.graph
    with graph.disable_saved_tensors_hooks("not here"):
        with graph.disable_saved_tensors_hooks("nor here"):
            pass
        with pytest.raises(RuntimeError, match="^not here"), hooks_of(lib)(lambda t: t, lambda t: t):
            pass
    with (
        hooks_of(lib)(lambda t: t, lambda t: t),
        pytest.raises(RuntimeError, match="^not here"),
        graph.disable_saved_tensors_hooks("not here"),
    ):
        pass


SAVED = """
a * b | a / b | a.exp() | a.log() | a.sqrt() | a.tanh() | a.relu() | a.pow(b) | a.softmax(1) | a.log_softmax(0) |
a @ b.t() | lib.where(a > 1, a, b) | a.gather(1, i) | a.cos() | lib.atan2(a, b) | a.amax(1) | a.max(1)[0] |
F.linear(a, b, c) | F.embedding(i[0], a) | F.silu(a)
"""


@pytest.mark.parametrize("code", [c.strip() for c in SAVED.replace("\n", " ").split("|")])
def test_attributes_of_functions(code: str) -> None:
    """``grad_fn._saved_x`` has PyTorch's name and value, and raises once the backward pass has let it go."""
    found = []
    for lib in LIBS:
        x = np.arange(6, dtype="float32").reshape(2, 3) / 4 + 0.5
        names = {"lib": lib, "F": lib.nn.functional, "i": lib.tensor([[0, 1], [1, 0]]), "c": lib.ones(2)}
        y = eval(code, {**names, "a": lib.tensor(x, requires_grad=True), "b": lib.tensor(x + 1, requires_grad=True)})
        held = {n: getattr(y.grad_fn, n) for n in dir(y.grad_fn) if n.startswith("_saved_")}
        found.append({n: v.tolist() for n, v in held.items() if isinstance(v, lib.Tensor) and v.dim() > 0})
        for name in found[-1]:
            assert (
                getattr(y.grad_fn, "_raw" + name).data is None
                or getattr(y.grad_fn, "_raw" + name).data.tolist() == held[name].tolist()
            )
        y.sum().backward()
        for name in found[-1]:
            with pytest.raises(RuntimeError, match="second time"):
                getattr(y.grad_fn, name)
    assert found[1].keys() <= found[0].keys()
    assert found[1]
    for name, value in found[1].items():
        np.testing.assert_allclose(value, found[0][name], rtol=1e-6)


def test_hooks_of_one_saved_tensor(lib: Any) -> None:
    """``_raw_saved_x.register_hooks`` packs at once; one pair of hooks is allowed."""
    a = lib.tensor([1.0, 2.0], requires_grad=True)
    b = a.detach().clone().requires_grad_()
    y, z = a * a, b * b
    raw = y.grad_fn._raw_saved_self
    raw.register_hooks(lambda t: 2 * t, lambda t: t / 4)
    assert y.grad_fn._saved_self.tolist() == [0.5, 1.0]
    with pytest.raises(RuntimeError, match="only one pair"):
        raw.register_hooks(lambda t: t, lambda t: t)
    with pytest.raises(TypeError):
        y.grad_fn._raw_saved_other.register_hooks(1, 2)
    with pytest.raises(RuntimeError, match="in place"):
        z.grad_fn._raw_saved_other.register_hooks(lambda t: t.add_(1), lambda t: t)
    y.sum().backward()
    assert a.grad.tolist() == [1.5, 3.0]
    with pytest.raises(RuntimeError, match="second time"):
        _ = y.grad_fn._saved_self
    with pytest.raises(AttributeError):
        _ = y.grad_fn._saved_nothing
