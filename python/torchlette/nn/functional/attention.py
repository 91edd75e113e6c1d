"""Attention: the product and the layer's function; part of :mod:`torchlette.nn.functional`."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from torchlette import _C
from torchlette.nn.functional.dropouts import dropout

__all__ = ["multi_head_attention_forward", "scaled_dot_product_attention"]

Tensor = _C.Tensor


# Operators whose signature is PyTorch's as it stands.
scaled_dot_product_attention = _C.scaled_dot_product_attention


def _attention_mask(mask: Tensor | None, name: str, like: Tensor) -> Tensor | None:
    """Return ``mask`` as numbers to add to the scores: -inf where a bool mask is true."""
    if mask is None:
        return None
    if mask.dtype == _C.bool:
        return _C.zeros_like(mask, dtype=like.dtype).masked_fill(mask, float("-inf"))
    if not mask.is_floating_point():
        raise AssertionError(f"only bool and floating types of {name} are supported")
    return mask


def _project_qkv(
    query: Tensor, key: Tensor, value: Tensor, weights: Sequence[Tensor], biases: Sequence[Tensor | None]
) -> tuple[Tensor, Tensor, Tensor]:
    q, k, v = (_C.linear(x, w, b) for x, w, b in zip((query, key, value), weights, biases, strict=True))
    return q, k, v


def _is_batched(query: Tensor, key: Tensor, value: Tensor, padding: Tensor | None) -> bool:
    """Return whether the inputs have a batch. AssertionError: their dims do not fit."""
    dims = query.dim()
    if dims not in (2, 3):
        raise AssertionError(f"query should be unbatched 2D or batched 3D tensor but received {dims}-D query tensor")
    start = f"For {'batched' if dims == 3 else 'unbatched'} ({dims}-D) `query`, expected "
    if key.dim() != dims or value.dim() != dims:
        raise AssertionError(
            f"{start}`key` and `value` to be {dims}-D but found {key.dim()}-D and {value.dim()}-D tensors respectively"
        )
    if padding is not None and padding.dim() != dims - 1:
        raise AssertionError(
            f"{start}`key_padding_mask` to be `None` or {dims - 1}-D but found {padding.dim()}-D tensor instead"
        )
    return dims == 3


def _check_pairs(key: Tensor, value: Tensor, separate: bool, padding: Tensor | None, batch: int) -> None:
    """Raise AssertionError where values or the mask of padding do not fit the keys."""
    if separate and key.shape[:2] != value.shape[:2]:
        raise AssertionError(f"key's sequence and batch dims {key.shape[:2]} do not match value's {value.shape[:2]}")
    if not separate and key.shape != value.shape:
        raise AssertionError(f"key shape {key.shape} does not match value shape {value.shape}")
    for d, wanted in enumerate((batch, key.shape[0])):
        if padding is not None and padding.shape[d] != wanted:
            raise AssertionError(f"Expected key_padded_mask.shape[{d}] to be {wanted}, but got {padding.shape[d]}")


def _check_mask(mask: Tensor | None, batched: bool, batch: int, heads: int, scores: tuple[int, int]) -> None:
    """Raise what PyTorch raises where a mask does not fit the scores of all heads."""
    if mask is None:
        return
    if mask.dim() not in (2, 3):
        kind = "batched (3-D)" if batched else "unbatched (2-D)"
        raise AssertionError(
            f"For {kind} `query`, expected `attn_mask` to be `None`, 2-D or 3-D but found {mask.dim()}-D tensor instead"
        )
    wanted = scores if mask.dim() == 2 else (batch * heads, *scores)
    if tuple(mask.shape) == wanted:
        return
    if mask.dim() == 3 and not batched:
        raise AssertionError(f"Expected `attn_mask` shape to be {wanted} but got {mask.shape}")
    raise RuntimeError(f"The shape of the {mask.dim()}D attn_mask is {mask.shape}, but should be {wanted}.")


def multi_head_attention_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Tensor,
    out_proj_bias: Tensor | None,
    training: bool = True,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None,
    static_k: Tensor | None = None,
    static_v: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Return attention of several heads over inputs [length, batch, embedding], and its weights if asked.

    Args:
        query: [steps, batch, features], with ``batch_first`` [batch, steps, features].
        key: [sources, batch, features], with ``batch_first`` [batch, sources, features].
        value: As ``key``.
        embed_dim_to_check: Features of the query.
        num_heads: Heads, which share the features.
        in_proj_weight: Weights of the three projections, [3 * features, features].
        in_proj_bias: [3 * features]; None for none.
        bias_k: Added as a key, [1, 1, features]; None for none.
        bias_v: Added as a value, [1, 1, features]; None for none.
        add_zero_attn: Whether to append a key and a value of zeros.
        dropout_p: The probability of a weight to become zero in training.
        out_proj_weight: Weights of the last projection, [features, features].
        out_proj_bias: [features]; None for none.
        training: Whether weights are dropped.
        key_padding_mask: [batch, sources]: bool, True where a source is left out, or added to its scores.
        need_weights: Whether to return the attention weights too.
        attn_mask: [steps, sources], or one for each batch and head: bool, True where a source is masked out, or numbers
            to add to the scores.
        use_separate_proj_weight: Whether query, key and value have separate projection weights, for keys and values of
            other sizes.
        q_proj_weight: The query's separate weight.
        k_proj_weight: The key's separate weight.
        v_proj_weight: The value's separate weight.
        static_k: Keys in place of the projected ones.
        static_v: Values in place of the projected ones.
        average_attn_weights: Whether the weights returned are the mean over the heads.
        is_causal: A hint that the mask is causal: attention then needs none.
    """
    if static_k is not None or static_v is not None:
        raise ValueError("multi_head_attention_forward: static_k and static_v are not supported")
    batched = _is_batched(query, key, value, key_padding_mask)
    if not batched:
        query, key, value = (x.unsqueeze(1) for x in (query, key, value))
        key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
    length, batch, embed = query.shape
    if embed != embed_dim_to_check:
        raise AssertionError(f"was expecting embedding dimension of {embed_dim_to_check}, but got {embed}")
    head = embed // num_heads
    if head * num_heads != embed:
        raise AssertionError(f"embed_dim {embed} not divisible by num_heads {num_heads}")
    _check_pairs(key, value, use_separate_proj_weight, key_padding_mask, batch)
    if use_separate_proj_weight:
        weights: Sequence[Any] = (q_proj_weight, k_proj_weight, v_proj_weight)
        for name, given, weight in (("key", key, k_proj_weight), ("value", value, v_proj_weight)):
            wanted = embed, given.shape[-1]
            if weight is None or weight.shape != wanted:
                got = None if weight is None else weight.shape
                raise AssertionError(f"expecting {name} weights shape of {wanted}, but got {got}")
    else:
        weights = in_proj_weight.chunk(3)
    biases = (None, None, None) if in_proj_bias is None else in_proj_bias.chunk(3)
    q, k, v = _project_qkv(query, key, value, weights, biases)
    if is_causal and attn_mask is None:
        raise RuntimeError(
            "Need attn_mask if specifying the is_causal hint. You may use the Transformer module method "
            "`generate_square_subsequent_mask` to create this mask."
        )
    _check_mask(attn_mask, batched, batch, num_heads, (query.shape[0], key.shape[0]))
    if attn_mask is not None and key_padding_mask is not None and attn_mask.dtype != key_padding_mask.dtype:
        warnings.warn(
            "Support for mismatched key_padding_mask and attn_mask is deprecated. Use same type for both instead.",
            stacklevel=2,
        )
    attn_mask = _attention_mask(attn_mask, "attn_mask", q)
    padding = _attention_mask(key_padding_mask, "key_padding_mask", q)
    extra = 0
    if bias_k is not None:
        k, v = _C.cat([k, bias_k.expand(1, batch, embed)]), _C.cat([v, bias_v.expand(1, batch, embed)])
        extra += 1
    # [length, batch, embedding] -> [batch, heads, length, head]
    q, k, v = (x.reshape(x.shape[0], batch, num_heads, head).permute(1, 2, 0, 3) for x in (q, k, v))
    if add_zero_attn:
        zeros = _C.zeros(batch, num_heads, 1, head, dtype=k.dtype, device=k.device)
        k, v = _C.cat([k, zeros], dim=2), _C.cat([v, zeros], dim=2)
        extra += 1
    mask = _merge_masks(attn_mask, padding, batch, num_heads, extra)
    dropout_p = dropout_p if training else 0.0
    if need_weights:
        scores = (q * head**-0.5) @ k.transpose(-2, -1)
        attention = _C.softmax(scores if mask is None else scores + mask, -1)
        attention = dropout(attention, dropout_p) if dropout_p > 0.0 else attention
        out = attention @ v
    else:
        attention = None
        out = _C.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropout_p)
    out = _C.linear(out.permute(2, 0, 1, 3).reshape(length, batch, embed), out_proj_weight, out_proj_bias)
    if attention is not None and average_attn_weights:
        attention = attention.mean(1)
    if not batched:
        out = out.squeeze(1)
        attention = None if attention is None else attention.squeeze(0)
    return out, attention


def _merge_masks(attn_mask: Tensor | None, padding: Tensor | None, batch: int, heads: int, extra: int) -> Tensor | None:
    """Return the sum of the masks as [batch or 1, heads or 1, query, key]; ``extra`` keys at the end stay visible."""
    merged = None
    if attn_mask is not None:
        merged = (
            attn_mask.unsqueeze(0).unsqueeze(0)
            if attn_mask.ndim == 2
            else attn_mask.reshape(batch, heads, *attn_mask.shape[-2:])
        )
    if padding is not None:
        padding = padding.reshape(batch, 1, 1, padding.shape[-1])
        merged = padding if merged is None else merged + padding
    if merged is not None and extra:
        visible = _C.zeros(*merged.shape[:-1], extra, dtype=merged.dtype, device=merged.device)
        merged = _C.cat([merged, visible], dim=-1)
    return merged
