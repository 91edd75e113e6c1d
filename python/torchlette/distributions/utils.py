"""Functions that the distributions share: broadcasting of parameters, and conversion of probabilities and logits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torchlette import _C
from torchlette._runtime.dtypes import finfo
from torchlette.autograd import enable_grad
from torchlette.nn import functional as F

__all__ = ["broadcast_all", "clamp_probs", "lazy_property", "logits_to_probs", "probs_to_logits", "sum_rightmost"]
__all__ += ["tril_matrix_to_vec", "vec_to_tril_matrix"]

Tensor = _C.Tensor


def broadcast_all(*values: Any) -> tuple[Tensor, ...]:
    """Return the values as tensors of one shape. Numbers take the dtype and device of the first tensor.

    Raises:
        ValueError: If a value is neither a number nor a tensor.
    """
    if not all(isinstance(v, (Tensor, int, float)) for v in values):
        raise ValueError(
            "Input arguments must all be instances of Number, torch.Tensor or objects implementing __torch_function__."
        )
    first = next((v for v in values if isinstance(v, Tensor)), None)
    options = {"dtype": _C.get_default_dtype()} if first is None else {"dtype": first.dtype, "device": first.device}
    return tuple(_C.broadcast_tensors([v if isinstance(v, Tensor) else _C.tensor(v, **options) for v in values]))


def clamp_probs(probs: Tensor) -> Tensor:
    """Return probabilities clamped to [eps, 1 - eps], with eps of their dtype."""
    eps = finfo(probs.dtype).eps
    return probs.clamp(eps, 1 - eps)


def probs_to_logits(probs: Tensor, is_binary: bool = False) -> Tensor:
    """Return logits: the log odds of probabilities if ``is_binary``, else their logarithms. Both are clamped first."""
    kept = clamp_probs(probs)
    return kept.log() - (-kept).log1p() if is_binary else kept.log()


def logits_to_probs(logits: Tensor, is_binary: bool = False) -> Tensor:
    """Return probabilities: the sigmoid of log odds if ``is_binary``, else the softmax over the last dim."""
    return logits.sigmoid() if is_binary else F.softmax(logits, dim=-1)


def sum_rightmost(value: Tensor, dim: int) -> Tensor:
    """Return the sum over the last ``dim`` dims."""
    return value if dim == 0 else value.flatten(-dim).sum(-1)


_sum_rightmost = sum_rightmost  #: PyTorch's private name, which third-party distributions import


class lazy_property:
    """A property that is computed once, with grad mode on, when it is first read. It is then an attribute."""

    def __init__(self, wrapped: Callable[[Any], Any]) -> None:
        """Wrap the method that computes the value."""
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
    """Draw from the standard normal distribution; third-party distributions call this private name of PyTorch's."""
    return _C.randn(shape, dtype=dtype, device=device)


def tril_matrix_to_vec(mat: Tensor, diag: int = 0) -> Tensor:
    """Return the elements of square matrices up to a diagonal, row by row.

    Args:
        mat: Matrices [..., D, D].
        diag: The last diagonal that counts: 0 the main one, -1 the one below it.

    Raises:
        ValueError: ``diag`` is no diagonal of the matrices.
    """
    side = mat.shape[-1]
    if diag < -side or diag >= side:
        raise ValueError(f"diag ({diag}) provided is outside [{-side}, {side - 1}].")
    rows, columns = _C.tril_indices(side, side, diag, device=mat.device)
    return mat.flatten(-2).index_select(-1, rows * side + columns)


def vec_to_tril_matrix(vec: Tensor, diag: int = 0) -> Tensor:
    """Return the square matrices whose elements up to a diagonal are vectors' elements, row by row, and 0 elsewhere.

    Args:
        vec: Vectors [..., n].
        diag: The last diagonal that is filled.

    Raises:
        ValueError: No size of the matrices has ``n`` such elements.
    """
    count = vec.shape[-1]
    side = (-(1 + 2 * diag) + ((1 + 2 * diag) ** 2 + 8 * count + 4 * abs(diag) * (diag + 1)) ** 0.5) / 2
    if abs(side - round(side)) > finfo(vec.dtype).eps:
        raise ValueError(
            f"The size of last dimension is {count} which cannot be expressed as the lower triangular part of a square "
            f"D x D matrix."
        )
    side = round(side)
    rows, columns = _C.tril_indices(side, side, diag, device=vec.device)
    flat = vec.new_zeros((*vec.shape[:-1], side * side)).index_copy(-1, rows * side + columns, vec)
    return flat.reshape(*vec.shape[:-1], side, side)
