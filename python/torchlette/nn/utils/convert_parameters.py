"""Parameters as one vector and back."""

from __future__ import annotations

from collections.abc import Iterable

from torchlette import _C

__all__ = ["parameters_to_vector", "vector_to_parameters"]

Tensor = _C.Tensor


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """Return the elements of all parameters, one after the other."""
    return _C.cat([parameter.reshape(-1) for parameter in parameters])


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Set each parameter to its part of ``vec``."""
    if not isinstance(vec, Tensor):
        raise TypeError(f"expected torch.Tensor, but got: {type(vec).__name__}")
    start = 0
    for parameter in parameters:
        end = start + parameter.numel()
        parameter.data = vec[start:end].view_as(parameter).detach()
        start = end
