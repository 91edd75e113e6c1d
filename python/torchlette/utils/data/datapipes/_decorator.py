"""The decorator that makes a class of pipes a method of pipes."""

from __future__ import annotations

from typing import Any

from torchlette.utils.data.datapipes.datapipe import IterDataPipe, MapDataPipe

__all__ = ["functional_datapipe"]


class functional_datapipe:
    """Makes a class, whose first argument is a pipe, a method of all pipes of its kind.

    Args:
        name: The method's name.
        enable_df_api_tracing: Accepted for compatibility.
    """

    def __init__(self, name: str, enable_df_api_tracing: bool = False) -> None:
        """Keep the name."""
        self.name = name

    def __call__(self, cls: Any) -> Any:
        for kind in (IterDataPipe, MapDataPipe):
            if issubclass(cls, kind):
                kind.register_datapipe_as_function(self.name, cls)
        return cls
