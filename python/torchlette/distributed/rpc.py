"""Calls of functions in other processes, of which there are none."""

from __future__ import annotations

from typing import Any, NoReturn

__all__ = ["init_rpc", "is_available", "remote", "rpc_async", "rpc_sync", "shutdown"]


def is_available() -> bool:
    """Return ``False``."""
    return False


def init_rpc(*args: Any, **kwargs: Any) -> NoReturn:
    """Raise: one process drives one device."""
    raise NotImplementedError("distributed.rpc is not supported: one process drives one device")


remote = rpc_async = rpc_sync = shutdown = init_rpc
