"""Functions of neural networks, with the signatures of ``torch.nn.functional``."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

from torchlette import _C
from torchlette.nn import channel_functions, embedding_functions, loss_functions, spatial_functions, window_functions
from torchlette.nn.channel_functions import *  # noqa: F403
from torchlette.nn.embedding_functions import *  # noqa: F403
from torchlette.nn.loss_functions import *  # noqa: F403
from torchlette.nn.loss_functions import reduction_name
from torchlette.nn.spatial_functions import *  # noqa: F403
from torchlette.nn.window_functions import *  # noqa: F403

__all__ = [
    "binary_cross_entropy",
    "bilinear",
    "binary_cross_entropy_with_logits",
    "celu",
    "celu_",
    "cosine_similarity",
    "cross_entropy",
    "dropout",
    "elu",
    "elu_",
    "gelu",
    "glu",
    "hardshrink",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "hardtanh_",
    "huber_loss",
    "kl_div",
    "l1_loss",
    "layer_norm",
    "leaky_relu",
    "leaky_relu_",
    "grid_sample",
    "linear",
    "linear_cross_entropy",
    "log_softmax",
    "logsigmoid",
    "mish",
    "mse_loss",
    "multi_head_attention_forward",
    "nll_loss",
    "normalize",
    "one_hot",
    "pdist",
    "prelu",
    "relu",
    "relu6",
    "relu_",
    "rms_norm",
    "scaled_dot_product_attention",
    "selu",
    "selu_",
    "sigmoid",
    "silu",
    "smooth_l1_loss",
    "softmax",
    "softmin",
    "softplus",
    "softshrink",
    "softsign",
    "tanh",
    "tanhshrink",
    "threshold",
    "threshold_",
    *channel_functions.__all__,
    *embedding_functions.__all__,
    *loss_functions.__all__,
    *spatial_functions.__all__,
    *window_functions.__all__,
]

Tensor = _C.Tensor

# Operators whose signature is PyTorch's as it stands.
linear = _C.linear
gelu = _C.gelu
softplus = _C.softplus
layer_norm = _C.layer_norm
rms_norm = _C.rms_norm
scaled_dot_product_attention = _C.scaled_dot_product_attention
tanh = _C.tanh
sigmoid = _C.sigmoid
logsigmoid = _C.logsigmoid
softsign = _C.softsign
tanhshrink = _C.tanhshrink
softshrink = _C.softshrink
hardshrink = _C.hardshrink
glu = _C.glu
prelu = _C.prelu
grid_sample = _C.grid_sample
cosine_similarity = _C.cosine_similarity
pdist = _C.pdist
relu_ = _C.relu_
leaky_relu_ = _C.leaky_relu_
elu_ = _C.elu_
celu_ = _C.celu_
selu_ = _C.selu_
hardtanh_ = _C.hardtanh_
threshold_ = _C.threshold_


# Activations -----------------------------------------------------------------------------


def _stored(function: Callable[[Tensor], Tensor], input: Tensor) -> Tensor:
    """Put ``function(input)`` in the place of ``input``, whose former values its gradient may need."""
    return input.copy_(function(input.clone() if input.requires_grad else input))


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """Return ``max(input, 0)``."""
    return _C.relu_(input) if inplace else _C.relu(input)


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """Return ``min(max(input, 0), 6)``."""
    return _C.hardtanh_(input, 0.0, 6.0) if inplace else _C.relu6(input)


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """Return ``input`` where it is positive and ``negative_slope * input`` elsewhere."""
    return _C.leaky_relu_(input, negative_slope) if inplace else _C.leaky_relu(input, negative_slope)


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """Return ``input`` where it is positive and ``alpha * (exp(input) - 1)`` elsewhere."""
    return _C.elu_(input, alpha) if inplace else _C.elu(input, alpha)


def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """Return ``input`` where it is positive and ``alpha * (exp(input / alpha) - 1)`` elsewhere."""
    return _C.celu_(input, alpha) if inplace else _C.celu(input, alpha)


def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """Return the scaled :func:`elu` of self-normalising networks."""
    return _C.selu_(input) if inplace else _C.selu(input)


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """Return ``input * sigmoid(input)``."""
    return _stored(_C.silu, input) if inplace else _C.silu(input)


def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """Return ``input * tanh(softplus(input))``."""
    return _stored(_C.mish, input) if inplace else _C.mish(input)


def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    """Return ``input`` clamped to ``[min_val, max_val]``, with zero gradient at and outside the bounds."""
    if min_val > max_val:
        raise ValueError("min_val cannot be greater than max_val")
    return _C.hardtanh_(input, min_val, max_val) if inplace else _C.hardtanh(input, min_val, max_val)


def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """Return ``relu6(input + 3) / 6``."""
    return _stored(_C.hardsigmoid, input) if inplace else _C.hardsigmoid(input)


def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """Return ``input * relu6(input + 3) / 6``."""
    return _stored(_C.hardswish, input) if inplace else _C.hardswish(input)


def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """Return ``input`` where it is above ``threshold`` and ``value`` elsewhere."""
    return _C.threshold_(input, threshold, value) if inplace else _C.threshold(input, threshold, value)


def _softmax_dim(name: str, ndim: int, dim: int | None) -> int:
    if dim is not None:
        return dim
    warnings.warn(
        f"Implicit dimension choice for {name} has been deprecated. Change the call to include dim=X as an argument.",
        stacklevel=3,
    )
    return 0 if ndim in (0, 1, 3) else 1


def softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """Return ``exp(input)`` scaled to sum to 1 along ``dim``."""
    return _C.softmax(input, _softmax_dim("softmax", input.ndim, dim), dtype=dtype)


def softmin(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """Return the softmax of ``-input``."""
    return _C.softmax(-input, _softmax_dim("softmin", input.ndim, dim), dtype=dtype)


def log_softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """Return the logarithm of the softmax along ``dim``."""
    return _C.log_softmax(input, _softmax_dim("log_softmax", input.ndim, dim), dtype=dtype)


def normalize(input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12, out: Tensor | None = None) -> Tensor:
    """Divide ``input`` by its ``p``-norm along ``dim``, which counts at least ``eps``."""
    result = input / _C.norm(input, p, dim, keepdim=True).clamp_min(eps).expand_as(input)
    return result if out is None else out.copy_(result)


# Sparse and random -----------------------------------------------------------------------


def one_hot(input: Tensor, num_classes: int = -1) -> Tensor:
    """Return 1 at the class and 0 elsewhere, along a new last dimension; -1 classes means one more than the largest,
    which is read.
    """
    if num_classes == -1 and input.dtype is _C.int64:
        if input.numel() == 0:
            raise RuntimeError("Can not infer total number of classes from empty tensor.")
        if input.min().item() < 0:
            raise RuntimeError("Class values must be non-negative.")
        num_classes = int(input.max().item()) + 1
    return _C.one_hot(input, num_classes)


def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return ``input1^T weight[k] input2 + bias[k]`` for each k: [..., in1], [..., in2], [out, in1, in2] -> [..., out]."""
    if input1.shape[:-1] != input2.shape[:-1]:
        raise RuntimeError(
            f"bilinear(): input batch dimensions do not match: got {list(input1.shape)} and {list(input2.shape)}"
        )
    outs, first, second = weight.shape
    for k, (x, size) in enumerate(((input1, first), (input2, second)), 1):
        if x.shape[-1] != size:
            raise RuntimeError(
                f"bilinear(): input{k} size does not match weight size: got {x.shape[-1]} but expected {size}"
            )
    left = _C.linear(input1, weight.transpose(1, 2).reshape(outs * second, first)).reshape(
        *input1.shape[:-1], outs, second
    )
    result = (left * input2.unsqueeze(-2)).sum(-1, dtype=left.dtype)
    return result if bias is None else result + bias


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zero elements with probability ``p`` and scale the others by ``1 / (1 - p)``."""
    if p < 0.0 or p > 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    result = _C.dropout(input, p, training)
    return input.copy_(result) if inplace else result


# Losses ----------------------------------------------------------------------------------


def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """Return the cross entropy of logits against class indices or class probabilities."""
    reduction = reduction_name(size_average, reduce, reduction)
    return _C.cross_entropy(
        input, target, weight=weight, ignore_index=ignore_index, reduction=reduction, label_smoothing=label_smoothing
    )


def linear_cross_entropy(
    input: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    *,
    linear_bias: Tensor | None = None,
    weight: Tensor | None = None,
    reduction: str = "mean",
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    options: Any = None,
) -> Tensor:
    """Return the cross entropy of the logits that a linear layer makes of ``input``.

    Args:
        input: [features] or [batch, features].
        linear_weight: [classes, ..., features]; the dims between are further dims of the loss.
        target: Class indices or probabilities, for logits [batch, classes, ...].
        linear_bias: [classes, ...].
        weight: See :func:`cross_entropy`, as for the next three.
        reduction: See there.
        ignore_index: See there; not with probabilities.
        label_smoothing: See there.
        options: Accepted: PyTorch's ways to need less memory, which change no value.
    """
    if input.dim() not in (1, 2):
        raise RuntimeError(f"expected input with dimensionality 1 or 2, got {input.dim()}")
    if linear_weight.dim() < 2:
        raise RuntimeError(f"expected linear_weight with dimensionality at least 2, got {linear_weight.dim()}")
    classes, *more, features = linear_weight.shape
    if input.shape[-1] != features:
        raise RuntimeError(
            f"expected equal input and linear_weight last dimensions (in_features), got {input.shape[-1]} and "
            f"{features}, respectively"
        )
    if linear_bias is not None and list(linear_bias.shape) != [classes, *more]:
        raise RuntimeError(f"expected linear_bias shape {(classes, *more)}, got {tuple(linear_bias.shape)}")
    if more and input.dim() == 1:
        raise RuntimeError(
            f"K-dimensional loss defined by linear_weight shape {tuple(linear_weight.shape)} requires batched input, "
            f"(N, {features})"
        )
    shape = [*input.shape[:-1], classes, *more]
    if list(target.shape) == shape and ignore_index is not None:
        raise RuntimeError("ignore_index cannot be specified when target contains probabilities")
    logits = linear(
        input, linear_weight.reshape(-1, features), None if linear_bias is None else linear_bias.reshape(-1)
    ).reshape(shape)
    ignore = -100 if ignore_index is None else ignore_index
    return cross_entropy(
        logits, target, weight, ignore_index=ignore, reduction=reduction, label_smoothing=label_smoothing
    )


def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return the negative of the log probabilities at the target classes."""
    reduction = reduction_name(size_average, reduce, reduction)
    return _C.nll_loss(input, target, weight=weight, ignore_index=ignore_index, reduction=reduction)


def _warn_broadcast(input: Tensor, target: Tensor) -> None:
    if target.shape != input.shape:
        warnings.warn(
            f"Using a target size ({target.shape}) that is different to the input size ({input.shape}). This will "
            f"likely lead to "
            "incorrect results due to broadcasting. Please ensure they have the same size.",
            stacklevel=3,
        )


def _weighted(loss: Tensor, weight: Tensor | None, reduction: str, divide: bool = False) -> Tensor:
    """Reduce elementwise losses times ``weight``; ``divide`` means by the sum of the weights."""
    if weight is None:
        return loss.mean() if reduction == "mean" else loss.sum() if reduction == "sum" else loss
    loss = loss * weight
    if reduction == "none":
        return loss
    if reduction == "sum":
        return loss.sum()
    return loss.sum() / weight.expand_as(loss).sum() if divide else loss.mean()


def _check_loss_weight(input: Tensor, weight: Tensor) -> None:
    if weight.shape != input.shape:
        raise ValueError("Weights and input must have the same size.")


def mse_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """Return the squared error."""
    reduction = reduction_name(size_average, reduce, reduction)
    _warn_broadcast(input, target)
    if weight is None:
        return _C.mse_loss(input, target, reduction=reduction)
    _check_loss_weight(input, weight)
    return _weighted(_C.mse_loss(input, target, reduction="none"), weight, reduction, divide=True)


def l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """Return the absolute error."""
    reduction = reduction_name(size_average, reduce, reduction)
    _warn_broadcast(input, target)
    if weight is None:
        return _C.l1_loss(input, target, reduction=reduction)
    _check_loss_weight(input, weight)
    return _weighted(_C.l1_loss(input, target, reduction="none"), weight, reduction, divide=True)


def smooth_l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    beta: float = 1.0,
) -> Tensor:
    """Return the squared error over ``2 * beta`` below ``beta`` and the absolute error less ``beta / 2`` above."""
    reduction = reduction_name(size_average, reduce, reduction)
    _warn_broadcast(input, target)
    if beta == 0.0:
        return _C.l1_loss(input, target, reduction=reduction)
    return _C.smooth_l1_loss(input, target, reduction=reduction, beta=beta)


def huber_loss(
    input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0, weight: Tensor | None = None
) -> Tensor:
    """Return half the squared error below ``delta`` and a linear error above."""
    reduction = reduction_name(None, None, reduction)
    _warn_broadcast(input, target)
    if weight is None:
        return _C.huber_loss(input, target, reduction=reduction, delta=delta)
    _check_loss_weight(input, weight)
    return _weighted(_C.huber_loss(input, target, reduction="none", delta=delta), weight, reduction, divide=True)


def binary_cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return the cross entropy of probabilities against targets in [0, 1]; logarithms are clamped at -100."""
    reduction = reduction_name(size_average, reduce, reduction)
    if target.shape != input.shape:
        raise ValueError(
            f"Using a target size ({target.shape}) that is different to the input size ({input.shape}) is deprecated. "
            f"Please ensure they have the same size."
        )
    return _C.binary_cross_entropy(input, target, weight=weight, reduction=reduction)


def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    """Return the cross entropy of ``sigmoid(input)`` against targets in [0, 1], without overflow."""
    reduction = reduction_name(size_average, reduce, reduction)
    if target.shape != input.shape:
        raise ValueError(f"Target size ({target.shape}) must be the same as input size ({input.shape})")
    return _C.binary_cross_entropy_with_logits(input, target, weight=weight, reduction=reduction, pos_weight=pos_weight)


def kl_div(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    log_target: bool = False,
) -> Tensor:
    """Return the Kullback-Leibler divergence of ``target`` from log probabilities ``input``."""
    if reduction == "batchmean":
        total = _C.kl_div(input, target, reduction="sum", log_target=log_target)
        return total / input.shape[0] if input.ndim else total
    reduction = reduction_name(size_average, reduce, reduction)
    if reduction == "mean":
        warnings.warn(
            "reduction: 'mean' divides the total loss by both the batch size and the support size. 'batchmean' divides "
            "only by "
            "the batch size, and aligns with the KL div math definition.",
            stacklevel=2,
        )
    return _C.kl_div(input, target, reduction=reduction, log_target=log_target)


# Attention -------------------------------------------------------------------------------


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
    """Return attention of several heads over inputs [length, batch, embedding], and its weights if asked."""
    if static_k is not None or static_v is not None:
        raise ValueError("multi_head_attention_forward: static_k and static_v are not supported")
    batched = query.ndim == 3
    if not batched:
        query, key, value = (x.unsqueeze(1) for x in (query, key, value))
        key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
    length, batch, embed = query.shape
    if embed != embed_dim_to_check:
        raise AssertionError(f"was expecting embedding dimension of {embed_dim_to_check}, but got {embed}")
    head = embed // num_heads
    if use_separate_proj_weight:
        weights: Sequence[Any] = (q_proj_weight, k_proj_weight, v_proj_weight)
    else:
        weights = in_proj_weight.chunk(3)
    biases = (None, None, None) if in_proj_bias is None else in_proj_bias.chunk(3)
    q, k, v = _project_qkv(query, key, value, weights, biases)
    if is_causal and attn_mask is None:
        raise RuntimeError("Need attn_mask if specifying the is_causal hint.")
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
