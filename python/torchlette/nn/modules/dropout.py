"""Dropout."""

from __future__ import annotations

from torchlette import _C
from torchlette.nn import functional as F
from torchlette.nn.modules.module import Module

__all__ = ["Dropout"]


class Dropout(Module):
    """Zero elements with probability ``p`` while training and scale the others by ``1 / (1 - p)``.

    Args:
        p: Probability of zero.
        inplace: Store the result in the input.
    """

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        """Check the probability."""
        super().__init__()
        if p < 0 or p > 1:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p = p
        self.inplace = inplace

    def forward(self, input: _C.Tensor) -> _C.Tensor:
        """Drop elements of ``input``; in evaluation mode return it."""
        return F.dropout(input, self.p, self.training, self.inplace)

    def extra_repr(self) -> str:
        """Show the options."""
        return f"p={self.p}, inplace={self.inplace}"
