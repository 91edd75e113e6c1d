"""The context in which PyTorch's ``vmap`` takes ``x[i]`` with a tensor ``i`` as an operator."""

from __future__ import annotations

import contextlib

__all__ = ["TransformGetItemToIndex"]


class TransformGetItemToIndex(contextlib.nullcontext[None]):
    """Changes nothing: an index that is a tensor is never read here, also inside of ``vmap``."""
