"""Wrappers for several devices; they use the one device that there is."""

from __future__ import annotations

from typing import Any

from torchlette.nn.modules.module import Module

__all__ = ["DataParallel", "DistributedDataParallel", "data_parallel"]


class DataParallel(Module):
    """Calls ``module`` on the one device, as PyTorch does without CUDA; state keys begin with ``module.``.

    Args:
        module: The module to call.
        device_ids: The devices: None or one.
        output_device: Accepted for compatibility.
        dim: Accepted for compatibility: the batch is not split.
    """

    def __init__(self, module: Module, device_ids: Any = None, output_device: Any = None, dim: int = 0) -> None:
        """Keep the module."""
        super().__init__()
        self.module = module
        self.device_ids: list[int] = []
        self.dim = dim

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """Return what the module returns."""
        return self.module(*inputs, **kwargs)


def data_parallel(
    module: Module,
    inputs: Any,
    device_ids: Any = None,
    output_device: Any = None,
    dim: int = 0,
    module_kwargs: Any = None,
) -> Any:
    """Call ``module`` on the one device.

    Args:
        module: The module to call.
        inputs: Its arguments, a tuple.
        device_ids: The devices: None or one.
        output_device: Accepted for compatibility.
        dim: Accepted for compatibility: the batch is not split.
        module_kwargs: Its keyword arguments.
    """
    return module(*(inputs if isinstance(inputs, tuple) else (inputs,)), **(module_kwargs or {}))


class DistributedDataParallel(Module):
    """Raises: process groups are not supported."""

    def __init__(self, module: Module, *args: Any, **kwargs: Any) -> None:
        """Raise."""
        super().__init__()
        raise NotImplementedError(
            "DistributedDataParallel is not supported: one process drives one device: use the module itself"
        )
