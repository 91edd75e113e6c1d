"""``torch.distributed.optim``: optimizers of several processes, which there are not."""

from __future__ import annotations

from typing import Any

from torchlette.optim.optimizer import Optimizer

__all__ = ["DistributedOptimizer", "PostLocalSGDOptimizer", "ZeroRedundancyOptimizer"]


class ZeroRedundancyOptimizer(Optimizer):
    """Raises: there is one process. The class is for ``isinstance``."""

    def __init__(self, params: Any, optimizer_class: Any, **kwargs: Any) -> None:
        """Raise."""
        raise NotImplementedError(
            f"{type(self).__name__} is not supported: there is one process: use {optimizer_class.__name__} itself"
        )


class PostLocalSGDOptimizer(ZeroRedundancyOptimizer):
    """Raises: there is one process. The class is for ``isinstance``."""


class DistributedOptimizer(ZeroRedundancyOptimizer):
    """Raises: there is one process. The class is for ``isinstance``."""
