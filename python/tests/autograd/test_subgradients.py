"""Derivatives of norms and distances where they have none: at zero, at equal rows, at ties. First and second ones are
PyTorch's.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import oracle
import pytest
import torch

import torchlette

POINTS = {
    "zeros": [[0.0] * 4] * 3,
    "a zero row": [[0.0, 0.0, 0.0], [1.0, -2.0, 0.0], [3.0, 3.0, -3.0]],
    "equal rows": [[1.0, 2.0], [1.0, 2.0], [3.0, 4.0]],
    "mostly zero": [[1.0, 0.0], [0.0, 0.0]],
    "identity": [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
}
ORDERS = (0.5, 1, 1.5, 2, 2.5, 3, 4, math.inf, -math.inf, -1, -2, -0.5)
MATRIX_ORDERS = ("fro", 1, -1, math.inf, -math.inf)
FORMS = ((None, False), (0, False), (1, True), ((0, 1), False), ((0, 1), True))


def _norms() -> dict[str, Callable[[Any, Any], Any]]:
    found: dict[str, Callable[[Any, Any], Any]] = {}
    for p in ORDERS:
        for dim, keepdim in FORMS:
            found[f"vector_norm {p} {dim} {keepdim}"] = lambda lib, x, p=p, d=dim, k=keepdim: lib.linalg.vector_norm(
                x, p, dim=d, keepdim=k
            )
            found[f"norm {p} {dim} {keepdim}"] = lambda lib, x, p=p, d=dim, k=keepdim: lib.norm(
                x, p=p, dim=d, keepdim=k
            )
            if not isinstance(dim, tuple) and dim is not None:
                found[f"linalg.norm {p} {dim} {keepdim}"] = lambda lib, x, p=p, d=dim, k=keepdim: lib.linalg.norm(
                    x, p, dim=d, keepdim=k
                )
    for p in MATRIX_ORDERS:
        for keepdim in (False, True):
            found[f"matrix_norm {p} {keepdim}"] = lambda lib, x, p=p, k=keepdim: lib.linalg.matrix_norm(x, p, keepdim=k)
            found[f"linalg.norm {p} of a matrix {keepdim}"] = lambda lib, x, p=p, k=keepdim: lib.linalg.norm(
                x, p, dim=(0, 1), keepdim=k
            )
    return found


def _distances() -> dict[str, Callable[[Any, Any], Any]]:
    found: dict[str, Callable[[Any, Any], Any]] = {}
    for p in (0.5, 1, 1.5, 2, 2.5, 3, math.inf):
        found[f"pdist {p}"] = lambda lib, x, p=p: lib.nn.functional.pdist(x, p)
        found[f"dist {p}"] = lambda lib, x, p=p: lib.dist(x, x.detach() * 1, p)
        found[f"pairwise_distance {p}"] = lambda lib, x, p=p: lib.nn.functional.pairwise_distance(
            x, x.detach().flip(0), p, eps=0.0
        )
        for mode in ("use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist"):
            found[f"cdist {p} {mode}"] = lambda lib, x, p=p, m=mode: lib.cdist(x, x.detach() * 1, p, compute_mode=m)
            found[f"cdist of itself {p} {mode}"] = lambda lib, x, p=p, m=mode: lib.cdist(x, x, p, compute_mode=m)
    found["normalize"] = lambda lib, x: lib.nn.functional.normalize(x, 3.0)
    found["renorm"] = lambda lib, x: lib.renorm(x, 2.5, 0, 1.0)
    return found


FUNCTIONS = _norms() | _distances()


def _derivatives(lib: Any, f: Callable[[Any, Any], Any], x: Any) -> list[Any]:
    """Return the value, the gradient and the derivative of a weighted gradient; None where a graph ends before."""

    def weighted(t: Any) -> Any:
        return (t * lib.arange(1.0, t.numel() + 1, dtype=t.dtype, device=t.device).reshape(t.shape)).sum()

    x.requires_grad_()
    y = f(lib, x)
    (first,) = lib.autograd.grad(weighted(y), x, create_graph=True)
    try:
        (second,) = lib.autograd.grad(weighted(first), x, allow_unused=True)
    except RuntimeError:  # no history, or PyTorch has no second derivative here
        second = None
    return [t if t is None else oracle.to_torch(t) if lib is torchlette else t.detach() for t in (y, first, second)]


def _check(name: str, point: str, device: str) -> None:
    a = np.array(POINTS[point], dtype="float32")
    got = _derivatives(torchlette, FUNCTIONS[name], oracle.ours(a, device))
    want = _derivatives(torch, FUNCTIONS[name], oracle.theirs(a))
    for what, g, w in zip(("value", "gradient", "second derivative"), got, want, strict=True):
        if w is None:
            continue
        g = torch.zeros_like(w) if g is None else g
        if what != "value":
            assert not g.isnan().any(), f"{what} has NaN: {g}"
        known = w.isfinite() | (torch.tensor(what == "value") & ~w.isnan())  # PyTorch's own derivative may be NaN there
        torch.testing.assert_close(g[known], w[known], rtol=1e-4, atol=1e-4, msg=lambda m, what=what: f"{what}: {m}")


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_derivatives_are_those_of_pytorch(name: str, point: str) -> None:
    _check(name, point, "cpu")


@pytest.mark.parametrize("point", ["a zero row", "equal rows"])
@pytest.mark.parametrize(
    "name", ["vector_norm 0.5 1 True", "vector_norm 3 1 True", "vector_norm -1 1 True", "pdist 1.5", "pdist inf"]
)
def test_derivatives_on_the_gpu(device: str, name: str, point: str) -> None:
    _check(name, point, device)


@pytest.mark.parametrize("p", [*ORDERS, 0])
def test_a_history_changes_no_value(p: float) -> None:
    """The norm of a tensor that requires grad is bit for bit that of one that does not, also of infinities and NaN."""
    for rows in ([[0.0, 3.0], [math.inf, 1.0], [math.inf, -math.inf], [math.nan, 0.0], [0.0, 0.0], [1e-30, 1e30]],):
        x = torchlette.tensor(rows)
        plain = torchlette.linalg.vector_norm(x, p, dim=1).numpy()
        taped = torchlette.linalg.vector_norm(x.clone().requires_grad_(), p, dim=1).detach().numpy()
        np.testing.assert_array_equal(plain, taped)
        want = torch.linalg.vector_norm(torch.tensor(rows), p, dim=1).numpy()
        np.testing.assert_allclose(plain, want, rtol=1e-5)
    y = torchlette.tensor([[1.0, math.inf], [0.0, 2.0]])
    for q in (1.0, 3.0, math.inf):
        taped = torchlette.cdist(y.clone().requires_grad_(), y, q).detach().numpy()
        np.testing.assert_array_equal(torchlette.cdist(y, y, q).numpy(), taped)


def test_the_second_derivative_of_relu_is_zero_and_not_a_missing_path() -> None:
    for lib in (torch, torchlette):
        x = lib.tensor([-1.0, 0.0, 0.5, 2.0], requires_grad=True)
        (slope,) = lib.autograd.grad(lib.relu(x).sum(), x, create_graph=True)
        (second,) = lib.autograd.grad(slope.sum(), x)
        assert (slope.tolist(), second.tolist()) == ([0.0, 0.0, 1.0, 1.0], [0.0] * 4)


@pytest.mark.parametrize("name", ["logaddexp", "logaddexp2"])
@pytest.mark.parametrize(
    "pair", [(math.inf, 1), (1, math.inf), (-math.inf, 1), (math.inf, -math.inf), (1, 1), (80, -80)]
)
def test_a_logarithm_of_a_sum_beside_infinity_has_the_gradients_of_the_larger_operand(name, pair):
    def gradients(lib):
        x, y = (lib.tensor([float(v)], requires_grad=True) for v in pair)
        z = getattr(lib, name)(x, y)
        z.sum().backward()
        return [t.tolist() for t in (z.detach(), x.grad, y.grad)]

    for got, want in zip(gradients(torchlette), gradients(torch), strict=True):
        assert got == pytest.approx(want)


NAN = math.nan
ROWS = {
    "ties": [[1.0, 3.0, 3.0], [1.0, 2.0, 3.0]],
    "NaN": [[1.0, NAN, 3.0], [NAN, 0.0, 3.0]],
    "one NaN": [[NAN, 1.0, 2.0], [2.0, 0.0, 2.0]],
    "only NaN": [[NAN, NAN, NAN], [NAN, NAN, NAN]],
    "infinities": [[math.inf, -math.inf, 1.0], [math.inf, -math.inf, 2.0]],
    "one element": [[2.0]],
}
EXTREMA: dict[str, Callable[[Any, Any], Any]] = {
    "max": lambda lib, x: lib.max(x),
    "min": lambda lib, x: lib.min(x),
    "median": lambda lib, x: lib.median(x),
    "nanmedian": lambda lib, x: lib.nanmedian(x),
    "amax": lambda lib, x: lib.amax(x),
    "amin of rows": lambda lib, x: lib.amin(x, 1),
    "aminmax": lambda lib, x: lib.stack(list(lib.aminmax(x))),
    "max of rows": lambda lib, x: lib.max(x, 1)[0],
    "median of rows": lambda lib, x: lib.median(x, 1)[0],
    "nanmedian of rows": lambda lib, x: lib.nanmedian(x, 1)[0],
    "norm": lambda lib, x: lib.linalg.vector_norm(x, math.inf),
    "least norm of rows": lambda lib, x: lib.linalg.vector_norm(x, -math.inf, dim=1),
}


@pytest.mark.parametrize("point", ROWS)
@pytest.mark.parametrize("name", EXTREMA)
def test_extrema_share_gradients_among_equal_elements_and_among_nan(device: str, name: str, point: str) -> None:
    """NaN are equal to a result that is NaN, where PyTorch has them so: without a dim, but not in amax and amin."""
    import torchlette.torch as ours

    f, data = EXTREMA[name], [ROWS[point], [[2 * v for v in row] for row in ROWS[point]]]

    def run(lib: Any, where: str) -> tuple[Any, Any, Any]:
        batch = lib.tensor(data, device=where)
        one = batch[0].clone().requires_grad_()
        value = f(lib, one)
        value.sum().backward()
        batches = lib.func.vmap(lib.func.grad(lambda x: f(lib, x).sum()))(batch)
        return value.detach(), one.grad, batches

    for mine, theirs in zip(run(ours, device), run(torch, "cpu"), strict=True):
        np.testing.assert_array_equal(np.array(mine.tolist()), np.array(theirs.tolist()))


@pytest.mark.parametrize("name", ["max", "min", "median", "nanmedian"])
def test_tangents_of_extrema_are_the_transposed_gradients(device: str, name: str) -> None:
    """PyTorch's tangents at NaN are NaN, which its own gradients are not."""
    import torchlette.torch as ours

    for point in ROWS.values():
        x = ours.tensor(point, device=device)
        t = ours.arange(1.0, x.numel() + 1, device=device).reshape(x.shape)
        gradient = ours.func.grad(lambda v: EXTREMA[name](ours, v))(x)
        _, tangent = ours.func.jvp(lambda v: EXTREMA[name](ours, v), (x,), (t,))
        assert tangent.item() == pytest.approx((gradient * t).sum().item(), rel=1e-6)
