"""Hashes of tensors."""

from __future__ import annotations

from collections.abc import Sequence

from torchlette import _C
from torchlette._ops.indexing import _into

__all__ = ["hash_tensor"]

Tensor = _C.Tensor


def _words(input: Tensor) -> Tensor:
    """Return the elements widened to 64 bits, as uint64."""
    if input.is_complex():
        raise NotImplementedError(f"\"xor_sum_{input.device.type}\" not implemented for '{input.dtype}'")
    if input.dtype.is_floating_point:
        return input.detach().to(_C.float64).contiguous().view(_C.uint64)
    return input.to(_C.int64).to(_C.uint64)


def hash_tensor(
    input: Tensor, dim: int | Sequence[int] = (), keepdim: bool = False, *, mode: int = 0, out: Tensor | None = None
) -> Tensor:
    """Return the exclusive or of the elements' bits, as uint64: floats as float64, others as int64.

    Args:
        input: Real numbers, of any shape, on the CPU.
        dim: The dims that are reduced; none given: all.
        keepdim: Whether they stay, with size 1.
        mode: Only 0.
        out: Gets the result.

    Raises:
        IndexError: If a dim is out of range or has no elements.
        RuntimeError: If a dim is given twice, for another mode, or if all dims of no elements are reduced.

    Example:
        >>> torchlette.hash_tensor(torchlette.tensor([1, 2, 4])).item()
        7
    """
    if mode != 0:
        raise RuntimeError(f"Unknown hash_tensor mode: {mode}")
    rank = max(input.dim(), 1)
    given = [dim] if isinstance(dim, int) else list(dim)
    for d in given:
        if not -rank <= d < rank:
            raise IndexError(f"Dimension out of range (expected to be in range of [{-rank}, {rank - 1}], but got {d})")
    dims = sorted({d % rank for d in given}) if given else list(range(rank))
    if len(dims) < len(given):
        raise RuntimeError(f"a dim appears multiple times in the list of dims: {given}")
    if not given and input.numel() == 0:
        raise RuntimeError(
            "hash_tensor: Expected reduction dim to be specified for input.numel() == 0. "
            "Specify the reduction dim with the 'dim' argument."
        )
    words = _words(input.reshape(1) if input.dim() == 0 else input)
    for d in dims:
        if words.shape[d] == 0:
            raise IndexError(f"hash_tensor: Expected reduction dim {d} to have non-zero size.")
        while (n := words.shape[d]) > 1:
            half = n // 2
            folded = words.narrow(d, 0, half) ^ words.narrow(d, half, half)
            words = _C.cat([folded, words.narrow(d, n - 1, 1)], d) if n % 2 else folded
    kept = [1 if d in dims else n for d, n in enumerate(words.shape)]
    shape = kept if keepdim else [n for d, n in enumerate(words.shape) if d not in dims]
    return _into(words.reshape(shape if input.dim() else []), out, "hash_tensor")
