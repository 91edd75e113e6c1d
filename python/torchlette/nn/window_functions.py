"""Convolutions, pools and the normalisations by channel; part of :mod:`torchlette.nn.functional`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from torchlette import _C
from torchlette.autograd import no_grad
from torchlette.nn.spatial_functions import pad

__all__ = [
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool2d",
    "adaptive_max_pool3d",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "batch_norm",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "fold",
    "group_norm",
    "instance_norm",
    "lp_pool1d",
    "lp_pool2d",
    "max_pool1d",
    "max_pool1d_with_indices",
    "max_pool2d",
    "max_pool2d_with_indices",
    "max_pool3d",
    "max_pool3d_with_indices",
    "unfold",
]

Tensor = _C.Tensor

# Operators whose signature is PyTorch's as it stands.
conv1d, conv2d, conv3d = _C.conv1d, _C.conv2d, _C.conv3d
conv_transpose1d, conv_transpose2d, conv_transpose3d = _C.conv_transpose1d, _C.conv_transpose2d, _C.conv_transpose3d
group_norm = _C.group_norm


def _stride(stride: Any) -> Any:
    """Return what the pools take for a missing stride: the size of the kernel."""
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
        """Return the largest element of each window, with ``return_indices`` also its row-major number in its channel."""
        f = both if always or return_indices else plain
        return f(input, kernel_size, _stride(stride), padding, dilation, ceil_mode)

    max_pool.__name__ = max_pool.__qualname__ = f"max_pool{dims}d" + "_with_indices" * always
    if always:
        max_pool.__doc__ = "Return the largest element of each window and its row-major number in its channel."
    return max_pool


def _sizes(size: Any, input: Tensor, dims: int) -> list[int]:
    """Return an adaptive pool's output sizes; ``None`` keeps the input's."""
    if isinstance(size, Sequence) and len(size) >= input.dim():
        raise ValueError(f"Input dimension should be at least {len(size) + 1}")
    wanted = [size] * dims if size is None or isinstance(size, int) else list(size)
    return [int(have if want is None else want) for want, have in zip(wanted, input.shape[-dims:] or wanted, strict=False)]


def _adaptive_avg_pool(dims: int) -> Any:
    f = getattr(_C, f"adaptive_avg_pool{dims}d")

    def adaptive_avg_pool(input: Tensor, output_size: int | Sequence[int | None] | None) -> Tensor:
        """Return means over windows placed so that the output has ``output_size``; ``None`` keeps a size."""
        return f(input, _sizes(output_size, input, dims))

    adaptive_avg_pool.__name__ = adaptive_avg_pool.__qualname__ = f"adaptive_avg_pool{dims}d"
    return adaptive_avg_pool


def _adaptive_max_pool(dims: int) -> Any:
    f = getattr(_C, f"adaptive_max_pool{dims}d")

    def adaptive_max_pool(input: Tensor, output_size: int | Sequence[int | None] | None, return_indices: bool = False) -> Any:
        """Return largest elements of windows placed so that the output has ``output_size``, and where they are if asked for."""
        values, indices = f(input, _sizes(output_size, input, dims))
        return (values, indices) if return_indices else values

    adaptive_max_pool.__name__ = adaptive_max_pool.__qualname__ = f"adaptive_max_pool{dims}d"
    return adaptive_max_pool


max_pool1d, max_pool2d, max_pool3d = (_max_pool(d, False) for d in (1, 2, 3))
max_pool1d_with_indices, max_pool2d_with_indices, max_pool3d_with_indices = (_max_pool(d, True) for d in (1, 2, 3))
adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d = (_adaptive_avg_pool(d) for d in (1, 2, 3))
adaptive_max_pool1d, adaptive_max_pool2d, adaptive_max_pool3d = (_adaptive_max_pool(d) for d in (1, 2, 3))


def lp_pool1d(input: Tensor, norm_type: float, kernel_size: int, stride: int | None = None, ceil_mode: bool = False) -> Tensor:
    """Return the root of order ``norm_type`` of the sum of powers over each window."""
    total = avg_pool1d(input.pow(norm_type), kernel_size, _stride(stride), 0, ceil_mode)
    return (total.sign() * total.abs().clamp(min=0)).mul(kernel_size).pow(1.0 / norm_type)


def lp_pool2d(input: Tensor, norm_type: float, kernel_size: int | Sequence[int], stride: Any = None, ceil_mode: bool = False) -> Tensor:
    """Return the root of order ``norm_type`` of the sum of powers over each window."""
    high, wide = (kernel_size, kernel_size) if isinstance(kernel_size, int) else kernel_size
    total = avg_pool2d(input.pow(norm_type), kernel_size, _stride(stride), 0, ceil_mode)
    return (total.sign() * total.abs().clamp(min=0)).mul(high * wide).pow(1.0 / norm_type)


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
        **divisor_override: Any,
    ) -> Tensor:
        """Return the mean of each window."""
        return f(input, kernel_size, _stride(stride), padding, ceil_mode, count_include_pad, *divisor, **divisor_override)

    avg_pool.__name__ = avg_pool.__qualname__ = f"avg_pool{dims}d"
    return avg_pool


avg_pool1d, avg_pool2d, avg_pool3d = (_avg_pool(d) for d in (1, 2, 3))


def _check_batch_size(input: Tensor) -> None:
    if input.numel() == input.shape[1]:
        raise ValueError(f"Expected more than 1 value per channel when training, got input size {input.size()}")


@no_grad()
def _follow(statistics: Sequence[tuple[Tensor | None, Tensor]], momentum: float) -> None:
    """Move running statistics towards those of a batch."""
    for running, now in statistics:
        if running is not None:
            running.mul_(1 - momentum).add_(now.to(running.dtype), alpha=momentum)


def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Normalise each channel (dim 1), by the batch's statistics in training, which then move the running ones."""
    if not training:
        return _C.batch_norm(input, weight, bias, running_mean, running_var, False, momentum, eps, True)
    _check_batch_size(input)
    if running_mean is None and running_var is None:
        return _C.batch_norm(input, weight, bias, None, None, True, momentum, eps, True)
    output, mean, variance = _C._batch_norm_stats(input, weight, bias, eps)
    _follow(((running_mean, mean), (running_var, variance)), momentum)
    return output


def instance_norm(
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Normalise each channel of each sample."""
    if not use_input_stats:
        return _C.batch_norm(input, weight, bias, running_mean, running_var, False, momentum, eps, True)
    batch, channels, *rest = input.shape
    if math.prod(rest) <= 1:
        raise ValueError(f"Expected more than 1 spatial element when training, got input size {input.size()}")
    flat = input.reshape(1, batch * channels, *rest)
    output, mean, variance = _C._batch_norm_stats(flat, None, None, eps)
    if running_mean is not None or running_var is not None:
        mean, variance = (of.reshape(batch, channels).mean(0) for of in (mean, variance))
        _follow(((running_mean, mean), (running_var, variance)), momentum)
    output = output.reshape(input.shape)
    shape = (channels, *[1] * len(rest))
    if weight is not None:
        output = output * weight.reshape(shape)
    return output if bias is None else output + bias.reshape(shape)


def unfold(input: Tensor, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Tensor:
    """Return the windows of images [N, C, H, W] as columns: [N, C * window elements, windows]."""
    batched = input if input.dim() == 4 else input.unsqueeze(0)
    (kh, kw), (dh, dw), (ph, pw), (sh, sw) = (_pair(v) for v in (kernel_size, dilation, padding, stride))
    x = pad(batched, (pw, pw, ph, ph))
    n, c, h, w = x.shape
    oh, ow = (h - dh * (kh - 1) - 1) // sh + 1, (w - dw * (kw - 1) - 1) // sw + 1
    x = x.contiguous()
    view = x.as_strided((n, c, kh, kw, oh, ow), (c * h * w, h * w, dh * w, dw, sh * w, sw), x.storage_offset())
    columns = view.reshape(n, c * kh * kw, oh * ow)
    return columns if input.dim() == 4 else columns[0]


def fold(input: Tensor, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Tensor:
    """Return images whose windows are the sum of the columns ``[N, C * window elements, windows]``: the adjoint of unfold."""
    batched = input if input.dim() == 3 else input.unsqueeze(0)
    (height, width), (kh, kw), (dh, dw), (ph, pw), (sh, sw) = (_pair(v) for v in (output_size, kernel_size, dilation, padding, stride))
    n, c = batched.shape[0], batched.shape[1] // (kh * kw)
    # One channel of the kernel is one where the column lies in the window.
    eye = _C.eye(kh * kw, dtype=input.dtype, device=input.device).reshape(kh * kw, 1, kh, kw)
    oh, ow = (height + 2 * ph - dh * (kh - 1) - 1) // sh + 1, (width + 2 * pw - dw * (kw - 1) - 1) // sw + 1
    columns = batched.reshape(n * c, kh * kw, oh, ow)
    over = (height + 2 * ph - dh * (kh - 1) - 1) % sh, (width + 2 * pw - dw * (kw - 1) - 1) % sw
    images = pad(_C.conv_transpose2d(columns, eye, None, (sh, sw), 0, 0, 1, (dh, dw)), (0, over[1], 0, over[0]))
    images = images[:, :, ph : ph + height, pw : pw + width].reshape(n, c, height, width)
    return images if input.dim() == 3 else images[0]


def _pair(v: Any) -> tuple[int, int]:
    return (v, v) if isinstance(v, int) else tuple(v)
