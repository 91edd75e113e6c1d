"""Softmax over many classes, the frequent ones first."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from torchlette import _C
from torchlette.nn import functional as F
from torchlette.nn.modules.container import ModuleList, Sequential
from torchlette.nn.modules.linear import Linear
from torchlette.nn.modules.module import Module

__all__ = ["AdaptiveLogSoftmaxWithLoss"]

Tensor = _C.Tensor

_Result = namedtuple("_ASMoutput", ["output", "loss"])


class AdaptiveLogSoftmaxWithLoss(Module):
    """Log softmax in two steps: first over the frequent classes and the clusters of rare classes, then within a cluster
    (E. Grave et al., 2017).

    Args:
        in_features: Features of the input.
        n_classes: Number of classes, sorted by falling frequency.
        cutoffs: The first class of each cluster, rising.
        div_value: The ratio of the features of a cluster's projection to those of the next cluster.
        head_bias: Whether the first step has a bias.
        device: Device of the parameters.
        dtype: Dtype of the parameters.
    """

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Sequence[int],
        div_value: float = 4.0,
        head_bias: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        """Make the layers of both steps."""
        super().__init__()
        cutoffs = list(cutoffs)
        if not cutoffs:
            raise ValueError("cutoffs should be a sequence of length larger than 0")
        if (
            cutoffs != sorted(set(cutoffs))
            or cutoffs[0] <= 0
            or cutoffs[-1] > n_classes - 1
            or any(int(c) != c for c in cutoffs)
        ):
            raise ValueError(
                "cutoffs should be a sequence of unique, positive integers sorted in an increasing order, where each "
                "value is between 1 and n_classes-1"
            )
        self.in_features, self.n_classes, self.cutoffs = in_features, n_classes, [*cutoffs, n_classes]
        self.div_value, self.head_bias = div_value, head_bias
        self.shortlist_size, self.n_clusters = cutoffs[0], len(cutoffs)
        self.head_size = self.shortlist_size + self.n_clusters
        made = {"device": device, "dtype": dtype}
        self.head = Linear(in_features, self.head_size, bias=head_bias, **made)
        self.tail = ModuleList()
        for i, (low, high) in enumerate(pairwise(self.cutoffs)):
            features = int(in_features // (div_value ** (i + 1)))
            self.tail.append(
                Sequential(
                    Linear(in_features, features, bias=False, **made), Linear(features, high - low, bias=False, **made)
                )
            )

    def reset_parameters(self) -> None:
        """Draw all weights again."""
        self.head.reset_parameters()
        for first, second in self.tail:
            first.reset_parameters()
            second.reset_parameters()

    def forward(self, input_: Tensor, target_: Tensor) -> Any:
        """Return the log probabilities of the targets as ``output`` and minus their mean as ``loss``; targets are read.

        ``input_`` is [batch, features] and ``target_`` [batch], or both without the batch.
        """
        if target_.dim() == 1:
            if input_.shape[0] != target_.shape[0]:
                raise RuntimeError("Input and target should have the same size in the batch dimension.")
            if input_.dim() != 2:
                raise RuntimeError(
                    f"1D target tensor expects 2D input tensors, but found inputs with size {input_.size()}"
                )
        elif target_.dim() != 0:
            raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
        elif input_.dim() != 1:
            raise RuntimeError(f"0D target tensor expects 1D input tensors, but found inputs with size {input_.size()}")
        input, target = (input_, target_) if target_.dim() else (input_.unsqueeze(0), target_.unsqueeze(0))
        classes = target.tolist()
        if any(not 0 <= c < self.n_classes for c in classes):
            raise RuntimeError(
                f"Target values should be in [0, {self.n_classes - 1}], but values in range [{min(classes)}, "
                f"{max(classes)}] were found. "
            )
        head = F.log_softmax(self.head(input), 1)
        cluster = [
            next((k + 1 for k, (low, high) in enumerate(pairwise(self.cutoffs)) if low <= c < high), 0) for c in classes
        ]
        column = [self.shortlist_size + k - 1 if k else c for k, c in zip(cluster, classes, strict=True)]
        output = head.gather(1, _C.tensor(column, device=target.device).unsqueeze(1)).squeeze(1)
        for k, (low, _) in enumerate(pairwise(self.cutoffs)):
            rows = [i for i, of in enumerate(cluster) if of == k + 1]
            if rows:
                index = _C.tensor(rows, device=target.device)
                local = F.log_softmax(self.tail[k](input.index_select(0, index)), 1)
                output = output.index_add(
                    0, index, local.gather(1, (target.index_select(0, index) - low).unsqueeze(1)).squeeze(1)
                )
        loss = (-output).mean()
        return _Result(output if target_.dim() else output.squeeze(0), loss)

    def log_prob(self, input: Tensor) -> Tensor:
        """Return the log probabilities of all classes: [batch, features] -> [batch, classes]."""
        head = F.log_softmax(self.head(input), 1)
        tails = [
            F.log_softmax(tail(input), 1) + head[:, self.shortlist_size + k].unsqueeze(1)
            for k, tail in enumerate(self.tail)
        ]
        return _C.cat([head[:, : self.shortlist_size], *tails], 1)

    def predict(self, input: Tensor) -> Tensor:
        """Return the likeliest class of each input: [batch, features] -> [batch]."""
        head = self.head(input).argmax(1)
        return _C.where(head >= self.shortlist_size, self.log_prob(input).argmax(1), head)
