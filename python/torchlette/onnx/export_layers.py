"""How layers are written as ONNX's."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from torchlette import _C
from torchlette._runtime.errors import NotSupportedError
from torchlette.onnx import (  # noqa: F401
    export_formulas,
    export_fourier,
    export_functions,
    export_layouts,
    export_linalg,
    export_loops,
    export_places,
    export_ranks,
    export_shapes,
)
from torchlette.onnx.export_losses import reduced
from torchlette.onnx.exporter import Exporter, Step, rule

I64 = _C.int64


@rule("linear")
def _linear(x: Exporter, s: Step) -> str:
    weight, bias = s["weight"], s.get("bias")
    if x.rank(s.operand) == 2 and bias is not None:
        return x.node("Gemm", [x.value(s.operand), x.value(weight), x.value(bias)], transB=1)
    turned = x.value(weight) if x.rank(weight) == 1 else x.node("Transpose", [x.value(weight)], perm=[1, 0])
    y = x.node("MatMul", [x.value(s.operand), turned])
    return y if bias is None else x.node("Add", [y, x.value(bias)])


@rule("matmul", "mm", "bmm", "mv", "dot")
def _matmul(x: Exporter, s: Step) -> str:
    other = next(s[n] for n in ("other", "mat2", "vec", "tensor") if n in s.args)
    return x.node("MatMul", [x.value(s.operand), x.value(other)])


@rule("addmm", "baddbmm")
def _addmm(x: Exporter, s: Step) -> str:
    names = ("mat1", "mat2") if "mat1" in s.args else ("batch1", "batch2")
    y = x.node("MatMul", [x.value(s[names[0]]), x.value(s[names[1]])])
    y = y if s.get("alpha", 1) == 1 else x.node("Mul", [y, x.as_type(s["alpha"], s.dtype)])
    c = x.value(s.operand)
    c = c if s.get("beta", 1) == 1 else x.node("Mul", [c, x.as_type(s["beta"], s.dtype)])
    return x.node("Add", [y, c])


def _each(values: Sequence[int] | None, dims: int, usual: int) -> list[int]:
    """Return a number for each dim: none for the usual one, one for all."""
    values = list(values or [])
    return [usual] * dims if not values else values * dims if len(values) == 1 else values


def batched(
    x: Exporter, s: Step, dims: int, kind: str, rest: Sequence[str | None] = (), outputs: int = 1, **options: Any
) -> Any:
    """Add a node whose operand has a batch, which PyTorch's may lack, and whose elements are floats.

    Args:
        x: Gets the nodes.
        s: Has the operand.
        dims: The number of dims besides batch and channels.
        kind: ONNX's operator.
        rest: The inputs after the operand.
        outputs: The number of results.
        options: The attributes.

    Returns:
        The names of the results, with a batch where the operand has one.

    Raises:
        NotImplementedError: The elements are integers.
    """
    if not s.dtype.is_floating_point:
        raise NotSupportedError(f"onnx.export: {s.op} of {s.dtype}: ONNX has it of floats")
    v, lead = x.value(s.operand), x.constant([0], I64)
    if x.rank(s.operand) == dims + 2:
        return x.node(kind, [v, *rest], outputs, **options)
    found = x.node(kind, [x.node("Unsqueeze", [v, lead]), *rest], outputs, **options)
    if outputs == 1:
        return x.node("Squeeze", [found, lead])
    return [x.node("Squeeze", [name, lead]) for name in found]


@rule("conv1d", "conv2d", "conv3d")
def _conv(x: Exporter, s: Step) -> str:
    dims = x.rank(s["weight"]) - 2
    bias = s.get("bias")
    rest = [x.value(s["weight"]), *([x.value(bias)] if bias is not None else [])]
    options: dict[str, Any] = {"strides": _each(s["stride"], dims, 1), "dilations": _each(s["dilation"], dims, 1)}
    if isinstance(s["padding"], str):
        options["auto_pad"] = {"same": "SAME_UPPER", "valid": "VALID"}[s["padding"]]
    else:
        options["pads"] = _each(s["padding"], dims, 0) * 2
    return str(batched(x, s, dims, "Conv", rest, group=s["groups"], **options))


@rule("conv_transpose1d", "conv_transpose2d", "conv_transpose3d")
def _conv_transpose(x: Exporter, s: Step) -> str:
    dims = x.rank(s["weight"]) - 2
    bias = s.get("bias")
    rest = [x.value(s["weight"]), *([x.value(bias)] if bias is not None else [])]
    return batched(
        x,
        s,
        dims,
        "ConvTranspose",
        rest,
        strides=_each(s["stride"], dims, 1),
        dilations=_each(s["dilation"], dims, 1),
        pads=_each(s["padding"], dims, 0) * 2,
        output_padding=_each(s["output_padding"], dims, 0),
        group=s["groups"],
    )


@rule("max_pool1d", "max_pool2d", "max_pool3d", "avg_pool1d", "avg_pool2d", "avg_pool3d")
def _pool(x: Exporter, s: Step) -> str:
    dims = int(s.op.partition(".")[0][-2])
    kernel = _each(s["kernel_size"], dims, 1)
    options: dict[str, Any] = {"ceil_mode": int(bool(s.get("ceil_mode", False)))}
    if s.op.startswith("max"):
        kind = "MaxPool"
        options["dilations"] = _each(s["dilation"], dims, 1)
    else:
        kind = "AveragePool"
        options["count_include_pad"] = int(bool(s.get("count_include_pad", True)))
        if s.get("divisor_override") is not None:
            options["count_include_pad"] = 1
            if options["ceil_mode"]:
                raise NotSupportedError("onnx.export: avg_pool with divisor_override and ceil_mode")
    strides = _each(s["stride"], dims, 1) if s["stride"] else kernel
    options["pads"] = _each(s["padding"], dims, 0) * 2
    found = batched(x, s, dims, kind, kernel_shape=kernel, strides=strides, **options)
    if s.get("divisor_override") is None:
        return str(found)
    return x.node("Mul", [found, x.constant(math.prod(kernel) / s["divisor_override"], s.dtype)])


@rule("adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d")
def _adaptive(x: Exporter, s: Step) -> str:
    dims = int(s.op[-2])
    sizes, out = x.shape_of(s.operand)[-dims:], s.shape[-dims:]
    if out == [1] * dims:
        return x.node("ReduceMean", [x.value(s.operand), x.constant(list(range(-dims, 0)), I64)], keepdims=1)
    have = x.static(sizes, "a pooled size")
    if not any(n % m for n, m in zip(have, out, strict=True)):
        kernel = [n // m for n, m in zip(have, out, strict=True)]
        return batched(x, s, dims, "AveragePool", kernel_shape=kernel, strides=kernel)
    # Windows of unequal sizes: products with matrices of what each element counts, one for each dim, which comes last.
    v, rank = x.value(s.operand), x.rank(s.operand)
    turn = [*range(rank - dims), rank - 1, *range(rank - dims, rank - 1)]
    for n, m in zip(reversed(have), reversed(out), strict=True):
        v = x.node("Transpose", [x.node("MatMul", [v, _windows(x, n, m, s.dtype)])], perm=turn)
    return v


def _windows(x: Exporter, have: int, want: int, dtype: _C.dtype) -> str:
    """Return the matrix [have, want] of the means of adaptive windows."""
    spans = [(k * have // want, -(-(k + 1) * have // want)) for k in range(want)]
    flat = [1 / (end - first) if first <= i < end else 0.0 for i in range(have) for first, end in spans]
    return str(x.node("Reshape", [x.constant(flat, dtype), x.constant([have, want], I64)]))


@rule("batch_norm")
def _batch_norm(x: Exporter, s: Step) -> str:
    if s.get("running_mean") is None:
        return _batch_norm_stats(x, s)[0]
    if s["training"]:
        raise NotSupportedError("onnx.export: batch_norm in training mode: export the module in evaluation mode")
    mean, var = x.value(s["running_mean"]), x.value(s["running_var"])
    ones = x.node("Expand", [x.constant(1.0, s.dtype), x.node("Shape", [mean])])
    weight = ones if s.get("weight") is None else x.value(s["weight"])
    bias = x.node("Sub", [ones, ones]) if s.get("bias") is None else x.value(s["bias"])
    return x.node("BatchNormalization", [x.value(s.operand), weight, bias, mean, var], epsilon=float(s["eps"]))


@rule("_batch_norm_stats")
def _batch_norm_stats(x: Exporter, s: Step) -> list[str]:
    """Batch norm by the batch's statistics: also their mean, and their unbiased variance."""
    v, rank = x.value(s.operand), x.rank(s.operand)
    axes = x.constant([d for d in range(rank) if d != 1], I64)
    mean = x.node("ReduceMean", [v, axes], keepdims=1)
    center = x.node("Sub", [v, mean])
    var = x.node("ReduceMean", [x.node("Mul", [center, center]), axes], keepdims=1)
    y = x.node("Div", [center, x.node("Sqrt", [x.node("Add", [var, x.constant(float(s["eps"]), s.dtype)])])])
    for name, kind in (("weight", "Mul"), ("bias", "Add")):
        if s.get(name) is not None:
            per = x.node("Reshape", [x.value(s[name]), x.constant([-1] + [1] * (rank - 2), I64)])
            y = x.node(kind, [y, per])
    flat = x.constant([-1], I64)
    count = x.cast(
        x.node("ReduceProd", [x.sizes([n for d, n in enumerate(x.shape_of(s.operand)) if d != 1])]), I64, s.dtype
    )
    unbiased = x.node("Div", [count, x.node("Sub", [count, x.constant(1.0, s.dtype)])])
    spread = x.node("Mul", [x.node("Reshape", [var, flat]), unbiased])
    return [y, x.node("Reshape", [mean, flat]), spread]


@rule("layer_norm")
def _layer_norm(x: Exporter, s: Step) -> str:
    dims = len(s["normalized_shape"])
    weight = s.get("weight")
    scale = (
        x.value(weight)
        if weight is not None
        else x.node("Expand", [x.constant(1.0, s.dtype), x.sizes(s["normalized_shape"])])
    )
    bias = [] if s.get("bias") is None else [x.value(s["bias"])]
    return x.node("LayerNormalization", [x.value(s.operand), scale, *bias], axis=-dims, epsilon=float(s["eps"]))


@rule("rms_norm")
def _rms_norm(x: Exporter, s: Step) -> str:
    v, axes = x.value(s.operand), x.constant(list(range(-len(s["normalized_shape"]), 0)), I64)
    mean = x.node("ReduceMean", [x.node("Mul", [v, v]), axes], keepdims=1)
    eps = s.get("eps")
    eps = float(2**-23 if eps is None else eps)
    y = x.node("Div", [v, x.node("Sqrt", [x.node("Add", [mean, x.constant(eps, s.dtype)])])])
    return y if s.get("weight") is None else x.node("Mul", [y, x.value(s["weight"])])


@rule("group_norm")
def _group_norm(x: Exporter, s: Step) -> str:
    """Instances of groups are normalized, then channels are scaled."""
    v, groups, rank = x.value(s.operand), s["num_groups"], x.rank(s.operand)
    folded = x.node("Reshape", [v, x.constant([0, groups, -1], I64)], allowzero=None)
    ones, zeros = (x.constant([value] * groups, s.dtype) for value in (1.0, 0.0))
    y = x.node("InstanceNormalization", [folded, ones, zeros], epsilon=float(s["eps"]))
    y = x.node("Reshape", [y, x.sizes(s.shape)])
    for name, kind in (("weight", "Mul"), ("bias", "Add")):
        if s.get(name) is not None:
            per = x.node("Reshape", [x.value(s[name]), x.constant([-1] + [1] * (rank - 2), I64)])
            y = x.node(kind, [y, per])
    return y


@rule("scaled_dot_product_attention")
def _attention(x: Exporter, s: Step) -> str:
    q, k, v = (x.value(s[n]) for n in ("query", "key", "value"))
    if s.get("dropout_p", 0) != 0:
        raise NotSupportedError("onnx.export: attention with dropout: export the module in evaluation mode")
    heads = [x.shape_of(s[n])[-3] if x.rank(s[n]) > 2 else 1 for n in ("query", "key")]
    if heads[0] != heads[1] and s.get("enable_gqa"):
        k, v = (_repeated(x, t, n, heads[0] // heads[1]) for t, n in ((k, s["key"]), (v, s["value"])))
    size = x.shape_of(s["query"])[-1]
    scale = s.get("scale")
    factor = math.sqrt(1 / math.sqrt(x.static(size, "the size of a head")[0]) if scale is None else float(scale))
    root = x.constant(factor, s.dtype)
    rank = x.rank(s["key"])
    turned = x.node("Transpose", [k], perm=[*range(rank - 2), rank - 1, rank - 2])
    scores = x.node("MatMul", [x.node("Mul", [q, root]), x.node("Mul", [turned, root])])
    mask = s.get("attn_mask")
    low = x.constant(-math.inf, s.dtype)
    if mask is not None and x.type_of(mask) is _C.bool:
        scores = x.node("Where", [x.value(mask), scores, low])
    elif mask is not None:
        scores = x.node("Add", [scores, x.as_type(mask, s.dtype)])
    if s.get("is_causal"):
        rows, columns = x.shape_of(s["query"])[-2], x.shape_of(s["key"])[-2]
        one, zero = x.constant(1, I64), x.constant(0, I64)
        i = x.node("Unsqueeze", [x.node("Range", [zero, x.size(rows), one]), x.constant([1], I64)])
        seen = x.node("LessOrEqual", [x.node("Range", [zero, x.size(columns), one]), i])
        scores = x.node("Where", [seen, scores, low])
    weights = x.node("Softmax", [scores], axis=-1)
    if mask is not None:
        weights = x.node("Where", [x.node("IsNaN", [weights]), x.constant(0.0, s.dtype), weights])
    return x.node("MatMul", [weights, v])


def _repeated(x: Exporter, name: str, ref: str, times: int) -> str:
    b, h, t, d = x.shape_of(ref)
    wide = x.node("Expand", [x.node("Unsqueeze", [name, x.constant([2], I64)]), x.sizes([b, h, times, t, d])])
    return x.node("Reshape", [wide, x.sizes([b, h * times, t, d])])


#: PyTorch's order of gates -> ONNX's: i f c o -> i o f c; r z h -> z r h.
_GATES = {"lstm": (0, 3, 1, 2), "gru": (1, 0, 2), "rnn_tanh": (0,), "rnn_relu": (0,)}
_KINDS = {"lstm": "LSTM", "gru": "GRU", "rnn_tanh": "RNN", "rnn_relu": "RNN"}


@rule("_recurrence")
def _recurrence(x: Exporter, s: Step) -> Any:
    """The input's part of the gates is computed before: ONNX's weights of the input are the unit matrix."""
    mode, order = s["mode"], _GATES[s["mode"]]
    size = x.static(x.shape_of(s["hx"])[-1], "the size of a state")[0]
    gates = size * len(order)
    places = x.constant([g * size + j for g in order for j in range(size)], I64)
    unit = [
        [float(places_i == j) for j in range(gates)] for places_i in [g * size + k for g in order for k in range(size)]
    ]
    flat = x.constant([v for row in unit for v in row], s.dtype)
    w = x.node("Reshape", [flat, x.constant([1, gates, gates], I64)])
    first = x.constant([0], I64)
    r = x.node("Unsqueeze", [x.node("Gather", [x.value(s["weight"]), places], axis=0), first])
    none = x.constant([0.0] * gates, s.dtype)
    hidden = none if s.get("bias") is None else x.node("Gather", [x.value(s["bias"]), places], axis=0)
    b = x.node("Unsqueeze", [x.node("Concat", [none, hidden], axis=0), first])
    states = [x.node("Unsqueeze", [x.value(s[n]), first]) for n in ("hx", "cx")[: 2 if mode == "lstm" else 1]]
    options: dict[str, Any] = {"hidden_size": size, "direction": "reverse" if s["backwards"] else "forward"}
    if mode == "gru":
        options["linear_before_reset"] = 1
    if mode == "rnn_relu":
        options["activations"] = ["Relu"]
    inputs = [x.value(s["input"]), w, r, b, None, *states]
    outputs = x.node(_KINDS[mode], inputs, 3 if mode == "lstm" else 2, **options)
    y = x.node("Squeeze", [outputs[0], x.constant([1], I64)])
    return [y, *(x.node("Squeeze", [t, first]) for t in outputs[2:])][: len(s.out)]


@rule("mse_loss", "l1_loss")
def _difference(x: Exporter, s: Step) -> str:
    d = x.node("Sub", [x.value(s["input"]), x.value(s["target"])])
    return reduced(x, s, x.node("Mul", [d, d]) if s.op == "mse_loss" else x.node("Abs", [d]))
