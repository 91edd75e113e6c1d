"""Construction without initial values."""

from __future__ import annotations

import inspect
from typing import Any

__all__ = ["skip_init"]


def skip_init(module_cls: type, *args: Any, **kwargs: Any) -> Any:
    """Construct a module with uninitialised parameters and buffers.

    Args:
        module_cls: Its class, whose constructor takes ``device``.
        args: Arguments of the constructor.
        kwargs: Keyword arguments, among which ``device`` says where the tensors go.
    """
    if "device" not in inspect.signature(module_cls).parameters:
        raise RuntimeError("Module must support a 'device' arg to skip initialization")
    device = kwargs.pop("device", "cpu")
    return module_cls(*args, **kwargs, device=device).to_empty(device=device)
