"""``torch.functional``: the functions that PyTorch writes in Python. Here they are the package's own."""

from __future__ import annotations

import torchlette

__all__ = (
    "atleast_1d atleast_2d atleast_3d block_diag broadcast_shapes broadcast_tensors cartesian_prod cdist chain_matmul "
    "einsum istft lu meshgrid norm pca_lowrank split stft svd_lowrank tensordot unique unique_consecutive unravel_index"
).split()


def __getattr__(name: str) -> object:
    """Return the package's function."""
    if name in __all__:
        return getattr(torchlette, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
