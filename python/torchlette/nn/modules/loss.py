"""Losses as modules."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from torchlette import _C
from torchlette.nn import functional as F
from torchlette.nn.modules.linear import Linear
from torchlette.nn.modules.reduced_loss import _Loss, _WeightedLoss

__all__ = [
    "BCELoss",
    "BCEWithLogitsLoss",
    "CTCLoss",
    "CosineEmbeddingLoss",
    "CrossEntropyLoss",
    "GaussianNLLLoss",
    "HingeEmbeddingLoss",
    "HuberLoss",
    "KLDivLoss",
    "L1Loss",
    "LinearCrossEntropyLoss",
    "MSELoss",
    "MarginRankingLoss",
    "MultiLabelMarginLoss",
    "MultiLabelSoftMarginLoss",
    "MultiMarginLoss",
    "NLLLoss",
    "NLLLoss2d",
    "PoissonNLLLoss",
    "SmoothL1Loss",
    "SoftMarginLoss",
    "TripletMarginLoss",
    "TripletMarginWithDistanceLoss",
]

Tensor = _C.Tensor


class L1Loss(_Loss):
    """Absolute error."""

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Return the loss."""
        return F.l1_loss(input, target, reduction=self.reduction)


class MSELoss(_Loss):
    """Squared error."""

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Return the loss."""
        return F.mse_loss(input, target, reduction=self.reduction)


class SmoothL1Loss(_Loss):
    """Squared error over ``2 * beta`` below ``beta``, absolute error less ``beta / 2`` above.

    Args:
        size_average: An old flag in place of ``reduction``.
        reduce: An old flag in place of ``reduction``.
        reduction: "none", "mean" or "sum": what becomes of the losses.
        beta: Below this difference the loss is quadratic.
    """

    def __init__(
        self, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean", beta: float = 1.0
    ) -> None:
        """Choose where the loss becomes linear."""
        super().__init__(size_average, reduce, reduction)
        self.beta = beta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Return the loss."""
        return F.smooth_l1_loss(input, target, reduction=self.reduction, beta=self.beta)


class HuberLoss(_Loss):
    """Half the squared error below ``delta``, linear above."""

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        """Choose where the loss becomes linear."""
        super().__init__(reduction=reduction)
        self.delta = delta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Return the loss."""
        return F.huber_loss(input, target, reduction=self.reduction, delta=self.delta)


class KLDivLoss(_Loss):
    """Kullback-Leibler divergence of targets from log probabilities.

    Args:
        size_average: An old flag in place of ``reduction``.
        reduce: An old flag in place of ``reduction``.
        reduction: "none", "mean", "sum" or "batchmean", the sum over the batch's size.
        log_target: Whether the target is a logarithm too.
    """

    def __init__(
        self,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        log_target: bool = False,
    ) -> None:
        """Choose whether targets are logarithms."""
        super().__init__(size_average, reduce, reduction)
        self.log_target = log_target

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Return the loss."""
        return F.kl_div(input, target, reduction=self.reduction, log_target=self.log_target)


class NLLLoss(_WeightedLoss):
    """Negative of the log probability at the target class.

    Args:
        weight: A factor of each class; None for none.
        size_average: An old flag in place of ``reduction``.
        ignore_index: Targets of this class are ignored.
        reduce: An old flag in place of ``reduction``.
        reduction: "none", "mean" or "sum": what becomes of the losses.
    """

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        """Choose the class to ignore."""
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Return the loss."""
        return F.nll_loss(input, target, weight=self.weight, ignore_index=self.ignore_index, reduction=self.reduction)


class NLLLoss2d(NLLLoss):
    """:class:`NLLLoss` of images, under its old name."""


class CrossEntropyLoss(_WeightedLoss):
    """Cross entropy of logits against class indices or probabilities.

    Args:
        weight: A factor of each class; None for none.
        size_average: An old flag in place of ``reduction``.
        ignore_index: Targets of this class are ignored.
        reduce: An old flag in place of ``reduction``.
        reduction: "none", "mean" or "sum": what becomes of the losses.
        label_smoothing: The share of the probability that is spread over all classes, from 0 to 1.
    """

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        """Choose the class to ignore and the smoothing."""
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Return the loss."""
        return F.cross_entropy(
            input,
            target,
            weight=self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
            label_smoothing=self.label_smoothing,
        )


class LinearCrossEntropyLoss(_WeightedLoss):
    """Cross entropy of the logits of a linear layer that the loss owns.

    Args:
        in_features: Features of the input.
        num_classes: Number of classes.
        out_features: Further dims of the loss.
        bias: Whether the layer has a bias.
        device: Device of the layer.
        dtype: Dtype of the layer.
        reduction: "none", "mean" or "sum".
        weight: Factor of each class.
        ignore_index: The class to ignore; -100 if None.
        label_smoothing: See :func:`torchlette.nn.functional.cross_entropy`.
        options: Accepted: PyTorch's ways to need less memory, which change no value.
    """

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        *,
        out_features: tuple[int, ...] = (),
        bias: bool = False,
        device: Any = None,
        dtype: Any = None,
        reduction: str = "mean",
        weight: Tensor | None = None,
        ignore_index: int | None = None,
        label_smoothing: float = 0.0,
        options: Any = None,
    ) -> None:
        """Make the layer."""
        if weight is not None and tuple(weight.shape) != (num_classes,):
            raise RuntimeError(f"expected weight shape to be {(num_classes,)}, got {tuple(weight.shape)}")
        if not 0 <= label_smoothing <= 1:
            raise RuntimeError(f"expected label_smoothing to be in range [0, 1], got {label_smoothing}")
        super().__init__(weight, None, None, reduction)
        self.num_classes, self.out_features, self.ignore_index, self.label_smoothing = (
            num_classes,
            out_features,
            ignore_index,
            label_smoothing,
        )
        self.linear = Linear(in_features, math.prod(out_features, start=num_classes), bias, device, dtype)
        self.options = options

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Return the loss."""
        shape = (self.num_classes, *self.out_features)
        return F.linear_cross_entropy(
            input,
            self.linear.weight.reshape(*shape, self.linear.in_features),
            target,
            linear_bias=None if self.linear.bias is None else self.linear.bias.reshape(shape),
            weight=self.weight,
            reduction=self.reduction,
            ignore_index=self.ignore_index,
            label_smoothing=self.label_smoothing,
            options=self.options,
        )

    def extra_repr(self) -> str:
        """Show the options."""
        return (
            f"in_features={self.linear.in_features}, num_classes={self.num_classes}, out_features={self.out_features}, "
            f"bias={self.linear.bias is not None}, reduction={self.reduction}, ignore_index={self.ignore_index}, "
            f"label_smoothing={self.label_smoothing}, options={self.options}"
        )


class CTCLoss(_Loss):
    """Negative log likelihood of label sequences over all alignments; see :func:`torchlette.nn.functional.ctc_loss`.

    Args:
        blank: The class of no label.
        reduction: "none", "mean" or "sum": what becomes of the losses.
        zero_infinity: Whether infinite losses count as zero.
    """

    def __init__(self, blank: int = 0, reduction: str = "mean", zero_infinity: bool = False) -> None:
        """Choose the class of no label, and whether infinite losses count as zero."""
        super().__init__(reduction=reduction)
        self.blank = blank
        self.zero_infinity = zero_infinity

    def forward(self, log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any) -> Tensor:
        """Return the loss.

        Args:
            log_probs: Log probabilities of the classes, [steps, batch, classes] or [steps, classes].
            targets: Labels, [batch, longest] or all of them in one vector, int64.
            input_lengths: Steps of each sample.
            target_lengths: Labels of each sample.
        """
        return F.ctc_loss(
            log_probs, targets, input_lengths, target_lengths, self.blank, self.reduction, self.zero_infinity
        )


class BCELoss(_WeightedLoss):
    """Cross entropy of probabilities against targets in [0, 1]."""

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Return the loss."""
        return F.binary_cross_entropy(input, target, weight=self.weight, reduction=self.reduction)


class BCEWithLogitsLoss(_Loss):
    """Cross entropy of ``sigmoid(input)`` against targets in [0, 1].

    Args:
        weight: Factors that broadcast to the losses; None for none.
        size_average: An old flag in place of ``reduction``.
        reduce: An old flag in place of ``reduction``.
        reduction: "none", "mean" or "sum": what becomes of the losses.
        pos_weight: Factors of the positive examples; None for none.
    """

    weight: Tensor | None
    pos_weight: Tensor | None

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        pos_weight: Tensor | None = None,
    ) -> None:
        """Register the weights."""
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)
        self.register_buffer("pos_weight", pos_weight)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Return the loss."""
        return F.binary_cross_entropy_with_logits(
            input, target, self.weight, pos_weight=self.pos_weight, reduction=self.reduction
        )


class _MarginLoss(_Loss):
    """A loss with a margin."""

    _MARGIN: float

    def __init__(
        self,
        margin: float | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        """Choose the margin."""
        super().__init__(size_average, reduce, reduction)
        self.margin = self._MARGIN if margin is None else margin


class MarginRankingLoss(_MarginLoss):
    """``max(0, margin - target * (input1 - input2))``; the margin is 0 by default."""

    _MARGIN = 0.0

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        """Return the loss.

        Args:
            input1: The first of each pair.
            input2: The second of each pair.
            target: 1 where the first shall be greater, -1 where the second shall.
        """
        return F.margin_ranking_loss(input1, input2, target, self.margin, reduction=self.reduction)


class HingeEmbeddingLoss(_MarginLoss):
    """The input where the target is 1, ``max(0, margin - input)`` where it is -1; the margin is 1 by default."""

    _MARGIN = 1.0

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Return the loss."""
        return F.hinge_embedding_loss(input, target, self.margin, reduction=self.reduction)


class CosineEmbeddingLoss(_MarginLoss):
    """``1 - cosine`` where the target is 1, ``max(0, cosine - margin)`` where it is -1; the margin is 0 by default."""

    _MARGIN = 0.0

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        """Return the loss.

        Args:
            input1: [batch, features].
            input2: [batch, features].
            target: 1 where a pair shall be alike, -1 where it shall not.
        """
        return F.cosine_embedding_loss(input1, input2, target, self.margin, reduction=self.reduction)


class SoftMarginLoss(_Loss):
    """``log(1 + exp(-target * input))``."""

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Return the loss."""
        return F.soft_margin_loss(input, target, reduction=self.reduction)


class MultiLabelMarginLoss(_Loss):
    """Margins between labels and all other classes."""

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Return the loss."""
        return F.multilabel_margin_loss(input, target, reduction=self.reduction)


class MultiLabelSoftMarginLoss(_WeightedLoss):
    """Binary cross entropy of each class, of logits."""

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Return the loss."""
        return F.multilabel_soft_margin_loss(input, target, weight=self.weight, reduction=self.reduction)


class MultiMarginLoss(_WeightedLoss):
    """Margins between the target class and all others.

    Args:
        p: 1 or 2: the power of a margin that is missed.
        margin: The distance from which a pair costs nothing.
        weight: A factor of each class; None for none.
        size_average: An old flag in place of ``reduction``.
        reduce: An old flag in place of ``reduction``.
        reduction: "none", "mean" or "sum": what becomes of the losses.
    """

    def __init__(
        self,
        p: int = 1,
        margin: float = 1.0,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        """Choose exponent and margin."""
        super().__init__(weight, size_average, reduce, reduction)
        if p not in (1, 2):
            raise ValueError("only p == 1 and p == 2 supported")
        if weight is not None and weight.dim() != 1:
            raise ValueError(f"MultiMarginLoss: expected weight to be None or 1D tensor, got {weight.dim()}D instead")
        self.p = p
        self.margin = margin

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Return the loss."""
        return F.multi_margin_loss(input, target, self.p, self.margin, self.weight, reduction=self.reduction)


class TripletMarginLoss(_Loss):
    """``max(0, margin + |anchor - positive| - |anchor - negative|)``.

    Args:
        margin: The distance from which a pair costs nothing.
        p: The order of the norm of differences.
        eps: Keeps logarithms and divisors from zero.
        swap: Whether the distance from positive to negative counts if it is the lesser one.
        size_average: An old flag in place of ``reduction``.
        reduce: An old flag in place of ``reduction``.
        reduction: "none", "mean" or "sum": what becomes of the losses.
    """

    def __init__(
        self,
        margin: float = 1.0,
        p: float = 2.0,
        eps: float = 1e-6,
        swap: bool = False,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        """Choose margin and norm."""
        super().__init__(size_average, reduce, reduction)
        if margin <= 0:
            raise ValueError(f"TripletMarginLoss: expected margin to be greater than 0, got {margin} instead")
        self.margin = margin
        self.p = p
        self.eps = eps
        self.swap = swap

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        """Return the loss.

        Args:
            anchor: [batch, features].
            positive: What shall be near the anchor, [batch, features].
            negative: What shall be far from the anchor, [batch, features].
        """
        return F.triplet_margin_loss(
            anchor, positive, negative, self.margin, self.p, self.eps, self.swap, reduction=self.reduction
        )


class TripletMarginWithDistanceLoss(_Loss):
    """:class:`TripletMarginLoss` with any distance function, by default the Euclidean distance.

    Args:
        distance_function: From two batches to distances; None: the Euclidean distance.
        margin: The distance from which a pair costs nothing.
        swap: Whether the distance from positive to negative counts if it is the lesser one.
        reduction: "none", "mean" or "sum": what becomes of the losses.
    """

    def __init__(
        self,
        *,
        distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
        margin: float = 1.0,
        swap: bool = False,
        reduction: str = "mean",
    ) -> None:
        """Choose margin and distance."""
        super().__init__(None, None, reduction)
        if margin <= 0:
            raise ValueError(
                f"TripletMarginWithDistanceLoss: expected margin to be greater than 0, got {margin} instead"
            )
        self.distance_function = F.pairwise_distance if distance_function is None else distance_function
        self.margin = margin
        self.swap = swap

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        """Return the loss.

        Args:
            anchor: [batch, features].
            positive: What shall be near the anchor, [batch, features].
            negative: What shall be far from the anchor, [batch, features].
        """
        options = {
            "distance_function": self.distance_function,
            "margin": self.margin,
            "swap": self.swap,
            "reduction": self.reduction,
        }
        return F.triplet_margin_with_distance_loss(anchor, positive, negative, **options)


class PoissonNLLLoss(_Loss):
    """Negative log likelihood of counts under Poisson's distribution.

    Args:
        log_input: Whether ``input`` is the logarithm of the rate.
        full: Whether to add the constant term.
        size_average: An old flag in place of ``reduction``.
        eps: Keeps logarithms and divisors from zero.
        reduce: An old flag in place of ``reduction``.
        reduction: "none", "mean" or "sum": what becomes of the losses.
    """

    def __init__(
        self,
        log_input: bool = True,
        full: bool = False,
        size_average: bool | None = None,
        eps: float = 1e-8,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        """Choose what the input is."""
        super().__init__(size_average, reduce, reduction)
        self.log_input = log_input
        self.full = full
        self.eps = eps

    def forward(self, log_input: Tensor, target: Tensor) -> Tensor:
        """Return the loss."""
        return F.poisson_nll_loss(log_input, target, self.log_input, self.full, eps=self.eps, reduction=self.reduction)


class GaussianNLLLoss(_Loss):
    """Negative log likelihood under normal distributions.

    Args:
        full: Whether to add the constant term.
        eps: Keeps logarithms and divisors from zero.
        reduction: "none", "mean" or "sum": what becomes of the losses.
    """

    def __init__(self, *, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> None:
        """Choose the least variance."""
        super().__init__(None, None, reduction)
        self.full = full
        self.eps = eps

    def forward(self, input: Tensor, target: Tensor, var: Tensor | float) -> Tensor:
        """Return the loss.

        Args:
            input: Rates or means, of any shape.
            target: The observed values, of the shape of ``input``.
            var: Variances, of the shape of ``input`` or with 1 as the last size.
        """
        return F.gaussian_nll_loss(input, target, var, self.full, self.eps, self.reduction)
