"""Factorisations on a GPU agree with PyTorch's: batches, gradients, and what singular matrices raise."""

from __future__ import annotations

from typing import Any

import numpy as np
import oracle
import pytest
import torch

import torchlette
import torchlette.torch as lette

CALLS = {
    "cholesky": lambda lib, a, s, y: [lib.linalg.cholesky(s), lib.linalg.cholesky(s, upper=True)],
    "lu_factor": lambda lib, a, s, y: list(lib.linalg.lu_factor(a)),
    "lu": lambda lib, a, s, y: list(lib.linalg.lu(a)),
    "lu_solve": lambda lib, a, s, y: [lib.linalg.lu_solve(*lib.linalg.lu_factor(a), y)],
    "solve": lambda lib, a, s, y: [lib.linalg.solve(a, y), lib.linalg.solve(a, y.mT, left=False)],
    "inv": lambda lib, a, s, y: [lib.linalg.inv(a)],
    "det": lambda lib, a, s, y: [lib.linalg.det(0.3 * a), *lib.linalg.slogdet(a)],
    "triangular": lambda lib, a, s, y: [
        lib.linalg.solve_triangular(s, y, upper=False),
        lib.linalg.solve_triangular(s, y.mT, upper=True, left=False),
        lib.linalg.solve_triangular(0.1 * s, y, upper=True, unitriangular=True),
    ],
    "cholesky_solve": lambda lib, a, s, y: [lib.cholesky_solve(y, lib.linalg.cholesky(s))],
    "qr": lambda lib, a, s, y: [*lib.linalg.qr(a), *lib.linalg.qr(y), *lib.linalg.qr(y.mT)],
}


def operands(batch: tuple[int, ...], n: int) -> list[np.ndarray]:
    """Return general and positive matrices, and a right-hand side of three columns."""
    r = np.random.default_rng(n)
    a = r.standard_normal((*batch, n, n)).astype("float32")
    a += 2 * np.eye(n, dtype="float32")
    s = (a @ a.swapaxes(-1, -2) / max(n, 1) + np.eye(n)).astype("float32")
    return [a, s, r.standard_normal((*batch, n, min(3, n))).astype("float32")]


def results(lib: Any, name: str, arrays: list[np.ndarray], **place: str) -> list[np.ndarray]:
    """Return the results of a call, and where there is a gradient, those of a weighted sum of its real results."""
    x = [lib.tensor(v, requires_grad=True, **place) for v in arrays]
    out = CALLS[name](lib, *x)
    total = sum((v * v.detach().tanh()).sum() for v in out if v.requires_grad and v.numel())
    got = [v.detach() for v in out]
    if not isinstance(total, int):
        total.backward()
        got += [v.grad for v in x if v.grad is not None]
    return [v.cpu().numpy() for v in got]


@pytest.mark.parametrize("device", ["wgpu"], indirect=True)
@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize(("batch", "n"), [((), 5), ((2, 3), 7), ((2,), 33), ((0,), 3), ((2,), 0)])
def test_factors_and_gradients_are_pytorchs(name: str, batch: tuple[int, ...], n: int, device: str) -> None:
    """Matrices of one block and of several, batches, empty batches and empty matrices."""
    arrays = operands(batch, n)
    want = results(torch, name, arrays)
    got = results(lette, name, arrays, device=device)
    assert len(got) == len(want)
    for x, y in zip(got, want, strict=True):
        assert x.shape == y.shape
        scale = max(1.0, np.abs(y).max(initial=0))
        np.testing.assert_allclose(x / scale, y / scale, rtol=0, atol=1e-4)


def test_singular_matrices_say_which(device: str) -> None:
    """Errors name the first matrix and pivot; the _ex forms return numbers and raise nothing, here or later."""
    x = np.stack([np.eye(40), np.eye(40), np.zeros((40, 40))]).astype("float32")
    x[1, 36, 36] = 0
    a, t = oracle.ours(x, device), torch.tensor(x)
    for ours, theirs in (
        (torchlette.linalg.cholesky_ex, torch.linalg.cholesky_ex),
        (torchlette.linalg.lu_factor_ex, torch.linalg.lu_factor_ex),
        (torchlette.linalg.inv_ex, torch.linalg.inv_ex),
    ):
        assert ours(a).info.tolist() == theirs(t).info.tolist() == [0, 37, 1]
    for call in ("inv", "cholesky"):
        with pytest.raises(RuntimeError) as want:
            getattr(torch.linalg, call)(t)
        with pytest.raises(torchlette.linalg.LinAlgError) as got:
            getattr(torchlette.linalg, call)(a).tolist()
        assert str(want.value).split(":")[0] in str(got.value) and "(Batch element 1)" in str(got.value)
        assert "37" in str(got.value)
    with pytest.raises(RuntimeError, match="pivot number 2 is out of range"):
        pivots = oracle.ours(np.array([1, 9], dtype="int32"), device)
        torchlette.lu_unpack(oracle.ours(np.eye(2, dtype="float32"), device), pivots)[0].tolist()
