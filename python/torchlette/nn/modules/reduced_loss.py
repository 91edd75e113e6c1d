"""The base classes of losses: their reductions and weights."""

from __future__ import annotations

from torchlette import _C
from torchlette.nn.functional.loss import reduction_name
from torchlette.nn.modules.module import Module

Tensor = _C.Tensor


class _Loss(Module):
    """A loss with a reduction: "none", "mean" or "sum"."""

    reduction: str

    def __init__(self, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean") -> None:
        """Choose the reduction; the two flags are its older form."""
        super().__init__()
        legacy = size_average is not None or reduce is not None
        self.reduction = reduction_name(size_average, reduce, reduction) if legacy else reduction


class _WeightedLoss(_Loss):
    """A loss with a weight per class or element, kept as a buffer."""

    weight: Tensor | None

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        """Register the weight."""
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)
