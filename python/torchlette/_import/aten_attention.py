"""Kernels of attention and of experts in ATen, as functions here."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torchlette
from torchlette import _C
from torchlette._import.files import unsupported
from torchlette.nn import functional as F

__all__ = ["ATTENTION", "EXPERTS"]

Tensor = _C.Tensor


def _math(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    p: float = 0.0,
    causal: bool = False,
    dropout_mask: Tensor | None = None,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> tuple[Tensor, Tensor]:
    """Attention and its weights."""
    if dropout_mask is not None:
        raise unsupported("attention with a given mask of dropout")
    if enable_gqa:
        key, value = (x.repeat_interleave(query.shape[-3] // x.shape[-3], dim=-3) for x in (key, value))
    scores = query @ key.mT * (query.shape[-1] ** -0.5 if scale is None else scale)
    if causal:
        scores = scores.masked_fill(torchlette.ones_like(scores, dtype=torchlette.bool).triu(1), -math.inf)
    if mask is not None:
        scores = scores + mask
    weights = scores.softmax(-1)
    return (F.dropout(weights, p) if p else weights) @ value, weights


def _cudnn(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | None,
    log_sum: bool,
    p: float = 0.0,
    causal: bool = False,
    debug: bool = False,
    *,
    scale: float | None = None,
) -> tuple[Tensor, ...]:
    """The kernel of cuDNN: results after the first are for its gradient."""
    return _overrideable(query, key, value, bias, p, causal, scale=scale)


def _overrideable(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | None = None,
    p: float = 0.0,
    causal: bool = False,
    debug: bool = False,
    *,
    scale: float | None = None,
) -> tuple[Tensor, ...]:
    """The kernel of a device that PyTorch does not know; as :func:`_cudnn`."""
    out = F.scaled_dot_product_attention(query, key, value, bias, p, causal, scale=scale)
    return (out, *[query.new_empty(0)] * 8)


def _multi_head(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    width: int,
    heads: int,
    qkv_weight: Tensor,
    qkv_bias: Tensor,
    out_weight: Tensor,
    out_bias: Tensor,
    mask: Tensor | None = None,
    need_weights: bool = True,
    average: bool = True,
    mask_type: int | None = None,
) -> tuple[Tensor, Tensor | None]:
    """``MultiheadAttention`` of [batch, length, width]; true elements of the mask take no part.

    The mask is of query and key (type 0), of batch and key (1), or of batch, head, query and key (2).
    """
    split = zip((query, key, value), qkv_weight.chunk(3), qkv_bias.chunk(3), strict=True)
    q, k, v = (F.linear(x, w, b).unflatten(-1, (heads, width // heads)).transpose(1, 2) for x, w, b in split)
    if mask is not None:
        mask = _C.zeros_like(mask, dtype=q.dtype).masked_fill(mask.to(_C.bool), -math.inf)
        if mask_type == 1:
            mask = mask[:, None, None, :]
    if need_weights:
        out, weights = _math(q, k, v, mask)
        weights = weights.mean(1) if average else weights
    else:
        out, weights = F.scaled_dot_product_attention(q, k, v, mask), query.new_empty(0)
    return F.linear(out.transpose(1, 2).flatten(-2), out_weight, out_bias), weights


def _encoder_layer(
    x: Tensor,
    width: int,
    heads: int,
    qkv_weight: Tensor,
    qkv_bias: Tensor,
    out_weight: Tensor,
    out_bias: Tensor,
    use_gelu: bool,
    norm_first: bool,
    eps: float,
    *rest: Any,
) -> Tensor:
    """``TransformerEncoderLayer`` for inference: the rest is of two norms and two products, and of the mask."""
    scale1, shift1, scale2, shift2, weight1, bias1, weight2, bias2, *masks = rest
    mask, mask_type = masks if len(masks) == 2 else (*masks, None, None)[:2]

    def attended(x: Tensor) -> Tensor:
        weights = (qkv_weight, qkv_bias, out_weight, out_bias)
        return _multi_head(x, x, x, width, heads, *weights, mask, False, True, mask_type)[0]

    def fed(x: Tensor) -> Tensor:
        hidden = F.linear(x, weight1, bias1)
        return F.linear(F.gelu(hidden) if use_gelu else hidden.relu(), weight2, bias2)

    if norm_first:
        x = x + attended(F.layer_norm(x, [width], scale1, shift1, eps))
        return x + fed(F.layer_norm(x, [width], scale2, shift2, eps))
    x = F.layer_norm(x + attended(x), [width], scale1, shift1, eps)
    return F.layer_norm(x + fed(x), [width], scale2, shift2, eps)


def _grouped(
    x: Tensor, weight: Tensor, ends: Tensor | None = None, bias: Tensor | None = None, dtype: _C.dtype | None = None
) -> Tensor:
    """Products of groups of rows with a matrix each; ``ends`` are the numbers of rows up to the end of each group.

    Values tell the groups' sizes, and a program has the same sizes for all values: each matrix takes all rows, of
    which its own are chosen. Rows behind the last group are 0.
    """
    if bias is not None or weight.dim() != 3 or x.dim() != (3 if ends is None else 2):
        raise unsupported("a grouped product other than of [rows, k] and [groups, k, n], or of two batches of matrices")
    if ends is None:
        out = x @ weight
    else:
        rows = _C.arange(x.shape[0], dtype=ends.dtype, device=x.device)
        group = _C.searchsorted(ends, rows, right=True)
        every = x @ weight
        chosen = every[group.clamp(max=weight.shape[0] - 1), rows.to(_C.int64)]
        out = chosen.masked_fill((rows >= ends[-1])[:, None], 0.0)
    return out if dtype is None else out.to(dtype)


#: Operators of ATen by name.
ATTENTION: dict[str, Callable[..., Any]] = {
    "_scaled_dot_product_attention_math": _math,
    "_scaled_dot_product_cudnn_attention": _cudnn,
    "_scaled_dot_product_fused_attention_overrideable": _overrideable,
    "_native_multi_head_attention": _multi_head,
    "_transformer_encoder_layer_fwd": _encoder_layer,
    "_grouped_mm": _grouped,
}

#: Operators of the library transformers by name and overload.
EXPERTS: dict[str, Callable[..., Any]] = {"grouped_mm_fallback.default": _grouped}
