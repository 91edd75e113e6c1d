"""``torch._subclasses.fake_tensor``: packages ask whether a tensor is fake; none is."""

from __future__ import annotations

from typing import Any

__all__ = ["FakeTensor", "FakeTensorMode", "is_fake"]


class FakeTensor:
    """The class of fake tensors, of which there are none: for ``isinstance``."""


class FakeTensorMode:
    """Raises: ``with torch.device("meta")`` gives tensors with a shape and without values."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Raise."""
        raise NotImplementedError(
            'FakeTensorMode is not supported: with torch.device("meta") gives tensors with a shape and without values'
        )


def is_fake(x: object) -> bool:
    """Return False: no tensor is fake."""
    return False
