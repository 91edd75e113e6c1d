"""Names of memory layouts. Tensors are row-major: a memory format is accepted where PyTorch takes one, and changes
nothing.
"""

from __future__ import annotations

__all__ = [
    "channels_last",
    "channels_last_3d",
    "contiguous_format",
    "layout",
    "memory_format",
    "preserve_format",
    "sparse_bsc",
    "sparse_bsr",
    "sparse_coo",
    "sparse_csc",
    "sparse_csr",
    "strided",
]


class memory_format:
    """An order of dimensions in memory, as an argument; results are row-major whatever it is."""

    __module__ = "torchlette"

    def __init__(self, name: str) -> None:
        """Name the format."""
        self._name = name

    def __repr__(self) -> str:
        return f"torch.{self._name}"


class layout:
    """How a tensor is stored. Every tensor is ``strided``; the others are names for comparisons."""

    __module__ = "torchlette"

    def __init__(self, name: str) -> None:
        """Name the layout."""
        self._name = name

    def __repr__(self) -> str:
        return f"torch.{self._name}"


contiguous_format = memory_format("contiguous_format")
preserve_format = memory_format("preserve_format")
channels_last = memory_format("channels_last")
channels_last_3d = memory_format("channels_last_3d")
strided = layout("strided")
sparse_coo, sparse_csr, sparse_csc = layout("sparse_coo"), layout("sparse_csr"), layout("sparse_csc")
sparse_bsr, sparse_bsc = layout("sparse_bsr"), layout("sparse_bsc")
