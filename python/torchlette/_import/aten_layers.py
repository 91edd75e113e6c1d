"""Layers, losses and normalizations of ATen, as functions here."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torchlette
from torchlette import _C
from torchlette.nn import functional as F
from torchlette.nn.functional.vision import _resampled

Tensor = _C.Tensor
Call = Callable[..., Any]

_REDUCTIONS = "none", "mean", "sum"


def convolution(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
    *rest: Any,
) -> Tensor:
    dims = weight.dim() - 2
    if transposed:
        call = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[dims - 1]
        return call(x, weight, bias, stride, padding, output_padding, groups, dilation)
    return (F.conv1d, F.conv2d, F.conv3d)[dims - 1](x, weight, bias, stride, padding, dilation, groups)


def softmax(x: Tensor, dim: int, half_to_float: bool = False) -> Tensor:
    return _C.softmax(x, dim, dtype=_C.float32 if half_to_float else None)


def log_softmax(x: Tensor, dim: int, half_to_float: bool = False) -> Tensor:
    return _C.log_softmax(x, dim, dtype=_C.float32 if half_to_float else None)


def safe_softmax(x: Tensor, dim: int, dtype: _C.dtype | None = None) -> Tensor:
    """Softmax that gives 0 where all of a row is -inf."""
    empty = (x == -math.inf).all(dim, keepdim=True)
    return _C.softmax(x.masked_fill(empty, 0.0), dim, dtype=dtype).masked_fill(empty, 0.0)


def softmax_backward(grad: Tensor, output: Tensor, dim: int, dtype: _C.dtype) -> Tensor:
    product = grad * output
    return (product - output * product.sum(dim, keepdim=True)).to(dtype)


def chunk_cat(tensors: Sequence[Tensor], dim: int, chunks: int, *, out: Tensor | None = None) -> Tensor:
    """Each tensor's rest from ``dim`` on in ``chunks`` rows, with zeros at the end, beside those of the others."""
    if not tensors or not all(t.numel() for t in tensors):
        raise RuntimeError(f"_chunk_cat expects non-empty {'tensors' if tensors else 'input tensor list'}")
    if chunks < 1:
        raise RuntimeError(f"_chunk_cat expects positive num_chunks, got {chunks}")
    dims = {t.dim() for t in tensors}
    if not (0 if len(dims) > 1 else -min(dims)) <= dim < min(dims):
        raise RuntimeError(
            f"_chunk_cat expects dim < ndim for all input tensors, got dim {dim} for {sorted(dims)} dims"
        )
    dim = dim % tensors[0].dim()
    rows = []
    for t in tensors:
        short = -t.shape[dim] % chunks
        t = F.pad(t, [0, 0] * (t.dim() - dim - 1) + [0, short])
        rows.append(t.reshape(*t.shape[:dim], chunks, -1))
    return _C.cat(rows, dim + 1) if out is None else _C.cat(rows, dim + 1, out=out)


def _inside(x: Tensor, indices: Sequence[Tensor | None]) -> tuple[Any, ...]:
    """Return an index whose places all are inside of ``x``."""
    return tuple(slice(None) if i is None else i.clamp(-n, n - 1) for i, n in zip(indices, x.shape, strict=False))


def masked_index(x: Tensor, mask: Tensor, indices: Sequence[Tensor | None], fill: Any) -> Tensor:
    """``x[indices]`` where the mask is set, ``fill`` elsewhere, where indices may be out of range."""
    return x[_inside(x, indices)].masked_fill(~mask, fill)


def masked_index_put(x: Tensor, mask: Tensor, indices: Sequence[Tensor | None], values: Tensor) -> Tensor:
    """``x`` with the values that the mask selects added at ``indices``."""
    return x.index_put(_inside(x, indices), values.masked_fill(~mask, 0), accumulate=True)


def layer_norm(
    x: Tensor,
    shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    *rest: Any,
) -> Tensor:
    return F.layer_norm(x, shape, weight, bias, eps)


def group_norm(
    x: Tensor, groups: int, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5, *rest: Any
) -> Tensor:
    return F.group_norm(x, groups, weight, bias, eps)


def batch_norm(
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    mean: Tensor | None,
    var: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
    *rest: Any,
) -> Tensor:
    return F.batch_norm(x, mean, var, weight, bias, training, momentum, eps)


def instance_norm(
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    mean: Tensor | None,
    var: Tensor | None,
    use_input_stats: bool,
    momentum: float,
    eps: float,
    *rest: Any,
) -> Tensor:
    return F.instance_norm(x, mean, var, weight, bias, use_input_stats, momentum, eps)


def norm_no_training(
    x: Tensor, weight: Any, bias: Any, mean: Tensor, var: Tensor, momentum: float, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    empty = x.new_empty(0)
    return F.batch_norm(x, mean, var, weight, bias, False, momentum, eps), empty, empty


def norm_functional(
    x: Tensor, weight: Any, bias: Any, mean: Tensor, var: Tensor, training: bool, momentum: float, eps: float
) -> tuple[Tensor, ...]:
    """Batch norm that returns the new running statistics in place of writing them."""
    new_mean, new_var = mean.clone(), var.clone()
    out, saved, inverse = torchlette.native_batch_norm(x, weight, bias, new_mean, new_var, training, momentum, eps)
    return out, saved, inverse, new_mean, new_var


def norm_legit(x: Tensor, weight: Any, bias: Any, *rest: Any) -> tuple[Tensor, ...]:
    if len(rest) == 3:  # overload no_stats: training, momentum, eps
        return tuple(torchlette.native_batch_norm(x, weight, bias, None, None, *rest))
    return tuple(torchlette.native_batch_norm(x, weight, bias, *rest))


def norm_with_update(x: Tensor, *rest: Any) -> tuple[Tensor, ...]:
    """Batch norm in training; the last result is for PyTorch's gradients."""
    return (*norm_legit(x, *rest[:4], True, *rest[4:]), _C.empty(0, dtype=_C.uint8, device=x.device))


def native_dropout(x: Tensor, p: float, train: bool | None) -> tuple[Tensor, Tensor]:
    if not train:
        return x, _C.ones_like(x, dtype=_C.bool)
    mask = _C.rand_like(x) >= p
    return x * mask / (1.0 - p) if p < 1 else x * 0, mask


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    return_debug_mask: bool = False,
    *,
    scale: float | None = None,
) -> tuple[Tensor, ...]:
    """The kernel behind ``scaled_dot_product_attention``: results after the first are for its gradient."""
    out = F.scaled_dot_product_attention(query, key, value, None, dropout_p, is_causal, scale=scale)
    return (out, *[query.new_empty(0)] * 8)


def flash(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    attn_mask: Tensor | None = None,
    scale: float | None = None,
) -> tuple[Tensor, Tensor]:
    """The CPU's kernel: attention, and of each query the logarithm of the sum of its exponentials."""
    out = F.scaled_dot_product_attention(query, key, value, attn_mask, dropout_p, is_causal, scale=scale)
    with torchlette.no_grad():
        wide = torchlette.promote_types(query.dtype, torchlette.float32)
        scores = query.to(wide) @ key.to(wide).transpose(-2, -1)
        scores = scores * (query.shape[-1] ** -0.5 if scale is None else scale)
        if attn_mask is not None:
            scores = scores + attn_mask.to(wide)
        if is_causal:
            scores = scores.masked_fill(torchlette.ones_like(scores, dtype=torchlette.bool).triu(1), -math.inf)
        return out, scores.logsumexp(-1)


def efficient(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    log_sum: bool = False,
    p: float = 0.0,
    causal: bool = False,
    *,
    scale: float | None = None,
) -> tuple[Tensor, ...]:
    out = F.scaled_dot_product_attention(query, key, value, mask, p, causal, scale=scale)
    empty = query.new_empty(0)
    return out, empty, empty, empty


def upsample(mode: str, dims: int, antialias: bool = False) -> Call:
    """Return ``aten::upsample_*``: with sizes (default) or factors (vec)."""
    aligned = mode in ("linear", "bilinear", "bicubic", "lanczos", "trilinear")

    def call(x: Tensor, size: Any = None, *args: Any, **kwargs: Any) -> Tensor:
        align, scales = (None, args)
        if aligned:
            align, scales = (args[0], args[1:]) if args else (kwargs.get("align_corners", False), ())
        if len(scales) == 1 and isinstance(scales[0], list):
            scales = tuple(scales[0])
        size = kwargs.get("output_size", size)
        scales = scales or [kwargs.get(f"scales_{d}") for d in "dhw"]
        factors = [s for s in scales if s is not None] or kwargs.get("scale_factors")
        if size is not None and factors:
            return _resampled(x, list(size), list(factors), mode, bool(align), False, antialias)
        if size is not None:
            return F.interpolate(x, size, None, mode, align, antialias=antialias)
        return F.interpolate(x, None, list(factors), mode, align, antialias=antialias)

    return call


def loss(name: str, weighted: int) -> Call:
    """Return a loss whose reduction is a number in ATen.

    Args:
        name: Of nn.functional.
        weighted: The place of the reduction among ATen's arguments.
    """

    def call(*args: Any, **kwargs: Any) -> Any:
        values = list(args)
        if len(values) > weighted:
            values[weighted] = _REDUCTIONS[values[weighted]]
        names = _LOSSES[name]
        return getattr(F, name)(**dict(zip(names, values, strict=False)), **kwargs)

    return call


_LOSSES = {
    "mse_loss": ("input", "target", "reduction"),
    "l1_loss": ("input", "target", "reduction"),
    "smooth_l1_loss": ("input", "target", "reduction", "beta"),
    "huber_loss": ("input", "target", "reduction", "delta"),
    "binary_cross_entropy": ("input", "target", "weight", "reduction"),
    "binary_cross_entropy_with_logits": ("input", "target", "weight", "pos_weight", "reduction"),
    "soft_margin_loss": ("input", "target", "reduction"),
    "cross_entropy": ("input", "target", "weight", "reduction", "ignore_index", "label_smoothing"),
    "nll_loss": ("input", "target", "weight", "reduction", "ignore_index"),
    "kl_div": ("input", "target", "reduction", "log_target"),
    "cosine_embedding_loss": ("input1", "input2", "target", "margin", "reduction"),
    "hinge_embedding_loss": ("input", "target", "margin", "reduction"),
    "margin_ranking_loss": ("input1", "input2", "target", "margin", "reduction"),
    "multi_margin_loss": ("input", "target", "p", "margin", "weight", "reduction"),
    "multilabel_margin_loss": ("input", "target", "reduction"),
    "poisson_nll_loss": ("input", "target", "log_input", "full", "eps", "reduction"),
    "triplet_margin_loss": ("anchor", "positive", "negative", "margin", "p", "eps", "swap", "reduction"),
}


def nll_forward(x: Tensor, target: Tensor, weight: Any, reduction: int, ignore: int) -> tuple[Tensor, Tensor]:
    loss = F.nll_loss(x, target, weight, ignore_index=ignore, reduction=_REDUCTIONS[reduction])
    counted = (target != ignore).to(x.dtype)
    if weight is not None:
        counted = counted * weight[target.clamp(min=0)]
    return loss, counted.sum()


def norm_except_dim(v: Tensor, pow: int = 2, dim: int = 0) -> Tensor:
    """The norms of the slices along a dim, of all of ``v`` for -1."""
    if dim == -1:
        return v.norm(pow)
    return torchlette.linalg.vector_norm(v, pow, [d for d in range(v.dim()) if d != dim], keepdim=True)


def elu(x: Tensor, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0) -> Tensor:
    """``scale * x`` where x is positive, ``scale * alpha * (exp(x * input_scale) - 1)`` elsewhere."""
    if input_scale == 1.0:
        return F.elu(x, alpha) * scale if scale != 1.0 else F.elu(x, alpha)
    return _C.where(x > 0, x, alpha * _C.expm1(x * input_scale)) * scale


#: How transforms are scaled, by ATen's number: not, by the root of their size, by their size.
_FORWARD, _INVERSE = ("backward", "ortho", "forward"), ("forward", "ortho", "backward")


def fft_c2c(x: Tensor, dim: Sequence[int], normalization: int, forward: bool) -> Tensor:
    if forward:
        return torchlette.fft.fftn(x, dim=dim, norm=_FORWARD[normalization])
    return torchlette.fft.ifftn(x, dim=dim, norm=_INVERSE[normalization])


def fft_r2c(x: Tensor, dim: Sequence[int], normalization: int, onesided: bool) -> Tensor:
    transform = torchlette.fft.rfftn if onesided else torchlette.fft.fftn
    return transform(x, dim=dim, norm=_FORWARD[normalization])


def fft_c2r(x: Tensor, dim: Sequence[int], normalization: int, last_dim_size: int) -> Tensor:
    sizes = [*(x.shape[d] for d in dim[:-1]), last_dim_size]
    return torchlette.fft.irfftn(x, s=sizes, dim=dim, norm=_INVERSE[normalization])


def stft(x: Tensor, n_fft: int, hop: Any = None, width: Any = None, window: Any = None, *rest: Any) -> Tensor:
    """The transforms of frames of a signal that is padded before."""
    return torchlette.stft(x, n_fft, hop, width, window, False, "reflect", *rest)


def max_pool_with_indices(dims: int) -> Call:
    def call(x: Tensor, kernel: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1, ceil: bool = False) -> Any:
        pool = (F.max_pool1d, F.max_pool2d, F.max_pool3d)[dims - 1]
        return pool(x, kernel, stride or None, padding, dilation, ceil, return_indices=True)

    return call


def max_pool_backward(
    grad: Tensor, x: Tensor, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil: bool, indices: Tensor
) -> Tensor:
    """The cotangent of the input of a maximum pooling over two dims: each element's goes to the chosen place."""
    flat = grad.new_zeros([*x.shape[:-2], x.shape[-2] * x.shape[-1]])
    return flat.scatter_add(-1, indices.flatten(-2), grad.flatten(-2)).reshape(x.shape)


def pool(name: str) -> Call:
    def call(x: Tensor, kernel: Any, stride: Any = (), *args: Any, **kwargs: Any) -> Any:
        return getattr(F, name)(x, kernel, stride or None, *args, **kwargs)

    return call


def adaptive_max(dims: int) -> Call:
    def call(x: Tensor, size: Any) -> Any:
        return (F.adaptive_max_pool1d, F.adaptive_max_pool2d, F.adaptive_max_pool3d)[dims - 1](x, size, True)

    return call


def fractional(dims: int) -> Call:
    """Return ``aten::fractional_max_pool2d`` or ``3d``, which get the numbers that were drawn."""
    function = (F.fractional_max_pool2d, F.fractional_max_pool3d)[dims - 2]

    def call(x: Tensor, kernel: Sequence[int], size: Sequence[int], samples: Tensor) -> Any:
        return function(x, kernel, size, None, True, samples)

    return call


def trilinear(
    a: Tensor, b: Tensor, c: Tensor, new_a: Any, new_b: Any, new_c: Any, summed: Sequence[int], unroll: int = 1
) -> Tensor:
    """The product of three tensors that get dims of size 1 first, summed over dims."""
    for dims, i in ((new_a, 0), (new_b, 1), (new_c, 2)):
        for dim in sorted(dims):
            a, b, c = (t.unsqueeze(dim) if k == i else t for k, t in enumerate((a, b, c)))
    product = a * b * c
    return product.sum(list(summed)) if summed else product


def weight_norm(v: Tensor, g: Tensor, dim: int = 0) -> Any:
    dims = [d for d in range(v.dim()) if d != dim % v.dim()] if dim != -1 else list(range(v.dim()))
    norm = v.square().sum(dims, keepdim=True).sqrt()
    return v * (g / norm)


def weight_norm_interface(v: Tensor, g: Tensor, dim: int = 0) -> tuple[Tensor, Tensor]:
    dims = [d for d in range(v.dim()) if d != dim]
    norm = v.square().sum(dims, keepdim=True).sqrt()
    return v * (g / norm), norm


def embedding_bag(
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    scale: bool = False,
    mode: int = 0,
    sparse: bool = False,
    weights: Tensor | None = None,
    last: bool = False,
    padding: int | None = -1,
) -> tuple[Tensor, ...]:
    starts = offsets[:-1] if last else offsets
    bags = starts.shape[0]
    # The bag of an index: the last one that begins at its place or before.
    at = _C.arange(indices.shape[0], device=indices.device).unsqueeze(1)
    bag = (at >= starts).sum(1) - 1
    rows = F.embedding(indices, weight)
    if weights is not None:
        rows = rows * weights.unsqueeze(1)
    present = _C.ones_like(indices, dtype=_C.bool)
    if padding is not None and padding >= 0:
        present = indices != padding
    if last:  # indices from the last offset on are in no bag
        present = present & (at < offsets[-1]).squeeze(1)
    counted = present.to(rows.dtype)
    zeros = rows.new_zeros([bags, rows.shape[1]])
    if mode == 2:
        rows = rows.masked_fill(~present.unsqueeze(1), -math.inf)
        whole = bag.unsqueeze(1).expand(rows.shape)
        out = zeros.scatter_reduce(0, whole, rows, "amax", include_self=False)
        out = _C.where(out == -math.inf, zeros, out)
    else:
        out = zeros.index_add(0, bag, rows * counted.unsqueeze(1))
        if mode == 1:
            sizes = counted.new_zeros([bags]).index_add(0, bag, counted)
            out = out / sizes.clamp(min=1).unsqueeze(1)
    empty = indices.new_empty(0)
    return out, empty, empty, empty


def _chunked(
    x: Tensor,
    linear: Tensor,
    target: Tensor,
    bias: Tensor | None,
    weight: Tensor | None,
    reduction: str,
    ignore: int,
    smoothing: float,
    *rest: Any,
) -> tuple[Tensor, ...]:
    """The loss, and gradients that the operator computes ahead: autograd has them here."""
    classes = {"weight": weight, "reduction": reduction, "ignore_index": ignore, "label_smoothing": smoothing}
    if target.dtype.is_floating_point:
        del classes["ignore_index"]
    loss = F.linear_cross_entropy(x, linear, target, linear_bias=bias, **classes)
    return (loss, *(x.new_empty(0) for _ in range(3)))


def _chunked_none(
    x: Tensor, linear: Tensor, target: Tensor, bias: Tensor | None, weight: Tensor | None, ignore: int, *rest: Any
) -> Tensor:
    return _chunked(x, linear, target, bias, weight, "none", ignore, 0.0)[0]


#: Of linear layers with their cross entropy, which PyTorch computes in parts of a batch.
CHUNKED: dict[str, Callable[..., Any]] = {
    "_linear_cross_entropy_batch_chunked.default": _chunked,
    "_linear_cross_entropy_batch_chunked_no_reduction.default": _chunked_none,
}
