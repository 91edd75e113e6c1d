"""Linear and bilinear maps, distances and similarities of vectors; part of :mod:`torchlette.nn.functional`."""

from __future__ import annotations

from torchlette import _C
from torchlette._runtime.casts import autocast_inputs

__all__ = ["bilinear", "cosine_similarity", "linear", "pairwise_distance", "pdist"]

Tensor = _C.Tensor


# Operators whose signature already equals PyTorch's.
linear = _C.linear
cosine_similarity = _C.cosine_similarity
pdist = _C.pdist


@autocast_inputs(gpu="widest")
def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return ``input1^T weight[k] input2 + bias[k]`` for each k.

    Shapes: [..., in1], [..., in2], [out, in1, in2] and [out] give [..., out].

    Args:
        input1: [..., in1].
        input2: [..., in2].
        weight: [out, in1, in2].
        bias: [out]; None for none.
    """
    if input1.shape[:-1] != input2.shape[:-1]:
        raise RuntimeError(
            f"bilinear(): input batch dimensions do not match: got {list(input1.shape)} and {list(input2.shape)}"
        )
    outs, first, second = weight.shape
    for k, (x, size) in enumerate(((input1, first), (input2, second)), 1):
        if x.shape[-1] != size:
            raise RuntimeError(
                f"bilinear(): input{k} size does not match weight size: got {x.shape[-1]} but expected {size}"
            )
    left = _C.linear(input1, weight.transpose(1, 2).reshape(outs * second, first)).reshape(
        *input1.shape[:-1], outs, second
    )
    result = (left * input2.unsqueeze(-2)).sum(-1, dtype=left.dtype)
    return result if bias is None else result + bias


pairwise_distance = _C.pairwise_distance
