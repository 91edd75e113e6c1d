"""Attention, rotary embeddings, losses."""

from __future__ import annotations

import math
from typing import Any

from torchlette import _C
from torchlette.nn import functional as F
from torchlette.onnx.registry import operator
from torchlette.onnx.tensors import dtype_of

Tensor = _C.Tensor


def _heads(x: Tensor, count: int | None) -> Tensor:
    if x.dim() == 4:
        return x
    if not count:
        raise ValueError("Attention: operands of 3 dims want q_num_heads and kv_num_heads")
    b, t, d = x.shape
    return x.reshape(b, t, count, d // count).transpose(1, 2)


def _added(mask: Tensor, dtype: _C.dtype) -> Tensor:
    if mask.dtype is not _C.bool:
        return mask.to(dtype)
    return _C.zeros_like(mask, dtype=dtype).masked_fill(~mask, -math.inf)


def _mask(q: Tensor, k: Tensor, mask: Tensor | None, causal: int, past: int, lengths: Tensor | None) -> Tensor | None:
    """Return what is added to the scores."""
    out = None if mask is None else _added(mask, q.dtype)
    rows, columns = q.shape[2], k.shape[2]
    if out is not None and out.shape[-1] < columns:
        out = _C.constant_pad_nd(out, [0, columns - out.shape[-1]], -math.inf)
    if causal:
        first = _C.arange(rows, device=q.device).unsqueeze(1) + past
        if lengths is not None and not past:
            first = first + (lengths.reshape(-1, 1, 1, 1) - rows)
        seen = _C.arange(columns, device=q.device) <= first
        out = _added(seen, q.dtype) if out is None else out.masked_fill(~seen, -math.inf)
    if lengths is not None:
        seen = _C.arange(columns, device=q.device) < lengths.reshape(-1, 1, 1, 1)
        out = _added(seen, q.dtype) if out is None else out.masked_fill(~seen, -math.inf)
    return out


@operator("Attention")
def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    past_key: Tensor | None = None,
    past_value: Tensor | None = None,
    lengths: Tensor | None = None,
    *,
    is_causal: int = 0,
    kv_num_heads: int | None = None,
    q_num_heads: int | None = None,
    qk_matmul_output_mode: int = 0,
    scale: float | None = None,
    softcap: float = 0.0,
    softmax_precision: int | None = None,
    n_outputs: int = 1,
) -> Any:
    """Return softmax(q k / scale + mask) v of heads; further outputs: keys and values with the past ones, scores."""
    flat = query.dim() == 3
    q, k, v = _heads(query, q_num_heads), _heads(key, kv_num_heads), _heads(value, kv_num_heads)
    past = 0
    if past_key is not None and past_value is not None:
        past = past_key.shape[2]
        k, v = _C.cat([past_key, k], 2), _C.cat([past_value, v], 2)
    added = _mask(q, k, mask, is_causal, past, lengths)
    groups = q.shape[1] // k.shape[1]
    wide_k, wide_v = (t.repeat_interleave(groups, 1) if groups > 1 else t for t in (k, v))
    if n_outputs < 4 and not softcap and softmax_precision is None and lengths is None:
        y, scores = F.scaled_dot_product_attention(q, wide_k, wide_v, added, scale=scale), None
    else:
        y, scores = _explicit(q, wide_k, wide_v, added, scale, softcap, softmax_precision, qk_matmul_output_mode)
    if flat:
        y = y.transpose(1, 2).reshape(query.shape[0], query.shape[1], -1)
    return [y, k, v, scores][:n_outputs] if n_outputs > 1 else y


def _explicit(
    q: Tensor, k: Tensor, v: Tensor, added: Any, scale: float | None, softcap: float, precision: Any, mode: int
) -> tuple[Tensor, Tensor]:
    root = math.sqrt(1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    scores = (q * root) @ (k * root).transpose(-1, -2)
    capped = softcap * _C.tanh(scores / softcap) if softcap else scores
    masked = capped if added is None else capped + added
    kept = (scores, capped, masked)[min(mode, 2)]
    work = masked if precision is None else masked.to(dtype_of(precision))
    weights = _C.softmax(work, -1).to(q.dtype)
    weights = _C.where(_C.isnan(weights), _C.zeros_like(weights), weights)
    return weights @ v, weights if mode == 3 else kept


@operator("RotaryEmbedding")
def rotary_embedding(
    x: Tensor,
    cosines: Tensor,
    sines: Tensor,
    positions: Tensor | None = None,
    *,
    interleaved: int = 0,
    num_heads: int = 0,
    rotary_embedding_dim: int = 0,
) -> Tensor:
    """Rotate pairs of features by angles of the positions."""
    shape = x.shape
    heads = x if x.dim() == 4 else x.reshape(shape[0], shape[1], num_heads, -1).transpose(1, 2)
    width = rotary_embedding_dim or heads.shape[-1]
    turned, rest = heads[..., :width], heads[..., width:]
    c, s = (cosines, sines) if positions is None else (F.embedding(positions.long(), t) for t in (cosines, sines))
    c, s = c.unsqueeze(1)[..., : width // 2], s.unsqueeze(1)[..., : width // 2]
    if interleaved:
        a, b = turned[..., 0::2], turned[..., 1::2]
        out = _C.stack([a * c - b * s, a * s + b * c], -1).flatten(-2)
    else:
        a, b = turned.chunk(2, -1)
        out = _C.cat([a * c - b * s, a * s + b * c], -1)
    out = _C.cat([out, rest], -1) if width < heads.shape[-1] else out
    return out if x.dim() == 4 else out.transpose(1, 2).reshape(shape)


def _nll(logp: Tensor, target: Tensor, weight: Tensor | None, ignore: int | None, reduction: str) -> Tensor:
    safe = target.long() if ignore is None else target.long().masked_fill(target == ignore, 0)
    loss = -logp.gather(1, safe.unsqueeze(1)).squeeze(1)
    scale = _C.ones_like(loss) if weight is None else weight[safe]
    if ignore is not None:
        scale = scale.masked_fill(target == ignore, 0)
    loss = loss * scale
    if reduction == "none":
        return loss
    return loss.sum() if reduction == "sum" else loss.sum() / scale.sum()


@operator("NegativeLogLikelihoodLoss")
def negative_log_likelihood_loss(
    x: Tensor, target: Tensor, weight: Tensor | None = None, *, ignore_index: int | None = None, reduction: str = "mean"
) -> Tensor:
    """Return the loss of log-probabilities."""
    return _nll(x, target, weight, ignore_index, reduction)


@operator("SoftmaxCrossEntropyLoss")
def softmax_cross_entropy_loss(
    x: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    *,
    ignore_index: int | None = None,
    reduction: str = "mean",
    n_outputs: int = 1,
) -> Any:
    """Return the loss of logits; as a second output the log-probabilities."""
    logp = _C.log_softmax(x, 1)
    return [_nll(logp, target, weight, ignore_index, reduction), logp][:n_outputs]
