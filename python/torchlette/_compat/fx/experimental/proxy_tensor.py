"""``torch.fx.experimental.proxy_tensor``: packages ask whether a trace of operators runs; none does."""

from __future__ import annotations

__all__ = ["get_proxy_mode"]


def get_proxy_mode() -> None:
    """Return the mode that traces operators: None."""
    return None
