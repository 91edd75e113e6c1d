"""Factorisations of low rank are exact at full rank."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import torchlette.torch as facade


@pytest.mark.parametrize("shape", [(7, 5), (2, 4, 9)])
def test_low_rank(shape: tuple[int, ...]) -> None:
    """Of the full rank they are exact: PyTorch's singular values, the same product, orthonormal columns."""
    data = np.random.default_rng(0).standard_normal(shape).astype("float32")
    a, q = facade.tensor(data), min(shape[-2:])
    for centred, found in ((0.0, facade.svd_lowrank(a, q)), (data.mean(-2, keepdims=True), facade.pca_lowrank(a, q))):
        u, s, v = found
        exact = torch.linalg.svd(torch.tensor(data - centred), full_matrices=False).S
        np.testing.assert_allclose(s.numpy(), exact.numpy(), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(((u * s.unsqueeze(-2)) @ v.mT).numpy(), data - centred, rtol=1e-3, atol=1e-4)
    small = facade.svd_lowrank(a, 2, M=a.mean(-2, keepdim=True))
    assert [tuple(t.shape) for t in small] == [(*shape[:-1], 2), (*shape[:-2], 2), (*shape[:-2], shape[-1], 2)]
    with pytest.raises(ValueError, match="min"):
        facade.svd_lowrank(a, 100)
    with pytest.raises(ValueError, match="niter"):
        facade.svd_lowrank(a, 2, niter=-1)
