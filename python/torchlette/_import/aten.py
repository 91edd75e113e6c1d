"""Operators of PyTorch's exported graphs, ``aten::name.overload``, as functions here.

Most operators of the engine have ATen's name and order of arguments, and are called as they are. The tables name the
functions that are written in Python here, the operators that differ, and those that only check.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torchlette
from torchlette import _C
from torchlette._import import aten_layers as layers
from torchlette._import.aten_attention import ATTENTION, EXPERTS
from torchlette._import.aten_gradients import gradients
from torchlette._import.aten_linalg import LINALG
from torchlette._import.aten_quantized import DECOMPOSED, FAKE
from torchlette._import.aten_ranges import RANGES
from torchlette._import.read_numbers import best, chosen, item, to_float, to_int, to_root
from torchlette._import.recording import compared, negated
from torchlette._import.recurrent import aten_layers
from torchlette._import.vision import VISION
from torchlette._ops import polynomials
from torchlette.nn import functional as F
from torchlette.nn.functional.activation import _stored
from torchlette.nn.functional.dropouts import _channel_dropout
from torchlette.nn.utils.rnn import pad_sequence

__all__ = ["find", "supported"]

Tensor = _C.Tensor
Call = Callable[..., Any]

#: Functions of torchlette in Python with ATen's arguments.
_MODULE = frozenset(
    "_shape_as_tensor alias_copy allclose argwhere as_strided_copy bartlett_window bilinear bincount blackman_window "
    "chain_matmul channel_shuffle combinations detach_copy diagonal_copy equal expand_copy "
    "grid_sampler "
    "grid_sampler_2d grid_sampler_3d gru_cell hamming_window hann_window kaiser_window lstm_cell masked_select "
    "narrow_copy native_batch_norm native_group_norm native_layer_norm nonzero nonzero_static numel permute_copy "
    "is_complex is_floating_point is_nonzero is_same_size is_signed native_channel_shuffle poisson binomial conv_tbc "
    "histogram "
    "pixel_shuffle pixel_unshuffle rnn_relu_cell rnn_tanh_cell segment_reduce select_copy split_copy "
    "split_with_sizes_copy squeeze_copy t_copy transpose_copy unbind_copy unfold_copy unique_consecutive "
    "unsqueeze_copy vander view_copy where".split()
)
#: Functions of torchlette.nn.functional with ATen's arguments.
_FUNCTIONAL = frozenset(
    "avg_pool1d avg_pool2d avg_pool3d max_pool1d max_pool2d max_pool3d adaptive_avg_pool1d adaptive_avg_pool2d "
    "adaptive_avg_pool3d feature_alpha_dropout pad pixel_shuffle hardtanh leaky_relu celu".split()
)
#: Methods of tensors with ATen's arguments.
_METHODS = frozenset(
    "as_strided_ fill_diagonal_ resize_ resize_as_ squeeze_ swapaxes_ swapdims_ t_ transpose_ unsqueeze_ is_contiguous "
    "stride size storage_offset".split()
)
#: Beginnings of names whose functions are in a module of that name.
_NAMESPACES = ("fft_", "special_")


def _nothing(*args: Any, **kwargs: Any) -> None:
    return None


def _embedding(weight: Tensor, indices: Tensor, padding_idx: int = -1, *rest: Any) -> Tensor:
    return F.embedding(indices, weight, padding_idx if padding_idx >= 0 else None)


def _slice(x: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> Tensor:
    index: list[Any] = [slice(None)] * (dim % x.dim())
    return x[(*index, slice(start, end, step))]


def _slice_scatter(
    x: Tensor, src: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Tensor:
    made = x.clone()
    _slice(made, dim, start, end, step).copy_(src)
    return made


def _index(x: Tensor, indices: Sequence[Tensor | None]) -> Tensor:
    return x[tuple(slice(None) if i is None else i for i in indices)]


def _index_put(x: Tensor, indices: Sequence[Tensor | None], values: Tensor, accumulate: bool = False) -> Tensor:
    return _index_put_(x.clone(), indices, values, accumulate)


def _index_put_(x: Tensor, indices: Sequence[Tensor | None], values: Tensor, accumulate: bool = False, *r: Any) -> Any:
    given = [d for d, i in enumerate(indices) if i is not None]
    if len(given) == len(indices):
        return x.index_put_(tuple(indices), values, accumulate)
    key = tuple(slice(None) if i is None else i for i in indices)
    if not accumulate:
        x[key] = values
        return x
    found = [indices[d] for d in given]
    if any(i.dtype == _C.bool for i in found):
        raise NotImplementedError("index_put with accumulate, a mask and a dimension without indices")
    # The dimensions of the indices stand together in x[key]: where the first one is, or in front.
    wide = max(i.dim() for i in found)
    first = given[0] if given[-1] - given[0] == len(given) - 1 else 0
    values = values.expand(x[key].shape)
    around = [d for d in range(values.dim()) if not first <= d < first + wide]
    rest = [d for d in range(x.dim()) if d not in given]
    x.permute(*given, *rest).index_put_(tuple(found), values.permute(*range(first, first + wide), *around), True)
    return x


def _to(x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """``to.dtype``, ``to.dtype_layout``, ``to.device``, ``to.other``, ``_to_copy``: devices are the module's."""
    dtype = kwargs.get("dtype")
    for value in args:
        if isinstance(value, Tensor):
            dtype = value.dtype
        elif isinstance(value, _C.dtype):
            dtype = value
    if not isinstance(x, Tensor):  # a number, in graphs of ``vmap``
        return torchlette.tensor(x, dtype=dtype, device="cpu")
    return x if dtype is None else x.to(dtype)


def _to_copy(x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    made = _to(x, *args, **kwargs)
    return made.clone() if made is x else made


def _dropout(x: Tensor, p: float, train: bool) -> Tensor:
    return F.dropout(x, p, train)


def _padding(mode: str) -> Call:
    def call(x: Tensor, pad: Sequence[int]) -> Tensor:
        return F.pad(x, pad, mode)

    return call


def _scalar_tensor(value: Any, **kwargs: Any) -> Tensor:
    return _C.full([], value, **kwargs)


def _lift(x: Tensor, *args: Any) -> Tensor:
    return x


def _view(x: Tensor, size: Any) -> Tensor:
    """A view where the strides allow one: results of some operators have other strides in PyTorch."""
    if isinstance(size, _C.dtype):
        return x.view(size)
    try:
        return x.view(size)
    except RuntimeError:
        return x.reshape(size)


def _copy(x: Tensor, src: Tensor, *args: Any) -> Tensor:
    return src.to(x.dtype).expand(x.shape).clone()


def _cdist(x: Tensor, y: Tensor, p: float = 2.0, mode: int | None = None) -> Tensor:
    return _C.cdist(x, y, p)


def _full(size: Sequence[int], value: Any, **kwargs: Any) -> Tensor:
    if kwargs.get("dtype") is None:
        kwargs["dtype"] = _number_dtype(value)
    return _C.full(size, value, **kwargs)


def _number_dtype(value: Any) -> _C.dtype:
    if isinstance(value, bool):
        return _C.bool
    if isinstance(value, complex):
        return _C.complex128 if torchlette.get_default_dtype() is _C.float64 else _C.complex64
    return _C.int64 if isinstance(value, int) else torchlette.get_default_dtype()


def _scatter_reduce(x: Tensor, dim: int, index: Tensor, src: Any, reduce: str | None = None, **kwargs: Any) -> Tensor:
    return x.scatter_reduce(dim, index, src, reduce, **kwargs)


def _gradient(x: Tensor, *, spacing: Any = 1, dim: Any = None, edge_order: int = 1) -> list[Tensor]:
    return list(torchlette.gradient(x, spacing=1 if spacing is None else spacing, dim=dim, edge_order=edge_order))


def _dims(args: Sequence[Any]) -> tuple[Any, ...]:
    """Return the dims of a matrix, and whether they are kept; an overload has no dims."""
    return tuple(args) if args and isinstance(args[0], list) else ((-2, -1), *args)


def _filled(name: str) -> Call:
    """Return draws as a function; ``name`` is of the method that writes them."""

    def call(x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        made = _C.empty_like(x)
        getattr(made, name)(*args, **kwargs)
        return made

    return call


#: Operators that differ, by name; an entry "name.overload" counts before "name".
SPECIAL: dict[str, Call] = {
    **LINALG,
    **ATTENTION,
    **FAKE,
    **RANGES,
    **{name: _filled(f"{name}_") for name in "cauchy exponential geometric log_normal random".split()},
    "_conj": lambda x: x.conj(),
    "_conj_physical": lambda x: x.conj_physical(),
    "_int_mm": lambda a, b: a.to(_C.int32) @ b.to(_C.int32),
    "gradient": _gradient,
    "norm_except_dim": layers.norm_except_dim,
    "nuclear_norm": lambda x, *args: torchlette.linalg.matrix_norm(x, "nuc", *_dims(args)),
    "_neg_view": lambda x: -x,
    "_is_all_true": lambda x: x.all(),
    "_is_any_true": lambda x: x.any(),
    "block_diag": lambda tensors: torchlette.block_diag(*tensors),
    "einsum": lambda equation, tensors, path=None: torchlette.einsum(equation, *tensors),
    "pad_sequence": lambda xs, first=False, value=0.0, side="right": pad_sequence(xs, first, value, side),
    "rrelu_with_noise_functional": lambda x, noise, lower=0.125, upper=1 / 3, training=False, *g: (
        F.rrelu(x, lower, upper, training),
        noise,
    ),
    "repeat_interleave.Tensor": lambda repeats, output_size=None: torchlette.repeat_interleave(
        repeats, output_size=output_size
    ),
    "repeat_interleave": torchlette.repeat_interleave,
    "tensordot": lambda a, b, dims_a, dims_b: torchlette.tensordot(a, b, (dims_a, dims_b)),
    "_trilinear": layers.trilinear,
    **{f"fractional_max_pool{n}d": layers.fractional(n) for n in (2, 3)},
    **dict.fromkeys("alias lift lift_fresh contiguous resolve_conj resolve_neg".split(), _lift),
    **dict.fromkeys(
        "_assert_scalar _assert_tensor_metadata sym_constrain_range sym_constrain_range_for_size _assert_async "
        "_functional_assert_async _functional_assert_scalar _make_dep_token record_stream".split(),
        _nothing,
    ),
    "lift_fresh_copy": lambda x: x.clone(),
    "_unsafe_view": lambda x, size: x.reshape(size),
    "_reshape_alias": lambda x, size, stride: x.reshape(size),
    "view": _view,
    "detach_": lambda x: x.detach(),
    "embedding": _embedding,
    "convolution": layers.convolution,
    "_convolution": layers.convolution,
    "slice": _slice,
    "slice_copy": lambda *args, **kwargs: _slice(*args, **kwargs).clone(),
    "slice_scatter": _slice_scatter,
    "index": _index,
    "_unsafe_index": _index,
    "index_put": _index_put,
    "_unsafe_index_put": _index_put,
    "index_put_": _index_put_,
    "_index_put_impl_": _index_put_,
    "to": _to,
    "type_as": lambda x, other: x.to(other.dtype),
    "_to_copy": _to_copy,
    "_softmax": layers.softmax,
    "_safe_softmax": layers.safe_softmax,
    "_log_softmax": layers.log_softmax,
    "layer_norm": layers.layer_norm,
    "group_norm": layers.group_norm,
    "batch_norm": layers.batch_norm,
    "instance_norm": layers.instance_norm,
    "_native_batch_norm_legit_no_training": layers.norm_no_training,
    "_native_batch_norm_legit_functional": layers.norm_functional,
    "_native_batch_norm_legit": layers.norm_legit,
    "dropout": _dropout,
    "dropout_": lambda x, p, train: x.copy_(F.dropout(x, p, train)),
    "feature_dropout": lambda x, p, train: _channel_dropout(x, p, train, False, 1),
    "native_dropout": layers.native_dropout,
    "native_dropout_backward": lambda grad, mask, scale: grad * mask * scale,
    "_softmax_backward_data": layers.softmax_backward,
    "_chunk_cat": layers.chunk_cat,
    "_unsafe_masked_index": layers.masked_index,
    "_unsafe_masked_index_put_accumulate": layers.masked_index_put,
    "_batch_norm_with_update": layers.norm_with_update,
    "_upsample_bilinear2d_aa": layers.upsample("bilinear", 2, antialias=True),
    "_upsample_bicubic2d_aa": layers.upsample("bicubic", 2, antialias=True),
    "_upsample_lanczos2d_aa": layers.upsample("lanczos", 2, antialias=True),
    "alpha_dropout": lambda x, p, train: F.alpha_dropout(x, p, train),
    "_scaled_dot_product_flash_attention_for_cpu": layers.flash,
    "_scaled_dot_product_flash_attention": layers.attention,
    "_scaled_dot_product_efficient_attention": layers.efficient,
    "constant_pad_nd": lambda x, pad, value=0: F.pad(x, pad, "constant", value),
    **{f"reflection_pad{n}d": _padding("reflect") for n in (1, 2, 3)},
    **{f"replication_pad{n}d": _padding("replicate") for n in (1, 2, 3)},
    "upsample_nearest1d": layers.upsample("nearest", 1),
    "upsample_nearest2d": layers.upsample("nearest", 2),
    "upsample_nearest3d": layers.upsample("nearest", 3),
    "_upsample_nearest_exact1d": layers.upsample("nearest-exact", 1),
    "_upsample_nearest_exact2d": layers.upsample("nearest-exact", 2),
    "_upsample_nearest_exact3d": layers.upsample("nearest-exact", 3),
    "upsample_linear1d": layers.upsample("linear", 1),
    "upsample_bilinear2d": layers.upsample("bilinear", 2),
    "upsample_trilinear3d": layers.upsample("trilinear", 3),
    "upsample_bicubic2d": layers.upsample("bicubic", 2),
    "cross_entropy_loss": layers.loss("cross_entropy", 3),
    "nll_loss": layers.loss("nll_loss", 3),
    "nll_loss_nd": layers.loss("nll_loss", 3),
    "nll_loss2d": layers.loss("nll_loss", 3),
    "nll_loss_forward": layers.nll_forward,
    "nll_loss2d_forward": layers.nll_forward,
    "mse_loss": layers.loss("mse_loss", 2),
    "l1_loss": layers.loss("l1_loss", 2),
    "smooth_l1_loss": layers.loss("smooth_l1_loss", 2),
    "huber_loss": layers.loss("huber_loss", 2),
    "soft_margin_loss": layers.loss("soft_margin_loss", 2),
    "kl_div": layers.loss("kl_div", 2),
    "binary_cross_entropy": layers.loss("binary_cross_entropy", 3),
    "binary_cross_entropy_with_logits": layers.loss("binary_cross_entropy_with_logits", 4),
    "multi_margin_loss": layers.loss("multi_margin_loss", 5),
    "multilabel_margin_loss": layers.loss("multilabel_margin_loss", 2),
    "poisson_nll_loss": layers.loss("poisson_nll_loss", 5),
    "triplet_margin_loss": layers.loss("triplet_margin_loss", 7),
    "cosine_embedding_loss": layers.loss("cosine_embedding_loss", 4),
    "hinge_embedding_loss": layers.loss("hinge_embedding_loss", 3),
    "margin_ranking_loss": layers.loss("margin_ranking_loss", 4),
    **{f"max_pool{n}d_with_indices": layers.max_pool_with_indices(n) for n in (1, 2, 3)},
    **{f"{kind}_pool{n}d": layers.pool(f"{kind}_pool{n}d") for kind in ("max", "avg") for n in (1, 2, 3)},
    **{f"adaptive_max_pool{n}d": layers.adaptive_max(n) for n in (1, 2, 3)},
    "_adaptive_avg_pool2d": F.adaptive_avg_pool2d,
    "_adaptive_avg_pool3d": F.adaptive_avg_pool3d,
    **dict.fromkeys(("max_unpool2d", "max_unpool3d"), lambda x, indices, size, *rest: _C._max_unpool(x, indices, size)),
    "mT": lambda x: x.mT,
    "mH": lambda x: x.mH,
    "matrix_H": lambda x: x.mH,
    "numpy_T": lambda x: x.T,
    "_fft_c2c": layers.fft_c2c,
    "_fft_c2r": layers.fft_c2r,
    "_fft_r2c": layers.fft_r2c,
    "stft": layers.stft,
    "stft.center": lambda *args, **kwargs: torchlette.stft(*args, **kwargs),
    "istft": lambda *args, **kwargs: torchlette.istft(*args, **kwargs),
    "col2im": lambda x, size, kernel, dilation, padding, stride: F.fold(x, size, kernel, dilation, padding, stride),
    "im2col": lambda x, kernel, dilation, padding, stride: F.unfold(x, kernel, dilation, padding, stride),
    "scalar_tensor": _scalar_tensor,
    "full": _full,
    "copy": _copy,
    **dict.fromkeys(("cdist", "_cdist_forward"), _cdist),
    "_pdist_forward": lambda x, p=2.0: F.pdist(x, p),
    "scatter_reduce": _scatter_reduce,
    "glu": F.glu,
    "elu": layers.elu,
    "log_sigmoid": F.logsigmoid,
    "log_sigmoid_forward": lambda x: (F.logsigmoid(x), x.new_empty(0)),
    "prelu": F.prelu,
    "_prelu_kernel": lambda x, w: _C.where(x > 0, x, x * w),
    "rrelu": lambda x, lower=0.125, upper=1 / 3, training=False, *g: F.rrelu(x, lower, upper, training),
    "_weight_norm": layers.weight_norm,
    "_weight_norm_interface": layers.weight_norm_interface,
    "embedding_bag": layers.embedding_bag,
    "_embedding_bag": layers.embedding_bag,
    "_embedding_bag_forward_only": layers.embedding_bag,
    "lstm": aten_layers("LSTM", 2),
    "gru": aten_layers("GRU", 1),
    "rnn_tanh": aten_layers("RNN_TANH", 1),
    "rnn_relu": aten_layers("RNN_RELU", 1),
    "one_hot": F.one_hot,
    "normal_functional": lambda x, mean=0.0, std=1.0, **k: x.clone().normal_(mean, std),
    "uniform": lambda x, low=0.0, high=1.0, **k: x.clone().uniform_(low, high),
    "zero": lambda x: _C.zeros_like(x),
    "sym_size": lambda x, dim=None: list(x.shape) if dim is None else x.shape[dim],
    "sym_numel": lambda x: x.numel(),
    "sym_stride": lambda x, dim=None: list(x.stride()) if dim is None else x.stride()[dim],
    "sym_storage_offset": lambda x: x.storage_offset(),
    "item": item,
    "_local_scalar_dense": item,
    "_fused_rms_norm": lambda x, shape, weight=None, eps=None: (F.rms_norm(x, shape, weight, eps), x.new_empty(0)),
    "cosine_similarity": F.cosine_similarity,
    "normalize": F.normalize,
    "pairwise_distance": F.pairwise_distance,
    **{f"__{n}__": getattr(operator, f"__{n}__") for n in "and or xor lshift rshift".split()},
    **{f"__i{n}__": getattr(operator, f"__i{n}__") for n in "and or xor lshift rshift".split()},
    "logit": lambda x, eps=None: _C.logit(x, eps),
}

#: Functions of Python in exported graphs: arithmetic with sizes.
HOST: dict[str, Call] = {
    **{
        f"_operator.{name}": getattr(operator, name)
        for name in "add sub mul floordiv truediv mod neg and_ or_ pos getitem".split()
    },
    **{f"_operator.{name}": compared(getattr(operator, name)) for name in "eq ne lt le gt ge".split()},
    "_operator.not_": negated,
    "_operator.pow": lambda a, b: _power(a, b),
    **{f"math.{name}": getattr(math, name) for name in ("floor", "ceil", "trunc", "sqrt")},
    "torch.sym_max": best(True),
    "torch.sym_min": best(False),
    "torch.sym_float": to_float,
    "torch.sym_int": to_int,
    "torch.sym_not": negated,
    "torch.sym_ite": chosen,
    "torch.sym_sqrt": to_root,
    "torch._sym_sqrt": to_root,
    "torch.sym_sum": sum,
    "torch._functorch.predispatch.lazy_load_decompositions": _nothing,
}


def _power(a: Any, b: Any) -> Any:
    if abs(b) > 64 or abs(a) > 1 << 32:
        raise ValueError(f"a size is {a} ** {b}")
    return a**b


def _engine(name: str) -> Call:
    """Return the engine's operator, without the arguments that change no value and with the module's device."""
    function = getattr(_C, name, None)
    if function is None:
        function = getattr(Tensor, name)
    return function


def _resolve(name: str) -> Call | None:
    if name in _C._where:
        return _engine(name)
    if name in _MODULE:
        return getattr(torchlette, name)
    if name in _FUNCTIONAL:
        return getattr(F, name)
    if name in _METHODS:
        return getattr(Tensor, name)
    if name.startswith(_NAMESPACES):
        space, _, rest = name.partition("_")
        return getattr(getattr(torchlette, space), rest, None)
    if name.endswith("_copy") and (base := find_name(name[:-5])) is not None:
        return base
    if name.endswith("_") and not name.endswith("__") and (base := find_name(name[:-1])) is not None:
        return partial(_stored, base)
    return None


def find_name(name: str, overload: str = "default") -> Call | None:
    """Return the function of an ATen operator, None where there is none.

    Args:
        name: As in "add".
        overload: As in "Tensor".
    """
    return SPECIAL.get(f"{name}.{overload}") or SPECIAL.get(name) or _resolve(name)


def find(target: str) -> Call | None:
    """Return the function of a node's target, None where there is none.

    Args:
        target: "torch.ops.aten.add.Tensor", "_operator.mul" and the like.
    """
    if target in HOST:
        return HOST[target]
    parts = target.split(".")
    if len(parts) == 5 and parts[:3] == ["torch", "ops", "aten"]:
        return find_name(parts[3], parts[4])
    if len(parts) == 5 and parts[:3] == ["torch", "ops", "quantized_decomposed"]:
        return DECOMPOSED.get(f"{parts[3]}.{parts[4]}")
    if len(parts) == 5 and parts[:3] == ["torch", "ops", "torchvision"]:
        return VISION.get(f"{parts[3]}.{parts[4]}")
    if len(parts) == 5 and parts[:3] == ["torch", "ops", "torch_nn"]:
        return layers.CHUNKED.get(f"{parts[3]}.{parts[4]}")
    if len(parts) == 5 and parts[:3] == ["torch", "ops", "transformers"]:
        return EXPERTS.get(f"{parts[3]}.{parts[4]}")
    return None


SPECIAL.update(gradients(find_name))


def supported() -> list[str]:
    """Return the names of ATen's operators that are imported."""
    names = {n for n in SPECIAL} | set(_MODULE) | set(_FUNCTIONAL) | set(_METHODS)
    names |= {f"fft_{n}" for n in torchlette.fft.__all__} | {f"special_{n}" for n in polynomials.__all__}
    names |= {n for n, places in _C._where.items() if places and not n.startswith("_")}
    return sorted(names)
