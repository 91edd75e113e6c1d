"""Dropout."""

from __future__ import annotations

from torchlette import _C
from torchlette.nn import functional as F
from torchlette.nn.modules.module import Module

__all__ = ["AlphaDropout", "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "FeatureAlphaDropout"]


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


class Dropout1d(Dropout):
    """Zero channels of [batch, channels, length]. Arguments as for :class:`Dropout`."""

    def forward(self, input: _C.Tensor) -> _C.Tensor:
        """Drop channels of ``input``; in evaluation mode return it."""
        return F.dropout1d(input, self.p, self.training, self.inplace)


class Dropout2d(Dropout):
    """Zero channels of [batch, channels, height, width]. Arguments as for :class:`Dropout`."""

    def forward(self, input: _C.Tensor) -> _C.Tensor:
        """Drop channels of ``input``; in evaluation mode return it."""
        return F.dropout2d(input, self.p, self.training, self.inplace)


class Dropout3d(Dropout):
    """Zero channels of [batch, channels, depth, height, width]. Arguments as for :class:`Dropout`."""

    def forward(self, input: _C.Tensor) -> _C.Tensor:
        """Drop channels of ``input``; in evaluation mode return it."""
        return F.dropout3d(input, self.p, self.training, self.inplace)


class AlphaDropout(Dropout):
    """Drop elements so that zero mean and unit variance stay, for nets of selu. Arguments as for :class:`Dropout`."""

    def forward(self, input: _C.Tensor) -> _C.Tensor:
        """Drop channels of ``input``; in evaluation mode return it."""
        return F.alpha_dropout(input, self.p, self.training, self.inplace)


class FeatureAlphaDropout(Dropout):
    """Drop channels as :class:`AlphaDropout` drops elements. Arguments as for :class:`Dropout`."""

    def forward(self, input: _C.Tensor) -> _C.Tensor:
        """Drop channels of ``input``; in evaluation mode return it."""
        return F.feature_alpha_dropout(input, self.p, self.training, self.inplace)
