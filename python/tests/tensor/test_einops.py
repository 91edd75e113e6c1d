"""einops on tensors of this library gives what it gives on NumPy's arrays."""

from __future__ import annotations

import numpy as np
import pytest

import torchlette

einops = pytest.importorskip("einops")
from torchlette.utils.einops import EinMix, Rearrange, Reduce, einsum, rearrange, reduce, repeat  # noqa: E402

X = np.random.default_rng(0).standard_normal((2, 3, 4, 6)).astype(np.float32)


@pytest.mark.parametrize(
    "pattern", ["b c h w -> b (h w) c", "b c (h p) (w q) -> (b h w) c p q", "b c h w -> w b () (c h)"]
)
def test_rearrange(pattern: str) -> None:
    """Permutations, merged and split axes, as a function and as a layer."""
    sizes = {"p": 2, "q": 3} if "p" in pattern else {}
    want = einops.rearrange(X, pattern, **sizes)
    np.testing.assert_array_equal(rearrange(torchlette.tensor(X), pattern, **sizes).numpy(), want)
    np.testing.assert_array_equal(Rearrange(pattern, **sizes)(torchlette.tensor(X)).numpy(), want)


@pytest.mark.parametrize("operation", ["min", "max", "sum", "mean", "prod"])
def test_reduce(operation: str) -> None:
    """Reductions over several axes."""
    want = einops.reduce(X, "b c h w -> b w", operation)
    np.testing.assert_allclose(reduce(torchlette.tensor(X), "b c h w -> b w", operation).numpy(), want, rtol=1e-5)
    np.testing.assert_allclose(Reduce("b c h w -> b w", operation)(torchlette.tensor(X)).numpy(), want, rtol=1e-5)


def test_the_rest() -> None:
    """repeat, einsum, lists of tensors, and a layer with weights and gradients."""
    t = torchlette.tensor(X)
    np.testing.assert_array_equal(
        repeat(t, "b c h w -> b k c (h 2) w", k=3).numpy(), einops.repeat(X, "b c h w -> b k c (h 2) w", k=3)
    )
    np.testing.assert_allclose(
        einsum(t, t, "b c h w, b c v w -> b c h v").numpy(),
        einops.einsum(X, X, "b c h w, b c v w -> b c h v"),
        rtol=1e-4,
        atol=1e-5,
    )
    np.testing.assert_array_equal(
        einops.rearrange([t, t], "n b c h w -> b (n c) h w").numpy(),
        einops.rearrange([X, X], "n b c h w -> b (n c) h w"),
    )
    layer = EinMix("b c h w -> b h w d", weight_shape="c d", bias_shape="d", c=3, d=5)
    layer(t).sum().backward()
    np.testing.assert_allclose(layer.bias.grad.numpy(), np.full((1, 1, 1, 5), 2 * 4 * 6), rtol=1e-5)
