"""Names for packages that describe their operators to PyTorch's ONNX exporter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["parse_args"]


def parse_args(*kinds: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that gives back its function, which no exporter calls."""
    return lambda function: function
