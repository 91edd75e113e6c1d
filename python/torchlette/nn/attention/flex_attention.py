"""Attention whose scores and mask are functions, under the names of ``torch.nn.attention.flex_attention``.

A mask or score function is called once, with index tensors that broadcast: batches of shape (B, 1, 1, 1), heads (1, H,
1, 1), queries (1, 1, Q, 1) and keys (1, 1, 1, K). Functions made of operators, ``where`` and tensor indexing then
compute all elements at once.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any, NamedTuple

from torchlette import _C
from torchlette._runtime.dtypes import promote_types
from torchlette.nn import functional as F

__all__ = [
    "AuxOutput",
    "AuxRequest",
    "BlockMask",
    "and_masks",
    "create_block_mask",
    "create_mask",
    "flex_attention",
    "noop_mask",
    "or_masks",
]

Tensor = _C.Tensor
Mask = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
Score = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]
_mask_mod_signature, _score_mod_signature = Mask, Score
_DEFAULT_SPARSE_BLOCK_SIZE = 128


class AuxRequest(NamedTuple):
    """The auxiliary results requested from :func:`flex_attention`."""

    lse: bool = False
    max_scores: bool = False


class AuxOutput(NamedTuple):
    """The results requested by an :class:`AuxRequest`, each with one element for each batch, head and query."""

    lse: Tensor | None = None
    max_scores: Tensor | None = None


def noop_mask(batch: Tensor, head: Tensor, token_q: Tensor, token_kv: Tensor) -> Tensor:
    """Let every query see every key.

    Args:
        batch: Index of the batch.
        head: Index of the head.
        token_q: Index of the query.
        token_kv: Index of the key.
    """
    return _C.ones((), dtype=_C.bool, device=token_q.device)


def and_masks(*mask_mods: Mask) -> Mask:
    """Return the intersection of masks."""
    return _joined(mask_mods, _C.logical_and, True)


def or_masks(*mask_mods: Mask) -> Mask:
    """Return the union of masks."""
    return _joined(mask_mods, _C.logical_or, False)


def _joined(mask_mods: tuple[Mask, ...], join: Callable[[Tensor, Tensor], Tensor], neutral: bool) -> Mask:
    if not all(callable(mod) for mod in mask_mods):
        raise RuntimeError(f"All inputs should be callable mask_mods: {mask_mods}")

    def joined(b: Tensor, h: Tensor, q: Tensor, kv: Tensor) -> Tensor:
        result = _C.full((), neutral, dtype=_C.bool, device=q.device)
        for mod in mask_mods:
            result = join(result, mod(b, h, q, kv))
        return result

    return joined


def _indices(sizes: tuple[int, ...], device: Any) -> list[Tensor]:
    """Return the index of each dimension, in the shape in which it broadcasts."""
    return [
        _C.arange(n, device=device).reshape([-1 if i == d else 1 for i in range(len(sizes))])
        for d, n in enumerate(sizes)
    ]


def create_mask(mod_fn: Any, B: int | None, H: int | None, Q_LEN: int, KV_LEN: int, device: Any = None) -> Tensor:
    """Evaluate a mask function at all indices: bool of shape (B, H, Q_LEN, KV_LEN).

    A score function, recognised by its five arguments, is evaluated for scores of zero.

    Args:
        mod_fn: From batch, head, query and key indices to a bool, or from the score and these to a score.
        B: The batch; None: 1.
        H: The heads; None: 1.
        Q_LEN: The number of queries.
        KV_LEN: The number of keys.
        device: Where the mask is made; None: the default device.
    """
    sizes = (B or 1, H or 1, Q_LEN, KV_LEN)
    indices = _indices(sizes, device)
    if len(inspect.signature(mod_fn).parameters) == len(sizes) + 1:
        return mod_fn(_C.zeros(sizes, device=device), *indices).expand(sizes)
    return mod_fn(*indices).expand(sizes)


class BlockMask:
    """A mask function and the lengths it is for; made by :func:`create_block_mask`.

    Args:
        mask_mod: From batch, head, query and key indices to a bool: whether the query sees the key.
        shape: [batch, heads, queries, keys].
        block_size: Kept for programs that read it.
        device: Where the mask is made; None: the default device.
    """

    def __init__(
        self, mask_mod: Mask, shape: tuple[int, int, int, int], block_size: tuple[int, int], device: Any
    ) -> None:
        """Store the mask function; it is evaluated at each use, so ``mask_mod`` may be replaced."""
        self.mask_mod = mask_mod
        self.shape = shape
        self.BLOCK_SIZE = block_size
        self.seq_lengths = shape[2:]
        self.device = device
        self._evaluated: tuple[Mask, Tensor] | None = None

    def __repr__(self) -> str:
        return f"BlockMask(shape={self.shape}, sparsity={self.sparsity():.2f}%)"

    def _dense(self) -> Tensor:
        """Return the mask for each pair, bool."""
        if self._evaluated is None or self._evaluated[0] is not self.mask_mod:
            self._evaluated = (
                self.mask_mod,
                create_mask(self.mask_mod, *self.shape[:2], *self.seq_lengths, device=self.device),
            )
        return self._evaluated[1]

    def numel(self) -> int:
        """Return the number of (query, key) pairs."""
        return math.prod(self.shape)

    def to_dense(self) -> Tensor:
        """Return an int32 tensor with a one for each block in which a query sees a key."""
        b, h, q, kv = self.shape
        rows, columns = self.BLOCK_SIZE
        whole = F.pad(self._dense().to(_C.int32), (0, -kv % columns, 0, -q % rows))
        return whole.reshape(b, h, -(-q // rows), rows, -(-kv // columns), columns).amax((3, 5))

    def sparsity(self) -> float:
        """Return the percentage of blocks in which no query sees a key."""
        blocks = self.to_dense()
        return 100.0 * (1.0 - blocks.sum().item() / blocks.numel())

    def to(self, device: Any) -> BlockMask:
        """Return the mask on a device."""
        return BlockMask(self.mask_mod, self.shape, self.BLOCK_SIZE, device)


def create_block_mask(
    mask_mod: Mask,
    B: int | None,
    H: int | None,
    Q_LEN: int,
    KV_LEN: int,
    device: Any = None,
    BLOCK_SIZE: int | tuple[int, int] = _DEFAULT_SPARSE_BLOCK_SIZE,
    _compile: bool = False,
    **options: Any,
) -> BlockMask:
    """Return a :class:`BlockMask` made of a function of batch, head, query and key index.

    ``None`` for ``B`` or ``H`` makes one mask for all; the device is the default one where none is given.

    Args:
        mask_mod: From batch, head, query and key indices to a bool: whether the query sees the key.
        B: The batch; None: 1.
        H: The heads; None: 1.
        Q_LEN: The number of queries.
        KV_LEN: The number of keys.
        device: Where the mask is made; None: the default device.
        BLOCK_SIZE: Accepted for compatibility: blocks are the kernels' own.
    """
    if not callable(mask_mod):
        raise AssertionError(f"create_block_mask requires mask_mod to be a mask function. Got {mask_mod}")
    sizes = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else tuple(BLOCK_SIZE)
    return BlockMask(mask_mod, (B or 1, H or 1, Q_LEN, KV_LEN), sizes, device)


def _check(query: Tensor, key: Tensor, value: Tensor, mask: BlockMask | None, enable_gqa: bool) -> None:
    if not query.ndim == key.ndim == value.ndim == 4:
        raise NotImplementedError("NYI: query, key, and value must be 4D tensors")
    if not enable_gqa and query.shape[-3] != key.shape[-3]:
        raise ValueError(
            f"Expect query and key/value to have the same number of heads but got Hq={query.shape[-3]} and "
            f"Hkv={key.shape[-3]}. "
            "Try setting enable_gqa=True for GQA."
        )
    if mask is not None and mask.seq_lengths != (query.shape[-2], key.shape[-2]):
        raise ValueError(
            f"block_mask was created for block_mask.shape={mask.shape} but got q_len={query.shape[-2]} and "
            f"kv_len={key.shape[-2]}."
        )


def flex_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score_mod: Score | None = None,
    block_mask: BlockMask | None = None,
    scale: float | None = None,
    enable_gqa: bool = False,
    return_lse: bool = False,
    kernel_options: dict[str, Any] | None = None,
    *,
    return_aux: AuxRequest | None = None,
) -> Any:
    """Attention with changed scores: softmax over keys of ``score_mod(q @ k * scale, b, h, q_idx, kv_idx)``, times the
    values.

    Args:
        query: Shape (B, Hq, L, E).
        key: Shape (B, Hkv, S, E).
        value: Shape (B, Hkv, S, Ev).
        score_mod: Gives new scores from scores and indices; see the module for how it is called.
        block_mask: Which queries see which keys; a query that sees none gives zeros.
        scale: Factor of the scores, 1 / sqrt(E) by default.
        enable_gqa: Let groups of query heads share a head of keys and values.
        return_lse: Return the logarithm of the sum of exponentials of the scores, (B, Hq, L), as well.
        kernel_options: Accepted for compatibility.
        return_aux: Return an :class:`AuxOutput` with the requested results as well.
    """
    _check(query, key, value, block_mask, enable_gqa)
    mask = None if block_mask is None else block_mask._dense()
    if score_mod is None and not return_lse and return_aux is None:
        return F.scaled_dot_product_attention(query, key, value, attn_mask=mask, scale=scale, enable_gqa=enable_gqa)
    if enable_gqa:
        shared = query.shape[1] // key.shape[1]
        key, value = key.repeat_interleave(shared, 1), value.repeat_interleave(shared, 1)
    scores = (query @ key.transpose(-2, -1)).to(promote_types(query.dtype, _C.float32)) * (
        query.shape[-1] ** -0.5 if scale is None else scale
    )
    if score_mod is not None:
        scores = score_mod(scores, *_indices(tuple(scores.shape), query.device))
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    highest = scores.amax(-1, keepdim=True)
    unseen = highest == -math.inf
    weights = scores.softmax(-1).masked_fill(unseen, 0.0)
    output = weights.to(value.dtype) @ value
    lse = scores.logsumexp(-1)
    if return_aux is not None:
        return output, AuxOutput(
            lse if return_aux.lse else None, highest.squeeze(-1) if return_aux.max_scores else None
        )
    return (output, lse) if return_lse else output
