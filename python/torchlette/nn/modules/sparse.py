"""Lookup tables."""

from __future__ import annotations

from typing import Any

from torchlette import _C
from torchlette.autograd import no_grad
from torchlette.nn import functional as F
from torchlette.nn import init
from torchlette.nn.modules.module import Module
from torchlette.nn.parameter import Parameter

__all__ = ["Embedding", "EmbeddingBag"]


def _options(module: Any) -> str:
    """Return the options of a table that differ from their defaults, as ``repr`` shows them."""
    text = "" if module.max_norm is None else f", max_norm={module.max_norm}"
    if module.norm_type != 2:
        text += f", norm_type={module.norm_type}"
    if module.scale_grad_by_freq:
        text += f", scale_grad_by_freq={module.scale_grad_by_freq}"
    return text


class Embedding(Module):
    """Rows of a table, looked up by index.

    Args:
        num_embeddings: Number of rows.
        embedding_dim: Size of a row.
        padding_idx: A row that starts at zero and receives no gradient.
        max_norm: Scale rows down to this norm when they are looked up.
        norm_type: The order of that norm.
        scale_grad_by_freq: Divide the gradient of a row by how often it is looked up.
        sparse: Accepted; gradients are dense.
        _weight: Initial table.
        _freeze: Whether the table is left out of training.
        device: Device of the table.
        dtype: Dtype of the table.
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        _weight: _C.Tensor | None = None,
        _freeze: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        """Make and initialise the table."""
        super().__init__()
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        if padding_idx is not None:
            if not -num_embeddings <= padding_idx < num_embeddings:
                raise AssertionError("Padding_idx must be within num_embeddings")
            padding_idx %= num_embeddings
        self.padding_idx = padding_idx
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self.sparse = sparse
        if _weight is None:
            self.weight = Parameter(
                _C.empty((num_embeddings, embedding_dim), device=device, dtype=dtype), requires_grad=not _freeze
            )
            self.reset_parameters()
        else:
            if list(_weight.shape) != [num_embeddings, embedding_dim]:
                raise AssertionError("Shape of weight does not match num_embeddings and embedding_dim")
            self.weight = Parameter(_weight, requires_grad=not _freeze)

    @classmethod
    def from_pretrained(
        cls,
        embeddings: _C.Tensor,
        freeze: bool = True,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
    ) -> Embedding:
        """Make a table from a matrix.

        Args:
            embeddings: The table, [rows, features].
            freeze: Whether the table is excluded from training.
            padding_idx: The row that gets no gradient; None for none.
            max_norm: Rows looked up are scaled to at most this norm; None for none.
            norm_type: The order of that norm.
            scale_grad_by_freq: Whether to divide gradients by how often a row was looked up.
            sparse: Accepted for compatibility: gradients are dense.
        """
        if embeddings.ndim != 2:
            raise AssertionError("Embeddings parameter is expected to be 2-dimensional")
        rows, columns = embeddings.shape
        return cls(
            rows,
            columns,
            padding_idx,
            max_norm,
            norm_type,
            scale_grad_by_freq,
            sparse,
            _weight=embeddings,
            _freeze=freeze,
        )

    def reset_parameters(self) -> None:
        """Draw the table from N(0, 1) and zero the padding row."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            with no_grad():
                self.weight[self.padding_idx].fill_(0)

    def forward(self, input: _C.Tensor) -> _C.Tensor:
        """Return the rows at the indices ``input``."""
        return F.embedding(
            input, self.weight, self.padding_idx, self.max_norm, self.norm_type, self.scale_grad_by_freq, self.sparse
        )

    def extra_repr(self) -> str:
        """Show the sizes and the options that differ from their defaults."""
        text = f"{self.num_embeddings}, {self.embedding_dim}"
        if self.padding_idx is not None:
            text += f", padding_idx={self.padding_idx}"
        text += _options(self)
        return f"{text}, sparse=True" if self.sparse else text


class EmbeddingBag(Module):
    """Sums, means or maxima of rows of a table, one for each bag of indices.

    Args:
        num_embeddings: Number of rows.
        embedding_dim: Size of a row.
        max_norm: Scale rows down to this norm when they are looked up.
        norm_type: The order of that norm.
        scale_grad_by_freq: Divide the gradient of a row by how often it is looked up; not for maxima.
        mode: "sum", "mean" or "max".
        sparse: Accepted; gradients are dense.
        _weight: Initial table.
        include_last_offset: Whether the last offset is the end of the last bag.
        padding_idx: An index that counts for nothing and whose row gets no gradient.
        device: Device of the table.
        dtype: Dtype of the table.
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        _weight: _C.Tensor | None = None,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        """Make and initialise the table."""
        super().__init__()
        table = Embedding(num_embeddings, embedding_dim, padding_idx, _weight=_weight, device=device, dtype=dtype)
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.padding_idx = table.padding_idx
        self.max_norm, self.norm_type, self.scale_grad_by_freq, self.sparse = (
            max_norm,
            norm_type,
            scale_grad_by_freq,
            sparse,
        )
        self.weight = table.weight
        self.mode = mode
        self.include_last_offset = include_last_offset

    @classmethod
    def from_pretrained(
        cls,
        embeddings: _C.Tensor,
        freeze: bool = True,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
    ) -> EmbeddingBag:
        """Make a table from a matrix.

        Args:
            embeddings: The table, [rows, features].
            freeze: Whether the table is excluded from training.
            max_norm: Rows looked up are scaled to at most this norm; None for none.
            norm_type: The order of that norm.
            scale_grad_by_freq: Whether to divide gradients by how often a row was looked up.
            mode: "sum", "mean" or "max" of the rows of a bag.
            sparse: Accepted for compatibility: gradients are dense.
            include_last_offset: Whether ``offsets`` ends with the number of indices.
            padding_idx: The row that gets no gradient; None for none.
        """
        if embeddings.ndim != 2:
            raise AssertionError("Embeddings parameter is expected to be 2-dimensional")
        rows, columns = embeddings.shape
        made = cls(
            rows,
            columns,
            max_norm,
            norm_type,
            scale_grad_by_freq,
            mode,
            sparse,
            embeddings,
            include_last_offset,
            padding_idx,
        )
        made.weight.requires_grad_(not freeze)
        return made

    def forward(
        self, input: _C.Tensor, offsets: _C.Tensor | None = None, per_sample_weights: _C.Tensor | None = None
    ) -> _C.Tensor:
        """Return [bags, embedding_dim]; see :func:`torchlette.nn.functional.embedding_bag`.

        Args:
            input: Indices, [bags, indices] or all bags in one vector.
            offsets: Where each bag begins in a vector.
            per_sample_weights: Factors of the rows, with mode "sum".
        """
        return F.embedding_bag(
            input,
            self.weight,
            offsets,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.mode,
            self.sparse,
            per_sample_weights=per_sample_weights,
            include_last_offset=self.include_last_offset,
            padding_idx=self.padding_idx,
        )

    def extra_repr(self) -> str:
        """Show the sizes and the options."""
        text = f"{self.num_embeddings}, {self.embedding_dim}{_options(self)}, mode={self.mode!r}"
        return text if self.padding_idx is None else f"{text}, padding_idx={self.padding_idx}"
