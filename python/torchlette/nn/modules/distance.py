"""Distances."""

from __future__ import annotations

from torchlette import _C
from torchlette.nn import functional as F
from torchlette.nn.modules.module import Module

__all__ = ["CosineSimilarity", "PairwiseDistance"]


class PairwiseDistance(Module):
    """The ``p``-norm of ``x1 - x2 + eps`` over the last dimension.

    Args:
        p: The order of the norm.
        eps: Added to the differences.
        keepdim: Whether the last dimension stays, with size 1.
    """

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        """Choose the norm."""
        super().__init__()
        self.norm = p
        self.eps = eps
        self.keepdim = keepdim

    def forward(self, x1: _C.Tensor, x2: _C.Tensor) -> _C.Tensor:
        """Return the distances."""
        return F.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)


class CosineSimilarity(Module):
    """The cosine of the angle between vectors along ``dim``."""

    def __init__(self, dim: int = 1, eps: float = 1e-8) -> None:
        """Choose the dimension."""
        super().__init__()
        self.dim = dim
        self.eps = eps

    def forward(self, x1: _C.Tensor, x2: _C.Tensor) -> _C.Tensor:
        """Return the cosines."""
        return F.cosine_similarity(x1, x2, self.dim, self.eps)
