"""Functions of the graph have PyTorch's names, edges and identity; so have hooks on several tensors and anomalies."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import torch

import torchlette
from torchlette.autograd import graph

CALLS = """
a + b | a - 1 | a * b | a / b | a ** 2 | 2 - a | -a | a.exp() | a.sum() | a.sum(0) | a.mean() | a.mean(1) | a.t() |
a.T | a.transpose(0, 1) | a[0] | a[:, 1:] | a.view(-1) | a.reshape(3, 2) | a @ b.t() | a.relu() | a.softmax(1) |
a.log_softmax(1) | a.max() | a.max(1)[0] | a.clone() | a.expand(2, 2, 3) | a.unsqueeze(0) | a[None].squeeze(0) |
a.clamp(0, 1) | lib.cat([a, b]) | lib.stack([a, b]) | lib.where(a > 0, a, b) | a.permute(1, 0) | a.double() |
a.norm() | a.std() | a.var(0) | a.cumsum(0) | a.prod() | a.abs() | a.sigmoid() | a.tanh() | a.sqrt() | a.rsqrt() |
a.masked_fill(a > 0, 1.0) | a.gather(1, i) | a.index_select(0, i[0]) | a.split(1)[0] | a.unbind(0)[1] |
a.chunk(2)[1] | a.flatten() | a.pow(b) | a.log1p() | a.repeat(2, 1) | a.tril() | a.min(0).values | a.topk(1).values |
F.gelu(a) | F.linear(a, b) | F.layer_norm(a, (3,)) | F.mse_loss(a, b) | F.cross_entropy(a, i[:, 0]) |
F.nll_loss(a, i[:, 0]) | F.silu(a) | F.leaky_relu(a) | F.conv1d(a[None], b[None]) | F.embedding(i, a) |
F.softplus(a) | lib.fft.fft(a) | lib.fft.rfft(a) | lib.fft.irfft(lib.fft.rfft(a)) | lib.fft.fft2(a) |
lib.fft.hfft(lib.fft.rfft(a)) | lib.linalg.inv(a @ b.t()) | lib.linalg.cholesky(a @ a.t()) |
lib.linalg.solve(a @ b.t(), b) | lib.linalg.norm(a) | lib.linalg.svdvals(a) | lib.svd(a)[1] | lib.diag(a[0]) |
lib.linalg.cross(a, b) | lib.cross(a, b, dim=1) | lib.matrix_exp(a @ b.t()) | lib.logdet(a @ a.t()) | lib.kron(a, b) |
lib.meshgrid(a[0], b[0], indexing="ij")[0] | lib.nanmean(a) | lib.diff(a) | lib.cov(a) | lib.copysign(a, b) |
lib.atleast_2d(a[0]) | lib.hsplit(a, 3)[0] | lib.msort(a) | a.float_power(2) | F.pairwise_distance(a, b) |
F.avg_pool1d(a[None], 2) | F.max_pool1d(a[None], 2) | a.detach().requires_grad_() |
(a * 1).add_(b) | (a * 1)[0].mul_(2) | a.lerp(b, 0.5) | a.float() * 1
"""


def leaves(lib: Any) -> dict[str, Any]:
    """Return the names that the calls use."""
    x = np.arange(6, dtype="float32").reshape(2, 3) / 4 + 0.5
    made = {
        "a": lib.tensor(x, requires_grad=True),
        "b": lib.tensor(x + 1, requires_grad=True),
        "i": lib.tensor([[0, 1], [1, 0]]),
    }
    return {**made, "lib": lib, "F": lib.nn.functional}


@pytest.mark.parametrize("code", [c.strip() for c in CALLS.replace("\n", " ").split("|")])
def test_names(code: str) -> None:
    """The function that made a result has PyTorch's name."""
    want, got = (eval(code, leaves(lib)) for lib in (torch, torchlette))
    assert type(got.grad_fn).__name__ == type(want.grad_fn).__name__
    if got.grad_fn is not None:
        assert got.grad_fn.name() == type(got.grad_fn).__name__


def tree(fn: Any) -> Any:
    """Return the names of a graph as nested tuples."""
    return None if fn is None else (type(fn).__name__, tuple(tree(f) for f, _ in fn.next_functions))


def test_edges() -> None:
    """Walking next_functions shows PyTorch's graph, a call of an operator being one function."""

    def build(lib: Any) -> Any:
        v = leaves(lib)
        h = (v["a"] @ v["b"].t()).tanh()
        return tree((h.mean() + h.softmax(1)[0].sum()).grad_fn)

    assert build(torchlette) == build(torch)


def test_a_function_is_one_object_and_holds_the_graph() -> None:
    """The same function is the same object; with it the graph lives on, and without it goes."""
    a = torchlette.ones(2, requires_grad=True)
    y = a.exp().sin()
    fn = y.grad_fn
    assert y.grad_fn is fn
    inner = fn.next_functions[0][0]
    del y
    assert fn.next_functions[0][0] is inner
    assert inner.next_functions == ((graph.get_gradient_edge(a).node, 0),)
    assert a.grad_fn is None


def test_functions_in_python_are_named() -> None:
    """A Function's results show it, and its operands' functions behind it."""

    class Twice(torchlette.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 2

    a = torchlette.ones(2, requires_grad=True)
    y = Twice.apply(a.exp())
    assert tree(y.grad_fn) == ("TwiceBackward", (("ExpBackward0", (("AccumulateGrad", ()),)),))


@pytest.mark.parametrize("mode", ["all", "any"])
def test_multi_grad_hook(mode: str) -> None:
    """One call a pass, with every gradient or the first."""
    seen: dict[Any, list[Any]] = {torch: [], torchlette: []}
    for lib, found in seen.items():
        v = leaves(lib)
        h, unused = v["a"] * 2, v["b"] * 3
        note = (
            (lambda gs, to=found: to.append([None if g is None else g.tolist() for g in gs]))
            if mode == "all"
            else (lambda g, to=found: to.append(g.tolist()))
        )
        handle = lib.autograd.graph.register_multi_grad_hook([h, v["a"], unused], note, mode=mode)
        (h * h).sum().backward(retain_graph=True)
        (h * h).sum().backward()
        handle.remove()
        (v["a"] * 1).sum().backward()
    assert seen[torchlette] == seen[torch]


def test_post_accumulate_hooks() -> None:
    """They run after the leaf has its gradient, in order, and may use it up: the optimizer-in-backward pattern."""
    results = []
    for lib in (torch, torchlette):
        v, seen = leaves(lib), []

        def step(p: Any, v: Any = v, seen: Any = seen) -> None:
            seen.append((p is v["a"], p.grad.tolist()))

        handle = v["a"].register_post_accumulate_grad_hook(step)
        v["a"].register_hook(lambda g: g * 2)
        (v["a"] * v["b"]).sum().backward()
        handle.remove()
        (v["a"] * 1).sum().backward()
        results.append((seen, v["a"].grad.tolist()))
        with pytest.raises(RuntimeError, match="non-leaf"):
            (v["a"] * 1).register_post_accumulate_grad_hook(step)
    assert results[0] == results[1]


def test_anomaly_names_the_line_and_the_function() -> None:
    """A NaN gradient raises with the function's name; a warning shows the line of the forward pass."""
    a = torchlette.tensor([0.0, 1.0], requires_grad=True)
    with pytest.warns(UserWarning, match="Anomaly Detection has been enabled"), torchlette.autograd.detect_anomaly():
        y = (a.sqrt() * 0).sum()
        with (
            pytest.warns(UserWarning, match=r"test_graph\.py:\d+"),
            pytest.raises(RuntimeError, match="Function 'SqrtBackward0' returned nan values in its 0th output."),
        ):
            y.backward()
    assert not torchlette.is_anomaly_enabled()
    with torchlette.autograd.set_detect_anomaly(True, check_nan=False):
        (a.sqrt() * 0).sum().backward()
    assert a.grad.isnan().tolist() == [True, False]


def test_modified_saved_values_have_pytorch_s_text() -> None:
    """The message names the tensor, the function that made it and the versions."""
    texts = []
    for lib in (torch, torchlette):
        v = leaves(lib)
        h = v["a"] * 1
        y = h * h
        h.add_(1)
        with pytest.raises(RuntimeError) as caught:
            y.sum().backward()
        # PyTorch names the function that wrote, the engine the one whose result was saved.
        texts.append(re.sub(r"of \w+,", "", str(caught.value)))
    assert texts[0] == texts[1]


def test_saved_values_may_be_written_to_where_that_is_allowed() -> None:
    """The gradient is that of the values at the time of the operation: of operands, results, and views of them."""
    results = []
    for lib in (torch, torchlette):
        a = lib.tensor([1.0, 2.0, 3.0], requires_grad=True)
        for _ in range(4):  # later calls are recorded from cached traces
            with lib.autograd.graph.allow_mutation_on_saved_tensors():
                b = a.clone()
                y = (b**2).sum() + b.exp().sum()
                b.sin_()
                e = a.exp()
                e[:2].mul_(5)
                (y + e.sum()).backward()
            b = a.clone()
            y = (b**2).sum()
            b.sin_()
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                y.backward()
        results.append(a.grad.tolist())
        with (
            pytest.raises(RuntimeError, match="nested"),
            lib.autograd.graph.allow_mutation_on_saved_tensors(),
            lib.autograd.graph.allow_mutation_on_saved_tensors(),
        ):
            pass
    assert results[1] == pytest.approx(results[0])


def test_write_to_a_view_of_a_detached_part() -> None:
    """A detached part of a tensor has its own history, which a write to a view of it extends."""
    results = []
    for lib in (torch, torchlette):
        w = lib.tensor([2.0, 3.0], requires_grad=True)
        base = lib.arange(8.0)
        d = base[2:6].detach()
        d.mul_(w.repeat(2))
        part = d[:2]
        part.mul_(w)
        part[1:].add_(1)
        (d * d).sum().backward()
        results.append((base.tolist(), d.tolist(), part.tolist(), w.grad.tolist()))
    assert results[0] == results[1]
