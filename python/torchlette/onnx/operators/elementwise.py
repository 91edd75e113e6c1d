"""Operators of elements."""

from __future__ import annotations

import math
from functools import reduce
from typing import Any

from torchlette import _C
from torchlette.nn import functional as F
from torchlette.onnx.registry import operator
from torchlette.onnx.tensors import dtype_of

Tensor = _C.Tensor

_UNARY = {
    "Abs": _C.abs,
    "Acos": _C.acos,
    "Acosh": _C.acosh,
    "Asin": _C.asin,
    "Asinh": _C.asinh,
    "Atan": _C.atan,
    "Atanh": _C.atanh,
    "BitwiseNot": _C.bitwise_not,
    "Ceil": _C.ceil,
    "Cos": _C.cos,
    "Cosh": _C.cosh,
    "Erf": _C.erf,
    "Exp": _C.exp,
    "Floor": _C.floor,
    "HardSwish": F.hardswish,
    "IsNaN": _C.isnan,
    "Log": _C.log,
    "Mish": F.mish,
    "Neg": _C.neg,
    "Not": _C.logical_not,
    "Reciprocal": _C.reciprocal,
    "Relu": _C.relu,
    "Round": _C.round,
    "Sigmoid": _C.sigmoid,
    "Sign": _C.sign,
    "Sin": _C.sin,
    "Sinh": _C.sinh,
    "Softplus": F.softplus,
    "Softsign": F.softsign,
    "Sqrt": _C.sqrt,
    "Tan": _C.tan,
    "Tanh": _C.tanh,
}


def _unary(call: Any) -> Any:
    def apply(x: Tensor) -> Tensor:
        return call(x)

    return apply


for _name, _call in _UNARY.items():
    operator(_name)(_unary(_call))

_BINARY = {
    "Add": _C.add,
    "And": _C.logical_and,
    "BitwiseAnd": _C.bitwise_and,
    "BitwiseOr": _C.bitwise_or,
    "BitwiseXor": _C.bitwise_xor,
    "Equal": _C.eq,
    "Greater": _C.gt,
    "GreaterOrEqual": _C.ge,
    "Less": _C.lt,
    "LessOrEqual": _C.le,
    "Mul": _C.mul,
    "Or": _C.logical_or,
    "Sub": _C.sub,
    "Xor": _C.logical_xor,
}


def _binary(call: Any) -> Any:
    def apply(a: Tensor, b: Tensor) -> Tensor:
        return call(a, b)

    return apply


for _name, _call in _BINARY.items():
    operator(_name)(_binary(_call))


@operator("Div")
def div(a: Tensor, b: Tensor) -> Tensor:
    """Whole numbers are divided towards zero."""
    return _C.div(a, b) if a.is_floating_point() else _C.div(a, b, rounding_mode="trunc")


@operator("Pow")
def power(a: Tensor, b: Tensor) -> Tensor:
    """The result has the dtype of the first operand."""
    if not a.is_floating_point() and b.is_floating_point():
        return _C.pow(a.to(b.dtype), b).to(a.dtype)
    return _C.pow(a, b).to(a.dtype)


@operator("Mod")
def mod(a: Tensor, b: Tensor, *, fmod: int = 0) -> Tensor:
    """The sign is the divisor's; with ``fmod`` the dividend's."""
    return _C.fmod(a, b) if fmod else _C.remainder(a, b)


@operator("BitShift")
def bit_shift(a: Tensor, b: Tensor, *, direction: str) -> Tensor:
    """Shift by ``b`` bits."""
    if direction not in ("LEFT", "RIGHT"):
        raise ValueError(f"BitShift: direction is {direction!r}, want LEFT or RIGHT")
    return (a << b if direction == "LEFT" else a >> b).to(a.dtype)


def _variadic(call: Any) -> Any:
    def apply(x: Tensor, *rest: Tensor) -> Tensor:
        return reduce(call, rest, x)

    return apply


operator("Max")(_variadic(_C.maximum))
operator("Min")(_variadic(_C.minimum))
operator("Sum")(_variadic(_C.add))


@operator("Mean")
def mean(x: Tensor, *rest: Tensor) -> Tensor:
    """Return the mean of the operands."""
    return reduce(_C.add, rest, x) / (len(rest) + 1)


@operator("Identity", raw=(-1,))
def identity(x: Any) -> list[Any]:
    """Return the value."""
    return [x]


@operator("Where")
def where(condition: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """Choose elements."""
    return _C.where(condition, a, b)


@operator("Cast", note="to strings, complex numbers and floats of 8 and 4 bits: refused")
def cast(x: Tensor, *, to: int, saturate: int = 1, round_mode: str = "up") -> Tensor:
    """Change the dtype."""
    dtype = dtype_of(to)
    if dtype is _C.bool:
        return x != 0
    return x.to(dtype)


@operator("BitCast")
def bit_cast(x: Tensor, *, to: int) -> Tensor:
    """Read the bits as elements of another dtype."""
    return x.view(dtype_of(to))


@operator("CastLike", note="as Cast")
def cast_like(x: Tensor, like: Tensor, *, saturate: int = 1, round_mode: str = "up") -> Tensor:
    """Change the dtype to another tensor's."""
    return x != 0 if like.dtype is _C.bool else x.to(like.dtype)


@operator("IsInf")
def is_inf(x: Tensor, *, detect_negative: int = 1, detect_positive: int = 1) -> Tensor:
    """Find infinities of the signs that are asked for."""
    if detect_negative and detect_positive:
        return _C.isinf(x)
    if detect_positive:
        return x == math.inf
    return x == -math.inf if detect_negative else _C.zeros_like(x, dtype=_C.bool)


@operator("LeakyRelu")
def leaky_relu(x: Tensor, *, alpha: float = 0.01) -> Tensor:
    """Multiply negative elements by ``alpha``."""
    return F.leaky_relu(x, alpha)


@operator("PRelu")
def prelu(x: Tensor, slope: Tensor) -> Tensor:
    """Multiply negative elements by a slope."""
    return _C.where(x < 0, x * slope, x)


@operator("Elu")
def elu(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    """Return x, or alpha (exp(x) - 1) where x is negative."""
    return F.elu(x, alpha)


@operator("Celu")
def celu(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    """Return max(0, x) + min(0, alpha (exp(x / alpha) - 1))."""
    return F.celu(x, alpha)


@operator("Selu")
def selu(x: Tensor, *, alpha: float = 1.6732632423543772, gamma: float = 1.0507009873554805) -> Tensor:
    """Return gamma x, or gamma alpha (exp(x) - 1) where x is not positive."""
    return gamma * F.elu(x, alpha)


@operator("Gelu")
def gelu(x: Tensor, *, approximate: str = "none") -> Tensor:
    """Return x times the normal distribution's function."""
    return F.gelu(x, approximate=approximate)


@operator("HardSigmoid")
def hard_sigmoid(x: Tensor, *, alpha: float = 0.2, beta: float = 0.5) -> Tensor:
    """Return max(0, min(1, alpha x + beta))."""
    return (alpha * x + beta).clamp(0, 1)


@operator("Swish")
def swish(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    """Return x sigmoid(alpha x)."""
    return x * _C.sigmoid(alpha * x)


@operator("ThresholdedRelu")
def thresholded_relu(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    """Keep elements above ``alpha``."""
    return _C.where(x > alpha, x, _C.zeros_like(x))


@operator("Shrink")
def shrink(x: Tensor, *, bias: float = 0.0, lambd: float = 0.5) -> Tensor:
    """Move elements towards zero by ``bias``; those within ``lambd`` become zero."""
    zero = _C.zeros_like(x)
    return _C.where(x < -lambd, x + bias, _C.where(x > lambd, x - bias, zero)).to(x.dtype)


@operator("Clip")
def clip(x: Tensor, low: Tensor | None = None, high: Tensor | None = None) -> Tensor:
    """Limit elements."""
    if low is not None:
        x = _C.maximum(x, low)
    return x if high is None else _C.minimum(x, high)


@operator("Softmax")
def softmax(x: Tensor, *, axis: int = -1) -> Tensor:
    """Return exp(x) divided by its sum along an axis."""
    return _C.softmax(x, axis)


@operator("LogSoftmax")
def log_softmax(x: Tensor, *, axis: int = -1) -> Tensor:
    """Return the logarithm of softmax."""
    return _C.log_softmax(x, axis)


@operator("Hardmax")
def hardmax(x: Tensor, *, axis: int = -1) -> Tensor:
    """Return 1 at the first greatest element along an axis, else 0."""
    places = x.argmax(axis, keepdim=True)
    return _C.zeros_like(x).scatter(axis, places, 1.0)
