"""ATen's backward operators, which graphs with a gradient have, by the gradients of the forward operators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import torchlette
from torchlette import _C
from torchlette.autograd import enable_grad, grad, is_grad_enabled

__all__ = ["gradients"]

Tensor = _C.Tensor
Call = Callable[..., Any]
#: ``X_backward(cotangent, x, *rest)`` of ``X(x, *rest)``.
_SAME = (
    "gelu silu mish hardswish hardsigmoid hardtanh softplus hardshrink softshrink glu avg_pool2d avg_pool3d mse_loss "
    "smooth_l1_loss huber_loss soft_margin_loss binary_cross_entropy "
    "reflection_pad1d reflection_pad2d reflection_pad3d replication_pad1d replication_pad2d replication_pad3d"
).split()
#: The same with an argument at the end that the forward pass computed.
_SAVED = "log_sigmoid nll_loss nll_loss2d".split()
#: ``X_backward(cotangent, output size, input size, *rest)`` of ``X(x, output size, *rest)``.
_RESIZED = (
    "upsample_nearest1d upsample_nearest2d upsample_nearest3d _upsample_nearest_exact1d _upsample_nearest_exact2d "
    "_upsample_nearest_exact3d upsample_linear1d upsample_bilinear2d upsample_trilinear3d upsample_bicubic2d"
).split()


def _cotangents(function: Call, inputs: Sequence[Tensor], cotangent: Tensor) -> list[Tensor]:
    """Return the cotangents of inputs, which have gradients of their own where gradients are recorded."""
    again = is_grad_enabled()
    with enable_grad():
        own = [x.view_as(x) if again and x.requires_grad else x.detach().requires_grad_() for x in inputs]
        return list(grad(function(*own), own, cotangent, create_graph=again))


def _masked(function: Call, inputs: Sequence[Tensor | None], cotangent: Tensor, mask: Sequence[bool]) -> list[Any]:
    """Return the cotangents of the inputs that a mask has, and None for the others."""
    places = [i for i, (x, wanted) in enumerate(zip(inputs, mask, strict=True)) if wanted and x is not None]

    def call(*chosen: Tensor) -> Any:
        given = list(inputs)
        for i, x in zip(places, chosen, strict=True):
            given[i] = x
        return function(*given)

    chosen: list[Tensor] = [x for i in places if (x := inputs[i]) is not None]
    found = dict(zip(places, _cotangents(call, chosen, cotangent), strict=True))
    return [found.get(i) for i in range(len(inputs))]


def _same(forward: Call, saved: int = 0) -> Call:
    def call(cotangent: Tensor, x: Tensor, *rest: Any, **options: Any) -> Tensor:
        kept = rest[: len(rest) - saved]
        return _cotangents(lambda y: forward(y, *kept, **options), [x], cotangent)[0]

    return call


def _resized(forward: Call) -> Call:
    def call(cotangent: Tensor, size: Any, before: Any, *rest: Any, **options: Any) -> Tensor:
        return _cotangents(lambda y: forward(y, size, *rest, **options), [cotangent.new_zeros(before)], cotangent)[0]

    return call


def _adaptive(forward: Call, dims: int) -> Call:
    def call(cotangent: Tensor, x: Tensor) -> Tensor:
        return _cotangents(lambda y: forward(y, cotangent.shape[-dims:]), [x], cotangent)[0]

    return call


def _chosen(dims: int) -> Call:
    """Return the gradient of a pooling that chose one element for each result; its indices are the last argument."""

    def call(cotangent: Tensor, x: Tensor, *rest: Any, **options: Any) -> Tensor:
        indices = options.get("indices", rest[-1] if rest else None)
        flat = cotangent.new_zeros([*x.shape[:-dims], prod(x.shape[-dims:])])
        return flat.scatter_add(-1, indices.flatten(-dims), cotangent.flatten(-dims)).reshape(x.shape)

    return call


def _convolution(forward: Call) -> Call:
    def call(cotangent: Tensor, x: Tensor, weight: Tensor, sizes: Any, *rest: Any) -> list[Any]:
        *how, mask = rest
        found = _masked(lambda a, b: forward(a, b, None, *how), [x, weight], cotangent, mask[:2])
        dims = [d for d in range(cotangent.ndim) if d != cotangent.ndim - weight.ndim + 1]
        return [*found, cotangent.sum(dims) if mask[2] else None]

    return call


def _embedding(
    cotangent: Tensor, indices: Tensor, count: int, padding: int = -1, scaled: bool = False, *_: Any
) -> Tensor:
    def look_up(table: Tensor) -> Any:
        index = padding if padding >= 0 else None
        return torchlette.nn.functional.embedding(indices, table, index, scale_grad_by_freq=scaled)

    return _cotangents(look_up, [cotangent.new_zeros([count, cotangent.shape[-1]])], cotangent)[0]


def _leaky_relu(cotangent: Tensor, x: Tensor, slope: float, is_result: bool = False) -> Tensor:
    return torchlette.where(x > 0, cotangent, cotangent * slope)


def _elu(cotangent: Tensor, alpha: float, scale: float, input_scale: float, is_result: bool, x: Tensor) -> Tensor:
    below = x + alpha * scale if is_result else alpha * scale * (x * input_scale).exp()
    return torchlette.where(x <= 0, cotangent * input_scale * below, cotangent * scale)


def _grid(forward: Call) -> Call:
    def call(cotangent: Tensor, x: Tensor, where: Tensor, *rest: Any) -> list[Any]:
        *how, mask = rest
        return _masked(lambda a, b: forward(a, b, *how), [x, where], cotangent, mask)

    return call


def gradients(find: Callable[[str], Call | None]) -> dict[str, Call]:
    """Return the functions of backward operators by name.

    Args:
        find: Gives the function of a forward operator.
    """

    def late(name: str) -> Call:
        def call(*args: Any, **options: Any) -> Any:
            function = find(name)
            assert function is not None
            found = function(*args, **options)
            return found[0] if isinstance(found, (tuple, list)) else found

        return call

    poolings = {"max_pool{}d_with_indices": (2, 3), "adaptive_max_pool{}d": (2, 3), "fractional_max_pool{}d": (2, 3)}
    return {
        **{f"{name}_backward": _same(late(name)) for name in _SAME},
        **{f"{name}_backward": _same(late(name), 1) for name in _SAVED},
        **{f"{name}_backward": _resized(late(name)) for name in _RESIZED},
        **{f"_adaptive_avg_pool{n}d_backward": _adaptive(late(f"_adaptive_avg_pool{n}d"), n) for n in (2, 3)},
        **{f"{name.format(n)}_backward": _chosen(n) for name, sizes in poolings.items() for n in sizes},
        **{f"grid_sampler_{n}d_backward": _grid(late(f"grid_sampler_{n}d")) for n in (2, 3)},
        "convolution_backward": _convolution(late("convolution")),
        "embedding_backward": _embedding,
        "embedding_dense_backward": _embedding,
        "leaky_relu_backward": _leaky_relu,
        "elu_backward": _elu,
    }
