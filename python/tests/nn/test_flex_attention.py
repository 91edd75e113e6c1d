"""Attention with functions for scores and masks: values are PyTorch's, gradients those of the formula written out."""

from __future__ import annotations

from typing import Any

import numpy as np
import oracle
import pytest
import torch
from torch.nn.attention import flex_attention as theirs
from torchlette.torch.nn.attention import flex_attention as ours

import torchlette.torch as facade

LIBS = ((torch, theirs), (facade, ours))


def draw(heads: int, length: int) -> np.ndarray:
    return np.random.default_rng(heads * length).standard_normal((2, heads, length, 8)).astype("float32")


def qkv(lib: Any, shared: int = 1) -> list[Any]:
    return [lib.tensor(draw(h, n)) for h, n in ((4, 6), (4 // shared, 7), (4 // shared, 7))]


def causal(b: Any, h: Any, q: Any, kv: Any) -> Any:
    return q >= kv


def not_first(b: Any, h: Any, q: Any, kv: Any) -> Any:
    return kv > h


def alibi(score: Any, b: Any, h: Any, q: Any, kv: Any) -> Any:
    return score + (h + 1) * 0.25 * (kv - q)


MASKS = {
    "none": None,
    "causal": lambda m: causal,
    "and": lambda m: m.and_masks(causal, not_first),
    "or": lambda m: m.or_masks(causal, not_first, m.noop_mask),
}


@pytest.mark.parametrize("score", [None, alibi], ids=["plain", "alibi"])
@pytest.mark.parametrize("mask", MASKS)
def test_values(score: Any, mask: str) -> None:
    """Queries that see no key give zeros."""
    results = []
    for lib, m in LIBS:
        block = MASKS[mask] and m.create_block_mask(MASKS[mask](m), 2, 4, 6, 7, device="cpu", BLOCK_SIZE=4)
        if block is not None:
            results.append((block.shape, block.to_dense().tolist(), round(block.sparsity(), 4)))
        results.append([
            m.flex_attention(*qkv(lib), score_mod=score, block_mask=block),
            m.flex_attention(*qkv(lib, 2), score_mod=score, block_mask=block, enable_gqa=True, scale=0.5),
            *m.flex_attention(*qkv(lib), score_mod=score, block_mask=block, return_lse=True),
        ])  # fmt: skip
    half = len(results) // 2
    if half == 2:
        assert results[0] == results[2]
    for want, got in zip(results[half - 1], results[-1], strict=True):
        oracle.assert_equal(got, want, mask)


def test_gradients() -> None:
    """Gradients reach tensors captured by the score function too. PyTorch has none on the CPU: compare with the
    formula.
    """
    grads = []
    for lib in (torch, facade):
        q, k, v = (t.requires_grad_() for t in qkv(lib))
        bias = lib.full((4,), 0.3, requires_grad=True)
        if lib is torch:
            i, j = torch.arange(6)[:, None], torch.arange(7)
            scores = (q @ k.mT) * 8**-0.5 + bias[:, None, None] * (j - i)
            out = scores.masked_fill(~(i >= j), -torch.inf).softmax(-1) @ v
        else:
            block = ours.create_block_mask(causal, None, None, 6, 7, device="cpu")
            out = ours.flex_attention(
                q, k, v, score_mod=lambda s, b, h, i, j, bias=bias: s + bias[h] * (j - i), block_mask=block
            )
        out.square().sum().backward()
        grads.append([t.grad for t in (q, k, v, bias)])
    for want, got in zip(*grads, strict=True):
        oracle.assert_equal(got, want, "gradient")


def test_masks_as_tensors_and_errors() -> None:
    for _, m in LIBS:
        assert m.create_mask(causal, None, None, 3, 3, device="cpu").int().tolist() == [
            [[[1, 0, 0], [1, 1, 0], [1, 1, 1]]]
        ]
    block = ours.create_block_mask(causal, None, None, 6, 6, device="cpu")
    out, aux = ours.flex_attention(*qkv(facade), return_aux=ours.AuxRequest(lse=True))
    assert aux.max_scores is None
    assert tuple(aux.lse.shape) == tuple(out.shape[:3])
    for call, error in (
        (lambda: ours.flex_attention(*qkv(facade, 2)), ValueError),
        (lambda: ours.flex_attention(*qkv(facade), block_mask=block), ValueError),
        (lambda: ours.flex_attention(*(t[0] for t in qkv(facade))), NotImplementedError),
        (lambda: ours.and_masks(causal, 3), RuntimeError),
    ):
        with pytest.raises(error):
            call()
