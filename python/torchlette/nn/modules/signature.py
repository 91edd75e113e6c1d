"""The signature of a module that is called."""

from __future__ import annotations

from typing import Any

__all__ = ["AnyArguments"]


class AnyArguments:
    """The signature of a module as a callable, for :func:`inspect.signature`; that of the class is another one."""

    def __get__(self, module: object | None, cls: type) -> Any:
        if module is None:
            return None
        import inspect

        kinds = (("args", inspect.Parameter.VAR_POSITIONAL), ("kwargs", inspect.Parameter.VAR_KEYWORD))
        return inspect.Signature([inspect.Parameter(name, kind) for name, kind in kinds])
