"""Initial values of parameters, with the names and formulas of ``torch.nn.init``."""

from __future__ import annotations

import math
import warnings
from typing import Any

from torchlette import _C
from torchlette.autograd import no_grad

__all__ = [
    "calculate_gain",
    "constant_",
    "dirac_",
    "eye_",
    "kaiming_normal_",
    "kaiming_uniform_",
    "normal_",
    "ones_",
    "orthogonal_",
    "sparse_",
    "trunc_normal_",
    "uniform_",
    "xavier_normal_",
    "xavier_uniform_",
    "zeros_",
]

Tensor = _C.Tensor

_LINEAR = {
    "linear", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "sigmoid",
}  # fmt: skip


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """Return the factor that keeps the variance through ``nonlinearity``.

    Args:
        nonlinearity: "linear", a convolution, "sigmoid", "tanh", "relu", "leaky_relu" or "selu".
        param: The negative slope of "leaky_relu"; 0.01 by default.
    """
    if nonlinearity in _LINEAR:
        return 1.0
    if nonlinearity == "tanh":
        return 5.0 / 3
    if nonlinearity == "relu":
        return math.sqrt(2.0)
    if nonlinearity == "leaky_relu":
        slope = 0.01 if param is None else param
        if isinstance(slope, bool) or not isinstance(slope, (int, float)):
            raise ValueError(f"negative_slope {param} not a valid number")
        return math.sqrt(2.0 / (1 + slope**2))
    if nonlinearity == "selu":
        return 3.0 / 4
    raise ValueError(f"Unsupported nonlinearity {nonlinearity}")


def _calculate_fan_in_and_fan_out(tensor: Tensor) -> tuple[int, int]:
    """Return (fan in, fan out) of a weight [out, in, kernel...]."""
    if tensor.ndim < 2:
        raise ValueError("Fan in and fan out can not be computed for tensor with fewer than 2 dimensions")
    field = math.prod(tensor.shape[2:])
    return tensor.shape[1] * field, tensor.shape[0] * field


def _calculate_correct_fan(tensor: Tensor, mode: str) -> int:
    mode = mode.lower()
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f"Mode {mode} not supported, please use one of ['fan_in', 'fan_out']")
    return _calculate_fan_in_and_fan_out(tensor)[mode == "fan_out"]


@no_grad()
def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Any = None) -> Tensor:
    """Fill with numbers from U(a, b).

    Args:
        tensor: A tensor, which is written to.
        a: The lower bound.
        b: The upper bound.
        generator: Draws the numbers; None: the default generator.
    """
    return tensor.uniform_(a, b, generator=generator)


@no_grad()
def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Any = None) -> Tensor:
    """Fill with numbers from N(mean, std^2).

    Args:
        tensor: A tensor, which is written to.
        mean: The mean.
        std: The standard deviation.
        generator: Draws the numbers; None: the default generator.
    """
    return tensor.normal_(mean, std, generator=generator)


@no_grad()
def constant_(tensor: Tensor, val: float) -> Tensor:
    """Fill with ``val``."""
    return tensor.fill_(val)


@no_grad()
def ones_(tensor: Tensor) -> Tensor:
    """Fill with 1."""
    return tensor.fill_(1.0)


@no_grad()
def zeros_(tensor: Tensor) -> Tensor:
    """Fill with 0."""
    return tensor.zero_()


@no_grad()
def eye_(tensor: Tensor) -> Tensor:
    """Fill a matrix with the identity."""
    if tensor.ndim != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    return tensor.copy_(_C.eye(*tensor.shape, dtype=tensor.dtype, device=tensor.device))


@no_grad()
def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """Fill a convolution weight so that it passes as many channels through as it can."""
    if tensor.ndim not in (3, 4, 5):
        raise ValueError("Only tensors with 3, 4, or 5 dimensions are supported")
    if tensor.shape[0] % groups:
        raise ValueError("dim 0 must be divisible by groups")
    per_group = tensor.shape[0] // groups
    centre = tuple(size // 2 for size in tensor.shape[2:])
    tensor.zero_()
    for group in range(groups):
        for channel in range(min(per_group, tensor.shape[1])):
            tensor[(group * per_group + channel, channel, *centre)] = 1
    return tensor


@no_grad()
def trunc_normal_(
    tensor: Tensor, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0, generator: Any = None
) -> Tensor:
    """Fill with numbers from N(mean, std^2) cut to ``[a, b]``.

    Args:
        tensor: A tensor, which is written to.
        mean: The mean.
        std: The standard deviation.
        a: The lower bound of the drawn numbers.
        b: The upper bound of the drawn numbers.
        generator: Draws the numbers; None: the default generator.
    """
    if mean < a - 2 * std or mean > b + 2 * std:
        warnings.warn(
            "mean is more than 2 std from [a, b] in nn.init.trunc_normal_. The distribution of values may be "
            "incorrect.",
            stacklevel=2,
        )
    low, high = (0.5 * (1 + math.erf((limit - mean) / (std * math.sqrt(2)))) for limit in (a, b))
    probability = _C.rand(tensor.shape, device=tensor.device, generator=generator) * (high - low) + low
    return tensor.copy_((_C.special_ndtri(probability) * std + mean).clamp(a, b))


# Newton-Schulz multiplies a small singular value by 3/2 a step: 60 steps lift 1e-8 to 1 and then converge
# quadratically.
_NEWTON_SCHULZ_STEPS = 60


@no_grad()
def orthogonal_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Fill with ``gain`` times a random matrix whose rows or columns are orthonormal.

    The matrix is the polar factor of a Gaussian matrix, which is distributed uniformly over
    orthogonal matrices.

    Args:
        tensor: A tensor, which is written to.
        gain: A factor, see :func:`calculate_gain`.
        generator: Draws the numbers; None: the default generator.
    """
    if tensor.ndim < 2:
        raise ValueError("Only tensors with 2 or more dimensions are supported")
    if tensor.numel() == 0:
        return tensor
    rows, columns = tensor.shape[0], tensor.numel() // tensor.shape[0]
    x = _C.randn(min(rows, columns), max(rows, columns), device=tensor.device, generator=generator)
    x = x / x.norm()
    for _ in range(_NEWTON_SCHULZ_STEPS):
        x = x * 1.5 - (x @ x.t()) @ x * 0.5
    return tensor.copy_(((x if rows <= columns else x.t()) * gain).reshape(tensor.shape))


@no_grad()
def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01, generator: Any = None) -> Tensor:
    """Fill a matrix from N(0, std^2) and zero the fraction ``sparsity`` of each column.

    Args:
        tensor: A tensor, which is written to.
        sparsity: The fraction of each column that becomes zero.
        std: The standard deviation.
        generator: Draws the numbers; None: the default generator.
    """
    if tensor.ndim != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    rows, columns = tensor.shape
    zeros = math.ceil(sparsity * rows)
    chosen = _C.rand(rows, columns, device=tensor.device, generator=generator).topk(zeros, 0).indices
    values = _C.randn(rows, columns, device=tensor.device, generator=generator) * std
    return tensor.copy_(values.scatter(0, chosen, 0.0))


@no_grad()
def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Fill with U(-a, a), a = gain * sqrt(6 / (fan_in + fan_out)).

    Args:
        tensor: A tensor, which is written to.
        gain: A factor, see :func:`calculate_gain`.
        generator: Draws the numbers; None: the default generator.
    """
    bound = math.sqrt(3.0) * gain * math.sqrt(2.0 / sum(_calculate_fan_in_and_fan_out(tensor)))
    return tensor.uniform_(-bound, bound, generator=generator)


@no_grad()
def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Fill with N(0, std^2), std = gain * sqrt(2 / (fan_in + fan_out)).

    Args:
        tensor: A tensor, which is written to.
        gain: A factor, see :func:`calculate_gain`.
        generator: Draws the numbers; None: the default generator.
    """
    return tensor.normal_(0.0, gain * math.sqrt(2.0 / sum(_calculate_fan_in_and_fan_out(tensor))), generator=generator)


@no_grad()
def kaiming_uniform_(
    tensor: Tensor, a: float = 0.0, mode: str = "fan_in", nonlinearity: str = "leaky_relu", generator: Any = None
) -> Tensor:
    """Fill with U(-b, b), b = gain * sqrt(3 / fan).

    Args:
        tensor: A tensor, which is written to.
        a: The negative slope, with leaky_relu.
        mode: "fan_in" or "fan_out": which size of the layer keeps its variance.
        nonlinearity: The name of the activation that follows, see :func:`calculate_gain`.
        generator: Draws the numbers; None: the default generator.
    """
    if 0 in tensor.shape:
        warnings.warn("Initializing zero-element tensors is a no-op", stacklevel=2)
        return tensor
    bound = math.sqrt(3.0) * calculate_gain(nonlinearity, a) / math.sqrt(_calculate_correct_fan(tensor, mode))
    return tensor.uniform_(-bound, bound, generator=generator)


@no_grad()
def kaiming_normal_(
    tensor: Tensor, a: float = 0.0, mode: str = "fan_in", nonlinearity: str = "leaky_relu", generator: Any = None
) -> Tensor:
    """Fill with N(0, std^2), std = gain / sqrt(fan).

    Args:
        tensor: A tensor, which is written to.
        a: The negative slope, with leaky_relu.
        mode: "fan_in" or "fan_out": which size of the layer keeps its variance.
        nonlinearity: The name of the activation that follows, see :func:`calculate_gain`.
        generator: Draws the numbers; None: the default generator.
    """
    if 0 in tensor.shape:
        warnings.warn("Initializing zero-element tensors is a no-op", stacklevel=2)
        return tensor
    return tensor.normal_(
        0.0, calculate_gain(nonlinearity, a) / math.sqrt(_calculate_correct_fan(tensor, mode)), generator=generator
    )


def _old_name(new: Any) -> Any:
    """Return an initialiser under its former name; calling it warns."""
    old = new.__name__[:-1]

    def initialize(*args: Any, **kwargs: Any) -> Tensor:
        warnings.warn(f"`nn.init.{old}` is now deprecated in favor of `nn.init.{old}_`.", FutureWarning, stacklevel=2)
        return new(*args, **kwargs)

    initialize.__name__ = initialize.__qualname__ = old
    initialize.__doc__ = f"Do what :func:`{old}_` does, under its old name."
    return initialize


uniform, normal, constant, eye, dirac = (_old_name(f) for f in (uniform_, normal_, constant_, eye_, dirac_))
xavier_uniform, xavier_normal, kaiming_uniform = (
    _old_name(f) for f in (xavier_uniform_, xavier_normal_, kaiming_uniform_)
)
kaiming_normal, orthogonal, sparse = (_old_name(f) for f in (kaiming_normal_, orthogonal_, sparse_))
