"""Products of factors equal the matrix on both devices at any size; failures are raised where the value is read."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import oracle
import pytest
import torch

import torchlette
from torchlette import linalg

SIZES = (1, 3, 47, 120)


def matrix(m: int, n: int, device: str, *, definite: bool = False) -> torchlette.Tensor:
    """Return a float32 matrix; a definite one is symmetric with eigenvalues from 1 on."""
    x = np.random.default_rng(m * 1000 + n).standard_normal((m, n))
    return oracle.ours((x @ x.T / n + np.eye(m) if definite else x).astype("float32"), device)


def close(got: torchlette.Tensor, want: Any, tol: float = 2e-5) -> None:
    """Assert that all elements agree, relative to the largest."""
    got, want = np.asarray(got.tolist()), np.asarray(want.tolist())
    assert np.abs(got - want).max(initial=0) <= tol * max(1.0, np.abs(want).max(initial=0))


@pytest.mark.parametrize("n", SIZES)
def test_factors_give_the_matrix_back(n: int, device: str) -> None:
    """Products of factors are the matrix, and orthogonal factors are orthogonal."""
    a, s = matrix(n, n, device), matrix(n, n, device, definite=True)
    lower = linalg.cholesky(s)
    close(lower @ lower.mT, s)
    p, left, upper = linalg.lu(a)
    close(p @ left @ upper, a)
    close(linalg.solve(s, a), linalg.inv(s) @ a, 2e-4)
    w, v = linalg.eigh(s)
    close(v * w @ v.mT, s)
    close(v.mT @ v, torchlette.eye(n))
    for b in (a, matrix(2 * n + 1, n, device), matrix(n, 2 * n + 1, device)):
        q, r = linalg.qr(b)
        close(q @ r, b)
        for full in (False, True):
            u, d, vh = linalg.svd(b, full_matrices=full)
            close(u[:, :n] * d @ vh[:n], b)
            close(u.mT @ u, torchlette.eye(u.shape[1]))
            close(vh @ vh.mT, torchlette.eye(vh.shape[0]))


@pytest.mark.parametrize("size", [1e30, 1e-30, 1.0])
def test_reflections_are_found_of_any_size(size: float, device: str) -> None:
    """The squares of these elements overflow or underflow in float32; one column may mix magnitudes."""
    a = (np.random.default_rng(0).standard_normal((2, 4, 3)) * size).astype("float32")
    a[1, :, 1] *= np.float32(1e-6)
    for got, want in zip(
        torchlette.geqrf(torchlette.tensor(a, device=device)), torch.geqrf(torch.tensor(a)), strict=True
    ):
        scale = (
            np.where(np.triu(np.ones((4, 3))), np.abs(want.numpy()).max((1, 2), keepdims=True), 1)
            if want.ndim == 3
            else 1
        )
        np.testing.assert_allclose(np.array(got.tolist()) / scale, want.numpy() / scale, rtol=0, atol=2e-5)


def test_bases_are_completed() -> None:
    """Singular vectors of singular value 0 are orthogonal to the others."""
    for x in (torchlette.zeros(4, 3), torchlette.ones(5, 5), torchlette.diag(torchlette.tensor([0.0, 2.0, 0.0, 1.0]))):
        u, d, vh = linalg.svd(x)
        close(u.mT @ u, torchlette.eye(x.shape[0]))
        close(vh @ vh.mT, torchlette.eye(x.shape[1]))
        k = d.shape[0]
        close(u[:, :k] * d @ vh[:k], x)


@pytest.mark.parametrize(
    "call",
    [
        linalg.cholesky,
        linalg.inv,
        torchlette.inverse,
        lambda x: linalg.solve(x, x),
        lambda x: linalg.cholesky_ex(x, check_errors=True)[0],
    ],
)
def test_failures_are_raised_where_the_value_is_read(call: Any, device: str) -> None:
    """The error is a LinAlgError, names the matrix of the batch, and leaves the engine usable."""
    x = torchlette.eye(2, device=device).expand(3, 2, 2) * torchlette.tensor([1.0, 0.0, 1.0], device=device).reshape(
        3, 1, 1
    )
    y = call(x)
    with pytest.raises(linalg.LinAlgError, match=r"\(Batch element 1\)"):
        y.tolist()
    assert issubclass(linalg.LinAlgError, RuntimeError)
    assert linalg.inv(torchlette.eye(2, device=device)).tolist() == [[1.0, 0.0], [0.0, 1.0]]


def test_status_instead_of_errors() -> None:
    """The _ex forms count from 1, and 0 is success."""
    x = torchlette.stack([torchlette.eye(2), torchlette.zeros(2, 2)])
    assert linalg.cholesky_ex(x).info.tolist() == [0, 1]
    assert linalg.inv_ex(x).info.tolist() == [0, 1]
    assert linalg.lu_factor_ex(torchlette.diag(torchlette.tensor([1.0, 0.0, 2.0]))).info.item() == 2


@pytest.mark.parametrize("size", [(1100, 1040), (1030, 1190)])
def test_lu_of_the_widest_panels(size: tuple[int, int]) -> None:
    """From 1,024 rows and columns on, panels have 128 columns, which are halved twice."""
    x = np.random.default_rng(4).standard_normal(size)
    got, want = torchlette.linalg.lu_factor(torchlette.tensor(x)), torch.linalg.lu_factor(torch.tensor(x))
    assert np.array_equal(got[1].numpy(), want[1].numpy())
    assert np.abs(got[0].numpy() - want[0].numpy()).max() < 1e-8


@pytest.mark.parametrize("kind", ["indefinite", "no diagonal", "small integers"])
def test_symmetric_indefinite_factors_and_pivots_are_lapacks(kind: str, device: str) -> None:
    """Blocks of one and of two rows occur; the third kind has ties and singular matrices."""
    x = np.random.default_rng(3).standard_normal((4, 17, 17)).astype("float32")
    x = x + x.transpose(0, 2, 1)
    x = np.round(2 * x) if kind == "small integers" else x
    x[:, range(17), range(17)] *= kind != "no diagonal"
    x[3] = kind == "small integers"
    got, want = linalg.ldl_factor_ex(oracle.ours(x, device)), torch.linalg.ldl_factor_ex(torch.tensor(x))
    assert got.pivots.tolist() == want.pivots.tolist()
    assert got.info.tolist() == want.info.tolist()
    close(got.LD, want.LD)
    y = torch.ones(17, 2)
    close(
        linalg.ldl_solve(got.LD[:3], got.pivots[:3], oracle.ours(y.numpy(), device)),
        torch.linalg.ldl_solve(want.LD[:3], want.pivots[:3], y),
        1e-3,
    )


@pytest.mark.parametrize("hermitian", [False, True])
@pytest.mark.parametrize("kind", ["indefinite", "no diagonal", "small integers"])
def test_complex_indefinite_factors_and_pivots_are_lapacks(kind: str, hermitian: bool) -> None:
    """Also where the diagonal of a Hermitian matrix has imaginary parts, which do not count."""
    rng = np.random.default_rng(4)
    x = rng.standard_normal((4, 13, 13)) + 1j * rng.standard_normal((4, 13, 13))
    x = x + (x.conj() if hermitian else x).transpose(0, 2, 1)
    x = np.round(2 * x) if kind == "small integers" else x
    x[:, range(13), range(13)] *= kind != "no diagonal"
    x[3] = kind == "small integers"
    if hermitian:
        x[:, range(13), range(13)] += 1j
    mine, theirs = torchlette.tensor(x.tolist(), dtype=torchlette.complex128), torch.tensor(x)
    got, want = (lib.ldl_factor_ex(a, hermitian=hermitian) for lib, a in ((linalg, mine), (torch.linalg, theirs)))
    assert got.pivots.tolist() == want.pivots.tolist()
    assert got.info.tolist() == want.info.tolist()
    torch.testing.assert_close(torch.tensor(got.LD.tolist(), dtype=torch.complex128), want.LD)
    y = torch.ones(13, 2, dtype=torch.complex128)
    solved = linalg.ldl_solve(
        got.LD[:3], got.pivots[:3], torchlette.ones(13, 2, dtype=torchlette.complex128), hermitian=hermitian
    )
    want_solved = torch.linalg.ldl_solve(want.LD[:3], want.pivots[:3], y, hermitian=hermitian)
    torch.testing.assert_close(torch.tensor(solved.tolist(), dtype=torch.complex128), want_solved, rtol=1e-5, atol=1e-7)


def test_the_condition_of_no_complex_matrices_is_real() -> None:
    for p in (None, 2, -2, "fro", 1):
        got, want = (lib.linalg.cond(lib.zeros(0, 3, 3, dtype=lib.complex128), p).dtype for lib in (torchlette, torch))
        assert str(got).rpartition(".")[2] == str(want).rpartition(".")[2]


def test_symmetric_factors_report_zero_blocks_and_foreign_pivots() -> None:
    """Both are data, so the errors come where the value is read."""
    zero, pivots = torchlette.zeros(2, 2), torchlette.tensor([0, 2], dtype=torchlette.int32)
    with pytest.raises(RuntimeError, match="block 1 of D is zero"):
        linalg.ldl_factor(zero).LD.tolist()
    with pytest.raises(RuntimeError, match="pivot number 1"):
        linalg.ldl_solve(torchlette.eye(2), pivots, zero).tolist()


def test_numbers_that_are_not_finite_are_refused() -> None:
    """Iterative algorithms would not terminate on them."""
    for call in (linalg.svdvals, linalg.eigvalsh, linalg.pinv):
        with pytest.raises(linalg.LinAlgError, match="non-finite"):
            call(torchlette.full((2, 2), math.nan)).tolist()


def test_gradient_of_a_singular_determinant_is_the_adjugate() -> None:
    """PyTorch gives zeros; a difference quotient of the determinant gives the adjugate."""
    x = torchlette.diag(torchlette.tensor([3.0, 0.0, 2.0], dtype=torchlette.float64)).requires_grad_()
    d = linalg.det(x)
    d.backward()
    assert d.item() == 0
    close(x.grad, torch.diag(torch.tensor([0.0, 6.0, 0.0])), 1e-9)


def test_argument_forms_in_python() -> None:
    """Functions that take tensors one after the other, and the lists of tensordot."""
    a, b = np.arange(6.0).reshape(2, 3), np.arange(12.0).reshape(3, 4)
    ours, theirs = torchlette.tensor, torch.tensor
    x, y, p, q = ours(a), ours(b), theirs(a), theirs(b)
    oracle.assert_equal(torchlette.tensordot(x, y, 1), torch.tensordot(p, q, 1))
    oracle.assert_equal(torchlette.tensordot(x, y, ([1], [0])), torch.tensordot(p, q, ([1], [0])))
    oracle.assert_equal(torchlette.tensordot(x, y, 0), torch.tensordot(p, q, 0))
    oracle.assert_equal(torchlette.block_diag(x, y, ours(2.0)), torch.block_diag(p, q, theirs(2.0)))
    oracle.assert_equal(torchlette.chain_matmul(x, y), torch.chain_matmul(p, q))
    for args in ({}, {"N": 2}, {"N": 0}, {"increasing": True}):
        oracle.assert_equal(torchlette.vander(x[0], **args), torch.vander(p[0], **args))
    with pytest.raises(RuntimeError, match="one-dimensional"):
        torchlette.vander(x)
    with pytest.raises(RuntimeError, match="contracted dimensions need to match"):
        torchlette.tensordot(torchlette.ones(2, 3), torchlette.ones(2, 3), 1)
