"""Changes of shape."""

from __future__ import annotations

from collections.abc import Sequence

from torchlette import _C
from torchlette.nn.modules.module import Module

__all__ = ["Flatten", "Unflatten"]


class Flatten(Module):
    """Merge the dimensions ``start_dim`` to ``end_dim`` into one."""

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        """Choose the dimensions; the default keeps the batch."""
        super().__init__()
        self.start_dim = start_dim
        self.end_dim = end_dim

    def forward(self, input: _C.Tensor) -> _C.Tensor:
        """Flatten ``input``."""
        return input.flatten(self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        """Show the dimensions."""
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """Split the dimension ``dim`` into several of the sizes ``unflattened_size``."""

    def __init__(self, dim: int, unflattened_size: Sequence[int]) -> None:
        """Check the sizes."""
        super().__init__()
        if not isinstance(dim, int):
            raise TypeError(f"Unflatten: dim is wrong: got {type(dim).__name__}, want int")
        if not isinstance(unflattened_size, (tuple, list)):
            raise TypeError(
                f"unflattened_size must be a tuple of ints, but found type {type(unflattened_size).__name__}"
            )
        for i, size in enumerate(unflattened_size):
            if not isinstance(size, int):
                raise TypeError(
                    f"unflattened_size must be tuple of ints, but found element of type {type(size).__name__} at pos "
                    f"{i}"
                )
        self.dim = dim
        self.unflattened_size = unflattened_size

    def forward(self, input: _C.Tensor) -> _C.Tensor:
        """Unflatten ``input``."""
        return input.unflatten(self.dim, self.unflattened_size)

    def extra_repr(self) -> str:
        """Show the sizes."""
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"
