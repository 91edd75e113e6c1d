"""Wrappers for several devices; they use the one device that there is."""

from __future__ import annotations

from typing import Any

from torchlette import Tensor, cat
from torchlette.nn.modules.module import Module

__all__ = [
    "DataParallel",
    "DistributedDataParallel",
    "data_parallel",
    "gather",
    "replicate",
    "scatter",
    "scatter_kwargs",
]


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
        """Return the module's result."""
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


def scatter(inputs: Any, target_gpus: Any, dim: int = 0) -> list[Any]:
    """Return ``[inputs]``, since there is one device.

    Args:
        inputs: Tensors, also nested.
        target_gpus: Accepted for compatibility.
        dim: Accepted for compatibility: nothing is split.
    """
    return [inputs]


def scatter_kwargs(inputs: Any, kwargs: Any, target_gpus: Any, dim: int = 0) -> tuple[Any, Any]:
    """Return the positional arguments for each device, a tuple, and the keyword arguments, a tuple.

    Args:
        inputs: The positional arguments.
        kwargs: The keyword arguments; None for none.
        target_gpus: Accepted for compatibility.
        dim: Accepted for compatibility: nothing is split.
    """
    return (tuple(inputs),), (dict(kwargs or {}),)


def gather(outputs: Any, target_device: Any, dim: int = 0) -> Any:
    """Join what the devices have computed: tensors along ``dim``, and the tensors of nests with each other.

    Args:
        outputs: Results of the same structure, one for each device.
        target_device: Accepted for compatibility.
        dim: The dimension to join.
    """
    first = outputs[0]
    if isinstance(first, Tensor):
        return first if len(outputs) == 1 else cat([o if o.dim() else o.unsqueeze(0) for o in outputs], dim)
    if first is None:
        return None
    if isinstance(first, dict):
        return type(first)((key, gather([o[key] for o in outputs], target_device, dim)) for key in first)
    parts = (gather(part, target_device, dim) for part in zip(*outputs, strict=True))
    return type(first)(*parts) if hasattr(first, "_fields") else type(first)(parts)


def replicate(network: Module, devices: Any, detach: bool = False) -> list[Module]:
    """Return ``[network]``, since there is one device.

    Args:
        network: The module.
        devices: Accepted for compatibility.
        detach: Accepted for compatibility.
    """
    return [network]


class DistributedDataParallel(Module):
    """Raises: process groups are not supported."""

    def __init__(self, module: Module, *args: Any, **kwargs: Any) -> None:
        """Raise."""
        super().__init__()
        raise NotImplementedError(
            "DistributedDataParallel is not supported: one process drives one device: use the module itself"
        )
