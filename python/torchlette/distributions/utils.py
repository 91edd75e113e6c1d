"""What the distributions share: broadcast parameters, and probabilities as logits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torchlette import _C
from torchlette._runtime.dtypes import finfo
from torchlette.autograd import enable_grad
from torchlette.nn import functional as F

__all__ = ["broadcast_all", "clamp_probs", "lazy_property", "logits_to_probs", "probs_to_logits", "sum_rightmost"]

Tensor = _C.Tensor


def broadcast_all(*values: Any) -> tuple[Tensor, ...]:
    """Return tensors of one shape; numbers take the dtype and device of the first tensor."""
    if not all(isinstance(v, (Tensor, int, float)) for v in values):
        raise ValueError(
            "Input arguments must all be instances of Number, torch.Tensor or objects implementing __torch_function__."
        )
    first = next((v for v in values if isinstance(v, Tensor)), None)
    options = {"dtype": _C.get_default_dtype()} if first is None else {"dtype": first.dtype, "device": first.device}
    return tuple(_C.broadcast_tensors([v if isinstance(v, Tensor) else _C.tensor(v, **options) for v in values]))


def clamp_probs(probs: Tensor) -> Tensor:
    """Return probabilities kept off 0 and 1 by the dtype's epsilon."""
    eps = finfo(probs.dtype).eps
    return probs.clamp(eps, 1 - eps)


def probs_to_logits(probs: Tensor, is_binary: bool = False) -> Tensor:
    """Return the log odds of probabilities, or, of several classes, their logarithms."""
    kept = clamp_probs(probs)
    return kept.log() - (-kept).log1p() if is_binary else kept.log()


def logits_to_probs(logits: Tensor, is_binary: bool = False) -> Tensor:
    """Return the probabilities of log odds, or of the unnormalised log weights of several classes."""
    return logits.sigmoid() if is_binary else F.softmax(logits, dim=-1)


def sum_rightmost(value: Tensor, dim: int) -> Tensor:
    """Return the sum over the last ``dim`` dims."""
    return value if dim == 0 else value.flatten(-dim).sum(-1)


_sum_rightmost = sum_rightmost  #: PyTorch's name of it, which libraries of distributions import


class lazy_property:
    """A property computed, with gradients, when it is first read, and an attribute from then on."""

    def __init__(self, wrapped: Callable[[Any], Any]) -> None:
        """Wrap a method."""
        self.wrapped = wrapped
        self.__doc__ = wrapped.__doc__

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        with enable_grad():
            value = self.wrapped(instance)
        setattr(instance, self.wrapped.__name__, value)
        return value


def _standard_normal(shape: Any, dtype: Any, device: Any) -> Tensor:
    """Draw from the normal distribution of mean 0 and variance 1: what libraries of distributions call."""
    return _C.randn(shape, dtype=dtype, device=device)
