"""Losses under PyTorch's names at the top level: a reduction is a number: 0 for none, 1 for the mean, 2 for the sum."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from torchlette import _C

__all__ = [
    "binary_cross_entropy_with_logits",
    "cosine_embedding_loss",
    "ctc_loss",
    "hinge_embedding_loss",
    "kl_div",
    "margin_ranking_loss",
    "poisson_nll_loss",
    "triplet_margin_loss",
]

Tensor = _C.Tensor
NONE, MEAN, SUM = range(3)


def _name(reduction: int) -> Literal["none", "mean", "sum"]:
    """Return the reduction's name in ``nn.functional``."""
    if isinstance(reduction, str) or not NONE <= reduction <= SUM:
        raise TypeError(f"reduction must be 0 (none), 1 (mean) or 2 (sum), got {reduction!r}")
    names: tuple[Literal["none", "mean", "sum"], ...] = ("none", "mean", "sum")
    return names[reduction]


def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    pos_weight: Tensor | None = None,
    reduction: int = MEAN,
) -> Tensor:
    """Return ``nn.functional.binary_cross_entropy_with_logits``.

    Args:
        input: Logits, of any shape.
        target: Probabilities, of the shape of ``input``.
        weight: Factors that broadcast to the losses; None for none.
        pos_weight: Factors of the positive examples; None for none.
        reduction: 0: none, 1: mean, 2: sum.
    """
    from torchlette.nn import functional

    return functional.binary_cross_entropy_with_logits(
        input, target, weight, reduction=_name(reduction), pos_weight=pos_weight
    )


def kl_div(input: Tensor, target: Tensor, reduction: int = MEAN, *, log_target: bool = False) -> Tensor:
    """Return ``nn.functional.kl_div``.

    Args:
        input: Log probabilities, of any shape.
        target: Probabilities, of the shape of ``input``.
        reduction: 0: none, 1: mean, 2: sum.
        log_target: Whether the target is a logarithm too.
    """
    return _C.kl_div(input, target, reduction=_name(reduction), log_target=log_target)


def margin_ranking_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int = MEAN
) -> Tensor:
    """Return ``nn.functional.margin_ranking_loss``.

    Args:
        input1: The first values.
        input2: The second values.
        target: 1 where the first is to be larger, -1 where the second is.
        margin: The difference that is asked.
        reduction: 0: none, 1: mean, 2: sum.
    """
    from torchlette.nn import functional

    return functional.margin_ranking_loss(input1, input2, target, margin, reduction=_name(reduction))


def cosine_embedding_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int = MEAN
) -> Tensor:
    """Return ``nn.functional.cosine_embedding_loss``.

    Args:
        input1: The first vectors.
        input2: The second vectors.
        target: 1 for pairs that are to be alike, -1 for others.
        margin: The cosine that unlike pairs may have.
        reduction: 0: none, 1: mean, 2: sum.
    """
    from torchlette.nn import functional

    return functional.cosine_embedding_loss(input1, input2, target, margin, reduction=_name(reduction))


def hinge_embedding_loss(input: Tensor, target: Tensor, margin: float = 1.0, reduction: int = MEAN) -> Tensor:
    """Return ``nn.functional.hinge_embedding_loss``.

    Args:
        input: Distances.
        target: 1 for pairs that are to be alike, -1 for others.
        margin: The distance that unlike pairs are to have.
        reduction: 0: none, 1: mean, 2: sum.
    """
    from torchlette.nn import functional

    return functional.hinge_embedding_loss(input, target, margin, reduction=_name(reduction))


def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2.0,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: int = MEAN,
) -> Tensor:
    """Return ``nn.functional.triplet_margin_loss``.

    Args:
        anchor: Vectors.
        positive: Vectors that are to be near.
        negative: Vectors that are to be far.
        margin: The difference of the distances that is asked.
        p: Order of the norm.
        eps: Added to differences.
        swap: Whether the distance of positive and negative counts too.
        reduction: 0: none, 1: mean, 2: sum.
    """
    from torchlette.nn import functional

    return functional.triplet_margin_loss(anchor, positive, negative, margin, p, eps, swap, reduction=_name(reduction))


def poisson_nll_loss(input: Tensor, target: Tensor, log_input: bool, full: bool, eps: float, reduction: int) -> Tensor:
    """Return ``nn.functional.poisson_nll_loss``.

    Args:
        input: Expected counts, or their logarithms.
        target: Counts.
        log_input: Whether the input is a logarithm.
        full: Whether Stirling's approximation of the constant term is added.
        eps: Added to the input before its logarithm.
        reduction: 0: none, 1: mean, 2: sum.
    """
    from torchlette.nn import functional

    return functional.poisson_nll_loss(input, target, log_input, full, eps=eps, reduction=_name(reduction))


def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Tensor | Sequence[int],
    target_lengths: Tensor | Sequence[int],
    blank: int = 0,
    reduction: int = MEAN,
    zero_infinity: bool = False,
) -> Tensor:
    """Return ``nn.functional.ctc_loss``.

    Args:
        log_probs: Log probabilities, (time, batch, classes) or (time, classes).
        targets: Classes, (batch, length) or all in one vector.
        input_lengths: Steps of each sequence.
        target_lengths: Classes of each target.
        blank: The class of no label.
        reduction: 0: none, 1: mean, 2: sum.
        zero_infinity: Whether infinite losses count as 0.
    """
    from torchlette.nn import functional

    return functional.ctc_loss(
        log_probs, targets, input_lengths, target_lengths, blank, _name(reduction), zero_infinity
    )
