"""Activations, softmax among them; part of :mod:`torchlette.nn.functional`."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from torchlette import _C

__all__ = [
    "celu",
    "celu_",
    "elu",
    "elu_",
    "gelu",
    "glu",
    "gumbel_softmax",
    "hardshrink",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "hardtanh_",
    "leaky_relu",
    "leaky_relu_",
    "log_softmax",
    "logsigmoid",
    "mish",
    "prelu",
    "relu",
    "relu6",
    "relu_",
    "rrelu",
    "rrelu_",
    "selu",
    "selu_",
    "sigmoid",
    "silu",
    "softmax",
    "softmin",
    "softplus",
    "softshrink",
    "softsign",
    "tanh",
    "tanhshrink",
    "threshold",
    "threshold_",
]

Tensor = _C.Tensor


# Operators whose signature is PyTorch's as it stands.
gelu = _C.gelu
softplus = _C.softplus
tanh = _C.tanh
sigmoid = _C.sigmoid
logsigmoid = _C.logsigmoid
softsign = _C.softsign
tanhshrink = _C.tanhshrink
softshrink = _C.softshrink
hardshrink = _C.hardshrink
glu = _C.glu
prelu = _C.prelu
relu_ = _C.relu_
leaky_relu_ = _C.leaky_relu_
elu_ = _C.elu_
celu_ = _C.celu_
selu_ = _C.selu_
hardtanh_ = _C.hardtanh_
threshold_ = _C.threshold_


def _stored(function: Callable[..., Tensor], input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Write ``function(input, ...)`` to ``input``, keeping the former values for the gradient."""
    return input.copy_(function(input.clone() if input.requires_grad else input, *args, **kwargs))


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """Return ``max(input, 0)``."""
    return _C.relu_(input) if inplace else _C.relu(input)


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """Return ``min(max(input, 0), 6)``."""
    return _C.hardtanh_(input, 0.0, 6.0) if inplace else _C.relu6(input)


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """Return ``input`` where it is positive and ``negative_slope * input`` elsewhere.

    Args:
        input: Values, of any shape.
        negative_slope: The slope of negative elements.
        inplace: Whether to write the result to ``input`` and return it.
    """
    return _C.leaky_relu_(input, negative_slope) if inplace else _C.leaky_relu(input, negative_slope)


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """Return ``input`` where it is positive and ``alpha * (exp(input) - 1)`` elsewhere.

    Args:
        input: Values, of any shape.
        alpha: Minus the limit of negative elements.
        inplace: Whether to write the result to ``input`` and return it.
    """
    return _C.elu_(input, alpha) if inplace else _C.elu(input, alpha)


def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """Return ``input`` where it is positive and ``alpha * (exp(input / alpha) - 1)`` elsewhere.

    Args:
        input: Values, of any shape.
        alpha: Minus the limit of negative elements.
        inplace: Whether to write the result to ``input`` and return it.
    """
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
    """Return ``input`` clamped to ``[min_val, max_val]``, with zero gradient at and outside the bounds.

    Args:
        input: Values, of any shape.
        min_val: The least result.
        max_val: The greatest result.
        inplace: Whether to write the result to ``input`` and return it.
    """
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
    """Return ``input`` where it is above ``threshold`` and ``value`` elsewhere.

    Args:
        input: Values, of any shape.
        threshold: Elements above it stay.
        value: What other elements become.
        inplace: Whether to write the result to ``input`` and return it.
    """
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
    """Return ``exp(input)`` scaled to sum to 1 along ``dim``.

    Args:
        input: Values, of any shape.
        dim: The dimension along which it works.
        dtype: Of the result; the input is cast to it first. None: the input's.
    """
    return _C.softmax(input, _softmax_dim("softmax", input.ndim, dim), dtype=dtype)


def softmin(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """Return the softmax of ``-input``.

    Args:
        input: Values, of any shape.
        dim: The dimension along which it works.
        dtype: Of the result; the input is cast to it first. None: the input's.
    """
    return _C.softmax(-input, _softmax_dim("softmin", input.ndim, dim), dtype=dtype)


def log_softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """Return the logarithm of the softmax along ``dim``.

    Args:
        input: Values, of any shape.
        dim: The dimension along which it works.
        dtype: Of the result; the input is cast to it first. None: the input's.
    """
    return _C.log_softmax(input, _softmax_dim("log_softmax", input.ndim, dim), dtype=dtype)


def rrelu(
    input: Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False, inplace: bool = False
) -> Tensor:
    """Return ``input`` where it is positive, else ``input`` times U(lower, upper) in training and their mean in
    evaluation.

    Args:
        input: Values, of any shape.
        lower: The least slope of negative elements.
        upper: The greatest slope of negative elements.
        training: Whether slopes are drawn; otherwise the slope is the mean of the bounds.
        inplace: Whether to write the result to ``input`` and return it.
    """
    if lower > upper:
        raise RuntimeError(
            f"Lower bound should be less than or equal to the upper bound, got lower={lower} and upper={upper}"
        )
    if training:
        slope = _C.rand_like(input, requires_grad=False) * (upper - lower) + lower
        result = _C.where(input <= 0, input * slope, input)
    else:
        result = _C.leaky_relu(input, (lower + upper) / 2)
    return input.copy_(result) if inplace else result


def rrelu_(input: Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False) -> Tensor:
    """Do what :func:`rrelu` does, in place.

    The arguments are those of :func:`rrelu`.
    """
    return rrelu(input, lower, upper, training, True)


def gumbel_softmax(logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1) -> Tensor:
    """Return a sample of the Gumbel-softmax distribution (E. Jang et al., 2017).

    Args:
        logits: Log probabilities, not normalised.
        tau: Temperature.
        hard: Return one-hot vectors with the gradient of the soft sample.
        eps: Accepted for compatibility.
        dim: The dimension of the classes.
    """
    noise = -_C.empty_like(logits, requires_grad=False).exponential_().log()
    soft = _C.softmax((logits + noise) / tau, dim)
    if not hard:
        return soft
    index = soft.argmax(dim, keepdim=True)
    chosen = _C.zeros_like(logits, requires_grad=False).scatter(dim, index, 1.0)
    return chosen - soft.detach() + soft
