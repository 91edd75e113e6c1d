"""Compiled functions record what the plain function records: the same script runs under PyTorch and here."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

import torchlette
import torchlette.torch as facade


def compiled(lib: Any, fn: Any, **options: Any) -> Any:
    """Compile under either library; PyTorch interprets the graph, so that no C++ compiler is needed."""
    return lib.compile(fn, **({"backend": "eager"} if lib is torch else {}), **options)


@pytest.fixture(autouse=True)
def _fresh_graphs() -> Iterator[None]:
    yield
    torch._dynamo.reset()


def decorated(lib: Any, x: Any) -> Any:
    @lib.compile(**({"backend": "eager"} if lib is torch else {}), dynamic=False)
    def f(x: Any, *, k: float = 2.0) -> Any:
        """Multiply."""
        return x * k

    assert (f.__name__, f.__doc__) == ("f", "Multiply.")
    return f(x), f(x, k=3)


def a_method(lib: Any, x: Any) -> Any:
    class Scale:
        def __init__(self, k: float) -> None:
            self.k = k

        @lambda fn: compiled(lib, fn)
        def apply(self, x: Any) -> Any:
            return x * self.k

        def plain(self, x: Any) -> Any:
            return x - self.k

    s = Scale(2.0)
    first = s.apply(x)
    s.k = 5.0
    return first, s.apply(x), compiled(lib, s.plain)(x)


def a_class(lib: Any, x: Any) -> Any:
    class Add:
        def __init__(self, k: float) -> None:
            self.k = k

        def __call__(self, x: Any) -> Any:
            return x + self.k

    return compiled(lib, Add)(3.0)(x), compiled(lib, Add(4.0))(x)


def nested_calls(lib: Any, x: Any) -> Any:
    inner = compiled(lib, lambda x: x.sin() * 2)
    outer = compiled(lib, lambda x: inner(x) + inner(x * 2))
    return outer(x), compiled(lib, outer)(x)


def written_arguments(lib: Any, x: Any) -> Any:
    def f(x: Any, y: list[Any]) -> Any:
        x.mul_(2)
        y[0][0].add_(1)
        y.append(x * 3)
        return x

    x = x.clone()
    rows = [x.clone()]
    out = compiled(lib, f)(x, rows)
    return x, rows, out, out is x, x._version


def returned_views(lib: Any, x: Any) -> Any:
    x = x.clone()
    y, z = compiled(lib, lambda x: (x.t(), (x * 2)[1]))(x)
    y.mul_(3)
    z.add_(1)
    return x, y, z


def draws(lib: Any, x: Any) -> Any:
    f = compiled(lib, lambda x: (lib.rand_like(x) >= 0, lib.dropout(x, 0.0, True)))
    lib.manual_seed(3)
    out = f(x)
    return out, lib.randn(3).shape


def a_raised_error(lib: Any, x: Any) -> Any:
    def f(x: Any) -> Any:
        x.add_(1)
        raise KeyError("mine")

    x = x.clone()
    with pytest.raises(KeyError, match="mine"):
        compiled(lib, f)(x)
    return x, lib.compiler.is_compiling()


def branches_and_numbers(lib: Any, x: Any) -> Any:
    f = compiled(lib, lambda x, k, flip: (-x if flip else x) * k)
    return f(x, 1, True), f(x, 2.5, False), f(x, 0.0, False), f(x, -0.0, False)


def buffers(lib: Any, x: Any) -> Any:
    norm = lib.nn.BatchNorm1d(4)
    f = compiled(lib, norm)
    outs = [f(x), f(x + 1)]
    f.eval()
    return outs, f(x), norm.running_mean, norm.running_var, norm.num_batches_tracked, norm.training


def a_training_step(lib: Any, x: Any) -> Any:
    net = lib.nn.Sequential(lib.nn.Linear(4, 5), lib.nn.Tanh(), lib.nn.Linear(5, 2))
    with lib.no_grad():
        for i, p in enumerate(net.parameters()):
            p.copy_(lib.linspace(-1, 1, p.numel()).reshape(p.shape) * (i + 1) * 0.3)
    opt = lib.optim.AdamW(net.parameters(), lr=0.1)

    def step(x: Any) -> Any:
        opt.zero_grad()
        loss = net(x).square().mean()
        loss.backward()
        opt.step()
        return loss

    step = compiled(lib, step) if lib is facade else step  # PyTorch needs a C++ compiler for optimizers
    return [step(x).detach() for _ in range(4)], [p.detach() for p in net.parameters()]


def gradients(lib: Any, x: Any) -> Any:
    x = x.clone().requires_grad_()
    f = compiled(lib, lambda x: (x.sin() * x).sum())
    (g,) = lib.autograd.grad(f(x), x, create_graph=True)
    g.sum().backward()
    return g.detach(), x.grad


def a_read(lib: Any, x: Any) -> Any:
    def f(x: Any) -> Any:
        y = x * 2
        if y.sum() > 0:
            return y + y.max().item()
        return y - 1

    return compiled(lib, f)(x), compiled(lib, f)(-x.abs())


PROGRAMS = [
    decorated,
    a_method,
    a_class,
    nested_calls,
    written_arguments,
    returned_views,
    draws,
    a_raised_error,
    branches_and_numbers,
    buffers,
    a_training_step,
    gradients,
    a_read,
]


def plain(value: Any) -> Any:
    """Return nested values with tensors as PyTorch's."""
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return torch.tensor(value.tolist(), dtype=torch.float64) if hasattr(value, "tolist") else value


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_programs_do_what_pytorch_does(program: Callable[[Any, Any], Any]) -> None:
    """Values, gradients, writes, errors and attributes are PyTorch's."""
    x = np.linspace(-2, 3, 12, dtype=np.float32).reshape(3, 4)
    want, got = program(torch, torch.from_numpy(x)), program(facade, facade.from_numpy(x))
    torch.testing.assert_close(plain(got), plain(want), atol=2e-5, rtol=1.3e-5)


def wrapped_module(lib: Any) -> Any:
    module = lib.nn.Sequential(lib.nn.Linear(2, 3), lib.nn.Linear(3, 1))
    wrapped = compiled(lib, module)
    wrapped.extra = 3
    return module, wrapped


def test_a_compiled_module_is_like_pytorchs() -> None:
    """Keys of its state, its text, its attributes, training mode, hooks, length, copies."""
    seen = []
    for lib in (torch, facade):
        module, wrapped = wrapped_module(lib)
        state = wrapped.state_dict()
        wrapped.load_state_dict(state)
        names = [n for n, _ in wrapped.named_parameters()], [n for n, _ in wrapped.named_modules()]
        wrapped.eval()
        calls: list[int] = []
        module.register_forward_hook(lambda *a, calls=calls: calls.append(1))
        wrapped.register_forward_hook(lambda *a, calls=calls: calls.append(2))
        wrapped(lib.ones(4, 2))
        del wrapped.extra
        twin = copy.deepcopy(wrapped)
        assert twin(lib.ones(4, 2)).shape == (4, 1)
        assert twin._orig_mod is not module
        assert isinstance(wrapped, lib._dynamo.OptimizedModule)
        assert not isinstance(wrapped, lib.nn.Sequential)
        seen.append(
            (list(state), names, module.training, wrapped.training, len(wrapped), repr(wrapped), calls[:2])
            + (hasattr(module, "extra"), type(wrapped).__name__, type(wrapped._orig_mod).__name__)
        )
    assert seen[0] == seen[1]
    module, wrapped = wrapped_module(facade)
    loaded = pickle.loads(pickle.dumps(wrapped))
    assert loaded.state_dict().keys() == wrapped.state_dict().keys()
    assert loaded(facade.ones(1, 2)).tolist() == wrapped(facade.ones(1, 2)).tolist()


def test_a_module_compiled_in_place_keeps_its_keys() -> None:
    """``module.compile()``: the same class and keys, hooks run once, copies are plain modules."""

    class Probe(facade.nn.Linear):
        def forward(self, x: Any) -> Any:
            seen.append(facade.compiler.is_compiling())
            return super().forward(x)

    seen: list[bool] = []
    calls: list[int] = []
    net = facade.nn.Sequential(Probe(2, 2))
    assert net.compile(fullgraph=True) is None
    net.register_forward_hook(lambda *a: calls.append(1))
    assert list(net.state_dict()) == ["0.weight", "0.bias"]
    net(facade.ones(1, 2))
    copy.deepcopy(net)(facade.ones(1, 2))
    pickle.dumps(facade.nn.Linear(1, 1).compile())
    assert seen == [True, False]
    assert calls == [1, 1]


@pytest.mark.parametrize(
    "call",
    [
        lambda lib, f: lib.compile(f, mode="fastest"),
        lambda lib, f: lib.compile(f, mode="default", options={"max_autotune": True}),
        lambda lib, f: lib.compile(f, options={"bogus": True}),
        lambda lib, f: lib.compile(f, options={"max_autotune": 3}),
        lambda lib, f: lib.compile(f, backend="bogus"),
        lambda lib, f: lib.compile(3),
        lambda lib, f: lib.compile()(None),
        lambda lib, f: lib.compile(f, True),
    ],
)
def test_bad_options_are_pytorchs_errors(call: Callable[[Any, Any], Any]) -> None:
    """The class, and the first words."""
    errors = []
    for lib in (torch, facade):
        with pytest.raises(Exception) as e:  # noqa: PT011
            call(lib, lambda x: x)
        errors.append((type(e.value).__name__.replace("ExecutionError", "RuntimeError"), str(e.value)[:24]))
    assert errors[0] == errors[1]


@pytest.mark.parametrize("mode", ["default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs", None])
def test_every_mode_and_documented_option_is_accepted(mode: str | None) -> None:
    """They compile a function that works."""
    f = facade.compile(lambda x: x + 1, mode=mode, dynamic=True, name="f", recompile_limit=4, isolate_recompiles=True)
    assert f(facade.ones(1)).item() == 2
    for key in ("epilogue_fusion", "max_autotune", "fallback_random", "shape-padding", "triton.cudagraphs"):
        assert facade.compile(lambda x: x + 1, options={key: True})(facade.ones(1)).item() == 2
    with pytest.raises(NotImplementedError, match="fx graph"):
        facade.compile(lambda x: x, backend=lambda graph, inputs: graph)

    def plain(x: Any) -> Any:
        return x

    assert facade.compile(plain, disable=True) is plain
    assert facade.compile(disable=True)(plain) is plain


READS: list[Callable[[Any], Any]] = [
    lambda x: x.sum().item(),
    lambda x: x.tolist(),
    lambda x: x.numpy(),
    lambda x: float(x.sum()),
    lambda x: 1 if x.sum() > 0 else 2,
    lambda x: x.nonzero(),
    lambda x: x[x > 0],
    lambda x: repr(x),
    lambda x: facade.from_dlpack(x.__dlpack__()),
    lambda x: torchlette.mark_step(),
    lambda x: torchlette.realize(x),
]


@pytest.mark.parametrize("read", READS)
def test_one_graph_allows_no_read(read: Callable[[Any], Any]) -> None:
    """``fullgraph=True``: each way to a value raises, and the tensors stay usable."""
    x = facade.ones(3)
    y = x * 2
    f = facade.compile(lambda: read(y), fullgraph=True)
    with pytest.raises(facade._dynamo.exc.Unsupported, match="read inside of a compiled function"):
        f()
    with pytest.raises(torchlette.HostReadInCompileError):
        facade.compile(f)()  # the inner function's rule
    with pytest.raises(RuntimeError):
        facade.compile(facade.compile(lambda: read(y)), fullgraph=True)()
    facade.compile(lambda: read(y))()
    assert y.tolist() == [2, 2, 2]


def test_the_strict_flavour_allows_no_read_and_no_coroutine() -> None:
    """Code that does not import ``torchlette.torch``."""
    code = """
import torchlette
read = torchlette.compile(lambda x: x.sum().item())
async def later(x): return x
class Later:
    async def __call__(self, x): return x
def compile(fn): return torchlette.compile(fn)
def in_place(module): module.compile()
"""
    space: dict[str, Any] = {}
    exec(code, space)
    with pytest.raises(torchlette.HostReadInCompileError, match="return the tensor"):
        space["read"](torchlette.ones(2))
    for what in (space["later"], space["Later"]()):
        with pytest.raises(torchlette.AsyncInCompileError, match="compile the functions that it awaits"):
            space["compile"](what)
    facade.compile(space["later"])(facade.ones(1)).close()
    net = torchlette.nn.Linear(1, 1)
    net.register_forward_hook(lambda m, i, o: o.item())
    space["in_place"](net)
    with pytest.raises(torchlette.HostReadInCompileError):
        net(torchlette.ones(1))


def test_a_disabled_function_runs_outside() -> None:
    """It may read; in one graph its call is an error, and so is a graph break."""
    seen = []

    def look(x: Any) -> float:
        seen.append(facade.compiler.is_compiling())
        return x.sum().item()

    for off in (facade.compiler.disable(look), facade.compiler.disable()(look), facade._dynamo.disable(look)):
        assert facade.compile(lambda x, off=off: off(x) + facade.compiler.is_compiling())(facade.ones(2)) == 3
        with pytest.raises(facade._dynamo.exc.Unsupported, match="disable"):
            facade.compile(off, fullgraph=True)(facade.ones(2))
    assert seen == [False] * 3
    assert not facade.compiler.is_compiling()
    net = facade.compiler.disable(facade.nn.Linear(1, 1))
    assert list(net.state_dict()) == ["_orig_mod.weight", "_orig_mod.bias"]
    facade.compile(facade._dynamo.graph_break)()
    with pytest.raises(facade._dynamo.exc.Unsupported, match="graph_break"):
        facade.compile(facade._dynamo.graph_break, fullgraph=True)()
    with pytest.raises(RuntimeError, match="invalid torch.compile stance 'bogus'"):
        facade.compiler.set_stance("bogus")
    with facade.compiler.set_stance("force_eager"):
        assert not facade.compile(facade.compiler.is_compiling, fullgraph=True)()
    assert facade.compile(facade.compiler.is_compiling)()


def rounded(x: Any) -> Any:
    return (x + 1024) - 1024


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_regions_round_halves_at_their_ends(dtype: str, device: str) -> None:
    """In a region no half is rounded between operators of one kernel: as in PyTorch, which keeps registers."""
    x = facade.tensor([0.3, 1.0, 2.5], dtype=getattr(facade, dtype), device=device)
    plain, region = rounded(x).tolist(), facade.compile(rounded)(x)
    assert plain != x.tolist()
    assert region.tolist() == x.tolist()
    for options in ({"backend": "eager"}, {"options": {"emulate_precision_casts": True}}):
        assert facade.compile(rounded, **options)(x).tolist() == plain
    with facade.compiler.set_stance("force_eager"):
        assert facade.compile(rounded)(x).tolist() == plain
    assert facade.compiler.disable(facade.compile(facade.compiler.disable(rounded)))(x).tolist() == plain


def test_the_backward_of_a_region_rounds_at_its_ends() -> None:
    """A product of five numbers is rounded once."""
    grads = []
    for f in (rounded_backward, facade.compile(rounded_backward)):
        x = facade.ones(4, dtype=facade.bfloat16, requires_grad=True)
        f(x).backward(facade.full((4,), 3.0, dtype=facade.bfloat16))
        grads.append(x.grad.tolist()[0])
    third = torch.tensor(1 / 3, dtype=torch.bfloat16).double()
    assert grads[0] != grads[1]
    assert grads[1] == pytest.approx(3 * 7.03125 * float(third) ** 4, rel=2**-8)


def rounded_backward(x: Any) -> Any:
    third = facade.full((4,), 1 / 3, dtype=facade.bfloat16)
    return (x * third * third * third * third) * 7.03125


@pytest.mark.parametrize("dtype", [torchlette.float16, torchlette.bfloat16])
def test_halves_around_rows_stay_rounded(dtype: torchlette.dtype) -> None:
    """A group that works rows has the bits of the plain function; an elementwise one is nearer to float32."""
    torchlette.manual_seed(1)
    x = torchlette.randn(16, 64).to(dtype)

    def chain(x: torchlette.Tensor) -> torchlette.Tensor:
        return ((x * 1.7 + 0.3).sin() * x - 0.1).exp()

    for rows in (lambda x: chain(x).softmax(-1), lambda x: chain(x).sum(-1), lambda x: (x * 0.7).softmax(-1) * x):
        assert torchlette.compile(rows)(x).tolist() == rows(x).tolist()
    want = chain(x.float())
    errors = []
    for f in (torchlette.compile(chain), chain):
        torchlette.realize(y := f(x))  # apart from the sum below, which works rows
        errors.append((y.float() - want).abs().sum().item())
    assert errors[0] < errors[1]


@pytest.mark.parametrize("accumulate", [False, True])
def test_one_graph_writes_values_under_a_mask(accumulate: bool) -> None:
    """Rows of values go to the true elements in order, and so do gradients."""
    x = facade.arange(12.0).reshape(3, 4).requires_grad_()
    rows = facade.tensor([[1.0, 2, 3, 4], [5, 6, 7, 8]], requires_grad=True)

    def write(x: Any, rows: Any) -> Any:
        return (x * 1).index_put_((x[:, 0] != 4,), rows, accumulate)

    results = []
    for function in (write, facade.compile(write, fullgraph=True)):
        y = function(x, rows)
        gradients = facade.autograd.grad((y * y.detach()).sum(), [x, rows])
        results.append([t.tolist() for t in (y, *gradients)])
    assert results[0] == results[1]
