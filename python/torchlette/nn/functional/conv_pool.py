"""Convolutions, pools, and windows as columns; part of :mod:`torchlette.nn.functional`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from torchlette import _C
from torchlette._runtime.casts import autocast_inputs
from torchlette.nn.functional.vision import pad

__all__ = [
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool1d_with_indices",
    "adaptive_max_pool2d",
    "adaptive_max_pool2d_with_indices",
    "adaptive_max_pool3d",
    "adaptive_max_pool3d_with_indices",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "fold",
    "fractional_max_pool2d",
    "fractional_max_pool2d_with_indices",
    "fractional_max_pool3d",
    "fractional_max_pool3d_with_indices",
    "lp_pool1d",
    "lp_pool2d",
    "lp_pool3d",
    "max_pool1d",
    "max_pool1d_with_indices",
    "max_pool2d",
    "max_pool2d_with_indices",
    "max_pool3d",
    "max_pool3d_with_indices",
    "max_unpool1d",
    "max_unpool2d",
    "max_unpool3d",
    "unfold",
]

Tensor = _C.Tensor


# Operators whose signature is PyTorch's as it stands.
conv1d, conv2d, conv3d = _C.conv1d, _C.conv2d, _C.conv3d
conv_transpose1d, conv_transpose2d, conv_transpose3d = _C.conv_transpose1d, _C.conv_transpose2d, _C.conv_transpose3d


def as_tuple(value: Any, n: int) -> tuple[Any, ...]:
    """Return ``value`` for each of ``n`` dims."""
    return tuple(value) if isinstance(value, Sequence) and not isinstance(value, str) else (value,) * n


def _stride(stride: Any) -> Any:
    """Return the stride; it defaults to the size of the kernel."""
    return () if stride is None else stride


def _max_pool(dims: int, always: bool) -> Any:
    plain, both = getattr(_C, f"max_pool{dims}d"), getattr(_C, f"max_pool{dims}d_with_indices")

    def max_pool(
        input: Tensor,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] | None = None,
        padding: int | Sequence[int] = 0,
        dilation: int | Sequence[int] = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Any:
        """Return the largest element of each window, with ``return_indices`` also its index in the flat channel.

        Args:
            input: [batch, channels, sizes...] or [channels, sizes...].
            kernel_size: Sizes of a window, one for all dimensions or one for each.
            stride: Steps between windows; None: the window's sizes.
            padding: Places added on both sides, at most half a window.
            dilation: Steps between the elements of a window.
            ceil_mode: Whether a last window may reach beyond the input.
            return_indices: Whether to return also the row-major index of each element in its channel, as int64.
        """
        f = both if always or return_indices else plain
        return f(input, kernel_size, _stride(stride), padding, dilation, ceil_mode)

    max_pool.__name__ = max_pool.__qualname__ = f"max_pool{dims}d" + "_with_indices" * always
    if always:
        max_pool.__doc__ = (
            "Return the largest element of each window and its row-major number in its channel.\n\n"
            f"The arguments are those of :func:`max_pool{dims}d`."
        )
    return max_pool


def _sizes(size: Any, input: Tensor, dims: int) -> list[int]:
    """Return an adaptive pool's output sizes; ``None`` keeps the input's."""
    if isinstance(size, Sequence) and len(size) >= input.dim():
        raise ValueError(f"Input dimension should be at least {len(size) + 1}")
    wanted = [size] * dims if size is None or isinstance(size, int) else list(size)
    return [
        int(have if want is None else want) for want, have in zip(wanted, input.shape[-dims:] or wanted, strict=False)
    ]


def _adaptive_avg_pool(dims: int) -> Any:
    f = getattr(_C, f"adaptive_avg_pool{dims}d")

    def adaptive_avg_pool(input: Tensor, output_size: int | Sequence[int | None] | None) -> Tensor:
        """Return means over windows placed so that the output has ``output_size``; ``None`` keeps a size."""
        return f(input, _sizes(output_size, input, dims))

    adaptive_avg_pool.__name__ = adaptive_avg_pool.__qualname__ = f"adaptive_avg_pool{dims}d"
    return adaptive_avg_pool


def _adaptive_max_pool(dims: int, always: bool) -> Any:
    f = getattr(_C, f"adaptive_max_pool{dims}d")

    def adaptive_max_pool(
        input: Tensor, output_size: int | Sequence[int | None] | None, return_indices: bool = False
    ) -> Any:
        """Return the largest elements of windows placed so that the output has ``output_size``, on request with their
        indices.

        Args:
            input: [batch, channels, sizes...] or [channels, sizes...].
            output_size: Sizes of the result, one for all dimensions or one for each; None keeps a size.
            return_indices: Whether to return also the row-major index of each element in its channel, as int64.
        """
        for d in range(1, input.dim()):
            if input.shape[d] == 0:
                raise RuntimeError(
                    f"adaptive_max_pool{dims}d(): Expected input to have non-zero size for non-batch dimensions, but "
                    f"input has sizes {list(input.shape)} with dimension {d} being empty"
                )
        values, indices = f(input, _sizes(output_size, input, dims))
        return (values, indices) if always or return_indices else values

    adaptive_max_pool.__name__ = adaptive_max_pool.__qualname__ = f"adaptive_max_pool{dims}d" + "_with_indices" * always
    return adaptive_max_pool


max_pool1d, max_pool2d, max_pool3d = (_max_pool(d, False) for d in (1, 2, 3))
max_pool1d_with_indices, max_pool2d_with_indices, max_pool3d_with_indices = (_max_pool(d, True) for d in (1, 2, 3))
adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d = (_adaptive_avg_pool(d) for d in (1, 2, 3))
adaptive_max_pool1d, adaptive_max_pool2d, adaptive_max_pool3d = (_adaptive_max_pool(d, False) for d in (1, 2, 3))
adaptive_max_pool1d_with_indices, adaptive_max_pool2d_with_indices, adaptive_max_pool3d_with_indices = (
    _adaptive_max_pool(d, True) for d in (1, 2, 3)
)


def _lp_pool(dims: int) -> Any:
    def lp_pool(
        input: Tensor, norm_type: float, kernel_size: int | Sequence[int], stride: Any = None, ceil_mode: bool = False
    ) -> Tensor:
        """Return the root of order ``norm_type`` of the sum of powers over each window.

        Args:
            input: [batch, channels, sizes...] or [channels, sizes...].
            norm_type: The power ``p`` of the mean.
            kernel_size: Sizes of a window, one for all dimensions or one for each.
            stride: Steps between windows; None: the window's sizes.
            ceil_mode: Whether a last window may reach beyond the input.
        """
        elements = kernel_size**dims if isinstance(kernel_size, int) else math.prod(kernel_size)
        total = getattr(_C, f"avg_pool{dims}d")(input.pow(norm_type), kernel_size, _stride(stride), 0, ceil_mode)
        return (total.sign() * total.relu()).mul(elements).pow(1.0 / norm_type)

    lp_pool.__name__ = lp_pool.__qualname__ = f"lp_pool{dims}d"
    return lp_pool


lp_pool1d, lp_pool2d, lp_pool3d = (_lp_pool(d) for d in (1, 2, 3))


def _max_unpool(dims: int) -> Any:
    def max_unpool(
        input: Tensor,
        indices: Tensor,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] | None = None,
        padding: int | Sequence[int] = 0,
        output_size: Sequence[int] | None = None,
    ) -> Tensor:
        """Return zeros with ``input`` at ``indices``, the result of a max pool of the same geometry. Several output
        sizes may be possible: ``output_size`` selects one.

        Args:
            input: The result of pooling, [batch, channels, sizes...] or [channels, sizes...].
            indices: The indices that pooling returned, int64.
            kernel_size: Sizes of a window, one for all dimensions or one for each.
            stride: Steps between windows; None: the window's sizes.
            padding: Places added on both sides, at most half a window.
            output_size: Sizes of the result; None: the least sizes that the geometry allows.
        """
        kernel, steps, around = (
            as_tuple(v, dims) for v in (kernel_size, kernel_size if stride is None else stride, padding)
        )
        if input.dim() not in (dims + 1, dims + 2):
            raise RuntimeError(
                f"Input to max_unpooling{dims}d should be a {dims + 1}d or {dims + 2}d Tensor, but got a tensor with "
                f"{input.dim()} dimensions"
            )
        if dims == 3 and min(steps) <= 0:
            raise RuntimeError(f"strides should be greater than zero, but got stride: {list(steps)}")
        size = [(n - 1) * s - 2 * p + k for n, k, s, p in zip(input.shape[-dims:], kernel, steps, around, strict=True)]
        if output_size is not None:
            size = _unpooled(list(output_size), size, steps)
        return _C._max_unpool(input, indices, size)

    max_unpool.__name__ = max_unpool.__qualname__ = f"max_unpool{dims}d"
    return max_unpool


def _unpooled(wanted: list[int], default: list[int], stride: Sequence[int]) -> list[int]:
    """Return the sizes of ``output_size``, which may differ from the geometry's sizes by less than a stride."""
    dims = len(default)
    if len(wanted) == dims + 2:
        wanted = wanted[2:]
    if len(wanted) != dims:
        raise ValueError(
            f"output_size should be a sequence containing {dims} or {dims + 2} elements, but it has a length of "
            f"'{len(wanted)}'"
        )
    for d, (want, size, step) in enumerate(zip(wanted, default, stride, strict=True)):
        if not size - step < want < size + step:
            raise ValueError(
                f'invalid output_size "{wanted}" (dim {d} must be between {size - step} and {size + step})'
            )
    return wanted


max_unpool1d, max_unpool2d, max_unpool3d = (_max_unpool(d) for d in (1, 2, 3))


def _fractional_max_pool(dims: int, always: bool) -> Any:
    name = f"fractional_max_pool{dims}d" + "_with_indices" * always

    def fractional_max_pool(
        input: Tensor,
        kernel_size: int | Sequence[int],
        output_size: int | Sequence[int] | None = None,
        output_ratio: float | Sequence[float] | None = None,
        return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> Any:
        """Return the largest element of each of ``output_size`` windows at random distances (B. Graham, 2014).

        Args:
            input: [batch, channels, ...] or [channels, ...].
            kernel_size: Size of the windows.
            output_size: Size of the result.
            output_ratio: Instead of ``output_size``: its ratio to the input's size.
            return_indices: Whether to return the row-major indices in the channel too.
            _random_samples: Used instead of numbers drawn from [0, 1): [batch, channels, dims].
        """
        if output_size is None and output_ratio is None:
            raise ValueError(f"{name} requires specifying either an output_size or an output_ratio")
        batched = input if input.dim() == dims + 2 else input.unsqueeze(0)
        sizes, kernel = batched.shape[2:], as_tuple(kernel_size, dims)
        ratios = as_tuple(output_ratio, dims)
        out = (
            [int(n * r) for n, r in zip(sizes, ratios, strict=True)]
            if output_size is None
            else list(as_tuple(output_size, dims))
        )
        if _random_samples is None:
            _random_samples = _C.rand(*batched.shape[:2], dims, dtype=input.dtype, device=input.device)
        at = _fractional_places(batched, kernel, out, _random_samples[: batched.shape[0]])
        picked = batched.flatten(2).gather(2, at.flatten(2)).reshape(at.shape)
        values, k = picked.max(-1)
        indices = at.gather(-1, k.unsqueeze(-1)).squeeze(-1)
        if batched is not input:
            values, indices = values.squeeze(0), indices.squeeze(0)
        return (values, indices) if always or return_indices else values

    fractional_max_pool.__name__ = fractional_max_pool.__qualname__ = name
    return autocast_inputs(cpu="full")(fractional_max_pool)


def _fractional_places(x: Tensor, kernel: Sequence[int], out: Sequence[int], samples: Tensor) -> Tensor:
    """Return the row-major numbers of each window's elements: [batch, channels, *out, window elements].

    Window i of n begins at trunc((i + u) a) - trunc(u a), a = (size - kernel) / (n - 1), the last one at the end.
    """
    dims = len(kernel)
    places = None
    for d in range(dims):
        size, k, n = x.shape[2 + d], kernel[d], out[d]
        if n + k - 1 > size:
            raise RuntimeError(
                f"fractional_max_pool{dims}d: pool size ({k}) too large relative to input size ({size}) for {n} outputs"
            )
        alpha = (size - k) / max(n - 1, 1)
        # 2-d pools draw for the width first.
        u = samples[..., (1 - d) if dims == 2 else d].unsqueeze(-1)
        i = _C.arange(n, device=x.device)
        start = (((i + u) * alpha).trunc() - (u * alpha).trunc()).long().masked_fill(i == n - 1, size - k)
        window = start.unsqueeze(-1) + _C.arange(k, device=x.device)
        shape = [
            *window.shape[:2],
            *[n if e == d else 1 for e in range(dims)],
            *[k if e == d else 1 for e in range(dims)],
        ]
        window = window.reshape(shape)
        places = window if places is None else places * size + window
    return places.reshape(*places.shape[: 2 + dims], math.prod(kernel))


fractional_max_pool2d, fractional_max_pool3d = (_fractional_max_pool(d, False) for d in (2, 3))
fractional_max_pool2d_with_indices, fractional_max_pool3d_with_indices = (_fractional_max_pool(d, True) for d in (2, 3))


def _avg_pool(dims: int) -> Any:
    f = getattr(_C, f"avg_pool{dims}d")

    def avg_pool(
        input: Tensor,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] | None = None,
        padding: int | Sequence[int] = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        *divisor: Any,
        **options: Any,
    ) -> Tensor:
        """Return the mean of each window; in two and three dimensions with the options ``divisor_override`` and
        ``out``.

        Args:
            input: [batch, channels, sizes...] or [channels, sizes...].
            kernel_size: Sizes of a window, one for all dimensions or one for each.
            stride: Steps between windows; None: the window's sizes.
            padding: Places added on both sides, at most half a window.
            ceil_mode: Whether a last window may reach beyond the input.
            count_include_pad: Whether padding counts in the divisor.
        """
        return f(input, kernel_size, _stride(stride), padding, ceil_mode, count_include_pad, *divisor, **options)

    avg_pool.__name__ = avg_pool.__qualname__ = f"avg_pool{dims}d"
    return avg_pool


avg_pool1d, avg_pool2d, avg_pool3d = (_avg_pool(d) for d in (1, 2, 3))


def unfold(input: Tensor, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Tensor:
    """Return the windows of images [N, C, H, W] as columns: [N, C * window elements, windows].

    Args:
        input: [batch, channels, height, width] or without the batch.
        kernel_size: Sizes of a block, one for both dimensions or one for each.
        dilation: Steps between the elements of a block.
        padding: Zeros on both sides.
        stride: Steps between blocks.
    """
    batched = input if input.dim() == 4 else input.unsqueeze(0)
    (kh, kw), (dh, dw), (ph, pw), (sh, sw) = (as_tuple(v, 2) for v in (kernel_size, dilation, padding, stride))
    x = pad(batched, (pw, pw, ph, ph))
    n, c, h, w = x.shape
    oh, ow = (h - dh * (kh - 1) - 1) // sh + 1, (w - dw * (kw - 1) - 1) // sw + 1
    x = x.contiguous()
    view = x.as_strided((n, c, kh, kw, oh, ow), (c * h * w, h * w, dh * w, dw, sh * w, sw), x.storage_offset())
    columns = view.reshape(n, c * kh * kw, oh * ow)
    return columns if input.dim() == 4 else columns[0]


def fold(
    input: Tensor, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
) -> Tensor:
    """Return images whose windows are the sum of the columns ``[N, C * window elements, windows]``: the adjoint of
    unfold.

    Args:
        input: Columns, [batch, channels * block, blocks] or without the batch.
        output_size: Sizes of the image.
        kernel_size: Sizes of a block, one for both dimensions or one for each.
        dilation: Steps between the elements of a block.
        padding: Zeros on both sides.
        stride: Steps between blocks.
    """
    batched = input if input.dim() == 3 else input.unsqueeze(0)
    (height, width), (kh, kw), (dh, dw), (ph, pw), (sh, sw) = (
        as_tuple(v, 2) for v in (output_size, kernel_size, dilation, padding, stride)
    )
    n, c = batched.shape[0], batched.shape[1] // (kh * kw)
    # Each channel of the kernel has a single one, at the column's place in the window.
    eye = _C.eye(kh * kw, dtype=input.dtype, device=input.device).reshape(kh * kw, 1, kh, kw)
    oh, ow = (height + 2 * ph - dh * (kh - 1) - 1) // sh + 1, (width + 2 * pw - dw * (kw - 1) - 1) // sw + 1
    columns = batched.reshape(n * c, kh * kw, oh, ow)
    over = (height + 2 * ph - dh * (kh - 1) - 1) % sh, (width + 2 * pw - dw * (kw - 1) - 1) % sw
    images = pad(_C.conv_transpose2d(columns, eye, None, (sh, sw), 0, 0, 1, (dh, dw)), (0, over[1], 0, over[0]))
    images = images[:, :, ph : ph + height, pw : pw + width].reshape(n, c, height, width)
    return images if input.dim() == 3 else images[0]
