"""Names of tensors that are spread over processes: one process drives one device here, so that none is."""

from __future__ import annotations

from typing import Any, NoReturn

from torchlette._runtime.errors import NotSupportedError

__all__ = ["DTensor"]


class DTensor:
    """A tensor that several processes hold parts of. No tensor is an instance, and creating one raises."""

    def __new__(cls, *args: Any, **kwargs: Any) -> NoReturn:
        """Raise: one process holds a tensor."""
        raise NotSupportedError("DTensor: one process drives one device: use a tensor, and a process for each device")

    from_local = classmethod(__new__)
